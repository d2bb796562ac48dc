"""The sink of snapshots over a log that is cleaned and loses its beginning; a real folder, no broker."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.snapshots.tombstones import SnapshotRule
from mirrorlake.clock import ManualClock
from mirrorlake.destinations.archive.sink import ArchiveSettings
from mirrorlake.destinations.interface import ClassifiedBatch, Delivery
from mirrorlake.destinations.orders import Orders
from mirrorlake.destinations.snapshots.sink import SnapshotSink
from mirrorlake.errors import ChainBrokenError, PositionMovedError, RecordRefusedError
from mirrorlake.kafka.records.batches import Path as BatchPath
from mirrorlake.kafka.records.batches import walk
from mirrorlake.offsets import Gap, GapKind, OffsetRange, TopicPartition
from mirrorlake.stores.filesystem import FilesystemStore
from support.archived_source import without_blocks
from support.records import Record, build_batch
from support.snapshots import latest, names, snapshots, view
from unit.destinations.archive.test_sink import UnpinnedFrame

COMPACTED = SnapshotRule(tombstones_kept_seconds=100.0, keeps_what_retention_took=False)
COMPACTED_AND_DELETED = SnapshotRule(tombstones_kept_seconds=100.0, keeps_what_retention_took=True)
DELETED = SnapshotRule(tombstones_kept_seconds=None, keeps_what_retention_took=True)


def record(key: bytes | None, value: bytes | None) -> Record:
    return Record(1_700_000_000_000, key, value)


class Log:
    """A source's partition: what is left of it, where it starts and ends."""

    def __init__(self) -> None:
        self.records: dict[int, Record] = {}
        self.start = 0
        self.end = 0
        self.leader_epoch = 1

    def append(self, *records: Record) -> None:
        for each in records:
            self.records[self.end] = each
            self.end += 1

    def clean(self) -> None:
        """What the cleaner leaves once ``delete.retention.ms`` is over: the latest of each key, no tombstone."""
        newest = {each.key: offset for offset, each in self.records.items()}
        self.records = {o: r for o, r in self.records.items() if newest[r.key] == o and r.value is not None}

    def lose(self, start: int) -> None:
        """What retention or DeleteRecords does."""
        self.start = start
        self.records = {offset: each for offset, each in self.records.items() if offset >= start}

    def delivery(self, start: int, end: int) -> Delivery:
        """One batch a record, as the cleaner leaves gaps."""
        batches = []
        for offset, each in self.records.items():
            if start <= offset < end:
                data = bytearray(build_batch([each]))
                data[:8] = offset.to_bytes(8, "big")
                (batch,) = walk(memoryview(data))
                batches.append(ClassifiedBatch(batch=batch, path=BatchPath.RAW, reason="dense"))
        return Delivery(
            covered=OffsetRange(start_offset=start, end_offset=end),
            batches=batches,
            frame=UnpinnedFrame(),
            log_start_offset=self.start,
            end_offset=self.end,
            leader_epoch=self.leader_epoch,
        )

    def led_by_a_replica_that_was_cleaned(self) -> "Log":
        """The same log on another broker, whose cleaner has come by and is long done, now that it leads."""
        other = Log()
        other.records, other.start, other.end = dict(self.records), self.start, self.end
        other.leader_epoch = self.leader_epoch + 1
        other.clean()
        return other


