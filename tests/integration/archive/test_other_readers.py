"""Segments are read by whoever reads Parquet or JSON lines: Spark, DuckDB, polars, pyarrow, and none of our code."""

import base64
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow.parquet as pq
import pytest

from mirrorlake.archive.formats.registry import NDJSON, PARQUET, record_writer
from mirrorlake.archive.maintenance.look import look_at
from mirrorlake.page_compression import Compression
from mirrorlake.stores.memory import MemoryStore
from support.quick_spark import quick_spark_environ
from unit.archive.maintenance.test_joined_segments import archive_in, ends, footer_of, merge, put_one
from unit.archive.sample_records import AWKWARD, Record, columns_of, envelope

JOINED = "joined.parquet"
"""Row groups of three segments, copied."""

NAMES = [*(f"{compression}.parquet" for compression in Compression), JOINED, "lines.ndjson"]
TIMESTAMP_TYPES = {0: "create_time", 1: "log_append_time", -1: "not_available"}

Row = tuple[str, int, int, int | None, str, bytes | None, bytes | None, Sequence[str]]

HEADER_KEYS = {13: ["a", "b", "a", ""], 15: ["\ufffd\ufffd", "ok"], 16: ["ключ"], 20: ["\ufffd"]}
"""As text, which is how every reader but ours sees them."""

WANTED: list[Row] = [
    (
        "orders",
        3,
        record.offset,
        None if record.timestamp_ms == -1 else record.timestamp_ms,
        TIMESTAMP_TYPES[record.timestamp_type],
        record.key,
        record.value,
        HEADER_KEYS.get(record.offset, []),
    )
    for record in AWKWARD
]


