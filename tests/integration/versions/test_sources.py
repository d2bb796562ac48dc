"""Every Kafka version as source: into an archive, and with equal offsets into the newest Kafka."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import RunAsync
from mirrorlake.config.loading import parse_configuration
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.work import DestinationWork
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.offsets import TopicPartition
from mirrorlake.topics.discovery import find_targets
from mirrorlake.topics.topic_creation import create_topics
from support.copies import assert_equal_in_archive, assert_equal_in_kafka, create_topic, source_end
from support.leases import archive_work, kafka_work, lease_plan, map_work, run_lease
from support.mirrors import write_config
from support.records import CODECS, build_batch, consume, every_kind, produce, settings_of, simple_records
from support.topics import append
from support.transactions import append_in_transaction

pytestmark = pytest.mark.kafka


@pytest.fixture(params=["kafka_2_8", "kafka_3_9"])
def older_kafka(request: pytest.FixtureRequest) -> EmbeddedKafka:
    """Each of the older brokers in turn."""
    server = request.getfixturevalue(request.param)
    assert isinstance(server, EmbeddedKafka)
    return server


def test_every_record_of_an_older_source_is_archived_and_copied_at_its_offset(
    older_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west = older_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(east, topic_name, 2)
    create_topic(west, topic_name, 2)
    kinds = [build_batch(every_kind(seed), codec) for seed, codec in enumerate(CODECS.values())]
    asyncio.run(produce(east, topic_name, 0, kinds))
    append(east, topic_name, 1, simple_records(180))

    partitions = [TopicPartition(topic_name, number) for number in range(2)]
    works: list[tuple[TopicPartition, list[DestinationWork]]] = [
        (where, [archive_work(tmp_path, where, end=180), kafka_work(west, where)]) for where in partitions
    ]
    rows = run_lease(lease_plan(east, works, end=180))

    assert {where: row.error for where, row in rows.items()} == dict.fromkeys(rows)
    assert assert_equal_in_archive(east, tmp_path, topic_name, 2) == 360
    assert assert_equal_in_kafka(east, west, topic_name, 2) == 360


def test_transactions_of_an_older_source_are_archived_as_its_consumers_see_them(
    older_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east = older_kafka.bootstrap_servers
    create_topic(east, topic_name)
    append_in_transaction(east, topic_name, simple_records(20))
    append_in_transaction(east, topic_name, simple_records(20, start=100), committed=False)
    append_in_transaction(east, topic_name, simple_records(20, start=200))

    where = TopicPartition(topic_name, 0)
    end = source_end(east, topic_name)
    rows = run_lease(lease_plan(east, [(where, [archive_work(tmp_path, where, end=end)])], end=end))

    assert {label: row.error for label, row in rows.items()} == dict.fromkeys(rows)
    assert assert_equal_in_archive(east, tmp_path, topic_name) == 40


def test_an_older_source_is_copied_in_order_with_mapped_offsets(
    older_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str
) -> None:
    east, west = older_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(east, topic_name)
    create_topic(west, topic_name)
    append_in_transaction(east, topic_name, simple_records(20))
    append_in_transaction(east, topic_name, simple_records(20, start=20), committed=False)
    append(east, topic_name, 0, simple_records(100, start=40))

    where = TopicPartition(topic_name, 0)
    end = source_end(east, topic_name)
    (row,) = run_lease(lease_plan(east, [(where, [map_work(west, where)])], end=end)).values()

    assert (row.error, row.position) == (None, end)
    copied = list(consume(west, topic_name, 0).values())
    assert copied == simple_records(20) + simple_records(100, start=40)


@pytest.mark.parametrize("message_format", ["0.9.0", "0.10.2"])
def test_messages_of_formats_before_v2_are_copied_in_order_with_mapped_offsets(
    kafka_2_8: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, message_format: str
) -> None:
    east, west = kafka_2_8.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(east, topic_name, message_format_version=message_format)
    create_topic(west, topic_name)
    codecs = (CODECS["none"], CODECS["gzip"], CODECS["snappy"], CODECS["lz4"])
    asyncio.run(produce(east, topic_name, 0, [build_batch(simple_records(20), codec) for codec in codecs]))

    where = TopicPartition(topic_name, 0)
    (row,) = run_lease(lease_plan(east, [(where, [map_work(west, where)])], end=80)).values()

    assert (row.error, row.position) == (None, 80)
    has_times = message_format != "0.9.0"
    written = [record if has_times else replace(record, timestamp=-1) for record in simple_records(20)]
    assert list(consume(west, topic_name, 0).values()) == written * len(codecs)


def test_settings_that_newer_brokers_refuse_are_left_out_of_a_topic_made_like_its_source(
    kafka_2_8: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, run_async: RunAsync
) -> None:
    east, west = kafka_2_8.bootstrap_servers, destination_kafka.bootstrap_servers
    refused = {"message_format_version": "0.10.2", "message_timestamp_difference_max_ms": "1000000"}
    create_topic(east, topic_name, 1, retention_bytes="123456789", **refused)
    config = write_config(tmp_path / "mirror.yaml", source=east, topic=topic_name, destination=west)

    async def make() -> dict[str, str | None]:
        clients = WorkerCache()
        try:
            targets = await find_targets(parse_configuration(config.read_bytes(), file="m", environ={}), clients)
            assert await create_topics(targets, clients) == {}
        finally:
            await clients.close()
        async with ClusterClient(settings_of(west)) as client:
            made = (await client.topics.configs([topic_name]))[topic_name]
            assert not isinstance(made, MirrorlakeError)
            return {name: each.value for name, each in made.items() if not each.is_default}

    # The source's brokers keep for ever; the destination's would not, so its topic says so itself.
    kept = {"retention.bytes": "123456789", "retention.ms": "-1"}
    assert run_async(make()) == {**kept, "message.timestamp.type": "CreateTime"}
