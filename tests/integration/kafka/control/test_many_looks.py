"""Looks at many partitions, topics and groups of a real cluster in few requests; each sees what is there now."""

import asyncio

import pytest

from conftest import RunAsync
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import MirrorlakeError, TopicMissingError
from mirrorlake.kafka.control.cluster import EARLIEST, LATEST, ClusterClient
from mirrorlake.kafka.control.descriptions import CommittedOffset
from mirrorlake.kafka.control.groups import GROUPS_PER_REQUEST
from mirrorlake.kafka.control.leaders import PARTITIONS_PER_REQUEST
from mirrorlake.kafka.records.batches import walk
from mirrorlake.kafka.wire.fetch import FetchedPartition
from mirrorlake.kinds.equal_tails import Copy, equal_copies
from mirrorlake.offsets import TopicPartition
from support.groups import new_group
from support.records import Record, in_batches, produce, settings_of, simple_records

pytestmark = pytest.mark.kafka

PARTITIONS = PARTITIONS_PER_REQUEST + 6


async def write(servers: str, topic: str, partition: int, records: list[Record]) -> None:
    await produce(servers, topic, partition, list(in_batches(records, 10)))


def test_what_lies_at_an_offset_of_each_partition_is_read_with_bytes_of_its_own(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    async def looking() -> None:
        async with ClusterClient(settings_of(source_kafka.bootstrap_servers)) as client:
            await client.topics.create(topic_name, partitions=PARTITIONS, replication_factor=1)
            places = [TopicPartition(topic_name, number) for number in range(PARTITIONS)]
            for number in (0, PARTITIONS - 1):
                await write(source_kafka.bootstrap_servers, topic_name, number, simple_records(3 + number))
            missing = TopicPartition(topic_name + "-not", 0)

            found = await client.fetch_many(dict.fromkeys([*places, missing], 0))

            assert isinstance(found.pop(missing), TopicMissingError)
            held = {}
            for place, each in found.items():
                assert isinstance(each, FetchedPartition)
                held[place.partition] = sum(batch.header.record_count for batch in walk(each.records))
            assert held == dict.fromkeys(range(PARTITIONS), 0) | {0: 3, PARTITIONS - 1: 3 + PARTITIONS - 1}

    run_async(looking())


def test_copies_that_are_equal_are_found_and_another_one_is_not(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    servers, other = source_kafka.bootstrap_servers, topic_name + "-copy"

    async def looking() -> None:
        async with ClusterClient(settings_of(servers)) as client:
            for name in (topic_name, other):
                await client.topics.create(name, partitions=4, replication_factor=1)
            for number in range(3):
                await write(servers, topic_name, number, simple_records(5))
            await write(servers, other, 0, simple_records(5))
            await write(servers, other, 1, simple_records(5, start=1))
            await write(servers, other, 2, simple_records(6))
            copies = [
                Copy(
                    source=TopicPartition(topic_name, number), destination=TopicPartition(other, number), position=ends
                )
                # The third copy is ahead of its source, the fourth is empty.
                for number, ends in enumerate([5, 5, 6, 0])
            ]

            assert await equal_copies(copies, source=client, destination=client) == {copies[0]}
            assert await equal_copies([*copies, copies[0]], source=client, destination=client) == frozenset()

    run_async(looking())


def test_configurations_that_change_are_seen_at_the_next_look(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    names = [f"{topic_name}-{number}" for number in range(3)]

    async def value_of(client: ClusterClient, key: str) -> list[str | None]:
        found = await client.topics.configs(names)
        return [None if isinstance(each, MirrorlakeError) else each[key].value for each in found.values()]

    async def broker_says(client: ClusterClient, expected: list[str | None]) -> None:
        """The controller has said yes; the broker learns it a moment later, which another client is asked about."""
        async with ClusterClient(settings_of(source_kafka.bootstrap_servers)) as other:
            for _ in range(300):
                if await value_of(other, "retention.ms") == expected:
                    break
                await asyncio.sleep(0.1)
        assert await value_of(client, "retention.ms") == expected

    async def looking() -> None:
        async with ClusterClient(settings_of(source_kafka.bootstrap_servers)) as client:
            for name in names:
                await client.topics.create(
                    name, partitions=1, replication_factor=1, configs={"retention.ms": "1000000"}
                )
            await broker_says(client, ["1000000"] * 3)
            assert await value_of(client, "retention.ms") == ["1000000"] * 3

            await client.topics.set_configs(names[1], {"retention.ms": "1000001"})
            await client.topics.delete(names[2])

            await broker_says(client, ["1000000", "1000001", None])

    run_async(looking())


def test_many_groups_are_committed_for_at_once_and_all_of_it_is_read_back(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    prefix = new_group()
    commits = {
        f"{prefix}-{number}": {
            TopicPartition(topic_name, partition): CommittedOffset(
                offset=number + partition, metadata=f"für {number}" if partition else ""
            )
            for partition in range(3)
        }
        for number in range(GROUPS_PER_REQUEST + 20)
    }

    async def looking() -> None:
        async with ClusterClient(settings_of(source_kafka.bootstrap_servers)) as client:
            await client.topics.create(topic_name, partitions=3, replication_factor=1)
            done = await client.groups.commit_all(commits)
            assert done == {group: dict.fromkeys(offsets) for group, offsets in commits.items()}

            assert await client.groups.offsets(dict.fromkeys(commits), is_stable=True) == commits
            asked = {group: [*offsets, TopicPartition(topic_name, 9)] for group, offsets in commits.items()}
            named = await client.groups.offsets(asked)
            assert named == {g: {**offsets, TopicPartition(topic_name, 9): None} for g, offsets in commits.items()}

    run_async(looking())


def test_where_many_logs_end_is_what_they_hold_at_each_look(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    servers = source_kafka.bootstrap_servers

    async def looking() -> None:
        async with ClusterClient(settings_of(servers)) as client:
            await client.topics.create(topic_name, partitions=PARTITIONS, replication_factor=1)
            places = [TopicPartition(topic_name, number) for number in range(PARTITIONS)]
            expected: dict[TopicPartition, int] = dict.fromkeys(places, 0)

            async def ends() -> dict[TopicPartition, int | MirrorlakeError]:
                return dict(await client.list_offsets(places, timestamp=LATEST))

            for place in (places[3], places[-1], places[3]):
                assert await ends() == await ends() == expected
                await write(servers, topic_name, place.partition, simple_records(2, start=expected[place]))
                expected[place] += 2
            assert await ends() == expected
            assert await client.list_offsets(places, timestamp=EARLIEST) == dict.fromkeys(places, 0)
            await client.topics.delete(topic_name)
            await client.topics.create(topic_name, partitions=2, replication_factor=1)
            await client.metadata([topic_name], refresh=True)
            found = await ends()
            assert [found[place] for place in places[:2]] == [0, 0]
            assert all(isinstance(found[place], MirrorlakeError) for place in places[2:])

    run_async(looking())
