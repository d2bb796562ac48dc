"""Services with different sources that share an archive's folder, both of which began when it was empty."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from mirrorlake.archive.newest import read_newest
from mirrorlake.archive.origin import Origin
from mirrorlake.destinations.archive.sink import ArchiveSettings, ArchiveSink
from mirrorlake.destinations.archive.work import ArchiveWork
from mirrorlake.destinations.snapshots.sink import SnapshotSink
from mirrorlake.errors import ChainBrokenError, OtherSourceError, TopicRecreatedError
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.drift import look_at_tail
from mirrorlake.stores.settings import FilesystemSettings
from support.snapshots import names, snapshots
from unit.destinations.archive.test_sink import Bench, delivery
from unit.destinations.snapshots.test_sink import Bench as SnapshotBench
from unit.destinations.snapshots.test_sink import record

EAST = Origin(cluster_id="east-id", topic="orders", topic_id="t-1", partition=0)

OTHERS = [
    pytest.param(replace(EAST, cluster_id="west-id"), OtherSourceError, id="another cluster"),
    pytest.param(replace(EAST, topic="orders.2", topic_id="t-2"), OtherSourceError, id="a topic named as the folder"),
    pytest.param(replace(EAST, topic_id="t-2"), TopicRecreatedError, id="the recreated topic"),
]


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def of(
    sink: ArchiveSink | SnapshotSink,
    origin: Origin,
    *,
    destination_name: str = "orders",
    mirror_v3_end: int | None = None,
    **orders: object,
) -> ArchiveSettings:
    """Makes a sink one of another source; returns its settings."""
    sink._settings = replace(
        sink._settings,
        source=TopicPartition(origin.topic, origin.partition),
        cluster_id=origin.cluster_id,
        topic_id=origin.topic_id or "",
        writer=origin.cluster_id,
        destination_name=destination_name,
        mirror_v3_end=mirror_v3_end,
    )
    sink._orders = replace(sink._orders, **orders)  # type: ignore[arg-type]
    return sink._settings


def archive(root: Path, executor: ThreadPoolExecutor, extension: str, origin: Origin, *, end: int) -> Bench:
    """A lease of the service of a source, which has records up to ``end``."""
    bench = Bench(root, executor, extension, skips=False)
    of(bench.sink, origin, read_end_offset=end)
    return bench


async def copy(bench: Bench, start: int, count: int) -> None:
    await bench.sink.open()
    await bench.sink.deliver(delivery(start, count))
    await bench.sink.finish()


@pytest.mark.parametrize("extension", ["parquet", "ndjson", "log"])
@pytest.mark.parametrize(("other", "error"), OTHERS)
def test_an_archive_goes_on_behind_a_segment_of_its_own_source_alone(
    tmp_path: Path, executor: ThreadPoolExecutor, extension: str, other: Origin, error: type[Exception]
) -> None:
    first = archive(tmp_path, executor, extension, EAST, end=10)
    second = archive(tmp_path, executor, extension, other, end=30)
    asyncio.run(copy(first, 0, 10))
    # The second one's service looked at the empty folder at its start.
    with pytest.raises(error, match=r"00000000000000000009\.[a-z]+ was written|was written from the one before"):
        asyncio.run(second.sink.open())
    assert len(first.names()) == 1
    # Its drift watch says the same, with or without a claim of its own.
    work = ArchiveWork(destination="d", store=FilesystemSettings(root=tmp_path), settings=second.sink._settings)
    with pytest.raises(error):
        look_at_tail(second.archived, None, work)
    # The first one is not held up.
    again = archive(tmp_path, executor, extension, EAST, end=20)
    asyncio.run(copy(again, 10, 10))
    assert len(first.names()) == 2


@pytest.mark.parametrize(("other", "error"), OTHERS)
def test_an_archive_adopts_claims_of_its_own_source_alone(
    tmp_path: Path, executor: ThreadPoolExecutor, other: Origin, error: type[Exception]
) -> None:
    bench = archive(tmp_path, executor, "parquet", EAST, end=30)
    bench.archived.publication(0, origin=other, writer="other's").claim(19, raw_bytes=1)
    with pytest.raises(error, match=r"orders/0/_claim-00000000000000000000 was claimed by other's") as found:
        asyncio.run(bench.sink.open())
    assert "delete orders/0/_claim-00000000000000000000" in getattr(found.value, "hint", "")
    assert bench.names() == ["_claim-00000000000000000000"]


def test_one_that_finds_the_other_in_the_middle_of_a_segment_publishes_nothing(
    tmp_path: Path, executor: ThreadPoolExecutor
) -> None:
    first = archive(tmp_path, executor, "parquet", EAST, end=10)
    second = archive(tmp_path, executor, "parquet", replace(EAST, cluster_id="west-id"), end=30)

    async def story() -> None:
        await second.sink.open()
        await second.sink.deliver(delivery(0, 20))
        await copy(first, 0, 10)
        await second.sink.deliver(delivery(20, 10))
        await second.sink.settle()

    with pytest.raises(Exception, match="another writer has moved the archive's position from 0 to 10"):
        asyncio.run(story())
    with pytest.raises(OtherSourceError):
        asyncio.run(second.sink.open())
    assert [name for name, _, _ in first.held()] == ["0-9"]


def test_what_a_lease_was_told_of_is_not_looked_at_and_what_came_since_is_looked_at_once(
    tmp_path: Path, executor: ThreadPoolExecutor
) -> None:
    first = archive(tmp_path, executor, "parquet", EAST, end=10)
    asyncio.run(copy(first, 0, 10))
    looked: list[str] = []
    second = archive(tmp_path, executor, "parquet", EAST, end=20)
    second.sink._read_newest = lambda tail: looked.append(str(tail.name)) or read_newest(second.archived, tail)  # type: ignore[func-returns-value]
    asyncio.run(second.sink.open())
    assert looked == [f"{0:020}-{9:020}.parquet"]
    of(second.sink, EAST, known_tail=second.archived.read_chain().tail)
    asyncio.run(second.sink.open())
    assert len(looked) == 1


def test_a_file_by_mirror_v3_that_came_while_the_service_ran_is_not_gone_on_behind(
    tmp_path: Path, executor: ThreadPoolExecutor
) -> None:
    """It does not say whose records it holds: a start takes it as its own, with its warning, and a lease does not."""
    bench = archive(tmp_path, executor, "ndjson", EAST, end=30)
    folder = tmp_path / "orders" / "0"
    folder.mkdir(parents=True)
    last = '{"topic":"orders","partition":0,"offset":9,"timestamp_type":"create_time"}\n'
    (folder / f"{0:020}-{9:020}.ndjson").write_text(last)
    with pytest.raises(ChainBrokenError, match="was not written by mirrorlake, and nothing was there before"):
        asyncio.run(bench.sink.open())
    of(bench.sink, EAST, mirror_v3_end=10)
    asyncio.run(bench.sink.open())
    assert bench.sink.next_offset == 10


def test_a_log_whose_description_is_lost_is_not_gone_on_behind(tmp_path: Path, executor: ThreadPoolExecutor) -> None:
    """Its batches can be read, and do not say from which topic they are."""
    asyncio.run(copy(archive(tmp_path, executor, "log", EAST, end=10), 0, 10))
    (description,) = (tmp_path / "orders/_meta/0").glob("*.json")
    description.unlink()
    again = archive(tmp_path, executor, "log", EAST, end=30)
    with pytest.raises(ChainBrokenError, match=r"\.log has no description .*: its records can be read"):
        asyncio.run(again.sink.open())


def test_every_record_is_not_archived_behind_a_snapshot(tmp_path: Path, executor: ThreadPoolExecutor) -> None:
    views = SnapshotBench(tmp_path, executor)
    views.log.append(record(b"k", b"v"), record(b"l", b"v"))
    origin = Origin(cluster_id="cluster", topic="users", topic_id="topic", partition=0)
    views.lease()
    bench = Bench(tmp_path, executor, "parquet", skips=False)
    settings = of(bench.sink, origin, destination_name="users")
    bench.sink._archived = bench.archived = type(bench.archived)(
        bench.archived.store, destination_name="users", partition=0, extension="parquet"
    )
    bench.sink._read_end = bench.archived.read_chain
    bench.sink._read_newest = lambda tail: read_newest(bench.archived, tail)
    assert settings.destination_name == "users"
    with pytest.raises(ChainBrokenError, match="belongs to snapshots of the latest record per key"):
        asyncio.run(bench.sink.open())


@pytest.mark.parametrize(("other", "error"), OTHERS)
def test_a_view_is_made_of_one_source_alone(
    tmp_path: Path, executor: ThreadPoolExecutor, other: Origin, error: type[Exception]
) -> None:
    first, second = SnapshotBench(tmp_path, executor), SnapshotBench(tmp_path, executor)
    first.log.append(record(b"first-only", b"X"), record(b"both", b"X"))
    second.log.append(*(record(b"k%d" % n, b"Y") for n in range(4)))
    sink = first.sink()
    of(sink, EAST)
    asyncio.run(first._run(sink))
    sink = second.sink()
    of(sink, other)
    with pytest.raises(error):
        asyncio.run(second._run(sink))
    (name,) = names(tmp_path, "users")
    assert sorted(pq.read_table(tmp_path / "users" / "0" / name)["value"].to_pylist()) == [b"X", b"X"]


def test_a_view_is_not_cut_where_another_source_claimed(tmp_path: Path, executor: ThreadPoolExecutor) -> None:
    bench = SnapshotBench(tmp_path, executor)
    bench.log.append(*(record(b"k%d" % n, b"v") for n in range(5)))
    snapshots(tmp_path, "users").publication(0, origin=EAST, writer="other's").claim(1, raw_bytes=1)
    with pytest.raises(OtherSourceError, match="was claimed by other's"):
        bench.lease()
