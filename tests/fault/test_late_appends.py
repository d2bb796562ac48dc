"""A4 inside one process: an append whose answer was lost arrives after a gap before it was filled.

The next filling must not go on under the identity the late batch was sent with: the broker would append the batch
behind the marker, and call the next one its duplicate.
"""

import asyncio
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from types import NoneType

import pytest

from mirrorlake.destinations import round_trips
from mirrorlake.destinations.interface import ProducerHandOff
from mirrorlake.destinations.preserve.work import PreserveWork
from mirrorlake.destinations.round_trips import REQUESTS_MAX
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import OutcomeUnknownError, PositionMovedError
from mirrorlake.mirror.lease_worker import Worker
from mirrorlake.mirror.work import LeasePlan, LeaseRow
from mirrorlake.offsets import GapFill, TopicPartition
from support.cleanliness import assert_clean
from support.compaction import create_compacted
from support.copies import assert_equal_in_kafka, assert_same_records, create_topic, log_end, wait_until
from support.leases import kafka_work, lease_plan, run_lease
from support.lossy import Lossy
from support.proxy import INIT_PRODUCER_ID, PRODUCE, Proxy
from support.records import Record, build_batch, consume, produce, simple_records
from support.topics import append
from support.transactions import append_in_transaction

pytestmark = pytest.mark.kafka

FILLED = 7
"""Where the records are that come after five plain ones, one in a transaction, and its marker."""


class Shard:
    """A compacted source of two partitions and its copy behind a proxy; both partitions write as one identity."""

    def __init__(self, source: str, proxy: Proxy, topic: str) -> None:
        self.source, self.proxy, self.topic = source, proxy, topic
        self.worker = Worker()
        self._aside: list[threading.Thread] = []
        create_compacted(source, topic, 2)
        create_topic(proxy.address, topic, 2)

    def append(self, partition: int, *keys: str) -> None:
        """Batches of one record, as a thin stream has them; no value comes twice."""
        for key in keys:
            record = Record(int(time.time() * 1000), key.encode(), b"%s %d" % (key.encode(), time.monotonic_ns()))
            asyncio.run(produce(self.source, self.topic, partition, [build_batch([record])]))

    def begin(self, *partitions: int) -> ProducerHandOff:
        """Copies up to `FILLED`, a filled gap among it; returns the producer hand-off of the lease."""
        for partition in partitions:
            self.append(partition, *(f"k{n}" for n in range(5)))
            record = Record(int(time.time() * 1000), b"t", b"t")
            append_in_transaction(self.source, self.topic, [record], partition=partition)
        rows = self.worker.run(self.plan(dict.fromkeys(partitions), end=FILLED, seconds=20.0))
        assert [(row.error, row.position) for row in rows] == [(None, FILLED)] * len(partitions)
        hand_off = rows[0].hand_off
        assert hand_off is not None, "a clean lease leaves a hand-off"
        assert [row.hand_off for row in rows] == [hand_off] * len(partitions)
        return hand_off

    def plan(
        self, hand_offs: dict[int, ProducerHandOff | None], *, end: int | None = None, seconds: float
    ) -> LeasePlan:
        """A lease of some partitions, with the hand-off of each; one without it compares the tails."""
        return lease_plan(
            self.source,
            [(TopicPartition(self.topic, p), [self._work(p, hint)]) for p, hint in hand_offs.items()],
            end=end,
            seconds=seconds,
        )

    def _work(self, partition: int, hand_off: ProducerHandOff | None) -> PreserveWork:
        work = kafka_work(
            self.proxy.address,
            TopicPartition(self.topic, partition),
            gap_fill=GapFill.MARKERS,
            source_is_compacted=True,
            needs_tail_check=hand_off is None,
            hand_off=hand_off,
        )
        return replace(
            work,
            cluster=replace(work.cluster, request_timeout_seconds=6.0),
            settings=replace(work.settings, transactional_id=f"mirrorlake.test.{self.topic}.3"),
        )

    def lease_aside(self, plan: LeasePlan) -> tuple[threading.Thread, list[LeaseRow]]:
        rows: list[LeaseRow] = []
        thread = threading.Thread(target=lambda: rows.extend(self.worker.run(plan)))
        self._aside.append(thread)
        thread.start()
        return thread, rows

    def close(self) -> None:
        """Waits for what goes on aside."""
        self.proxy.forgive()
        for thread in self._aside:
            thread.join(60)
        self.worker.close()

    def clean_away(self, partition: int, key: str, offset: int) -> None:
        """The record of ``key`` at ``offset`` goes, because another one comes."""
        time.sleep(0.3)
        self.append(partition, key)
        time.sleep(0.3)
        self.append(partition, "z")  # begins a new segment, so the one before may be cleaned
        wait_until(lambda: offset not in consume(self.source, self.topic, partition), "the cleaner")

    def assert_equal(self, partition: int) -> None:
        assert_clean(self.proxy.address, [self.topic])
        expected = consume(self.source, self.topic, partition)
        assert_same_records(expected, consume(self.proxy.address, self.topic, partition))
        assert sorted(expected) == [0, 1, 2, 3, 4, 5, 8, 9, 10, 11]


