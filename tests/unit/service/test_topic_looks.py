"""What a service takes of a plan of topics, and what it counts of it."""

from dataclasses import replace

import pytest

from mirrorlake.config.destinations.kafka import KafkaDestination
from mirrorlake.config.loading import parse_configuration
from mirrorlake.service.topics.syncing import missing_partitions, only_of
from mirrorlake.topics.sync.differences import PARTITIONS, TOPIC, Act, Difference, TopicFacts
from mirrorlake.topics.sync.plan import DONE, TopicPlan, TopicRow

CONFIG = parse_configuration(
    b"clusters: {a: {bootstrap-servers: 'a:1'}, b: {bootstrap-servers: 'b:1'}, c: {bootstrap-servers: 'c:1'}}\n"
    b"mirrors: [{name: m, source: {cluster: a, topics: [t]}, destinations: "
    b"[{type: kafka, cluster: b, sync: {interval: 30s}}, {type: kafka, cluster: c}]}]\n",
    file="c.yaml",
    environ={},
)


def row(act: Act, what: str = "retention.ms", *, to: int = 0, source: str = "4", found: str = "1") -> TopicRow:
    mirror = CONFIG.mirrors[0]
    destination = mirror.destinations[to]
    assert isinstance(destination, KafkaDestination)
    facts = TopicFacts(mirror=mirror, destination=destination, topic="t", name="t", source_configs={}, held_configs={})
    return TopicRow(facts=facts, difference=Difference(what=what, source=source, found=found, wanted=source, act=act))


def test_the_interval_is_the_destinations_own() -> None:
    found = [
        each.sync.interval_seconds for each in CONFIG.mirrors[0].destinations if isinstance(each, KafkaDestination)
    ]
    assert found == [30.0, None]


def test_only_the_rows_of_what_is_due_are_taken_and_no_topic_is_made() -> None:
    kept, other, made = row(Act.SET), row(Act.SET, to=1), row(Act.CREATE, TOPIC)
    plan = TopicPlan(rows=[kept, other, made], topics=3)
    assert list(only_of(plan, {("m", "b")}).rows) == [kept]
    assert list(only_of(plan, {("m", "c")}).rows) == [other]


@pytest.mark.parametrize(("source", "found", "missing"), [("4", "1", 3), ("1", "4", 0), ("2", "2", 0)])
def test_partitions_that_a_copy_lacks_are_counted_until_they_are_there(source: str, found: str, missing: int) -> None:
    lacking = row(Act.REPORT, PARTITIONS, source=source, found=found)
    assert missing_partitions([lacking, row(Act.SET)]) == missing
    assert missing_partitions([replace(lacking, result=DONE)]) == 0
