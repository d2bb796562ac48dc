"""What a destination topic is made like, and which rules cannot hold a copy with equal offsets."""

import pytest

from mirrorlake.config.destinations.kafka import KafkaDestination
from mirrorlake.config.resolved import Mirror
from mirrorlake.errors import PartitionCountError
from mirrorlake.kafka.control.descriptions import ConfigValue
from mirrorlake.sources.client import SourceTopic
from mirrorlake.topics.destination_topics import creation_of, route_error, rule_error, wanted_configs
from unit.config.config_texts import kafka, load

SOURCE = SourceTopic(name="orders", topic_id="", is_internal=False, partitions=frozenset(range(4)), replicas=3)


def mirror(text: str, partitions: str = "") -> tuple[Mirror, KafkaDestination]:
    found = load(kafka(destination=text, source=partitions)).mirrors[0]
    destination = found.destinations[0]
    assert isinstance(destination, KafkaDestination)
    return found, destination


def setting(value: str, source: str = "DYNAMIC_TOPIC_CONFIG") -> ConfigValue:
    return ConfigValue(value=value, source=source, is_read_only=False, is_sensitive=False)


CONFIGS = {
    "retention.ms": setting("1000"),
    "max.message.bytes": setting("2000", "STATIC_BROKER_CONFIG"),
    "segment.bytes": setting("3000", "STATIC_BROKER_CONFIG"),
    "retention.bytes": setting("-1", "DEFAULT_CONFIG"),
    "min.insync.replicas": setting("2"),
    "message.timestamp.type": setting("LogAppendTime"),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {"retention.ms": "1000", "max.message.bytes": "2000"}),
        (", sync: {exclude: [retention.ms]}", {"max.message.bytes": "2000"}),
        (", sync: {include: ['/retention.*/']}", {"retention.ms": "1000"}),
        (", sync: {include: [min.insync.replicas]}", {"min.insync.replicas": "2"}),
        (", sync: {include: [message.timestamp.type]}", {}),
        (
            ", sync: {override: {retention.ms: -1, segment.bytes: 5}}",
            {"retention.ms": "-1", "max.message.bytes": "2000", "segment.bytes": "5"},
        ),
    ],
)
def test_a_copy_has_what_the_source_chose_as_far_as_wanted(text: str, expected: dict[str, str]) -> None:
    _, destination = mirror(text)

    assert wanted_configs(destination, CONFIGS) == expected


@pytest.mark.parametrize(
    ("text", "partitions", "replicas"),
    [
        ("", 4, -1),
        (", offsets: map, create-topics: {partitions: {fixed: 2}}", 2, -1),
        (", create-topics: {partitions: {mirror-source: {min: 6}}, replication: mirror-source}", 6, 3),
        (", create-topics: {replication: {mirror-source: {max: 2}}}", 4, 2),
        (", replication-factor: 1", 4, 1),
    ],
)
def test_a_topic_is_made_by_its_rules(text: str, partitions: int, replicas: int) -> None:
    _, destination = mirror(text)

    made = creation_of("copy", destination, SOURCE, {"orders": {}})

    assert (made.partitions, made.replication_factor) == (partitions, replicas)


@pytest.mark.parametrize(
    ("rule", "chosen", "is_refused"),
    [
        ("mirror-source", "", False),
        ("{fixed: 4}", "", False),
        ("{fixed: 3}", "", True),
        ("{fixed: 5}", "", True),
        ("{mirror-source: {max: 3}}", "", True),
        ("{mirror-source: {min: 5}}", "", True),
        ("{mirror-source: {min: 2, max: 8}}", "", False),
        ("{fixed: 3}", ", partitions: [0, 2]", False),
        ("{fixed: 2}", ", partitions: [0, 2]", True),
        ("{fixed: 8}", ", partitions: [0, 2]", False),
    ],
)
@pytest.mark.parametrize("offsets", ["preserve", "map"])
def test_equal_offsets_need_as_many_partitions_as_the_source_has(
    rule: str, chosen: str, is_refused: bool, offsets: str
) -> None:
    found, destination = mirror(f", offsets: {offsets}, create-topics: {{partitions: {rule}}}", chosen)

    error = rule_error(found, "copy", SOURCE, destination)

    assert (error is not None) is (is_refused and offsets == "preserve")
    assert error is None or isinstance(error, PartitionCountError)


@pytest.mark.parametrize(("partition", "count", "is_there"), [(3, 4, True), (3, 3, True), (3, 3, False), (0, 1, True)])
def test_a_topic_of_a_route_needs_each_partition_of_the_source_by_its_number(
    partition: int, count: int, is_there: bool
) -> None:
    _, routed = mirror(", offsets: map, route: {to: \"'copy'\", topics: [copy]}")
    _, plain = mirror(", offsets: map")

    error = route_error("copy", SOURCE, partition, routed, count=count, is_there=is_there)

    assert route_error("copy", SOURCE, partition, plain, count=count, is_there=is_there) is None
    assert (error is None) is (partition < count)
    if error is not None:
        assert isinstance(error, PartitionCountError)
        assert "partition 3 of source topic orders has no partition of its number in copy on cluster west" in str(error)
        assert ("--alter --topic copy --partitions 4" if is_there else "let `create-topics` give 4") in error.hint
