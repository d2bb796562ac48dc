"""An archive's sink whose source loses records while a segment is open, in each format; a real folder, no broker."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.clock import ManualClock
from mirrorlake.destinations.archive import ArchiveSettings, ArchiveSink
from mirrorlake.destinations.interface import ClassifiedBatch, Delivery
from mirrorlake.kafka.batches import Path as BatchPath
from mirrorlake.kafka.batches import walk
from mirrorlake.offsets import Gap, GapKind, OffsetRange, TopicPartition
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

    def __init__(self, root: Path, executor: ThreadPoolExecutor, extension: str, *, skips: bool) -> None:
        self.archived = ArchivedPartition(
            FilesystemStore(root), destination_name="orders", partition=0, extension=extension
        )
        settings = ArchiveSettings(
            source=ORDERS,
            destination_name="orders",
            compression="zstd-1",
            records_max=1000,
            bytes_max=1 << 30,
            cluster_id="cluster",
            topic_id="topic",
            writer="test",
            skips_truncated=skips,
            read_end_offset=30,
            flushes_rest=True,
            rest_trigger="explicit",
        )
        self.sink = ArchiveSink(
            settings,
            archived=self.archived,
            read_end=self.archived.read_chain,
            executor=executor,
            clock=ManualClock(),
            may_begin=lambda: True,
            changed=lambda: None,
        )

    def claim(self, end: int) -> None:
        """Leaves the claim of a writer that wanted to end its segment at ``end`` and died."""
        self.archived.publication(0, writer="other").claim(end - 1, raw_bytes=1)

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

    asyncio.run(story())
    assert bench.held() == [("0-9", [*range(10)], ()), ("10-29", [*range(15, 30)], (lost(10, 15),))]


def test_a_claimed_segment_goes_on_behind_the_gap(tmp_path: Path, executor: ThreadPoolExecutor, extension: str) -> None:
    bench = Bench(tmp_path, executor, extension, skips=True)
    bench.claim(20)

    async def story() -> None:
        await bench.sink.open()
        await bench.sink.deliver(delivery(0, 10))
        assert await bench.sink.starts_at(15)
        await bench.sink.deliver(delivery(15, 15))

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

    asyncio.run(story())
    assert bench.held() == [("0-12", [*range(13)], ()), ("13-29", [*range(13, 30)], ())]
    for info in bench.archived.store.list(bench.archived.prefix):
        with open_segment(bench.archived.store, info.key) as segment:
            segment.check_content()
