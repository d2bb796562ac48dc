"""Which differences the log cleaner explains, and which nobody does."""

import pytest

from mirrorlake.offsets import OffsetRange
from mirrorlake.verify.cleaned import NULL_KEY, Compacted, Suspect, Trace, compare, first_unexplained, without_erased

NEITHER = Compacted(source=False, copy=False)
SOURCE = Compacted(source=True, copy=False)
COPY = Compacted(source=False, copy=True)
BOTH = Compacted(source=True, copy=True)


def traces(text: str) -> list[Trace]:
    """One character an offset: a letter is the key, a capital one a tombstone, ``0`` a null key, ``.`` nothing."""
    return [
        Trace(
            offset,
            record_hash=ord(each) * 1000 + offset,
            key_hash=NULL_KEY if each == "0" else ord(each.lower()),
            is_tombstone=each.isupper(),
        )
        for offset, each in enumerate(text)
        if each != "."
    ]


@pytest.mark.parametrize(
    ("source", "copy", "compacted", "difference"),
    [
        ("abc", "abc", NEITHER, None),
        ("abc", "a.c", NEITHER, (1, "missing")),
        ("a.c", "abc", NEITHER, (1, "extra")),
        ("abc", "abd", BOTH, (2, "different")),
        ("a.c", "abc", COPY, (1, "extra")),
        ("abc", "a.c", SOURCE, (1, "missing")),
        ("a0c", "a.c", COPY, (1, "missing")),  # no cleaner takes a record without a key
        ("aBc", "a.c", COPY, None),  # a tombstone goes when its time is over
        ("a.c", "aBc", SOURCE, None),
    ],
)
def test_a_difference_no_cleaner_explains_is_found_at_once(
    source: str, copy: str, compacted: Compacted, difference: tuple[int, str] | None
) -> None:
    found = compare(traces(source), traces(copy), compacted)
    assert found.difference == difference
    assert found.suspects == []


def test_a_record_missing_where_the_cleaner_works_is_suspect() -> None:
    found = compare(traces("abac"), traces(".b.c"), COPY)
    assert found.difference is None
    assert found.suspects == [Suspect(0, ord("a"), "missing"), Suspect(2, ord("a"), "missing")]


def test_suspects_before_a_real_difference_are_returned_with_it() -> None:
    found = compare(traces("abx"), traces(".by"), COPY)
    assert found.difference == (2, "different")
    assert found.suspects == [Suspect(0, ord("a"), "missing")]


def shown(text: str) -> list[OffsetRange]:
    """Where the log of a side shows that it was cleaned: at each ``_``."""
    return [OffsetRange(start_offset=at, end_offset=at + 1) for at, each in enumerate(text) if each == "_"]


@pytest.mark.parametrize(
    ("source", "copy", "source_log", "copy_log", "difference", "suspects"),
    [
        ("..ac", "abac", "__  ", "", None, [Suspect(0, ord("a"), "extra"), Suspect(1, ord("b"), "extra")]),
        ("..ac", "abac", "_   ", "", (1, "extra"), [Suspect(0, ord("a"), "extra")]),  # a marker, or aborted data
        ("..ac", "abac", "", "____", (0, "extra"), []),  # it is the source that lacks them
        ("..ac", "0bac", "__  ", "", (0, "extra"), []),  # no cleaner takes a record without a key
        ("abac", ".bac", "", "_   ", None, [Suspect(0, ord("a"), "missing")]),
        ("abac", ".bac", "____", " _  ", (0, "missing"), []),
    ],
)
def test_where_the_log_shows_that_it_was_cleaned_a_record_may_be_missing_whatever_the_policy_is_now(
    source: str,
    copy: str,
    source_log: str,
    copy_log: str,
    difference: tuple[int, str] | None,
    suspects: list[Suspect],
) -> None:
    compacted = Compacted(source=False, copy=False, source_shows=shown(source_log), copy_shows=shown(copy_log))
    found = compare(traces(source), traces(copy), compacted)
    assert found.difference == difference
    assert found.suspects == suspects


def test_what_was_never_copied_no_cleaner_can_have_taken_from_the_copy() -> None:
    copied = [OffsetRange(start_offset=0, end_offset=2)]
    found = compare(traces("abAc"), traces("...c"), Compacted(source=True, copy=True, copied=copied))
    assert found.difference == (2, "missing")
    assert found.suspects == [Suspect(0, ord("a"), "missing"), Suspect(1, ord("b"), "missing")]


def test_tombstones_that_a_cleaner_took_from_the_copy_are_named_and_those_it_took_from_the_source_are_not() -> None:
    assert compare(traces("aBcD"), traces("a.c."), COPY).tombstones == [1, 3]
    assert compare(traces("a.c."), traces("aBcD"), SOURCE).tombstones == []


def test_a_suspect_is_cleared_by_a_later_record_of_its_key_only() -> None:
    suspects = [Suspect(0, 7, "missing"), Suspect(5, 8, "missing"), Suspect(9, 7, "extra")]
    assert first_unexplained(suspects, {7: 20, 8: 6}) is None
    assert first_unexplained(suspects, {7: 20, 8: 5}) == suspects[1]
    assert first_unexplained(suspects, {7: 9, 8: 6}) == suspects[2]
    assert first_unexplained(suspects, {}) == suspects[0]


def test_what_an_archive_says_was_erased_is_no_part_of_the_source() -> None:
    there = [Trace(offset, offset, offset, False) for offset in range(6)]
    erased = [OffsetRange(start_offset=0, end_offset=1), OffsetRange(start_offset=3, end_offset=5)]
    assert [trace.offset for trace in without_erased(there, erased)] == [1, 2, 5]
    assert without_erased(there, []) == there
