"""Preserve mode from sources with gaps: equal offsets, nothing to be seen in the gaps, nothing left open."""

import asyncio
import re
from dataclasses import replace
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from mirrorlake.destinations.interface import ProducerHandOff
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import DestinationForeignError, NotOwnerError, SourceGapError, SourceTruncatedError
from mirrorlake.kafka.control.cluster import EARLIEST, ClusterClient
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import GapFill, TopicPartition
from support.copies import assert_equal_in_kafka, create_topic, log_end, source_end
from support.gaps import open_transactions, unseen_offsets
from support.leases import kafka_work, lease_plan, run_lease
from support.records import consume, settings_of, simple_records
from support.topics import append
from support.transactions import append_in_transaction

pytestmark = pytest.mark.kafka

BOTH = pytest.mark.parametrize("gap_fill", [GapFill.MARKERS, GapFill.FILLER])


class Copy:
    """A topic on two clusters, and leases from one to the other."""

    def __init__(self, source: str, destination: str, topic: str) -> None:
        self.source, self.destination, self.topic = source, destination, topic

    def create(self, partitions: int = 1, **configs: str) -> None:
        for servers in (self.source, self.destination):
            create_topic(servers, self.topic, partitions, **configs)

    def write(self, first: int, count: int, *, partition: int = 0) -> None:
        append(self.source, self.topic, partition, simple_records(count, start=first), batch_records=5)

    def write_transaction(self, first: int, count: int, *, committed: bool, partition: int = 0) -> None:
        records = simple_records(count, start=first)
        append_in_transaction(self.source, self.topic, records, partition=partition, committed=committed)

    def delete_records(self, before: int) -> None:
        async def delete() -> None:
            async with ClusterClient(settings_of(self.source)) as client:
                await client.delete_records({TopicPartition(self.topic, 0): before})

        asyncio.run(delete())

    def log_start(self, servers: str) -> int:
        async def ask() -> int:
            where = TopicPartition(self.topic, 0)
            async with ClusterClient(settings_of(servers)) as client:
                found = (await client.list_offsets([where], timestamp=EARLIEST))[where]
                assert isinstance(found, int), found
                return found

        return asyncio.run(ask())

    def lease(
        self, gap_fill: GapFill, *, partitions: int = 1, end: int | None = None, seconds: float = 30.0, **settings: Any
    ) -> list[LeaseRow]:
        """Copies to the source's ends, or to ``end``; one identity for all partitions, as a shard has it."""
        works = []
        for partition in range(partitions):
            where = TopicPartition(self.topic, partition)
            work = kafka_work(self.destination, where, gap_fill=gap_fill, **settings)
            shard = replace(work.settings, transactional_id=f"mirrorlake.{self.topic}.0")
            works.append((where, [replace(work, settings=shard)]))
        stop = max(source_end(self.source, self.topic, p) for p in range(partitions)) if end is None else end
        rows = run_lease(lease_plan(self.source, works, end=stop, seconds=seconds))
        return [rows[partition, "west"] for partition in range(partitions)]

    def assert_equal(self, partitions: int = 1) -> None:
        assert_equal_in_kafka(self.source, self.destination, self.topic, partitions)
        assert open_transactions(self.destination, [self.topic]) == []


@pytest.fixture
def copy(source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str) -> Copy:
    return Copy(source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, topic_name)


@BOTH
def test_committed_and_aborted_transactions_keep_their_offsets_and_leave_nothing_to_be_seen(
    copy: Copy, gap_fill: GapFill
) -> None:
    copy.create()
    copy.write(0, 7)
    copy.write_transaction(7, 5, committed=True)  # 7…11, marker 12
    copy.write_transaction(100, 6, committed=False)  # 13…18, marker 19
    copy.write(20, 5)
    copy.write_transaction(200, 3, committed=False)  # 25…27, marker 28: the source ends in a gap
    (row,) = copy.lease(gap_fill)
    assert (row.error, row.position, row.records) == (None, 29, 7 + 5 + 5)
    assert row.gap_offsets == {"absent": 1 + 7 + 4}
    copy.assert_equal()
    unseen = unseen_offsets(copy.destination, copy.topic)
    assert sorted(unseen) == [12, *range(13, 20), *range(25, 29)]
    # The committed transaction's marker and the aborted data behind it are one gap.
    marked = {12, *range(13, 20), *range(25, 29)} if gap_fill is GapFill.MARKERS else {19, 28}
    assert {offset for offset, kind in unseen.items() if kind == "marker"} == marked


