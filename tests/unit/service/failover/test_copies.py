"""How copies stand, and what goes back of them."""

from dataclasses import replace

import pytest

from mirrorlake.config.destinations.kafka import KafkaDestination
from mirrorlake.config.loading import parse_configuration
from mirrorlake.config.problems import ConfigurationErrors
from mirrorlake.config.resolved import Configuration
from mirrorlake.config.sources.source import KafkaSource
from mirrorlake.destinations.transactions.owner_states import OwnerState
from mirrorlake.errors import (
    BrokerUnreachableError,
    ConfigurationError,
    DestinationAheadError,
    DestinationForeignError,
    MirrorlakeError,
    OtherMirrorError,
    TopicMissingError,
    TopicRecreatedError,
    UnsupportedError,
)
from mirrorlake.mirror.policy import Decision, between_leases
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.failover.copies import CopyState, between_clusters, copy_row, is_source_gone
from mirrorlake.service.failover.turning import Turned
from mirrorlake.service.failover.way_back import (
    WayBack,
    back_row,
    check_turnable,
    comparable,
    diverged_row,
    from_one,
    has_diverged,
    misnamed,
    served,
    turned,
)
from mirrorlake.service.status import StatusRow
from mirrorlake.topics.sources import source_of
from mirrorlake.topics.targets import UNKNOWN_PARTITION, Target

FILE = b"""
clusters:
  east: {bootstrap-servers: "east:9092"}
  west: {bootstrap-servers: "west:9092"}
  north: {bootstrap-servers: "north:9092"}
stores: {lake: {type: filesystem, root: /lake}}
mirrors:
  - name: orders
    source: {cluster: east, topics: ["/orders-.*/"], exclude: [orders-tmp], partitions: [0, 3]}
    destinations:
      - {type: archive, store: lake}
      - {type: kafka, cluster: west, gap-fill: filler, gap-fill-max-offsets: 7}
    on-truncation: skip
  - name: two
    source: {cluster: east, topics: [two]}
    destinations: [{type: kafka, cluster: west}, {type: kafka, cluster: north}]
  - name: mapped
    source: {cluster: east, topics: [m]}
    destinations: [{type: kafka, cluster: west, offsets: map}]
  - name: routed
    source: {cluster: east, topics: [p]}
    destinations: [{type: kafka, cluster: west, offsets: map, route: {to: "'paid'", topics: [paid, open]}}]
  - name: renamed
    source: {cluster: east, topics: [r]}
    destinations: [{type: kafka, cluster: west, topic: "dr.{topic}"}]
  - name: filtered
    source: {cluster: east, topics: [f]}
    filter: {where: "key IS NOT NULL"}
    destinations: [{type: kafka, cluster: west, offsets: map}]
  - name: archived
    source: {cluster: east, topics: [a]}
    destinations: [{type: archive, store: lake}]
  - name: restored
    source: {store: lake, topics: [b]}
    destinations: [{type: kafka, cluster: west}]
"""
AWAY = BrokerUnreachableError("away")
AHEAD = DestinationAheadError("ahead")
FOREIGN = DestinationForeignError("foreign")


def configuration() -> Configuration:
    return parse_configuration(FILE, file="m.yaml", environ={})


def row(
    end: int | None, position: int | None, error: MirrorlakeError | None = None, *, partition: int = 0
) -> StatusRow:
    mirror = configuration().mirrors[1]
    target = Target(
        mirror=mirror,
        destination=mirror.destinations[0],
        source_work=source_of(mirror),
        source=TopicPartition("two", partition),
        destination_topic="two",
    )
    return StatusRow(target=target, source_start=0, source_end=end, position=position, error=error)


@pytest.mark.parametrize(
    ("end", "position", "error", "state", "missing"),
    [
        (30, 30, None, CopyState.COMPLETE, 0),
        (30, 20, None, CopyState.BEHIND, 10),
        (30, None, None, CopyState.UNKNOWN, None),
        (None, 30, None, CopyState.UNKNOWN, None),
        (30, 30, AWAY, CopyState.UNKNOWN, None),
        (30, 30, FOREIGN, CopyState.PARKED, None),
        (30, 40, AHEAD, CopyState.PARKED, None),
    ],
)
def test_a_copy_is_complete_only_where_both_ends_are_known_and_nothing_stands_against_it(
    end: int | None, position: int | None, error: MirrorlakeError | None, state: CopyState, missing: int | None
) -> None:
    found = copy_row(row(end, position, error))
    assert (found.state, found.missing) == (state, missing)
    assert ("error" in found.as_json()) is (error is not None)


