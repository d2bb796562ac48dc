"""Ownership on a real broker: the newest process owns a mirror, the older one finds out; sources are not mixed up."""

from dataclasses import replace

import pytest

from conftest import RunAsync
from mirrorlake.clock import SystemClock
from mirrorlake.config.loading import parse_configuration
from mirrorlake.config.resolved import KafkaDestination
from mirrorlake.destinations.ownership import read_states
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import DestinationForeignError, SupersededError
from mirrorlake.kafka.cluster import ClusterClient
from mirrorlake.kafka.settings import ClusterSettings
from mirrorlake.mirror.connections import WorkerCache
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.owners import Owners
from mirrorlake.service.targets import Target, cluster_settings
from support.records import in_batches, produce, settings_of, simple_records

pytestmark = pytest.mark.kafka


def target_of(topic: str, source: EmbeddedKafka, destination: EmbeddedKafka) -> Target:
    config = parse_configuration(
        f"""
clusters:
  east: {{bootstrap-servers: "{source.bootstrap_servers}"}}
  west: {{bootstrap-servers: "{destination.bootstrap_servers}"}}
mirrors:
  - name: {topic}
    source: {{cluster: east, topics: [{topic}]}}
    destinations: [{{type: kafka, cluster: west}}]
""".encode(),
        file="test.yaml",
        environ={},
    )
    mirror = config.mirrors[0]
    return Target(
        mirror=mirror,
        destination=mirror.destinations[0],
        source_cluster=cluster_settings(mirror.source.cluster),
        source=TopicPartition(topic, 0),
        source_cluster_id="cluster-of-the-test",
        topic_id="first-topic-id",
        destination_topic=topic,
    )


@pytest.fixture
def target(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> Target:
    async def create() -> None:
        async with ClusterClient(settings_of(destination_kafka.bootstrap_servers)) as client:
            await client.create_topic(topic_name, partitions=1, replication_factor=1)

    run_async(create())
    return target_of(topic_name, source_kafka, destination_kafka)


def test_the_newest_process_owns_a_mirror_and_the_older_one_finds_out(target: Target, run_async: RunAsync) -> None:
    async def story() -> None:
        clients = WorkerCache()
        try:
            first = Owners(clients, owner="first", clock=SystemClock())
            second = Owners(clients, owner="second", clock=SystemClock())
            assert await first.take([target]) == {}
            await first.check()
            assert await second.take([target]) == {}
            await second.check()
            with pytest.raises(SupersededError, match=target.mirror.name):
                await first.check()
            await second.check()
            states = await read_states(clients.client(settings_of_destination(target)))
            assert states[target.mirror.name].owner == "second"
            assert states[target.mirror.name].topic_ids == {target.source.topic: "first-topic-id"}
        finally:
            await clients.close()

    run_async(story())


def settings_of_destination(target: Target) -> ClusterSettings:
    assert isinstance(target.destination, KafkaDestination)
    return cluster_settings(target.destination.cluster)


@pytest.mark.parametrize(
    "change", [{"topic_id": "second-topic-id"}, {"source_cluster_id": "another-cluster"}], ids=["recreated", "cluster"]
)
def test_a_filled_destination_of_another_source_is_refused_by_name(
    target: Target, destination_kafka: EmbeddedKafka, run_async: RunAsync, change: dict[str, str]
) -> None:
    batches = list(in_batches(simple_records(3), 3))
    run_async(produce(destination_kafka.bootstrap_servers, target.destination_topic, 0, batches))

    async def story() -> dict[int, object]:
        clients = WorkerCache()
        try:
            assert await Owners(clients, owner="first", clock=SystemClock()).take([target]) == {}
            changed = replace(target, **change)  # type: ignore[arg-type]
            refused = await Owners(clients, owner="second", clock=SystemClock()).take([changed])
            again = await Owners(clients, owner="third", clock=SystemClock()).take([changed])
            assert again.keys() == refused.keys(), "being refused does not change what the state says"
            return dict(refused)
        finally:
            await clients.close()

    (error,) = run_async(story()).values()
    assert isinstance(error, DestinationForeignError)
    assert next(iter(change.values())) in error.message
    assert error.hint


def test_an_empty_destination_takes_a_topic_that_was_made_anew(target: Target, run_async: RunAsync) -> None:
    async def story() -> None:
        clients = WorkerCache()
        try:
            assert await Owners(clients, owner="first", clock=SystemClock()).take([target]) == {}
            changed = replace(target, topic_id="second-topic-id")
            assert await Owners(clients, owner="second", clock=SystemClock()).take([changed]) == {}
            states = await read_states(clients.client(settings_of_destination(target)))
            assert states[target.mirror.name].topic_ids == {target.source.topic: "second-topic-id"}
        finally:
            await clients.close()

    run_async(story())