@pytest.fixture
def shard(proxy: Proxy, source_kafka: EmbeddedKafka, topic_name: str) -> Iterator[Shard]:
    made = Shard(source_kafka.bootstrap_servers, proxy, topic_name)
    yield made
    made.close()


@pytest.mark.slow
def test_a_batch_that_arrives_after_its_own_lease_has_filled_the_gap_before_it_is_refused(shard: Shard) -> None:
    hand_off = shard.begin(0)
    shard.append(0, "x", "a", "b")  # 7, 8, 9
    late = shard.proxy.hold(PRODUCE)
    following = shard.proxy.hold(PRODUCE, after_requests=2)
    thread, rows = shard.lease_aside(shard.plan({0: hand_off}, seconds=28.0))
    late.await_arrival()
    shard.clean_away(0, "x", FILLED)
    following.await_arrival(25.0)  # the first one was given up, the gap filled
    assert log_end(shard.proxy.address, shard.topic) == FILLED + 1
    late.release()
    time.sleep(1.0)
    assert log_end(shard.proxy.address, shard.topic) == FILLED + 1, "the late batch was appended behind the gap"
    following.release()
    thread.join(60)
    assert [row.error for row in rows] == [None]
    (row,) = shard.worker.run(shard.plan({0: None}, end=12, seconds=20.0))
    assert (row.error, row.position) == (None, 12)
    shard.assert_equal(0)


@pytest.mark.slow
def test_a_batch_that_arrives_after_a_gap_was_filled_by_another_partitions_identity_is_refused(
    shard: Shard,
) -> None:
    hand_off = shard.begin(0, 1)
    shard.append(1, "x", "a", "b")  # 7, 8, 9
    late = shard.proxy.hold(PRODUCE)
    thread, rows = shard.lease_aside(shard.plan({1: hand_off}, seconds=1.5))
    late.await_arrival()
    shard.clean_away(1, "x", FILLED)
    thread.join(60)
    (row,) = rows
    assert isinstance(row.error, OutcomeUnknownError)
    assert row.hand_off is None
    following = shard.proxy.hold(PRODUCE)
    # The other partition was in no lease meanwhile, and still has what the first one left.
    thread, rows = shard.lease_aside(shard.plan({0: hand_off, 1: row.hand_off}, seconds=15.0))
    following.await_arrival(20.0)
    assert log_end(shard.proxy.address, shard.topic, 1) == FILLED + 1
    late.release()
    time.sleep(1.0)
    assert log_end(shard.proxy.address, shard.topic, 1) == FILLED + 1, "the late batch was appended behind the gap"
    following.release()
    thread.join(60)
    assert [row.error for row in rows] == [None, None]
    assert rows[0].hand_off == rows[1].hand_off != hand_off
    shard.assert_equal(1)


def test_a_lease_with_one_unanswered_append_leaves_no_hand_off_to_any_partition_of_its_shard(shard: Shard) -> None:
    hand_off = shard.begin(0, 1)
    shard.append(1, "a")
    late = shard.proxy.hold(PRODUCE)
    rows = shard.worker.run(shard.plan({0: hand_off, 1: hand_off}, seconds=1.5))
    late.await_arrival(1.0)
    assert rows[0].error is None
    assert isinstance(rows[1].error, OutcomeUnknownError)
    assert [row.hand_off for row in rows] == [None, None]
    late.release()


