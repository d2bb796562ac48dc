"""What a filter keeps, by hand; that it is what Spark would keep is asked of Spark in the integration tests."""

import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.filters.evaluation import kept_rows
from mirrorlake.filters.json_fields import json_field
from mirrorlake.filters.parsing import parse_filter
from mirrorlake.filters.spark_texts import to_bigint, to_double
from mirrorlake.kafka.records.columns import RecordColumns, bytes_column, headers_column
from support.script_environ import SCRIPT_ENVIRON

RECORDS = RecordColumns.of(
    offsets=np.array([0, 3, 4, 9], np.int64),
    timestamps=np.array([-1, 0, 10, 20], np.int64),
    timestamp_types=np.zeros(4, np.int8),
    keys=bytes_column([None, b"", b"a", b"\xff"]),
    values=bytes_column(
        [b'{"n": "12"}', None, b'{"n": 7.5}', b'{"n": '],
    ),
    headers=headers_column([[], [(b"t", b"x"), (b"t", b"y")], [(b"t", None)], [(b"T", b"y"), (b"t", b"x")]]),
)

LONG = 300_000

KEPT = {
    "true": [0, 3, 4, 9],
    "false": [],
    "key IS NULL": [0],
    "key = 'a'": [4],
    "key <> 'a'": [3, 9],
    "NOT key = 'a'": [3, 9],
    "key <=> 'a' OR key IS NULL": [0, 4],
    "key > 'a'": [9],
    "key = 'a' OR offset = 0": [0, 4],
    "key = 'b' AND value = 'b' OR offset = 3": [3],
    "headers['t'] = 'y'": [3],
    "headers['t'] = 'x'": [9],
    "headers['t'] IS NULL": [0, 4],
    "headers['T'] IS NOT NULL": [9],
    "timestamp < TIMESTAMP '1970-01-01T00:00:00.010Z'": [0, 3],
    "partition = 5": [0, 3, 4, 9],
    "partition = 4": [],
    "offset BETWEEN 3 AND 4": [3, 4],
    "offset IN (0, 9, 100)": [0, 9],
    "length(value) > 10": [0],
    "CAST(get_json_object(CAST(value AS STRING), '$.n') AS BIGINT) = 7": [4],
    "CAST(get_json_object(CAST(value AS STRING), '$.n') AS DOUBLE) > 7": [0, 4],
    "get_json_object(CAST(value AS STRING), '$.n') IS NULL": [3, 9],
    "CAST(value AS STRING) LIKE '%7._}'": [4],
    "substring(value, 2, 3) = '\"n\"'": [0, 4, 9],
    "pmod(offset, 2) = 1": [3, 9],
    "crc32(key) = 0": [3],
    "CAST(key AS STRING) || 'b' = 'ab'": [4],
    "concat(key, value) IS NULL": [0, 3],
    "coalesce(key, value) = key": [3, 4, 9],
    "coalesce(headers['t'], headers['T'], key) = 'y'": [3],
    "CASE WHEN key IS NULL THEN true WHEN offset > 4 THEN NULL ELSE offset = 3 END": [0, 3],
    "CASE offset WHEN 4 THEN 'four' WHEN 9 THEN 'nine' END = 'nine'": [9],
    "CASE WHEN offset = 4 THEN 1 ELSE offset END = 1": [4],
    "CAST(offset AS STRING) = '9'": [9],
    "CAST(key IS NULL AS STRING) = 'true'": [0],
    "unix_millis(timestamp) = -1": [0],
    "sha2(key, 256) LIKE 'e3b0c442%'": [3],
}


@pytest.mark.parametrize("condition", KEPT)
def test_records_are_kept_for_which_a_condition_is_true_and_not_those_for_which_it_is_null(condition: str) -> None:
    kept = kept_rows(parse_filter(condition), RECORDS, partition=5)
    assert RECORDS.offsets[kept].tolist() == KEPT[condition]


@pytest.mark.parametrize("condition", KEPT)
def test_nothing_is_kept_of_nothing(condition: str) -> None:
    assert kept_rows(parse_filter(condition), RecordColumns.empty(), partition=5).tolist() == []


@pytest.mark.parametrize("condition", KEPT)
def test_a_part_of_some_records_is_judged_as_in_the_whole(condition: str) -> None:
    wanted = parse_filter(condition)
    parts = [kept_rows(wanted, RECORDS.slice(row, row + 1), partition=5).tolist() for row in range(4)]
    assert [kept for part in parts for kept in part] == kept_rows(wanted, RECORDS, partition=5).tolist()


