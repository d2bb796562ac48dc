"""What targets of one look mean for one another: circles over several clusters, collisions, names; by values alone."""

from dataclasses import replace

import pytest

from mirrorlake.config.loading import parse_configuration
from mirrorlake.config.resolved import Configuration
from mirrorlake.destinations.transactions.owner_states import OwnerState, decode_state, encode_state
from mirrorlake.errors import (
    BrokerNotReadyError,
    CollisionError,
    LoopError,
    MirrorlakeError,
    PermissionDeniedError,
    TopicMissingError,
    UnsupportedError,
)
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.owners.owner_records import record_after
from mirrorlake.topics.clashes import judged_together, origins_of
from mirrorlake.topics.sources import source_of
from mirrorlake.topics.targets import Target

PLACES = ("east", "west", "north")


def configured(*mirrors: tuple[str, str, str, str, str]) -> Configuration:
    """Name, source cluster, topics, destination cluster, destination topic of each."""
    clusters = "".join(f"  {place}: {{bootstrap-servers: '{place}:9092'}}\n" for place in PLACES)
    lines = "".join(
        f"  - {{name: {name}, source: {{cluster: {source}, topics: [{topics}]}}, "
        f"destinations: [{{type: kafka, cluster: {to}, topic: '{topic}'}}]}}\n"
        for name, source, topics, to, topic in mirrors
    )
    text = f"clusters:\n{clusters}mirrors:\n{lines}"
    return parse_configuration(text.encode(), file="mirror.yaml", environ={})


def target(config: Configuration, name: str, topic: str, **more: object) -> Target:
    """A target as discovery finds it; a cluster's id is its name with ``-id``."""
    (mirror,) = [each for each in config.mirrors if each.name == name]
    found = Target(
        mirror=mirror,
        destination=mirror.destinations[0],
        source_work=source_of(mirror),
        source=TopicPartition(topic, 0),
        source_cluster_id=f"{mirror.source.name}-id",
        destination_cluster_id=f"{mirror.destinations[0].label}-id",
        destination_topic=mirror.destinations[0].name_for(topic),
    )
    return replace(found, **more)  # type: ignore[arg-type]


def record_of(copied: Target) -> OwnerState:
    return record_after(
        copied.mirror,
        {},
        source_cluster_id=copied.source_cluster_id,
        accepted=[copied],
        of_others=[],
        producer_ids={},
        map_producer_ids={},
        former_ids={},
        hold_seconds=5.0,
    )


def errors_of(config: Configuration, *targets: Target) -> list[type[MirrorlakeError] | None]:
    return [type(t.error) if t.error else None for t in judged_together(targets, config.mirrors)]


RING = configured(
    ("first", "east", '"/.*/"', "west", "{topic}"),
    ("second", "west", '"/.*/"', "north", "{topic}"),
    ("third", "north", '"/.*/"', "east", "{topic}"),
)


def test_a_way_over_three_clusters_is_known_at_the_third_by_what_the_records_pass_on() -> None:
    first = record_of(target(RING, "first", "t"))
    second = target(RING, "second", "t", origins=origins_of("t", {"first": first}))
    assert errors_of(RING, second) == [None], "a chain is no circle"
    written = decode_state(encode_state(record_of(second)))
    assert written.origins == {"t": (("east-id", "t"),)}
    third = target(RING, "third", "t", origins=origins_of("t", {"second": written}))
    assert errors_of(RING, third) == [LoopError]
    assert errors_of(RING, target(RING, "third", "u", origins=origins_of("u", {"second": written}))) == [None]


def test_a_way_over_three_clusters_is_known_also_where_no_record_says_so_yet() -> None:
    first, second, third = (target(RING, name, "t") for name in ("first", "second", "third"))
    assert errors_of(RING, first, second) == [None, None]
    assert errors_of(RING, first, second, third) == [LoopError, LoopError, LoopError]


def test_a_topic_of_several_sources_came_from_each_of_them_and_from_where_those_were_before() -> None:
    shared = OwnerState(
        mirror="first",
        source_cluster_id="east-id",
        destinations={"all": "b"},
        mapped_topics=("all",),
        mapped_sources={"all": {"a": (0,), "b": (0,)}},
    )
    assert [each.topic for each in origins_of("all", {"first": shared})] == ["a", "b"]
    back = configured(("back", "west", "all", "east", "a"))
    way = target(back, "back", "all", destination_topic="a", destination_cluster_id="east-id")
    assert errors_of(back, replace(way, origins=origins_of("all", {"first": shared}))) == [LoopError]