@pytest.mark.slow
@BOTH
def test_a_lease_goes_on_inside_a_gap_and_takes_the_identity_it_is_handed(copy: Copy, gap_fill: GapFill) -> None:
    copy.create()
    hand_off: ProducerHandOff | None = None
    epochs = set()
    for start in range(0, 60, 20):
        copy.write(start, 10)
        copy.write_transaction(start + 10, 9, committed=start == 20)
        (row,) = copy.lease(gap_fill, needs_tail_check=hand_off is None, hand_off=hand_off)
        assert row.error is None
        hand_off = row.hand_off
        assert hand_off is not None
        epochs.add(hand_off.identity.producer_epoch)
    assert len(epochs) == 1, "an identity that still holds is not fenced by its own next lease"
    copy.assert_equal()


@pytest.mark.slow
def test_partitions_of_a_shard_are_filled_together(copy: Copy) -> None:
    copy.create(5)
    for partition in range(5):
        copy.write(0, 5, partition=partition)
        copy.write_transaction(50, 20, committed=False, partition=partition)
        copy.write(26, 5, partition=partition)
    rows = copy.lease(GapFill.MARKERS, partitions=5)
    assert [(row.error, row.position, row.gap_offsets) for row in rows] == [(None, 31, {"absent": 21})] * 5
    copy.assert_equal(5)


def test_a_long_gap_takes_several_fillers(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirrorlake.destinations.transactions.gap_cost.FILLER_OFFSETS_MAX", 40)
    copy.create()
    copy.write_transaction(0, 99, committed=False)
    copy.write(100, 3)
    (row,) = copy.lease(GapFill.FILLER)
    assert (row.error, row.position) == (None, 103)
    copy.assert_equal()
    unseen = unseen_offsets(copy.destination, copy.topic)
    assert sorted(unseen) == list(range(100))
    assert [unseen[offset] for offset in (39, 79, 99)] == ["marker"] * 3


def test_an_open_transaction_at_the_source_holds_the_copy_where_a_consumer_would_stop(copy: Copy) -> None:
    copy.create()
    copy.write(0, 5)

    async def left_open() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=copy.source, transactional_id=f"open-{copy.topic}")
        await producer.start()
        try:
            await producer.begin_transaction()
            await producer.send_and_wait(copy.topic, b"pending", b"key", 0)
            copied = await asyncio.to_thread(copy.lease, GapFill.MARKERS, end=None, seconds=2.0)
            assert (copied[0].error, copied[0].position, copied[0].source_end) == (None, 5, 5)
            await producer.commit_transaction()
        finally:
            await producer.stop()

    asyncio.run(left_open())
    copy.write(7, 3)
    (row,) = copy.lease(GapFill.MARKERS)
    assert (row.error, row.position) == (None, 10)
    copy.assert_equal()


def test_a_source_whose_log_start_is_above_zero_gets_the_same_log_start_at_the_destination(copy: Copy) -> None:
    copy.create()
    copy.write(0, 50)
    copy.delete_records(32)
    (row,) = copy.lease(GapFill.MARKERS)
    assert (row.error, row.position, row.records) == (None, 50, 18)
    assert row.gap_offsets == {"truncated": 32}
    assert copy.log_start(copy.destination) == 32
    copy.assert_equal()


def test_a_source_that_lost_all_its_records_leaves_an_empty_destination_at_the_same_offset(copy: Copy) -> None:
    copy.create()
    copy.write(0, 20)
    copy.delete_records(20)
    (row,) = copy.lease(GapFill.FILLER, end=20)
    assert (row.error, row.position) == (None, 20)
    assert (copy.log_start(copy.destination), log_end(copy.destination, copy.topic)) == (20, 20)
    copy.write(20, 5)
    assert copy.lease(GapFill.FILLER)[0].position == 25
    copy.assert_equal()


@pytest.mark.slow
@BOTH
def test_a_source_that_begins_with_a_gap_keeps_its_log_start_at_the_destination(copy: Copy, gap_fill: GapFill) -> None:
    # Whoever committed offset 0 there would find it out of range, and be sent to where its client's reset says.
    copy.create()
    copy.write_transaction(0, 3, committed=False)
    copy.write(4, 6)
    (row,) = copy.lease(gap_fill)
    assert (row.error, row.position) == (None, 10)
    copy.write(10, 2)
    (row,) = copy.lease(gap_fill)  # another owner, who looks at how the log begins
    assert (row.error, row.position) == (None, 12)
    assert (copy.log_start(copy.source), copy.log_start(copy.destination)) == (0, 0)
    copy.assert_equal()
    copy.delete_records(2)
    copy.write(12, 1)
    assert copy.lease(gap_fill)[0].position == 13
    assert copy.log_start(copy.destination) == (2 if gap_fill is GapFill.FILLER else 0), "no filler below the source's"
    copy.assert_equal()


@BOTH
def test_the_next_owner_of_a_copy_that_holds_only_its_sources_first_gap_keeps_its_log_start(
    copy: Copy, gap_fill: GapFill
) -> None:
    copy.create()
    copy.write_transaction(0, 3, committed=False)
    (row,) = copy.lease(gap_fill, end=4)
    assert (row.error, row.position) == (None, 4)
    copy.write(4, 6)
    (row,) = copy.lease(gap_fill)
    assert (row.error, row.position) == (None, 10)
    assert copy.log_start(copy.destination) == 0
    copy.assert_equal()