COPIED = OwnerState(mirror="two", owner="gone", is_released=True, destinations={"two": "two"})


@pytest.mark.parametrize(
    ("end", "position", "error", "owner", "state"),
    [
        (30, 37, FOREIGN, COPIED, CopyState.WRITTEN_TO),
        (30, 37, FOREIGN, replace(COPIED, owner="", is_released=False), CopyState.WRITTEN_TO),
        # Somebody writes where a process copies, or one that died may.
        (30, 37, FOREIGN, replace(COPIED, is_released=False), CopyState.PARKED),
        # Nobody is seen to have written there: the source may have lost its newest records.
        (30, 37, AHEAD, COPIED, CopyState.PARKED),
        # The source has as many, and others: they have diverged.
        (37, 37, FOREIGN, COPIED, CopyState.PARKED),
        (40, 37, FOREIGN, COPIED, CopyState.PARKED),
        (None, 37, FOREIGN, COPIED, CopyState.PARKED),
        # It never was the copy, as far as anybody knows.
        (30, 37, FOREIGN, None, CopyState.PARKED),
        (30, 37, FOREIGN, replace(COPIED, destinations={"two": "other"}), CopyState.PARKED),
        (30, 37, FOREIGN, replace(COPIED, found_filled={"two": (0,)}), CopyState.PARKED),
        (30, 37, FOREIGN, replace(COPIED, found_filled={"two": (1,)}), CopyState.WRITTEN_TO),
        (30, 37, OtherMirrorError("another fills it"), COPIED, CopyState.PARKED),
    ],
)
def test_a_copy_is_written_to_where_others_are_seen_behind_the_sources_end_and_it_was_let_go_of(
    end: int | None, position: int, error: MirrorlakeError, owner: OwnerState | None, state: CopyState
) -> None:
    there = row(end, position, error)
    found = copy_row(replace(there, target=replace(there.target, owner=owner)))
    assert found.state is state
    is_known = state is not CopyState.WRITTEN_TO
    assert (found.copied, found.to_end) == ((position, position) if is_known else (None, None))
    assert ("error" in found.as_json()) is is_known


@pytest.mark.parametrize(
    ("partition", "error", "is_gone"),
    [
        (UNKNOWN_PARTITION, AWAY, True),
        (UNKNOWN_PARTITION, TopicMissingError("gone"), True),
        (UNKNOWN_PARTITION, TopicRecreatedError("another"), False),
        (0, AWAY, False),  # the source was asked, the destination is away
        (0, None, False),
    ],
)
def test_a_source_is_gone_where_it_could_not_be_asked_for_its_partitions(
    partition: int, error: MirrorlakeError | None, is_gone: bool
) -> None:
    assert is_source_gone(row(None, None, error, partition=partition)) is is_gone


def test_mirrors_between_clusters_are_taken_without_their_archives() -> None:
    chosen = between_clusters(configuration(), ()).mirrors
    assert [mirror.name for mirror in chosen] == ["orders", "two", "mapped", "routed", "renamed", "filtered"]
    assert [each.label for each in chosen[0].destinations] == ["west"]
    with pytest.raises(ConfigurationError, match=r"copies from one cluster to another.*mirrorlake restore"):
        between_clusters(configuration(), ["archived", "restored"])


def test_the_way_back_keeps_the_selection_of_partitions_and_how_gaps_are_filled() -> None:
    mirror = between_clusters(configuration(), ["orders"]).mirrors[0]
    check_turnable(mirror, ["orders"])

    back = turned(mirror, ["orders-a", "orders-b"])

    assert isinstance(back.source, KafkaSource)
    (destination,) = back.destinations
    assert isinstance(destination, KafkaDestination)
    assert (back.name, back.source.name, destination.label) == ("orders-back", "west", "east")
    assert back.source.topics.names == ("orders-a", "orders-b")
    assert back.source.topics.patterns == ()
    assert back.source.partitions == (0, 3)
    assert (destination.gap_fill.value, destination.gap_fill_offsets_max) == ("filler", 7)
    assert destination.name_for("orders-a") == "orders-a"
    assert back.on_truncation is mirror.on_truncation


