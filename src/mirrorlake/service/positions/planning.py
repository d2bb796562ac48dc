"""What an import or a reset would do, as everything stands now, and doing it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from mirrorlake.clock import SystemClock
from mirrorlake.config.resolved import Configuration
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.service.positions.files import Fault, FileFormat, read_lines
from mirrorlake.service.positions.listing import Wanted
from mirrorlake.service.positions.moves import Move, Wish, judged, wishes_of
from mirrorlake.service.positions.moving import Moved, move_all
from mirrorlake.service.positions.starts import Goal, find_starts, wishes_for
from mirrorlake.service.status import read_rows
from mirrorlake.stores.crash_points import CrashPoint, no_crash
from mirrorlake.topics.discovery import find_targets
from mirrorlake.topics.targets import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The moves that are to be made, or every fault that stands against it: never both.

    ``targets`` are all of the configuration, as they were found.
    """

    moves: Sequence[Move] = ()
    faults: Sequence[Fault] = ()
    targets: Sequence[Target] = field(default=(), repr=False)


async def plan_of_file(config: Configuration, content: bytes, form: FileFormat, wanted: Wanted) -> Planned:
    """Returns what a file asks for, all of it checked. Reads only.

    Args:
        config: of the mirrors.
        content: of the file.
        form: of the file.
        wanted: lines of other mirrors, destinations, topics or partitions are checked to be some, and passed over.
    """
    lines, faults = read_lines(content, form)
    if not lines and not faults:
        return Planned(faults=[Fault(line=0, text="the file has no line that says a position")])
    clients = WorkerCache()
    try:
        targets = await find_targets(config, clients)
        rows = await read_rows(targets, clients)
        wishes, unknown = wishes_of(lines, rows)
        wishes = [wish for wish in wishes if wanted.includes(wish.row.target)]
        return await _planned(wishes, [*faults, *unknown], targets, clients)
    finally:
        await clients.close()


async def plan_of_goal(config: Configuration, goal: Goal, wanted: Wanted) -> Planned:
    """Returns what moving all wanted rows to a goal would do. Reads only."""
    clients = WorkerCache()
    try:
        targets = await find_targets(config, clients)
        rows = [row for row in await read_rows(targets, clients) if wanted.includes(row.target)]
        if not rows:
            return Planned(faults=[Fault(line=0, text="nothing is copied of what was asked for")])
        wishes, faults = await wishes_for(rows, goal, clients)
        return await _planned(wishes, faults, targets, clients)
    finally:
        await clients.close()


async def _planned(
    wishes: Sequence[Wish], faults: Sequence[Fault], targets: Sequence[Target], clients: WorkerCache
) -> Planned:
    starts = await find_starts(wishes, clients)
    verdicts = [judged(wish, starts) for wish in wishes]
    faults = [*faults, *(each for each in verdicts if isinstance(each, Fault))]
    moves = [each for each in verdicts if isinstance(each, Move)]
    return Planned(faults=faults) if faults else Planned(moves=moves, targets=targets)


async def carry_out(config: Configuration, planned: Planned, *, crash_point: CrashPoint = no_crash) -> Moved:
    """Makes the moves that were planned; see `moving`. A position that has moved since is left as it is."""
    clients = WorkerCache()
    try:
        return await move_all(
            planned.moves, planned.targets, config, clients, clock=SystemClock(), crash_point=crash_point
        )
    finally:
        await clients.close()