def joined(records: Sequence[Record], start: int, *ends_of_inputs: int) -> bytes:
    """Returns a segment of the row groups of several."""
    archived = archive_in(MemoryStore())
    archived.store.create(f"{archived.prefix}/_floor-{start:020}", b"")
    first = start
    for end in (*ends_of_inputs, ends_of_inputs[-1] + 1):
        held = [record for record in records if first <= record.offset < end]
        put_one(archived, held, first, end, Compression.ZSTD_1, ())
        first = end
    merge(archived, bytes_min=1)
    assert ends(footer_of(archived)) == list(ends_of_inputs), "they were copied"
    return archived.store.read(f"{archived.prefix}/{look_at(archived).chain[0].name}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("segments")
    (made / JOINED).write_bytes(joined(AWKWARD, 10, 13, 16, 21))
    for name in (each for each in NAMES if each != JOINED):
        compression, _, extension = name.partition(".")
        with (made / name).open("wb") as file:
            writer = record_writer(
                PARQUET if extension == PARQUET else NDJSON,
                file,
                envelope(start_offset=10),
                compression=compression if extension == PARQUET else "zstd-1",
            )
            writer.write(columns_of(AWKWARD))
            writer.close(end_offset=21)
    return made


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A joined segment with several pages in each row group, so that page indexes are there to be used."""
    path = tmp_path_factory.mktemp("large") / JOINED
    path.write_bytes(joined(LARGE, 0, 30_000, 30_500, 60_000))
    offsets = pq.ParquetFile(path).metadata.row_group(0).column(2)
    assert (offsets.path_in_schema, offsets.has_offset_index, offsets.has_column_index) == ("offset", True, True)
    return path


@pytest.fixture(scope="module")
def spark_said(folder: Path, large: Path) -> dict[str, Any]:
    script = Path(__file__).with_name("read_with_spark.py")
    done = subprocess.run(
        [sys.executable, str(script), str(folder), str(large), *(as_sql(each, "`") for each in FILTERS)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env=quick_spark_environ(),
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(said, dict)
    return said


@pytest.fixture(scope="module")
def spark_rows(spark_said: dict[str, Any]) -> dict[str, list[Row]]:
    return {name: [_with_bytes(row) for row in rows] for name, rows in spark_said["rows"].items()}


LARGE = [
    Record(offset, b"k", b"v" * 40, timestamp_ms=-1 if offset % 1000 == 5 else 10**12 + offset + 50 * (offset % 3))
    for offset in range(60_000)
    if offset % 100 != 7
]

Condition = tuple[str, str, int]

FILTERS: list[list[Condition]] = [
    [("offset", ">=", 19_990), ("offset", "<", 20_010)],
    [("offset", ">=", 29_990), ("offset", "<", 30_510)],
    [("offset", ">", 20_100), ("offset", "<=", 59_998)],
    [("offset", "=", 30_000)],
    [("offset", "=", 30_007)],
    [("offset", ">", 60_000)],
    [("timestamp_ms", ">=", 10**12 + 29_950), ("timestamp_ms", "<", 10**12 + 30_150)],
    [("timestamp_ms", "=", 10**12 + 50_002)],
    [("timestamp_ms", "<", 0)],
    [("partition", "=", 3), ("offset", ">=", 59_000)],
    [("partition", "=", 4)],
]


def as_sql(conditions: Sequence[Condition], quote: str) -> str:
    return " and ".join(f"{quote}{column}{quote} {sign} {number}" for column, sign, number in conditions)


def holds(record: Record, conditions: Sequence[Condition]) -> bool:
    fields = {"offset": record.offset, "timestamp_ms": record.timestamp_ms, "partition": 3}
    signs = {"=": int.__eq__, "<": int.__lt__, "<=": int.__le__, ">": int.__gt__, ">=": int.__ge__}
    return all(
        (column, fields[column]) != ("timestamp_ms", -1) and signs[sign](fields[column], number)
        for column, sign, number in conditions
    )


@pytest.mark.slow
@pytest.mark.parametrize("conditions", FILTERS, ids=lambda each: as_sql(each, ""))
def test_filters_over_a_joined_segment_find_what_a_full_scan_finds(
    conditions: list[Condition], large: Path, spark_said: dict[str, Any]
) -> None:
    """By statistics and page indexes of row groups that lie elsewhere than where they were written."""
    wanted = [record.offset for record in LARGE if holds(record, conditions)]
    assert spark_said["filtered"][as_sql(conditions, "`")] == wanted
    where = as_sql(conditions, '"')
    with duckdb.connect() as database:
        found = database.sql(f"select \"offset\" from read_parquet('{large}') where {where} order by 1").fetchall()
    assert [offset for (offset,) in found] == wanted
    lazy = pl.scan_parquet(large, use_statistics=True).filter(pl.sql_expr(where)).select("offset", "value")
    assert lazy.collect()["offset"].to_list() == wanted
    assert pq.read_table(large, filters=conditions)["offset"].to_pylist() == wanted


def _with_bytes(row: list[object]) -> Row:
    *plain, key, value, headers = row
    as_bytes = [None if text is None else bytes.fromhex(str(text)) for text in (key, value)]
    return (*plain, *as_bytes, headers or [])  # type: ignore[return-value]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_spark_reads_it(spark_rows: dict[str, list[Row]], name: str) -> None:
    assert spark_rows[name] == WANTED


@pytest.mark.parametrize("name", NAMES)
def test_duckdb_reads_it(folder: Path, name: str) -> None:
    is_parquet = name.endswith(PARQUET)
    source = f"read_parquet('{folder / name}')" if is_parquet else f"read_json('{folder / name}', format = 'nd')"
    bytes_of = "{}" if is_parquet else "from_base64({})"
    with duckdb.connect() as database:
        rows = database.sql(
            f'select topic, partition, "offset", timestamp_ms, timestamp_type, {bytes_of.format("key")}, '
            f"{bytes_of.format('value')}, list_transform(headers, lambda header: header.key) from {source} "
            'order by "offset"'
        ).fetchall()
    assert [(*row[:-1], row[-1] or []) for row in rows] == WANTED


@pytest.mark.parametrize("name", NAMES[:-1])
def test_polars_reads_it(folder: Path, name: str) -> None:
    rows = pl.read_parquet(folder / name).rows(named=True)
    found = [(*list(row.values())[:7], [header["key"] for header in row["headers"]]) for row in rows]
    assert found == WANTED


@pytest.mark.parametrize("name", NAMES[:-1])
def test_pyarrow_reads_it(folder: Path, name: str) -> None:
    rows = pq.read_table(folder / name).to_pylist()
    found = [(*list(row.values())[:7], [header["key"] for header in row["headers"]]) for row in rows]
    assert found == WANTED


def test_pythons_own_json_reads_it(folder: Path) -> None:
    found = []
    for line in (folder / "lines.ndjson").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        decoded = [base64.b64decode(row[name]) if name in row else None for name in ("key", "value")]
        plain = [row.get(name) for name in ("topic", "partition", "offset", "timestamp_ms", "timestamp_type")]
        found.append((*plain, *decoded, [header["key"] for header in row.get("headers", [])]))
    assert found == WANTED
