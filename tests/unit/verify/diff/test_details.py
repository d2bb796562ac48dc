"""What differs record by record, and what explains it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.offsets import Gap, GapKind, OffsetRange
from mirrorlake.verify.cleaned import Compacted, Trace
from mirrorlake.verify.diff.details import Detail, differences_in

NEITHER = Compacted(source=False, copy=False)
BOTH = Compacted(source=True, copy=True)
KINDS = {"e": GapKind.ERASED, "t": GapKind.TRUNCATED, "m": GapKind.MISSING}
START = 100


def detail(text: str) -> Detail:
    """One character an offset from 100 on: a digit is a record, a capital letter a tombstone, others a gap.

    ``e``, ``t`` and ``m`` are gaps of that kind, ``.`` absent ones, ``?`` ones not said, ``!`` what was not read,
    ``_`` what the log shows to be cleaned.
    """
    places = [(START + number, each) for number, each in enumerate(text)]

    def ranges(of: str) -> list[OffsetRange]:
        return [OffsetRange(start_offset=at, end_offset=at + 1) for at, each in places if each == of]

    return Detail(
        traces=[
            Trace(at, record_hash=ord(each), key_hash=ord(each), is_tombstone=each.isupper())
            for at, each in places
            if each.isdigit() or each.isupper()
        ],
        gaps=[Gap(offsets=each, kind=kind) for letter, kind in KINDS.items() for each in ranges(letter)],
        unsaid=ranges("?"),
        unread=ranges("!"),
        cleaned=ranges("_"),
    )


def found(a: str, b: str, compacted: Compacted = NEITHER) -> list[str]:
    offsets = OffsetRange(start_offset=START, end_offset=START + len(a))
    result = differences_in(offsets, detail(a), detail(b), compacted)
    runs = [
        f"{run.how} {run.offsets.start_offset - START}-{run.offsets.end_offset - 1 - START} "
        f"{run.why} {'ok' if run.is_explained else run.records}"
        for run in result.differences
    ]
    return runs + [f"suspect {each.how} {each.offset - START}" for each in result.suspects]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("123", "123", []),
        ("1.3", "1.3", []),
        ("123", "1.3", ["only-a 1-1 absent 1"]),
        ("1.3", "123", ["only-b 1-1 absent 1"]),
        ("123", "143", ["different 1-1  1"]),
        ("1234", "1??4", ["only-a 1-2  2"]),  # mirror-v3's files and clusters do not say why
        ("1234", "1tt4", ["only-a 1-2 truncated 2"]),
        ("1234", "1mt4", ["only-a 1-1 missing 1", "only-a 2-2 truncated 1"]),
        ("1234", "1ee4", ["only-a 1-2 erased ok"]),
        ("1ee4", "1234", ["only-b 1-2 erased ok"]),
        ("1e3", "1e3", []),
        ("1e3", "1.3", ["gap 1-1 erased in A, absent in B ok"]),
        ("1t3", "1m3", ["gap 1-1 truncated in A, missing in B ok"]),
        ("1t3", "1?3", []),
        ("1!3", "123", []),
        ("1.3!", "12!4", ["only-b 1-1 absent 1"]),
        ("12.4", "...4", ["only-a 0-1 absent 2"]),
        ("1.2.3", ".....", ["only-a 0-4 absent 3"]),  # no record that both have lies between
        ("172.3", ".7...", ["only-a 0-0 absent 1", "only-a 2-4 absent 2"]),
        ("1!2", "...", ["only-a 0-2 absent 2"]),
    ],
)
def test_what_differs_is_named_with_its_offsets_and_its_reason(a: str, b: str, expected: list[str]) -> None:
    assert found(a, b) == expected


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("1A3", "1.3", ["only-a 1-1 cleaned ok"]),  # a tombstone goes when its time is over
        ("123", "1.3", ["suspect only-a 1"]),
        ("1.3", "123", ["suspect only-b 1"]),
        ("123", "1e3", ["only-a 1-1 erased ok"]),
        ("123", "1t3", ["only-a 1-1 truncated 1"]),  # which says that it was not the cleaner
        ("123", "143", ["different 1-1  1"]),
    ],
)
def test_where_a_cleaner_works_it_may_have_taken_what_is_missing(a: str, b: str, expected: list[str]) -> None:
    assert found(a, b, BOTH) == expected
    if expected[0].startswith("suspect"):
        side = Compacted(source="only-b" in expected[0], copy="only-a" in expected[0])
        other = Compacted(source=not side.source, copy=not side.copy)
        assert found(a, b, side) == expected
        assert not found(a, b, other)[0].startswith("suspect"), "no cleaner works on the side that lacks it"


def test_where_a_log_shows_that_it_was_cleaned_a_cleaner_may_have_taken_what_is_missing_whatever_works_now() -> None:
    assert found("1A3", "1_3") == ["only-a 1-1 cleaned ok"]
    assert found("123", "1_3") == ["suspect only-a 1"]
    assert found("1_3", "123") == ["suspect only-b 1"]
    assert found("123_", "1?34") == ["only-a 1-1  1", "suspect only-b 3"]


CONTENT = st.text(alphabet="12.et?", min_size=1, max_size=30)


@given(CONTENT)
def test_a_side_is_equal_to_itself(content: str) -> None:
    assert found(content, content) == []


@given(CONTENT, st.data())
def test_one_record_that_is_changed_or_taken_is_found_at_its_offset(content: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(content) - 1))
    a = content[:at] + "7" + content[at + 1 :]
    b = content[:at] + data.draw(st.sampled_from("8.t?")) + content[at + 1 :]
    (only,) = found(a, b)
    assert only.split()[1] == f"{at}-{at}"
    assert only.split()[-1] == "1"


@given(CONTENT, CONTENT)
def test_the_sides_may_be_swapped(one: str, other: str) -> None:
    length = min(len(one), len(other))
    swapped = {"only-a": "only-b", "only-b": "only-a"}

    def places(runs: list[str]) -> list[str]:
        pairs = [run.split(" ")[:2] for run in runs]
        return sorted(f"{swapped.get(how, how)} {where}" for how, where in pairs)

    there = [" ".join(run.split(" ")[:2]) for run in found(one[:length], other[:length])]
    assert sorted(there) == places(found(other[:length], one[:length]))
