"""How many shards a mirror with mapped offsets has: decided once, on real brokers, whatever comes later."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from mirrorlake.clock import SystemClock
from mirrorlake.config.loading import parse_configuration
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.map.progress_store import ProgressTopics, ensure_topics
from mirrorlake.destinations.map.shard_count import find_shards, settle_shards
from mirrorlake.destinations.map.work import MapWork
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import BrokerNotReadyError, DestinationForeignError, UnsupportedError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.map_shards import with_settled_shards
from mirrorlake.service.states import state_of
from mirrorlake.topics.discovery import find_targets
from mirrorlake.topics.targets import Target
from mirrorlake.topics.topic_creation import create_topics
from support.copies import create_topic, log_end
from support.leases import lease_plan, run_lease
from support.map_copies import held_through_map
from support.records import Record, build_batch, consume, produce, settings_of, simple_records
from support.topics import append, make_topic

pytestmark = pytest.mark.kafka

T = TypeVar("T")


class Mirror:
    """A mirror of this name, asked about at one cluster by processes of their own."""

    def __init__(self, servers: str, name: str) -> None:
        self.servers, self.name = servers, name
        self.progress = ProgressTopics(mirror=name, shards=1).progress

    def ask(self, question: Callable[[ClusterClient], Awaitable[T]]) -> T:
        async def asked() -> T:
            async with ClusterClient(settings_of(self.servers)) as client:
                return await question(client)

        return asyncio.run(asked())

    def found(self) -> int | None:
        return self.ask(lambda client: find_shards(client, self.name))

    def settled(self, wanted: int) -> int:
        return self.ask(lambda client: settle_shards(client, self.name, wanted=wanted, clock=SystemClock()))

    def partitions(self) -> int:
        found = self.ask(lambda client: client.metadata([self.progress], refresh=True))
        return len(found.topics[self.progress].partitions)

    def grow(self, partitions: int) -> None:
        self.ask(lambda client: client.topics.grow(self.progress, partitions=partitions))
        assert self.partitions() == partitions

    def written(self) -> list[tuple[bytes | None, bytes | None]]:
        return [(record.key, record.value) for record in consume(self.servers, self.progress, 0).values()]


@pytest.fixture
def mirror(destination_kafka: EmbeddedKafka, topic_name: str) -> Mirror:
    return Mirror(destination_kafka.bootstrap_servers, topic_name)


def test_a_mirror_that_begins_gets_what_is_wanted_and_keeps_it_whoever_wants_another_number(mirror: Mirror) -> None:
    assert mirror.found() is None
    assert mirror.settled(3) == 3
    assert mirror.partitions() == 3
    assert mirror.written() == [(b"S\x01", b"\x01\x00\x00\x00\x03")]
    assert [mirror.settled(1), mirror.settled(16), mirror.found()] == [3, 3, 3]
    assert len(mirror.written()) == 1


def test_looking_makes_no_topic(mirror: Mirror) -> None:
    assert mirror.found() is None
    assert mirror.progress not in mirror.ask(lambda client: client.metadata(refresh=True)).topics


def test_no_mirror_gets_more_shards_than_sixteen(mirror: Mirror) -> None:
    assert mirror.settled(100) == 16
    assert mirror.partitions() == 16


def test_a_process_killed_before_it_wrote_the_number_leaves_it_to_be_told_by_the_partitions(mirror: Mirror) -> None:
    create_topic(mirror.servers, mirror.progress, 2, cleanup_policy="compact")
    assert mirror.found() == 2
    assert mirror.settled(5) == 2
    assert mirror.written() == [(b"S\x01", b"\x01\x00\x00\x00\x02")]


def test_partitions_that_somebody_adds_to_the_topic_change_nothing(mirror: Mirror) -> None:
    mirror.settled(2)
    for partitions in (5, 20):
        mirror.grow(partitions)
        assert mirror.found() == 2
        assert mirror.settled(4) == 2


def test_processes_that_begin_a_mirror_at_once_agree(mirror: Mirror) -> None:
    async def settle(name: str, wanted: int) -> int:
        async with ClusterClient(settings_of(mirror.servers)) as client:
            for _ in range(100):
                try:
                    return await settle_shards(client, name, wanted=wanted, clock=SystemClock())
                except BrokerNotReadyError:  # another one made the topic a moment ago; a service asks again, too
                    await asyncio.sleep(0.05)
        raise AssertionError(f"the progress topic of {name} does not become ready")

    async def race(name: str) -> list[int]:
        return await asyncio.gather(*(settle(name, wanted) for wanted in (1, 2, 3, 4)))

    for number in range(4):
        name = f"{mirror.name}-{number}"
        answers = asyncio.run(race(name))
        assert len(set(answers)) == 1
        assert Mirror(mirror.servers, name).partitions() == answers[0]
        assert Mirror(mirror.servers, name).found() == answers[0]


def test_a_number_that_nobody_of_ours_wrote_is_refused(mirror: Mirror) -> None:
    create_topic(mirror.servers, mirror.progress, 2, cleanup_policy="compact")
    asyncio.run(produce(mirror.servers, mirror.progress, 0, [build_batch([Record(1, b"S\x01", b"two")])]))
    with pytest.raises(DestinationForeignError):
        mirror.found()


def configured(source: str, mirror: Mirror, clients: WorkerCache, *, lanes: int | None) -> list[Target]:
    """What ``run`` would begin with; with ``lanes`` None as a version did that knew sixteen shards only."""
    text = f"""