class Bench:
    """Leases of one partition, one after the other; each reads the log in pieces of ``fetch_offsets``."""

    def __init__(self, root: Path, executor: ThreadPoolExecutor) -> None:
        self.root = root
        self.log = Log()
        self.clock = ManualClock()
        self.rule = COMPACTED
        self.skips = False
        self.records_max = 1000
        self.fetch_offsets = 3
        self.mirror_v3_end: int | None = None
        self.snapshots_of_a_lease = 1000
        self.offsets_read: list[int] = []
        self._executor = executor

    def sink(self, *, writer: str = "test") -> SnapshotSink:
        settings = ArchiveSettings(
            source=TopicPartition("users", 0),
            destination_name="users",
            compression="zstd-1",
            records_max=self.records_max,
            bytes_max=1 << 30,
            cluster_id="cluster",
            topic_id="topic",
            writer=writer,
            skips_truncated=self.skips,
            snapshots=self.rule,
            mirror_v3_end=self.mirror_v3_end,
        )
        orders = Orders(read_end_offset=self.log.end, flushes_rest=True, rest_trigger="explicit")
        folder = snapshots(self.root, "users")
        sink = SnapshotSink(
            settings,
            orders,
            folder=folder,
            read_end=folder.read_chain,
            read_source_end=self._read_source_end,
            executor=self._executor,
            clock=self.clock,
            may_begin=lambda: len(sink.progress.flushes) < self.snapshots_of_a_lease,
            changed=lambda: None,
        )
        return sink

    async def _read_source_end(self) -> int:
        return self.log.end

    def lease(self) -> SnapshotSink:
        """Brings the view to the log's end, or as far as the sink wants."""
        sink = self.sink()
        asyncio.run(self._run(sink))
        return sink

    async def _run(self, sink: SnapshotSink) -> None:
        await sink.open()
        while not sink.is_done:
            start = sink.next_offset
            if start < self.log.start:
                if not await sink.starts_at(self.log.start):
                    return
                continue
            end = min(start + self.fetch_offsets, self.log.end)
            self.offsets_read += range(start, end)
            try:
                await sink.deliver(self.log.delivery(start, end))
            except PositionMovedError:
                await sink.open()
        await sink.finish()

    def held(self) -> dict[bytes, bytes]:
        return {each.key or b"": each.value or b"" for each in view(self.root, "users").values()}

    def ranges(self) -> list[str]:
        return [
            "-".join(str(int(part)) for part in name.split(".")[0].split("-")) for name in names(self.root, "users")
        ]

    def gaps(self, name: str) -> tuple[Gap, ...]:
        folder = snapshots(self.root, "users")
        with open_segment(folder.store, f"{folder.prefix}/{name}") as segment:
            assert segment.footer is not None
            return segment.footer.gaps


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with ThreadPoolExecutor(1) as pool:
        yield Bench(tmp_path, pool)


def test_each_snapshot_is_the_whole_view_in_the_order_of_keys(bench: Bench) -> None:
    bench.log.append(record(b"b", b"1"), record(b"\xff", b"2"), record(b"a", b"3"), record(b"b", b"4"))
    bench.lease()
    assert list(bench.held().items()) == [(b"a", b"3"), (b"b", b"4"), (b"\xff", b"2")]
    bench.log.append(record(b"a", None), record(b"c", b"5"), record(b"", b""))
    sink = bench.lease()
    assert list(bench.held().items()) == [(b"", b""), (b"b", b"4"), (b"c", b"5"), (b"\xff", b"2")]
    assert bench.ranges() == ["0-3", "4-6"]
    assert view(bench.root, "users") == latest(bench.log.records.items())
    assert (sink.progress.start_offset, sink.progress.position, sink.progress.records) == (4, 7, 3)
    assert [flush.trigger for flush in sink.progress.flushes] == ["explicit"]


def test_a_bound_on_records_cuts_a_snapshot_each_time(bench: Bench) -> None:
    bench.records_max = 4
    bench.log.append(*(record(b"k%d" % (n % 3), b"%d" % n) for n in range(10)))
    sink = bench.lease()
    assert bench.ranges() == ["0-3", "4-7", "8-9"]
    assert [flush.trigger for flush in sink.progress.flushes] == ["max-offsets", "max-offsets", "explicit"]
    assert bench.held() == {b"k0": b"9", b"k1": b"7", b"k2": b"8"}


def test_older_snapshots_may_be_removed(bench: Bench) -> None:
    bench.records_max = 4
    bench.log.append(*(record(b"k%d" % (n % 3), b"%d" % n) for n in range(8)))
    bench.lease()
    (bench.root / "users/0" / names(bench.root, "users")[0]).unlink()
    bench.log.append(record(b"k0", None))
    bench.lease()
    assert bench.ranges() == ["4-7", "8-8"]
    assert bench.held() == {b"k1": b"7", b"k2": b"5"}


