"""What every sink owes its lease, member by member of ``PartitionSink``: one suite over all kinds of destinations.

The sinks are those a lease makes, over real clusters and folders. What a source's reader would deliver is made here:
the same records, at the same offsets, as lie at the source.
"""

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import RunAsync
from mirrorlake.archive.snapshots.tombstones import SnapshotRule
from mirrorlake.destinations.connections import LeaseConnections
from mirrorlake.destinations.interface import ENDLESS, Delivery, PartitionSink
from mirrorlake.destinations.work import DestinationWork
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.offsets import GapFill, OffsetRange, TopicPartition
from support.leases import archive_work, as_snapshots, kafka_work, map_work
from support.records import in_batches, produce, settings_of, simple_records
from support.sinks import Body, delivery_of, dense_batch, with_sink
from support.tally.work import TallyWork

pytestmark = pytest.mark.kafka

END = 30
"""Where the source ends; an archive is to be read up to here."""
BATCH = 10


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of destination, and what it answers for ever to what is asked of it."""

    name: str
    is_endless: bool
    needs_encoder: bool
    reads_alone: bool


KINDS = (
    Kind(name="preserve", is_endless=True, needs_encoder=False, reads_alone=False),
    Kind(name="map", is_endless=True, needs_encoder=False, reads_alone=False),
    Kind(name="archive", is_endless=False, needs_encoder=True, reads_alone=False),
    Kind(name="snapshots", is_endless=False, needs_encoder=True, reads_alone=True),
    # Of docs/contributing.md: whoever follows it gets a sink that a lease can rely on.
    Kind(name="tally", is_endless=True, needs_encoder=False, reads_alone=False),
)


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A source partition of 30 records, and one destination of it."""

    kind: Kind
    source: str
    where: TopicPartition
    work: DestinationWork
    lake: Path
    run_async: RunAsync

    def lease(self, body: Body) -> None:
        """Runs ``body`` with a sink as a lease makes it, not opened, and the lease's connections; abandons the sink."""

        self.run_async(with_sink(self.work, self.where, self.source, body))

    async def cut_off(self, connections: LeaseConnections) -> None:
        """Nothing reaches the destination any more."""
        await connections.end_lease()
        shutil.rmtree(self.lake)
        self.lake.touch()  # no folder to write to


@pytest.fixture(params=KINDS, ids=[kind.name for kind in KINDS])
def bench(
    request: pytest.FixtureRequest,
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    tmp_path: Path,
    run_async: RunAsync,
) -> Bench:
    kind: Kind = request.param
    where, lake = TopicPartition(topic_name, 0), tmp_path / "lake"
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    lake.mkdir()

    async def prepare() -> None:
        for servers in (source, destination):
            async with ClusterClient(settings_of(servers)) as client:
                await client.topics.create(topic_name, partitions=1, replication_factor=1)
        await produce(source, topic_name, 0, in_batches(simple_records(END), BATCH))

    run_async(prepare())
    return Bench(
        kind=kind,
        source=source,
        where=where,
        work=work_of(kind.name, destination, where, lake),
        lake=lake,
        run_async=run_async,
    )


def work_of(kind: str, destination: str, where: TopicPartition, lake: Path) -> DestinationWork:
    if kind == "preserve":
        return kafka_work(destination, where, gap_fill=GapFill.FILLER)
    if kind == "map":
        return map_work(destination, where, skips_truncated=True)
    if kind == "tally":
        return TallyWork(destination="counts", file=lake / f"{where}.json")
    archived = archive_work(lake, where, end=END)
    if kind == "archive":
        return archived
    return as_snapshots(archived, SnapshotRule())


def delivery(start: int, end: int) -> Delivery:
    """What a fetch brings of ``[start, end)``, which are batches as they lie at the source."""
    starts = range(start, end, BATCH)
    batches = [dense_batch(simple_records(BATCH, start=base_offset), base_offset) for base_offset in starts]
    return delivery_of(batches, OffsetRange(start_offset=start, end_offset=end), end_offset=END)


def test_what_never_changes_is_told_before_the_sink_is_opened_and_after(bench: Bench) -> None:
    kind = bench.kind

    async def body(sink: PartitionSink, _: LeaseConnections) -> None:
        for _look in range(2):
            told = (sink.is_endless, sink.needs_encoder, sink.reads_alone)
            assert told == (kind.is_endless, kind.needs_encoder, kind.reads_alone)
            assert (sink.wanted_end == ENDLESS) == sink.is_endless
            await sink.open()

    bench.lease(body)


def test_a_sink_that_was_opened_stands_at_its_position_and_wants_what_is_due(bench: Bench) -> None:
    async def body(sink: PartitionSink, _: LeaseConnections) -> None:
        assert sink.is_settled, "nothing is on its way before it is opened"
        await sink.open()
        assert (sink.next_offset, sink.progress.position, sink.progress.start_offset) == (0, 0, 0)
        assert sink.progress.claims == 1
        assert sink.failure is None
        assert (sink.has_room, sink.is_done, sink.is_settled) == (True, False, True)
        assert sink.wanted_end == (ENDLESS if sink.is_endless else END)

    bench.lease(body)


