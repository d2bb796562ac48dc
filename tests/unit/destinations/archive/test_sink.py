"""An archive's sink in each format, over a real folder, without a broker.

Its source loses records while a segment is open; a segment is written while the one before is on its way.
"""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.names import parse_segment_name
from mirrorlake.archive.newest import read_newest
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.publish import Step
from mirrorlake.clock import ManualClock
from mirrorlake.destinations.archive.sink import ArchiveSettings, ArchiveSink
from mirrorlake.destinations.interface import ClassifiedBatch, Delivery
from mirrorlake.destinations.orders import Orders
from mirrorlake.destinations.store_threads import StoreThreads
from mirrorlake.errors import ChainBrokenError, MirrorlakeError, StoreUnavailableError
from mirrorlake.kafka.records.batches import Path as BatchPath
from mirrorlake.kafka.records.batches import walk
from mirrorlake.offsets import Gap, GapKind, OffsetRange, TopicPartition
from mirrorlake.stores.crash_points import CrashPoint, no_crash
from mirrorlake.stores.filesystem import FilesystemStore
from support.records import build_batch, simple_records

ORDERS = TopicPartition("orders", 0)


class UnpinnedFrame:
    """Bytes that stay put anyway."""

    def pin(self) -> None:
        """Nothing to do."""

    def unpin(self) -> None:
        """Nothing to do."""


def delivery(start: int, count: int) -> Delivery:
    """Records of ``count`` offsets from ``start`` on, in one batch."""
    data = bytearray(build_batch(simple_records(count, start=start)))
    data[:8] = start.to_bytes(8, "big")
    (batch,) = walk(memoryview(data))
    return Delivery(
        covered=OffsetRange(start_offset=start, end_offset=start + count),
        batches=[ClassifiedBatch(batch=batch, path=BatchPath.RAW, reason="dense")],
        frame=UnpinnedFrame(),
        log_start_offset=0,
        end_offset=start + count,
    )


class Bench:
    """A sink, and the folder behind it."""

    def __init__(
        self,
        root: Path,
        executor: ThreadPoolExecutor,
        extension: str,
        *,
        skips: bool,
        records_max: int = 1000,
        last_position: int | None = None,
        crash_point: CrashPoint = no_crash,
    ) -> None:
        self.archived = ArchivedPartition(
            FilesystemStore(root), destination_name="orders", partition=0, extension=extension
        )
        self.settings = ArchiveSettings(
            source=ORDERS,
            destination_name="orders",
            compression="zstd-1",
            records_max=records_max,
            bytes_max=1 << 30,
            cluster_id="cluster",
            topic_id="topic",
            writer="test",
            skips_truncated=skips,
        )
        self.orders = Orders(
            last_position=last_position,
            needs_tail_check=False,
            read_end_offset=30,
            flushes_rest=True,
            rest_trigger="explicit",
        )
        self.store_threads = StoreThreads()
        self.clock = ManualClock()
        self.source_end = 30
        self.tails_checked: list[str] = []
        self.source_looks = 0
        self.sink = ArchiveSink(
            self.settings,
            self.orders,
            archived=self.archived,
            read_end=self.archived.read_chain,
            read_newest=partial(read_newest, self.archived),
            read_source_end=self._read_source_end,
            check_tail=self._check_tail,
            executor=executor,
            store_threads=self.store_threads,
            clock=self.clock,
            may_begin=lambda: True,
            changed=lambda: None,
            crash_point=crash_point,
        )

    async def _check_tail(self, tail: Segment) -> None:
        self.tails_checked.append(str(tail.name))

    async def _read_source_end(self) -> int:
        self.source_looks += 1
        return self.source_end

    def claim(self, end: int) -> None:
        """Leaves the claim of a writer that wanted to end its segment at ``end`` and died."""
        self.archived.publication(0, origin=self.settings.origin, writer="other").claim(end - 1, raw_bytes=1)

    def names(self) -> list[str]:
        """All that is in the partition's folder."""
        return [info.name for info in self.archived.store.list(self.archived.prefix)]

    def held(self) -> list[tuple[str, list[int], tuple[Gap, ...]]]:
        """Each segment: its range, the offsets of its records, its gaps."""
        found = []
        for info in self.archived.store.list(self.archived.prefix):
            with open_segment(self.archived.store, f"{self.archived.prefix}/{info.name}") as segment:
                assert segment.footer is not None
                offsets = [int(o) for columns in segment.records() for o in columns.offsets]
                first, last = (int(part) for part in info.name.split(".")[0].split("-"))
                found.append((f"{first}-{last}", offsets, segment.footer.gaps))
        return found


