"""Values of rows as text: nothing is lost, and null is not empty."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from mirrorlake.errors import QueryError
from mirrorlake.spark_source.sql_output import check_names, csv_field, in_utc, moment_text
from mirrorlake.spark_source.values.plain import plain

TEXTS = [None, "", "a", 'say "no"', "a,b", "two\nlines", "null", " "]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Every text beside a number: null, empty, and all that needs quotes."""
    path = tmp_path / "rows.csv"
    lines = ["n,text", *(f"{number},{csv_field(text)}" for number, text in enumerate(TEXTS))]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_null_is_an_empty_field_and_an_empty_text_has_quotes() -> None:
    values: list[Any] = [None, "", b"", "a b", 'a"b', "a\rb", 1, True, [], {"a": None}]

    assert [csv_field(value) for value in values] == [
        "",
        '""',
        '""',
        "a b",
        '"a""b"',
        '"a\rb"',
        "1",
        "True",
        "[]",
        '"{""a"": null}"',
    ]


@pytest.fixture
def _in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


MOMENT = datetime(2026, 1, 31, 21, 30, 0, 250_000)
UTC_TEXT, BARE_TEXT = "2026-01-31T12:30:00.250000+00:00", "2026-01-31T21:30:00.250000"


@pytest.mark.usefixtures("_in_tokyo")
@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (ArrayType(TimestampType()), [MOMENT, None], [UTC_TEXT, None]),
        (ArrayType(TimestampNTZType()), [MOMENT, None], [BARE_TEXT, None]),
        (ArrayType(ArrayType(TimestampType())), [[MOMENT], None, []], [[UTC_TEXT], None, []]),
        (MapType(StringType(), TimestampType()), {"a": MOMENT, "b": None}, {"a": UTC_TEXT, "b": None}),
        (MapType(TimestampType(), StringType()), {MOMENT: "a"}, {UTC_TEXT: "a"}),
        (MapType(TimestampType(), ArrayType(TimestampType())), {MOMENT: [MOMENT]}, {UTC_TEXT: [UTC_TEXT]}),
        (
            StructType([StructField("t", TimestampType()), StructField("n", TimestampNTZType())]),
            Row(t=MOMENT, n=MOMENT),
            {"t": UTC_TEXT, "n": BARE_TEXT},
        ),
        (
            StructType([StructField("a b", ArrayType(StructType([StructField("t", TimestampType())])))]),
            Row(**{"a b": [Row(t=MOMENT), None]}),
            {"a b": [{"t": UTC_TEXT}, None]},
        ),
    ],
)
def test_times_inside_of_values_say_their_zone_and_those_without_one_do_not(kind: Any, value: Any, text: Any) -> None:
    into = in_utc(kind)
    shown = plain(value if into is None else into(value))

    assert shown == text
    assert csv_field(value if into is None else into(value)) == csv_field(text)


def test_of_values_without_times_nothing_is_changed() -> None:
    for kind in (StringType(), ArrayType(BinaryType()), StructType([]), MapType(StringType(), StringType())):
        assert in_utc(kind) is None


def test_duckdb_reads_null_and_empty_as_they_were(file: Path) -> None:
    with duckdb.connect() as database:
        rows = database.sql(f"select text from read_csv('{file}', allow_quoted_nulls = false) order by n").fetchall()

    assert [text for (text,) in rows] == TEXTS


def test_pyarrow_reads_null_and_empty_as_they_were(file: Path) -> None:
    table = pa_csv.read_csv(
        file,
        parse_options=pa_csv.ParseOptions(newlines_in_values=True),
        convert_options=pa_csv.ConvertOptions(
            column_types={"text": pa.string()},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )

    assert table["text"].to_pylist() == TEXTS


def test_pandas_reads_both_as_one_and_all_else_as_it_was(file: Path) -> None:
    read = pd.read_csv(file, keep_default_na=False, dtype={"text": str})

    assert read["text"].tolist() == [text or "" for text in TEXTS]


def test_of_one_column_null_is_an_empty_line_which_some_readers_must_be_told_to_keep(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("text\n" + "".join(f"{csv_field(text)}\n" for text in ("a", None, "", "b")), encoding="utf-8")

    with duckdb.connect() as database:
        rows = database.sql(f"select text from read_csv('{path}', allow_quoted_nulls = false)").fetchall()
    assert [text for (text,) in rows] == ["a", None, "", "b"]
    assert len(pd.read_csv(path)) == 3
    assert len(pd.read_csv(path, skip_blank_lines=False)) == 4
    assert pa_csv.read_csv(path).num_rows == 3
    assert pa_csv.read_csv(path, parse_options=pa_csv.ParseOptions(ignore_empty_lines=False)).num_rows == 4


@given(st.datetimes(timezones=st.just(UTC)))
def test_times_are_written_as_python_writes_them(moment: datetime) -> None:
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)

    assert moment_text((since.days * 86_400 + since.seconds) * 10**6 + since.microseconds) == moment.isoformat()


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (253_402_300_799_999_999, "9999-12-31T23:59:59.999999+00:00"),
        (253_402_300_800_000_000, "+10000-01-01T00:00:00+00:00"),
        (1_700_000_000_000_000_000, "+55840-11-08T22:13:20+00:00"),
        (2**63 - 1, "+294247-01-10T04:00:54.775807+00:00"),
        (-62_135_596_800_000_000, "0001-01-01T00:00:00+00:00"),
        (-62_135_596_800_000_001, "0000-12-31T23:59:59.999999+00:00"),
        (-62_167_219_200_000_001, "-0001-12-31T23:59:59.999999+00:00"),
    ],
)
def test_times_of_years_that_python_has_not_are_written_as_the_standard_has_them(microseconds: int, text: str) -> None:
    assert moment_text(microseconds) == text


def test_keys_of_maps_are_text_of_the_same_form_as_values() -> None:
    assert plain({b"ab": 1, "x": b"ab", 2: None}) == {"YWI=": 1, "x": "YWI=", "2": None}


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_columns_of_the_same_name_are_refused_where_one_would_be_lost(form: str) -> None:
    frame = StructType([StructField(name, BinaryType()) for name in ("key", "value", "key", "Key")])

    with pytest.raises(QueryError, match="are called key: of those") as error:
        check_names(frame, form)
    assert "`as`" in error.value.hint
    check_names(frame, "csv")
    check_names(frame, "table")


@pytest.mark.parametrize("form", ["json", "parquet", "csv", "table"])
def test_fields_of_the_same_name_inside_a_column_are_refused_everywhere(form: str) -> None:
    twice = StructType([StructField("a", BinaryType()), StructField("a", BinaryType())])
    for schema in (StructType().add("x", twice), StructType().add("y", ArrayType(StructType().add("z", twice)))):
        with pytest.raises(QueryError, match="are called a"):
            check_names(schema, form)
    check_names(StructType().add("a", StructType().add("a", BinaryType())), form)
