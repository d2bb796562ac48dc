# ruff: noqa: E501  (tables of texts)
"""What a filter keeps is what Spark says: the same expressions over the same records, asked of a real Spark."""

import math
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from integration.filters.adversarial import Row, rows, texts
from mirrorlake.filters.evaluation import kept_rows
from mirrorlake.filters.json_fields import json_field
from mirrorlake.filters.parsing import parse_filter
from mirrorlake.filters.spark_texts import character_count, to_bigint, to_double
from mirrorlake.kafka.records.columns import RecordColumns, bytes_column, headers_column

pytestmark = pytest.mark.spark

TEXT = "CAST(value AS STRING)"
CONDITIONS = [
    *(f"{side} {op} {other}" for op in ("=", "==", "<=>", "!=", "<>", "<", "<=", ">", ">=") for side, other in (
        *(("key", "'a'"), ("'a'", "key"), ("key", "value"), ("CAST(key AS STRING)", "CAST(value AS STRING)")),
        *(("key", "X'61FF62'"), ("key", "''"), ("CAST(key AS STRING)", "'é😀'"), ("headers['type']", "'order'")),
        *(("offset", "30"), ("partition", "1"), ("offset", "partition"), ("offset", "-1"), ("length(value)", "2")),
        *((f"length({TEXT})", "2"), (f"CAST({TEXT} AS BIGINT)", "9"), (f"CAST({TEXT} AS DOUBLE)", "-3.5")),
        *((f"CAST({TEXT} AS DOUBLE)", "9"), (f"CAST({TEXT} AS DOUBLE)", f"CAST({TEXT} AS DOUBLE)"), ("'b'", "'a'")),
        *(("timestamp", "TIMESTAMP '2026-01-01T00:00:00Z'"), ("timestamp", "TIMESTAMP '1970-01-01 01:00:00.001+01:00'")),
        *((f"get_json_object({TEXT}, '$.type')", "'order'"), ("CAST(CAST(key AS STRING) AS BINARY)", "value")),
    )),
    *(f"{tested} IS {no}NULL" for no in ("", "NOT ") for tested in (
        *("key", "value", "headers['type']", "headers['nobody']", "headers['']", "headers['é']", "timestamp", "key = value"),
        *(f"CAST({TEXT} AS DOUBLE)", f"get_json_object({TEXT}, '$.type')", "substring(value, 2, 3)"),
    )),
    *(f"{tested} {no}LIKE '{pattern}'" for no in ("", "NOT ") for tested in ("CAST(key AS STRING)", TEXT) for pattern in (
        *("", "%", "_", "a", "a%", "%a", "%a%", "a_b", "a_%", "%_b", "__", "é%", "%😀", "_😀", "a%b", "%%", "(a|b).*", "[a]"),
    )),
    *("CAST(key AS STRING) IN ('a', 'b', '')", "CAST(key AS STRING) NOT IN ('a', 'b')", "offset IN (0, 3, 6)", "partition NOT IN (1)", "key IN (X'FF')"),
    *("offset BETWEEN 30 AND 90", "key BETWEEN 'a' AND 'b'", "offset NOT BETWEEN 30 AND 90", "key BETWEEN 'b' AND 'a'"),
    *("key = 'a' AND value = 'b'", "key = 'a' OR value = 'b'", "NOT key = 'a'", "! key = 'a'", "NOT NOT key IS NULL"),
    *("key = 'a' OR value = 'b' AND offset > 30", "(key = 'a' OR value = 'b') AND offset > 30", "NOT key = 'a' OR key = 'b'"),
    *("NOT (key = 'a' AND value = 'b')", "key IS NULL OR value > 'a' AND NOT value < 'b'", "true", "false", "true OR key = 'a'"),
    *("NOT (headers['type'] = 'order')", "CAST(headers['type'] AS STRING) IN ('order', 'x')", "CAST(headers['type'] AS STRING) LIKE 'or%'"),
    *("substring(value, 2, 4) = X'0000002A'", "substr(value, 1, 0) = X''", "substring(key, 2, 1) = 'b'", "crc32(key) > 9"),
    *("pmod(crc32(key), 3) = 0", "pmod(offset, 7) BETWEEN 2 AND 4", "crc32(CAST(key AS STRING)) = 3904355907", 'key = "it\'s"'),
    *(f"length(get_json_object({TEXT}, '$.n')) = 1", f"CAST(get_json_object({TEXT}, '$.n') AS DOUBLE) > 7.2", "KEY = 'a'"),
    *(f"CAST(get_json_object({TEXT}, '$.n') AS BIGINT) = 7", f'get_json_object({TEXT}, "$[\'n\']") = \'7\''),
]  # fmt: skip
VALUES = [
    *(f"CAST(get_json_object({TEXT}, '$.a') AS BINARY)", f"CAST(get_json_object({TEXT}, '$.a.b') AS BINARY)"),
    *(f"CAST({TEXT} AS BIGINT)", f"CAST({TEXT} AS DOUBLE)", f"length({TEXT})"),
]  # fmt: skip


