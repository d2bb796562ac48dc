"""Where a segment ends, as tables; offsets need not be dense."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.destinations.archive.cut import Cut, CutRule, find_cut

NEVER = 1 << 40


def rule(records: int = NEVER, size: int = NEVER, end: int | None = None) -> CutRule:
    return CutRule(records_max=records, bytes_max=size, end_offset=end, end_trigger="max-time")


def cut(
    a_rule: CutRule, offsets: list[int], sizes: list[int], covered_end: int, *, records: int = 0, raw_bytes: int = 0
) -> Cut | None:
    return find_cut(
        a_rule,
        records=records,
        raw_bytes=raw_bytes,
        offsets=np.array(offsets, np.int64),
        sizes=np.array(sizes, np.int64),
        covered_end=covered_end,
    )


def test_a_segment_goes_on_below_every_bound() -> None:
    assert cut(rule(records=4, size=31), [0, 1, 2], [10, 10, 10], 3) is None


@pytest.mark.parametrize(
    ("a_rule", "held", "expected"),
    [
        pytest.param(rule(records=3), (0, 0), Cut(stop_row=3, end_offset=15, trigger="max-offsets"), id="records"),
        pytest.param(rule(records=3), (2, 0), Cut(stop_row=1, end_offset=11, trigger="max-offsets"), id="held records"),
        pytest.param(rule(size=20), (0, 0), Cut(stop_row=2, end_offset=13, trigger="max-bytes"), id="bytes exactly"),
        pytest.param(rule(size=21), (0, 0), Cut(stop_row=3, end_offset=15, trigger="max-bytes"), id="one byte more"),
        pytest.param(rule(size=21), (0, 20), Cut(stop_row=1, end_offset=11, trigger="max-bytes"), id="held bytes"),
        pytest.param(rule(end=13), (0, 0), Cut(stop_row=2, end_offset=13, trigger="max-time"), id="end at a record"),
        pytest.param(rule(end=14), (0, 0), Cut(stop_row=2, end_offset=14, trigger="max-time"), id="end in a gap"),
        pytest.param(rule(end=20), (0, 0), Cut(stop_row=4, end_offset=20, trigger="max-time"), id="end past the last"),
        pytest.param(rule(end=21), (0, 0), None, id="end not reached"),
        pytest.param(
            rule(records=3, end=13), (0, 0), Cut(stop_row=2, end_offset=13, trigger="max-time"), id="end before records"
        ),
        pytest.param(
            rule(records=2, size=20), (0, 0), Cut(stop_row=2, end_offset=13, trigger="max-offsets"), id="both at once"
        ),
    ],
)
def test_the_first_bound_reached_ends_the_segment(a_rule: CutRule, held: tuple[int, int], expected: Cut | None) -> None:
    assert cut(a_rule, [10, 12, 14, 16], [10] * 4, 20, records=held[0], raw_bytes=held[1]) == expected


def test_an_end_is_reached_without_any_record() -> None:
    assert cut(rule(end=8), [], [], 8) == Cut(stop_row=0, end_offset=8, trigger="max-time")


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 50)), min_size=1, max_size=60),
    st.integers(1, 20),
    st.integers(1, 200),
)
def test_repeated_cuts_are_those_of_counting_record_by_record(
    steps: list[tuple[int, int]], records_max: int, bytes_max: int
) -> None:
    offsets = list(np.cumsum([step for step, _ in steps]))
    sizes = [size for _, size in steps]
    expected, count, size = [], 0, 0
    for offset, record_bytes in zip(offsets, sizes, strict=True):
        count, size = count + 1, size + record_bytes
        if count == records_max or size >= bytes_max:
            expected.append(int(offset) + 1)
            count = size = 0
    found = []
    start = 0
    while (
        next_cut := cut(rule(records_max, bytes_max), offsets[start:], sizes[start:], int(offsets[-1]) + 1)
    ) is not None:
        found.append(next_cut.end_offset)
        start += next_cut.stop_row
    assert found == expected