def test_the_view_before_counts_where_the_newest_was_removed(bench: Bench) -> None:
    bench.log.append(record(b"a", b"1"))
    bench.lease()
    bench.log.append(record(b"b", b"2"))
    bench.lease()
    (bench.root / "users/0" / names(bench.root, "users")[1]).unlink()
    bench.log.append(record(b"c", b"3"))
    bench.lease()
    assert bench.ranges() == ["0-0", "1-2"]
    assert bench.held() == {b"a": b"1", b"b": b"2", b"c": b"3"}


def test_a_new_view_begins_where_the_log_does(bench: Bench) -> None:
    bench.log.append(*(record(b"k%d" % n, b"v") for n in range(6)))
    bench.log.lose(4)
    bench.lease()
    assert bench.ranges() == ["0-5"]
    assert bench.held() == {b"k4": b"v", b"k5": b"v"}
    lost = OffsetRange(start_offset=0, end_offset=4)
    assert bench.gaps(names(bench.root, "users")[0]) == (Gap(offsets=lost, kind=GapKind.TRUNCATED),)


def test_a_log_of_which_nothing_is_left_makes_an_empty_view(bench: Bench) -> None:
    bench.log.append(record(b"k", b"v"))
    bench.log.lose(1)
    bench.lease()
    assert (bench.ranges(), bench.held()) == (["0-0"], {})


def test_a_record_without_a_key_is_named_and_nothing_is_published(bench: Bench) -> None:
    bench.log.append(record(b"a", b"1"), record(b"b", b"2"), record(None, b"3"))
    with pytest.raises(RecordRefusedError, match=r"users-0 has a record without a key at offset 2") as caught:
        bench.lease()
    assert caught.value.facts == {"topic": "users", "partition": 0, "offset": 2}
    assert "compaction" in caught.value.hint
    assert bench.ranges() == []


def mirrored_then_purged(bench: Bench) -> None:
    """A key is mirrored, then deleted, and its tombstone gone before the mirror looks again."""
    bench.log.append(record(b"gone", b"1"), record(b"kept", b"2"))
    bench.lease()
    assert set(bench.held()) == {b"gone", b"kept"}
    bench.log.append(record(b"gone", None), record(b"new", b"3"))
    bench.log.clean()
    assert [each.key for each in bench.log.records.values()] == [b"kept", b"new"]


def test_a_key_whose_tombstone_was_purged_goes_with_the_next_snapshot(bench: Bench) -> None:
    mirrored_then_purged(bench)
    bench.clock.advance(51)  # half of the time the source keeps tombstones, and a second
    sink = bench.lease()
    assert bench.held() == {b"kept": b"2", b"new": b"3"}
    assert bench.ranges() == ["0-1", "2-3"]
    assert [flush.trigger for flush in sink.progress.flushes] == ["rebuilt"]
    assert sink.progress.records == 1, "records below the position are read again, and not counted again"


def test_a_log_that_has_lost_nothing_is_read_on_however_late(bench: Bench) -> None:
    bench.log.append(record(b"gone", b"1"), record(b"kept", b"2"))
    bench.lease()
    for _ in range(3):  # an exact view stays exact
        bench.log.append(record(b"gone", None), record(b"new", b"3"), record(b"new", b"4"))
        bench.clock.advance(3600)
        bench.offsets_read.clear()
        sink = bench.lease()
        assert [flush.trigger for flush in sink.progress.flushes] == ["explicit"]
        assert bench.offsets_read == list(range(bench.log.end - 3, bench.log.end))
    assert bench.held() == {b"kept": b"2", b"new": b"4"}


def test_a_record_lost_in_the_middle_is_enough_to_build_anew(bench: Bench) -> None:
    bench.log.append(record(b"gone", b"1"), record(b"kept", b"2"))
    bench.lease()
    bench.log.append(*(record(b"k%d" % n, b"v") for n in range(5)), record(b"gone", None), record(b"last", b"v"))
    del bench.log.records[7], bench.log.records[0]
    bench.clock.advance(51)
    bench.offsets_read.clear()
    sink = bench.lease()
    assert [flush.trigger for flush in sink.progress.flushes] == ["rebuilt"]
    assert bench.offsets_read == [2, 3, 4, 5, 6, 7, *range(9)]
    assert b"gone" not in bench.held()


