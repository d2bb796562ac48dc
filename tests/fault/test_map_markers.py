"""A marker that never comes: a partition of a transaction is open although its coordinator calls it complete.

A coordinator that finds a partition without a leader leaves it out, and an unclean election may lose a marker. The same
state is made here on one broker that does not verify transactions: the partition is written to, but never added.
"""

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from conftest import NewKafka
from mirrorlake.destinations.map.offset_map import FullPage, MappedRun, OpenPage, add_runs
from mirrorlake.destinations.map.progress import (
    MapPage,
    MapProgress,
    PageKey,
    ProgressKey,
    encode_page,
    encode_page_key,
    encode_progress,
    encode_progress_key,
)
from mirrorlake.destinations.map.progress_store import ProgressTopics
from mirrorlake.destinations.map.settings import map_transactional_id
from mirrorlake.destinations.transactions.own_records import columns_of
from mirrorlake.destinations.transactions.session import TransactionSession
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import LostProgressError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import ProducerIdentity, TransactionState
from mirrorlake.kafka.records.batches import Codec
from mirrorlake.kafka.records.codec import encode_batch
from mirrorlake.kafka.wire.apis import PRODUCE_VERSION, Api
from mirrorlake.kafka.wire.produce import decode_produce, encode_produce
from mirrorlake.offsets import OffsetRange, TopicPartition
from support.copies import create_topic, log_end
from support.leases import lease_plan, map_work, run_lease
from support.map_copies import assert_equal_through_map, assert_nothing_open, progress_of
from support.records import consume, settings_of, simple_records
from support.topics import append

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

COPIED, MORE = 30, 20


class Broken:
    """A mirror of one partition that has copied ``COPIED`` records, and its last transaction, made by hand."""

    def __init__(self, source: str, destination: str, topic: str) -> None:
        self.source, self.destination, self.topic = source, destination, topic
        self.where = TopicPartition(topic, 0)
        self.topics = ProgressTopics(mirror=topic, shards=1)
        self.progress_at, self.pages_at = self.topics.progress_of(0), self.topics.pages_of(0)
        for servers in (source, destination):
            create_topic(servers, topic)
        # Of today, so that no broker forgets whose they are.
        self.records = simple_records(COPIED + MORE, timestamp=int(time.time() * 1000))
        append(source, topic, 0, self.records[:COPIED])
        assert self.lease().error is None
        append(source, topic, 0, self.records[COPIED:])

    def lease(self) -> Any:
        end = COPIED + MORE
        plan = lease_plan(self.source, [(self.where, [map_work(self.destination, self.where)])], end=end, seconds=4.0)
        return run_lease(plan)[0, "west"]

    def transaction(self, *, added: list[str], left_open: list[str], committed: bool, full_page: bool = False) -> None:
        """Runs the transaction that copies the rest; what is left open is written without being added."""
        asyncio.run(self._transaction(added, left_open, committed, full_page))

    async def _transaction(self, added: list[str], left_open: list[str], committed: bool, full_page: bool) -> None:
        name = map_transactional_id(self.topic, 0)
        at = {"data": self.where, "progress": self.progress_at, "pages": self.pages_at}
        async with ClusterClient(settings_of(self.destination)) as client:
            state = (await client.describe_transactions([name]))[name]
            assert isinstance(state, TransactionState)
            identity = ProducerIdentity(producer_id=state.producer_id, producer_epoch=state.producer_epoch)
            await client.add_partitions_to_transaction(name, identity, [at[each] for each in added])
            data = [(record.key or b"", record.value or b"") for record in self.records[COPIED:]]
            base = -1
            for part in ("data", "pages", "progress"):
                if part not in (*added, *left_open):
                    continue
                records = data if part == "data" else self._records_of(part, base, full_page=full_page)
                found = await self._append(client, name, identity, at[part], records)
                base = found if part == "data" else base
            await client.end_transaction(name, identity, committed=committed)
            session = session_of(client, name, identity)
            await session.until_closed([at[each] for each in added])
            standing = await session.look([at[each] for each in left_open])
            assert all(each.open_from is not None for each in standing.values()), "nothing is open"

    def _records_of(self, part: str, base: int, *, full_page: bool) -> list[tuple[bytes, bytes]]:
        before = progress_of_in_thread(self.destination, self.where)
        key = ProgressKey(destination_topic=self.topic, source=self.where)
        _, page = add_runs(before.page, [MappedRun(start_offset=COPIED, length=MORE, destination_offset=base)])
        end = COPIED + MORE
        if part == "pages":
            page_key = PageKey(progress=key, source_topic_id="", start_offset=page.start_offset)
            full = FullPage(offsets=OffsetRange(start_offset=page.start_offset, end_offset=end), encoded=page.encoded)
            return [(encode_page_key(page_key), encode_page(MapPage(page=full, destination_partition=0)))]
        progress = MapProgress(
            source_cluster_id="",
            source_topic_id="",
            destination_topic_id=before.destination_topic_id,
            leader_epoch=0,
            offsets=OffsetRange(start_offset=COPIED, end_offset=end),
            destination_partition=0,
            destination_offset=base,
            destination_end=base + MORE,
            page=OpenPage.at(end) if full_page else page,
            start_offset=0,
        )
        return [(encode_progress_key(key), encode_progress(progress))]

    async def _append(
        self,
        client: ClusterClient,
        name: str,
        identity: ProducerIdentity,
        where: TopicPartition,
        records: list[tuple[bytes, bytes]],
    ) -> int:
        standing = (await session_of(client, name, identity).look([where]))[where]
        columns = columns_of(records, self.records[0].timestamp)
        if where == self.where:
            columns.timestamps[:] = [record.timestamp for record in self.records[COPIED:]]
        batch = encode_batch(
            columns,
            codec=Codec.NONE,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=standing.sequence,
            is_transactional=True,
        )
        led = (await client.metadata([where.topic])).partition(where)
        assert led is not None
        connection = await client.connection(led.leader)
        body = encode_produce([(where.topic, 0, batch)], timeout_ms=5000, transactional_id=name)
        with await connection.request(Api.PRODUCE, PRODUCE_VERSION, body, timeout_seconds=10) as frame:
            (answer,) = decode_produce(frame.view)
        assert answer.error_code == 0, answer
        return answer.base_offset

    def assert_healed(self, *, copied_again: bool) -> None:
        """The next lease closes what is open as its transaction ended, and completes the copy."""
        row = self.lease()
        assert row.error is None, row.error
        assert (row.position, row.records) == (COPIED + MORE, MORE if copied_again else 0)
        assert assert_equal_through_map(self.source, self.destination, self.where) == COPIED + MORE
        assert_nothing_open(self.destination, self.topic, self.where)


