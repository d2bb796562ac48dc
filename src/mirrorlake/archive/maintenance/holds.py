"""Holds: what of an archive must stay, whatever retention is told; each is an object in the topic's folder.

Its name says all, so that a hold whose content is lost is kept all the same, and a name that nobody can read holds the
whole topic. So that none is passed by who looked before it was there, both sides write first and look then:

- who retires announces the floor (`RetireName`), then reads the holds, then writes the floor, then withdraws;
- who holds creates the hold, then waits for announcements of floors above it to be gone, then reads the floor.

Of a run of retention that read the holds too early the announcement is seen; when it is gone, the floor is there to be
read, or never will be. That of a dead run stays: an hour later nobody writes its floor any more. An eraser announces
what it is about to publish before it reads the holds, so it is waited for in the same way.
"""

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from mirrorlake.archive.chain import floor_of
from mirrorlake.archive.maintenance.look import overlap
from mirrorlake.archive.maintenance.retain_plan import HeldFrom
from mirrorlake.archive.marker_content import decode_marker, encode_marker, time_of
from mirrorlake.archive.names import (
    ERASE_PREFIX,
    FLOOR_PREFIX,
    HOLD_PREFIX,
    RETIRE_PREFIX,
    HoldName,
    RetireName,
    parse_hold_name,
    parse_merge_name,
    parse_retire_name,
)
from mirrorlake.clock import Clock
from mirrorlake.errors import ChainBrokenError, MirrorlakeError, PositionMovedError
from mirrorlake.offsets import OffsetRange
from mirrorlake.stores.object_store import ObjectExistsError, ObjectStore

RETIRE_SECONDS_MAX = 3600.0
"""Age at which an announcement is taken for a dead run's: from there to the floor are two requests, and a run that has
waited for half of this withdraws."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """The holds of one topic's folder; ``unreadable`` are names that begin as theirs do and say nothing else."""

    names: tuple[HoldName, ...] = ()
    unreadable: tuple[str, ...] = ()

    def labels(self, partition: int) -> tuple[str, ...]:
        """Returns what the holds that concern a partition are called, in order; names nobody can read among them."""
        return (*sorted({hold.label for hold in self.names if hold.concerns(partition)}), *self.unreadable)

    def holding(self, partition: int, offsets: OffsetRange) -> tuple[str, ...]:
        """Returns what the holds are called that hold any offset of a range, in order."""
        found = {
            hold.label
            for hold in self.names
            if hold.concerns(partition)
            and hold.offsets.start_offset < offsets.end_offset
            and offsets.start_offset < hold.offsets.end_offset
        }
        return (*sorted(found), *self.unreadable)

    def held_from(self, partition: int, *, floor: int) -> HeldFrom | None:
        """Returns the lowest offset of a partition that is held at or above its floor; None where nothing is.

        A range that begins below the floor is held from the floor on: what was retired before is gone.
        """
        if self.unreadable:
            return HeldFrom(offset=floor, label=self.unreadable[0])
        held = [
            HeldFrom(offset=max(hold.offsets.start_offset, floor), label=hold.label)
            for hold in self.names
            if hold.concerns(partition) and hold.offsets.end_offset > floor
        ]
        return min(held, key=lambda each: (each.offset, each.label), default=None)


def topic_folder(prefix: str) -> str:
    """Returns the folder of the topic that a partition's folder lies in."""
    return prefix.rpartition("/")[0]


def read_holds(store: ObjectStore, name: str) -> Holds:
    """Returns the holds in the topic's folder ``name``.

    A folder of such a name is one that nobody can read: a hand made it, as programs for buckets make no empty objects.

    Raises:
        MirrorlakeError: the store could not be read; whoever wants to delete must not then.
    """
    names: list[HoldName] = []
    unreadable = [f"{folder}/" for folder in store.folders(name) if folder.startswith(HOLD_PREFIX)]
    for info in store.list(name, start_after=HOLD_PREFIX[:-1]):
        if info.name.startswith(HOLD_PREFIX):
            hold = parse_hold_name(info.name)
            if hold is None:
                unreadable.append(info.name)
            else:
                names.append(hold)
    return Holds(names=tuple(names), unreadable=tuple(sorted(unreadable)))


