"""Which subjects are a topic's, and what they are called where the topic is another."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.schemas.naming import NamedSubject, SubjectStrategy, destination_subject, subjects_of_topic

LISTED = [
    "orders-value",
    "orders-key",
    "orders-shop.Order",
    "orders-Item",
    "orders-eu-shop.Order",
    "orders-eu-value",
    "shop.Order",
    "ordersX-shop.Order",
]


def names(strategy: SubjectStrategy, *, is_key: bool = False) -> list[tuple[str, str]]:
    found = subjects_of_topic(strategy, "orders", "copy", is_key=is_key, listed=LISTED)
    return [(each.source, each.destination) for each in found]


def test_a_topics_own_subject_is_renamed_with_it() -> None:
    assert names(SubjectStrategy.TOPIC_NAME) == [("orders-value", "copy-value")]
    assert names(SubjectStrategy.TOPIC_NAME, is_key=True) == [("orders-key", "copy-key")]


def test_records_of_a_topic_are_found_by_listing_and_not_those_of_a_topic_with_a_longer_name() -> None:
    expected = [("orders-shop.Order", "copy-shop.Order"), ("orders-Item", "copy-Item")]

    assert names(SubjectStrategy.TOPIC_RECORD_NAME) == expected


@pytest.mark.parametrize("strategy", [SubjectStrategy.RECORD_NAME, SubjectStrategy.NONE])
def test_what_only_records_could_tell_is_not_guessed(strategy: SubjectStrategy) -> None:
    assert names(strategy) == []


@given(st.sampled_from(SubjectStrategy), st.booleans())
def test_what_is_found_is_renamed_as_a_subject_that_is_met_in_a_record(strategy: SubjectStrategy, is_key: bool) -> None:
    for each in subjects_of_topic(strategy, "orders", "copy", is_key=is_key, listed=LISTED):
        there = destination_subject(strategy, each.source, "orders", "copy", is_key=is_key)
        assert each == NamedSubject(source=each.source, destination=there)


@pytest.mark.parametrize("subject", ["other-value", "orders-key", "shop.Order"])
def test_a_subject_of_another_topic_keeps_its_name(subject: str) -> None:
    there = destination_subject(SubjectStrategy.TOPIC_NAME, subject, "orders", "copy", is_key=False)

    assert there == subject
