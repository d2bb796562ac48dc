"""Archives of every kind, read as Spark reads them: every record once, in the same columns, and no more than needed."""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, LessThan

from golden.records_mirror_v3 import FILES
from integration.sources.archive.test_reading import WHERE, in_tens
from mirrorlake.archive.sidecar import sidecar_key
from mirrorlake.errors import (
    ChainBrokenError,
    ConfigurationError,
    PositionMovedError,
    SourceTruncatedError,
    TopicMissingError,
    UnsupportedError,
)
from mirrorlake.spark_source.archive_reading import ArchiveReading
from mirrorlake.spark_source.columns import SCHEMA, SPARK_TYPES
from mirrorlake.spark_source.pushdown import selection_of
from mirrorlake.spark_source.selection import ALL
from mirrorlake.stores.filesystem import FilesystemStore
from mirrorlake.stores.object_store import ObjectMissingError
from mirrorlake.stores.opening import open_store
from support.archived_source import archive, settings_at
from support.archives import FIRST_TIME_MS, mark_archive, records_between, write_archive, write_segment
from support.spark_reads import Read, WatchedStore, offsets_in

FIRST_TIME = datetime.fromtimestamp(FIRST_TIME_MS / 1000, UTC)
GOLDEN = Path(__file__).parents[2] / "golden"


def options(root: Path, topics: str = "orders", **more: str) -> dict[str, str]:
    return {"store": root.as_uri(), "topics": topics, **more}


def expected_rows(start: int, end: int, *, topic: str = "orders", partition: int = 0) -> list[dict[str, Any]]:
    """What `records_between` wrote, in the words of the columns."""
    return [
        {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "timestamp": FIRST_TIME + timedelta(seconds=offset),
            "timestamp_type": "create_time",
            "key": b"key %d" % (offset % 5),
            "value": b"value %d" % offset,
            "headers": [],
        }
        for offset in range(start, end)
        if offset % 10 != 7
    ]


