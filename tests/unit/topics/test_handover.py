"""Who fills what by the state records, and what a record says after targets were taken; by values alone."""

from dataclasses import replace

import pytest

from mirrorlake.config.loading import parse_configuration
from mirrorlake.config.resolved import Mirror
from mirrorlake.destinations.transactions.owner_states import OwnerState, decode_state, encode_state
from mirrorlake.errors import OtherMirrorError, TopicRecreatedError
from mirrorlake.offsets import TopicPartition
from mirrorlake.topics.handover import (
    copied_by_others,
    has_let_go,
    holdings_after,
    holds,
    known_of,
    others_holding,
    predecessors,
    with_configured_partitions,
)
from mirrorlake.topics.mapped_sources import mapped_sources_after
from mirrorlake.topics.provenance import refusal
from mirrorlake.topics.sources import source_of
from mirrorlake.topics.targets import Target


def mirror(name: str = "m", source: str = "", destination: str = "") -> Mirror:
    text = f"""
clusters: {{east: {{bootstrap-servers: "east:9092"}}, west: {{bootstrap-servers: "west:9092"}}}}
mirrors:
  - name: {name}
    source: {{cluster: east, topics: [orders]{source}}}
    destinations: [{{type: kafka, cluster: west, topic: copy{destination}}}]
"""
    return parse_configuration(text.encode(), file="mirror.yaml", environ={}).mirrors[0]


def target(partition: int = 0, of: Mirror | None = None, topic: str = "copy", topic_id: str = "a") -> Target:
    configured = of or mirror()
    return Target(
        mirror=configured,
        destination=configured.destinations[0],
        source_work=source_of(configured),
        source=TopicPartition("orders", partition),
        source_cluster_id="east-id",
        topic_id=topic_id,
        destination_topic=topic,
    )


OTHER = OwnerState(
    mirror="other",
    owner="one",
    source_cluster_id="east-id",
    topic_ids={"orders": "a"},
    destinations={"copy": "orders"},
    partitions={"copy": (0, 2)},
    let_go={"copy": (3,)},
)
WHOLE = replace(OTHER, partitions={}, let_go={})
RELEASED = replace(OTHER, is_released=True)


@pytest.mark.parametrize(
    ("state", "held", "once"),
    [(OTHER, {0, 2}, {3}), (WHOLE, {0, 1, 2, 3}, set()), (RELEASED, set(), {0, 2, 3})],
    ids=["shared", "of before", "released"],
)
def test_what_a_mirror_holds_and_has_let_go_of(state: OwnerState, held: set[int], once: set[int]) -> None:
    assert {n for n in range(4) if holds(state, "copy", n)} == held
    assert {n for n in range(4) if has_let_go(state, "copy", n)} == once
    assert not holds(state, "elsewhere", 0)


def test_only_partitions_that_another_mirror_holds_are_refused() -> None:
    found = [type(refusal(target(n), {"other": OTHER})) for n in range(4)]
    assert found == [OtherMirrorError, type(None), OtherMirrorError, type(None)]


def test_a_copy_is_gone_on_with_where_it_has_the_same_source_only() -> None:
    assert [s.mirror for s in predecessors(target(0), {"other": RELEASED})] == ["other"]
    assert predecessors(target(1), {"other": RELEASED}) == []
    for change in ({"source_cluster_id": "x"}, {"destinations": {"copy": "payments"}}, {"mapped_topics": ("copy",)}):
        assert predecessors(target(0), {"other": replace(RELEASED, **change)}) == []


def test_the_source_topics_id_and_its_generations_are_taken_along() -> None:
    other = replace(RELEASED, topic_ids={"orders": "b"}, generations={"copy": {"b": "copy.2"}}, taken_at_ms=5)
    known = known_of({"other": other}, mirror="m", base="copy", topic="orders", source_cluster_id="east-id")
    assert known is not None
    assert (known.mirror, known.topic_ids, known.generations) == ("m", {"orders": "b"}, {"copy": {"b": "copy.2"}})
    assert isinstance(refusal(target(topic_id="b"), {"other": RELEASED}), TopicRecreatedError)
    own = OwnerState(mirror="m", source_cluster_id="east-id", topic_ids={"orders": "a"})
    states = {"other": other, "m": own}
    assert known_of(states, mirror="m", base="copy", topic="orders", source_cluster_id="east-id") is own


def test_records_of_before_are_read_by_the_configuration_of_mirrors_that_share_a_topic() -> None:
    shared = mirror("other", source=", partitions: [1]")
    read = with_configured_partitions({"other": WHOLE}, [shared])["other"]
    assert read.partitions == {"copy": (1,)}
    assert with_configured_partitions({"other": OTHER}, [shared])["other"] is OTHER, "it says so itself"
    assert with_configured_partitions({"other": WHOLE}, [mirror("other")])["other"] is WHOLE
    assert with_configured_partitions({"other": WHOLE}, [mirror("another")])["other"] is WHOLE