def test_what_is_settled_is_safe_and_a_sink_with_an_end_is_done_then(bench: Bench) -> None:
    async def body(sink: PartitionSink, _: LeaseConnections) -> None:
        await sink.open()
        await sink.deliver(delivery(0, END))
        assert sink.next_offset == END
        await sink.settle()
        assert (sink.is_settled, sink.failure) == (True, None)
        assert (sink.progress.position, sink.progress.records) == (END, END)
        assert sink.is_done == (not sink.is_endless)
        await sink.settle()  # at once
        await sink.finish()
        assert (sink.is_settled, sink.progress.position) == (True, END)

    bench.lease(body)


def test_the_position_is_never_ahead_of_what_is_settled(bench: Bench) -> None:
    async def body(sink: PartitionSink, _: LeaseConnections) -> None:
        await sink.open()
        await sink.deliver(delivery(0, BATCH))
        assert sink.progress.position <= sink.next_offset == BATCH
        await sink.deliver(delivery(BATCH, END))
        settling = asyncio.create_task(sink.settle())
        while not settling.done():
            assert sink.progress.position in (0, BATCH, 2 * BATCH, END)
            await asyncio.sleep(0)
        await settling
        assert sink.progress.position == sink.next_offset == END

    bench.lease(body)


def test_the_next_lease_opens_where_the_destination_stands(bench: Bench) -> None:
    async def body(sink: PartitionSink, _: LeaseConnections) -> None:
        await sink.open()
        start = sink.next_offset
        assert sink.progress.position == sink.progress.start_offset == start
        if not sink.is_done:
            await sink.deliver(delivery(start, END))
        await sink.finish()
        assert sink.progress.position == END
        starts.append((start, sink.is_done))

    starts: list[tuple[int, bool]] = []
    bench.lease(body)
    bench.lease(body)
    assert starts == [(0, not bench.kind.is_endless), (END, not bench.kind.is_endless)]


def test_the_end_of_encoding_drops_what_was_not_cut_and_nothing_that_was_sent(bench: Bench) -> None:
    async def body(sink: PartitionSink, _: LeaseConnections) -> None:
        await sink.open()
        await sink.deliver(delivery(0, BATCH))
        await sink.end_encoding()
        await sink.end_encoding()  # without effect
        await sink.finish()
        assert sink.failure is None
        assert sink.is_settled
        assert sink.progress.position == (0 if sink.needs_encoder else BATCH)

    bench.lease(body)


def test_what_is_dropped_unsent_is_neither_waited_for_nor_an_error(bench: Bench) -> None:
    async def body(sink: PartitionSink, _: LeaseConnections) -> None:
        await sink.open()
        await sink.deliver(delivery(0, END))
        sink.drop_unsent()
        await sink.finish()
        assert (sink.is_settled, sink.failure) == (True, None)
        assert 0 <= sink.progress.position <= END

    bench.lease(body)


def test_where_the_source_begins_later_a_sink_goes_on_there_or_refuses_and_stays(bench: Bench) -> None:
    async def body(sink: PartitionSink, _: LeaseConnections) -> None:
        await sink.open()
        assert await sink.starts_at(BATCH), "each of these is configured to"
        assert sink.next_offset == BATCH
        await sink.deliver(delivery(BATCH, END))
        await sink.finish()
        assert (sink.progress.position, sink.progress.records) == (END, END - BATCH)
        assert dict(sink.progress.gap_offsets) == {"truncated": BATCH}

    bench.lease(body)


def test_a_destination_that_is_lost_is_a_failure_that_stays_until_it_is_opened_again(bench: Bench) -> None:
    async def body(sink: PartitionSink, connections: LeaseConnections) -> None:
        await sink.open()
        await bench.cut_off(connections)
        raised: list[MirrorlakeError] = []
        for step in (sink.deliver(delivery(0, END)), sink.settle(), sink.finish()):
            try:
                await step
            except MirrorlakeError as error:
                raised.append(error)
        assert sink.failure is not None
        assert raised[-1] is sink.failure, "whoever finishes learns of it"
        assert sink.progress.position == 0
        assert sink.is_settled, "what became of everything is known: it is unknown, and said"

    bench.lease(body)


def test_a_sink_may_be_abandoned_at_any_time_and_more_than_once(bench: Bench) -> None:
    async def unopened(sink: PartitionSink, _: LeaseConnections) -> None:
        sink.abandon()

    async def opened(sink: PartitionSink, _: LeaseConnections) -> None:
        await sink.open()
        sink.abandon()

    async def at_work(sink: PartitionSink, _: LeaseConnections) -> None:
        await sink.open()
        await sink.deliver(delivery(0, END))
        await asyncio.sleep(0)
        sink.abandon()

    for body in (unopened, opened, at_work):
        bench.lease(body)
