"""Many partitions at a real broker, read to their ends and on: in a session, which says little and loses nothing."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaProducer
from kafka.protocol.consumer import FetchRequest

import mirrorlake.kafka.wire.protocol_classes  # noqa: F401  (imports kafka without its warnings)
from conftest import RunAsync
from mirrorlake.clock import SystemClock
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.connection import Connection
from mirrorlake.kafka.records.batches import walk
from mirrorlake.kafka.wire.apis import Api
from mirrorlake.kafka.wire.buffers import BufferPool
from mirrorlake.kafka.wire.error_codes import FETCH_SESSION_ID_NOT_FOUND
from mirrorlake.kafka.wire.fetch import FetchedPartition
from mirrorlake.kafka.wire.fetch_by_id import FETCH_BY_ID_VERSION, SessionStep, decode_head, encode_fetch_by_id
from mirrorlake.kafka.wire.frame import Frame
from mirrorlake.kafka.wire.settings import parse_server
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.kafka.broker_reader import SESSION_PARTITIONS_MIN, BrokerReader
from mirrorlake.sources.kafka.read_partition import PinnedAnswer
from support.records import build_batch, produce, settings_of, simple_records
from support.topics import delete_before, delete_topic

pytestmark = pytest.mark.kafka

PARTITIONS = SESSION_PARTITIONS_MIN + 4
BATCH = build_batch(simple_records(1, size=100))


@dataclass
class Reading:
    """Reads a partition for as long as it is asked to; ``offsets`` are those of the records that came."""

    source: TopicPartition
    topic_id: str
    fetch_offset: int = 0
    wants_fetch: bool = True
    leader_epoch: int = -1
    is_over: bool = False
    is_at_end: bool = False
    is_steady: bool = True
    log_start: int = -1
    offsets: list[int] = field(default_factory=list)
    error_codes: list[int] = field(default_factory=list)
    errors: list[MirrorlakeError] = field(default_factory=list)

    def fetched(self, answer: FetchedPartition, frame: PinnedAnswer, *, is_quiet: bool) -> None:
        if answer.error_code:
            self.error_codes.append(answer.error_code)
            self.is_over = True
            return
        for batch in walk(answer.records):
            header = batch.header
            assert header.base_offset == self.fetch_offset
            self.offsets += [] if header.is_control else range(header.base_offset, header.next_offset)
            self.fetch_offset = header.next_offset
        self.log_start = answer.log_start_offset
        self.is_at_end = self.fetch_offset == answer.last_stable_offset

    def fetch_failed(self, error: MirrorlakeError) -> None:
        self.errors.append(error)


@dataclass(frozen=True)
class Request:
    """A request that was sent: which session it was in, and the partitions it asked for and forgot."""

    session_id: int
    epoch: int
    asked: list[int]
    forgotten: list[int]

    @property
    def is_of_changes(self) -> bool:
        return self.epoch > 0


class Watched:
    """A connection whose fetches are read as kafka-python reads them."""

    def __init__(self, connection: Connection, requests: list[Request]) -> None:
        self._connection = connection
        self._requests = requests

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def send(self, api: int, version: int, body: list[bytes], *, timeout_seconds: float) -> "asyncio.Future[Frame]":
        assert (api, version) == (Api.FETCH, FETCH_BY_ID_VERSION)
        read = FetchRequest.decode(b"".join(body), version=version)
        asked = [each.partition for topic in read.topics for each in topic.partitions]
        forgotten = [number for topic in read.forgotten_topics_data for number in topic.partitions]
        self._requests.append(Request(read.session_id, read.session_epoch, asked, forgotten))
        return self._connection.send(api, version, body, timeout_seconds=timeout_seconds)


@dataclass
class Bench:
    """A topic whose partitions hold one record each and are read, at one broker."""

    servers: str
    topic: str
    topic_id: str
    readings: list[Reading]
    requests: list[Request]
    sessions_left: list[int]
    reader: BrokerReader

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not holds():
                assert [each.errors for each in self.readings if each.errors] == []
                await asyncio.sleep(0.01)

    async def until_in_session(self) -> int:
        """Waits for a request of changes; returns the session's id."""
        seen = len(self.requests)
        await self.until(lambda: any(each.is_of_changes for each in self.requests[seen:]))
        return self.requests[-1].session_id

    async def send(self, partition: int, records: int = 1, *, size: int = 100) -> None:
        await produce(self.servers, self.topic, partition, [build_batch(simple_records(records, size=size))])

    async def until_read(self, ends: dict[int, int]) -> None:
        await self.until(lambda: all(self.readings[number].fetch_offset == end for number, end in ends.items()))


