"""What every source owes its mirrors, question by question: one suite over all kinds of sources.

Every source holds the same: records at offsets 5 to 24 and 30 to 39 of partition 0, and nothing a consumer is shown
between; its log begins at 5 and ends at 40. At a real broker the hole is a marker and an aborted transaction.
"""

import asyncio
import pickle
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from conftest import RunAsync
from mirrorlake.clock import SystemClock
from mirrorlake.destinations.work import DestinationWork
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import (
    DestinationAheadError,
    MirrorlakeError,
    SourceTruncatedError,
    TopicMissingError,
    TopicRecreatedError,
)
from mirrorlake.foreign_layout import BeginsAt, KafkaReplicatorLayout
from mirrorlake.kafka.records.codec import RecordColumns
from mirrorlake.kafka.schema_ids.counting import joined_counts
from mirrorlake.kafka.schema_ids.counts import Seen, SideCounts
from mirrorlake.kafka.schema_ids.framing import Framing
from mirrorlake.offsets import GapFill, OffsetRange, TopicPartition
from mirrorlake.sources.archive.selection import ArchivedRange
from mirrorlake.sources.archive.work import ArchiveSourceWork
from mirrorlake.sources.client import Bounds
from mirrorlake.sources.kafka.work import KafkaSourceWork
from mirrorlake.sources.source import PartitionReader, SourceContext, SourceWork
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import StoreSettings
from support.archived_source import FORMS, archive, held_records, settings_at, source_at
from support.copies import archived_records, create_topic
from support.held_source import HeldSourceWork, held
from support.leases import archive_work, kafka_work, lease_plan, map_work, run_lease
from support.reading import Taking, source_context
from support.records import build_batch, consume, settings_of, simple_records
from support.replicator_archive import REGION, encode_file, key_of
from support.topics import append, delete_before, make_topic
from support.transactions import append_in_transaction

pytestmark = pytest.mark.kafka

START, HOLE, HOLE_END, END = 5, 25, 30, 40
RECORDS = simple_records(END)
SHOWN = [*range(START, HOLE), *range(HOLE_END, END)]


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A source that holds the records of this suite at ``where``."""

    work: SourceWork
    where: TopicPartition
    run_async: RunAsync
    is_one_batch: bool = False
    has_identity: bool = True

    def lease(self, body: Callable[[SourceContext], Awaitable[None]]) -> None:
        """Runs ``body`` with what a lease opens sources with."""

        async def run() -> None:
            async with source_context() as context:
                try:
                    await body(context)
                finally:
                    await context.stop()

        self.run_async(run())

    async def reader(self, context: SourceContext, *, is_live: bool = True) -> PartitionReader:
        return await self.work.open(self.where, "", context).reader(is_live=is_live)


def kafka_source(server: EmbeddedKafka, topic: str) -> KafkaSourceWork:
    servers = server.bootstrap_servers
    make_topic(servers, topic, RECORDS[:20])
    append_in_transaction(servers, topic, RECORDS[20:25])
    append_in_transaction(servers, topic, simple_records(3), committed=False)
    append(servers, topic, 0, RECORDS[30:40])
    delete_before(servers, topic, START)
    return KafkaSourceWork(cluster=settings_of(servers, "east"))


def held_source(topic: str) -> HeldSourceWork:
    content = held(topic, TopicPartition(topic, 0))
    for base, end in ((0, 10), (10, 20), (20, 25), (30, 40)):
        content.add(base, build_batch(RECORDS[base:end]))
    content.start = START
    return HeldSourceWork(key=topic)


def archive_source(place: StoreSettings, topic: str, form: str) -> ArchiveSourceWork:
    """An archive in segments, or a snapshot; what mirror-v3 writes, and a snapshot, do not say what was truncated."""
    content = held_records(
        [(base, build_batch(RECORDS[base:end])) for base, end in ((0, 10), (10, 20), (20, 25), (30, 40))], start=START
    )
    where, ends = TopicPartition(topic, 0), {"snapshot": [END], "mirror-v3": [10, 20, 25, END]}
    archive(place, where, content, ends.get(form, [10, 20, 30, END]), form=form)
    ranges = {where: ArchivedRange(start_offset=START)} if form in ends else {}
    return source_at(place, ranges=ranges)


def replicator_source(place: StoreSettings, topic: str) -> ArchiveSourceWork:
    """kafka-replicator's files: some overlap, one is covered by others, one holds no record of the hole."""
    records = {offset: RECORDS[offset] for offset in SHOWN}
    store = open_store(place)
    for level, first, last in ((0, 5, 9), (1, 5, 12), (0, 8, 19), (0, 20, 39)):
        held = {offset: record for offset, record in records.items() if first <= offset <= last}
        content = encode_file(held, level=level, topic=topic)
        store.create(key_of(first, last, level=level, topic=topic), content)
    return source_at(place, layout=KafkaReplicatorLayout(region=REGION, begins_at=BeginsAt.FIRST_SEGMENT))


