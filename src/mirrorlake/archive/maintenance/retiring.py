"""Retiring the old end of a partition: a floor first, then whatever ends at or below it.

Order of effects: 1. look, and read what the newest segment says of itself; 2. announce the floor, and read the holds
(`holds`); 3. create the floor if absent, no higher than they allow; 4. withdraw the announcement; 5. look again, and
delete what that shows below the floor; 6. delete lower floors, descriptions of what is gone, and announcements that
decide nothing any more. A crash anywhere leaves a chain that every reader knows how to read, and the next run goes on
from it.
"""

import contextlib
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.maintenance.cleaning import (
    Cleaned,
    delete_orphaned_descriptions,
    delete_retired,
    finished_merges,
)
from mirrorlake.archive.maintenance.holds import announced, is_live
from mirrorlake.archive.maintenance.look import FolderLook, look_at
from mirrorlake.archive.maintenance.retain_plan import allowed_floor
from mirrorlake.archive.names import RetireName, floor_name
from mirrorlake.archive.newest import newest_footer
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.clock import SystemClock
from mirrorlake.stores.object_store import ObjectExistsError, ObjectMissingError


@dataclass(frozen=True, slots=True, kw_only=True)
class Retired:
    """What became of one partition: its floor, and what was deleted."""

    floor: int
    cleaned: Cleaned


def retire(
    archived: ArchivedPartition,
    floor: int,
    *,
    now_seconds: float,
    token: str | None = None,
    believe: Callable[[ArchivedPartition, Segment], object] = newest_footer,
) -> Retired:
    """Retires whatever ends at or below ``floor``, as far as a look at the folder allows it. Idempotent.

    Safe beside writers, readers, mergers, other retention, and who places a hold.

    Args:
        archived: the partition.
        floor: as it was planned; never more goes, and less where the chain, a merger or a hold stands against it.
        now_seconds: the wall clock, in Unix seconds.
        token: of this run alone; None for a random one. See `RetireName`.
        believe: raises where the newest segment is not what its name says.

    Raises:
        ChainBrokenError: what is there is no chain, or the newest file is not what its name says; nothing was deleted.
        MirrorlakeError: the store could not be read, or refuses; the next run goes on.
    """
    look = look_at(archived)
    allowed = allowed_floor(look, floor, now_seconds=now_seconds)
    if allowed > look.floor:
        if look.newest is not None:
            # By its name it ends behind all that goes; were that not so, the real newest one would go with the rest.
            believe(archived, look.newest)
        elapsed_seconds, token = SystemClock().elapsed_seconds, token or uuid.uuid4().hex
        with announced(archived.store, archived.prefix, allowed, token=token, elapsed_seconds=elapsed_seconds) as holds:
            held = holds.held_from(archived.partition, floor=look.floor)
            allowed = allowed_floor(look, allowed, now_seconds=now_seconds, held=held)
            if allowed > look.floor:
                # Somebody else's is as good.
                with contextlib.suppress(ObjectExistsError):
                    archived.store.create(f"{archived.prefix}/{floor_name(allowed)}", b"")
    look = look_at(archived)
    cleaned = delete_retired(archived, look)
    for lower in look.floors:
        if lower < look.floor:
            archived.store.delete(f"{archived.prefix}/{floor_name(lower)}")
    for name in finished_merges(look):
        archived.store.delete(f"{archived.prefix}/{name}")
    for announcement in _settled(look, now_seconds=now_seconds):
        archived.store.delete(f"{archived.prefix}/{announcement}")
    delete_orphaned_descriptions(archived, look, gone=look.retired)
    return Retired(floor=look.floor, cleaned=cleaned)


def has_leftovers(look: FolderLook, *, now_seconds: float) -> bool:
    """Tells whether `retire` has to delete what other runs left, also where no segment goes."""
    return len(look.floors) > 1 or any(_settled(look, now_seconds=now_seconds))


def _settled(look: FolderLook, *, now_seconds: float) -> Iterator[RetireName]:
    """Yields the announcements whose floor is there, or whose run is dead."""
    times = look.retire_times or (None,) * len(look.retiring)
    for name, time in zip(look.retiring, times, strict=True):
        if name.offset <= look.floor or not is_live(time, now_seconds):
            yield name


def time_of_newest_record(archived: ArchivedPartition, segment: Segment, *, now_seconds: float) -> float | None:
    """Returns when the newest record of a segment was made, in Unix seconds; None where nobody knows.

    As with `retention.ms`, a record's own timestamp counts. Only where that lies in the future, or no record has one,
    the file's time does: files get wrong times more easily, by a clock that was not set yet or a copy put back.

    Raises:
        ChainBrokenError: it is damaged.
        MirrorlakeError: it could not be read.
    """
    try:
        with open_segment(archived.store, f"{archived.prefix}/{segment.name}") as reader:
            footer = reader.footer
    except ObjectMissingError:
        return None  # merged or retired meanwhile: the next run sees what it became
    highest = footer.timestamp_ms_max if footer is not None else None
    if highest is not None and 0 < highest / 1000 <= now_seconds:
        return highest / 1000
    return segment.modified_seconds
