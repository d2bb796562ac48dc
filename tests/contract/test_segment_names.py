"""A segment's name is its position, so whoever goes on behind one compares it with the file, on every store.

By origin: mirrorlake's segments say which range they hold, in a footer or a description; mirror-v3's say nothing, and
end with a record of the last offset of their name.
"""

import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.envelope import SegmentEnvelope, SnapshotState
from mirrorlake.archive.folder import PartitionFolder, check_folder_content, partition_folder
from mirrorlake.archive.formats.parquet_rows import ParquetRows
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.gaps import GapReport
from mirrorlake.archive.names import LAST_OFFSET_MAX, SegmentName
from mirrorlake.archive.newest import read_newest
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.reading import check_archived_content, check_covered, covered_segments, read_archived_range
from mirrorlake.archive.sidecar import sidecar_key
from mirrorlake.archive.snapshots.tombstones import SnapshotRule
from mirrorlake.archive.snapshots.view import read_view
from mirrorlake.clock import ManualClock
from mirrorlake.destinations.archive.segment import OpenSegment
from mirrorlake.destinations.archive.segment_encoding import encoding_for
from mirrorlake.destinations.archive.sink import ArchiveSettings
from mirrorlake.destinations.archive.work import ArchiveWork
from mirrorlake.errors import ChainBrokenError
from mirrorlake.kafka.records.batches import Codec, walk
from mirrorlake.kafka.records.codec import encode_batch
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.page_compression import Compression
from mirrorlake.service.drift import look_at_tail
from mirrorlake.stores.object_store import ObjectStore
from mirrorlake.stores.settings import FilesystemSettings
from support.golden import MIRROR_V3_SCHEMA
from unit.archive.sample_records import Record, columns_of

PREFIX = "orders/0"
EARLIER, NEWEST = (0, 4), (5, 9)
"""Offsets of the two files, inclusive."""

NAMES = {"less": (5, 7), "more": (5, 14), "begins later": (6, 9), "absurd": (5, LAST_OFFSET_MAX)}


def row(offset: int, partition: int = 0) -> dict[str, object]:
    return {
        "topic": "orders",
        "partition": partition,
        "offset": offset,
        "timestamp_ms": 1_700_000_000_000,
        "timestamp_type": "create_time",
    }


def v3_parquet(*offsets: int, partition: int = 0) -> bytes:
    rows = [{**row(offset, partition), "key": b"k%d" % offset, "value": b"v", "headers": []} for offset in offsets]
    file = io.BytesIO()
    # Several row groups, as whoever rewrites an archive may make them: only the outer ones are looked at.
    pq.write_table(pa.Table.from_pylist(rows, schema=MIRROR_V3_SCHEMA), file, row_group_size=2)
    return file.getvalue()


def v3_ndjson(*offsets: int, partition: int = 0) -> bytes:
    # The last lines are longer than what is read of a file's end at first.
    lines = [{**row(offset, partition), "key": "aaaa", "value": "AAAA" * 40_000} for offset in offsets]
    return "".join(json.dumps(line) + "\n" for line in lines).encode() + b"\n"


def snapshot(start: int, end: int) -> bytes:
    """A view of offsets below ``end``, whose last records were tombstones."""
    file = io.BytesIO()
    rows = ParquetRows(file, "orders", 0, compression=Compression("zstd-1"))
    rows.write(columns_of([Record(offset, b"k%d" % offset, b"v") for offset in range(end - 2)]))
    envelope = SegmentEnvelope(
        cluster_id="cluster",
        topic_id="topic",
        topic="orders",
        partition=0,
        start_offset=start,
        writer="test",
        created_at="2026-01-02T03:04:05Z",
    )
    rows.close(envelope, end_offset=end, gaps=NO_GAPS, leader_epoch=None, snapshot=SnapshotState(complete_since_ms=0))
    return file.getvalue()


NO_GAPS = GapReport(offsets={}, listed=(), is_complete=True)


@dataclass(frozen=True)
class Origin:
    """Who wrote a folder's files, and in which form."""

    extension: str
    is_ours: bool = True
    are_snapshots: bool = False

    def folder(self, store: ObjectStore) -> PartitionFolder:
        return partition_folder(
            store,
            destination_name="orders",
            partition=0,
            extension=self.extension,
            are_snapshots=self.are_snapshots,
        )

    def write(self, store: ObjectStore, first: int, last: int) -> None:
        """Writes the file of these offsets, all of which have a record."""
        if self.are_snapshots:
            store.create(key_of(first, last, "parquet"), snapshot(first, last + 1))
        elif not self.is_ours:
            write = v3_parquet if self.extension == "parquet" else v3_ndjson
            store.create(key_of(first, last, self.extension), write(*range(first, last + 1)))
        else:
            publish(self.folder(store), first, last + 1)


ORIGINS = {
    "parquet": Origin("parquet"),
    "ndjson": Origin("ndjson"),
    "log": Origin("log"),
    "snapshots": Origin("parquet", are_snapshots=True),
    "mirror-v3's parquet": Origin("parquet", is_ours=False),
    "mirror-v3's ndjson": Origin("ndjson", is_ours=False),
}
CHAINS = [each for each in ORIGINS.values() if not each.are_snapshots]