KINDS = [
    *("kafka", "held", *(f"{form} in a folder" for form in FORMS), "log in a bucket", "parquet in a bucket"),
    *("kafka-replicator in a folder", "kafka-replicator in a bucket"),
]


@pytest.fixture(params=KINDS)
def bench(request: pytest.FixtureRequest, topic_name: str, tmp_path: Path, run_async: RunAsync) -> Bench:
    work: SourceWork
    if request.param == "kafka":
        work = kafka_source(request.getfixturevalue("source_kafka"), topic_name)
    elif request.param == "held":
        work = held_source(topic_name)
    else:
        form, _, store = request.param.partition(" in a ")
        place = settings_at(tmp_path / "lake") if store == "folder" else request.getfixturevalue("moto").settings()
        if store == "folder":
            (tmp_path / "lake").mkdir()
        made = replicator_source if form == "kafka-replicator" else partial(archive_source, form=form)
        work = made(place, topic_name)
    # All records of a snapshot that lie near to one another are one batch.
    is_whole = request.param.startswith("snapshot")
    return Bench(
        work=work,
        where=TopicPartition(topic_name, 0),
        run_async=run_async,
        is_one_batch=is_whole,
        has_identity="kafka-replicator" not in request.param,
    )


def tomorrow_ms() -> int:
    """Later than anything, markers of transactions too, whose time is that of their writing."""
    return int(SystemClock().now_seconds() * 1000) + 86_400_000


def values_at(offsets: list[int]) -> list[bytes | None]:
    return [RECORDS[offset].value for offset in offsets]


# --- reading --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [START, 13, 20, 27, 39], ids=lambda start: f"from {start}")
def test_all_records_from_a_position_on_are_delivered_in_order_and_every_offset_is_covered(
    bench: Bench, start: int
) -> None:
    async def body(context: SourceContext) -> None:
        taking = Taking(start, enough=END)
        await taking.until_over(await bench.reader(context))
        found, shown = taking.records(), [offset for offset in SHOWN if offset >= start]
        assert found.offsets.tolist() == shown
        assert found.values.to_pylist() == values_at(shown)
        assert taking.next_offset == END

    bench.lease(body)


@pytest.mark.parametrize(("end", "covered"), [(20, 20), (27, 27), (33, 40)])
def test_nothing_that_begins_past_the_end_is_delivered(bench: Bench, end: int, covered: int) -> None:
    async def body(context: SourceContext) -> None:
        taking = Taking(START, end=end, enough=END)
        await taking.until_over(await bench.reader(context))
        begin = [item.batch.header.base_offset for each in taking.taken for item in each.batches]
        assert max(begin) < end
        # The batch that holds the end comes whole.
        holds_hole = not bench.has_identity and end > HOLE  # one file, and so one batch, lies around the hole
        reached = END if bench.is_one_batch or holds_hole else covered
        assert taking.next_offset == reached
        assert taking.records().offsets.tolist() == [offset for offset in SHOWN if offset < reached]

    bench.lease(body)