@pytest.mark.parametrize(
    ("name", "names", "reason"),
    [
        ("two", (), "copies to west, north: from which of them.*--from CLUSTER"),
        ("mapped", (), "gives records other offsets"),
        ("routed", (), "parts records among topics by a route"),
        ("renamed", (), "renames topics"),
        ("filtered", (), "gives records other offsets"),
        ("orders", ("orders-back",), "would have the name of another mirror, orders-back"),
    ],
)
def test_a_mirror_that_does_not_say_how_it_goes_back_is_refused(name: str, names: tuple[str, ...], reason: str) -> None:
    (mirror,) = between_clusters(configuration(), [name]).mirrors
    with pytest.raises(ConfigurationError, match=reason):
        check_turnable(mirror, [name, *names])


@pytest.mark.parametrize("offsets", ["preserve", "map"])
@pytest.mark.parametrize(
    "template", ["{topic}.dr", "dr.{topic}", "{cluster}.{topic}", "{topic}-{mirror}", "orders", "o"]
)
def test_a_copy_by_another_name_goes_back_by_a_mirror_that_says_the_name_it_had(template: str, offsets: str) -> None:
    text = f"""
clusters: {{east: {{bootstrap-servers: "east:9092"}}, west: {{bootstrap-servers: "west:9092"}}}}
mirrors:
  - name: m
    source: {{cluster: east, topics: [orders]}}
    destinations: [{{type: kafka, cluster: west, topic: "{template}", offsets: {offsets}}}]
"""
    (mirror,) = parse_configuration(text.encode(), file="m.yaml", environ={}).mirrors
    with pytest.raises(ConfigurationError) as refused:
        check_turnable(mirror, ["m"])
    hint = str(refused.value.hint)
    assert hint.startswith("write a mirror in the other direction")
    assert "with `topic` as the name it had" in hint
    assert "`offsets: map`" in hint
    assert "`to_end`" in hint
    assert "renames topics (`topic: " in str(refused.value) or offsets == "map"


@pytest.mark.parametrize("topic", ["pay.{1}", "pay.{0}", r"pay.\\1", "pay.$1", "{topic", "{}", "{topics}"])
def test_no_template_knows_the_groups_of_an_expression_so_there_is_none_to_turn_round(topic: str) -> None:
    text = f"""
clusters: {{east: {{bootstrap-servers: "east:9092"}}, west: {{bootstrap-servers: "west:9092"}}}}
mirrors:
  - name: m
    source: {{cluster: east, topics: ["/pay-(.*)/"]}}
    destinations: [{{type: kafka, cluster: west, topic: "{topic}"}}]
"""
    with pytest.raises(ConfigurationErrors):
        parse_configuration(text.encode(), file="m.yaml", environ={})


@pytest.mark.parametrize(
    ("generations", "refused"),
    [
        ({}, set()),
        ({"a": {"id-1": "a"}}, set()),
        ({"a": {"id-1": "a", "id-2": "a.2"}}, {"a", "a.2"}),
        ({"a": {"id-2": "a.2"}, "b": {"id-3": "b"}}, {"a", "a.2"}),
        ({"a": {"id-2": "a.2", "id-3": "a.3"}, "a.2": {"id-4": "a.2.2"}}, {"a", "a.2", "a.3", "a.2.2"}),
    ],
)
def test_a_topic_that_was_recreated_and_its_copies_do_not_go_back_by_their_names(
    generations: dict[str, dict[str, str]], refused: set[str]
) -> None:
    mirror = between_clusters(configuration(), ["orders"]).mirrors[0]
    found = misnamed(mirror, OwnerState(mirror="orders", destinations={"b": "b"}, generations=generations))
    assert found.keys() == refused
    assert all("was recreated" in str(error) and between_leases(error) is Decision.PARK for error in found.values())
    assert misnamed(mirror, None) == {}


def test_what_does_not_go_back_is_left_out_of_what_is_served_topic_by_topic() -> None:
    config = configuration()
    mirrors = [turned(between_clusters(config, [name]).mirrors[0], ["a", "b"]) for name in ("orders", "filtered")]
    both = replace(config, mirrors=tuple(mirrors))
    no = UnsupportedError("no")
    back = Turned(config=both, refusals={}, topic_refusals={("orders-back", "a"): no})
    assert [each.source.topics.names for each in back.to_serve.mirrors] == [("b",), ("a", "b")]
    assert [back.refusal_of("orders-back", topic) for topic in "ab"] == [no, None]
    all_of_it = replace(back, topic_refusals={("orders-back", topic): no for topic in "ab"})
    assert [each.name for each in all_of_it.to_serve.mirrors] == ["filtered-back"]
    assert [each.name for each in replace(back, refusals={"filtered-back": no}).to_serve.mirrors] == ["orders-back"]


