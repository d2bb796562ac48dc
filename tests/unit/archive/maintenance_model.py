"""Merging and retention as the archive's rules ask of them, for the model tests: one effect on the store at a time.

Written from ``docs/archive-format.md`` alone and on names alone, so that the reading side is tried against the rules
and not against itself. Each rule can be broken, which the search must notice.
"""

import contextlib

from mirrorlake.archive.names import SegmentName, floor_name, parse_segment_name
from mirrorlake.stores.object_store import ObjectExistsError, ObjectMissingError, ObjectStore

PREFIX = "orders/0"


def merge(store: ObjectStore, *, takes_newest: bool = False, keeps_inputs: bool = False) -> None:
    """Writes one segment out of all but the newest, beside them, then deletes those."""
    names, floor = look(store)
    leftovers = [name for name in names if is_inside_another(name, names)]
    for name in leftovers:
        store.delete(f"{PREFIX}/{name}")
    inputs = [name for name in names if name.end_offset > floor and name not in leftovers]
    if not takes_newest:
        inputs = inputs[:-1]
    if len(inputs) < 2:
        return
    try:
        content = b"".join(store.read(f"{PREFIX}/{name}") for name in inputs)
    except ObjectMissingError:
        return  # retired meanwhile
    output = SegmentName(from_offset=inputs[0].from_offset, to_offset=inputs[-1].to_offset, extension="parquet")
    try:
        store.create(f"{PREFIX}/{output}", content)
    except ObjectExistsError:
        return
    if keeps_inputs:
        return
    for name in inputs:
        store.delete(f"{PREFIX}/{name}")


def retire(store: ObjectStore, *, marks_floor: bool = True, takes_newest: bool = False) -> None:
    """Retires the oldest segment: a floor first, then whatever ends at or below it."""
    names, floor = look(store)
    if not names:
        return
    newest = max(names, key=lambda name: name.end_offset)
    limit = newest.end_offset if takes_newest else newest.from_offset
    ends = sorted(name.end_offset for name in names if floor < name.end_offset <= limit)
    if ends:
        floor = ends[0]
        if marks_floor:
            with contextlib.suppress(ObjectExistsError):
                store.create(f"{PREFIX}/{floor_name(floor)}", b"")
    for name in names:
        if name.end_offset <= floor:
            store.delete(f"{PREFIX}/{name}")


def look(store: ObjectStore) -> tuple[list[SegmentName], int]:
    """Returns the segments in the order of their names, and the floor."""
    names = [info.name for info in store.list(PREFIX)]
    floors = [int(name.removeprefix("_floor-")) for name in names if name.startswith("_floor-")]
    return segments(names), max(floors, default=0)


def segments(names: list[str]) -> list[SegmentName]:
    """Returns those names that are segments'."""
    return [parsed for name in names if (parsed := parse_segment_name(name))]


def is_inside_another(name: SegmentName, names: list[SegmentName]) -> bool:
    """Tells whether another one holds all of a segment."""
    others = (other for other in names if other != name)
    return any(other.from_offset <= name.from_offset and name.to_offset <= other.to_offset for other in others)