def ask(tmp_path: Path, *questions: tuple[list[Row], list[str]]) -> list[list[list[object]]]:
    """Returns what Spark says to each question: a list a record, in the order of offsets, a value an expression."""
    asked = tmp_path / "asked.pickle"
    asked.write_bytes(pickle.dumps(questions))
    script = Path(__file__).with_name("ask_spark.py")
    done = subprocess.run([sys.executable, str(script), str(asked)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    answers: list[list[list[object]]] = pickle.loads(asked.with_suffix(".answers").read_bytes())
    return answers


def columns_of(records: list[Row]) -> RecordColumns:
    return RecordColumns.of(
        offsets=np.array([row[4] for row in records], np.int64),
        timestamps=np.array([row[2] for row in records], np.int64),
        timestamp_types=np.zeros(len(records), np.int8),
        keys=bytes_column([row[0] for row in records]),
        values=bytes_column([row[1] for row in records]),
        headers=headers_column([[(key.encode(), value) for key, value in row[5]] for row in records]),
    )


def said(condition: str, records: list[Row]) -> list[bool | None]:
    """What a filter says of each record, partition by partition as it is asked; neither it nor its opposite is NULL."""
    found: dict[int, bool | None] = {}
    for partition in (0, 1, 2):
        part = [row for row in records if row[3] == partition]
        is_true, is_false = (
            kept_rows(parse_filter(text), columns_of(part), partition=partition).tolist()
            for text in (condition, f"NOT ({condition})")
        )
        for row, yes, no in zip(part, is_true, is_false, strict=True):
            assert not (yes and no)
            found[row[4]] = True if yes else False if no else None
    return [found[row[4]] for row in records]


def test_conditions_and_values_are_what_spark_says(tmp_path: Path) -> None:
    records, asked_of = rows(), texts()
    of_text: list[Row] = [(None, text, 0, 0, n, []) for n, text in enumerate(asked_of)]

    of_records, of_texts = ask(tmp_path, (records, CONDITIONS), (of_text, VALUES))

    differing: list[tuple[str, object, object, object]] = []
    for column, condition in enumerate(CONDITIONS):
        for row, ours, theirs in zip(records, said(condition, records), of_records, strict=True):
            if ours is not theirs[column]:
                differing.append((condition, row, ours, theirs[column]))
    for text, answers in zip(asked_of, of_texts, strict=True):
        by_us = json_field(text, ("a",)), json_field(text, ("a", "b")), to_bigint(text), to_double(text)
        for expression, mine, his in zip(VALUES, (*by_us, character_count(text)), answers, strict=True):
            is_nan = isinstance(mine, float) and isinstance(his, float) and math.isnan(mine) and math.isnan(his)
            if mine != his and not is_nan:
                differing.append((expression, text, mine, his))
    assert not differing, (len(differing), differing[:20])
