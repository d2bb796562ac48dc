"""Where a source begins and ends for a copy, by where the copy stands."""

import pytest

from mirrorlake.offsets import OffsetRange
from mirrorlake.sources.client import Bounds, seen_from


@pytest.mark.parametrize(
    ("bounds", "position", "expected"),
    [
        (Bounds(2, 90, limit=40), None, (2, 40)),
        (Bounds(2, 90, limit=40), 30, (2, 40)),
        (Bounds(2, 90, limit=40), 40, (2, 40)),
        (Bounds(2, 90, limit=40), 55, (2, 55)),
        (Bounds(2, 90, limit=40), 95, (2, 90)),
        (Bounds(2, 30, limit=40), 10, (2, 30)),
        (Bounds(60, 90, limit=40), 50, (50, 50)),
        (Bounds(60, 90, limit=40), 30, (60, 40)),
        (Bounds(60, 90, limit=40), None, (60, 60)),
        (Bounds(2, 90, (OffsetRange(start_offset=20, end_offset=30),), limit=40), 10, (2, 20)),
        (Bounds(2, 90, (OffsetRange(start_offset=20, end_offset=30),), limit=40), 30, (2, 40)),
    ],
    ids=[
        "begins",
        "on-its-way",
        "at-the-limit",
        "past-the-limit",
        "past-the-log",
        "the-log-ends-before",
        "deleted-behind-a-copy-that-has-ended",
        "deleted-before-the-limit",
        "nothing-left-for-one-that-begins",
        "a-hole-before-the-limit",
        "a-hole-that-is-passed",
    ],
)
def test_a_limit_is_the_end_of_the_log_for_whoever_stands_before_it(
    bounds: Bounds, position: int | None, expected: tuple[int, int]
) -> None:
    assert seen_from(bounds, position) == expected
    assert bounds.has_ended(position) is (position is not None and position >= 40)