@given(st.binary(max_size=40) | st.text(alphabet="{}[]\":,'\\ua10.eE-nulltruefalse ", max_size=40).map(str.encode))
def test_no_bytes_make_an_evaluation_fail(text: bytes) -> None:
    json_field(text, ("a", "b"))
    to_bigint(text)
    to_double(text)


@pytest.mark.parametrize(
    ("text", "characters"),
    [
        (b"\xed\xa0\x80", 1),
        (b"\xed\xbf\xbf", 1),
        (b"\xed\xa0", 1),
        (b"\xed\xa0x", 2),
        (b"\xed\x9f\xbf", 1),  # the last character before the surrogates
        (b"\xed\x9fx", 2),
        (b"\xed\xb0\x80\x80", 2),
        (b"\xf0\x9f\xed\xa0\x80", 2),
    ],
)
def test_an_encoded_surrogate_is_one_flaw_as_java_has_it(text: bytes, characters: int) -> None:
    document = RecordColumns.of(
        offsets=np.zeros(1, np.int64),
        timestamps=np.zeros(1, np.int64),
        timestamp_types=np.zeros(1, np.int8),
        keys=bytes_column([text]),
        values=bytes_column([b'{"a":"%s"}' % text]),
        headers=headers_column([[]]),
    )
    of_key, of_field = (
        parse_filter(f"{side} LIKE '{'_' * characters}'")
        for side in ("CAST(key AS STRING)", "get_json_object(CAST(value AS STRING), '$.a')")
    )
    assert kept_rows(of_key, document, partition=0).tolist() == [True]
    assert kept_rows(of_field, document, partition=0).tolist() == [True]


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("CAST({} AS DOUBLE) IS NULL", b"1" * LONG + b"x"),
        ("CAST({} AS DOUBLE) IS NULL", b"0x" + b"1" * LONG + b"x"),
        ("CAST({} AS BIGINT) IS NULL", b"1" * LONG + b"x"),
        ("{} NOT LIKE '%a%a_a%a%b%'", b"a" * LONG),
        ("{} NOT LIKE '%a%a_a%a%b'", b"a" * LONG),
        ("get_json_object({}, '$.a') IS NULL", b"{'\"" + b'\\"' * LONG),
        ("get_json_object({}, '$.a') IS NULL", b"{'\"" + b'\\"' * LONG + b"\\"),
        ("get_json_object({}, '$.a') IS NULL", b"'\"" * LONG),
    ],
)
def test_no_record_takes_time_that_is_more_than_in_proportion_to_its_length(expression: str, text: bytes) -> None:
    # In a process of its own: what takes hours holds the interpreter's lock, and nobody could end it.
    condition = expression.format("CAST(value AS STRING)")
    script = f"""
import sys
from unit.filters.test_evaluation import kept_of
assert kept_of({condition!r}, sys.stdin.buffer.read()) == [True]
"""
    subprocess.run([sys.executable, "-c", script], input=text, env=SCRIPT_ENVIRON, timeout=60, check=True)


@given(
    text=st.text(alphabet="ab\n", max_size=12),
    pattern=st.text(alphabet="ab%_", max_size=8),
)
def test_like_is_what_it_is_with_all_ways_tried(text: str, pattern: str) -> None:
    parts = ["." if part == "_" else ".*" if part == "%" else re.escape(part) for part in pattern]
    is_like = re.fullmatch("".join(parts), text, re.DOTALL) is not None
    assert kept_of(f"CAST(value AS STRING) LIKE '{pattern}'", text.encode()) == [is_like]


def kept_of(condition: str, value: bytes) -> list[bool]:
    records = RecordColumns.of(
        offsets=np.zeros(1, np.int64),
        timestamps=np.zeros(1, np.int64),
        timestamp_types=np.zeros(1, np.int8),
        keys=bytes_column([None]),
        values=bytes_column([value]),
        headers=headers_column([[]]),
    )
    kept: list[bool] = kept_rows(parse_filter(condition), records, partition=0).tolist()
    return kept


def test_a_document_that_is_deeper_than_python_goes_is_read_as_deep_as_spark_reads() -> None:
    deep, deeper = (b'{"a":' + b"[" * depth + b"]" * depth + b"}" for depth in (999, 1000))
    assert json_field(deep, ("a",)) == b"[" * 999 + b"]" * 999
    assert json_field(deeper, ("a",)) is None
