"""Segments are read by whoever reads Parquet or JSON lines: Spark, DuckDB and pyarrow, none of our code between."""

import base64
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from mirrorlake.archive.formats.registry import NDJSON, PARQUET, record_writer
from mirrorlake.page_compression import Compression
from unit.archive.sample_records import AWKWARD, columns_of, envelope

NAMES = [*(f"{compression}.parquet" for compression in Compression), "lines.ndjson"]
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("segments")
    for name in NAMES:
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
def spark_rows(folder: Path) -> dict[str, list[Row]]:
    script = Path(__file__).with_name("read_with_spark.py")
    done = subprocess.run(
        [sys.executable, str(script), str(folder)], capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    return {name: [_with_bytes(row) for row in rows] for name, rows in found.items()}


def _with_bytes(row: list[object]) -> Row:
    *plain, key, value, headers = row
    as_bytes = [None if text is None else bytes.fromhex(str(text)) for text in (key, value)]
    return (*plain, *as_bytes, headers or [])  # type: ignore[return-value]


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
