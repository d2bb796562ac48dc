"""`timestamp-mode`, from the configuration to the proof: which topics it takes, makes, and calls equal."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

import pytest

from conftest import NewKafka
from mirrorlake.config.resolved import Configuration
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.preserve.work import PreserveWork
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import UnsupportedError
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.states import state_of
from mirrorlake.service.status import read_rows
from mirrorlake.topics.discovery import find_targets
from mirrorlake.topics.targets import Target
from mirrorlake.topics.topic_creation import create_topics
from mirrorlake.verify.verdict import Result
from mirrorlake.verify.verification import RecordVerification
from mirrorlake.verify.worker import work
from support.copies import create_topic
from support.leases import lease_plan, run_lease
from support.mirrors import copying
from support.records import Record, consume, every_kind, simple_records
from support.topics import append, make_topic

pytestmark = pytest.mark.kafka

T = TypeVar("T")


def with_clients(ask: Callable[[WorkerCache], Awaitable[T]]) -> T:
    async def run() -> T:
        clients = WorkerCache()
        try:
            return await ask(clients)
        finally:
            await clients.close()

    return asyncio.run(run())


def only_target(config: Configuration) -> Target:
    (target,) = with_clients(lambda clients: find_targets(config, clients))
    return target


def verdict_of(target: Target) -> tuple[Result, int | None]:
    rows = with_clients(lambda clients: read_rows([target], clients))
    (verdict,) = RecordVerification(rows, run_task=lambda task: work(task.plan), tasks_at_once=2).run()
    assert verdict.error is None, verdict.error
    return verdict.result, verdict.first_difference


def test_a_topic_of_its_own_times_is_made_filled_and_proved_equal_but_for_the_times(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    make_topic(east, topic_name, simple_records(30))
    config = copying(
        source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, topic_name, timestamp_mode="destination"
    )
    target = only_target(config)
    assert target.error is None
    assert target.creation is not None
    assert target.creation.configs["message.timestamp.type"] == "LogAppendTime"
    assert with_clients(lambda clients: create_topics([target], clients)) == {}

    target = only_target(config)
    assert (target.error, target.creation) == (None, None)
    copy = state_of(target, writer="test").work
    assert isinstance(copy, PreserveWork)
    where = TopicPartition(topic_name, 0)
    row = run_lease(lease_plan(east, [(where, [copy])], end=30))[0, "west"]
    assert (row.error, row.position) == (None, 30)
    assert verdict_of(target) == (Result.EQUAL, None)

    append(east, topic_name, 0, simple_records(3, start=30))
    append(west, topic_name, 0, [*simple_records(2, start=30), Record(0, b"k32", b"another value")])
    assert verdict_of(target) == (Result.DIFFERS, 32)


def test_a_topic_keeps_the_sources_times_on_a_cluster_whose_topics_have_their_own(
    source_kafka: EmbeddedKafka, new_kafka: NewKafka, topic_name: str
) -> None:
    destination = new_kafka(log_message_timestamp_type="LogAppendTime")
    records = simple_records(5)
    make_topic(source_kafka.bootstrap_servers, topic_name, records)
    config = copying(source_kafka.bootstrap_servers, destination.bootstrap_servers, topic_name, timestamp_mode="source")
    missing = only_target(config)
    assert with_clients(lambda clients: create_topics([missing], clients)) == {}

    target = only_target(config)
    assert target.error is None
    copy = state_of(target, writer="test").work
    where = TopicPartition(topic_name, 0)
    row = run_lease(lease_plan(source_kafka.bootstrap_servers, [(where, [copy])], end=5))[0, "west"]
    assert (row.error, row.position) == (None, 5)
    copied = consume(destination.bootstrap_servers, topic_name, 0)
    assert [record.timestamp for record in copied.values()] == [record.timestamp for record in records]


@pytest.mark.parametrize("source_type", ["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize("offsets", ["preserve", "map"])
def test_a_topic_that_keeps_times_gets_those_of_the_copying_where_the_destinations_are_asked_for(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, offsets: str, source_type: str
) -> None:
    """Every kind of record and of batch, once to the end and once more from there."""
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    kinds = every_kind(3)
    make_topic(east, topic_name, kinds, message_timestamp_type=source_type)
    for record in simple_records(12, start=len(kinds)):  # small batches, to be coalesced
        append(east, topic_name, 0, [record])
    create_topic(west, topic_name)
    config = copying(east, west, topic_name, timestamp_mode="destination", offsets=offsets)
    where, end = TopicPartition(topic_name, 0), len(kinds) + 12
    began_ms = int(time.time() * 1000)
    for stop in (end, end + 3):
        target = only_target(config)
        assert target.error is None
        copy = state_of(target, writer="test").work
        row = run_lease(lease_plan(east, [(where, [copy])], end=stop))[0, "west"]
        assert (row.error, row.position) == (None, stop)
        append(east, topic_name, 0, simple_records(3, start=stop))
    ended_ms = int(time.time() * 1000)

    there = {n: r for n, r in consume(east, topic_name, 0).items() if n < end + 3}
    held = list(consume(west, topic_name, 0).values())
    assert [replace(record, timestamp=0) for record in held] == [replace(r, timestamp=0) for r in there.values()]
    assert all(began_ms <= record.timestamp <= ended_ms for record in held)
    assert [record.timestamp for record in held] == sorted(record.timestamp for record in held)
    assert verdict_of(only_target(config)) == (Result.EQUAL, None), "as far as it was copied"


def test_a_topic_that_sets_times_is_refused_where_the_sources_are_to_be_kept(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str
) -> None:
    make_topic(source_kafka.bootstrap_servers, topic_name, simple_records(1))
    create_topic(destination_kafka.bootstrap_servers, topic_name, message_timestamp_type="LogAppendTime")
    servers = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    error = only_target(copying(*servers, topic_name, timestamp_mode="source")).error
    assert isinstance(error, UnsupportedError)
    assert "message.timestamp.type=LogAppendTime" in error.message
    assert error.hint == f"set message.timestamp.type=CreateTime on {topic_name}, or `timestamp-mode: destination`"
