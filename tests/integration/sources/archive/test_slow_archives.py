"""Archives that are slower than a lease: what one begins the next goes on with, and no thread is left behind."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import RunAsync
from integration.sources.archive.test_damage import damaged, flipped_values
from integration.sources.archive.test_reading import RECORDS, WHERE, in_tens, values
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import ChainBrokenError, MirrorlakeError
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.archive import content as content_module
from mirrorlake.sources.archive import opened_segment
from mirrorlake.sources.archive.content import RecordContent
from mirrorlake.sources.archive.work import ArchiveSourceWork
from mirrorlake.stores.settings import FilesystemSettings
from support.archived_source import BARE_NDJSON, BLOCKLESS_LOG, FORMS, archive, settings_at, source_at
from support.reading import Taking, source_context

LEASE_SECONDS = 0.3
OPENING_SECONDS = 1.0
LEASES_MAX = 30


@pytest.fixture
def lake(tmp_path: Path) -> FilesystemSettings:
    (tmp_path / "lake").mkdir()
    return settings_at(tmp_path / "lake")


async def lease(
    cache: WorkerCache, work: ArchiveSourceWork, positions: dict[TopicPartition, int], enough: int
) -> dict[TopicPartition, Taking]:
    """One lease from these positions on, to its end."""
    takings = {where: Taking(at, enough=enough) for where, at in positions.items()}
    async with source_context(cache, seconds=LEASE_SECONDS, memory_bytes_max=10 << 20) as context:
        readers = []
        for where, taking in takings.items():
            reader = await work.open(where, "", context).reader(is_live=True)
            reader.begin(taking)
            readers.append(reader)
        with contextlib.suppress(TimeoutError):  # what waits for its archive then is stopped, as by a lease
            async with asyncio.timeout(LEASE_SECONDS):
                await asyncio.gather(*(reader.over.wait() for reader in readers))
        await context.stop()
    return takings


@pytest.mark.parametrize("form", [*FORMS, BARE_NDJSON])
def test_a_segment_that_takes_longer_to_open_than_a_lease_lasts_is_copied_all_the_same(
    lake: FilesystemSettings, run_async: RunAsync, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive(lake, WHERE, in_tens(), [100] if form == "snapshot" else [40, 100], form=form)
    openings = slowed(monkeypatch)

    async def body() -> None:
        cache, position, found = WorkerCache(), 0, list[RecordColumns]()
        for _ in range(LEASES_MAX):
            taking = (await lease(cache, source_at(lake), {WHERE: position}, 100))[WHERE]
            assert taking.errors == []
            found.append(taking.records())
            position = taking.next_offset
            if position == 100:
                break
        await cache.close()
        assert values(RecordColumns.concat(found)) == [record.value for record in RECORDS]

    run_async(body())
    assert openings() == (1 if form == "snapshot" else 2)


def slowed(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Every segment takes long to open."""
    count = []
    begin = opened_segment.OpenSegment.__init__

    def slow(*given: object, **named: object) -> None:
        count.append(1)
        time.sleep(OPENING_SECONDS)
        begin(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(opened_segment.OpenSegment, "__init__", slow)
    return lambda: len(count)


@pytest.mark.slow
def test_partitions_that_share_one_turn_all_get_theirs_although_each_takes_longer_than_a_lease(
    lake: FilesystemSettings, run_async: RunAsync, monkeypatch: pytest.MonkeyPatch
) -> None:
    partitions = [TopicPartition("orders", number) for number in range(3)]
    for each in partitions:
        archive(lake, each, in_tens(20), [20], form="parquet")
    slowed(monkeypatch)

    async def body() -> None:
        cache, positions = WorkerCache(), dict.fromkeys(partitions, 0)
        for number in range(LEASES_MAX):
            # Another one is the first each time.
            order = partitions[number % 3 :] + partitions[: number % 3]
            takings = await lease(cache, source_at(lake), {each: positions[each] for each in order}, 20)
            positions = {each: taking.next_offset for each, taking in takings.items()}
            if set(positions.values()) == {20}:
                break
        await cache.close()
        assert set(positions.values()) == {20}

    run_async(body())


def test_damage_that_is_found_after_the_lease_that_looked_for_it_is_said_by_the_next_one(
    lake: FilesystemSettings, run_async: RunAsync, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive(lake, WHERE, in_tens(), [40, 100], form="parquet")
    name = f"{40:020}-{99:020}.parquet"
    damaged(lake, name, flipped_values)
    slowed(monkeypatch)

    async def body() -> None:
        cache, errors = WorkerCache(), list[MirrorlakeError]()
        for _ in range(LEASES_MAX):
            errors += (await lease(cache, source_at(lake), {WHERE: 40}, 100))[WHERE].errors
            if errors:
                break
        await cache.close()
        assert isinstance(errors[0], ChainBrokenError)
        assert name in errors[0].message

    run_async(body())


@pytest.mark.slow
def test_a_snapshot_is_passed_through_across_leases_and_a_position_that_fell_back_is_read_again(
    lake: FilesystemSettings, run_async: RunAsync, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive(lake, WHERE, in_tens(), [100], form="snapshot")
    monkeypatch.setattr(content_module, "VIEW_BYTES_MAX", 7000)
    monkeypatch.setattr(content_module, "PIECE_BYTES", 5000)
    make = RecordContent.next_piece

    def slow(self: RecordContent) -> object:
        time.sleep(LEASE_SECONDS * 1.5)
        return make(self)

    monkeypatch.setattr(RecordContent, "next_piece", slow)

    async def body() -> None:
        cache, position, found = WorkerCache(), 0, dict[int, bytes | None]()
        for number in range(LEASES_MAX):
            taking = (await lease(cache, source_at(lake), {WHERE: position}, 100))[WHERE]
            assert taking.errors == []
            records = taking.records()
            found |= dict(zip(records.offsets.tolist(), values(records), strict=True))
            # Now and then not all was sent that was taken.
            position = max(position, taking.next_offset - (3 if number % 3 == 0 else 0))
            if position == 100:
                break
        await cache.close()
        assert list(found.values()) == [record.value for record in RECORDS]

    run_async(body())


@pytest.fixture
def no_reader_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    until = time.monotonic() + 5
    while any(each.name.startswith("segment reader") for each in {*threading.enumerate()} - before):
        assert time.monotonic() < until, "a thread is left behind"
        time.sleep(0.01)


@pytest.mark.usefixtures("no_reader_is_left")
@pytest.mark.parametrize("form", [BLOCKLESS_LOG, "parquet", "ndjson", "snapshot"])
def test_a_thread_that_reads_for_nobody_any_more_ends(
    lake: FilesystemSettings, run_async: RunAsync, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker ends while a segment is still being looked through."""
    archive(lake, WHERE, in_tens(), [100], form=form)
    monkeypatch.setattr(opened_segment, "NEAR_READ_BYTES", 16)
    read, readinto = opened_segment.StoppableFile.read, opened_segment.StoppableFile.readinto
    reads = list[int]()

    def slow(self: opened_segment.StoppableFile, size: int = -1) -> bytes:
        time.sleep(0.05)  # all of the file would take minutes
        reads.append(size)
        return read(self, size)

    def slow_into(self: opened_segment.StoppableFile, buffer: memoryview) -> int:
        time.sleep(0.05)
        reads.append(len(buffer))
        return readinto(self, buffer)

    monkeypatch.setattr(opened_segment.StoppableFile, "read", slow)
    monkeypatch.setattr(opened_segment.StoppableFile, "readinto", slow_into)

    async def body() -> None:
        cache = WorkerCache()
        taking = (await lease(cache, source_at(lake), {WHERE: 0}, 100))[WHERE]
        assert taking.taken == []
        before = len(reads)
        await asyncio.sleep(0.3)
        assert len(reads) > before, "it goes on for the next lease"
        await cache.close()

    run_async(body())