def test_what_came_before_the_lost_record_is_published_where_a_bound_cuts_it(bench: Bench) -> None:
    bench.log.append(record(b"gone", b"1"), record(b"kept", b"2"))
    bench.lease()
    bench.log.append(*(record(b"k%d" % n, b"v") for n in range(5)), record(b"gone", None), record(b"last", b"v"))
    del bench.log.records[7], bench.log.records[0]
    bench.clock.advance(51)
    bench.records_max = 3
    sink = bench.lease()
    assert bench.ranges() == ["0-1", "2-4", "5-8"]
    assert [flush.trigger for flush in sink.progress.flushes] == ["max-offsets", "rebuilt"]
    assert b"gone" not in bench.held()


def read_slowly(bench: Bench, seconds: float) -> None:
    """A lease in which so much time passes before the last record is read."""
    sink = bench.sink()

    async def story() -> None:
        await sink.open()
        await sink.deliver(bench.log.delivery(sink.next_offset, bench.log.end - 1))
        bench.clock.advance(seconds)
        await sink.deliver(bench.log.delivery(bench.log.end - 1, bench.log.end))
        await sink.finish()

    asyncio.run(story())


def test_a_view_that_took_long_to_read_is_built_anew_whatever_the_log_holds(bench: Bench) -> None:
    bench.log.append(record(b"gone", b"1"), record(b"gone", None), record(b"kept", b"2"))
    del bench.log.records[1]  # gone between the two deliveries
    read_slowly(bench, 50)
    assert set(bench.held()) == {b"gone", b"kept"}
    del bench.log.records[0]
    bench.log.append(record(b"new", b"3"))
    sink = bench.lease()
    assert [flush.trigger for flush in sink.progress.flushes] == ["rebuilt"]
    assert set(bench.held()) == {b"kept", b"new"}


def test_an_exact_view_that_is_brought_further_too_slowly_is_exact_no_more(bench: Bench) -> None:
    bench.log.append(record(b"gone", b"1"), record(b"kept", b"2"))
    bench.lease()
    bench.log.append(record(b"new", b"3"), record(b"gone", None))
    del bench.log.records[3], bench.log.records[0]  # gone between the two deliveries
    read_slowly(bench, 50)
    assert set(bench.held()) == {b"gone", b"kept", b"new"}
    bench.log.append(record(b"new", b"4"))
    sink = bench.lease()
    assert [flush.trigger for flush in sink.progress.flushes] == ["rebuilt"]
    assert set(bench.held()) == {b"kept", b"new"}


def test_a_view_read_in_less_than_half_of_the_time_is_exact(bench: Bench) -> None:
    bench.log.append(record(b"a", b"1"), record(b"b", b"2"))
    read_slowly(bench, 49)
    bench.log.append(record(b"a", None))
    bench.clock.advance(3600)
    sink = bench.lease()
    assert [flush.trigger for flush in sink.progress.flushes] == ["explicit"]
    assert set(bench.held()) == {b"b"}


def test_while_tombstones_cannot_have_gone_the_view_is_brought_further(bench: Bench) -> None:
    mirrored_then_purged(bench)  # sooner than Kafka would: so that the difference is seen
    bench.clock.advance(49)
    sink = bench.lease()
    assert [flush.trigger for flush in sink.progress.flushes] == ["explicit"]
    assert set(bench.held()) == {b"gone", b"kept", b"new"}


def test_a_clock_that_was_set_back_is_not_believed(bench: Bench) -> None:
    mirrored_then_purged(bench)
    bench.clock.advance(-3600)
    bench.lease()
    assert set(bench.held()) == {b"kept", b"new"}