def test_deliveries_and_the_reader_name_the_bounds(bench: Bench) -> None:
    async def body(context: SourceContext) -> None:
        taking, reader = Taking(START, enough=END), await bench.reader(context)
        assert (reader.source_start, reader.source_end) == (None, None)
        await taking.until_over(reader)
        assert {(each.log_start_offset, each.end_offset) for each in taking.taken} == {(START, END)}
        assert (reader.source_start, reader.source_end) == (START, END)

    bench.lease(body)


def test_who_wants_nothing_is_given_nothing_until_it_says_so(bench: Bench) -> None:
    async def body(context: SourceContext) -> None:
        taking, reader = Taking(START, wants_more=False, enough=END), await bench.reader(context)
        reader.begin(taking)
        await asyncio.sleep(0.3)
        assert taking.taken == []
        taking.is_willing = True
        reader.changed()
        await taking.something.wait()
        assert taking.taken[0].covered.start_offset == START

    bench.lease(body)


def test_delivered_bytes_stay_and_may_be_written_to(bench: Bench) -> None:
    async def body(context: SourceContext) -> None:
        taking = Taking(START, enough=END)
        await taking.until_over(await bench.reader(context))
        for delivery in taking.taken:
            for item in delivery.batches:
                item.batch.view[12:16] = b"\xff\xff\xff\xff"  # the leader epoch, as who appends it writes
        assert taking.records().values.to_pylist() == values_at(SHOWN)
        for delivery in taking.taken:
            delivery.frame.pin()
            delivery.frame.unpin()

    bench.lease(body)


def test_a_reader_whose_taker_is_over_ends(bench: Bench) -> None:
    async def body(context: SourceContext) -> None:
        taking, reader = Taking(START, enough=END), await bench.reader(context)
        await taking.until_over(reader)
        reader.changed()
        await asyncio.wait_for(reader.over.wait(), 10)

    bench.lease(body)


def test_the_end_of_live_reads_ends_no_other(bench: Bench) -> None:
    async def body(context: SourceContext) -> None:
        live, other = await bench.reader(context), await bench.reader(context, is_live=False)
        for reader in (live, other):
            reader.begin(Taking(START, wants_more=False, enough=END))
        context.end_live()
        await asyncio.wait_for(live.over.wait(), 10)
        assert not other.over.is_set()

    bench.lease(body)


def test_two_readers_of_one_partition_do_not_disturb_one_another(bench: Bench) -> None:
    async def body(context: SourceContext) -> None:
        first, second = Taking(START, enough=END), Taking(27, enough=END)
        readers = [await bench.reader(context), await bench.reader(context)]
        await asyncio.gather(first.until_over(readers[0]), second.until_over(readers[1]))
        assert first.records().offsets.tolist() == SHOWN
        assert second.records().offsets.tolist() == [offset for offset in SHOWN if offset >= 27]

    bench.lease(body)


# --- what is missing, and why ---------------------------------------------------------------------------------


def test_a_position_below_the_log_start_is_refused_and_explained(bench: Bench) -> None:
    async def body(context: SourceContext) -> None:
        taking, reader = Taking(2, enough=END), await bench.reader(context)
        await taking.until_over(reader)
        assert (taking.refused, taking.taken) == (True, [])
        error = await reader.explain_out_of_range(2)
        assert isinstance(error, SourceTruncatedError)
        assert error.facts["log_start"] == START

    bench.lease(body)


def test_a_position_past_the_end_is_refused_and_explained(bench: Bench) -> None:
    async def body(context: SourceContext) -> None:
        taking, reader = Taking(END + 3, end=END + 9, enough=END), await bench.reader(context)
        await taking.until_over(reader)
        assert (taking.refused, taking.taken) == (True, [])
        assert isinstance(await reader.explain_out_of_range(END + 3), DestinationAheadError)

    bench.lease(body)


def test_a_partition_that_is_not_there_is_missing(bench: Bench) -> None:
    async def body(context: SourceContext) -> None:
        opened = bench.work.open(TopicPartition(bench.where.topic, 7), "", context)
        for question in (opened.find(), opened.reader(is_live=True)):
            with pytest.raises(TopicMissingError):
                await question

    bench.lease(body)


