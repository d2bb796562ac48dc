"""Archive segments from real brokers: exact cuts, any gap recorded, one chain whoever writes."""

import asyncio
import threading
from pathlib import Path

import pytest

from conftest import RunAsync
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.reading import read_archived_range
from mirrorlake.destinations.archive.work import ArchiveWork
from mirrorlake.destinations.preserve.work import PreserveWork
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import ChainBrokenError, SourceTruncatedError, TopicRecreatedError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import Gap, GapKind, OffsetRange, TopicPartition
from mirrorlake.stores.filesystem import FilesystemStore
from support.leases import NEVER, archive_work, kafka_work, lease_plan, run_lease
from support.records import CODECS, Record, consume, every_kind, in_batches, produce, settings_of, simple_records
from support.segments import records_of

pytestmark = pytest.mark.kafka


class Lake:
    """A topic on a broker and its archive in a folder."""

    def __init__(self, source: EmbeddedKafka, topic: str, root: Path, run_async: RunAsync) -> None:
        self.source, self.topic, self.root, self.run_async = source, topic, root, run_async
        self.where = TopicPartition(topic, 0)

    def create(self, partitions: int = 1) -> "Lake":
        async def create() -> None:
            async with ClusterClient(settings_of(self.source.bootstrap_servers)) as client:
                await client.topics.create(self.topic, partitions=partitions, replication_factor=1)

        self.run_async(create())
        return self

    def write(self, records: list[Record], *, batch: int = 50, codec: int = 0, partition: int = 0) -> None:
        self.run_async(
            produce(self.source.bootstrap_servers, self.topic, partition, list(in_batches(records, batch, codec)))
        )

    def archive(
        self, *, end: int, rest: bool = True, records_max: int = NEVER, bytes_max: int = NEVER, writer: str = "one"
    ) -> LeaseRow:
        work = archive_work(
            self.root,
            self.where,
            end=end,
            flushes_rest=rest,
            records_max=records_max,
            bytes_max=bytes_max,
            writer=writer,
        )
        return run_lease(lease_plan(self.source.bootstrap_servers, [(self.where, [work])], end=None))[0, "lake"]

    @property
    def archived(self) -> ArchivedPartition:
        return ArchivedPartition(
            FilesystemStore(self.root), destination_name=self.topic, partition=0, extension="parquet"
        )

    def held(self) -> dict[int, Record]:
        end = self.archived.read_chain().position
        found: dict[int, Record] = {}
        for columns in read_archived_range(self.archived, OffsetRange(start_offset=0, end_offset=end)):
            found |= records_of(columns)
        return found

    def files(self) -> list[str]:
        return sorted(path.name for path in (self.root / self.topic / "0").iterdir())


@pytest.fixture
def lake(source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, run_async: RunAsync) -> Lake:
    return Lake(source_kafka, topic_name, tmp_path, run_async)


def name(start: int, end: int) -> str:
    return f"{start:020}-{end:020}.parquet"


@pytest.mark.parametrize("codec", CODECS)
def test_every_field_of_every_kind_of_record_is_archived(lake: Lake, codec: str) -> None:
    records = [record for seed in range(5) for record in every_kind(seed)]
    lake.create().write(records, batch=17, codec=CODECS[codec])
    row = lake.archive(end=len(records))
    assert row.error is None
    assert row.position == row.records == len(records)
    assert lake.files() == [name(0, len(records) - 1)]
    assert lake.held() == dict(enumerate(records))


def test_segments_are_cut_exactly_at_the_record_bound_and_the_rest_waits(lake: Lake) -> None:
    lake.create().write(simple_records(250), batch=40)
    row = lake.archive(end=250, rest=False, records_max=100)
    assert row.error is None
    assert row.position == 200
    assert lake.files() == [name(0, 99), name(100, 199)]
    assert [flush.trigger for flush in row.flushes] == ["max-offsets", "max-offsets"]
    row = lake.archive(end=250, records_max=100)
    assert lake.files() == [name(0, 99), name(100, 199), name(200, 249)]
    assert [flush.trigger for flush in row.flushes] == ["explicit"]
    assert lake.held() == dict(enumerate(simple_records(250)))