def test_a_view_behind_the_end_is_as_old_as_the_one_it_came_from(bench: Bench) -> None:
    bench.records_max = 2
    bench.log.append(record(b"gone", b"1"), record(b"a", b"2"), record(b"b", b"3"))
    sink = bench.sink()
    bench.log.append(record(b"gone", None))

    async def first_snapshot_only() -> None:
        await sink.open()
        await sink.deliver(bench.log.delivery(0, 2))
        await sink.finish()

    asyncio.run(first_snapshot_only())
    bench.clock.advance(40)
    bench.records_max = 1
    sink = bench.sink()

    async def second_snapshot_only() -> None:
        await sink.open()
        await sink.deliver(bench.log.delivery(2, 3))
        await sink.finish()

    asyncio.run(second_snapshot_only())
    assert bench.ranges() == ["0-1", "2-2"]
    bench.clock.advance(20)  # 20 s after the second, 60 after the first: the tombstone at 3 was there at the first
    bench.log.clean()
    bench.log.append(record(b"c", b"4"))
    bench.lease()
    assert set(bench.held()) == {b"a", b"b", b"c"}


def test_what_retention_took_stays_where_the_source_deletes_by_age_too(bench: Bench) -> None:
    bench.rule = COMPACTED_AND_DELETED
    bench.log.append(record(b"old", b"1"), record(b"gone", b"2"), record(b"kept", b"3"))
    bench.lease()
    bench.log.append(record(b"gone", None), record(b"new", b"4"))
    bench.log.clean()
    bench.log.lose(1)
    bench.clock.advance(51)
    bench.lease()
    assert set(bench.held()) == {b"old", b"kept", b"new"}


def test_what_the_log_lost_goes_where_the_source_is_compacted_only(bench: Bench) -> None:
    bench.log.append(record(b"old", b"1"), record(b"kept", b"3"))
    bench.lease()
    bench.log.append(record(b"new", b"4"), record(b"new", b"5"))
    bench.log.clean()
    bench.log.lose(1)
    bench.clock.advance(51)
    bench.lease()
    assert set(bench.held()) == {b"kept", b"new"}


def test_records_deleted_past_the_position_stop_the_view_unless_allowed(bench: Bench) -> None:
    bench.rule = DELETED
    bench.log.append(record(b"a", b"1"))
    bench.lease()
    bench.log.append(record(b"b", b"2"), record(b"c", b"3"))
    bench.log.lose(2)
    sink = bench.lease()
    assert (sink.progress.position, bench.ranges()) == (1, ["0-0"])
    bench.skips = True
    bench.lease()
    assert bench.ranges() == ["0-0", "1-2"]
    assert bench.held() == {b"a": b"1", b"c": b"3"}
    lost = OffsetRange(start_offset=1, end_offset=2)
    assert bench.gaps(names(bench.root, "users")[1]) == (Gap(offsets=lost, kind=GapKind.TRUNCATED),)


def test_where_tombstones_may_have_been_deleted_too_the_view_is_built_anew(bench: Bench) -> None:
    bench.skips = True
    bench.log.append(record(b"gone", b"1"))
    bench.lease()
    bench.log.append(record(b"gone", None), record(b"c", b"3"))
    bench.log.lose(2)
    bench.lease()
    assert bench.held() == {b"c": b"3"}


def test_a_log_that_loses_its_beginning_while_a_view_is_built_anew_is_read_again(bench: Bench) -> None:
    mirrored_then_purged(bench)
    bench.clock.advance(51)
    sink = bench.sink()

    async def story() -> None:
        await sink.open()
        with pytest.raises(PositionMovedError, match="may have lost a tombstone at offset 2"):
            await sink.deliver(bench.log.delivery(2, 4))
        await sink.open()
        await sink.deliver(bench.log.delivery(0, 1))
        bench.log.lose(2)
        with pytest.raises(PositionMovedError, match="deleted records up to offset 2"):
            await sink.starts_at(2)
        await sink.finish()

    asyncio.run(story())
    assert bench.ranges() == ["0-1"]