def test_another_topic_of_the_same_name_is_a_recreated_one(bench: Bench) -> None:
    async def body(context: SourceContext) -> None:
        opened = bench.work.open(bench.where, "AAAAAAAAAAAAAAAAAAAAAA", context)
        if not bench.has_identity:  # its files do not say which topic of the name they are of
            await opened.find()
            return
        for question in (opened.find(), opened.reader(is_live=True)):
            with pytest.raises(TopicRecreatedError):
                await question

    bench.lease(body)


def test_what_a_lease_leaves_behind_tells_the_next_one_that_the_log_is_the_same(bench: Bench) -> None:
    async def body(context: SourceContext) -> None:
        taking, reader = Taking(START, enough=END), await bench.reader(context)
        await taking.until_over(reader)
        mark = reader.mark_after(None, next_offset=taking.next_offset)
        opened = bench.work.open(bench.where, "", context)
        # Of a source without epochs there is none, and nothing follows from that.
        marks = [] if mark is None else [mark, replace(mark, leader_epoch=-1)]
        await opened.look_at_marks(marks)
        assert [opened.divergence(each, END, destination="west") for each in marks] == [None] * len(marks)

    bench.lease(body)


# --- questions of destinations --------------------------------------------------------------------------------


def test_a_log_tells_its_bounds_and_times(bench: Bench) -> None:
    async def body(context: SourceContext) -> None:
        log = bench.work.log(bench.where, context.connections)
        assert log.partition == bench.where
        assert (await log.start(), await log.end(), await log.written_end()) == (START, END, END)
        assert await log.offset_at(RECORDS[17].timestamp) == 17
        assert await log.offset_at(tomorrow_ms()) is None

    bench.lease(body)


@pytest.mark.parametrize(("start", "end"), [(30, 40), (15, 30), (24, 31), (39, 40)])
def test_a_tail_is_what_a_consumer_is_shown_of_it(bench: Bench, start: int, end: int) -> None:
    async def body(context: SourceContext) -> None:
        log = bench.work.log(bench.where, context.connections)
        tail = await log.read_tail(OffsetRange(start_offset=start, end_offset=end))
        shown = [offset for offset in SHOWN if start <= offset < end]
        assert tail.records.offsets.tolist() == shown
        assert tail.records.values.to_pylist() == values_at(shown)
        assert not any(tail.is_unseen(offset) for offset in shown)

    bench.lease(body)


def test_a_range_is_read_whole_or_not_at_all(bench: Bench) -> None:
    async def body(context: SourceContext) -> None:
        log = bench.work.log(bench.where, context.connections)
        parts = [part async for part in log.read_range(OffsetRange(start_offset=START, end_offset=END))]
        assert RecordColumns.concat(parts).offsets.tolist() == SHOWN
        with pytest.raises(SourceTruncatedError):
            await anext(aiter(log.read_range(OffsetRange(start_offset=0, end_offset=END))))

    bench.lease(body)


def test_a_log_tells_which_schemas_the_records_of_a_range_name(bench: Bench) -> None:
    """These name none: the bytes of their values are no id's. The keys were not asked about."""

    async def body(context: SourceContext) -> None:
        log = bench.work.log(bench.where, context.connections)
        for start, end in ((START, END), (24, 31), (HOLE, HOLE_END)):
            parts = [part async for part in log.schema_ids(OffsetRange(start_offset=start, end_offset=end), 0b10)]
            shown = [offset for offset in SHOWN if start <= offset < end]
            seen = {Framing.NOT_FRAMED: Seen(len(shown), shown[0])} if shown else {}
            expected = {"value": SideCounts(nameless=seen, names={})}
            assert (joined_counts(parts) or {"value": SideCounts(nameless={}, names={})}) == expected
        with pytest.raises(SourceTruncatedError):
            await anext(aiter(log.schema_ids(OffsetRange(start_offset=0, end_offset=END), 0b10)))

    bench.lease(body)


# --- questions of the driver ----------------------------------------------------------------------------------


