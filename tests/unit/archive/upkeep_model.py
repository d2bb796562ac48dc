"""Merging and retention as the archive's rules ask of them, for the model tests: one effect on the store at a time.

Written from ``docs/archive-format.md`` alone and on names alone, so that the reading side is tried against the rules
and not against itself. Each rule can be broken, which the search must notice.
"""

import contextlib

from mirrorlake.archive.names import SegmentName, floor_name, parse_segment_name
from mirrorlake.stores.object_store import ObjectExistsError, ObjectMissingError, ObjectStore

PREFIX = "orders/0"
LEVEL_1 = f"{PREFIX}/level=1"


def merge(store: ObjectStore, *, takes_newest: bool = False, keeps_inputs: bool = False) -> None:
    """Writes one file of level 1 out of all segments but the newest, then deletes those."""
    level0, merged, floor = look(store)
    inputs = [name for name in level0 if name.end_offset > floor]
    if not takes_newest:
        inputs = inputs[:-1]
    leftovers = [name for name in inputs if is_inside(name, merged)]
    for name in leftovers:
        store.delete(f"{PREFIX}/{name}")
    inputs = [name for name in inputs if name not in leftovers]
    if len(inputs) < 2:
        return
    try:
        content = b"".join(store.read(f"{PREFIX}/{name}") for name in inputs)
    except ObjectMissingError:
        return  # retired meanwhile
    output = SegmentName(from_offset=inputs[0].from_offset, to_offset=inputs[-1].to_offset, extension="parquet")
    try:
        store.create(f"{LEVEL_1}/{output}", content)
    except ObjectExistsError:
        return
    if keeps_inputs:
        return
    for name in inputs:
        store.delete(f"{PREFIX}/{name}")


def retire(store: ObjectStore, *, marks_floor: bool = True, takes_newest: bool = False) -> None:
    """Retires the oldest file of all levels: a floor first, then whatever ends at or below it."""
    level0, merged, floor = look(store)
    if not level0:
        return
    limit = level0[-1].end_offset if takes_newest else level0[-1].from_offset
    ends = sorted(name.end_offset for name in (*level0, *merged) if floor < name.end_offset <= limit)
    if ends:
        floor = ends[0]
        if marks_floor:
            with contextlib.suppress(ObjectExistsError):
                store.create(f"{PREFIX}/{floor_name(floor)}", b"")
    for folder, names in ((PREFIX, level0), (LEVEL_1, merged)):
        for name in names:
            if name.end_offset <= floor:
                store.delete(f"{folder}/{name}")


def look(store: ObjectStore) -> tuple[list[SegmentName], list[SegmentName], int]:
    """Returns the segments of level 0 and of level 1, and the floor."""
    names = [info.name for info in store.list(PREFIX)]
    floors = [int(name.removeprefix("_floor-")) for name in names if name.startswith("_floor-")]
    merged = [info.name for info in store.list(LEVEL_1)]
    return segments(names), segments(merged), max(floors, default=0)


def segments(names: list[str]) -> list[SegmentName]:
    """Returns those names that are segments'."""
    return [parsed for name in names if (parsed := parse_segment_name(name))]


def is_inside(name: SegmentName, merged: list[SegmentName]) -> bool:
    """Tells whether one merged file holds all of a segment."""
    return any(m.from_offset <= name.from_offset and name.to_offset <= m.to_offset for m in merged)