@pytest.mark.parametrize("is_new", [True, False])
def test_records_deleted_under_the_reader_are_not_passed_over_where_tombstones_may_be_among_them(
    bench: Bench, is_new: bool
) -> None:
    bench.skips = True
    if not is_new:
        bench.log.append(record(b"old", b"0"))
        bench.lease()
    first = bench.log.end
    bench.log.append(record(b"gone", b"1"), record(b"gone", None), record(b"kept", b"2"))
    sink = bench.sink()

    async def story() -> None:
        await sink.open()
        await sink.deliver(bench.log.delivery(first, first + 1))
        bench.log.lose(first + 2)
        with pytest.raises(PositionMovedError, match="while its view was being built"):
            await sink.starts_at(first + 2)
        await bench._run(sink)

    asyncio.run(story())
    assert set(bench.held()) == {b"kept"}


def test_a_claim_left_by_another_writer_says_where_the_snapshot_ends(bench: Bench) -> None:
    bench.log.append(*(record(b"k%d" % n, b"v") for n in range(5)))
    folder = snapshots(bench.root, "users")
    folder.publication(0, origin=bench.sink()._settings.origin, writer="other").claim(1, raw_bytes=1)
    sink = bench.lease()
    assert bench.ranges() == ["0-1", "2-4"]
    assert [flush.trigger for flush in sink.progress.flushes] == ["adopted", "explicit"]


def test_of_two_writers_at_one_position_the_second_reads_again(bench: Bench) -> None:
    bench.log.append(*(record(b"k%d" % n, b"v") for n in range(5)))
    slow = bench.sink(writer="slow")

    async def story() -> None:
        await slow.open()
        await slow.deliver(bench.log.delivery(0, 2))
        await bench._run(bench.sink(writer="quick"))
        with pytest.raises(PositionMovedError, match="from 0 to 5"):
            await slow.deliver(bench.log.delivery(2, 5))
        await slow.open()
        assert slow.is_done

    asyncio.run(story())
    assert bench.ranges() == ["0-4"]


@pytest.mark.parametrize("written_by", ["this version", "one without block checksums"])
def test_a_changed_byte_of_the_newest_snapshot_is_refused_and_not_in_the_next_one(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, written_by: str
) -> None:
    if written_by != "this version":
        without_blocks(monkeypatch)
    bench.log.append(*(record(b"k%d" % n, b"value %d" % n) for n in range(20)))
    bench.lease()
    (name,) = names(bench.root, "users")
    file = bench.root / "users/0" / name
    whole = file.read_bytes()
    footer_bytes = int.from_bytes(whole[-8:-4], "little") + 8
    bench.log.append(record(b"other", b"1"))
    for place in range(4, len(whole) - footer_bytes, 7):
        file.write_bytes(whole[:place] + bytes((whole[place] ^ 1,)) + whole[place + 1 :])
        with pytest.raises(ChainBrokenError, match=name):
            bench.lease()
        assert names(bench.root, "users") == [name], f"byte {place}"
    file.write_bytes(whole)
    bench.lease()
    assert view(bench.root, "users") == latest(bench.log.records.items())


def test_an_archive_of_every_record_is_not_continued_as_snapshots(bench: Bench) -> None:
    folder = bench.root / "users/0"
    folder.mkdir(parents=True)
    archive = ArchivedPartition(FilesystemStore(bench.root), destination_name="users", partition=0, extension="parquet")
    schema = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.uint64())])
    schema = schema.append(pa.field("timestamp_ms", pa.int64())).append(pa.field("timestamp_type", pa.string()))
    schema = schema.append(pa.field("key", pa.large_binary())).append(pa.field("value", pa.large_binary()))
    item = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.large_binary())])
    schema = schema.append(pa.field("headers", pa.list_(item)))

    def write(keys: list[bytes | None], values: list[bytes | None]) -> None:
        rows = [
            {"topic": "users", "partition": 0, "offset": n, "timestamp_ms": 1, "timestamp_type": "create_time"}
            | {"key": key, "value": value, "headers": []}
            for n, (key, value) in enumerate(zip(keys, values, strict=True))
        ]
        path = folder / f"{0:020}-{len(keys) - 1:020}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema), path)

    bench.log.append(record(b"b", b"1"), record(b"a", b"2"), record(b"c", b"3"))
    flawed: list[tuple[list[bytes | None], list[bytes | None]]] = [
        ([b"b", b"a"], [b"1", b"2"]),
        ([b"a", None], [b"1", b"2"]),
        ([b"a", b"b"], [b"1", None]),
    ]
    bench.mirror_v3_end = 2  # as the service's start sees it
    for keys, values in flawed:
        write(keys, values)
        assert archive.read_chain().position == 2
        with pytest.raises(ChainBrokenError, match="is not a snapshot"):
            bench.lease()
    # In order of its keys it may be mirror-v3's; since when it is complete it does not say.
    write([b"a", b"gone"], [b"2", b"1"])
    bench.lease()
    assert bench.held() == {b"a": b"2", b"b": b"1", b"c": b"3"}
    bench.rule = DELETED
    (folder / names(bench.root, "users")[1]).unlink()
    bench.lease()
    assert bench.held() == {b"a": b"2", b"gone": b"1", b"c": b"3"}