def test_the_record_that_reaches_the_byte_bound_is_the_segments_last(lake: Lake) -> None:
    records = [Record(1_700_000_000_000, None, bytes(100)) for _ in range(30)]
    lake.create().write(records, batch=8)
    row = lake.archive(end=30, rest=False, bytes_max=950)
    assert row.error is None
    assert lake.files() == [name(0, 9), name(10, 19), name(20, 29)]


def test_markers_and_aborted_data_are_gaps_that_are_counted_and_never_stop_an_archive(
    lake: Lake, run_async: RunAsync
) -> None:
    lake.create().write(simple_records(10))

    async def transactions() -> None:
        async with ClusterClient(settings_of(lake.source.bootstrap_servers)) as client:
            identity = await client.init_producer_id(f"tx-{lake.topic}", transaction_timeout_ms=10_000)
            for _ in range(3):
                await client.add_partitions_to_transaction(f"tx-{lake.topic}", identity, [lake.where])
                await client.end_transaction(f"tx-{lake.topic}", identity, committed=False)
            while (await client.list_offsets([lake.where], timestamp=-1))[lake.where] != 13:
                pass

    run_async(transactions())
    lake.write(simple_records(5, start=13))
    row = lake.archive(end=18)
    assert row.error is None
    assert row.position == 18
    assert row.records == 15
    assert row.gap_offsets == {"absent": 3}
    assert lake.files() == [name(0, 17)]
    expected = simple_records(10) + [None] * 3 + simple_records(5, start=13)
    assert lake.held() == {n: record for n, record in enumerate(expected) if record is not None}


def test_a_source_that_starts_late_begins_with_a_gap_that_says_so(lake: Lake, run_async: RunAsync) -> None:
    lake.create().write(simple_records(50), batch=10)
    delete_before(lake, run_async, 20)
    row = lake.archive(end=50)
    assert row.error is None
    assert lake.files() == [name(0, 49)]
    assert row.gap_offsets == {"truncated": 20}
    with open_segment(FilesystemStore(lake.root), f"{lake.topic}/0/{name(0, 49)}") as reader:
        assert reader.footer is not None
        assert reader.footer.gaps == (Gap(offsets=OffsetRange(start_offset=0, end_offset=20), kind=GapKind.TRUNCATED),)
    assert lake.held() == {n: record for n, record in enumerate(simple_records(50)) if n >= 20}


def test_records_lost_at_the_source_after_the_start_stop_the_partition_with_both_offsets(
    lake: Lake, run_async: RunAsync
) -> None:
    lake.create().write(simple_records(50), batch=10)
    assert lake.archive(end=20).position == 20
    delete_before(lake, run_async, 30)
    row = lake.archive(end=50)
    assert isinstance(row.error, SourceTruncatedError)
    assert (row.error.facts["position"], row.error.facts["log_start"]) == (20, 30)
    assert lake.files() == [name(0, 19)]


def test_a_recreated_topic_under_the_same_name_is_not_mixed_in(lake: Lake, run_async: RunAsync) -> None:
    async def topic_id(*, recreate: bool) -> str:
        async with ClusterClient(settings_of(lake.source.bootstrap_servers)) as client:
            if recreate:
                await client.topics.delete(lake.topic)
                while lake.topic in (await client.metadata([lake.topic], refresh=True)).topics:
                    await asyncio.sleep(0.05)
                await client.topics.create(lake.topic, partitions=1, replication_factor=1)
            return (await client.metadata([lake.topic], refresh=True)).topics[lake.topic].topic_id

    def archive(end: int, expected_id: str) -> LeaseRow:
        work = archive_work(lake.root, lake.where, end=end)
        plan = lease_plan(lake.source.bootstrap_servers, [(lake.where, [work])], end=None, topic_id=expected_id)
        return run_lease(plan)[0, "lake"]

    lake.create().write(simple_records(10))
    first = run_async(topic_id(recreate=False))
    assert archive(10, first).error is None
    second = run_async(topic_id(recreate=True))
    lake.write(simple_records(30, start=500))
    row = archive(30, first)
    assert isinstance(row.error, TopicRecreatedError)
    assert first in row.error.message
    assert second in row.error.message
    assert lake.files() == [name(0, 9)]