clusters: {{east: {{bootstrap-servers: "{source}"}}, west: {{bootstrap-servers: "{mirror.servers}"}}}}
mirrors:
  - name: {mirror.name}
    source: {{cluster: east, topics: [{mirror.name}]}}
    destinations: [{{type: kafka, cluster: west, offsets: map}}]
"""
    config = parse_configuration(text.encode(), file="mirror.yaml", environ={})

    async def find() -> list[Target]:
        targets = await find_targets(config, clients)
        if lanes is not None:
            targets = await with_settled_shards(targets, clients, lanes=lanes, clock=SystemClock())
        assert await create_topics(targets, clients) == {}
        await clients.close()
        return targets

    return asyncio.run(find())


def copy(source: str, mirror: Mirror, *, lanes: int | None, end: int) -> tuple[set[int], int]:
    """Runs one lease of all partitions; returns the shards it wrote as, and how many records it copied."""
    works = []
    for target in configured(source, mirror, WorkerCache(), lanes=lanes):
        work = state_of(target, writer="test").work
        assert isinstance(work, MapWork)
        works.append((target.source, [work]))
    rows = run_lease(lease_plan(source, works, end=end)).values()
    assert [(row.error, row.position) for row in rows] == [(None, end)] * len(works)
    return {work.settings.shard for _, (work,) in works}, sum(row.records for row in rows)


def assert_every_record_once(source: str, mirror: Mirror, *, shards: int, partitions: int) -> None:
    for partition in range(partitions):
        where = TopicPartition(mirror.name, partition)
        expected = consume(source, mirror.name, partition)
        assert held_through_map(mirror.servers, where, shards=shards) == expected
        assert len(consume(mirror.servers, mirror.name, partition)) == len(expected)


@pytest.mark.slow
def test_a_new_mirror_writes_as_one_identity_per_lane(source_kafka: EmbeddedKafka, mirror: Mirror) -> None:
    source = source_kafka.bootstrap_servers
    make_topic(source, mirror.name, *(simple_records(30, start=100 * n) for n in range(5)))
    assert copy(source, mirror, lanes=2, end=30) == ({0, 1}, 150)
    assert mirror.partitions() == 2
    for partition in range(5):
        append(source, mirror.name, partition, simple_records(10, start=100 * partition + 30))
    # Restarted on a larger machine: the number stays.
    assert copy(source, mirror, lanes=8, end=40) == ({0, 1}, 50)
    assert_every_record_once(source, mirror, shards=2, partitions=5)


@pytest.mark.slow
def test_a_mirror_that_began_with_sixteen_shards_keeps_them_and_copies_nothing_twice(
    source_kafka: EmbeddedKafka, mirror: Mirror
) -> None:
    source = source_kafka.bootstrap_servers
    make_topic(source, mirror.name, *(simple_records(30, start=100 * n) for n in range(3)))
    before, copied = copy(source, mirror, lanes=None, end=30)
    assert (len(before), copied, mirror.partitions()) == (3, 90, 16)
    end = log_end(mirror.servers, mirror.progress, 0)
    for partition in range(3):
        append(source, mirror.name, partition, simple_records(10, start=100 * partition + 30))
    assert copy(source, mirror, lanes=2, end=40) == (before, 30)
    if 0 not in before:
        assert log_end(mirror.servers, mirror.progress, 0) == end, "nothing is written into an older mirror's topic"
    assert_every_record_once(source, mirror, shards=16, partitions=3)


def test_a_version_that_knows_sixteen_shards_only_is_refused_before_it_writes(mirror: Mirror) -> None:
    """It asks for a topic of sixteen partitions; the number it would not understand either, see the unit test."""
    assert mirror.settled(2) == 2
    with pytest.raises(UnsupportedError, match="needs 16"):
        mirror.ask(lambda client: ensure_topics(client, ProgressTopics(mirror=mirror.name, shards=16)))
