"""What stays known of a cluster between answers that each tell only part of it."""

from mirrorlake.errors import PermissionDeniedError
from mirrorlake.kafka.control.descriptions import ClusterMetadata, TopicMetadata
from mirrorlake.kafka.control.metadata import MetadataCache


def topic(name: str, topic_id: str = "1") -> TopicMetadata:
    return TopicMetadata(name=name, topic_id=topic_id, is_internal=False, partitions={})


def told(*topics: TopicMetadata, **errors: PermissionDeniedError) -> ClusterMetadata:
    return ClusterMetadata(
        cluster_id="c", controller_id=1, brokers={1: ("h", 1)}, topics={t.name: t for t in topics}, errors=errors
    )


def test_nothing_is_known_before_the_first_answer() -> None:
    cache = MetadataCache()

    assert cache.cached(None) is None
    assert cache.cached(()) is None
    assert cache.cached(("a",)) is None


def test_an_answer_about_some_topics_leaves_the_others_known() -> None:
    cache = MetadataCache()
    cache.merge(told(topic("a"), topic("b")), None)

    cache.merge(told(topic("b", "2")), ("b",))

    assert cache.known.topics == {"a": topic("a"), "b": topic("b", "2")}
    assert cache.cached(("b",)) == told(topic("b", "2"))


def test_a_topic_that_is_gone_is_forgotten() -> None:
    cache = MetadataCache()
    cache.merge(told(topic("a"), topic("b")), None)

    cache.merge(told(), ("a",))

    assert cache.cached(("a",)) is None
    assert cache.cached(None) == told(topic("b"))


def test_all_topics_are_known_only_after_all_were_asked_for() -> None:
    cache = MetadataCache()
    cache.merge(told(topic("a")), ("a",))

    assert cache.cached(None) is None
    assert cache.cached(("a",)) == told(topic("a"))
    assert cache.cached(("a", "b")) is None


def test_an_error_about_a_topic_lasts_until_the_next_answer_about_it() -> None:
    cache = MetadataCache()
    cache.merge(told(a=PermissionDeniedError("no")), ("a",))
    assert set(cache.narrow(("a",)).errors) == {"a"}

    cache.merge(told(topic("b")), ("b",))
    assert set(cache.known.errors) == {"a"}

    cache.merge(told(topic("a")), ("a",))
    assert cache.known.errors == {}
