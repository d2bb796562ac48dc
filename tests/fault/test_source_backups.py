"""A source that is put back from a backup: the same topic ids and leader epochs, other records from some offset on."""

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.config.loading import parse_configuration
from mirrorlake.destinations.interface import ProducerHandOff
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import SourceDivergedError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import ClusterMetadata
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.plan.planning import Action, read_plan
from mirrorlake.service.sight.park_names import park_name
from mirrorlake.stores.filesystem import FilesystemStore
from support.copies import create_topic, source_end
from support.leases import archive_work, lease_plan, map_work, run_lease
from support.records import consume, settings_of, simple_records
from support.topics import append

pytestmark = pytest.mark.kafka

FORMATS = ("parquet", "ndjson", "log")
LOST, SAME = "backup-lost", "backup-same"
KEPT, ARCHIVED = 100, 200


class Backup:
    """Two topics, archived in every format up to ``ARCHIVED``; then their cluster was put back to ``KEPT`` records.

    ``LOST`` was written on with other records, ``SAME`` with the same again.
    """

    def __init__(self, kafka: EmbeddedKafka, destination: EmbeddedKafka, lake: Path) -> None:
        self.left: dict[str, ProducerHandOff | None] = {}
        self.servers, self.destination, self.lake = kafka.bootstrap_servers, destination.bootstrap_servers, lake
        for topic in (LOST, SAME):
            create_topic(self.servers, topic)
            create_topic(self.destination, topic)
            self._write(topic, 0, KEPT)
        metadata = asyncio.run(self._metadata())
        self.cluster_id = metadata.cluster_id or ""
        self.topic_ids = {topic: metadata.topics[topic].topic_id for topic in (LOST, SAME)}
        kafka.stop()
        shutil.copytree(kafka.folder, backup := lake / "backup")
        kafka.start()
        for topic in (LOST, SAME):
            self._write(topic, KEPT, ARCHIVED - KEPT)
            for format_name in FORMATS:
                row = self.archive(topic, format_name, ARCHIVED, is_first=True)
                assert (row.error, row.position) == (None, ARCHIVED)
            row = self.copy(topic, ARCHIVED)
            self.left[topic] = row.hand_off
            assert (row.error, row.position) == (None, ARCHIVED)
        kafka.stop()
        shutil.rmtree(kafka.folder)
        shutil.copytree(backup, kafka.folder)
        kafka.start()
        self._write(LOST, 5000, 150)
        self._write(SAME, KEPT, 150)
        assert (source_end(self.servers, LOST), source_end(self.servers, SAME)) == (250, 250)

    async def _metadata(self) -> ClusterMetadata:
        async with ClusterClient(settings_of(self.servers)) as client:
            return await client.metadata([LOST, SAME])

    def _write(self, topic: str, start: int, count: int) -> None:
        append(self.servers, topic, 0, simple_records(count, start=start), batch_records=10)

    def root(self, format_name: str) -> Path:
        root = self.lake / format_name
        root.mkdir(exist_ok=True)
        return root

    def segments(self, topic: str, format_name: str) -> list[Path]:
        """The published files, in order."""
        return sorted((self.root(format_name) / topic / "0").glob(f"*.{format_name}"))

    def archive(self, topic: str, format_name: str, end: int, *, is_first: bool) -> LeaseRow:
        """A lease of a process that has just started, unless ``is_first``."""
        where = TopicPartition(topic, 0)
        work = archive_work(
            self.root(format_name),
            where,
            end=end,
            format_name=format_name,
            cluster_id=self.cluster_id,
            topic_id=self.topic_ids[topic],
        )
        work = replace(work, orders=replace(work.orders, needs_tail_check=not is_first))
        (row,) = run_lease(lease_plan(self.servers, [(where, [work])], end=end)).values()
        return row

    def copy(self, topic: str, end: int, hand_off: ProducerHandOff | None = None) -> LeaseRow:
        """A lease with mapped offsets, of a process that has just started, or was handed what its last one left."""
        where = TopicPartition(topic, 0)
        work = map_work(
            self.destination, where, source_cluster_id=self.cluster_id, source_topic_id=self.topic_ids[topic]
        )
        work = replace(work, orders=replace(work.orders, hand_off=hand_off, needs_tail_check=True))
        (row,) = run_lease(lease_plan(self.servers, [(where, [work])], end=end)).values()
        return row


def offsets_in(root: Path, key: str) -> list[int]:
    with open_segment(FilesystemStore(root), key) as segment:
        return [int(offset) for columns in segment.records() for offset in columns.offsets]


@pytest.fixture(scope="module")
def backup(
    kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory, destination_kafka: EmbeddedKafka
) -> Iterator[Backup]:
    with EmbeddedKafka(tmp_path_factory.mktemp("restored-kafka"), libs=kafka_libs) as kafka:
        yield Backup(kafka, destination_kafka, tmp_path_factory.mktemp("lake"))


@pytest.mark.parametrize("format_name", FORMATS)
def test_an_archive_whose_newest_records_the_source_has_lost_is_not_gone_on_with(
    backup: Backup, format_name: str
) -> None:
    row = backup.archive(LOST, format_name, 250, is_first=False)

    assert isinstance(row.error, SourceDivergedError), row
    assert park_name(row.error) == "diverged"
    assert row.error.facts["differing_offset"] == ARCHIVED - 64, "as far down as was looked"
    assert [path.name for path in backup.segments(LOST, format_name)] == [f"{0:020}-{ARCHIVED - 1:020}.{format_name}"]


@pytest.mark.parametrize("format_name", FORMATS)
def test_an_archive_of_a_source_that_has_the_same_records_again_goes_on(backup: Backup, format_name: str) -> None:
    row = backup.archive(SAME, format_name, 250, is_first=False)

    assert (row.error, row.position, row.records) == (None, 250, 50)
    held = [
        int(offset)
        for path in backup.segments(SAME, format_name)
        for offset in offsets_in(backup.root(format_name), f"{SAME}/0/{path.name}")
    ]
    assert held == [*range(250)]


@pytest.mark.parametrize("is_handed_on", [False, True], ids=["another-process", "the-next-lease"])
def test_a_copy_with_mapped_offsets_is_not_gone_on_with_either(backup: Backup, is_handed_on: bool) -> None:
    left = backup.left[LOST]
    assert left is not None
    row = backup.copy(LOST, 250, left if is_handed_on else None)

    assert isinstance(row.error, SourceDivergedError), row
    assert park_name(row.error) == "diverged"
    assert row.error.facts["differing_offset"] == ARCHIVED - 64
    assert len(consume(backup.destination, LOST, 0)) == ARCHIVED, "nothing was copied behind them"


def test_a_copy_with_mapped_offsets_goes_on_where_the_source_has_the_same_records_again(backup: Backup) -> None:
    row = backup.copy(SAME, 250)

    assert (row.error, row.position, row.records) == (None, 250, 50)
    assert len(consume(backup.destination, SAME, 0)) == 250


def test_a_plan_says_so_first(backup: Backup) -> None:
    text = f"""
clusters: {{east: {{bootstrap-servers: "{backup.servers}"}}}}
stores: {{lake: {{type: filesystem, root: "{backup.root("parquet")}"}}}}
mirrors:
  - name: archive
    source: {{cluster: east, topics: [{LOST}]}}
    destinations: [{{type: archive, store: lake}}]
"""
    (row,) = asyncio.run(read_plan(parse_configuration(text.encode(), file="mirror.yaml", environ={})))
    assert row.action is Action.REFUSE
    assert isinstance(row.error, SourceDivergedError), row.error