def delete_before(lake: Lake, run_async: RunAsync, offset: int) -> None:
    async def delete() -> None:
        async with ClusterClient(settings_of(lake.source.bootstrap_servers)) as client:
            assert (await client.delete_records({lake.where: offset}))[lake.where] == offset

    run_async(delete())


def test_a_foreign_file_stops_the_partition_by_name(lake: Lake) -> None:
    lake.create().write(simple_records(20))
    assert lake.archive(end=10).error is None
    (lake.root / lake.topic / "0" / "notes.txt").write_text("mine")
    row = lake.archive(end=20)
    assert isinstance(row.error, ChainBrokenError)
    assert "notes.txt" in row.error.message


def test_two_writers_with_different_bounds_make_one_chain_without_loss(lake: Lake) -> None:
    records = simple_records(3000)
    lake.create().write(records, batch=11)
    rows: list[LeaseRow] = []

    def write(records_max: int, writer: str) -> None:
        for _ in range(8):
            rows.append(lake.archive(end=3000, records_max=records_max, writer=writer))

    writers = [threading.Thread(target=write, args=args) for args in ((70, "one"), (110, "two"))]
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    assert lake.archived.read_chain().position == 3000
    assert lake.held() == dict(enumerate(records))
    assert len({flush.key for row in rows for flush in row.flushes}) <= len(lake.files())


def test_one_read_serves_both_destinations_where_they_stand_together(
    lake: Lake, destination_kafka: EmbeddedKafka, run_async: RunAsync
) -> None:
    async def create() -> None:
        async with ClusterClient(settings_of(destination_kafka.bootstrap_servers)) as client:
            await client.topics.create(lake.topic, partitions=1, replication_factor=1)

    lake.create().write(simple_records(500), batch=25)
    run_async(create())
    works: list[PreserveWork | ArchiveWork] = [
        kafka_work(destination_kafka.bootstrap_servers, lake.where),
        archive_work(lake.root, lake.where, end=500),
    ]
    rows = run_lease(lease_plan(lake.source.bootstrap_servers, [(lake.where, works)], end=500))
    assert [row.error for row in rows.values()] == [None, None]
    assert (
        lake.held()
        == consume(destination_kafka.bootstrap_servers, lake.topic, 0)
        == dict(enumerate(simple_records(500)))
    )


def test_destinations_at_different_positions_are_each_brought_to_the_end(
    lake: Lake, destination_kafka: EmbeddedKafka, run_async: RunAsync
) -> None:
    async def create() -> None:
        async with ClusterClient(settings_of(destination_kafka.bootstrap_servers)) as client:
            await client.topics.create(lake.topic, partitions=1, replication_factor=1)

    lake.create().write(simple_records(300), batch=25)
    run_async(create())
    assert lake.archive(end=120).position == 120
    works: list[PreserveWork | ArchiveWork] = [
        kafka_work(destination_kafka.bootstrap_servers, lake.where),
        archive_work(lake.root, lake.where, end=300),
    ]
    rows = run_lease(lease_plan(lake.source.bootstrap_servers, [(lake.where, works)], end=300))
    assert {label: (row.start_offset, row.position) for (_, label), row in rows.items()} == {
        "west": (0, 300),
        "lake": (120, 300),
    }
    assert lake.held() == dict(enumerate(simple_records(300)))


def test_a_source_whose_records_are_all_gone_is_archived_as_a_gap_and_goes_on(lake: Lake, run_async: RunAsync) -> None:
    lake.create().write(simple_records(20), batch=10)
    delete_before(lake, run_async, 20)
    row = lake.archive(end=20)
    assert row.error is None
    assert (row.position, row.records, row.gap_offsets) == (20, 0, {"truncated": 20})
    lake.write(simple_records(5, start=20))
    assert lake.archive(end=25).error is None
    assert lake.files() == [name(0, 19), name(20, 24)]
    assert lake.held() == dict(enumerate(simple_records(5, start=20), start=20))
