"""Where a segment of whole batches ends; batches are written as (start, end, records, bytes)."""

import numpy as np
import pytest

from mirrorlake.destinations.archive.cut import Cut, CutRule, find_batch_cut

NEVER = 1 << 62
BATCHES = [(0, 10, 10, 100), (10, 15, 3, 40), (20, 30, 10, 100)]


def cut(
    *, records_max: int = NEVER, bytes_max: int = NEVER, end: int | None = None, settled: bool = False, **held: int
) -> Cut | None:
    rule = CutRule(
        records_max=records_max, bytes_max=bytes_max, end_offset=end, end_trigger="end", is_end_settled=settled
    )
    starts, ends, counts, sizes = np.array(BATCHES, np.int64).T
    return find_batch_cut(
        rule,
        records=held.get("records", 0),
        raw_bytes=held.get("raw_bytes", 0),
        starts=starts,
        ends=ends,
        counts=counts,
        sizes=sizes,
        covered_end=held.get("covered_end", 30),
    )


def test_a_segment_that_reaches_no_bound_goes_on() -> None:
    assert cut(records_max=24, bytes_max=241) is None


@pytest.mark.parametrize(
    ("records_max", "held", "stop", "end"),
    [(10, 0, 1, 10), (11, 0, 2, 15), (13, 0, 2, 15), (14, 0, 3, 30), (14, 4, 1, 10), (14, 13, 1, 10)],
)
def test_the_batch_that_reaches_the_records_is_the_last(records_max: int, held: int, stop: int, end: int) -> None:
    found = cut(records_max=records_max, records=held)
    assert found == Cut(stop_row=stop, end_offset=end, trigger="max-offsets")


@pytest.mark.parametrize(("bytes_max", "stop", "end"), [(100, 1, 10), (101, 2, 15), (140, 2, 15), (240, 3, 30)])
def test_the_batch_that_reaches_the_bytes_is_the_last(bytes_max: int, stop: int, end: int) -> None:
    assert cut(bytes_max=bytes_max) == Cut(stop_row=stop, end_offset=end, trigger="max-bytes")


@pytest.mark.parametrize(("end", "stop"), [(10, 1), (15, 2), (17, 2), (20, 2), (30, 3)])
@pytest.mark.parametrize("settled", [True, False])
def test_an_end_between_batches_is_kept_to_the_offset(end: int, stop: int, settled: bool) -> None:
    assert cut(end=end, settled=settled) == Cut(stop_row=stop, end_offset=end, trigger="end")


def test_an_end_inside_a_batch_waits_for_the_batch_unless_it_is_settled() -> None:
    assert cut(end=5) == Cut(stop_row=1, end_offset=10, trigger="end")
    assert cut(end=5, settled=True) == Cut(stop_row=0, end_offset=5, trigger="end")
    assert cut(end=21, settled=True) == Cut(stop_row=2, end_offset=21, trigger="end")


def test_an_end_that_is_not_reached_yet_cuts_nothing() -> None:
    assert cut(end=40) is None
    assert cut(end=40, covered_end=40) == Cut(stop_row=3, end_offset=40, trigger="end")


def test_the_first_bound_counts() -> None:
    assert cut(records_max=11, bytes_max=100) == Cut(stop_row=1, end_offset=10, trigger="max-bytes")
    assert cut(records_max=10, bytes_max=100) == Cut(stop_row=1, end_offset=10, trigger="max-offsets")
