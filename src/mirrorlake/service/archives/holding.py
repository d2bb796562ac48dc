"""``archive hold``: places, lists and lifts holds in every store that an archive lies in."""

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mirrorlake.archive.maintenance.holds import (
    HeldPartition,
    lift_hold,
    place_hold,
    read_holds,
    read_note,
    unreadable_hold,
)
from mirrorlake.archive.names import HOLD_PREFIX, HoldName
from mirrorlake.clock import Clock
from mirrorlake.errors import MirrorlakeError
from mirrorlake.offsets import OffsetRange
from mirrorlake.service.archives.held_offsets import held_offsets, missing_error
from mirrorlake.service.archives.places import ArchivePlace
from mirrorlake.service.archives.recorded_ends import reached_in
from mirrorlake.stores.object_store import ObjectMissingError
from mirrorlake.stores.opening import open_store

Cell = str | int | None

WAIT_SECONDS_MAX = 30.0
"""For a run of retention that is about to write a floor: two requests, tried again while its store is slow."""

_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldRow:
    """One hold in one store; of a hold that was placed, one row for each partition it concerns.

    ``start`` is the first offset that is held, where that is known, ``end`` the one behind the last, None where all is
    held that is to come. ``result`` is `held`, `partly` or `missing` where a part or all of what was archived of it is
    not there, `gone` where nothing was left of the range, `unknown`, `lifted` or `failed`.
    """

    place: ArchivePlace
    label: str
    result: str
    partition: int | None = None
    start: int | None = None
    end: int | None = None
    reason: str = ""
    created_at: str = ""
    error: MirrorlakeError | None = None

    def as_json(self) -> dict[str, Cell]:
        """Returns the row of ``archive hold --format json``; ``error`` is present exactly where something is wrong."""
        row: dict[str, Cell] = {
            "name": self.place.name,
            "partition": self.partition,
            "store": self.place.store.where(""),
            "hold": self.label,
            "start": self.start,
            "end": self.end,
            "result": self.result,
            "reason": self.reason or None,
            "created_at": self.created_at or None,
        }
        if self.error is not None:
            row["error"] = str(self.error)
        return row


def place(places: Sequence[ArchivePlace], hold: HoldName, *, reason: str, clock: Clock) -> list[HoldRow]:
    """Places a hold in every store and folder of ``places``; returns a row for each partition it concerns.

    Partitions whose folder is gone and of which the topic's record speaks are among them.
    """
    rows: list[HoldRow] = []
    for topic in _topics(places):
        reached, failure = _reached(topic[0])
        wanted = {each.partition: each for each in topic if hold.concerns(each.partition)}
        wanted |= _lost(topic, hold, reached)
        if not wanted:
            continue
        give_up_at = clock.elapsed_seconds() + WAIT_SECONDS_MAX

        def wait(give_up_at: float = give_up_at) -> bool:
            time.sleep(_POLL_SECONDS)
            return clock.elapsed_seconds() < give_up_at

        try:
            kept = place_hold(
                open_store(topic[0].store),
                topic[0].name,
                hold,
                sorted(wanted),
                reason=reason,
                clock=clock,
                wait=wait,
            )
        except MirrorlakeError as error:
            rows.append(_row(topic[0], hold, "failed", error=error))
            continue
        for held in kept:
            row = _placed_row(wanted[held.partition], hold, held)
            rows.append(_looked_behind(row, hold, held, reached.get(held.partition, 0), failure))
    return rows


def concerned(places: Sequence[ArchivePlace], hold: HoldName) -> set[str]:
    """Returns the names of the folders of which a hold concerns a partition that is there, or once was."""
    names = {place.name for place in places if hold.concerns(place.partition)}
    return names | {topic[0].name for topic in _topics(places) if _lost(topic, hold, _reached(topic[0])[0])}


def _lost(topic: Sequence[ArchivePlace], hold: HoldName, reached: Mapping[int, int]) -> dict[int, ArchivePlace]:
    """Returns the partitions that a hold concerns, that had segments, and that have no folder any more."""
    there = {each.partition for each in topic}
    lost = (number for number, end in reached.items() if end and number not in there and hold.concerns(number))
    return {number: replace(topic[0], partition=number) for number in lost}


def _reached(place: ArchivePlace) -> tuple[Mapping[int, int], MirrorlakeError | None]:
    """Returns where a topic's partitions ended once; what cannot be read keeps no hold from being placed."""
    found = reached_in(place.store, place.name)
    return ({}, found) if isinstance(found, MirrorlakeError) else (found, None)


