"""Who copies topics of heartbeats, and which topics none are written to."""

from mirrorlake.config.loading import parse_configuration
from mirrorlake.destinations.transactions.owner_states import OwnerState
from mirrorlake.kinds.kafka import archived_ids, schema_ids
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.client import SourceTopic
from mirrorlake.topics.heartbeat_topics import copied_into, remark_of, without_heartbeats_of_others
from mirrorlake.topics.letter_topics import letters_topic
from mirrorlake.topics.sources import source_of
from mirrorlake.topics.targets import Target

CONFIG = parse_configuration(
    b"clusters:\n  east: {bootstrap-servers: 'e:1'}\n  west: {bootstrap-servers: 'w:1'}\n"
    b"  north: {bootstrap-servers: 'n:1'}\n"
    b"defaults: {heartbeats: {interval: 2s}}\n"
    b"mirrors:\n"
    b"- {name: orders, source: {cluster: east, topics: [orders]}, destinations: [{type: kafka, cluster: west}]}\n"
    b"- {name: rest, source: {cluster: east, topics: ['/.*/'], exclude: [orders]}, "
    b"destinations: [{type: kafka, cluster: west}]}\n"
    b"- {name: on, source: {cluster: west, topics: ['/.*/']}, destinations: [{type: kafka, cluster: north}]}\n",
    file="c.yaml",
    environ={},
)
ORDERS, REST, ON = CONFIG.mirrors


def topics(*names: str) -> list[SourceTopic]:
    return [SourceTopic(name=name, topic_id="", partitions=frozenset({0}), is_internal=False) for name in names]


def test_an_expression_leaves_heartbeats_of_other_mirrors_of_its_source_to_them() -> None:
    there = topics("audit", "mirrorlake.heartbeats.orders", "mirrorlake.heartbeats.rest")
    kept = without_heartbeats_of_others(REST, CONFIG.mirrors, there)
    assert [each.name for each in kept] == ["audit", "mirrorlake.heartbeats.rest"]


def test_copies_of_heartbeats_go_on_from_cluster_to_cluster() -> None:
    there = topics("mirrorlake.heartbeats.orders", "mirrorlake.heartbeats.on")
    assert without_heartbeats_of_others(ON, CONFIG.mirrors, there) == there


def test_no_heartbeats_are_written_to_a_copy() -> None:
    copy = OwnerState(mirror="other", source_cluster_id="x", destinations={"beats": "orders"})
    error = copied_into("m", "beats", {"other": copy})
    assert error is not None
    assert error.message == (
        "mirror other copies orders of another cluster to topic beats, so mirror m writes no heartbeats there"
    )
    assert copied_into("m", "beats.m", {"other": copy}) is None


def test_what_the_mirrors_own_way_back_has_brought_back_is_no_copy_once_that_has_ended() -> None:
    def back(*, is_released: bool) -> dict[str, OwnerState]:
        state = OwnerState(
            mirror="m-back", source_cluster_id="x", destinations={"beats": "beats"}, is_released=is_released
        )
        return {"m-back": state}

    assert copied_into("m", "beats", back(is_released=True)) is None
    assert copied_into("m", "beats", back(is_released=False)) is not None
    assert copied_into("other", "beats", back(is_released=True)) is not None


def test_a_plan_says_that_the_source_is_written_to() -> None:
    assert remark_of(ORDERS) == (
        "mirror orders: `run` writes a heartbeat every 2 s to topic mirrorlake.heartbeats.orders of cluster east, "
        "which is its source, and makes that topic where it is not there"
    )


def test_heartbeats_are_copied_as_they_are_where_other_records_are_filtered_and_carry_schemas() -> None:
    config = parse_configuration(
        b"clusters: {east: {bootstrap-servers: 'e:1'}, west: {bootstrap-servers: 'w:1'}}\n"
        b"registries: {here: {url: 'http://h'}, there: {url: 'http://t'}}\n"
        b"mirrors:\n- name: m\n  source: {cluster: east, topics: [t]}\n  heartbeats: {topic: beats}\n"
        b"  filter: {where: 'offset = 2'}\n"
        b"  schemas: {from: here, to: there, on-unreadable: dead-letter, dead-letters: {topic: '{topic}.dlq'}}\n"
        b"  destinations: [{type: kafka, cluster: west, offsets: map}]\n",
        file="c.yaml",
        environ={},
    )
    (mirror,) = config.mirrors

    def of(topic: str) -> Target:
        return Target(
            mirror=mirror,
            destination=mirror.destinations[0],
            source_work=source_of(mirror),
            source=TopicPartition(topic, 0),
            destination_topic=topic,
        )

    assert of("t").keeps is not None
    assert (of("t").letters_topic, letters_topic(mirror, "t")) == ("t.dlq", "t.dlq")
    assert schema_ids(of("t")) is not None
    beats = of("beats")
    assert (beats.keeps, schema_ids(beats), archived_ids(beats)) == (None, None, None)
    assert (beats.letters_topic, letters_topic(mirror, "beats")) == ("", "")
