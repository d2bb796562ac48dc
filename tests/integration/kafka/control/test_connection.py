"""The wire client against a real broker, a broker that stops answering, and listeners that are none."""

import asyncio
import socket
import ssl
import struct
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import uvloop

from conftest import NewKafka, RunAsync
from integration.kafka.frozen import frozen
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import (
    BrokerUnreachableError,
    CorruptBatchError,
    MirrorlakeError,
    NotKafkaError,
    RequestTimeoutError,
    UnsupportedError,
)
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.connection import Connection
from mirrorlake.kafka.wire.apis import FETCH_VERSION, PRODUCE_VERSION, Api
from mirrorlake.kafka.wire.buffers import BufferPool
from mirrorlake.kafka.wire.fetch import FetchedPartition, FetchPartition, decode_fetch, encode_fetch
from mirrorlake.kafka.wire.frame import Frame
from mirrorlake.kafka.wire.produce import ProducedPartition, decode_produce, encode_produce
from mirrorlake.kafka.wire.settings import ClusterSettings, parse_server
from support.records import Record, build_batch, simple_records

MIB = 1 << 20
NOWHERE = ClusterSettings(name="nowhere", bootstrap_servers=("127.0.0.1:1",), connect_timeout_seconds=1.0)


def settings_of(server: EmbeddedKafka) -> ClusterSettings:
    return ClusterSettings(name="test", bootstrap_servers=(server.bootstrap_servers,))


@asynccontextmanager
async def connected(server: EmbeddedKafka, *, buffers: BufferPool | None = None) -> AsyncIterator[Connection]:
    host, port = parse_server(server.bootstrap_servers)
    pool = buffers or BufferPool(64 * MIB, 4 * MIB)
    connection = await Connection.open(host, port, settings=settings_of(server), buffers=pool)
    try:
        yield connection
    finally:
        connection.close("the test is over")
    if buffers is None:
        assert pool.in_use_bytes == 0


async def create_topic(server: EmbeddedKafka, name: str, partitions: int = 1) -> None:
    async with ClusterClient(settings_of(server)) as client:
        assert await client.topics.create(name, partitions=partitions, replication_factor=1)


def send_batch(connection: Connection, topic: str, partition: int, batch: bytes) -> "asyncio.Future[Frame]":
    body = encode_produce([(topic, partition, memoryview(batch))], timeout_ms=20_000)
    return connection.send(Api.PRODUCE, PRODUCE_VERSION, body, timeout_seconds=30)


def read_produced(frame: Frame) -> list[ProducedPartition]:
    with frame:
        return decode_produce(frame.view)


def send_fetch(
    connection: Connection,
    topic: str,
    *,
    partition: int = 0,
    offset: int = 0,
    max_wait_ms: int = 0,
    timeout_seconds: float = 30,
) -> "asyncio.Future[Frame]":
    asked = FetchPartition(topic=topic, partition=partition, fetch_offset=offset, partition_bytes_max=32 * MIB)
    body = encode_fetch([asked], max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=32 * MIB)
    return connection.send(Api.FETCH, FETCH_VERSION, (body,), timeout_seconds=timeout_seconds)


def only_partition(frame: Frame) -> FetchedPartition:
    (fetched,) = decode_fetch(frame.view)
    assert fetched.error_code == 0
    return fetched


def as_stored(batch: bytes, base_offset: int) -> bytes:
    """A batch as the leader keeps it: with its offset, and the leader epoch, which is 0 in a new topic."""
    return struct.pack(">q", base_offset) + batch[8:12] + struct.pack(">i", 0) + batch[16:]


def large_batch(size_bytes: int) -> bytes:
    return build_batch([Record(1_700_000_000_000, None, bytes(size_bytes))])


# -- a broker ----------------------------------------------------------------------------------------------------


def test_a_request_whose_time_is_over_when_it_is_sent_times_out_on_the_loop_of_workers_too(
    source_kafka: EmbeddedKafka, topic_name: str
) -> None:
    """uvloop's handle of a time that has come is another one, which does not tell the time."""

    async def body() -> None:
        async with ClusterClient(settings_of(source_kafka)) as client:
            await client.topics.create(topic_name, partitions=1, replication_factor=1)
        async with connected(source_kafka) as connection:
            answer = send_fetch(connection, topic_name, max_wait_ms=5000, timeout_seconds=0.0)
            with pytest.raises(RequestTimeoutError):
                await asyncio.wait_for(answer, 3.0)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(body())


