"""A look at a newest segment: what it asks of the store, and what it takes for drift."""

import io
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.envelope import SegmentEnvelope
from mirrorlake.archive.formats.parquet import ParquetSegmentWriter
from mirrorlake.archive.names import parse_segment_name
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.clock import ManualClock
from mirrorlake.destinations.archive.sink import ArchiveSettings
from mirrorlake.destinations.archive.work import ArchiveWork
from mirrorlake.errors import ChainBrokenError, OtherSourceError, TopicRecreatedError
from mirrorlake.offsets import Gap, GapKind, OffsetRange, TopicPartition
from mirrorlake.service.archive_markers import ArchiveMarkers
from mirrorlake.service.drift import DriftWatch, look_at_tail
from mirrorlake.service.selection import Selection
from mirrorlake.stores.memory import MemoryStore
from mirrorlake.stores.object_store import ObjectInfo
from mirrorlake.stores.settings import FilesystemSettings
from unit.service.test_supervisor import Bench, archive_state

SOURCE = TopicPartition("orders", 0)


class AskedStore(MemoryStore):
    """Remembers what it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.listed_after: list[str] = []

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        self.listed_after.append(start_after)
        return super().list(prefix, start_after=start_after)


@pytest.fixture
def store() -> AskedStore:
    return AskedStore()


@pytest.fixture
def archive(store: AskedStore) -> ArchivedPartition:
    return ArchivedPartition(store, destination_name="orders", partition=0, extension="parquet")


WORK = ArchiveWork(
    destination="lake",
    store=FilesystemSettings(root=Path("/lake")),
    settings=ArchiveSettings(
        source=SOURCE,
        destination_name="orders",
        compression="zstd-1",
        records_max=1,
        bytes_max=1,
        cluster_id="cluster",
        topic_id="topic",
        writer="here",
    ),
)


def put(store: AskedStore, first: int, last: int, data: bytes = b"x" * 9) -> Segment:
    name = parse_segment_name(f"{first:020}-{last:020}.parquet")
    assert name is not None
    store.objects[f"orders/0/{name}"] = data
    return Segment(name=name, size_bytes=len(data))


def written(first: int, last: int, *, cluster_id: str = "cluster", topic_id: str = "topic") -> bytes:
    """A segment of ours without a record, by another process of the mirror."""
    file = io.BytesIO()
    envelope = SegmentEnvelope(
        cluster_id=cluster_id,
        topic_id=topic_id,
        topic="orders",
        partition=0,
        start_offset=first,
        writer="there",
        created_at="2026-01-02T03:04:05Z",
    )
    lost = OffsetRange(start_offset=first, end_offset=last + 1)
    writer = ParquetSegmentWriter(file, envelope)
    writer.close(end_offset=last + 1, gaps=[Gap(offsets=lost, kind=GapKind.TRUNCATED)])
    return file.getvalue()


def test_a_tail_that_stands_takes_one_short_listing_and_no_read(store: AskedStore, archive: ArchivedPartition) -> None:
    put(store, 0, 9)
    known = put(store, 10, 14)
    assert look_at_tail(archive, known, WORK) == known
    assert store.listed_after == [f"{10:020}"]


def test_an_empty_archive_has_no_tail(archive: ArchivedPartition) -> None:
    assert look_at_tail(archive, None, WORK) is None


@pytest.mark.parametrize("harm", ["gone", "altered", "replaced"])
def test_a_tail_that_is_not_what_it_was_is_named(store: AskedStore, archive: ArchivedPartition, harm: str) -> None:
    put(store, 0, 9)
    known = put(store, 10, 14)
    if harm == "altered":
        put(store, 10, 14, b"shorter")
    else:
        del store.objects[f"orders/0/{known.name}"]
    if harm == "replaced":
        put(store, 10, 12)
    with pytest.raises(ChainBrokenError, match=str(known.name)):
        look_at_tail(archive, known, WORK)


def test_what_another_process_of_the_mirror_has_published_is_the_new_tail(
    store: AskedStore, archive: ArchivedPartition
) -> None:
    known = put(store, 0, 9)
    put(store, 10, 14, written(10, 14))
    found = put(store, 15, 29, written(15, 29))
    assert look_at_tail(archive, known, WORK) == found
    assert look_at_tail(archive, found, WORK) == found


def test_a_file_that_goes_on_where_the_chain_ends_and_is_nobodys_is_refused_with_both_names(
    store: AskedStore, archive: ArchivedPartition
) -> None:
    known = put(store, 0, 9)
    foreign = put(store, 10, 14, b"PAR1 or not")
    with pytest.raises(ChainBrokenError) as found:
        look_at_tail(archive, known, WORK)
    assert str(foreign.name) in str(found.value)


@pytest.mark.parametrize(
    ("cluster_id", "topic_id", "error"),
    [("elsewhere", "topic", OtherSourceError), ("cluster", "recreated", TopicRecreatedError)],
)
def test_what_was_written_from_another_source_is_refused(
    store: AskedStore, archive: ArchivedPartition, cluster_id: str, topic_id: str, error: type[Exception]
) -> None:
    known = put(store, 0, 9)
    put(store, 10, 14, written(10, 14, cluster_id=cluster_id, topic_id=topic_id))
    with pytest.raises(error, match=r"00000000000000000010-00000000000000000014"):
        look_at_tail(archive, known, WORK)


@pytest.mark.parametrize("is_paused", [True, False])
def test_a_look_that_is_asked_for_finds_drift_at_once_but_for_what_is_paused(
    store: AskedStore, archive: ArchivedPartition, *, is_paused: bool
) -> None:
    state = archive_state(0)
    state.archived, state.tail = archive, put(store, 0, 9)
    del store.objects[f"orders/0/{state.tail.name}"]
    table = Bench(state).table
    table.set_paused(Selection(mirror="m"), is_paused=is_paused)
    looked = len(store.listed_after)
    markers = ArchiveMarkers(writer="here", clock=ManualClock())
    with DriftWatch(table, markers, seconds=3600.0) as watch:
        watch.look_now()
        give_up_at = time.monotonic() + (0.5 if is_paused else 60.0)
        while not state.is_parked and time.monotonic() < give_up_at:
            time.sleep(0.01)
    assert (state.is_parked, len(store.listed_after) > looked) == (not is_paused, not is_paused)


def test_an_unforeseen_error_at_one_partition_keeps_no_other_from_being_looked_at(
    store: AskedStore, archive: ArchivedPartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, state = archive_state(0), archive_state(1)
    broken.archived = ArchivedPartition(store, destination_name="broken", partition=0, extension="parquet")
    state.archived, state.tail = archive, put(store, 0, 9)
    del store.objects[f"orders/0/{state.tail.name}"]
    listed = store.list

    def fail_there(prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        if prefix.startswith("broken"):
            raise RuntimeError("a bug")
        return listed(prefix, start_after=start_after)

    monkeypatch.setattr(store, "list", fail_there)
    markers = ArchiveMarkers(writer="here", clock=ManualClock())
    with DriftWatch(Bench(broken, state).table, markers, seconds=3600.0) as watch:
        watch.look_now()
        wait_for(lambda: state.is_parked)
    assert not broken.is_parked


def test_a_segment_deleted_between_two_looks_is_found_however_many_have_followed_it(
    store: AskedStore, archive: ArchivedPartition
) -> None:
    state = archive_state(0)
    state.archived, state.tail = archive, put(store, 0, 9)
    table = Bench(state).table
    with DriftWatch(table, ArchiveMarkers(writer="here", clock=ManualClock()), seconds=3600.0) as watch:
        looked = len(store.listed_after)
        watch.look_now()
        wait_for(lambda: len(store.listed_after) > looked)
        gone = put(store, 10, 19, data=written(10, 19))
        newest = put(store, 20, 29, data=written(20, 29))
        del store.objects[f"orders/0/{gone.name}"]
        table.tail_seen(state, newest)  # as the leases tell
        watch.look_now()
        wait_for(lambda: state.is_parked)
    assert isinstance(state.error, ChainBrokenError)
    assert str(newest.name) in str(state.error)


def wait_for(happened: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + 60.0
    while not happened():
        assert time.monotonic() < give_up_at
        time.sleep(0.01)
