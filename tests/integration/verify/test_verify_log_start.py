"""``verify`` where the copy's log starts later than its source's."""

import asyncio

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.offsets import TopicPartition
from mirrorlake.verify.verdict import Result, Verdict
from support.copies import create_topic
from support.records import settings_of, simple_records
from support.topics import append, make_topic
from support.transactions import append_in_transaction
from support.verdicts import verdict_of

pytestmark = pytest.mark.kafka

GAP = 4
"""An aborted transaction of three records, and its marker, with which the source begins."""


def verdict_where_the_copy_starts_at(offset: int, source: str, destination: str, topic: str) -> Verdict:
    create_topic(source, topic)
    append_in_transaction(source, topic, simple_records(3), committed=False)
    append(source, topic, 0, simple_records(5, start=GAP))
    make_topic(destination, topic, [*simple_records(GAP), *simple_records(5, start=GAP)])
    asyncio.run(delete_before(destination, TopicPartition(topic, 0), offset))
    return verdict_of(source, destination, topic)


async def delete_before(servers: str, where: TopicPartition, offset: int) -> None:
    async with ClusterClient(settings_of(servers)) as client:
        assert (await client.delete_records({where: offset}))[where] == offset


def test_a_copy_without_what_once_filled_the_gap_at_its_start_is_equal(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str
) -> None:
    servers = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    verdict = verdict_where_the_copy_starts_at(GAP, *servers, topic_name)
    assert (verdict.result, verdict.records, verdict.error) == (Result.EQUAL, 5, None)


@pytest.mark.parametrize("both", [True, False], ids=["at both sides", "at the source alone"])
def test_nothing_can_be_said_of_a_copy_whose_source_has_deleted_every_record(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, both: bool
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    for servers in (source, destination):
        make_topic(servers, topic_name, simple_records(5))
    for servers in (source, destination) if both else (source,):
        asyncio.run(delete_before(servers, TopicPartition(topic_name, 0), 5))
    verdict = verdict_of(source, destination, topic_name)
    assert (verdict.result, verdict.records, verdict.error) == (Result.EMPTY, 0, None)


def test_a_partition_that_was_never_written_to_is_equal(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    for servers in (source, destination):
        create_topic(servers, topic_name)
    verdict = verdict_of(source, destination, topic_name)
    assert (verdict.result, verdict.records, verdict.error) == (Result.EQUAL, 0, None)


def test_records_that_only_the_copy_has_deleted_are_missing(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str
) -> None:
    servers = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    verdict = verdict_where_the_copy_starts_at(GAP + 2, *servers, topic_name)
    assert (verdict.result, verdict.first_difference, verdict.difference) == (Result.DIFFERS, GAP, "missing")