def key_of(first: int, last: int, extension: str) -> str:
    return f"{PREFIX}/{SegmentName(from_offset=first, to_offset=last, extension=extension)}"


def publish(archived: PartitionFolder, start: int, end: int) -> None:
    assert isinstance(archived, ArchivedPartition)
    encoding = encoding_for(archived.extension, compression="zstd-1")
    segment = OpenSegment(
        archived,
        source=TopicPartition("orders", 0),
        cluster_id="cluster",
        topic_id="topic",
        make_writer=encoding.begin,
        writer="test",
        start_offset=start,
        clock=ManualClock(),
    )
    records = [Record(offset, b"k", b"v") for offset in range(start, end)]
    data = encode_batch(columns_of(records), codec=Codec.ZSTD, base_offset=start)
    batches = list(walk(memoryview(bytes(data))))
    for _ in encoding.take(batches, start_offset=start, covered_end=end):
        encoding.write(None)
    assert segment.publish(end_offset=end, trigger="max-time").is_ours


def rename(store: ObjectStore, old: str, new: str, *, leaves_old: bool = False) -> None:
    store.create(new, store.read(old))
    if not leaves_old:
        store.delete(old)


def tail_of(folder: PartitionFolder) -> Segment:
    tail = folder.read_chain().tail
    assert tail is not None
    return tail


def work(*, are_snapshots: bool) -> ArchiveWork:
    return ArchiveWork(
        destination="lake",
        store=FilesystemSettings(root=Path("/lake")),
        settings=ArchiveSettings(
            source=TopicPartition("orders", 0),
            destination_name="orders",
            compression="zstd-1",
            records_max=1,
            bytes_max=1,
            cluster_id="cluster",
            topic_id="topic",
            writer="here",
            snapshots=SnapshotRule() if are_snapshots else None,
        ),
    )


@pytest.fixture(params=list(ORIGINS.values()), ids=list(ORIGINS))
def origin(request: pytest.FixtureRequest) -> Origin:
    found: Origin = request.param
    return found


def test_files_under_their_own_names_are_gone_on_behind(store: ObjectStore, origin: Origin) -> None:
    origin.write(store, *EARLIER)
    origin.write(store, *NEWEST)
    folder = origin.folder(store)
    said = read_newest(folder, tail_of(folder))
    assert (said.origin is not None, said.is_snapshot) == (origin.is_ours, origin.are_snapshots)
    assert check_folder_content(folder) == 2


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_a_newest_file_that_was_renamed_is_named_by_who_would_go_on_behind_it(
    store: ObjectStore, origin: Origin, name: tuple[int, int]
) -> None:
    """At a start and at a take-over, in the drift watch, and where content is verified."""
    first, last = name
    origin.write(store, *NEWEST)
    content = store.read(key_of(*NEWEST, origin.extension))
    store.delete(key_of(*NEWEST, origin.extension))
    origin.write(store, 0, first - 1)
    known = tail_of(origin.folder(store))
    store.create(key_of(first, last, origin.extension), content)
    folder = origin.folder(store)
    looks: list[Callable[[], object]] = [
        lambda: read_newest(folder, tail_of(folder)),
        lambda: look_at_tail(folder, known, work(are_snapshots=origin.are_snapshots)),
        lambda: check_folder_content(folder),
    ]
    for look in looks:
        with pytest.raises(ChainBrokenError) as found:
            look()
        assert f"{first:020}-{last:020}" in str(found.value)


@pytest.mark.parametrize("name", [(5, 7), (5, 14)], ids=["less", "more"])
@pytest.mark.parametrize("extension", ["parquet", "ndjson", "log"])
def test_no_range_is_read_from_a_segment_that_says_another_one(
    store: ObjectStore, extension: str, name: tuple[int, int]
) -> None:
    """Its description may have been renamed with it: what it says counts."""
    origin = Origin(extension)
    origin.write(store, *EARLIER)
    origin.write(store, *NEWEST)
    old, new = key_of(*NEWEST, extension), key_of(*name, extension)
    rename(store, old, new)
    if extension != "parquet":
        rename(store, sidecar_key(old), sidecar_key(new))
    archived = origin.folder(store)
    assert isinstance(archived, ArchivedPartition)
    said = "says of itself that it covers [5, 10), its place says that it covers [5, "
    with pytest.raises(ChainBrokenError, match=re.escape(said)):
        list(read_archived_range(archived, OffsetRange(start_offset=0, end_offset=7)))
    with pytest.raises(ChainBrokenError, match=re.escape(said)):
        read_newest(archived, tail_of(archived))


def test_no_view_is_read_from_a_snapshot_that_says_another_range(store: ObjectStore) -> None:
    store.create(key_of(0, 14, "parquet"), snapshot(0, 10))
    folder = ORIGINS["snapshots"].folder(store)
    with pytest.raises(ChainBrokenError, match=r"covers \[0, 10\), its place says that it covers \[0, 15\)"):
        list(read_view(store, PREFIX, tail_of(folder)))


