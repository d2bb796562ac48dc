"""`timestamp-mode`, from the configuration to the proof: which topics it takes, makes, and calls equal."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from conftest import NewKafka
from mirrorlake.config.resolved import Configuration
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import UnsupportedError
from mirrorlake.mirror.connections import WorkerCache
from mirrorlake.mirror.verify_worker import work
from mirrorlake.mirror.work import KafkaWork
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.discovery import find_targets
from mirrorlake.service.states import state_of
from mirrorlake.service.status import read_rows
from mirrorlake.service.targets import Target
from mirrorlake.service.topic_creation import create_topics
from mirrorlake.service.verification import RecordVerification, Result
from support.copies import create_topic
from support.leases import lease_plan, run_lease
from support.mirrors import copying
from support.records import Record, consume, simple_records
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
    (verdict,) = RecordVerification(rows, run_task=lambda _name, plan, _what: work(plan), tasks_at_once=2).run()
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
    assert isinstance(copy, KafkaWork)
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


@pytest.mark.parametrize(
    ("mode", "held", "wanted"),
    [("source", "LogAppendTime", "CreateTime"), ("destination", "CreateTime", "LogAppendTime")],
)
def test_a_topic_with_the_other_clock_is_refused_with_both_remedies(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, mode: str, held: str, wanted: str
) -> None:
    make_topic(source_kafka.bootstrap_servers, topic_name, simple_records(1))
    create_topic(destination_kafka.bootstrap_servers, topic_name, message_timestamp_type=held)
    servers = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    error = only_target(copying(*servers, topic_name, timestamp_mode=mode)).error
    assert isinstance(error, UnsupportedError)
    assert f"message.timestamp.type={held}" in error.message
    other = "destination" if mode == "source" else "source"
    assert error.hint == f"set message.timestamp.type={wanted} on {topic_name}, or `timestamp-mode: {other}`"