def test_a_log_start_too_far_up_is_refused_before_anything_is_written(copy: Copy) -> None:
    copy.create()
    copy.write(0, 50)
    copy.delete_records(32)
    (row,) = copy.lease(GapFill.MARKERS, gap_fill_offsets_max=31)
    assert isinstance(row.error, SourceGapError)
    assert (row.error.facts["position"], row.error.facts["log_start"]) == (0, 32)
    assert log_end(copy.destination, copy.topic) == 0


@pytest.mark.slow
@BOTH
def test_a_source_truncated_past_the_position_stops_the_copy_unless_it_may_skip(copy: Copy, gap_fill: GapFill) -> None:
    copy.create()
    copy.write(0, 10)
    copy.lease(gap_fill)
    copy.write(10, 40)
    copy.delete_records(30)
    (row,) = copy.lease(gap_fill)
    assert isinstance(row.error, SourceTruncatedError)
    assert (row.error.facts["position"], row.error.facts["log_start"]) == (10, 30)
    (row,) = copy.lease(gap_fill, skips_truncated=True)
    assert (row.error, row.position, row.records) == (None, 50, 20)
    assert row.gap_offsets == {"truncated": 20}
    held = consume(copy.destination, copy.topic, 0)
    assert sorted(held) == [*range(10), *range(30, 50)], "what was copied before stays readable"
    assert open_transactions(copy.destination, [copy.topic]) == []


def test_gaps_are_refused_where_the_user_says_so(copy: Copy) -> None:
    copy.create()
    copy.write(0, 5)
    copy.write_transaction(5, 3, committed=False)
    copy.write(9, 2)
    (row,) = copy.lease(GapFill.REFUSE)
    assert isinstance(row.error, SourceGapError)
    assert (row.position, log_end(copy.destination, copy.topic)) == (5, 5)


def test_a_gap_waits_with_its_reason_where_the_mirror_could_not_be_taken_over(copy: Copy) -> None:
    copy.create()
    copy.write(0, 10)
    copy.write_transaction(10, 5, committed=False)
    copy.write(15, 10)

    (row,) = copy.lease(GapFill.MARKERS, not_owner_because="no right to write mirrorlake.state")
    assert isinstance(row.error, NotOwnerError)
    # The marker's time is years after the records', so it begins a segment, and a fetch ends with one: the gap is known
    # up to there, or as a whole where the next answer was faster.
    assert re.search(r"offsets \[10, 1[56]\)", row.error.message)
    assert "no right to write mirrorlake.state" in row.error.message
    assert (row.position, log_end(copy.destination, copy.topic)) == (10, 10)

    (row,) = copy.lease(GapFill.MARKERS)
    assert (row.error, row.position) == (None, 26)
    copy.assert_equal()


def test_a_marker_at_the_destination_where_the_source_has_a_record_is_misaligned(copy: Copy) -> None:
    copy.create()
    copy.write(0, 5)
    copy.write_transaction(5, 2, committed=True)  # marker at 7
    copy.write(8, 1)
    copy.lease(GapFill.MARKERS, end=8)
    # The marker is written a second time, as a coordinator may that fails over: offset 8 is taken now.
    asyncio.run(_one_more_marker(copy))
    (row,) = copy.lease(GapFill.MARKERS)
    assert isinstance(row.error, DestinationForeignError)
    assert row.error.facts["differing_offset"] == 8
    assert row.records == 0


def test_a_log_that_has_moved_between_two_leases_of_one_process_is_compared_all_the_same(copy: Copy) -> None:
    copy.create()
    copy.write(0, 10)
    (row,) = copy.lease(GapFill.MARKERS)
    assert row.position == 10
    append(copy.destination, copy.topic, 0, simple_records(1, start=9))  # the last one again: it came late
    copy.write(10, 5)
    (row,) = copy.lease(GapFill.MARKERS, needs_tail_check=False, last_position=10)
    assert isinstance(row.error, DestinationForeignError)
    assert (row.error.facts["differing_offset"], row.records) == (10, 0)


async def _one_more_marker(copy: Copy) -> None:
    """Ends one more transaction of the shard's own that writes nothing."""
    name, where = f"mirrorlake.{copy.topic}.0", TopicPartition(copy.topic, 0)
    async with ClusterClient(settings_of(copy.destination)) as client:
        identity = await client.init_producer_id(name, transaction_timeout_ms=10_000)
        assert (await client.add_partitions_to_transaction(name, identity, [where])) == {where: None}
        await client.end_transaction(name, identity, committed=False)
    end = 9
    while await asyncio.to_thread(log_end, copy.destination, copy.topic) < end:
        await asyncio.sleep(0.01)