async def connect(servers: str) -> Connection:
    host, port = parse_server(servers)
    return await Connection.open(host, port, settings=settings_of(servers), buffers=BufferPool(64 << 20, 16 << 20))


@asynccontextmanager
async def reading(servers: str, topic: str, *, sessions_left: list[int] | None = None) -> AsyncIterator[Bench]:
    """Reads a topic, which is made where it is not there, until the end of the block."""
    async with ClusterClient(settings_of(servers)) as client:
        if topic not in (await client.metadata([topic], refresh=True)).topics:
            await client.topics.create(topic, partitions=PARTITIONS, replication_factor=1)
            for number in range(PARTITIONS):
                await produce(servers, topic, number, [BATCH])
        topic_id = (await client.metadata([topic], refresh=True)).topics[topic].topic_id
    clock, requests = SystemClock(), list[Request]()
    left = sessions_left if sessions_left is not None else []

    async def watched() -> Connection:
        return cast(Connection, Watched(await connect(servers), requests))

    reader = BrokerReader(
        watched,
        clock=clock,
        read_until_seconds=clock.elapsed_seconds() + 60,
        settings=settings_of(servers),
        sessions_left=left,
    )
    readings = [Reading(TopicPartition(topic, number), topic_id) for number in range(PARTITIONS)]
    for each in readings:
        reader.add(each)
    running = asyncio.create_task(reader.run())
    try:
        yield Bench(servers, topic, topic_id, readings, requests, left, reader)
    finally:
        reader.end_reading()
        await running


