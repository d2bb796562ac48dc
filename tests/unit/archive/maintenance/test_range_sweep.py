"""Which ranges a read has come to: as many looks as there are ranges and pieces, whatever their number."""

import time
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.archive.maintenance.range_sweep import RangeSweep
from mirrorlake.offsets import OffsetRange


@dataclass(frozen=True)
class Part:
    number: int
    offsets: OffsetRange


spans = st.tuples(st.integers(0, 30), st.integers(1, 12))


def part(number: int, start: int, length: int) -> Part:
    return Part(number, OffsetRange(start_offset=start, end_offset=start + length))


@given(st.lists(spans, max_size=12), st.lists(spans, max_size=12), st.booleans())
def test_a_read_touches_the_ranges_it_has_an_offset_of_also_where_it_goes_back(
    ranges: list[tuple[int, int]], pieces: list[tuple[int, int]], in_order: bool
) -> None:
    parts = [part(number, *span) for number, span in enumerate(ranges)]
    sweep = RangeSweep(parts)
    for start, length in sorted(pieces) if in_order else pieces:
        asked = set(range(start, start + length))
        expected = {
            each.number for each in parts if asked & set(range(each.offsets.start_offset, each.offsets.end_offset))
        }
        assert {each.number for each in sweep.touched_by(start, start + length)} == expected


def test_a_hundred_thousand_pieces_of_as_many_ranges_take_no_square_of_it() -> None:
    """One look at every range for every piece would take most of an hour."""
    count = 100_000
    sweep = RangeSweep([part(number, number, 1) for number in range(count)])
    began = time.process_time()
    for offset in range(count):
        (found,) = sweep.touched_by(offset, offset + 1)
        assert found.number == offset
    assert time.process_time() - began < 60
