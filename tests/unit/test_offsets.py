from mirrorlake.offsets import Gap, GapKind, OffsetRange, gaps_of, gaps_within


def gap(start: int, end: int, kind: GapKind = GapKind.MISSING) -> Gap:
    return Gap(offsets=OffsetRange(start_offset=start, end_offset=end), kind=kind)


def between(start: int, end: int) -> OffsetRange:
    return OffsetRange(start_offset=start, end_offset=end)


KNOWN = (gap(10, 20), gap(30, 40, GapKind.TRUNCATED))


def test_gaps_are_cut_to_a_range() -> None:
    assert list(gaps_within(KNOWN, between(15, 35))) == [gap(15, 20), gap(30, 35, GapKind.TRUNCATED)]
    assert list(gaps_within(KNOWN, between(20, 30))) == []
    assert list(gaps_within(KNOWN, between(10, 10))) == []


def test_what_is_not_known_to_be_another_kind_is_absent() -> None:
    absent = GapKind.ABSENT
    assert list(gaps_of(between(5, 45), KNOWN)) == [
        gap(5, 10, absent),
        gap(10, 20),
        gap(20, 30, absent),
        gap(30, 40, GapKind.TRUNCATED),
        gap(40, 45, absent),
    ]
    assert list(gaps_of(between(12, 18), KNOWN)) == [gap(12, 18)]
    assert list(gaps_of(between(0, 5), ())) == [gap(0, 5, absent)]
    assert list(gaps_of(between(5, 5), KNOWN)) == []
