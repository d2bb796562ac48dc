# ruff: noqa: E501  (tables of texts)
"""What a filter keeps is what Spark says: the same expressions over the same records, asked of a real Spark."""

import math
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from integration.filters.adversarial import LARGE_DOCUMENTS, Row, rows, texts
from integration.filters.ask_spark import FAILING_ASKED_MAX
from mirrorlake.filters.evaluation import kept_rows
from mirrorlake.filters.json_fields import json_field
from mirrorlake.filters.parsing import parse_filter
from mirrorlake.filters.projecting import ValueMissingError, projected
from mirrorlake.filters.projection import Projection, parse_value
from mirrorlake.filters.spark_texts import character_count, to_bigint, to_double
from mirrorlake.kafka.records.columns import RecordColumns, bytes_column, headers_column

pytestmark = [pytest.mark.spark, pytest.mark.slow]

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

KEY, TYPE = "CAST(key AS STRING)", f"get_json_object({TEXT}, '$.type')"
NUMBER, TRIED = f"CAST({TEXT} AS BIGINT)", f"TRY_CAST({TEXT} AS BIGINT)"
SELECTED = [
    *("key", "value", "headers['type']", "headers['nobody']", "NULL", "'é'", "X'00FF'", KEY, "substring(value, 6, 1000)"),
    *("key || value", f"{KEY} || '-' || {TEXT}", "concat(key)", f"concat({KEY}, '', 'é', {TEXT})", "key || X'FF' || value"),
    *("coalesce(key, value)", "coalesce(headers['type'], key, X'00')", f"coalesce(NULL, {KEY})", f"coalesce({TYPE}, 'none')"),
    *("CASE WHEN key = 'a' THEN value WHEN value IS NULL THEN X'01' END", f"CASE WHEN key > 'a' THEN {TEXT} ELSE NULL END"),
    *(f"CASE {KEY} WHEN 'a' THEN 'one' WHEN 'b' THEN 'two' ELSE {KEY} END", "CASE partition WHEN 1 THEN 'one' END"),
    *(f"CASE WHEN {TYPE} = 'order' THEN CASE WHEN key IS NULL THEN 'x' ELSE 'y' END ELSE 'z' END",),
    *("CAST(offset AS STRING)", "CAST(partition AS STRING) || '-' || CAST(offset AS STRING)", "CAST(key IS NULL AS STRING)"),
    *("CAST(unix_millis(timestamp) AS STRING)", "CAST(length(value) AS STRING)", "CAST(crc32(key) AS STRING)"),
    *("sha2(key, 256)", f"sha2({KEY}, 512)", "CAST(CASE WHEN key = 'a' THEN 1 WHEN key IS NULL THEN NULL ELSE offset END AS STRING)"),
    *("CAST(coalesce(length(key), -1) AS STRING)", "CAST(coalesce(key = 'a', value = 'a') AS STRING)"),
    *(f"CAST({NUMBER} AS STRING)", f"CAST({TRIED} AS STRING)", f"CASE WHEN {NUMBER} > 5 THEN 'more' ELSE 'less' END"),
    *(f"CASE WHEN CAST({TEXT} AS DOUBLE) > 1.5 THEN 'more' END", f"CASE WHEN TRY_CAST({TEXT} AS DOUBLE) > 1.5 THEN 'more' END"),
    *(f"CASE WHEN {TEXT} LIKE '%2' THEN CAST({NUMBER} AS STRING) ELSE 'other' END", f"coalesce({KEY}, CAST({NUMBER} AS STRING))"),
    *(f"CASE WHEN value IS NULL OR {NUMBER} > 5 THEN 'x' END", f"CASE WHEN value IS NOT NULL AND {NUMBER} > 5 THEN 'x' END"),
    *(f"CASE WHEN {NUMBER} > 5 AND key IS NULL THEN 'x' END", f"CAST(coalesce({TRIED}, {NUMBER}, offset) AS STRING)"),
    *(f"coalesce({TYPE}, raise_error('no type'))", "coalesce(key, raise_error('no key'), value)"),
    *(f"CASE WHEN {TYPE} = 'order' THEN {KEY} WHEN value IS NULL THEN NULL ELSE raise_error('what is it?') END",),
    *(f"CAST(({condition}) AS STRING)" for condition in CONDITIONS if "AS BIGINT" not in condition and "AS DOUBLE" not in condition),
    # Of those that may fail some: each takes Spark seconds. (It never evaluates `x <=> x`, and so does not fail there.)
    *(f"CAST((CAST({TEXT} AS BIGINT) {op} 9) AS STRING)" for op in ("=", "<=>", "<")),
    *(f"CAST((CAST({TEXT} AS DOUBLE) {op} -3.5) AS STRING)" for op in ("<>", ">=")),
]  # fmt: skip
OF_TEXTS = [
    *(f"CAST({TRIED} AS STRING)", f"CAST({NUMBER} AS STRING)", f"CASE WHEN CAST({TEXT} AS DOUBLE) IS NULL THEN 'no' ELSE 'yes' END"),
    *(f"CASE WHEN TRY_CAST({TEXT} AS DOUBLE) IS NULL THEN 'no' ELSE 'yes' END", f"{TEXT} || '|' || {TEXT}", f"sha2({TEXT}, 256)"),
]  # fmt: skip