def test_a_source_has_an_identity_and_names_its_topics(bench: Bench) -> None:
    async def body(context: SourceContext) -> None:
        client, topic = bench.work.client(context.connections), bench.where.topic
        found, everything = await client.topics([topic, f"no-{topic}"]), await client.topics(None)
        assert found.source_id == everything.source_id
        assert bool(found.source_id) is bench.has_identity
        assert set(found.topics) == {topic} <= set(everything.topics)
        there = found.topics[topic]
        assert (there.name, there.is_internal, sorted(there.partitions)) == (topic, False, [0])
        configs = (await client.topic_configs([topic]))[topic]
        assert (bool(there.topic_id), "retention.ms" in configs) == (bench.has_identity, bench.has_identity)

    bench.lease(body)


def test_many_partitions_are_asked_about_at_once_and_one_that_is_missing_hides_no_other(bench: Bench) -> None:
    async def body(context: SourceContext) -> None:
        client, nobody = bench.work.client(context.connections), TopicPartition(bench.where.topic, 7)
        bounds = await client.bounds([bench.where, nobody])
        assert bounds[bench.where] == Bounds(start=START, end=END)
        assert isinstance(bounds[nobody], MirrorlakeError)
        assert await client.written_ends([bench.where, nobody]) == {bench.where: END}
        assert await client.offsets_at([bench.where], RECORDS[17].timestamp) == {bench.where: 17}
        assert await client.offsets_at([bench.where], tomorrow_ms()) == {bench.where: None}

    bench.lease(body)


def test_the_first_batch_is_known_before_anything_is_copied(bench: Bench) -> None:
    async def body(context: SourceContext) -> None:
        client = bench.work.client(context.connections)
        first = await client.batch_at(bench.where, START)
        assert first is not None
        # Of the batch that holds the offset, or of the record there, where batches are made when they are read.
        assert first.oldest_ms in (RECORDS[0].timestamp, RECORDS[START].timestamp)
        assert not first.is_transactional
        assert await client.try_reading(bench.where, END) is None

    bench.lease(body)


# --- as part of a plan ----------------------------------------------------------------------------------------


def test_a_source_travels_in_a_plan(bench: Bench) -> None:
    assert pickle.loads(pickle.dumps(bench.work)) == bench.work
    assert bench.work.name
    assert bench.work.place
    assert bench.work.name in bench.work.label


def test_a_lease_archives_it(bench: Bench, tmp_path: Path) -> None:
    assert copied(bench, archive_work(tmp_path, bench.where, end=END)) is None
    found = archived_records(tmp_path, bench.where.topic)
    assert list(found) == SHOWN
    assert [record.value for record in found.values()] == values_at(SHOWN)


def test_a_lease_copies_it_with_mapped_offsets(bench: Bench, destination_kafka: EmbeddedKafka) -> None:
    servers, topic = destination_kafka.bootstrap_servers, f"{bench.where.topic}-mapped"
    create_topic(servers, topic)
    assert copied(bench, map_work(servers, bench.where, topic=topic)) is None
    assert [record.value for record in consume(servers, topic, 0).values()] == values_at(SHOWN)


def test_a_lease_copies_it_with_equal_offsets(bench: Bench, destination_kafka: EmbeddedKafka) -> None:
    servers, topic = destination_kafka.bootstrap_servers, f"{bench.where.topic}-equal"
    create_topic(servers, topic)
    assert copied(bench, kafka_work(servers, bench.where, topic=topic, gap_fill=GapFill.FILLER)) is None
    found = consume(servers, topic, 0)
    assert list(found) == SHOWN
    assert [record.value for record in found.values()] == values_at(SHOWN)


def copied(bench: Bench, work: DestinationWork) -> MirrorlakeError | None:
    """Runs a lease from the source to a destination, to the source's end; returns why it did not come there."""
    plan = lease_plan("nobody:1", [(bench.where, [work])], end=END)
    (partition,) = plan.partitions
    plan = replace(plan, partitions=(replace(partition, source_work=bench.work),))
    (row,) = run_lease(plan).values()
    assert row.error is not None or row.position == END
    return row.error
