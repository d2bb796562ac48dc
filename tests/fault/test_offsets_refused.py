"""OFFSET_OUT_OF_RANGE for an offset the log holds, or held a moment ago: tried again, by every reader."""

import asyncio
import threading

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import BrokerNotReadyError, MirrorlakeError, SourceTruncatedError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from support.copies import create_topic
from support.leases import kafka_work, lease_plan, run_lease
from support.proxy import FETCH, LIST_OFFSETS, Proxy
from support.records import settings_of, simple_records
from support.topics import append, delete_before, make_topic

pytestmark = pytest.mark.kafka


def error_of_fetch(servers: str, where: TopicPartition, offset: int) -> MirrorlakeError:
    async def ask() -> MirrorlakeError:
        async with ClusterClient(settings_of(servers)) as client:
            with pytest.raises(MirrorlakeError) as caught:
                await client.fetch_once(where, offset, max_bytes=1 << 20)
            return caught.value

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("number", "offset"),
    [pytest.param(1, 36, id="while the tail is compared"), pytest.param(2, 0, id="while fillers are looked for")],
)
def test_retention_at_the_destination_in_the_middle_of_a_take_over_does_not_park_the_partition(
    proxy: Proxy, source_kafka: EmbeddedKafka, topic_name: str, number: int, offset: int
) -> None:
    # The log began at 0 when it was asked.
    source, where = source_kafka.bootstrap_servers, TopicPartition(topic_name, 0)
    make_topic(source, topic_name, simple_records(100))
    make_topic(proxy.address, topic_name, simple_records(100))
    append(source, topic_name, 0, simple_records(10, start=100))
    plan = lease_plan(source, [(where, [kafka_work(proxy.address, where)])], end=110)
    rows: list[LeaseRow] = []
    running = threading.Thread(target=lambda: rows.extend(run_lease(plan).values()))
    held = proxy.hold(FETCH, after_requests=number)
    running.start()
    held.await_arrival()
    delete_before(proxy.address, topic_name, 90)
    held.release()
    running.join()
    assert isinstance(rows[0].error, BrokerNotReadyError), rows[0].error
    assert f"offset {offset} of" in rows[0].error.message
    assert "its log holds 90 up to 100" in rows[0].error.message
    (row,) = run_lease(plan).values()
    assert (row.error, row.position) == (None, 110)


def test_an_offset_that_is_in_the_log_by_the_time_it_is_explained_is_transient(proxy: Proxy, topic_name: str) -> None:
    where = TopicPartition(topic_name, 0)
    create_topic(proxy.address, topic_name)
    append(proxy.address, topic_name, 0, simple_records(10))
    found: list[MirrorlakeError] = []
    asking = threading.Thread(target=lambda: found.append(error_of_fetch(proxy.address, where, 15)))
    held = proxy.hold(LIST_OFFSETS)
    asking.start()
    held.await_arrival()
    append(f"127.0.0.1:{proxy.target_port}", topic_name, 0, simple_records(10, start=10))
    held.release()
    asking.join()
    assert isinstance(found[0], BrokerNotReadyError), found[0]
    assert found[0].facts["code"] == 1


def test_an_offset_that_is_gone_is_named_with_the_ends_of_the_log(proxy: Proxy, topic_name: str) -> None:
    where = TopicPartition(topic_name, 0)
    create_topic(proxy.address, topic_name)
    append(proxy.address, topic_name, 0, simple_records(10))
    error = error_of_fetch(proxy.address, where, 15)
    assert isinstance(error, SourceTruncatedError)
    assert "its log holds 0 up to 10" in error.message