@pytest.fixture(params=["parquet", "ndjson", "log"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """An archive of a hundred offsets in three files, in each format."""
    for start, end in ((0, 20), (20, 50), (50, 100)):
        write_segment(tmp_path, "orders", 0, start, end, extension=request.param)
    return tmp_path


def test_every_format_gives_every_record_once_in_the_same_columns_and_types(lake: Path) -> None:
    read = Read(options(lake))

    assert read.table().schema == SCHEMA
    assert read.rows() == expected_rows(0, 100)


def test_columns_come_alone_and_in_the_order_asked_for(lake: Path) -> None:
    table = Read(options(lake, columns="value, topic")).table()

    assert table.column_names == ["value", "topic"]
    assert table["value"].to_pylist() == [row["value"] for row in expected_rows(0, 100)]


def test_a_count_needs_no_record(lake: Path) -> None:
    table = Read(options(lake, columns="partition")).table()

    assert table["partition"].to_pylist() == [0] * 90


def test_a_range_of_offsets_is_read_alone(lake: Path) -> None:
    read = Read(options(lake), GreaterThanOrEqual(("offset",), 18), LessThan(("offset",), 53))

    assert read.rows() == expected_rows(18, 53)


def test_what_a_filter_on_time_leaves_out_is_not_read(lake: Path) -> None:
    store = WatchedStore(FilesystemStore(lake))
    filters = [GreaterThan(("timestamp",), FIRST_TIME + timedelta(seconds=60))]
    pieces = Read(options(lake), *filters).pieces
    reading = ArchiveReading(store=store, names=tuple(SPARK_TYPES), selection=selection_of(filters, SPARK_TYPES))

    found = [row for piece in pieces for batch in reading.read(piece) for row in batch.to_pylist()]

    assert [row for row in found if row["offset"] > 60] == expected_rows(61, 100)
    assert {row["offset"] // 50 for row in found} == {1}, "of the first two files nothing is wanted"


def test_files_outside_of_the_offsets_and_partitions_asked_for_are_not_opened(tmp_path: Path) -> None:
    write_archive(tmp_path, "orders", 0, 20, 50, 100)
    write_archive(tmp_path, "orders", 1, 30)
    write_archive(tmp_path, "audit", 0, 30)

    def files(*filters: Any) -> list[tuple[str, int, int]]:
        return [
            (piece.folder, piece.partition, piece.offsets.start_offset)
            for piece in Read(options(tmp_path, "/.*/"), *filters).pieces
        ]

    assert len(files()) == 5
    assert files(EqualTo(("topic",), "audit")) == [("audit", 0, 0)]
    assert files(EqualTo(("partition",), 1)) == [("orders", 1, 0)]
    assert files(EqualTo(("topic",), "orders"), GreaterThanOrEqual(("offset",), 60)) == [("orders", 0, 60)]
    assert files(EqualTo(("topic",), "nobody")) == []


def test_values_that_are_not_asked_for_are_not_read(tmp_path: Path) -> None:
    write_archive(tmp_path, "orders", 0, 20_000)
    pieces = Read(options(tmp_path)).pieces

    def bytes_read(*names: str) -> int:
        store = WatchedStore(FilesystemStore(tmp_path))
        reading = ArchiveReading(store=store, names=names, selection=ALL)
        assert sum(batch.num_rows for piece in pieces for batch in reading.read(piece)) == 18_000
        return store.bytes_read

    assert bytes_read("topic", "partition") < bytes_read("offset") < bytes_read("offset", "value")


def test_it_reads_what_pyarrow_and_duckdb_read_of_the_same_files(tmp_path: Path) -> None:
    write_archive(tmp_path, "orders", 0, 20, 50, 100)
    files = sorted(str(path) for path in tmp_path.glob("orders/0/*.parquet"))
    names = ["topic", "partition", "offset", "timestamp_type", "key", "value"]

    found = Read(options(tmp_path, columns=",".join(names))).rows()

    assert found == pq.read_table(files, columns=names).to_pylist()
    with duckdb.connect() as database:
        rows = database.sql(
            f'select topic, partition, "offset", timestamp_type, key, value from read_parquet({files}) order by 3'
        ).fetchall()
    assert [tuple(row.values()) for row in found] == rows


@pytest.mark.parametrize("topic", ["zstd-1", "lz4", "lines"])
def test_what_mirror_v3_wrote_is_read_in_the_same_columns(topic: str) -> None:
    rows = Read(options(GOLDEN / "mirror_v3", topic)).rows()

    expected = [*FILES[0], *FILES[1]]
    assert [row["offset"] for row in rows] == [record.offset for record in expected]
    assert [row["value"] for row in rows] == [record.value for record in expected]
    assert [row["timestamp_type"] for row in rows] == [record.timestamp_type for record in expected]
    assert [row["timestamp"] for row in rows] == [
        None
        if record.timestamp_ms is None
        else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=record.timestamp_ms)
        for record in expected
    ]
    assert [[(each["key"], each["value"]) for each in row["headers"]] for row in rows] == [
        list(record.headers) for record in expected
    ]


def test_of_snapshots_the_newest_is_read_and_one_that_is_replaced_meanwhile_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "view/0"
    folder.mkdir(parents=True)
    (golden,) = (GOLDEN / "mirror_v3/zstd-1/0").glob("*-00000000000000000003.parquet")
    table = pq.read_table(golden)
    for name, rows in (("0" * 20 + "-" + f"{3:020d}", [2]), (f"{4:020d}-{9:020d}", [3, 1])):
        pq.write_table(table.take(rows), folder / f"{name}.parquet")

    read = Read(options(tmp_path, "view", snapshots="true"))

    assert offsets_in(read.rows()) == [table["offset"][3].as_py(), table["offset"][1].as_py()]
    for part in ({"startingOffsets": "latest"}, {"endingOffsets": '{"view": {"0": 5}}'}):
        with pytest.raises(ConfigurationError, match="ask for a part of one"):
            Read(options(tmp_path, "view", snapshots="true", **part))
    whole = Read(options(tmp_path, "view", snapshots="true", startingOffsets='{"view": {"0": -2}}'))
    assert whole.rows() == read.rows()
    (folder / f"{4:020d}-{9:020d}.parquet").unlink()
    with pytest.raises(PositionMovedError, match="replaced by a newer snapshot"):
        read.table()


def test_covered_files_are_not_read(tmp_path: Path) -> None:
    write_archive(tmp_path, "orders", 0, 20, 50, 100)
    write_segment(tmp_path, "orders", 0, 0, 50)

    read = Read(options(tmp_path))

    assert [str(piece.offsets) for piece in read.pieces] == ["[0, 50)", "[50, 100)"]
    assert read.rows() == expected_rows(0, 100)


def test_what_was_merged_away_since_the_plan_is_read_from_what_covers_it_and_no_more(tmp_path: Path) -> None:
    small = write_archive(tmp_path, "orders", 0, 20, 50, 100)
    read = Read(options(tmp_path), GreaterThanOrEqual(("offset",), 10), LessThan(("offset",), 40))

    write_segment(tmp_path, "orders", 0, 0, 50)
    for path in small[:2]:
        path.unlink()

    assert read.rows() == expected_rows(10, 40)


def test_a_file_that_is_merged_away_while_it_is_read_goes_on_behind_its_last_row(tmp_path: Path) -> None:
    (small, *_) = write_archive(tmp_path, "orders", 0, 200_000, 200_050)
    (piece, _) = Read(options(tmp_path)).pieces
    store = FilesystemStore(tmp_path)
    reading = ArchiveReading(store=_Vanishing(store, small), names=("offset",), selection=ALL)

    batches = reading.read(piece)
    found = next(batches)["offset"].to_pylist()
    write_segment(tmp_path, "orders", 0, 0, 200_050)
    small.unlink()
    for batch in batches:
        found += batch["offset"].to_pylist()

    assert found == [offset for offset in range(200_000) if offset % 10 != 7]


def test_reading_on_behind_the_last_row_of_a_file_that_is_gone_reads_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_archive(tmp_path, "orders", 0, 20)
    (piece,) = Read(options(tmp_path)).pieces
    reading = ArchiveReading(store=FilesystemStore(tmp_path), names=("offset",), selection=ALL)
    whole = ArchiveReading._read_file

    def gone_at_the_end(self: ArchiveReading, piece: Any, place: Any) -> Any:
        yield from whole(self, piece, place)
        raise ObjectMissingError("gone")

    monkeypatch.setattr(ArchiveReading, "_read_file", gone_at_the_end)

    assert [each for batch in reading.read(piece) for each in batch["offset"].to_pylist()] == [
        offset for offset in range(20) if offset % 10 != 7
    ]


class _Vanishing(WatchedStore):
    """A bucket's way: of an object that is gone nothing can be read, open or not."""

    def __init__(self, store: FilesystemStore, path: Path) -> None:
        super().__init__(store)
        self._path = path

    def open(self, key: str) -> Any:
        return _VanishingFile(super().open(key), self._path if key.endswith(self._path.name) else None)


class _VanishingFile:
    def __init__(self, file: Any, path: Path | None) -> None:
        self._file = file
        self._path = path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def read(self, size: int = -1) -> bytes:
        if self._path is not None and not self._path.exists():
            raise ObjectMissingError("gone")
        data: bytes = self._file.read(size)
        return data


def test_a_range_that_retention_took_since_the_plan_is_an_error_and_no_silence(tmp_path: Path) -> None:
    first, *_ = write_archive(tmp_path, "orders", 0, 20, 50)
    read = Read(options(tmp_path))
    (tmp_path / "orders/0" / f"_floor-{20:020d}").touch()
    first.unlink()

    with pytest.raises(SourceTruncatedError, match=r"retention deleted the rest"):
        read.table()


def test_a_hole_is_an_error(tmp_path: Path) -> None:
    _, middle, _ = write_archive(tmp_path, "orders", 0, 20, 50, 100)
    middle.unlink()

    with pytest.raises(ChainBrokenError, match="hole"):
        Read(options(tmp_path))


def test_a_partition_on_record_that_is_gone_is_an_error(tmp_path: Path) -> None:
    write_archive(tmp_path, "orders", 0, 20)
    write_archive(tmp_path, "orders", 1, 20)
    mark_archive(tmp_path, {"orders": {0: 20, 1: 20}})
    shutil.rmtree(tmp_path / "orders/1")

    with pytest.raises(ChainBrokenError, match="had reached offset 20"):
        Read(options(tmp_path))


def test_a_partition_whose_last_file_is_gone_is_an_error_and_not_fewer_rows(tmp_path: Path) -> None:
    *_, last = write_archive(tmp_path, "orders", 0, 20, 50)
    mark_archive(tmp_path, {"orders": {0: 50}})
    assert Read(options(tmp_path)).table().num_rows
    last.unlink()

    with pytest.raises(ChainBrokenError, match=r"it ends at offset 20, and .* had reached offset 50"):
        Read(options(tmp_path)).table()


def test_a_swapped_file_is_an_error(tmp_path: Path) -> None:
    first, second = write_archive(tmp_path, "orders", 0, 20, 40)
    shutil.copy(first, second)

    with pytest.raises(ChainBrokenError, match="says of itself"):
        Read(options(tmp_path)).table()


@pytest.mark.parametrize("columns", ["topic", "value"], ids=["a count", "records"])
def test_a_file_that_lost_its_description_is_an_error_and_not_what_is_left_of_it(tmp_path: Path, columns: str) -> None:
    """Its first and last line fit its name; only the next file says that there was a description."""
    root = tmp_path / "lake"
    root.mkdir()
    place = settings_at(root)
    archive(place, WHERE, in_tens(), [20, 50, 100], form="ndjson")
    name = f"{20:020}-{49:020}.ndjson"
    open_store(place).delete(sidecar_key(f"orders/0/{name}"))
    file = root / "orders/0" / name
    lines = file.read_text().splitlines(keepends=True)
    file.chmod(0o644)
    file.write_text("".join([lines[0], *lines[5:]]))

    with pytest.raises(ChainBrokenError, match=f"{name} has no description"):
        Read(options(root, columns=columns)).table()


def _ndjson_archive(root: Path) -> list[Path]:
    """Three NDJSON files of twenty, thirty and fifty records, with their descriptions."""
    root.mkdir()
    archive(settings_at(root), WHERE, in_tens(), [20, 50, 100], form="ndjson")
    files = sorted((root / "orders/0").glob("*.ndjson"))
    for file in files:
        file.chmod(0o644)
    return files


def _cut_at_a_line(file: Path) -> bytes:
    return b"".join(file.read_bytes().splitlines(keepends=True)[:10])


def _another_value(file: Path) -> bytes:
    lines = file.read_bytes().splitlines(keepends=True)
    place = lines[3].index(b'"value":"') + 9
    changed = b"A" if lines[3][place : place + 1] != b"A" else b"B"
    return b"".join([*lines[:3], lines[3][:place] + changed + lines[3][place + 1 :], *lines[4:]])


@pytest.mark.parametrize("columns", ["topic", "value"], ids=["a count", "records"])
@pytest.mark.parametrize(
    "damage",
    [lambda _: b"", _cut_at_a_line, lambda file: file.read_bytes() * 2],
    ids=["emptied", "cut at a line", "doubled"],
)
def test_an_ndjson_file_of_another_length_than_its_description_says_is_an_error_and_not_fewer_rows(
    tmp_path: Path, damage: Callable[[Path], bytes], columns: str
) -> None:
    _, file, _ = _ndjson_archive(tmp_path / "lake")
    assert Read(options(tmp_path / "lake", columns=columns)).table().num_rows == 100
    file.write_bytes(damage(file))

    with pytest.raises(ChainBrokenError, match=f"{file.name} has .* bytes, its description says"):
        Read(options(tmp_path / "lake", columns=columns)).table()


@pytest.mark.parametrize(
    "damage",
    [_another_value, lambda file: file.read_bytes().replace(b'"partition":0', b'"partition":1')],
    ids=["a value", "another partition's lines"],
)
def test_an_ndjson_file_of_other_bytes_than_its_description_says_is_an_error_and_not_other_rows(
    tmp_path: Path, damage: Callable[[Path], bytes]
) -> None:
    _, file, _ = _ndjson_archive(tmp_path / "lake")
    whole, damaged = file.read_bytes(), damage(file)
    assert damaged != whole
    assert len(damaged) == len(whole)
    file.write_bytes(damaged)

    with pytest.raises(ChainBrokenError, match=file.name):
        Read(options(tmp_path / "lake", columns="value")).table()


def test_a_last_ndjson_file_that_got_a_longer_name_and_lost_its_description_is_an_error(tmp_path: Path) -> None:
    _, middle, last = _ndjson_archive(tmp_path / "lake")
    store = open_store(settings_at(tmp_path / "lake"))
    for each in (middle, last):
        store.delete(sidecar_key(f"orders/0/{each.name}"))
    last.unlink()
    middle.rename(middle.with_name(f"{20:020}-{99:020}.ndjson"))

    with pytest.raises(ChainBrokenError, match=f"{20:020}-{99:020}.ndjson"):
        Read(options(tmp_path / "lake")).table()


def test_an_unknown_topic_is_an_error_that_names_one_like_it(tmp_path: Path) -> None:
    write_archive(tmp_path, "orders", 0, 20)

    with pytest.raises(TopicMissingError, match="did you mean `orders`"):
        Read(options(tmp_path, "order"))
    with pytest.raises(TopicMissingError, match="it has orders"):
        Read(options(tmp_path, "/x.*/"))


def test_the_topic_is_the_sources_and_not_the_folders(tmp_path: Path) -> None:
    write_archive(tmp_path, "from-east", 0, 20, topic="orders")

    assert Read(options(tmp_path, "from-east")).rows() == expected_rows(0, 20)
    assert Read(options(tmp_path, "from-east"), EqualTo(("topic",), "orders")).rows() == expected_rows(0, 20)


def test_offsets_by_partition_bound_a_read_and_must_be_there(tmp_path: Path) -> None:
    write_archive(tmp_path, "orders", 0, 20, 50)

    def read(start: str, end: str = "latest") -> list[int]:
        return offsets_in(Read(options(tmp_path, startingOffsets=start, endingOffsets=end)).rows())

    assert read('{"orders": {"0": 45}}') == [45, 46, 48, 49]
    assert read("earliest", '{"orders": {"0": 3}}') == [0, 1, 2]
    assert read("latest") == []
    with pytest.raises(SourceTruncatedError, match="startingOffsets says 51"):
        read('{"orders": {"0": 51}}')
    with pytest.raises(ConfigurationError, match="an offset is given for orders-1"):
        read('{"orders": {"1": 5}}')


def test_a_time_that_spark_cannot_hold_is_named_and_leaves_the_other_columns_readable(tmp_path: Path) -> None:
    from dataclasses import replace

    records = records_between(0, 3)
    odd = replace(records, timestamps=records.timestamps + (2**62))
    from mirrorlake.spark_source.rows import rows_of

    with pytest.raises(UnsupportedError, match="the record at offset 0 of orders-0"):
        list(rows_of(odd, topic="orders", partition=0, names=("timestamp",)))
    assert next(rows_of(odd, topic="orders", partition=0, names=("offset",))).num_rows == 3