def test_a_mapped_copy_of_another_mirror_is_not_made_a_second_time() -> None:
    mapped = mirror(destination=", offsets: map")
    states = {"other": RELEASED}
    assert copied_by_others(target(0, mapped), states) == [RELEASED]
    assert copied_by_others(target(3, mapped), states) == [RELEASED]
    assert copied_by_others(target(1, mapped), states) == [], "of a topic that is shared by partitions"
    assert copied_by_others(target(0, mapped, topic_id="b"), states) == [], "another topic of that name"
    begun = OwnerState(mirror="m", source_cluster_id="east-id", destinations={"copy": "orders"})
    assert copied_by_others(target(0, mapped), {**states, "m": begun}) == []
    assert isinstance(refusal(target(0, mapped), states), OtherMirrorError)
    for start in (", start: latest", ", start: {offsets: {orders: {0: 7}}}"):
        assert refusal(target(0, mirror(source=start, destination=", offsets: map")), states) is None


def test_of_several_source_topics_in_one_each_is_known_to_be_copied() -> None:
    mapped = mirror(destination=", offsets: map")
    # `payments` was taken last, so `destinations` names it.
    last = replace(OTHER, destinations={"copy": "payments"}, mapped_topics=("copy",), partitions={"copy": (0, 1, 2)})
    said = replace(last, let_go={}, mapped_sources={"copy": {"orders": (0, 2), "payments": (1,)}})
    for number, expected in ((0, [said]), (1, []), (2, [said])):
        assert copied_by_others(target(number, mapped), {"other": said}) == expected
    # One of before does not say where `orders` went: it names no other topic for it, so it was there.
    assert copied_by_others(target(0, mapped), {"other": last}) == [last]
    elsewhere = replace(last, destinations={"copy": "payments", "more": "orders"})
    assert copied_by_others(target(0, mapped), {"other": elsewhere}) == []
    # That this mirror fills the topic from another source topic does not say that it has begun this one.
    own = replace(said, mirror="m", mapped_sources={"copy": {"payments": (0, 1, 2)}})
    assert copied_by_others(target(0, mapped), {"other": said, "m": own}) == [said]
    assert copied_by_others(target(0, mapped), {"other": said, "m": replace(said, mirror="m")}) == []


def test_what_was_mapped_is_remembered_of_every_source_topic_and_never_forgotten() -> None:
    mapped = mirror(destination=", offsets: map")
    first = mapped_sources_after([target(0, mapped), target(1)], None)
    assert first == {"copy": {"orders": (0,)}}, "of mapped copies alone"
    payments = replace(target(3, mapped), source=TopicPartition("payments", 3))
    known = replace(OTHER, mapped_topics=("copy",), mapped_sources=first)
    second = mapped_sources_after([target(5, mapped), payments], known)
    assert second == {"copy": {"orders": (0, 5), "payments": (3,)}}
    # A record of before: what it copied and names nowhere may have gone there.
    before = replace(OTHER, mapped_topics=("copy",), topic_ids={"orders": "a", "late": "b"}, destinations={"copy": "x"})
    found = mapped_sources_after([payments], before)["copy"]
    assert found == {"x": (0, 2, 3), "orders": (0, 2, 3), "late": (0, 2, 3), "payments": (3,)}


def test_mapped_sources_are_written_as_ranges_and_read_as_numbers() -> None:
    state = replace(OTHER, mapped_sources={"copy": {"orders": (0, 1, 2, 7), "wide": tuple(range(5000))}})
    assert decode_state(encode_state(state)) == state
    assert len(encode_state(state)) < 1000
    assert decode_state(encode_state(OTHER)).mapped_sources == {}


def test_what_is_taken_is_held_and_what_is_not_configured_any_more_is_let_go_of_after_a_graceful_end_only() -> None:
    own = replace(OTHER, mirror="m")
    shared = mirror(source=", partitions: [1, 2]")
    taken = [target(1, shared), target(2, shared)]
    after_a_crash = holdings_after(taken, [], own, shared)
    assert after_a_crash.partitions == {"copy": (0, 1, 2)}
    assert after_a_crash.let_go == {"copy": (3,)}
    after_an_end = holdings_after(taken, [], replace(own, is_released=True), shared)
    assert after_an_end.partitions == {"copy": (1, 2)}
    assert after_an_end.let_go == {"copy": (0, 3)}
    assert after_an_end.topics == {"copy": "orders"}


def test_what_cannot_be_asked_for_now_is_not_let_go_of() -> None:
    kept = holdings_after([], [], replace(OTHER, mirror="m", is_released=True), mirror())
    assert (kept.partitions, kept.let_go) == ({"copy": (0, 2)}, {"copy": (3,)})


@pytest.mark.parametrize("before", [OTHER, WHOLE], ids=["shared", "of before"])
def test_what_another_mirror_has_gone_on_with_is_let_go_of(before: OwnerState) -> None:
    found = holdings_after([target(2)], [target(0)], replace(before, mirror="m"), mirror())
    assert found.partitions == {"copy": (2,)}
    assert 0 in found.let_go["copy"]


def test_a_topic_that_others_fill_a_part_of_is_known() -> None:
    assert others_holding("copy", "m", {"other": OTHER}) == ["other"]
    assert others_holding("copy", "other", {"other": OTHER}) == []
    assert others_holding("copy", "m", {"other": replace(OTHER, partitions={"copy": ()})}) == []
    assert others_holding("copy", "m", {"other": RELEASED}) == []


def test_partitions_and_former_ids_come_back_as_they_were_written() -> None:
    state = replace(OTHER, mapped_topics=("copy",), former_ids={"copy": {0: (7, 9)}})
    assert decode_state(encode_state(state)) == state
