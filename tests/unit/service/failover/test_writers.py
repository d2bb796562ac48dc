"""Which producers a mirror accepts after a comparison, and what its state record says then."""

import pytest

from mirrorlake.destinations.transactions.owner_states import OwnerState
from mirrorlake.kafka.control.descriptions import AppendState, LogEnd, ProducerState
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.failover.writers import Accepted, with_accepted, writers_before
from support.records import settings_of

ORDERS = TopicPartition("orders", 0)
STATE = OwnerState(
    mirror="m",
    topic_ids={"orders": "old"},
    producer_ids={0: (1, 2), 5: (3,)},
    former_ids={"orders": {0: (7,), 1: (9,)}},
    is_released=True,
)


def appended(end_offset: int, *producer_ids: int) -> AppendState:
    producers = tuple(
        ProducerState(
            producer_id=each,
            producer_epoch=0,
            last_sequence=3,
            last_timestamp_ms=0,
            coordinator_epoch=-1,
            transaction_start_offset=None,
        )
        for each in producer_ids
    )
    return AppendState(producers=producers, log_end=LogEnd(leader_epoch=0, end_offset=end_offset))


def accepted(ids: dict[TopicPartition, frozenset[int]], topic_ids: dict[str, str] | None = None) -> Accepted:
    return Accepted(settings_of("west:9092"), "c", producer_ids=ids, topic_ids=topic_ids or {})


@pytest.mark.parametrize(
    ("end_offset", "compared_to", "expected"), [(10, 10, {4, 5}), (9, 10, {4, 5}), (11, 10, None), (10, None, None)]
)
def test_writers_are_known_only_of_a_log_that_ends_within_what_was_compared(
    end_offset: int, compared_to: int | None, expected: set[int] | None
) -> None:
    assert writers_before(appended(end_offset, 4, 5), compared_to) == expected


def test_new_writers_are_added_to_those_known_and_our_own_are_none() -> None:
    more = {ORDERS: frozenset({1, 3, 7, 8}), TopicPartition("bills", 2): frozenset({8})}
    after = with_accepted(STATE, accepted(more))
    assert after.former_ids == {"orders": {0: (7, 8), 1: (9,)}, "bills": {2: (8,)}}
    assert (after.topic_ids, after.producer_ids, after.is_released) == ({"orders": "old"}, STATE.producer_ids, True)


def test_what_is_known_already_changes_nothing() -> None:
    assert with_accepted(STATE, accepted({ORDERS: frozenset({2, 7})}, {"orders": "old"})) == STATE


def test_a_topic_that_was_made_anew_is_the_one_that_was_copied_and_no_other_becomes_known() -> None:
    after = with_accepted(STATE, accepted({}, {"orders": "new", "bills": "x"}))
    assert after.topic_ids == {"orders": "new"}