class Asked:
    """A Spark that is started once for the questions of this file, as each start takes it seconds; see `ask_spark`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._said = folder / "said"
        script = Path(__file__).with_name("ask_spark.py")
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True
            )

    def __call__(self, *questions: tuple[list[Row], Sequence[object]]) -> list[Any]:
        """Returns what Spark says to each question."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = self._folder / "asked.pickle"
        asked.write_bytes(pickle.dumps(questions))
        self._process.stdin.write(f"{asked}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "answered\n", self._said.read_text(errors="replace")[-3000:]
        answers: list[Any] = pickle.loads(asked.with_suffix(".answers").read_bytes())
        return answers

    def close(self) -> None:
        """Ends it."""
        self._process.communicate()


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    spark = Asked(tmp_path_factory.mktemp("ask-spark"))
    yield spark
    spark.close()


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


@pytest.mark.quick
def test_conditions_and_values_are_what_spark_says(ask: Asked) -> None:
    records, asked_of = rows(), texts()
    of_text: list[Row] = [(None, text, 0, 0, n, []) for n, text in enumerate(asked_of)]

    of_records, of_texts = ask((records, CONDITIONS), (of_text, VALUES))

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


def test_texts_are_as_long_as_spark_reads_them(ask: Asked) -> None:
    length = f"length(get_json_object({TEXT}, '$.a'))"
    questions: list[tuple[list[Row], list[str]]] = [([(None, text, 0, 0, 0, [])], [length]) for text in LARGE_DOCUMENTS]

    answers = ask(*questions)

    found = [json_field(text, ("a",)) for text in LARGE_DOCUMENTS]
    assert [None if each is None else character_count(each) for each in found] == [rows[0][0] for rows in answers]
    assert [each is None for each in found] == [False, True, True, False]


def values_of(wanted: Projection, part: list[Row], partition: int) -> list[bytes | None]:
    values: list[bytes | None] = projected(wanted, columns_of(part), partition=partition).values.to_pylist()
    return values


def made_by_us(text: str, records: list[Row]) -> tuple[dict[int, bytes | None], list[int]]:
    """What an expression of `select` makes of each record, by offset, and the offsets for which it has no value."""
    made: dict[int, bytes | None] = {}
    failing: list[int] = []
    wanted = Projection(value=parse_value(text))
    for partition in (0, 1, 2):
        part = [row for row in records if row[3] == partition]
        try:
            made |= zip([row[4] for row in part], values_of(wanted, part, partition), strict=True)
        except ValueMissingError:
            for row in part:
                try:
                    (made[row[4]],) = values_of(wanted, [row], partition)
                except ValueMissingError:
                    failing.append(row[4])
    return made, sorted(failing)


def test_what_is_selected_is_what_spark_makes_by_ansi_rules_and_fails_where_that_does(ask: Asked) -> None:
    records = rows()
    of_text: list[Row] = [(None, text, 0, 0, n, []) for n, text in enumerate(texts())]
    questions = [(records, SELECTED), (of_text, OF_TEXTS)]
    ours = [[(text, *made_by_us(text, asked)) for text in wanted] for asked, wanted in questions]

    answers = ask(
        *(
            (asked, [(text, failing) for text, _, failing in each])
            for (asked, _), each in zip(questions, ours, strict=True)
        ),
    )

    differing: list[object] = []
    failed = 0
    for mine, theirs in zip(ours, answers, strict=True):
        for (text, made, failing), (his, also_failing) in zip(mine, theirs, strict=True):
            differing += [(text, at, made.get(at), his.get(at)) for at in made | his if made.get(at) != his.get(at)]
            if len(also_failing) != min(len(failing), FAILING_ASKED_MAX):
                differing.append((text, "fails here, and not in Spark", failing[:FAILING_ASKED_MAX], also_failing))
            failed += len(also_failing)
    assert not differing, (len(differing), differing[:20])
    assert failed > 20
