"""How new the records of a copy are, as a look at the tails says it."""

import pytest

from mirrorlake.destinations.tail import newest_ms
from mirrorlake.kafka.records.batches import walk
from mirrorlake.kafka.records.codec import decode_batches
from mirrorlake.kafka.records.columns import RecordColumns
from support.records import Record, build_batch


def columns(*times: int) -> RecordColumns:
    if not times:
        return decode_batches([], start_offset=0, end_offset=0)
    batch = build_batch([Record(each, b"key", b"value") for each in times])
    return decode_batches(list(walk(memoryview(batch))), start_offset=0, end_offset=len(times))


@pytest.mark.parametrize(
    ("parts", "newest"),
    [
        ([columns(5, 9, 7)], 9),
        ([columns(5), columns(8, 6)], 8),
        ([columns(), columns(3)], 3),
        ([columns(-1, 4)], 4),
        ([columns(-1, -1)], None),
        ([columns()], None),
    ],
    ids=["the newest", "of any side", "a side without records", "a record without a time", "none has one", "none"],
)
def test_the_newest_time_of_both_sides_counts(parts: list[RecordColumns], newest: int | None) -> None:
    assert newest_ms(*parts) == newest