def test_an_open_connection_knows_the_versions_of_its_broker(source_kafka: EmbeddedKafka, run_async: RunAsync) -> None:
    async def scenario() -> None:
        async with connected(source_kafka) as connection:
            assert (connection.version(Api.FETCH), connection.version(Api.PRODUCE)) == (11, 8)
            assert connection.versions[Api.FETCH][1] >= 17  # far above what is used
            assert connection.address == source_kafka.bootstrap_servers

    run_async(scenario())


def test_who_takes_answers_at_once_may_send_the_next_request_from_there(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    async def scenario() -> None:
        await create_topic(source_kafka, topic_name)
        async with connected(source_kafka) as connection:
            base_offsets: list[int] = []
            all_taken = asyncio.Event()

            def send() -> None:
                body = encode_produce([(topic_name, 0, memoryview(build_batch(simple_records(3))))], timeout_ms=20_000)
                connection.send_for(
                    Api.PRODUCE, PRODUCE_VERSION, body, timeout_seconds=30, taken=take, lost=unexpected_loss
                )

            def take(frame: Frame) -> None:
                (produced,) = read_produced(frame)
                base_offsets.append(produced.base_offset)
                if len(base_offsets) < 5:
                    send()
                elif len(base_offsets) == 7:
                    all_taken.set()

            for _ in range(3):
                send()
            await asyncio.wait_for(all_taken.wait(), timeout=30)
            assert base_offsets == [0, 3, 6, 9, 12, 15, 18]
            assert connection.in_flight == 0

    run_async(scenario())


def test_a_lost_answer_is_told_once_and_not_from_inside_the_call_that_lost_it(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    async def scenario() -> None:
        await create_topic(source_kafka, topic_name)
        async with connected(source_kafka) as connection:
            lost: list[MirrorlakeError] = []
            asked = FetchPartition(topic=topic_name, partition=0, fetch_offset=0, partition_bytes_max=MIB)
            body = (encode_fetch([asked], max_wait_ms=20_000, min_bytes=1, max_bytes=MIB),)
            connection.send_for(
                Api.FETCH, FETCH_VERSION, body, timeout_seconds=30, taken=unexpected_answer, lost=lost.append
            )
            connection.close("on purpose")
            assert not lost
            await asyncio.sleep(0.1)
            (error,) = lost
            assert isinstance(error, BrokerUnreachableError)
            with pytest.raises(BrokerUnreachableError):
                connection.send_for(
                    Api.FETCH, FETCH_VERSION, body, timeout_seconds=30, taken=unexpected_answer, lost=lost.append
                )
            await asyncio.sleep(0.1)
            assert len(lost) == 1

    run_async(scenario())


def test_a_taker_that_fails_takes_no_other_answer_with_it(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    async def scenario() -> None:
        told: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
        async with connected(source_kafka) as connection:
            mistake = RuntimeError("a mistake of ours")

            def take(frame: Frame) -> None:
                frame.release()
                raise mistake

            connection.send_for(Api.API_VERSIONS, 0, (), timeout_seconds=30, taken=take, lost=unexpected_loss)
            with await connection.request(Api.API_VERSIONS, 0, (), timeout_seconds=30) as frame:
                assert len(frame.view) > 100
            assert told == [mistake]

    run_async(scenario())


def unexpected_loss(error: MirrorlakeError) -> None:
    raise AssertionError(f"no answer: {error}")


def unexpected_answer(frame: Frame) -> None:
    raise AssertionError(f"an answer of {len(frame.view)} bytes")


def test_batches_come_back_byte_for_byte(source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync) -> None:
    batches = [build_batch(simple_records(count, size=50), codec) for codec, count in enumerate((3, 1, 70, 7, 500))]

    async def scenario() -> None:
        await create_topic(source_kafka, topic_name)
        async with connected(source_kafka) as connection:
            base_offsets = []
            for batch in batches:
                (produced,) = read_produced(await send_batch(connection, topic_name, 0, batch))
                assert produced.error_code == 0
                base_offsets.append(produced.base_offset)
            with await send_fetch(connection, topic_name) as frame:
                fetched = only_partition(frame)
                assert base_offsets == [0, 3, 4, 74, 81]
                assert bytes(fetched.records) == b"".join(map(as_stored, batches, base_offsets))
                assert (fetched.high_watermark, fetched.last_stable_offset, fetched.log_start_offset) == (581, 581, 0)
                assert fetched.aborted == ()
                del fetched

    run_async(scenario())


def test_five_requests_in_flight_are_answered_in_order(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    batches = [build_batch(simple_records(2, start=2 * n)) for n in range(5)]

    async def scenario() -> None:
        await create_topic(source_kafka, topic_name)
        async with connected(source_kafka) as connection:
            answers = [send_batch(connection, topic_name, 0, batch) for batch in batches]
            assert connection.in_flight == 5
            produced = [read_produced(await answer)[0] for answer in answers]
            assert [(part.error_code, part.base_offset) for part in produced] == [(0, 2 * n) for n in range(5)]
            with await send_fetch(connection, topic_name) as frame:
                expected = [as_stored(batch, 2 * n) for n, batch in enumerate(batches)]
                assert bytes(only_partition(frame).records) == b"".join(expected)

    run_async(scenario())


def test_requests_larger_than_the_socket_takes_at_once_arrive_whole(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    batch = large_batch(900_000)
    partitions = 30

    async def scenario() -> None:
        await create_topic(source_kafka, topic_name, partitions)
        async with connected(source_kafka) as connection:
            body = encode_produce([(topic_name, n, memoryview(batch)) for n in range(partitions)], timeout_ms=20_000)
            answers = [connection.send(Api.PRODUCE, PRODUCE_VERSION, body, timeout_seconds=60) for _ in range(2)]
            for attempt, answer in enumerate(answers):
                produced = read_produced(await answer)
                assert sorted(part.partition for part in produced) == list(range(partitions))
                assert {(part.error_code, part.base_offset) for part in produced} == {(0, attempt)}

    run_async(scenario())


@pytest.mark.slow
def test_requests_of_more_pieces_than_one_system_call_takes_arrive_whole(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    batch = build_batch(simple_records(1))
    partitions = 700  # two pieces each, and the limit is 1024

    async def scenario() -> None:
        await create_topic(source_kafka, topic_name, partitions)
        async with connected(source_kafka) as connection:
            body = encode_produce([(topic_name, n, memoryview(batch)) for n in range(partitions)], timeout_ms=20_000)
            assert len(body) == 2 * partitions
            frame = await connection.request(Api.PRODUCE, PRODUCE_VERSION, body, timeout_seconds=60)
            produced = read_produced(frame)
            assert len(produced) == partitions
            assert {part.error_code for part in produced} == {0}
        async with ClusterClient(settings_of(source_kafka)) as client:
            await client.topics.delete(topic_name)

    run_async(scenario())


def test_a_request_that_was_given_up_does_not_disturb_the_others(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    async def scenario() -> None:
        await create_topic(source_kafka, topic_name)
        async with connected(source_kafka) as connection:
            given_up = asyncio.create_task(wait_for(send_fetch(connection, topic_name, max_wait_ms=300)))
            await asyncio.sleep(0.05)
            given_up.cancel()
            later = send_batch(connection, topic_name, 0, build_batch(simple_records(4)))
            assert read_produced(await later)[0].base_offset == 0
            assert given_up.cancelled()

    run_async(scenario())


async def wait_for(answer: "asyncio.Future[Frame]") -> None:
    (await answer).release()


# -- bounds ------------------------------------------------------------------------------------------------------


def test_a_reader_without_a_buffer_waits_while_others_go_on_and_its_deadline_waits_too(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    async def scenario() -> None:
        await create_topic(source_kafka, topic_name)
        pool = BufferPool(MIB, MIB)
        async with (
            connected(source_kafka, buffers=pool) as first,
            connected(source_kafka, buffers=pool) as second,
        ):
            read_produced(await send_batch(first, topic_name, 0, large_batch(900_000)))
            held = await send_fetch(first, topic_name)
            assert pool.in_use_bytes == MIB
            waiting = send_fetch(second, topic_name, timeout_seconds=1.0)
            while not pool.waiting:
                await asyncio.sleep(0.01)
            await asyncio.sleep(2.0)  # longer than the request may take: but it is us who do not listen
            assert not waiting.done()
            small = send_batch(first, topic_name, 0, build_batch(simple_records(1)))
            assert read_produced(await small)[0].error_code == 0  # small answers need no buffer of the pool
            held.release()
            with await waiting as frame:
                assert len(only_partition(frame).records) > 900_000
        assert (pool.in_use_bytes, pool.lost_buffers) == (0, 0)

    run_async(scenario())


def test_a_frame_above_the_limit_ends_the_connection_and_is_named(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    async def scenario() -> None:
        await create_topic(source_kafka, topic_name)
        async with connected(source_kafka, buffers=BufferPool(MIB, MIB, frame_bytes_max=500_000)) as connection:
            read_produced(await send_batch(connection, topic_name, 0, large_batch(600_000)))
            with pytest.raises(CorruptBatchError, match=r"a frame of 6\d{5} bytes was announced.*500000"):
                await send_fetch(connection, topic_name)
            assert connection.closed

    run_async(scenario())


def test_a_frame_larger_than_the_buffers_is_received_all_the_same(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    batch = large_batch(900_000)

    async def scenario() -> None:
        await create_topic(source_kafka, topic_name)
        async with connected(source_kafka, buffers=BufferPool(100_000, 50_000)) as connection:
            read_produced(await send_batch(connection, topic_name, 0, batch))
            with await send_fetch(connection, topic_name) as frame:
                assert bytes(only_partition(frame).records) == as_stored(batch, 0)

    run_async(scenario())


def test_a_version_the_broker_does_not_know_is_not_sent(source_kafka: EmbeddedKafka, run_async: RunAsync) -> None:
    async def scenario() -> None:
        async with connected(source_kafka) as connection:
            with pytest.raises(UnsupportedError, match=r"Fetch version 99 is needed.*only knows versions"):
                connection.send(Api.FETCH, 99, (), timeout_seconds=1)
            connection.versions = {key: span for key, span in connection.versions.items() if key != Api.FETCH}
            with pytest.raises(UnsupportedError, match=r"Fetch version 11 is needed.*does not know it"):
                connection.version(Api.FETCH)
            assert connection.in_flight == 0

    run_async(scenario())


# -- brokers that stop answering -------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_frozen_broker_times_out_and_delays_nobody_else(
    new_kafka: NewKafka, source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    server = new_kafka()

    async def scenario() -> None:
        await create_topic(source_kafka, topic_name)
        await create_topic(server, topic_name)
        async with connected(server) as stuck, connected(source_kafka) as healthy:
            with frozen(server):
                deadline = send_fetch(stuck, topic_name, timeout_seconds=2.0)
                behind = send_fetch(stuck, topic_name, timeout_seconds=60.0)
                answered = 0
                while not deadline.done():
                    with await send_fetch(healthy, topic_name) as frame:
                        assert only_partition(frame).high_watermark == 0
                    answered += 1
                assert answered > 10
                with pytest.raises(RequestTimeoutError, match="did not answer Fetch in time"):
                    await deadline
                with pytest.raises(BrokerUnreachableError, match="an earlier request was not answered in time"):
                    await behind
                with pytest.raises(BrokerUnreachableError, match="not sent"):
                    send_fetch(stuck, topic_name)

    run_async(scenario())


@pytest.mark.slow
def test_a_killed_broker_fails_every_waiting_request_and_can_be_dialled_again(
    new_kafka: NewKafka, topic_name: str, run_async: RunAsync
) -> None:
    server = new_kafka()

    async def before() -> None:
        await create_topic(server, topic_name)
        async with connected(server) as connection:
            waiting = [send_fetch(connection, topic_name, max_wait_ms=20_000) for _ in range(3)]
            await asyncio.sleep(0.2)
            server.kill()
            for answer in waiting:
                with pytest.raises(BrokerUnreachableError, match="lost"):
                    await answer
            assert connection.closed

    async def after() -> None:
        async with connected(server) as connection:
            with await send_fetch(connection, topic_name) as frame:
                assert only_partition(frame).high_watermark == 0

    run_async(before())
    server.start()
    run_async(after())


def test_closing_fails_every_waiting_request(source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync) -> None:
    async def scenario() -> None:
        await create_topic(source_kafka, topic_name)
        async with connected(source_kafka) as connection:
            waiting = [send_fetch(connection, topic_name, max_wait_ms=20_000) for _ in range(2)]
            connection.close("enough")
            connection.close("again")
            for answer in waiting:
                with pytest.raises(BrokerUnreachableError, match="closed: enough"):
                    await answer

    run_async(scenario())


# -- a peer that sends as it likes -----------------------------------------------------------------------------

Conversation = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

KNOWS_METADATA = struct.pack(">hihhh", 0, 1, Api.METADATA, 0, 1)
"""What the peer answers to ApiVersions."""


async def framed_answer(reader: asyncio.StreamReader, body: bytes) -> bytes:
    """Waits for a request; returns its answer as it goes out."""
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    correlation = (await reader.readexactly(size))[4:8]
    return struct.pack(">i", 4 + len(body)) + correlation + body


@asynccontextmanager
async def connected_to(talk: Conversation, *, buffers_bytes: int = MIB) -> AsyncIterator[Connection]:
    """Gives a connection to a peer that talks so; at the end it was closed, and the peer has seen that."""
    hung_up = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await talk(reader, writer)
        await reader.read()
        writer.close()
        hung_up.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        pool = BufferPool(buffers_bytes, MIB)
        connection = await Connection.open("127.0.0.1", port, settings=NOWHERE, buffers=pool)
        yield connection
        connection.close("the test is over")
        await hung_up.wait()


ANSWER_BYTES = [300_000, 20, 900_000, 4_090, 70_000, 3, 64_000, 1_000_000, 12, 900_000, 70_000]
"""Around every size at which the kernel is asked to wake us for more, or for the first byte again."""


@pytest.mark.parametrize("buffers_bytes", [1 * MIB, 64 * MIB])
@pytest.mark.parametrize("piece_bytes", [7_001, 65_536, 4 * MIB])
def test_answers_come_at_once_in_whatever_pieces_they_are_sent(
    piece_bytes: int, buffers_bytes: int, run_async: RunAsync
) -> None:
    bodies = [bytes([number]) * size for number, size in enumerate(ANSWER_BYTES)]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for body in [KNOWS_METADATA, *bodies]:
            data = await framed_answer(reader, body)
            for start in range(0, len(data), piece_bytes):
                writer.write(data[start : start + piece_bytes])
                await writer.drain()
                await asyncio.sleep(0)

    async def scenario() -> None:
        async with connected_to(answer, buffers_bytes=buffers_bytes) as connection:
            answers = [connection.send(Api.METADATA, 1, (), timeout_seconds=10) for _ in bodies]
            for waiting, body in zip(answers, bodies, strict=True):
                with await asyncio.wait_for(waiting, timeout=5) as frame:
                    assert frame.view == body

    run_async(scenario())


def test_requests_that_are_held_go_out_together_when_they_are_flushed(run_async: RunAsync) -> None:
    received: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await framed_answer(reader, KNOWS_METADATA))
        while data := await reader.read(1 << 20):
            received.append(data)

    async def scenario() -> None:
        async with connected_to(listen) as connection:
            connection.hold()
            for number in range(3):
                connection.send(Api.METADATA, 1, (bytes([number]) * 10,), timeout_seconds=10)
            await asyncio.sleep(0.1)
            assert received == []
            connection.flush()
            connection.flush()  # nothing more
            await asyncio.sleep(0.1)
            (data,) = received
            assert [data.find(bytes([number]) * 10) > 0 for number in range(3)] == [True] * 3
            connection.send(Api.METADATA, 1, (b"alone",), timeout_seconds=10)
            await asyncio.sleep(0.1)
            assert received[1].endswith(b"alone")
            connection.hold()
            connection.send(Api.METADATA, 1, (b"never",), timeout_seconds=10)
            connection.close("the test is over")
            connection.flush()
        assert b"never" not in b"".join(received)

    run_async(scenario())


@pytest.mark.skipif(sys.platform != "linux", reason="only there a socket tells of so many bytes and not of fewer")
def test_answers_gather_until_as_many_bytes_are_there_as_are_awaited(run_async: RunAsync) -> None:
    """Each answer has ten bytes: its size, its correlation id, and two more."""
    answered = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for body in [KNOWS_METADATA, *[b"ab"] * 5]:
            writer.write(await framed_answer(reader, body))
            await writer.drain()
        answered.set()

    async def scenario() -> None:
        async with connected_to(talk) as connection:
            awaited_bytes = 40
            connection.wake_after(lambda: awaited_bytes)
            connection.set_wake()
            answers = [connection.send(Api.METADATA, 1, (), timeout_seconds=10) for _ in range(3)]
            await asyncio.sleep(0.2)
            assert [each.done() for each in answers] == [False] * 3, "thirty bytes"
            answers.append(connection.send(Api.METADATA, 1, (), timeout_seconds=10))
            await asyncio.wait_for(asyncio.gather(*answers), timeout=5)
            last = connection.send(Api.METADATA, 1, (), timeout_seconds=10)
            await answered.wait()
            await asyncio.sleep(0.2)
            assert not last.done()
            awaited_bytes = 1
            connection.set_wake()  # what is there already is received then
            await asyncio.wait_for(last, timeout=5)

    run_async(scenario())


# -- addresses where no broker is ------------------------------------------------------------------------------


async def open_other_peer(talk: Conversation, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
    """Connects to a server that is not Kafka."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
            await writer.drain()
        except OSError:
            pass  # the client has gone
        finally:
            writer.close()

    server = await asyncio.start_server(serve, host, 0, ssl=tls)
    async with server:
        port = server.sockets[0].getsockname()[1]
        await Connection.open(host, port, settings=NOWHERE, buffers=BufferPool(MIB, MIB))


async def say_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(100)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


async def say_tls_alert(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(100)
    writer.write(b"\x15\x03\x03\x00\x02\x02\x46")  # fatal, protocol_version


async def greet_as_ssh(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
    await reader.read(100)
    await asyncio.sleep(0.1)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(await reader.read(100))


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(100)


async def stay_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.read(100):
        pass


@pytest.mark.parametrize(
    ("talk", "seen"),
    [
        (say_http, "an HTTP server answered"),
        (say_tls_alert, "a TLS record came"),
        (greet_as_ssh, "an SSH server answered"),
        (echo, "does not speak the Kafka protocol"),
    ],
)
def test_a_peer_that_is_no_broker_is_named_with_address_and_what_it_said(
    talk: Conversation, seen: str, run_async: RunAsync
) -> None:
    with pytest.raises(NotKafkaError, match=r"127\.0\.0\.1:\d+ does not speak") as caught:
        run_async(open_other_peer(talk))

    assert seen in caught.value.message
    assert "TLS" in caught.value.hint or talk is echo


def test_a_peer_that_hangs_up_before_it_answers_may_be_a_broker_that_stops(run_async: RunAsync) -> None:
    with pytest.raises(BrokerUnreachableError, match=r"closed by the peer before it answered.*TLS"):
        run_async(open_other_peer(hang_up))


def test_a_silent_peer_times_out(run_async: RunAsync) -> None:
    with pytest.raises(RequestTimeoutError, match=r"accepted the connection and stayed silent for 1 s"):
        run_async(open_other_peer(stay_silent))


def test_an_ipv6_address_is_dialled_as_it_is(run_async: RunAsync) -> None:
    with pytest.raises(NotKafkaError, match=r"\[::1\]:\d+ does not speak"):
        run_async(open_other_peer(say_http, host="::1"))


def test_a_refused_connection_says_so(run_async: RunAsync) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can take the port
        port = taken.getsockname()[1]

        with pytest.raises(BrokerUnreachableError, match=rf"127\.0\.0\.1:{port}: Connection refused"):
            run_async(Connection.open("127.0.0.1", port, settings=NOWHERE, buffers=BufferPool(MIB, MIB)))


@pytest.mark.parametrize("host", ["no-such-host.invalid", "label-too-long-" + "x" * 64 + ".invalid", "a..b"])
def test_a_name_that_cannot_be_resolved_says_so(host: str, run_async: RunAsync) -> None:
    with pytest.raises(
        BrokerUnreachableError, match=f"{host}:9092 could not be reached: the name could not be resolved"
    ):
        run_async(Connection.open(host, 9092, settings=NOWHERE, buffers=BufferPool(MIB, MIB)))


def test_an_address_that_never_answers_times_out(run_async: RunAsync) -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for client in waiting:  # fill the backlog, so that the kernel lets further ones wait
            client.setblocking(False)
            client.connect_ex(address)
        try:
            with pytest.raises(BrokerUnreachableError, match="no answer within 1 s"):
                run_async(Connection.open(*address, settings=NOWHERE, buffers=BufferPool(MIB, MIB)))
        finally:
            for client in waiting:
                client.close()
