"""Topics for dead letters: which topics of the source they are, and what stands against them."""

from mirrorlake.config.destinations.kafka import KafkaDestination
from mirrorlake.config.resolved import Mirror
from mirrorlake.errors import (
    CollisionError,
    LoopError,
    MirrorlakeError,
    PermissionDeniedError,
    TopicMissingError,
    UnsupportedError,
)
from mirrorlake.kafka.control.descriptions import ClusterMetadata, TopicMetadata
from mirrorlake.sources.client import SourceTopic
from mirrorlake.topics.letter_topics import (
    clash_with_letters,
    letters_creation,
    letters_error,
    without_own_letters,
)
from unit.config.config_texts import load


def mirror(*, to: str = "a", topics: str = "/.*/", extra: str = "") -> Mirror:
    return load(
        'clusters: {a: {bootstrap-servers: "a:9092"}, b: {bootstrap-servers: "b:9092"}}\n'
        'registries: {e: {url: "http://e"}, w: {url: "http://w"}}\n'
        f"mirrors: [{{name: m, source: {{cluster: a, topics: [{topics}]}}, "
        f'destinations: [{{type: kafka, cluster: {to}, topic: "copy-of-{{topic}}", offsets: map{extra}}}], '
        'schemas: {from: e, to: w, on-unreadable: dead-letter, dead-letters: {topic: "{topic}.dead"}}}]\n'
    ).mirrors[0]


def destination(extra: str = "") -> KafkaDestination:
    found = mirror(to="b", extra=extra).destinations[0]
    assert isinstance(found, KafkaDestination)
    return found


def topic(name: str) -> SourceTopic:
    return SourceTopic(name=name, topic_id="id", is_internal=False, partitions=frozenset({0, 1, 2}), replicas=3)


def there(*names: str, **errors: MirrorlakeError) -> ClusterMetadata:
    topics = {n: TopicMetadata(name=n, topic_id="id", is_internal=False, partitions={}) for n in names}
    return ClusterMetadata(cluster_id="west", controller_id=0, brokers={}, topics=topics, errors=errors)


def test_what_an_expression_selects_of_the_same_cluster_is_without_own_letters() -> None:
    found = [topic(name) for name in ("orders", "orders.dead", "orders.dead.dead", "others.dead")]
    left = without_own_letters(mirror(), found)
    assert [each.name for each in left] == ["orders", "others.dead"]
    assert without_own_letters(mirror(to="b"), found) == found


def test_a_topic_that_goes_into_letters_or_is_some_by_name_is_refused() -> None:
    letters = {"orders.dead"}
    assert isinstance(clash_with_letters("x", "orders.dead", letters, is_same_cluster=False), CollisionError)
    assert isinstance(clash_with_letters("orders.dead", "y", letters, is_same_cluster=True), LoopError)
    assert clash_with_letters("orders.dead", "y", letters, is_same_cluster=False) is None
    assert clash_with_letters("orders", "copy", letters, is_same_cluster=True) is None


def test_a_topic_is_made_as_large_as_a_copy_for_larger_records_and_loses_nothing() -> None:
    made = letters_creation("dead", destination(), topic("orders"), {"max.message.bytes": "5000"})
    assert (made.topic, made.partitions, made.replication_factor) == ("dead", 3, -1)
    assert made.configs == {
        "cleanup.policy": "delete",
        "max.message.bytes": "9096",
        "retention.bytes": "-1",
        "retention.ms": "-1",
    }
    ruled = destination(", create-topics: {partitions: {fixed: 1}, replication: {fixed: 2}}")
    made = letters_creation("dead", ruled, topic("orders"), {})
    assert (made.partitions, made.replication_factor) == (1, 2)


def test_a_topic_must_be_there_or_may_be_made_and_is_not_compacted() -> None:
    never = destination(", create-topics: never")
    assert letters_error("dead", destination(), there(), {}) is None
    assert isinstance(letters_error("dead", never, there(), {}), TopicMissingError)
    assert letters_error("dead", never, there("dead"), {"cleanup.policy": "delete"}) is None
    for policy in ("compact", "compact,delete"):
        found = letters_error("dead", destination(), there("dead"), {"cleanup.policy": policy})
        assert isinstance(found, UnsupportedError)
    hidden = PermissionDeniedError("no")
    assert letters_error("dead", destination(), there(dead=hidden), {}) is hidden
