"""Which offset is meant where none is said: where `start` has a copy begin, an end of the source, or a time."""

from collections.abc import Sequence
from dataclasses import dataclass

from mirrorlake.clock import SystemClock
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.map.start import find_start
from mirrorlake.errors import MirrorlakeError, RangeUnknownError
from mirrorlake.kinds.registry import kind_of
from mirrorlake.service.positions.files import Fault
from mirrorlake.service.positions.listing import is_unread, name_of
from mirrorlake.service.positions.moves import Wish
from mirrorlake.service.status import StatusRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Where `reset` is to set positions, at most one of these; without any, to where `start` has the copy begin.

    ``timestamp_ms`` means the first record of that time or later, and the source's end where there is none.
    """

    is_earliest: bool = False
    is_latest: bool = False
    offset: int | None = None
    timestamp_ms: int | None = None


async def find_starts(wishes: Sequence[Wish], clients: WorkerCache) -> dict[int, int | str]:
    """Returns where `start` has the copy begin of rows whose position is to be forgotten, by the row's identity.

    A text says why it is not known.
    """
    found: dict[int, int | str] = {}
    for wish in wishes:
        target = wish.row.target
        if wish.offset is not None or is_unread(wish.row) or kind_of(target.destination).immovable(target) is not None:
            continue
        try:
            found[id(wish.row)] = await find_start(
                target.source_work.log(target.source, clients),
                target.map_start,
                now_seconds=SystemClock().now_seconds(),
            )
        except MirrorlakeError as error:
            found[id(wish.row)] = f"where `start` has it begin is not known: {error}"
    return found


async def wishes_for(rows: Sequence[StatusRow], goal: Goal, clients: WorkerCache) -> tuple[list[Wish], list[Fault]]:
    """Returns what `reset` asks for, of each row; rows without the offset meant are faults.

    So are those that are not moved, each topic once: it is said of a destination, not of its partitions.
    """
    wishes: list[Wish] = []
    faults: list[Fault] = []
    refused: set[tuple[str, str]] = set()
    for row in rows:
        target = row.target
        try:
            if is_unread(row):
                faults.append(_fault(row, f"where it stands could not be read: {row.error}"))
            elif (immovable := kind_of(target.destination).immovable(target)) is not None:
                place = name_of(target), target.source.topic
                faults += [] if place in refused else [_fault(row, str(immovable))]
                refused.add(place)
            else:
                wishes.append(Wish(row=row, offset=await _goal_of(row, goal, clients)))
        except MirrorlakeError as error:
            faults.append(_fault(row, str(error)))
    return wishes, faults


async def _goal_of(row: StatusRow, goal: Goal, clients: WorkerCache) -> int | None:
    """Returns the offset meant, None where the position is to be forgotten."""
    source, start, end = row.target.source, row.source_start, row.source_end
    if not goal.is_earliest and not goal.is_latest and goal.timestamp_ms is None:
        return goal.offset
    if start is None or end is None:
        raise RangeUnknownError(f"where {source} begins and ends could not be read: {row.error}")
    if goal.timestamp_ms is None:
        return start if goal.is_earliest else end
    found = await row.target.source_work.log(source, clients).offset_at(goal.timestamp_ms)
    return end if found is None else found


def _fault(row: StatusRow, text: str) -> Fault:
    return Fault(line=0, text=f"{name_of(row.target)} {row.target.source}: {text}")
