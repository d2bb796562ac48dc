"""The control plane against real brokers."""

import asyncio
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest
import uvloop
from crc32c import crc32c

from conftest import NewKafka, RunAsync
from integration.kafka.frozen import frozen
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import (
    BrokerUnreachableError,
    NotKafkaError,
    OutcomeUnknownError,
    PositionMovedError,
    RequestTimeoutError,
    SourceTruncatedError,
    TopicMissingError,
    UnsupportedError,
)
from mirrorlake.kafka.control.cluster import EARLIEST, LATEST, ClusterClient
from mirrorlake.kafka.control.descriptions import AppendState, LogEnd, ProducerIdentity, ProducerState
from mirrorlake.kafka.wire.apis import PRODUCE_VERSION, Api
from mirrorlake.kafka.wire.fetch import READ_COMMITTED, READ_UNCOMMITTED
from mirrorlake.kafka.wire.produce import ProducedPartition, decode_produce, encode_produce
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import TopicPartition
from support.records import build_batch, produce, simple_records

_TRANSACTIONAL = 0x10


def client_of(
    *servers: EmbeddedKafka | str, request_timeout_seconds: float = 30.0, connect_timeout_seconds: float = 20.0
) -> ClusterClient:
    return ClusterClient(
        ClusterSettings(
            name="test",
            bootstrap_servers=tuple(s if isinstance(s, str) else s.bootstrap_servers for s in servers),
            request_timeout_seconds=request_timeout_seconds,
            connect_timeout_seconds=connect_timeout_seconds,
        )
    )


@contextmanager
def port_without_server() -> Iterator[str]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def batch_of(
    identity: ProducerIdentity, *, sequence: int, count: int, is_transactional: bool = False, timestamp: int = 1000
) -> bytes:
    """A batch of ``count`` records by a producer."""
    batch = bytearray(build_batch(simple_records(count, timestamp=timestamp)))
    if is_transactional:
        batch[22] |= _TRANSACTIONAL
    struct.pack_into(">qhi", batch, 43, identity.producer_id, identity.producer_epoch, sequence)
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    return bytes(batch)


async def append(
    client: ClusterClient, partition: TopicPartition, batch: bytes, *, transactional_id: str | None = None
) -> ProducedPartition:
    leader = (await client.metadata((partition.topic,))).partition(partition)
    assert leader is not None
    connection = await client.connection(leader.leader)
    body = encode_produce(
        [(partition.topic, partition.partition, batch)], timeout_ms=10_000, transactional_id=transactional_id
    )
    with await connection.request(Api.PRODUCE, PRODUCE_VERSION, body, timeout_seconds=30) as frame:
        (produced,) = decode_produce(frame.view)
    return produced


# -- finding the cluster -----------------------------------------------------------------------------------------