def unreadable_hold(where: str, name: str) -> ChainBrokenError:
    """Returns the error of a name that begins as a hold's does in the topic's folder ``where``, and says nothing."""
    return ChainBrokenError(
        f"{where}: {name!r} begins as a hold does, and is none that this version knows",
        hint="all of the topic is held while it is there; a newer mirrorlake may know it, or delete it",
        name=name,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPartition:
    """What a hold that was placed keeps of one partition.

    ``floor`` is below which all had been retired. ``is_certain`` is False where a run of retention is about to retire
    more, or an eraser to erase, and did not end while it was waited for; ``announced`` is up to where.
    """

    partition: int
    floor: int
    is_certain: bool = True
    announced: int = 0


def place_hold(
    store: ObjectStore,
    name: str,
    hold: HoldName,
    partitions: Sequence[int],
    *,
    reason: str,
    clock: Clock,
    wait: Callable[[], bool],
) -> list[HeldPartition]:
    """Places a hold, and returns what it keeps of each partition, once that is certain. Idempotent.

    Args:
        store: of the archive.
        name: the topic's folder.
        hold: what is held.
        partitions: those it concerns that are there.
        reason: for people; what stands in one that is there already stays.
        clock: dates it.
        wait: called while a run of retention is waited for; waits a little, and returns False where enough was waited.

    Raises:
        MirrorlakeError: the store could not be reached, or refuses. Where the hold may be there, do it again.
    """
    content = encode_marker({"reason": reason, "created_at": time_of(clock.now_seconds())})
    # "Exists" may be ours: a store may do the create, lose the answer, and say so to the next attempt.
    with contextlib.suppress(ObjectExistsError):
        store.create(f"{name}/{hold}", content)
    return [_held(store, f"{name}/{each}", each, hold, clock=clock, wait=wait) for each in partitions]


def _held(
    store: ObjectStore, prefix: str, partition: int, hold: HoldName, *, clock: Clock, wait: Callable[[], bool]
) -> HeldPartition:
    while (announced := _announced(store, prefix, hold, now_seconds=clock.now_seconds())) and wait():
        pass
    floor = floor_of(store.list(prefix, start_after=FLOOR_PREFIX))
    return HeldPartition(partition=partition, floor=floor, is_certain=not announced, announced=announced)


def _announced(store: ObjectStore, prefix: str, hold: HoldName, *, now_seconds: float) -> int:
    """Returns up to where retention or an eraser is about to take from what is to be held; 0 where neither is."""
    found = 0
    for info in store.list(prefix, start_after=ERASE_PREFIX):
        if not is_live(info.modified_seconds, now_seconds):
            continue
        retiring, erasing = parse_retire_name(info.name), parse_merge_name(info.name)
        if retiring is not None and retiring.offset > hold.offsets.start_offset:
            found = max(found, retiring.offset)
        elif erasing is not None and erasing.erases and overlap(erasing.offsets, hold.offsets):
            found = max(found, erasing.offsets.end_offset)
    return found


def is_live(announced_seconds: float | None, now_seconds: float) -> bool:
    """Tells whether who announced something at that time may still act on it; None is not known, so it may."""
    return announced_seconds is None or announced_seconds > now_seconds - RETIRE_SECONDS_MAX


def delete_dead_announcements(store: ObjectStore, prefix: str, *, now_seconds: float) -> None:
    """Deletes what dead runs have announced of a partition's folder; nobody acts on it any more. Idempotent.

    Raises:
        MirrorlakeError: the store could not be reached, or refuses.
    """
    for info in tuple(store.list(prefix, start_after=RETIRE_PREFIX[:-1])):
        if parse_retire_name(info.name) is not None and not is_live(info.modified_seconds, now_seconds):
            store.delete(info.key)


@contextmanager
def announced(
    store: ObjectStore, prefix: str, offset: int, *, token: str, elapsed_seconds: Callable[[], float]
) -> Iterator[Holds]:
    """Announces a floor, and gives the holds as they are then; withdraws at the end, but not where that is an error.

    What raised may have had its effect, or may have it yet, so then the announcement goes on warning who holds.

    Args:
        store: of the archive.
        prefix: the partition's folder.
        offset: the floor, or the end of what is deleted.
        token: of this run alone; see `RetireName`.
        elapsed_seconds: a clock that goes on while the machine sleeps.

    Raises:
        PositionMovedError: it took too long to read the holds, so that others may think the announcement a dead one's.
        MirrorlakeError: the store could not be read, or refuses; nothing was done.
    """
    mine = f"{prefix}/{RetireName(offset=offset, token=token)}"
    began = elapsed_seconds()
    with contextlib.suppress(ObjectExistsError):  # ours, of an attempt whose answer was lost
        store.create(mine, b"")
    holds = read_holds(store, topic_folder(prefix))
    if elapsed_seconds() - began > RETIRE_SECONDS_MAX / 2:
        store.delete(mine)
        raise PositionMovedError(f"{prefix}: reading the holds took too long, and nothing was retired")
    yield holds
    store.delete(mine)


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldNote:
    """What stands in a hold, for people; empty where it cannot be read."""

    reason: str = ""
    created_at: str = ""


def read_note(store: ObjectStore, name: str, hold: HoldName) -> HoldNote:
    """Returns what stands in a hold; nothing depends on it.

    Raises:
        MirrorlakeError: the store could not be read.
    """
    key = f"{name}/{hold}"
    data = store.read(key)
    try:
        fields = decode_marker(data, where=key)
    except (MirrorlakeError, json.JSONDecodeError):
        return HoldNote()
    return HoldNote(reason=str(fields.get("reason", "")), created_at=str(fields.get("created_at", "")))


def lift_hold(store: ObjectStore, name: str, hold: HoldName) -> None:
    """Deletes a hold; without effect where it is not there.

    Raises:
        MirrorlakeError: the store could not be reached, or refuses.
    """
    store.delete(f"{name}/{hold}")