NAMED = configured(("back", "west", "t", "east", "t"), ("further", "west", "u", "east", "v"))
HELD = OwnerState(mirror="there", source_cluster_id="east-id", destinations={"t": "t", "u": "u"})


@pytest.mark.parametrize(
    ("name", "topic", "is_released", "expected"),
    [("back", "t", False, LoopError), ("back", "t", True, None), ("further", "u", False, None)],
    ids=["into its origin", "home after a graceful end", "under another name"],
)
def test_named_topics_go_back_but_not_into_what_they_come_from(
    name: str, topic: str, is_released: bool, expected: type[MirrorlakeError] | None
) -> None:
    origins = origins_of(topic, {"there": replace(HELD, is_released=is_released)})
    assert errors_of(NAMED, target(NAMED, name, topic, origins=origins)) == [expected]


def test_a_copy_stays_one_for_expressions_when_its_mirror_has_ended() -> None:
    config = configured(("back", "west", '"/.*/"', "east", "west.{topic}"))
    origins = origins_of("t", {"there": replace(HELD, is_released=True)})
    assert errors_of(config, target(config, "back", "t", origins=origins)) == [LoopError]


def test_what_is_not_known_of_copies_holds_up_expressions_only_and_only_while_it_may_become_known() -> None:
    for error, expected in ((BrokerNotReadyError("x"), BrokerNotReadyError), (PermissionDeniedError("x"), None)):
        assert errors_of(RING, target(RING, "first", "t", origins_unread=error)) == [expected]
        assert errors_of(NAMED, target(NAMED, "back", "t", origins_unread=error)) == [None]


BOTH = configured(("one", "east", '"/x[.]t/"', "west", "{topic}"), ("other", "east", '"/t/"', "west", "x.{topic}"))


def test_of_two_ways_into_one_topic_the_one_that_has_begun_goes_on() -> None:
    one, other = target(BOTH, "one", "x.t"), target(BOTH, "other", "t")
    assert errors_of(BOTH, one, other) == [CollisionError, CollisionError]
    begun = replace(other, owner=record_of(other))
    assert errors_of(BOTH, one, begun) == [CollisionError, None]
    assert errors_of(BOTH, replace(one, owner=record_of(one)), begun) == [CollisionError] * 2
    served = judged_together([one], BOTH.mirrors, served=[("other", "west", "t")])
    assert isinstance(served[0].error, CollisionError), "what is served is not looked for again"
    gone = replace(other, error=TopicMissingError("x"))
    assert errors_of(BOTH, one, gone) == [None, TopicMissingError]


def test_ways_that_meet_under_other_names_than_configured_are_found_by_cluster_and_topic() -> None:
    recreated = target(BOTH, "other", "t", destination_topic="x.t.2")
    by_name = target(BOTH, "one", "x.t.2")
    assert errors_of(BOTH, recreated, by_name) == [CollisionError, CollisionError]
    assert errors_of(BOTH, replace(recreated, owner=record_of(recreated)), by_name) == [None, CollisionError]
    assert errors_of(BOTH, recreated, replace(by_name, source=TopicPartition("x.t.2", 1))) == [None, None]


def test_a_name_that_the_destination_would_not_take_is_refused_before_anything_is_made() -> None:
    config = configured(("long", "east", '"/.*/"', "west", "copy-of-{topic}"))
    assert errors_of(config, target(config, "long", "t" * 242), target(config, "long", "t" * 241)) == [
        UnsupportedError,
        None,
    ]


@pytest.mark.parametrize("topics", ["t", '"/t/"'], ids=["named", "by an expression"])
def test_one_cluster_under_two_names_is_called_so_and_not_a_copy_of_itself(topics: str) -> None:
    config = configured(("bad", "east", topics, "west", "{topic}"))
    (judged,) = judged_together([target(config, "bad", "t", destination_cluster_id="east-id")], config.mirrors)
    assert isinstance(judged.error, LoopError)
    assert judged.error.message == (
        "records would go round: east and west are one cluster, and mirror bad would copy topic t of it to t"
    )
    assert "the address of another cluster" in judged.error.hint