@pytest.fixture(params=["parquet", "ndjson", "log"])
def extension(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def lost(start: int, end: int) -> Gap:
    return Gap(offsets=OffsetRange(start_offset=start, end_offset=end), kind=GapKind.TRUNCATED)


def test_records_at_hand_are_published_before_the_gap_behind_them(
    tmp_path: Path, executor: ThreadPoolExecutor, extension: str
) -> None:
    bench = Bench(tmp_path, executor, extension, skips=True)

    async def story() -> None:
        await bench.sink.open()
        await bench.sink.deliver(delivery(0, 10))
        assert await bench.sink.starts_at(15)
        assert bench.sink.next_offset == 15
        await bench.sink.deliver(delivery(15, 15))
        await bench.sink.finish()

    asyncio.run(story())
    assert bench.held() == [("0-9", [*range(10)], ()), ("10-29", [*range(15, 30)], (lost(10, 15),))]


def test_what_this_process_has_seen_published_is_no_gap(
    tmp_path: Path, executor: ThreadPoolExecutor, extension: str
) -> None:
    """By another writer, of whose segment it knows the end alone."""
    bench = Bench(tmp_path, executor, extension, skips=True, last_position=12)

    async def story() -> None:
        await bench.sink.open()
        await bench.sink.deliver(delivery(0, 10))
        with pytest.raises(ChainBrokenError, match="this process has seen it end at 12"):
            await bench.sink.starts_at(15)

    asyncio.run(story())
    assert bench.names() == []


def test_a_claimed_segment_goes_on_behind_the_gap(tmp_path: Path, executor: ThreadPoolExecutor, extension: str) -> None:
    bench = Bench(tmp_path, executor, extension, skips=True)
    bench.claim(20)

    async def story() -> None:
        await bench.sink.open()
        await bench.sink.deliver(delivery(0, 10))
        assert await bench.sink.starts_at(15)
        await bench.sink.deliver(delivery(15, 15))
        await bench.sink.finish()

    asyncio.run(story())
    first, second = bench.held()
    assert first == ("0-19", [*range(10), *range(15, 20)], (lost(10, 15),))
    assert second == ("20-29", [*range(20, 30)], ())


def test_a_claim_that_ends_inside_the_gap_is_kept(tmp_path: Path, executor: ThreadPoolExecutor, extension: str) -> None:
    bench = Bench(tmp_path, executor, extension, skips=True)
    bench.claim(13)

    async def story() -> None:
        await bench.sink.open()
        await bench.sink.deliver(delivery(0, 10))
        assert await bench.sink.starts_at(15)
        await bench.sink.deliver(delivery(15, 15))
        await bench.sink.finish()

    asyncio.run(story())
    assert bench.held() == [
        ("0-12", [*range(10)], (lost(10, 13),)),
        ("13-29", [*range(15, 30)], (lost(13, 15),)),
    ]


def test_without_the_policy_nothing_goes_on_behind_a_gap(
    tmp_path: Path, executor: ThreadPoolExecutor, extension: str
) -> None:
    bench = Bench(tmp_path, executor, extension, skips=False)

    async def story() -> None:
        await bench.sink.open()
        await bench.sink.deliver(delivery(0, 10))
        assert not await bench.sink.starts_at(15)
        await bench.sink.finish()

    asyncio.run(story())
    assert bench.held() == []


def test_a_source_that_begins_inside_a_batch_is_archived_from_there(
    tmp_path: Path, executor: ThreadPoolExecutor, extension: str
) -> None:
    bench = Bench(tmp_path, executor, extension, skips=False)

    async def story() -> None:
        await bench.sink.open()
        assert await bench.sink.starts_at(7)
        inside = delivery(0, 30)
        await bench.sink.deliver(replace(inside, covered=OffsetRange(start_offset=7, end_offset=30)))
        await bench.sink.finish()

    asyncio.run(story())
    assert bench.held() == [("0-29", [*range(7, 30)], (lost(0, 7),))]


def test_an_adopted_end_inside_a_batch_is_kept_to_the_offset(
    tmp_path: Path, executor: ThreadPoolExecutor, extension: str
) -> None:
    bench = Bench(tmp_path, executor, extension, skips=False)
    bench.claim(13)

    async def story() -> None:
        await bench.sink.open()
        await bench.sink.deliver(delivery(0, 30))
        await bench.sink.finish()

    asyncio.run(story())
    assert bench.held() == [("0-12", [*range(13)], ()), ("13-29", [*range(13, 30)], ())]
    for info in bench.archived.store.list(bench.archived.prefix):
        with open_segment(bench.archived.store, info.key) as segment:
            segment.check_content()


class Gate:
    """A crash point that holds publications back before a segment is put, until it is opened."""

    def __init__(self) -> None:
        self.waiting = threading.Semaphore(0)
        self.open = threading.Event()
        self.refuses = False

    def __call__(self, step: str) -> None:
        if step == Step.PUBLISH_SEGMENT:
            self.waiting.release()
            assert self.open.wait(30)
            if self.refuses:
                raise StoreUnavailableError("the store is gone")


def test_a_segment_is_written_while_the_one_before_is_on_its_way_and_is_not_seen_before_it(
    tmp_path: Path, executor: ThreadPoolExecutor, extension: str
) -> None:
    gate = Gate()
    bench = Bench(tmp_path, executor, extension, skips=False, records_max=10, crash_point=gate)

    async def story() -> None:
        await bench.sink.open()
        await bench.sink.deliver(delivery(0, 10))
        await asyncio.to_thread(gate.waiting.acquire)  # it is claimed, and not yet put
        await bench.sink.deliver(delivery(10, 5))
        assert bench.sink.next_offset == 15
        assert (bench.sink.progress.position, bench.sink.progress.flushes) == (0, [])
        cutting = asyncio.create_task(bench.sink.deliver(delivery(15, 5)))
        done, _ = await asyncio.wait([cutting], timeout=0.3)
        assert not done, "the second segment is finished, and waits for the first"
        assert bench.names() == [f"_claim-{0:020}"]
        gate.open.set()
        await cutting
        await bench.sink.deliver(delivery(20, 10))
        await bench.sink.finish()

    asyncio.run(story())
    assert [name for name, _, _ in bench.held()] == ["0-9", "10-19", "20-29"]
    assert bench.sink.progress.position == 30
    assert [flush.offsets.start_offset for flush in bench.sink.progress.flushes] == [0, 10, 20]
    assert bench.sink.progress.records == 30


def test_behind_a_segment_that_was_not_published_nothing_is(
    tmp_path: Path, executor: ThreadPoolExecutor, extension: str
) -> None:
    gate = Gate()
    gate.open.set()
    gate.refuses = True
    bench = Bench(tmp_path, executor, extension, skips=False, records_max=10, crash_point=gate)

    async def story() -> None:
        await bench.sink.open()
        await bench.sink.deliver(delivery(0, 10))
        with pytest.raises(StoreUnavailableError, match="gone"):
            await bench.sink.deliver(delivery(10, 10))
        assert bench.sink.failure is not None
        assert bench.sink.is_settled
        gate.refuses = False
        await bench.sink.open()
        assert bench.sink.next_offset == 0
        for start in (0, 10, 20):
            await bench.sink.deliver(delivery(start, 10))
        await bench.sink.finish()

    asyncio.run(story())
    assert [name for name, _, _ in bench.held()] == ["0-9", "10-19", "20-29"]
    assert bench.sink.progress.records == 30
    assert sorted(path.name for path in tmp_path.rglob("*.tmp.*")) == []


def test_a_last_segment_that_was_not_published_is_the_sinks_failure(
    tmp_path: Path, executor: ThreadPoolExecutor, extension: str
) -> None:
    gate = Gate()
    gate.open.set()
    gate.refuses = True
    bench = Bench(tmp_path, executor, extension, skips=False, crash_point=gate)

    async def story() -> None:
        await bench.sink.open()
        await bench.sink.deliver(delivery(0, 30))
        assert (bench.sink.is_done, bench.sink.progress.position) == (True, 0)
        with pytest.raises(StoreUnavailableError, match="gone"):
            await bench.sink.finish()

    asyncio.run(story())
    assert bench.names() == [f"_claim-{0:020}"]
    assert bench.sink.progress.records == 0


@pytest.mark.parametrize("decoded", ["parquet", "ndjson"])  # nobody looks into a batch that is archived as it is
def test_what_is_on_its_way_is_published_though_what_comes_next_is_corrupt(
    tmp_path: Path, executor: ThreadPoolExecutor, decoded: str
) -> None:
    gate = Gate()
    bench = Bench(tmp_path, executor, decoded, skips=False, records_max=10, crash_point=gate)
    broken = delivery(10, 10)
    records = broken.batches[0].batch.payload
    records[:] = b"\xff" * len(records)

    async def story() -> None:
        await bench.sink.open()
        await bench.sink.deliver(delivery(0, 10))
        await asyncio.to_thread(gate.waiting.acquire)
        with pytest.raises(MirrorlakeError):
            await bench.sink.deliver(broken)
        gate.open.set()
        with pytest.raises(MirrorlakeError):
            await bench.sink.finish()

    asyncio.run(story())
    assert [name for name, _, _ in bench.held()] == ["0-9"]
    assert (bench.sink.progress.position, bench.sink.progress.records) == (10, 10)


def test_no_segment_is_published_behind_one_that_is_gone(
    tmp_path: Path, executor: ThreadPoolExecutor, extension: str
) -> None:
    bench = Bench(tmp_path, executor, extension, skips=False, records_max=10)

    async def story() -> None:
        await bench.sink.open()
        await bench.sink.deliver(delivery(0, 10))
        await bench.sink.settle()
        (published,) = (tmp_path / "orders" / "0").glob("0*")
        published.unlink()
        with contextlib.suppress(ChainBrokenError):  # it may be known by the time a second one is cut
            await bench.sink.deliver(delivery(10, 20))
        with pytest.raises(ChainBrokenError, match=f"{published.name} is gone"):
            await bench.sink.finish()

    asyncio.run(story())
    assert [name for name in bench.names() if parse_segment_name(name)] == []


def test_a_segments_latency_is_the_age_of_its_oldest_record_when_it_was_published(
    tmp_path: Path, executor: ThreadPoolExecutor, extension: str
) -> None:
    bench = Bench(tmp_path, executor, extension, skips=False, records_max=20)

    async def story() -> None:
        await bench.sink.open()
        bench.clock.advance(90)
        await bench.sink.deliver(delivery(0, 20))  # record n was written n milliseconds after the clock's start
        await bench.sink.deliver(delivery(20, 10))
        await bench.sink.finish()

    asyncio.run(story())
    assert [name for name, _, _ in bench.held()] == ["0-19", "20-29"]
    assert sum(bench.sink.progress.latencies.values()) == 2
    assert bench.sink.progress.latency_seconds_sum == pytest.approx(90 + (90 - 0.020))


def test_a_log_segments_latency_is_the_age_of_the_first_record_of_a_batch_whatever_is_older_in_it(
    tmp_path: Path, executor: ThreadPoolExecutor
) -> None:
    for extension, age in (("log", 60), ("parquet", 90)):
        folder = tmp_path / extension
        folder.mkdir()
        bench = Bench(folder, executor, extension, skips=False, records_max=2)
        start_ms = round(bench.clock.now_seconds() * 1000)
        records = [
            replace(each, timestamp=start_ms + at) for each, at in zip(simple_records(2), (30_000, 0), strict=True)
        ]
        (batch,) = walk(memoryview(build_batch(records)))
        given = replace(delivery(0, 2), batches=[ClassifiedBatch(batch=batch, path=BatchPath.RAW, reason="dense")])

        async def story(bench: Bench, given: Delivery) -> None:
            await bench.sink.open()
            bench.clock.advance(90)
            await bench.sink.deliver(given)
            await bench.sink.finish()

        asyncio.run(story(bench, given))
        assert bench.sink.progress.latency_seconds_sum == pytest.approx(age), extension
