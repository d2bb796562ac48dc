"""Which offsets of two sides are compared."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.errors import ChainBrokenError
from mirrorlake.offsets import OffsetRange
from mirrorlake.verify.diff.ranges import EVERYTHING, Look, ranges_of
from mirrorlake.verify.diff.values import LAST_END, Unread


def look(begin: int, end: int, *, start: int | None = None) -> Look:
    return Look(begin=begin, start=begin if start is None else start, end=end, identity="one")


def said(a: Look, b: Look, asked: OffsetRange = EVERYTHING) -> tuple[str, str | None, list[str]]:
    found = ranges_of(a, b, asked)
    tail = None if found.tail is None else f"{found.tail[0]} {found.tail[1]}"
    return str(found.compared), tail, [f"{each.how} {each.offsets}" for each in found.retired]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (look(0, 100), look(0, 100), ("[0, 100)", None, [])),
        (look(0, 0), look(0, 0), ("[0, 0)", None, [])),
        (look(0, 100), look(0, 90), ("[0, 90)", "only-a [90, 100)", [])),
        (look(0, 90), look(0, 100), ("[0, 90)", "only-b [90, 100)", [])),
        (look(0, 100), look(40, 100), ("[40, 100)", None, ["only-a [0, 40)"])),
        (look(40, 100), look(0, 100), ("[40, 100)", None, ["only-b [0, 40)"])),
        (look(40, 100), look(40, 100), ("[40, 100)", None, [])),
        # Nothing in common: all that one has the other has retired, and the rest lies behind its end.
        (look(0, 100), look(500, 600), ("[100, 100)", "only-b [500, 600)", ["only-a [0, 100)"])),
        (look(500, 500), look(0, 700), ("[500, 500)", "only-b [500, 700)", ["only-b [0, 500)"])),
        # An archive that was begun late has lost what lies before, and nothing was retired.
        (look(0, 100), look(0, 100, start=50), ("[0, 100)", None, [])),
        (look(0, 100, start=50), look(50, 100), ("[50, 100)", None, [])),
        (look(0, 100, start=50), look(0, 100, start=60), ("[50, 100)", None, [])),
        (look(0, 0), look(0, 100, start=50), ("[0, 0)", "only-b [50, 100)", [])),
    ],
)
def test_what_both_hold_is_compared_and_the_rest_is_named(
    a: Look, b: Look, expected: tuple[str, str | None, list[str]]
) -> None:
    assert said(a, b) == expected


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (10, 20, ("[20, 20)", None, ["only-a [10, 20)"])),
        (30, 50, ("[40, 50)", None, ["only-a [30, 40)"])),
        (50, 95, ("[50, 90)", "only-a [90, 95)", [])),
        (95, 99, ("[90, 90)", "only-a [95, 99)", [])),
        (200, 300, ("[90, 90)", None, [])),
    ],
)
def test_only_what_was_asked_for_is_looked_at(
    start: int, end: int, expected: tuple[str, str | None, list[str]]
) -> None:
    assert said(look(0, 100), look(40, 90), OffsetRange(start_offset=start, end_offset=end)) == expected


def test_what_is_missing_outside_of_what_was_asked_for_is_not_said() -> None:
    hole = Unread(offsets=OffsetRange(start_offset=30, end_offset=40), error=ChainBrokenError("gone"))
    behind = Unread(offsets=OffsetRange(start_offset=100, end_offset=LAST_END), error=ChainBrokenError("overlap"))
    broken = Look(begin=0, start=0, end=100, identity="one", unread=(hole, behind))
    assert ranges_of(broken, look(0, 100)).unread == (("a", hole), ("a", behind))
    assert ranges_of(look(0, 100), broken, OffsetRange(start_offset=0, end_offset=35)).unread == (("b", hole),)
    assert ranges_of(broken, broken, OffsetRange(start_offset=40, end_offset=100)).unread == ()


SIDES = st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50)).map(
    lambda t: look(t[0], t[0] + t[1] + t[2], start=t[0] + t[1])
)


@given(SIDES, SIDES)
def test_every_offset_of_a_side_is_compared_or_named_or_lost_by_both(a: Look, b: Look) -> None:
    found = ranges_of(a, b)
    tail = () if found.tail is None else (found.tail[1],)
    named = [found.compared, *tail, *(each.offsets for each in found.retired)]
    for side in (a, b):
        for offset in range(side.start, side.end):
            assert any(each.start_offset <= offset < each.end_offset for each in named), offset
    assert found.tail is None or found.tail[1].start_offset >= found.compared.end_offset