def test_a_lease_without_an_unanswered_append_leaves_a_hand_off_and_its_successor_asks_for_no_new_epoch(
    shard: Shard,
) -> None:
    hand_off = shard.begin(0, 1)
    asked = shard.proxy.requests.get(INIT_PRODUCER_ID, 0)
    for partition in (0, 1):
        append_in_transaction(
            shard.source, shard.topic, [Record(int(time.time() * 1000), b"u", b"u")], partition=partition
        )
    rows = shard.worker.run(shard.plan({0: hand_off, 1: hand_off}, end=9, seconds=20.0))
    assert [(row.error, row.position, row.hand_off) for row in rows] == [(None, 9, hand_off)] * 2
    assert shard.proxy.requests.get(INIT_PRODUCER_ID, 0) == asked


@pytest.mark.slow
def test_an_append_that_is_unanswered_at_the_end_of_a_lease_is_its_error_whatever_was_left_unsent(lossy: Lossy) -> None:
    lossy.write(20)
    lossy.copy()
    lossy.write(2000)
    # One batch is answered, the next ones are on their way; many more wait behind them to be sent.
    late = lossy.proxy.hold(PRODUCE, after_requests=2)
    (row,) = lossy.worker.run(lossy.plan(1.5, needs_tail_check=False))
    late.await_arrival(1.0)
    assert isinstance(row.error, OutcomeUnknownError), row
    assert row.hand_off is None
    late.release()
    lossy.copy()
    lossy.assert_equal()


def test_a_batch_that_arrives_behind_the_look_of_the_next_lease_is_known_to_the_broker_and_looked_at(
    proxy: Proxy, source_kafka: EmbeddedKafka, topic_name: str
) -> None:
    """Without gaps to fill the sequences are the offsets, whoever sends: the broker drops the second one.

    Its answer has the time of the first, as one has that a topic with `LogAppendTime` gives: only the log tells.
    """
    source, where = source_kafka.bootstrap_servers, TopicPartition(topic_name, 0)
    for servers in (source, proxy.address):
        create_topic(servers, topic_name)
    append(source, topic_name, 0, simple_records(10, timestamp=int(time.time() * 1000)))
    work = kafka_work(proxy.address, where)
    rows: list[LeaseRow] = []
    late = proxy.hold(PRODUCE)
    rows += run_lease(lease_plan(source, [(where, [work])], end=10, seconds=1.5)).values()
    late.await_arrival(1.0)
    following = proxy.hold(PRODUCE)
    plan = lease_plan(source, [(where, [work])], end=10)
    thread = threading.Thread(target=lambda: rows.extend(run_lease(plan).values()))
    thread.start()
    following.await_arrival(20.0)
    late.release()
    wait_until(lambda: log_end(proxy.address, topic_name) == 10, "the late batch")
    following.release()
    thread.join(60)
    rows += run_lease(plan).values()

    assert [type(row.error) for row in rows] == [OutcomeUnknownError, OutcomeUnknownError, NoneType]
    assert "may have given the record at offset 0 its own time; it is looked at" in str(rows[1].error)
    assert rows[2].position == 10
    assert assert_equal_in_kafka(source, proxy.address, topic_name) == 10


@pytest.mark.slow
def test_twenty_batches_that_arrive_behind_the_look_of_the_next_lease_are_taken_once(
    lossy: Lossy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker knows the last five batches again; the one of the next lease comes after twenty, and is out of order."""
    monkeypatch.setattr(round_trips, "SLOW_ANSWER_SECONDS", float("inf"))  # the machine may be busy
    answered = 24  # more than a window needs to grow
    lossy.write(20)
    lossy.copy()
    before = lossy.written
    lossy.write(600)
    rows: list[LeaseRow] = []
    late = lossy.proxy.hold(PRODUCE, after_requests=answered + 1)
    rows += lossy.worker.run(lossy.plan(3.0))
    late.await_arrival(1.0)
    following = lossy.proxy.hold(PRODUCE)
    plan = lossy.plan(20.0)
    thread = threading.Thread(target=lambda: rows.extend(lossy.worker.run(plan)))
    thread.start()
    following.await_arrival(20.0)
    late.release()
    sent_late_end = before + 10 * (answered + REQUESTS_MAX)
    wait_until(lambda: log_end(lossy.proxy.address, lossy.topic) >= sent_late_end, "the late batches")
    assert log_end(lossy.proxy.address, lossy.topic) == sent_late_end
    following.release()
    thread.join(60)
    rows += lossy.worker.run(plan)

    assert [type(row.error) for row in rows] == [OutcomeUnknownError, PositionMovedError, NoneType]
    assert "OUT_OF_ORDER_SEQUENCE_NUMBER" in str(rows[1].error)
    assert rows[2].position == lossy.written
    lossy.assert_equal()