def _placed_row(place: ArchivePlace, hold: HoldName, held: HeldPartition) -> HoldRow:
    start: int | None = max(held.floor, _first(hold))
    if not held.is_certain:
        result = "unknown"
        why = f"retention or an erasure is about to take up to {held.announced}, and did not end: do it again"
    elif hold.last is not None and held.floor > hold.last:
        result, start = "gone", None
        why = f"offsets below {held.floor} had been retired before, all of these among them"
    else:
        result = "held"
        why = f"offsets below {held.floor} had been retired before" if held.floor > _first(hold) else ""
    return _row(place, hold, result, partition=held.partition, start=start, reason=why)


def _looked_behind(
    row: HoldRow, hold: HoldName, held: HeldPartition, reached: int, failure: MirrorlakeError | None
) -> HoldRow:
    """Returns the row of a hold that is placed with what is missing of its range: a hold alone brings nothing back."""
    if row.result != "held":
        return row
    offsets = OffsetRange(start_offset=max(held.floor, _first(hold)), end_offset=hold.offsets.end_offset)
    try:
        found = held_offsets(row.place.open(), offsets, reached=reached)
    except MirrorlakeError as error:
        return replace(row, result="unknown", error=error)
    if found.missing:
        missing = missing_error(row.place.where, found)
        if found.is_any_there:
            return replace(row, result="partly", error=missing)
        return replace(row, result="missing", start=None, error=missing)
    if failure is not None:
        return replace(row, result="unknown", error=failure)
    if not found.end:
        return replace(row, reason="no segment is there: what comes is held")
    if not found.is_any_there:
        return replace(row, reason=f"it is yet to come: the archive ends at offset {found.end}")
    return row


def listed(places: Sequence[ArchivePlace]) -> list[HoldRow]:
    """Returns a row for each hold in the folders of ``places``; one that nobody can read holds, with its error."""
    rows: list[HoldRow] = []
    for topic in _topics(places):
        store, name = open_store(topic[0].store), topic[0].name
        holds = read_holds(store, name)
        for hold in holds.names:
            row = _row(topic[0], hold, "held", partition=hold.partition, start=_first(hold))
            try:
                note = read_note(store, name, hold)
            except ObjectMissingError:
                if hold in read_holds(store, name).names:
                    rows.append(row)  # a link that leads nowhere: its name holds
                continue  # lifted a moment ago
            except MirrorlakeError as error:
                rows.append(replace(row, error=error))
                continue
            rows.append(replace(row, reason=note.reason, created_at=note.created_at))
        rows += [_unreadable_row(topic[0], each) for each in holds.unreadable]
    return rows


def lift(places: Sequence[ArchivePlace], label: str) -> list[HoldRow]:
    """Lifts every hold of that label in the folders of ``places``; returns a row for each, also where it failed.

    A name that nobody can read and that begins with the label stays, and has a row with its error.
    """
    rows: list[HoldRow] = []
    for topic in _topics(places):
        name = topic[0].name
        try:
            store = open_store(topic[0].store)
            holds = read_holds(store, name)
        except MirrorlakeError as error:
            rows.append(HoldRow(place=topic[0], label=label, result="failed", error=error))
            continue
        for hold in (each for each in holds.names if each.label == label):
            row = _row(topic[0], hold, "lifted", partition=hold.partition, start=_first(hold))
            try:
                lift_hold(store, name, hold)
            except MirrorlakeError as error:
                row = replace(row, result="failed", error=error)
            rows.append(row)
        rows += [_unreadable_row(topic[0], each) for each in holds.unreadable if each.startswith(HOLD_PREFIX + label)]
    return rows


def _unreadable_row(place: ArchivePlace, name: str) -> HoldRow:
    """Returns the row of what begins as a hold does and says nothing: the whole topic is held by it."""
    error = unreadable_hold(place.store.where(place.name), name)
    return HoldRow(place=place, label=name, result="held", start=0, error=error)


def _topics(places: Sequence[ArchivePlace]) -> list[list[ArchivePlace]]:
    """Returns the partitions by store and folder."""

    def folder(each: ArchivePlace) -> tuple[str, str]:
        return each.store.where(""), each.name

    return [list(found) for _, found in itertools.groupby(sorted(places, key=folder), key=folder)]


def _first(hold: HoldName) -> int:
    return hold.offsets.start_offset


def _row(
    place: ArchivePlace,
    hold: HoldName,
    result: str,
    *,
    partition: int | None = None,
    start: int | None = None,
    reason: str = "",
    created_at: str = "",
    error: MirrorlakeError | None = None,
) -> HoldRow:
    return HoldRow(
        place=place,
        label=hold.label,
        result=result,
        partition=partition,
        start=start,
        end=None if hold.last is None else hold.last + 1,
        reason=reason,
        created_at=created_at,
        error=error,
    )
