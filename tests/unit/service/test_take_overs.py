"""For how long a new owner fills no gap, for all owners before it whose leases may still append; and what it fills."""

import pytest

from mirrorlake.config.loading import parse_configuration
from mirrorlake.destinations.transactions.owner_states import OwnerState
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.owners.owner_records import record_after
from mirrorlake.service.owners.take_overs import targets_after, wait_seconds, with_hold
from mirrorlake.topics.sources import source_of
from mirrorlake.topics.targets import Target

CONFIG = """
clusters: {east: {bootstrap-servers: "east:9092"}, west: {bootstrap-servers: "west:9092"}}
mirrors: [{name: orders, source: {cluster: east, topics: [t, u]}, destinations: [{type: kafka, cluster: west}]}]
"""
MIRROR = parse_configuration(CONFIG.encode(), file="mirror.yaml", environ={}).mirrors[0]

OURS = 5.0
"""How long leases of the owner that asks may append."""


def record(hold_seconds: float | None, hold_before_seconds: float = 0.0, *, is_released: bool = False) -> OwnerState:
    return OwnerState(
        mirror="orders",
        hold_seconds=hold_seconds,
        hold_before_seconds=hold_before_seconds,
        is_released=is_released,
    )


@pytest.mark.parametrize(
    ("before", "seconds"),
    [
        (None, 0.0),
        (record(65.0), 65.0),
        (record(None), OURS),  # of a version that did not say
        (record(65.0, is_released=True), 0.0),
        (record(65.0, 40.0, is_released=True), 40.0),  # it let go while it waited for the one before
        (record(10.0, 65.0), 65.0),
    ],
    ids=["nobody", "dead", "old", "released", "released-early", "dead-early"],
)
def test_a_new_owner_waits_for_whoever_may_append_longest(before: OwnerState | None, seconds: float) -> None:
    assert wait_seconds(before, or_else=OURS) == seconds


def test_owners_that_die_one_after_another_hand_down_the_longest_time_and_no_longer_one() -> None:
    before, waits = record(65.0), []
    for own_seconds in (10.0, 5.0, 30.0):
        waits.append(wait_seconds(before, or_else=own_seconds))
        before = with_hold(record(own_seconds), own_seconds=own_seconds, before_seconds=waits[-1])
    assert waits == [65.0, 65.0, 65.0]
    assert before.hold_seconds == 65.0  # what versions read that know of no owners before


def test_the_longer_time_of_the_owner_itself_stays() -> None:
    state = with_hold(record(None), own_seconds=65.0, before_seconds=10.0)
    assert (state.hold_seconds, state.hold_before_seconds) == (65.0, 10.0)


def target(topic: str, partition: int, topic_id: str) -> Target:
    return Target(
        mirror=MIRROR,
        destination=MIRROR.destinations[0],
        source_work=source_of(MIRROR),
        source=TopicPartition(topic, partition),
        source_cluster_id="east-id",
        topic_id=topic_id,
        destination_topic=topic,
    )


@pytest.mark.parametrize(
    ("before", "found", "expected"),
    [
        ([("t", 0, "a"), ("t", 1, "a")], [("t", 0, "b")], [("t", 0, "b")]),
        ([("t", 0, "a"), ("t", 1, "a")], [("t", 0, "b"), ("t", 1, "b")], [("t", 0, "b"), ("t", 1, "b")]),
        ([("t", 0, "a")], [("t", 0, "b"), ("t", 1, "b")], [("t", 0, "b"), ("t", 1, "b")]),
        ([("t", 0, "a")], [("t", 1, "a")], [("t", 0, "a"), ("t", 1, "a")]),
        ([("t", 0, "a"), ("u", 1, "a")], [("t", 0, "b")], [("u", 1, "a"), ("t", 0, "b")]),
        ([("t", 0, "a"), ("t", 1, "a")], [("t", 0, "")], [("t", 1, "a"), ("t", 0, "")]),
        ([("t", 0, ""), ("t", 1, "")], [("t", 0, "b")], [("t", 1, ""), ("t", 0, "b")]),
    ],
    ids=["fewer", "same", "more", "grown", "another-topic", "id-not-told", "id-not-known"],
)
def test_targets_of_a_topic_that_is_gone_end_with_it_whatever_takes_its_place(
    before: list[tuple[str, int, str]], found: list[tuple[str, int, str]], expected: list[tuple[str, int, str]]
) -> None:
    after = targets_after([target(*each) for each in before], [target(*each) for each in found])
    assert [(each.source.topic, each.source.partition, each.topic_id) for each in after] == expected


def test_a_state_record_says_the_id_of_the_topic_that_is_there_though_that_has_fewer_partitions() -> None:
    known = OwnerState(
        mirror="orders",
        source_cluster_id="east-id",
        topic_ids={"t": "a"},
        destinations={"t": "t"},
        partitions={"t": (0, 1)},
    )
    accepted = targets_after([target("t", 0, "a"), target("t", 1, "a")], [target("t", 0, "b")])
    record = record_after(
        MIRROR,
        {"orders": known},
        source_cluster_id="east-id",
        accepted=accepted,
        of_others=(),
        producer_ids={},
        map_producer_ids={},
        former_ids={},
        hold_seconds=1.0,
    )
    assert record.topic_ids == {"t": "b"}
