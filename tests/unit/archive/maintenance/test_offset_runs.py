"""Sets of offsets as runs, against Python's sets."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.archive.maintenance.offset_runs import OffsetRuns
from mirrorlake.offsets import GapKind, OffsetRange

offsets = st.sets(st.integers(0, 40))


def runs(chosen: set[int]) -> OffsetRuns:
    return OffsetRuns.of_offsets(np.array(sorted(chosen), np.int64))


def members(held: OffsetRuns) -> set[int]:
    return {each for span in held.ranges() for each in range(span.start_offset, span.end_offset)}


@given(offsets, offsets, st.integers(0, 40), st.integers(0, 40))
def test_runs_hold_what_sets_hold(one: set[int], other: set[int], low: int, high: int) -> None:
    held = runs(one)
    assert members(held) == one
    assert held.offset_count == len(one)
    assert members(held.joined(runs(other))) == one | other
    within = OffsetRange(start_offset=min(low, high), end_offset=max(low, high))
    assert members(held.within(within)) == {each for each in one if min(low, high) <= each < max(low, high)}
    asked = np.arange(0, 45, dtype=np.int64)
    assert held.hold(asked).tolist() == [each in one for each in range(45)]
    spans = held.ranges()
    assert all(before.end_offset < after.start_offset for before, after in itertools.pairwise(spans))
    assert [gap.kind for gap in held.gaps(GapKind.ERASED)] == [GapKind.ERASED] * len(spans)
