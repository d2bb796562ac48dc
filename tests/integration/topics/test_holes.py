"""When a hole of an archive was waited for long enough: over real folders that change between two looks."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from conftest import RunAsync
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import MirrorlakeError
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.sources.archive.work import ArchiveSourceWork
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import FilesystemSettings
from mirrorlake.topics.holes import with_passed_holes
from support.archived_source import archive, held_records, mark, settings_at, source_at, write_segment
from support.records import build_batch, simple_records

WHERE = TopicPartition("orders", 0)
SKIP_AFTER_SECONDS = 0.3
HOLE = OffsetRange(start_offset=20, end_offset=50)
RECORDS = simple_records(100)
CONTENT = held_records([(base, build_batch(RECORDS[base : base + 10])) for base in range(0, 100, 10)])

Look = Callable[[], Awaitable[tuple[OffsetRange, ...]]]


@pytest.fixture
def lake(tmp_path: Path) -> FilesystemSettings:
    """An archive without its offsets from 20 to 50."""
    (tmp_path / "lake").mkdir()
    settings = settings_at(tmp_path / "lake")
    archive(settings, WHERE, CONTENT, [20], form="log")
    write_segment(open_store(settings), WHERE, CONTENT, 50, 100, form="log")
    return settings


def looking(run_async: RunAsync, lake: FilesystemSettings, body: Callable[[Look], Awaitable[None]]) -> None:
    """Runs ``body`` with the looks of one process."""

    async def run() -> None:
        cache = WorkerCache()
        work: ArchiveSourceWork = source_at(lake, skip_after_seconds=SKIP_AFTER_SECONDS, mirror="back")

        async def look() -> tuple[OffsetRange, ...]:
            return (await with_passed_holes(work, [WHERE], cache)).range_of(WHERE).passed

        try:
            await body(look)
        finally:
            await cache.close()

    run_async(run())


async def wait() -> None:
    await asyncio.sleep(SKIP_AFTER_SECONDS * 1.2)


def test_one_look_passes_over_nothing_and_two_that_are_far_enough_apart_do(
    lake: FilesystemSettings, run_async: RunAsync
) -> None:
    async def body(look: Look) -> None:
        await wait()
        assert await look() == (), "one look proves nothing, however long the hole may have been there"
        assert await look() == ()
        await wait()
        with capture_logs() as logs:
            assert await look() == (HOLE,)
            assert await look() == (HOLE,)
        assert [(line["event"], line["offsets"]) for line in logs] == [("missing segment is passed over", "[20, 50)")]

    looking(run_async, lake, body)


def test_a_hole_that_was_closed_between_begins_anew(lake: FilesystemSettings, run_async: RunAsync) -> None:
    async def body(look: Look) -> None:
        assert await look() == ()
        key = write_segment(open_store(lake), WHERE, CONTENT, 20, 50, form="log")
        assert await look() == ()
        await wait()
        open_store(lake).delete(key)
        assert await look() == ()
        await wait()
        assert await look() == (HOLE,)

    looking(run_async, lake, body)


def test_what_is_left_of_a_hole_was_missing_as_long_as_all_of_it(lake: FilesystemSettings, run_async: RunAsync) -> None:
    async def body(look: Look) -> None:
        assert await look() == ()
        await wait()
        write_segment(open_store(lake), WHERE, CONTENT, 20, 30, form="log")
        assert await look() == (OffsetRange(start_offset=30, end_offset=50),)

    looking(run_async, lake, body)


def test_a_hole_that_grew_is_another_one(lake: FilesystemSettings, run_async: RunAsync) -> None:
    async def body(look: Look) -> None:
        write_segment(open_store(lake), WHERE, CONTENT, 40, 50, form="log")
        assert await look() == ()
        open_store(lake).delete(f"orders/0/{40:020}-{49:020}.log")
        await wait()
        assert await look() == ()
        await wait()
        assert await look() == (HOLE,)

    looking(run_async, lake, body)


def test_what_is_missing_at_the_end_is_never_passed_over(lake: FilesystemSettings, run_async: RunAsync) -> None:
    """Nothing that lies behind it says that it was there and something went on."""
    mark(open_store(lake), WHERE, 100, form="log")
    open_store(lake).delete(f"orders/0/{50:020}-{99:020}.log")

    async def body(look: Look) -> None:
        for _ in range(2):
            assert await look() == ()
            await wait()

    looking(run_async, lake, body)


def test_a_look_that_fails_says_nothing_of_holes(lake: FilesystemSettings, run_async: RunAsync) -> None:
    async def body(look: Look) -> None:
        assert await look() == ()
        aside = lake.root.rename(lake.root.with_name("unmounted"))
        await wait()
        with pytest.raises(MirrorlakeError):
            await look()
        aside.rename(lake.root)
        assert await look() == (HOLE,), "seen at both ends of the time, and closed at none between"

    looking(run_async, lake, body)


def test_a_segment_that_comes_after_it_was_passed_over_is_said(lake: FilesystemSettings, run_async: RunAsync) -> None:
    async def body(look: Look) -> None:
        await look()
        await wait()
        assert await look() == (HOLE,)
        write_segment(open_store(lake), WHERE, CONTENT, 20, 50, form="log")
        with capture_logs() as logs:
            assert await look() == ()
            assert await look() == ()
        assert [line["event"] for line in logs] == ["segment came after it was passed over"]

    looking(run_async, lake, body)
