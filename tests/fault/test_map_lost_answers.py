"""Map mode: answers lost after the request passed, for every request of a transaction; none doubled, none lost."""

import asyncio
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from aiokafka import AIOKafkaProducer

from conftest import RunAsync
from mirrorlake.destinations.map.settings import map_transactional_id
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import LostProgressError
from mirrorlake.kafka.wire.apis import Api
from mirrorlake.mirror.lease_worker import Worker
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from support.copies import create_topic
from support.leases import lease_plan, map_work
from support.map_copies import assert_equal_through_map, assert_nothing_open
from support.proxy import Proxy
from support.records import in_batches, produce, simple_records

pytestmark = pytest.mark.kafka

REQUEST_SECONDS = 3.0


class Lossy:
    """A source topic of one partition, its mapped copy behind a proxy, and a worker that keeps its connections."""

    def __init__(self, source: EmbeddedKafka, proxy: Proxy, topic: str, run_async: RunAsync) -> None:
        self.source, self.proxy, self.topic, self._run_async = source.bootstrap_servers, proxy, topic, run_async
        create_topic(self.source, topic)
        create_topic(proxy.address, topic)
        self.where = TopicPartition(topic, 0)
        self.written = 0
        self.seen: int | None = None
        self.worker = Worker()

    def write(self, count: int) -> None:
        # So large that no batch is coalesced with others.
        records = simple_records(count, start=self.written, size=2000, timestamp=int(time.time() * 1000))
        self._run_async(produce(self.source, self.topic, 0, list(in_batches(records, 10))))
        self.written += count

    def copy(self) -> None:
        """Leases on one worker until one brings the position to the end; each is told what those before have seen."""
        give_up_at = time.monotonic() + 120
        while True:
            row = self.lease()
            if row.position == self.written and row.error is None:
                return
            assert not isinstance(row.error, LostProgressError), row
            assert time.monotonic() < give_up_at, row

    def lease(self, *, seconds: float = 8.0, request_seconds: float = REQUEST_SECONDS) -> LeaseRow:
        work = map_work(self.proxy.address, self.where)
        work = replace(work, cluster=replace(work.cluster, request_timeout_seconds=request_seconds))
        work = replace(work, orders=replace(work.orders, last_position=self.seen))
        (row,) = self.worker.run(lease_plan(self.source, [(self.where, [work])], end=self.written, seconds=seconds))
        self.seen = self.seen if row.position is None else row.position
        return row


@pytest.fixture
def lossy(proxy: Proxy, source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync) -> Iterator[Lossy]:
    """Whatever was lost: no transaction is open in the end."""
    made = Lossy(source_kafka, proxy, topic_name, run_async)
    yield made
    made.worker.close()
    proxy.forgive()
    assert_nothing_open(proxy.address, topic_name, made.where)


@pytest.mark.parametrize(
    ("api", "requests"),
    [
        (Api.INIT_PRODUCER_ID, (1,)),
        (Api.ADD_PARTITIONS_TO_TXN, (1, 1)),  # where to begin; data
        (Api.PRODUCE, (1, 2, 4)),  # the progress of the start; data; and further on
        (Api.END_TXN, (1, 1)),  # where to begin; data
        (Api.DESCRIBE_PRODUCERS, (1, 3)),
    ],
    ids=lambda value: value.name.lower() if isinstance(value, Api) else "",
)
def test_an_answer_lost_with_its_connection_doubles_nothing_and_loses_nothing(
    api: Api, requests: tuple[int, ...], lossy: Lossy
) -> None:
    for number in requests:
        cuts = lossy.proxy.cuts
        lossy.write(100)
        lossy.proxy.cut_before_answer(api, after_requests=number)
        lossy.copy()
        assert lossy.proxy.cuts == cuts + 1, "the answer was not lost"
        assert assert_equal_through_map(lossy.source, lossy.proxy.address, lossy.where) == lossy.written


def test_where_a_copy_begins_is_told_once_it_is_committed_and_not_missed_where_it_never_was(lossy: Lossy) -> None:
    """Another process takes the shard over while the copy commits where it begins, and then copies nothing."""
    lossy.write(100)
    first = lossy.proxy.hold(Api.END_TXN)
    lossy.proxy.hold(Api.END_TXN, after_requests=2)  # should it try again in the same lease
    rows: list[LeaseRow] = []
    thread = threading.Thread(target=lambda: rows.append(lossy.lease(seconds=12.0, request_seconds=60.0)))
    thread.start()
    first.await_arrival()
    take_over(lossy.proxy.address, map_transactional_id(lossy.topic, 0))
    first.release()
    thread.join()
    lossy.proxy.forgive()

    assert rows[0].error is not None
    assert rows[0].position is None, "nothing of the copy is at the destination"

    lossy.copy()

    assert assert_equal_through_map(lossy.source, lossy.proxy.address, lossy.where) == lossy.written


def take_over(servers: str, transactional_id: str) -> None:
    """As a new owner does first: what the one before has open is aborted, and it can go on no more."""

    async def begin() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=servers, transactional_id=transactional_id)
        await producer.start()
        await producer.begin_transaction()  # waits for its producer id, and tells the broker nothing
        await producer.stop()

    asyncio.run(begin())