@pytest.mark.parametrize("name", ["mapped", "routed", "filtered"])
def test_a_copy_with_other_offsets_is_said_to_go_back_from_its_own_end(name: str) -> None:
    (mirror,) = between_clusters(configuration(), [name]).mirrors
    with pytest.raises(ConfigurationError) as refused:
        check_turnable(mirror, [name])
    assert "highest `to_end`" in str(refused.value.hint)
    assert "offsets import" in str(refused.value.hint)


def test_one_of_several_destinations_is_chosen_by_its_name() -> None:
    config = between_clusters(configuration(), ["two", "orders"])
    (routed,) = from_one(between_clusters(configuration(), ["routed"]), "west").mirrors
    assert [each.label for each in routed.destinations] == ["west/paid", "west/open"]
    assert [[d.label for d in mirror.destinations] for mirror in from_one(config, "north").mirrors] == [["north"]]
    with pytest.raises(ConfigurationError, match="no mirror that is meant copies to south"):
        from_one(config, "south")


@pytest.mark.parametrize(
    ("error", "is_asked"),
    [(FOREIGN, True), (AHEAD, True), (OtherMirrorError("of another"), True), (AWAY, False), (None, False)],
)
def test_only_what_may_be_a_divergence_is_compared_record_by_record(
    error: MirrorlakeError | None, is_asked: bool
) -> None:
    assert has_diverged(error) is is_asked


def test_all_that_both_sides_hold_is_compared_and_nothing_where_an_end_is_not_known() -> None:
    for end, position, compared in ((30, 35, 30), (30, 20, 20)):
        found = comparable(row(end, position, FOREIGN))
        assert found is not None
        assert (found.position, found.error) == (compared, None)
    assert comparable(row(None, 20, FOREIGN)) is None
    assert comparable(row(20, None, FOREIGN)) is None


@pytest.mark.parametrize(
    ("end", "old_end", "error", "difference", "way", "divergence", "unreplicated"),
    [
        (40, 35, FOREIGN, 30, WayBack.DIVERGED, 30, 5),
        (30, 35, AHEAD, None, WayBack.DIVERGED, 30, 5),
        (40, 35, OtherMirrorError("of another"), None, WayBack.REFUSED, None, None),
        (40, 35, FOREIGN, 0, WayBack.DIVERGED, 0, 35),
    ],
)
def test_a_divergence_is_the_first_offset_that_differs_or_the_end_of_the_copy(
    end: int,
    old_end: int,
    error: MirrorlakeError,
    difference: int | None,
    way: WayBack,
    divergence: int | None,
    unreplicated: int | None,
) -> None:
    found = diverged_row(row(end, old_end, error), difference)
    assert (found.way, found.divergence, found.unreplicated, found.to_copy) == (way, divergence, unreplicated, None)
    assert ("decide" in found.as_json()) is (way is WayBack.DIVERGED)


@pytest.mark.parametrize(
    ("end", "old_end", "error", "way", "to_copy"),
    [
        (30, 30, None, WayBack.EQUAL, 0),
        (30, 20, None, WayBack.TO_COPY, 10),
        (30, None, None, WayBack.UNKNOWN, None),
        (30, 20, AWAY, WayBack.UNKNOWN, None),
        (30, 20, TopicRecreatedError("another"), WayBack.REFUSED, None),
    ],
)
def test_what_goes_back_is_counted_only_where_it_is_known(
    end: int, old_end: int | None, error: MirrorlakeError | None, way: WayBack, to_copy: int | None
) -> None:
    found = back_row(row(end, old_end, error))
    assert (found.way, found.to_copy) == (way, to_copy)


@pytest.mark.parametrize(
    ("state", "is_refused"),
    [
        (None, False),
        (OwnerState(mirror="m"), False),
        (OwnerState(mirror="m", owner="host:1", is_released=True), False),
        (OwnerState(mirror="m", owner="host:1"), True),
    ],
)
def test_nothing_goes_back_while_the_mirror_itself_is_somebodys(state: OwnerState | None, is_refused: bool) -> None:
    assert (served("m", state) is not None) is is_refused