def test_a_key_deleted_at_a_leader_that_cleans_later_is_not_kept_when_another_one_leads(bench: Bench) -> None:
    """Each replica cleans for itself: what the first had of the view is no word about what the second has removed."""
    bench.log.append(record(b"gone", b"1"), record(b"kept", b"1"), record(b"gone", None), record(b"last", b"1"))
    bench.records_max, bench.snapshots_of_a_lease = 2, 1
    bench.lease()
    assert bench.held() == {b"gone": b"1", b"kept": b"1"}
    bench.log = bench.log.led_by_a_replica_that_was_cleaned()
    bench.records_max, bench.snapshots_of_a_lease = 1000, 1000
    bench.lease()
    assert bench.held() == {b"kept": b"1", b"last": b"1"}


def test_a_view_goes_on_under_another_leader_that_has_every_offset(bench: Bench) -> None:
    bench.log.append(record(b"gone", b"1"), record(b"kept", b"1"), record(b"gone", None), record(b"last", b"1"))
    bench.records_max, bench.snapshots_of_a_lease = 2, 1
    bench.lease()
    bench.log.leader_epoch += 1
    bench.records_max, bench.snapshots_of_a_lease = 1000, 1000
    bench.offsets_read.clear()
    bench.lease()
    assert bench.held() == {b"kept": b"1", b"last": b"1"}
    assert min(bench.offsets_read) == 2, "nothing was read again"


@pytest.mark.parametrize("leader_epoch", [1, -1])
def test_a_leader_is_the_same_where_its_epoch_is_and_an_epoch_that_is_not_known_is_none(
    bench: Bench, leader_epoch: int
) -> None:
    bench.log.append(record(b"a", b"1"), record(b"b", b"1"), record(b"c", b"1"), record(b"a", b"2"))
    bench.log.leader_epoch = leader_epoch
    bench.records_max, bench.snapshots_of_a_lease = 2, 1
    bench.lease()
    del bench.log.records[2]  # it is not dense any more
    bench.records_max, bench.snapshots_of_a_lease = 1000, 1000
    bench.offsets_read.clear()
    bench.lease()
    assert (min(bench.offsets_read) == 2) == (leader_epoch == 1)


def test_a_view_that_reached_the_sources_end_holds_for_every_leader(bench: Bench) -> None:
    """No replica cleans past the last stable offset, so that nothing past it could have been removed anywhere."""
    bench.log.append(record(b"a", b"1"), record(b"b", b"1"))
    bench.lease()
    bench.log.append(record(b"b", b"2"), record(b"b", b"3"))
    bench.log = bench.log.led_by_a_replica_that_was_cleaned()
    bench.offsets_read.clear()
    bench.lease()
    assert bench.held() == {b"a": b"1", b"b": b"3"}
    assert min(bench.offsets_read) == 2, "nothing was read again"


def test_a_snapshots_latency_is_the_age_of_its_newest_record_when_it_was_published(bench: Bench) -> None:
    began_ms = int(bench.clock.now_seconds() * 1000)
    for second, key in ((0, b"old"), (100, b"new")):
        bench.log.append(Record(began_ms + 1000 * second, key, b"v"))
    bench.clock.advance(130)

    progress = bench.lease().progress

    assert sum(progress.latencies.values()) == 1
    assert progress.latency_seconds_sum == pytest.approx(30)