def test_a_quiet_broker_is_told_and_tells_only_what_has_changed(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    async def body() -> None:
        async with reading(source_kafka.bootstrap_servers, topic_name) as bench:
            session_id = await bench.until_in_session()
            for end in (2, 3, 4):
                await bench.send(7)
                await bench.until_read({7: end})
            await bench.send(12)
            await bench.until_read({12: 2})
            in_session = [each for each in bench.requests if each.is_of_changes]
            assert {each.session_id for each in in_session} == {session_id}
            assert [each.epoch for each in in_session] == [*range(1, len(in_session) + 1)]
            told = [number for each in in_session for number in each.asked]
            assert set(told) <= {7, 12}
            assert told.count(7) in (3, 4)  # each new offset once, and once more where it wanted nothing in between
            assert bench.readings[7].offsets == [0, 1, 2, 3]
            assert [each.offsets for each in bench.readings[:7]] == [[0]] * 7

    run_async(body())


@pytest.mark.slow
def test_records_of_any_partition_come_once_and_in_order_also_where_one_wants_none_for_a_while(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    chosen = random.Random(227)

    async def body() -> None:
        async with reading(source_kafka.bootstrap_servers, topic_name) as bench:
            await bench.until_in_session()
            ends = dict.fromkeys(range(PARTITIONS), 1)
            for turn in range(60):
                number, count = chosen.randrange(PARTITIONS), chosen.randrange(1, 4)
                unwilling = bench.readings[turn % 5]
                unwilling.wants_fetch = not unwilling.wants_fetch
                bench.reader.changed(unwilling)
                await bench.send(number, count)
                ends[number] += count
            for each in bench.readings:
                each.wants_fetch = True
                bench.reader.changed(each)
            await bench.until_read(ends)
            assert [each.offsets for each in bench.readings] == [[*range(ends[n])] for n in range(PARTITIONS)]
            assert any(each.is_of_changes and each.forgotten for each in bench.requests)

    run_async(body())


def test_what_is_more_than_one_answer_ends_the_session_and_all_is_asked_for_again(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    async def body() -> None:
        async with reading(source_kafka.bootstrap_servers, topic_name) as bench:
            session_id = await bench.until_in_session()
            bench.readings[3].wants_fetch = False
            bench.reader.changed(bench.readings[3])
            for _ in range(6):  # half of a partition's share of an answer each
                await bench.send(3, 10, size=50_000)
            bench.readings[3].wants_fetch = True
            bench.reader.changed(bench.readings[3])
            await bench.until_read({3: 61})
            assert await bench.until_in_session() != session_id
            ended = [each for each in bench.requests if each.session_id == session_id and not each.is_of_changes]
            assert len(ended) == 1
            assert bench.readings[3].offsets == [*range(61)]

    run_async(body())


def test_a_log_start_that_moves_is_told_in_a_session(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    async def body() -> None:
        async with reading(source_kafka.bootstrap_servers, topic_name) as bench:
            await bench.until_in_session()
            await asyncio.to_thread(delete_before, bench.servers, bench.topic, 1, 5)
            await bench.until(lambda: bench.readings[5].log_start == 1)
            assert [each.log_start for each in bench.readings if each is not bench.readings[5]] == [0] * (
                PARTITIONS - 1
            )

    run_async(body())


def test_records_of_a_transaction_come_when_it_is_committed(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    async def body() -> None:
        async with reading(source_kafka.bootstrap_servers, topic_name) as bench:
            await bench.until_in_session()
            producer = AIOKafkaProducer(bootstrap_servers=bench.servers, transactional_id=f"tx-{topic_name}")
            await producer.start()
            try:
                async with producer.transaction():
                    for value in (b"one", b"two", b"three"):
                        await producer.send_and_wait(topic_name, value, partition=9)
                    await bench.send(10)
                    await bench.until_read({10: 2})
                    assert bench.readings[9].offsets == [0]
            finally:
                await producer.stop()
            await bench.until(lambda: bench.readings[9].offsets == [0, 1, 2, 3])

    run_async(body())


def test_a_topic_that_is_deleted_in_a_session_is_told_to_its_partitions(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    async def body() -> None:
        async with reading(source_kafka.bootstrap_servers, topic_name) as bench:
            await bench.until_in_session()
            await asyncio.to_thread(delete_topic, bench.servers, bench.topic)
            await bench.until(lambda: all(each.error_codes for each in bench.readings))
            # UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_ID: as far as the broker is by then.
            assert {code for each in bench.readings for code in each.error_codes} <= {3, 6, 100}

    run_async(body())


async def end_session(bench: Bench, session_id: int) -> None:
    """Ends a session as its owner would; whoever names an id may."""
    await ask(bench.servers, SessionStep(session_id))


async def ask(servers: str, step: SessionStep) -> int:
    """Sends a fetch of nothing in a session; returns the error code."""
    connection = await connect(servers)
    try:
        body = encode_fetch_by_id([], {}, max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, session=step)
        with await connection.send(Api.FETCH, FETCH_BY_ID_VERSION, [body], timeout_seconds=10) as frame:
            return decode_head(frame.view).error_code
    finally:
        connection.close("asked")


def test_a_session_the_broker_has_forgotten_costs_no_record(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    async def body() -> None:
        async with reading(source_kafka.bootstrap_servers, topic_name) as bench:
            await end_session(bench, await bench.until_in_session())
            for number in (0, 11, 19):
                await bench.send(number)
            await bench.until_read({0: 2, 11: 2, 19: 2})
            await bench.until(lambda: not bench.requests[-1].is_of_changes)

    run_async(body())


def test_the_next_reader_ends_the_session_of_the_one_before(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    async def body() -> None:
        left: list[int] = []
        async with reading(source_kafka.bootstrap_servers, topic_name, sessions_left=left) as bench:
            session_id = await bench.until_in_session()
        assert left == [session_id]
        async with reading(source_kafka.bootstrap_servers, topic_name, sessions_left=left) as bench:
            await bench.until_read(dict.fromkeys(range(PARTITIONS), 1))
            assert bench.requests[0].session_id == session_id
            assert not bench.requests[0].is_of_changes
            assert left == []
            assert await ask(bench.servers, SessionStep(session_id, 1)) == FETCH_SESSION_ID_NOT_FOUND

    run_async(body())


@pytest.mark.slow
def test_a_broker_without_room_for_sessions_is_asked_for_all_each_time(
    tmp_path: Path, kafka_libs: Path, topic_name: str, run_async: RunAsync
) -> None:
    properties = {"max.incremental.fetch.session.cache.slots": "0"}
    with EmbeddedKafka(tmp_path, libs=kafka_libs, properties=properties) as broker:

        async def body() -> None:
            async with reading(broker.bootstrap_servers, topic_name) as bench:
                await bench.until(lambda: any(each.epoch == 0 for each in bench.requests))
                for end in (2, 3, 4):
                    await bench.send(7)
                    await bench.until_read({7: end})
                assert {each.epoch for each in bench.requests} == {0, -1}
                assert [each.epoch for each in bench.requests].count(0) == 1  # it is asked once a lease

        run_async(body())
