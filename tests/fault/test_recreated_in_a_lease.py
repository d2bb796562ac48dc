"""A source topic that is deleted and recreated while a lease reads it: same name, partition and leader epoch."""

import asyncio
import threading

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import BrokerNotReadyError, TopicRecreatedError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from support.copies import create_topic, log_end
from support.leases import kafka_work, lease_plan, map_work, run_lease
from support.proxy import FETCH, Proxy
from support.records import consume, settings_of, simple_records
from support.topics import append, make_topic

pytestmark = pytest.mark.kafka


def topic_id_of(servers: str, topic: str) -> str:
    async def ask() -> str:
        async with ClusterClient(settings_of(servers)) as client:
            return (await client.metadata([topic], refresh=True)).topics[topic].topic_id

    return asyncio.run(ask())


def delete(servers: str, topic: str) -> None:
    async def ask() -> None:
        async with ClusterClient(settings_of(servers)) as client:
            assert await client.topics.delete(topic)

    asyncio.run(ask())


@pytest.mark.parametrize("offsets", ["preserve", "map"])
def test_nothing_of_a_topic_that_was_recreated_in_the_middle_of_a_lease_is_copied(
    proxy: Proxy, destination_kafka: EmbeddedKafka, topic_name: str, offsets: str
) -> None:
    source, servers, where = proxy.address, destination_kafka.bootstrap_servers, TopicPartition(topic_name, 0)
    make_topic(source, topic_name, simple_records(10))
    create_topic(servers, topic_name)
    old_id = topic_id_of(source, topic_name)
    work = kafka_work(servers, where) if offsets == "preserve" else map_work(servers, where)
    plan = lease_plan(source, [(where, [work])], end=None, seconds=20.0, topic_id=old_id)
    rows: list[LeaseRow] = []
    running = threading.Thread(target=lambda: rows.extend(run_lease(plan).values()))
    # The first answer brings the ten records; what is asked then comes to the broker after the topic was recreated.
    held = proxy.hold(FETCH, after_requests=2)
    running.start()
    held.await_arrival()
    delete(source, topic_name)
    make_topic(source, topic_name, simple_records(30, start=1000))
    held.release()
    running.join()
    (row,) = rows
    assert (row.position, row.records) == (10, 10)
    assert isinstance(row.error, BrokerNotReadyError), row.error
    assert old_id in row.error.message
    assert log_end(servers, topic_name) == (10 if offsets == "preserve" else 11)  # a transaction has a marker
    assert list(consume(servers, topic_name, 0).values()) == simple_records(10)
    assert topic_id_of(source, topic_name) != old_id
    (row,) = run_lease(lease_plan(source, [(where, [work])], end=None, seconds=5.0, topic_id=old_id)).values()
    assert isinstance(row.error, TopicRecreatedError), row.error


def test_a_new_topic_is_read_by_its_own_id(proxy: Proxy, destination_kafka: EmbeddedKafka, topic_name: str) -> None:
    source, servers, where = proxy.address, destination_kafka.bootstrap_servers, TopicPartition(topic_name, 0)
    make_topic(source, topic_name, simple_records(10))
    append(source, topic_name, 0, simple_records(10, start=10))
    create_topic(servers, topic_name)
    topic_id = topic_id_of(source, topic_name)
    plan = lease_plan(source, [(where, [kafka_work(servers, where)])], end=20, topic_id=topic_id)
    (row,) = run_lease(plan).values()
    assert (row.position, row.error) == (20, None)
    assert list(consume(servers, topic_name, 0).values()) == simple_records(20)