def session_of(client: ClusterClient, name: str, identity: ProducerIdentity) -> TransactionSession:
    """A session under an identity that somebody else took."""
    session = TransactionSession(client, name, timeout_ms=30_000)
    session.adopt(identity)
    return session


def progress_of_in_thread(servers: str, where: TopicPartition) -> MapProgress:
    """As ``progress_of``, from inside a running loop."""
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(progress_of, servers, where).result()
    assert found is not None
    return found


def test_what_stands_open_after_its_transaction_is_closed_as_the_transaction_ended(
    new_kafka: NewKafka, source_kafka: EmbeddedKafka, topic_name: str
) -> None:
    server = new_kafka(transaction_partition_verification_enable="false")

    def broken(case: str) -> Broken:
        return Broken(source_kafka.bootstrap_servers, server.bootstrap_servers, f"{topic_name}-{case}")

    # Data left out of a committed transaction: the progress shows it, an abort would lose it.
    case = broken("data-committed")
    case.transaction(added=["progress"], left_open=["data"], committed=True)
    case.assert_healed(copied_again=False)
    # Data left out of an aborted one: no progress shows it, a commit would double it.
    case = broken("data-aborted")
    case.transaction(added=["progress"], left_open=["data"], committed=False)
    case.assert_healed(copied_again=True)
    # Progress left out: the data, where the marker came, tells how it ended.
    case = broken("progress-committed")
    case.transaction(added=["data"], left_open=["progress"], committed=True)
    case.assert_healed(copied_again=False)
    case = broken("progress-aborted")
    case.transaction(added=["data"], left_open=["progress"], committed=False)
    case.assert_healed(copied_again=True)
    # Everything left out: nobody has seen any of it committed.
    case = broken("all")
    case.transaction(added=["pages"], left_open=["data", "progress"], committed=True)
    case.assert_healed(copied_again=True)
    # A full page left out: it is committed exactly if the progress has left it behind.
    case = broken("page-committed")
    case.transaction(added=["data", "progress"], left_open=["pages"], committed=True, full_page=True)
    case.assert_healed(copied_again=False)
    case = broken("page-aborted")
    case.transaction(added=["data", "progress"], left_open=["pages"], committed=False, full_page=True)
    case.assert_healed(copied_again=True)


