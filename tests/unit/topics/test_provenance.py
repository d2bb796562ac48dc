"""Whose records a destination topic holds, and where those of a recreated topic go; by state records alone."""

from dataclasses import replace

import pytest

from mirrorlake.config.loading import parse_configuration
from mirrorlake.config.resolved import RecreationPolicy
from mirrorlake.destinations.transactions.owner_states import OwnerState, decode_state, encode_state
from mirrorlake.errors import DestinationForeignError, OtherMirrorError, OtherSourceError, TopicRecreatedError
from mirrorlake.offsets import TopicPartition
from mirrorlake.topics.provenance import Placement, generations_after, place, refusal
from mirrorlake.topics.sources import source_of
from mirrorlake.topics.targets import Target

CONFIG = """
clusters: {east: {bootstrap-servers: "east:9092"}, west: {bootstrap-servers: "west:9092"}}
mirrors:
  - {name: m, source: {cluster: east, topics: [orders]}, destinations: [{type: kafka, cluster: west, topic: copy}]}
"""
MIRROR = parse_configuration(CONFIG.encode(), file="mirror.yaml", environ={}).mirrors[0]
KNOWN = OwnerState(
    mirror="m", owner="one", source_cluster_id="east-id", topic_ids={"orders": "a"}, destinations={"copy": "orders"}
)
TWICE = replace(KNOWN, topic_ids={"orders": "b"}, generations={"copy": {"b": "copy.2"}})


def target(topic_id: str = "a", destination: str = "copy", cluster_id: str = "east-id") -> Target:
    return Target(
        mirror=MIRROR,
        destination=MIRROR.destinations[0],
        source_work=source_of(MIRROR),
        source=TopicPartition("orders", 0),
        source_cluster_id=cluster_id,
        topic_id=topic_id,
        destination_topic=destination,
    )


@pytest.mark.parametrize(
    ("state", "topic_id", "policy", "expected"),
    [
        (None, "a", "restart", Placement(topic="copy")),
        (KNOWN, "a", "restart", Placement(topic="copy")),
        (KNOWN, "", "restart", Placement(topic="copy")),
        (KNOWN, "b", "park", Placement(topic="copy")),
        (KNOWN, "b", "restart", Placement(topic="copy", replaces="a")),
        (KNOWN, "b", "new-topic", Placement(topic="copy.2")),
        (TWICE, "b", "park", Placement(topic="copy.2")),
        (TWICE, "c", "park", Placement(topic="copy.2")),
        (TWICE, "c", "restart", Placement(topic="copy.2", replaces="b")),
        (TWICE, "c", "new-topic", Placement(topic="copy.3")),
    ],
)
def test_where_the_records_of_a_topic_go(
    state: OwnerState | None, topic_id: str, policy: str, expected: Placement
) -> None:
    found = place("copy", topic="orders", topic_id=topic_id, policy=RecreationPolicy(policy), state=state)
    assert found == expected


def test_a_new_topic_is_never_one_that_another_source_topic_goes_to() -> None:
    taken = replace(KNOWN, destinations={"copy": "orders", "copy.2": "orders.2"})
    found = place("copy", topic="orders", topic_id="b", policy=RecreationPolicy.NEW_TOPIC, state=taken)
    assert found.topic == "copy.3"


def test_what_was_copied_from_this_very_topic_is_gone_on_with() -> None:
    assert refusal(target(), {}) is None
    assert refusal(target(), {"m": KNOWN}) is None
    assert refusal(target("b", "copy.2"), {"m": TWICE}) is None


@pytest.mark.parametrize(
    ("found", "kind", "expected", "seen"),
    [
        (target(cluster_id="other-id"), OtherSourceError, "east-id", "other-id"),
        (target("b"), TopicRecreatedError, "a", "b"),
    ],
)
def test_what_was_copied_from_elsewhere_is_refused_with_both_ids(
    found: Target, kind: type[DestinationForeignError | TopicRecreatedError], expected: str, seen: str
) -> None:
    error = refusal(found, {"m": KNOWN})
    assert type(error) is kind
    assert (error.facts["expected"], error.facts["found"]) == (expected, seen)
    assert error.hint


def test_a_new_topic_for_a_recreated_topic_is_not_refused() -> None:
    assert refusal(target("b", "copy.2"), {"m": KNOWN}) is None
    assert generations_after([target("b", "copy.2")], {}) == {"copy": {"b": "copy.2"}}
    assert generations_after([target("c", "copy.3")], TWICE.generations) == {"copy": {"b": "copy.2", "c": "copy.3"}}
    assert generations_after([target("a")], {}) == {}


def test_a_topic_of_another_mirror_is_refused_until_that_one_has_let_go() -> None:
    other = replace(KNOWN, mirror="another")
    assert isinstance(refusal(target(), {"another": other}), OtherMirrorError)
    assert refusal(target(), {"another": replace(other, is_released=True)}) is None
    assert refusal(target(destination="copy.2"), {"another": other}) is None


def test_state_records_come_back_as_they_were_written() -> None:
    state = replace(TWICE, shards=16, producer_ids={3: (7, 1000)}, hold_seconds=10.5, is_released=True, taken_at_ms=12)
    state = replace(state, hold_before_seconds=4.5)
    state = replace(state, progress_topic_id="p", pages_topic_id="m", map_producer_ids={0: (8,), 1: (9, 10)})
    assert decode_state(encode_state(state)) == state


def test_a_record_of_the_first_format_is_read_as_knowing_nothing_more() -> None:
    first = (
        b'{"format_version": 1, "mirror": "m", "owner": "one", "shards": 16, "source_cluster_id": "east-id", '
        b'"taken_at_ms": 12, "topic_ids": {"orders": "a"}}'
    )
    state = decode_state(first)
    assert (state.topic_ids, state.shards, state.taken_at_ms) == ({"orders": "a"}, 16, 12)
    assert (state.producer_ids, state.generations, state.destinations) == ({}, {}, {})
    assert (state.hold_seconds, state.hold_before_seconds, state.is_released) == (None, 0.0, False)


@pytest.mark.parametrize("value", [b"[]", b"{}", b"not json", b'{"format_version": 3}'])
def test_records_that_are_not_understood_are_refused(value: bytes) -> None:
    with pytest.raises(DestinationForeignError, match=r"mirrorlake\.state"):
        decode_state(value)