LIES = {
    "without a record": ((), 0, "no record of offset 9"),
    "with one record": ((5,), 0, "no record of offset 9"),
    "that ends early": ((5, 6, 7, 8), 0, "no record of offset 9"),
    "that ends late": ((5, 9, 10), 0, "holds offsets 5 to 10"),
    "that begins early": ((4, 9), 0, "holds offsets 4 to 9"),
    "of another partition": ((5, 9), 7, "holds records of partition 7"),
}


@pytest.mark.parametrize(("offsets", "partition", "text"), LIES.values(), ids=LIES.keys())
@pytest.mark.parametrize("extension", ["parquet", "ndjson"])
def test_a_file_that_says_nothing_is_mirror_v3s_only_if_it_ends_as_its_name_does(
    store: ObjectStore, extension: str, offsets: tuple[int, ...], partition: int, text: str
) -> None:
    origin = Origin(extension, is_ours=False)
    origin.write(store, *EARLIER)
    write = v3_parquet if extension == "parquet" else v3_ndjson
    store.create(key_of(*NEWEST, extension), write(*offsets, partition=partition))
    folder = origin.folder(store)
    with pytest.raises(ChainBrokenError, match=text) as found:
        read_newest(folder, tail_of(folder))
    assert key_of(*NEWEST, extension) in str(found.value)
    assert found.value.hint


@pytest.mark.parametrize("extension", ["parquet", "ndjson", "log"])
def test_seven_bytes_are_no_segment_whatever_their_name(store: ObjectStore, extension: str) -> None:
    store.create(key_of(0, 9, extension), b"garbage")
    folder = Origin(extension).folder(store)
    with pytest.raises(ChainBrokenError, match=key_of(0, 9, extension)):
        read_newest(folder, tail_of(folder))


def test_lines_cut_in_the_middle_or_empty_ones_alone_are_no_segment(store: ObjectStore) -> None:
    whole = v3_ndjson(5, 9).rstrip()
    for number, content in enumerate((whole, b"\n\n", whole[:-5] + b"\n", b"\n" + whole)):
        folder = ArchivedPartition(store, destination_name="lines", partition=number, extension="ndjson")
        name = SegmentName(from_offset=0, to_offset=9, extension="ndjson")
        store.create(f"{folder.prefix}/{name}", content)
        with pytest.raises(ChainBrokenError, match=str(name)):
            read_newest(folder, tail_of(folder))


def test_offsets_of_mirror_v3_may_leave_holes_and_only_the_last_one_is_asked_for(store: ObjectStore) -> None:
    for extension, content in (("parquet", v3_parquet(2, 9)), ("ndjson", b"\n" + v3_ndjson(2, 9))):
        store.create(key_of(0, 9, extension), content)
        with open_segment(store, key_of(0, 9, extension)) as reader:
            assert [edge.offset for edge in reader.edges()] == [2, 9]
        folder = Origin(extension).folder(store)
        assert read_newest(folder, tail_of(folder)).origin is None
        store.delete(key_of(0, 9, extension))


def test_a_snapshot_of_mirror_v3_may_end_with_a_tombstone_and_holds_nothing_past_its_name(store: ObjectStore) -> None:
    folder = ORIGINS["snapshots"].folder(store)
    store.create(key_of(0, 9, "parquet"), v3_parquet(3, 7))
    assert read_newest(folder, tail_of(folder)).origin is None
    rename(store, key_of(0, 9, "parquet"), key_of(0, 5, "parquet"))
    with pytest.raises(ChainBrokenError, match="holds offsets 3 to 7"):
        read_newest(folder, tail_of(folder))


@pytest.mark.parametrize("origin", CHAINS)
def test_a_covered_file_under_another_ones_name_is_told(store: ObjectStore, origin: Origin) -> None:
    """Plain readers of the folder read its records twice; a file that another one really covers is sound."""
    origin.write(store, *EARLIER)
    archived = origin.folder(store)
    assert isinstance(archived, ArchivedPartition)
    origin.write(store, *NEWEST)
    rename(store, key_of(*NEWEST, origin.extension), key_of(5, 7, origin.extension), leaves_old=True)
    assert [segment.name.to_offset for segment in covered_segments(archived)] == [7]
    with pytest.raises(ChainBrokenError, match=f"{5:020}-{7:020}"):
        check_archived_content(archived)
    with pytest.raises(ChainBrokenError, match=f"{5:020}-{7:020}"):
        check_covered(archived)


@pytest.mark.parametrize("origin", [each for each in CHAINS if each.extension != "log"])
def test_files_that_a_larger_one_really_covers_are_sound(store: ObjectStore, origin: Origin) -> None:
    origin.write(store, *EARLIER)
    small = store.read(key_of(*EARLIER, origin.extension))
    store.delete(key_of(*EARLIER, origin.extension))
    origin.write(store, 0, 9)
    store.create(key_of(*EARLIER, origin.extension), small)
    archived = origin.folder(store)
    assert isinstance(archived, ArchivedPartition)
    check_covered(archived)
    assert check_archived_content(archived) == 1