@contextmanager
def unknown_producers_open_transaction(servers: str, where: TopicPartition) -> Iterator[None]:
    """Somebody else writes to the partition, in a transaction that is open meanwhile: nobody reads behind it."""
    name = f"unknown-producer-{where.topic}"
    began = threading.Event()
    over = threading.Event()

    async def hold() -> None:
        async with ClusterClient(settings_of(servers)) as client:
            session = TransactionSession(client, name, timeout_ms=60_000)
            identity = await session.own()
            await session.add_all([where])
            batch = encode_batch(
                columns_of([(b"k", b"somebody else's")], int(time.time() * 1000)),
                codec=Codec.NONE,
                producer_id=identity.producer_id,
                producer_epoch=identity.producer_epoch,
                base_sequence=0,
                is_transactional=True,
            )
            await session.produce(where, batch, what="append of an unknown producer")
            began.set()
            await asyncio.to_thread(over.wait)
            await session.abort()

    with ThreadPoolExecutor(1) as aside:
        held = aside.submit(lambda: asyncio.run(hold()))
        try:
            while not began.wait(0.1):
                assert not held.done(), held.result()
            yield
        finally:
            over.set()
            held.result()


@pytest.mark.parametrize("committed", [True, False])
def test_progress_is_closed_as_its_data_ended_though_an_unknown_producers_open_transaction_hides_that(
    committed: bool, new_kafka: NewKafka, source_kafka: EmbeddedKafka, topic_name: str
) -> None:
    """The marker in the data is there to be read: not to see the data yet does not say that it was aborted."""
    server = new_kafka(transaction_partition_verification_enable="false")
    case = Broken(source_kafka.bootstrap_servers, server.bootstrap_servers, topic_name)
    with unknown_producers_open_transaction(case.destination, case.where):
        case.transaction(added=["data"], left_open=["progress"], committed=committed)
        # It may wait for that transaction, with an error; what it decides about the progress cannot be taken back.
        copied = case.lease().records
    row = case.lease()
    assert row.error is None, row.error
    assert (row.position, copied + row.records) == (COPIED + MORE, 0 if committed else MORE)
    assert assert_equal_through_map(case.source, case.destination, case.where) == COPIED + MORE
    assert_nothing_open(case.destination, case.topic, case.where)


def test_records_of_ours_that_the_progress_lost_are_found_behind_an_unknown_producers_open_transaction(
    new_kafka: NewKafka, source_kafka: EmbeddedKafka, topic_name: str
) -> None:
    """Data without its progress says that the progress was lost; who cannot see it yet would copy it once more."""
    server = new_kafka(transaction_partition_verification_enable="false")
    case = Broken(source_kafka.bootstrap_servers, server.bootstrap_servers, topic_name)
    with unknown_producers_open_transaction(case.destination, case.where):
        case.transaction(added=["data"], left_open=[], committed=True)
        rows = [case.lease()]
    rows.append(case.lease())
    assert [(type(row.error), row.records) for row in rows] == [(LostProgressError, 0)] * 2
    assert len(consume(case.destination, case.topic, 0)) == COPIED + MORE


def test_records_of_ours_that_the_progress_lost_are_found_behind_deleted_ones(
    new_kafka: NewKafka, source_kafka: EmbeddedKafka, topic_name: str
) -> None:
    """The log begins behind what the progress knows of, as retention leaves it."""
    server = new_kafka(transaction_partition_verification_enable="false")
    case = Broken(source_kafka.bootstrap_servers, server.bootstrap_servers, topic_name)
    append(case.destination, case.topic, 0, simple_records(5, timestamp=int(time.time() * 1000)))
    log_start = log_end(case.destination, case.topic)
    case.transaction(added=["data"], left_open=[], committed=True)

    async def delete() -> None:
        async with ClusterClient(settings_of(case.destination)) as client:
            assert (await client.delete_records({case.where: log_start}))[case.where] == log_start

    asyncio.run(delete())
    row = case.lease()
    assert (type(row.error), row.records) == (LostProgressError, 0), row.error
