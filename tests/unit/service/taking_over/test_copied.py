"""How far a copy goes, told by its records: against copies that were made the way the programs make them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.service.taking_over.copied import Copied, Window


def copied(
    source: list[int], copy: list[int], *, stored: int, offsets: list[int] | None = None, may_have_lost: bool = False
) -> Copied:
    """Source records are numbers here, equal ones the same; their offsets are 0, 1, … where none are given."""
    window = Window(
        np.array(range(len(source)) if offsets is None else offsets, np.int64),
        np.array(source, np.uint64),
        next_offset=stored,
    )
    for start in range(0, len(copy), 3):
        window.meet(np.array(copy[start : start + 3], np.uint64))
    return window.copied(may_have_lost=may_have_lost)


def test_a_copy_that_ends_where_it_was_stored_goes_on_there() -> None:
    found = copied([10, 11, 12, 13, 14], [10, 11, 12], stored=3)

    assert (found.position, found.end, found.hole) == (3, 3, None)
    assert (found.compared, found.found) == (3, 3)
    assert found.is_whole


def test_records_behind_the_stored_offset_are_not_copied_again() -> None:
    assert copied([10, 11, 12, 13, 14], [10, 11, 12, 13], stored=2).position == 4


def test_a_copy_of_everything_says_that_more_may_be_read() -> None:
    found = copied([10, 11, 12], [10, 11, 12], stored=1)

    assert (found.position, found.end, found.is_whole) == (3, 3, False)


def test_a_program_that_was_restarted_and_stopped_early_had_copied_as_far_as_before() -> None:
    # It copied up to 15, was killed with nothing stored, began again, and was stopped at 12.
    found = copied([10, 11, 12, 13, 14, 15, 16], [10, 11, 12, 13, 14, 15, 10, 11, 12], stored=3)

    assert (found.position, found.end) == (6, 6)


def test_other_writers_records_change_nothing() -> None:
    assert copied([10, 11, 12, 13], [99, 10, 98, 11, 97, 12, 96], stored=1).position == 3


def test_offsets_without_a_record_are_passed_over() -> None:
    found = copied([10, 11, 12, 13], [10, 11, 12], stored=4, offsets=[0, 3, 7, 20])

    assert (found.position, found.end) == (8, 20)
    assert found.hole is None


def test_equal_records_that_cannot_be_told_apart_are_named_and_nothing_is_lost() -> None:
    # Two copies of 7 behind 10: the two records at 1 and 2, or the one at 1 copied twice.
    found = copied([10, 7, 7, 11], [10, 7, 7], stored=1)

    assert (found.position, found.end, found.hole) == (2, 3, None)


def test_equal_records_before_a_later_one_are_told_by_it() -> None:
    found = copied([10, 7, 7, 11, 12], [10, 7, 7, 11], stored=1)

    assert (found.position, found.end) == (4, 4)


def test_an_equal_record_from_before_the_stored_offset_proves_nothing() -> None:
    found = copied([7, 10, 7, 11], [7, 10], stored=2)

    assert (found.position, found.end) == (2, 2)


def test_a_record_that_is_missing_before_a_later_one_is_copied_and_what_follows_named() -> None:
    found = copied([10, 11, 12, 13], [10, 12], stored=1)

    assert (found.position, found.end, found.hole) == (1, 3, 1)


def test_a_destination_that_deletes_is_believed_by_its_last_record() -> None:
    found = copied([10, 11, 12, 13], [12], stored=1, may_have_lost=True)

    assert (found.position, found.end, found.hole) == (3, 3, 1)


def test_nothing_of_a_copy_that_is_another_one_is_taken_for_it() -> None:
    found = copied([10, 11, 12], [50, 51], stored=2)

    assert (found.position, found.compared, found.found) == (2, 2, 0)


def test_sides_without_a_record_say_nothing() -> None:
    found = copied([], [], stored=5)

    assert (found.position, found.end, found.is_whole) == (5, 5, False)


@given(
    source=st.lists(st.integers(0, 6), min_size=1, max_size=30),
    runs=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=5),
    others=st.lists(st.tuples(st.integers(0, 100), st.integers(90, 99)), max_size=5),
)
def test_no_record_is_lost_and_every_repeated_one_was_named(
    source: list[int], runs: list[tuple[int, int, int]], others: list[tuple[int, int]]
) -> None:
    """A program is run several times: each begins where it last stored, copies some, and stores up to there or less."""
    stored, reached, copy = 0, 0, list[int]()
    for _, length, kept in runs:
        end = min(len(source), stored + length)
        copy += source[stored:end]
        reached, stored = max(reached, end), min(end, stored + kept)
    for at, other in others:
        copy.insert(at % (len(copy) + 1), other)

    found = copied(source, copy, stored=stored)

    assert stored <= found.position <= reached, "a record is lost"
    assert reached <= found.end, "a repeated record was not named"
    assert found.hole is None
    if len(set(source)) == len(source):
        assert (found.position, found.end) == (reached, reached)
