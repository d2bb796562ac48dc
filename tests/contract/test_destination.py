"""What every destination owes, one suite over all of them: records equal, position from the destination, no repeats."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from conftest import RunAsync
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.reading import read_archived_range
from mirrorlake.destinations.map.progress_store import ProgressTopics
from mirrorlake.destinations.work import DestinationWork
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.stores.filesystem import FilesystemStore
from support.leases import archive_work, kafka_work, lease_plan, map_work, run_lease
from support.map_copies import held_through_map
from support.records import Record, consume, every_kind, in_batches, produce, settings_of, simple_records
from support.segments import records_of

pytestmark = pytest.mark.kafka


@dataclass
class Case:
    """A source partition, one destination of it, and how to look inside."""

    source: str
    where: TopicPartition
    run_async: RunAsync
    work: Callable[[int], DestinationWork]
    held: Callable[[], dict[int, Record]]
    spoil: Callable[[], None]
    written: int = field(default=0)

    def write(self, records: list[Record], batch: int = 20) -> None:
        batches = list(in_batches(records, batch))
        self.run_async(produce(self.source, self.where.topic, self.where.partition, batches))
        self.written += len(records)

    def copy(self, *, end: int | None = None, seconds: float = 20.0) -> LeaseRow:
        stop = self.written if end is None else end
        plan = lease_plan(self.source, [(self.where, [self.work(stop)])], end=stop, seconds=seconds)
        (row,) = run_lease(plan).values()
        return row


@pytest.fixture(params=["kafka", "kafka-map", "parquet", "ndjson", "log"])
def case(
    request: pytest.FixtureRequest,
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    tmp_path: Path,
    run_async: RunAsync,
) -> Case:
    where = TopicPartition(topic_name, 0)

    async def create(servers: str) -> None:
        async with ClusterClient(settings_of(servers)) as client:
            await client.topics.create(topic_name, partitions=1, replication_factor=1)

    run_async(create(source_kafka.bootstrap_servers))
    if request.param == "kafka":
        servers = destination_kafka.bootstrap_servers
        run_async(create(servers))
        foreign = next(iter(in_batches([Record(1, b"not", b"ours")], 1)))

        def spoil_topic() -> None:
            run_async(produce(servers, topic_name, 0, [foreign]))

        return Case(
            source_kafka.bootstrap_servers,
            where,
            run_async,
            work=lambda _: kafka_work(servers, where),
            held=lambda: consume(servers, topic_name, 0),
            spoil=spoil_topic,
        )
    if request.param == "kafka-map":
        mapped = destination_kafka.bootstrap_servers
        run_async(create(mapped))
        stray = next(iter(in_batches([Record(1, b"not", b"ours")], 1)))

        def spoil_progress() -> None:
            run_async(produce(mapped, ProgressTopics(mirror=topic_name, shards=1).progress, 0, [stray]))

        return Case(
            source_kafka.bootstrap_servers,
            where,
            run_async,
            work=lambda _: map_work(mapped, where),
            held=lambda: held_through_map(mapped, where),
            spoil=spoil_progress,
        )
    archived = ArchivedPartition(
        FilesystemStore(tmp_path), destination_name=topic_name, partition=0, extension=request.param
    )

    def spoil_folder() -> None:
        (tmp_path / topic_name / "0" / "stray").write_text("not ours")

    def held() -> dict[int, Record]:
        everything = OffsetRange(start_offset=0, end_offset=archived.read_chain().position)
        return {o: r for columns in read_archived_range(archived, everything) for o, r in records_of(columns).items()}

    return Case(
        source_kafka.bootstrap_servers,
        where,
        run_async,
        work=lambda end: archive_work(tmp_path, where, end=end, format_name=request.param),
        held=held,
        spoil=spoil_folder,
    )


def test_an_empty_destination_gets_everything_from_offset_zero(case: Case) -> None:
    records = [record for seed in range(3) for record in every_kind(seed)]
    case.write(records)
    row = case.copy()
    assert row.error is None
    assert (row.start_offset, row.position, row.records) == (0, len(records), len(records))
    assert case.held() == dict(enumerate(records))


def test_an_empty_source_leaves_the_destination_as_it_is(case: Case) -> None:
    row = case.copy(end=0)
    assert row.error is None
    assert (row.start_offset, row.position, row.records) == (0, 0, 0)


def test_a_new_owner_goes_on_where_the_last_one_ended(case: Case) -> None:
    positions = []
    for start in range(0, 90, 30):
        case.write(simple_records(30, start=start))
        row = case.copy()
        assert row.error is None
        positions.append((row.start_offset, row.position))
    assert positions == [(0, 30), (30, 60), (60, 90)]
    assert case.held() == dict(enumerate(simple_records(90)))


def test_copying_again_changes_nothing(case: Case) -> None:
    case.write(simple_records(40))
    case.copy()
    before = case.held()
    row = case.copy(seconds=3.0)
    assert row.error is None
    assert (row.start_offset, row.position, row.records) == (40, 40, 0)
    assert case.held() == before


def test_what_is_not_ours_at_the_destination_stops_it_before_anything_is_written(case: Case) -> None:
    case.write(simple_records(40))
    case.copy()
    case.spoil()
    case.write(simple_records(40, start=40))
    row = case.copy(seconds=5.0)
    assert row.error is not None
    assert row.error.hint
    assert row.records == 0


def test_two_owners_at_once_make_one_equal_copy(case: Case) -> None:
    case.write(simple_records(2000), batch=9)
    owners = [threading.Thread(target=case.copy) for _ in range(2)]
    for owner in owners:
        owner.start()
    for owner in owners:
        owner.join()
    row = case.copy()
    assert row.error is None
    assert row.position == 2000
    assert case.held() == dict(enumerate(simple_records(2000)))