def test_topics_asked_for_at_the_same_time_are_all_asked_anew(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    """One request serves all who ask at once; it must not leave out the topics of those who came second."""
    names = [f"{topic_name}-{number}" for number in range(3)]

    async def story() -> None:
        async with client_of(source_kafka) as client:
            before = await make(client)
            async with client_of(source_kafka) as other:
                for name in names:
                    await other.topics.delete(name)
                after = await make(other)
            assert not before & after
            found = await asyncio.gather(*(client.metadata((name,), refresh=True) for name in names))
            assert {seen.topics[name].topic_id for name, seen in zip(names, found, strict=True)} == after

    async def make(client: ClusterClient) -> set[str]:
        for name in names:
            await client.topics.create(name, partitions=1, replication_factor=1)
        return {topic.topic_id for topic in (await client.metadata(names, refresh=True)).topics.values()}

    run_async(story())


@pytest.mark.slow
def test_a_topic_asked_for_while_another_question_is_on_its_way_is_asked_for_also_by_a_clock_that_stands_still(
    source_kafka: EmbeddedKafka, topic_name: str
) -> None:
    first, second = f"{topic_name}-1", f"{topic_name}-2"

    async def body() -> None:
        for name in (first, second):
            async with client_of(source_kafka) as client:
                await client.topics.create(name, partitions=1, replication_factor=1)
        for _ in range(50):
            async with client_of(source_kafka) as client:
                asking = asyncio.create_task(client.metadata([first], refresh=True))
                await asyncio.sleep(0)  # the question is on its way
                later = await client.metadata([second], refresh=True)
                assert second in later.topics
                assert first in (await asking).topics

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # its clock counts whole milliseconds
        runner.run(body())


def test_metadata_names_brokers_topics_and_partitions(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    async def scenario() -> None:
        async with client_of(source_kafka) as client:
            await client.topics.create(topic_name, partitions=3, replication_factor=1)
            metadata = await client.metadata((topic_name, "no-such-topic"))
            broker_id = metadata.controller_id
            assert metadata.brokers == {broker_id: ("127.0.0.1", source_kafka.port)}
            assert metadata.cluster_id
            assert set(metadata.topics) == {topic_name}
            topic = metadata.topics[topic_name]
            assert len(topic.topic_id) == 22
            assert not topic.is_internal
            assert sorted(topic.partitions) == [0, 1, 2]
            for number, partition in topic.partitions.items():
                assert (partition.partition, partition.leader, partition.error_code) == (number, broker_id, 0)
                assert (partition.replicas, partition.isr) == ((broker_id,), (broker_id,))
                assert partition.leader_epoch == 0
            assert topic_name in (await client.metadata()).topics

    run_async(scenario())


def test_a_topic_made_anew_has_another_id(source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync) -> None:
    async def scenario() -> None:
        async with client_of(source_kafka) as client:
            await client.topics.create(topic_name, partitions=1, replication_factor=1)
            before = (await client.metadata((topic_name,))).topics[topic_name].topic_id
            assert await client.topics.delete(topic_name)
            await client.topics.create(topic_name, partitions=1, replication_factor=1)
            after = (await client.metadata((topic_name,))).topics[topic_name].topic_id
            assert before != after

    run_async(scenario())


def test_one_bootstrap_server_that_answers_is_enough(source_kafka: EmbeddedKafka, run_async: RunAsync) -> None:
    async def scenario(dead: str) -> None:
        async with client_of(dead, "no-such-host.invalid:9092", source_kafka) as client:
            assert (await client.metadata(())).brokers

    with port_without_server() as dead:
        run_async(scenario(dead))


def test_first_questions_at_the_same_time_leave_no_connection_open(
    source_kafka: EmbeddedKafka, run_async: RunAsync
) -> None:
    def connections() -> int:
        return sum(bool(c.raddr) and c.raddr.port == source_kafka.port for c in psutil.Process().net_connections())

    async def scenario() -> None:
        async with client_of(source_kafka) as client:
            before = connections()
            await asyncio.gather(*(client.init_producer_id(None, transaction_timeout_ms=1000) for _ in range(5)))
            assert connections() == before + 1
        assert connections() == before

    run_async(scenario())


def test_all_bootstrap_servers_and_their_reasons_are_named_when_none_answers(run_async: RunAsync) -> None:
    async def scenario(dead: str) -> None:
        async with client_of(dead, "no-such-host.invalid:9092") as client:
            await client.metadata()

    with (
        port_without_server() as dead,
        pytest.raises(
            BrokerUnreachableError, match=rf"{dead}: Connection refused.*no-such-host.invalid:9092.*resolved"
        ),
    ):
        run_async(scenario(dead))


def test_a_bootstrap_port_of_something_else_is_permanent(run_async: RunAsync) -> None:
    async def say_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    async def scenario() -> None:
        server = await asyncio.start_server(say_http, "127.0.0.1", 0)
        async with server, client_of(f"127.0.0.1:{server.sockets[0].getsockname()[1]}") as client:
            await client.metadata()

    with pytest.raises(NotKafkaError, match="an HTTP server answered"):
        run_async(scenario())


@pytest.mark.slow
def test_a_frozen_bootstrap_server_does_not_hold_up_the_next(
    new_kafka: NewKafka, source_kafka: EmbeddedKafka, run_async: RunAsync
) -> None:
    server = new_kafka()

    async def scenario() -> None:
        async with client_of(server, source_kafka) as client:
            assert (await client.metadata(())).brokers.popitem()[1][1] == source_kafka.port  # type: ignore[attr-defined]
        async with client_of(server, connect_timeout_seconds=1.0) as client:
            with pytest.raises(RequestTimeoutError, match="stayed silent"):
                await client.metadata()

    with frozen(server):
        run_async(scenario())


@pytest.mark.slow
def test_a_restarted_broker_is_found_again(new_kafka: NewKafka, topic_name: str, run_async: RunAsync) -> None:
    server = new_kafka()

    async def scenario() -> None:
        partition = TopicPartition(topic_name, 0)
        async with client_of(server) as client:
            await client.topics.create(topic_name, partitions=1, replication_factor=1)
            before = await client.connection(1)
            assert await client.connection(1) is before
            await asyncio.to_thread(server.kill)
            dead = (await client.log_ends((partition,)))[partition]
            assert isinstance(dead, BrokerUnreachableError)
            with pytest.raises(BrokerUnreachableError):
                await client.connection(1)
            await asyncio.to_thread(server.start)
            after = await client.connection(1)
            assert after is not before
            # The restart began a new leader epoch: the one remembered is refused once, and read again.
            found = (await client.log_ends((partition,)))[partition]
            assert isinstance(found, LogEnd)
            assert found.end_offset == 0
            assert found.leader_epoch > 0

    run_async(scenario())


@pytest.mark.slow
def test_a_leader_that_froze_is_looked_for_again(new_kafka: NewKafka, topic_name: str, run_async: RunAsync) -> None:
    server = new_kafka()

    async def scenario() -> None:
        partition = TopicPartition(topic_name, 0)
        async with client_of(server, request_timeout_seconds=6.0, connect_timeout_seconds=6.0) as client:
            await client.topics.create(topic_name, partitions=1, replication_factor=1)
            with frozen(server):
                silent = (await client.log_ends((partition,)))[partition]
                assert isinstance(silent, RequestTimeoutError)
                with pytest.raises(RequestTimeoutError):  # metadata is asked for again, and not to be had either
                    await client.log_ends((partition,))
            # Frozen for longer than its session, a broker is fenced, and not in the metadata until its next heartbeat.
            while not isinstance((await client.log_ends((partition,)))[partition], LogEnd):
                await asyncio.sleep(0.1)

    run_async(scenario())


def test_uses_do_not_share_a_connection(source_kafka: EmbeddedKafka, run_async: RunAsync) -> None:
    async def scenario() -> None:
        async with client_of(source_kafka) as client:
            broker_id = (await client.metadata(())).controller_id
            fetching, producing = await asyncio.gather(
                client.connection(broker_id, use="fetch"), client.connection(broker_id, use="produce")
            )
            assert fetching is not producing
            assert await client.connection(broker_id, use="fetch") is fetching
        assert fetching.closed
        assert producing.closed

    run_async(scenario())


def test_an_unknown_broker_is_unreachable(source_kafka: EmbeddedKafka, run_async: RunAsync) -> None:
    async def scenario() -> None:
        async with client_of(source_kafka) as client:
            with pytest.raises(BrokerUnreachableError, match="has no broker 77"):
                await client.connection(77)

    run_async(scenario())


def test_a_closed_client_answers_nobody(source_kafka: EmbeddedKafka, run_async: RunAsync) -> None:
    async def scenario() -> None:
        client = client_of(source_kafka)
        await client.metadata()
        await client.close()
        await client.close()
        with pytest.raises(BrokerUnreachableError, match="closed"):
            await client.metadata(refresh=True)

    run_async(scenario())


def test_cancelling_while_servers_are_dialled_leaves_nothing_open(new_kafka: NewKafka, run_async: RunAsync) -> None:
    server = new_kafka()

    async def scenario() -> None:
        async with client_of(server) as client:
            asking = asyncio.create_task(client.metadata())
            await asyncio.sleep(0.3)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with frozen(server):
        run_async(scenario())


# -- topics ------------------------------------------------------------------------------------------------------


def test_creating_a_topic_that_exists_leaves_it_as_it_is(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    async def scenario() -> None:
        async with client_of(source_kafka) as client:
            assert await client.topics.create(topic_name, partitions=2, replication_factor=1) is True
            assert await client.topics.create(topic_name, partitions=5, replication_factor=1) is False
            assert len((await client.metadata((topic_name,))).topics[topic_name].partitions) == 2

    run_async(scenario())


@pytest.mark.parametrize(
    ("replication_factor", "configs", "said"),
    [
        (3, {}, r"INVALID_REPLICATION_FACTOR \(38\).*fewer brokers"),
        (1, {"no.such.config": "1"}, r"INVALID_CONFIG \(40\).*no\.such\.config"),
    ],
)
def test_an_impossible_topic_is_refused_with_the_reason(
    source_kafka: EmbeddedKafka,
    topic_name: str,
    run_async: RunAsync,
    replication_factor: int,
    configs: dict[str, str],
    said: str,
) -> None:
    async def scenario() -> None:
        async with client_of(source_kafka) as client:
            with pytest.raises(UnsupportedError, match=f"CreateTopics of {topic_name}.*{said}"):
                await client.topics.create(
                    topic_name, partitions=1, replication_factor=replication_factor, configs=configs
                )
            assert (await client.metadata((topic_name,))).topics == {}

    run_async(scenario())


def test_deleting_a_topic_that_is_not_there_says_so(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    async def scenario() -> None:
        async with client_of(source_kafka) as client:
            assert await client.topics.delete(topic_name) is False

    run_async(scenario())


def test_partitions_can_be_added_but_not_taken(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    async def scenario() -> None:
        async with client_of(source_kafka) as client:
            await client.topics.create(topic_name, partitions=2, replication_factor=1)
            added = TopicPartition(topic_name, 3)
            assert isinstance((await client.log_ends((added,)))[added], TopicMissingError)
            await client.topics.grow(topic_name, partitions=4)
            assert (await client.log_ends((added,)))[added] == LogEnd(leader_epoch=0, end_offset=0)
            with pytest.raises(UnsupportedError, match=r"INVALID_PARTITIONS \(37\)"):
                await client.topics.grow(topic_name, partitions=3)
            with pytest.raises(TopicMissingError):
                await client.topics.grow(topic_name + "-not", partitions=3)

    run_async(scenario())


def test_configurations_come_with_where_they_are_set(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    async def scenario() -> None:
        async with client_of(source_kafka) as client:
            configs = {"retention.ms": "123456", "cleanup.policy": "compact"}
            await client.topics.create(topic_name, partitions=1, replication_factor=1, configs=configs)
            described = await client.topics.configs((topic_name, "no-such-topic"))
            assert isinstance(described["no-such-topic"], TopicMissingError)
            values = described[topic_name]
            assert isinstance(values, dict)
            assert {name: value.value for name, value in values.items() if not value.is_default} == configs
            assert values["retention.ms"].source == "DYNAMIC_TOPIC_CONFIG"
            assert values["max.message.bytes"].value == "1048588"
            assert values["max.message.bytes"].source == "DEFAULT_CONFIG"

    run_async(scenario())


# -- partitions --------------------------------------------------------------------------------------------------


def test_one_missing_partition_does_not_hide_the_others(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    async def scenario() -> None:
        there = [TopicPartition(topic_name, n) for n in (1, 0)]
        missing = [TopicPartition(topic_name, 9), TopicPartition("no-such-topic", 0)]
        async with client_of(source_kafka) as client:
            await client.topics.create(topic_name, partitions=2, replication_factor=1)
            await produce(source_kafka.bootstrap_servers, topic_name, 1, [build_batch(simple_records(7))])
            for results in (
                await client.log_ends([*missing, *there]),
                await client.list_offsets([*missing, *there], timestamp=LATEST),
                await client.describe_producers([*missing, *there]),
            ):
                assert list(results) == [*missing, *there]
                assert all(isinstance(results[partition], TopicMissingError) for partition in missing)
            ends = await client.log_ends([*missing, *there])
            assert [ends[partition] for partition in there] == [
                LogEnd(leader_epoch=0, end_offset=7),
                LogEnd(leader_epoch=0, end_offset=0),
            ]

    run_async(scenario())


def test_offsets_are_found_by_time(source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync) -> None:
    async def scenario() -> None:
        partition = TopicPartition(topic_name, 0)
        batches = [build_batch(simple_records(2, timestamp=timestamp)) for timestamp in (1000, 2000, 3000)]
        async with client_of(source_kafka) as client:
            await client.topics.create(topic_name, partitions=1, replication_factor=1, configs={"retention.ms": "-1"})
            await produce(source_kafka.bootstrap_servers, topic_name, 0, batches)
            for timestamp, offset in ((EARLIEST, 0), (LATEST, 6), (0, 0), (1001, 1), (1500, 2), (3001, 5), (3002, -1)):
                assert await client.list_offsets((partition,), timestamp=timestamp) == {partition: offset}

    run_async(scenario())


def test_the_log_end_is_past_an_open_transaction_and_the_last_stable_offset_is_not(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    async def scenario() -> None:
        partition = TopicPartition(topic_name, 0)
        async with client_of(source_kafka) as client:
            await client.topics.create(topic_name, partitions=1, replication_factor=1)
            identity = await client.init_producer_id(topic_name, transaction_timeout_ms=60_000)
            assert await client.add_partitions_to_transaction(topic_name, identity, (partition,)) == {partition: None}
            batch = batch_of(identity, sequence=0, count=3, is_transactional=True)
            assert (await append(client, partition, batch, transactional_id=topic_name)).error_code == 0

            assert (await client.log_ends((partition,)))[partition] == LogEnd(leader_epoch=0, end_offset=3)
            committed = await client.list_offsets((partition,), timestamp=LATEST, isolation_level=READ_COMMITTED)
            uncommitted = await client.list_offsets((partition,), timestamp=LATEST, isolation_level=READ_UNCOMMITTED)
            assert (committed[partition], uncommitted[partition]) == (0, 3)

            await client.end_transaction(topic_name, identity, committed=False)
            while (await client.log_ends((partition,)))[partition] != LogEnd(leader_epoch=0, end_offset=4):
                await asyncio.sleep(0.01)
            frame, fetched = await client.fetch_once(partition, 0, max_bytes=1000)
            assert [(gone.producer_id, gone.first_offset) for gone in fetched.aborted] == [(identity.producer_id, 0)]
            assert fetched.last_stable_offset == 4
            del fetched
            frame.release()

    run_async(scenario())


def test_a_leader_remembers_the_last_sequence_of_an_idempotent_producer(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    async def scenario() -> None:
        written, untouched = TopicPartition(topic_name, 0), TopicPartition(topic_name, 1)
        async with client_of(source_kafka) as client:
            await client.topics.create(topic_name, partitions=2, replication_factor=1)
            identity = await client.init_producer_id(None, transaction_timeout_ms=1000)
            assert (await append(client, written, batch_of(identity, sequence=0, count=5))).base_offset == 0
            assert (
                await append(client, written, batch_of(identity, sequence=5, count=2, timestamp=2000))
            ).base_offset == 5

            expected = ProducerState(
                producer_id=identity.producer_id,
                producer_epoch=0,
                last_sequence=6,
                last_timestamp_ms=2001,
                coordinator_epoch=-1,
                transaction_start_offset=None,
            )
            assert await client.describe_producers((written, untouched)) == {written: (expected,), untouched: ()}
            assert await client.append_states((written, untouched)) == {
                written: AppendState(producers=(expected,), log_end=LogEnd(leader_epoch=0, end_offset=7)),
                untouched: AppendState(producers=(), log_end=LogEnd(leader_epoch=0, end_offset=0)),
            }

            # The batch before is known, so its answer names its place; one that leaves a sequence out is refused.
            assert (
                await append(client, written, batch_of(identity, sequence=5, count=2, timestamp=2000))
            ).base_offset == 5
            assert (await append(client, written, batch_of(identity, sequence=8, count=1))).error_code == 45

    run_async(scenario())


def test_records_are_deleted_up_to_an_offset(source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync) -> None:
    async def scenario() -> None:
        partition, empty = TopicPartition(topic_name, 0), TopicPartition(topic_name, 1)
        async with client_of(source_kafka) as client:
            await client.topics.create(topic_name, partitions=2, replication_factor=1)
            await produce(source_kafka.bootstrap_servers, topic_name, 0, [build_batch(simple_records(10))])
            deleted = await client.delete_records({partition: 4, empty: 1})
            assert deleted[partition] == 4
            assert isinstance(deleted[empty], SourceTruncatedError)  # nothing there to delete up to
            assert await client.list_offsets((partition,), timestamp=EARLIEST) == {partition: 4}
            assert (await client.delete_records({partition: 4}))[partition] == 4

    run_async(scenario())


def test_one_fetch_reads_what_is_there(source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync) -> None:
    async def scenario() -> None:
        partition = TopicPartition(topic_name, 0)
        batches = [build_batch(simple_records(3, start=3 * n)) for n in range(3)]
        async with client_of(source_kafka) as client:
            await client.topics.create(topic_name, partitions=1, replication_factor=1)
            await produce(source_kafka.bootstrap_servers, topic_name, 0, batches)
            frame, fetched = await client.fetch_once(partition, 4, max_bytes=1)
            with frame:
                assert bytes(fetched.records)[16:] == batches[1][16:]  # the whole batch that holds offset 4
                assert struct.unpack_from(">q", fetched.records) == (3,)
                del fetched
            frame, fetched = await client.fetch_once(partition, 9, max_bytes=1000)
            assert (len(fetched.records), fetched.high_watermark) == (0, 9)
            frame.release()
            with pytest.raises(SourceTruncatedError, match=rf"offset 10 of {topic_name}-0 .* its log holds 0 up to 9"):
                await client.fetch_once(partition, 10, max_bytes=1000)
            with pytest.raises(TopicMissingError):
                await client.fetch_once(TopicPartition("no-such-topic", 0), 0, max_bytes=1000)

    run_async(scenario())


# -- transactions ------------------------------------------------------------------------------------------------


def test_a_transactional_id_is_described_without_changing_it(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    async def scenario() -> None:
        partitions = [TopicPartition(topic_name, n) for n in (0, 1)]
        async with client_of(source_kafka) as client:
            await client.topics.create(topic_name, partitions=2, replication_factor=1)
            first = await client.init_producer_id(topic_name, transaction_timeout_ms=7000)
            second = await client.init_producer_id(topic_name, transaction_timeout_ms=7000)
            assert (second.producer_id, second.producer_epoch) == (first.producer_id, first.producer_epoch + 1)

            described = await client.describe_transactions((topic_name, "never-used-" + topic_name))
            assert described["never-used-" + topic_name] is None
            idle = described[topic_name]
            assert idle is not None
            assert not isinstance(idle, Exception)
            assert (idle.producer_id, idle.producer_epoch) == (second.producer_id, second.producer_epoch)
            assert (idle.state, idle.timeout_ms, idle.partitions) == ("Empty", 7000, frozenset())

            await client.add_partitions_to_transaction(topic_name, second, partitions)
            ongoing = (await client.describe_transactions((topic_name,)))[topic_name]
            assert ongoing is not None
            assert not isinstance(ongoing, Exception)
            assert (ongoing.state, ongoing.partitions) == ("Ongoing", frozenset(partitions))

            await client.end_transaction(topic_name, second, committed=True)
            # At once again: the coordinator answers CONCURRENT_TRANSACTIONS until the markers are written.
            added = await client.add_partitions_to_transaction(topic_name, second, partitions)
            assert added == dict.fromkeys(partitions)
            await client.end_transaction(topic_name, second, committed=False)

    run_async(scenario())


def test_who_was_fenced_is_told_that_the_position_moved(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    async def scenario() -> None:
        partition = TopicPartition(topic_name, 0)
        async with client_of(source_kafka) as client:
            await client.topics.create(topic_name, partitions=1, replication_factor=1)
            fenced = await client.init_producer_id(topic_name, transaction_timeout_ms=7000)
            await client.init_producer_id(topic_name, transaction_timeout_ms=7000)
            added = await client.add_partitions_to_transaction(topic_name, fenced, (partition,))
            assert isinstance(added[partition], PositionMovedError)
            with pytest.raises(PositionMovedError, match=r"PRODUCER_FENCED \(90\)"):
                await client.end_transaction(topic_name, fenced, committed=True)

    run_async(scenario())


def test_a_transaction_timeout_above_the_brokers_limit_is_refused(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    async def scenario() -> None:
        async with client_of(source_kafka) as client:
            with pytest.raises(
                UnsupportedError, match=r"INVALID_TRANSACTION_TIMEOUT \(50\).*transaction.max.timeout.ms"
            ):
                await client.init_producer_id(topic_name, transaction_timeout_ms=2_000_000_000)

    run_async(scenario())


@pytest.mark.slow
def test_a_lost_answer_to_the_end_of_a_transaction_is_unknown(
    new_kafka: NewKafka, topic_name: str, run_async: RunAsync
) -> None:
    server = new_kafka()

    async def scenario() -> None:
        partition = TopicPartition(topic_name, 0)
        async with client_of(server, request_timeout_seconds=6.0) as client:
            await client.topics.create(topic_name, partitions=1, replication_factor=1)
            identity = await client.init_producer_id(topic_name, transaction_timeout_ms=60_000)
            await client.add_partitions_to_transaction(topic_name, identity, (partition,))
            with frozen(server), pytest.raises(OutcomeUnknownError, match=r"the answer to EndTxn.*was lost"):
                await client.end_transaction(topic_name, identity, committed=True)

    run_async(scenario())
