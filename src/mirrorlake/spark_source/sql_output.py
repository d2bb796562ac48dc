"""Rows of a query as a table, JSON lines, CSV or Parquet; as they come, in bounded memory, but for a table."""

import json
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from mirrorlake.errors import QueryError
from mirrorlake.spark_source.sql import told
from mirrorlake.spark_source.values.plain import plain

TABLE_ROWS_MAX = 1000
"""What a table shows; its columns are as wide as the widest of these."""

Rows = Iterator[Sequence[Any]]

_BATCH_ROWS = 10_000
_CELL_MAX = 60
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The calendar repeats itself every 400 years.
_CYCLE_YEARS = 400
_CYCLE_MICROSECONDS = 146_097 * 86_400 * 10**6


def write_rows(frame: Any, form: str, file: IO[bytes]) -> None:
    """Writes all rows of a DataFrame.

    Args:
        frame: of Spark's.
        form: ``table``, ``json``, ``csv`` or ``parquet``; or ``text``, the first column alone and as it is.
        file: takes the bytes.

    Raises:
        QueryError: see `check_names`.
        QueryError: Spark could not bring all rows; what was written before is not all.
    """
    writers: dict[str, Callable[[Any, Rows, IO[bytes]], None]] = {
        "table": _write_table,
        "text": _write_text,
        "json": _write_json,
        "csv": _write_csv,
        "parquet": _write_parquet,
    }
    check_names(frame.schema, form)

    def write() -> None:
        wanted = frame.limit(TABLE_ROWS_MAX + 1) if form == "table" else frame
        with closing(_rows(wanted, int if form == "parquet" else moment_text)) as rows:
            writers[form](frame, rows, file)

    told(write)


def check_names(schema: Any, form: str) -> None:
    """Checks that no value is lost because another one has the same name; in a table and in CSV columns have places.

    Args:
        schema: of the result, Spark's.
        form: as `write_rows` has it.

    Raises:
        QueryError: columns, or fields of one column, have the same name.
    """
    kinds = [schema] if form in ("json", "parquet") else [field.dataType for field in schema.fields]
    if repeated := sorted({name for kind in kinds for name in _repeated(kind)}):
        names = ", ".join(repeated)
        raise QueryError(
            f"several columns, or fields of one, are called {names}: of those --format {form} would keep one",
            hint="give each its own name with `as`",
        )


def _repeated(kind: Any) -> Iterator[str]:
    """Yields the names that several fields of a type share, of all that is in it."""
    match kind.typeName():
        case "struct":
            yield from (name for name, count in Counter(kind.fieldNames()).items() if count > 1)
            for field in kind.fields:
                yield from _repeated(field.dataType)
        case "array":
            yield from _repeated(kind.elementType)
        case "map":
            yield from _repeated(kind.keyType)
            yield from _repeated(kind.valueType)


def _rows(frame: Any, moment: Callable[[int], Any]) -> Generator[Sequence[Any]]:
    """Yields the rows; of a timestamp what ``moment`` makes of its microseconds since 1970.

    Timestamps inside of arrays, structs and maps are Python's, in UTC; times without a zone have none.

    Raises:
        QueryError: a row has a time that Python has not, in a place where it is no timestamp of its own.
    """
    from pyspark.sql.functions import unix_micros

    times = [field.dataType.typeName() == "timestamp" for field in frame.schema]
    # As numbers: PySpark makes times of this process's own zone of them, and of none beyond the year 9999.
    zoned = [None if is_time else in_utc(field.dataType) for field, is_time in zip(frame.schema, times, strict=True)]
    counted = frame.toDF(*(f"c{number}" for number in range(len(times))))
    counted = counted.select(
        [unix_micros(f"c{number}") if is_time else f"c{number}" for number, is_time in enumerate(times)]
    )
    try:
        with _fetched(counted) as rows:
            for row in rows:
                yield [
                    value if value is None else moment(value) if is_time else into(value) if into else value
                    for value, is_time, into in zip(row, times, zoned, strict=True)
                ]
    except (ValueError, OverflowError) as error:
        raise QueryError(
            f"Python cannot hold a value of this result: {error}",
            hint="dates, times without a zone, and times inside of arrays, structs and maps lie in the years 1 to "
            "9999: cast others to string",
        ) from error


@contextmanager
def _fetched(frame: Any) -> Iterator[Iterator[Any]]:
    """Gives the rows of a DataFrame; of the result Spark's driver holds a partition at a time.

    PySpark ends the connection when its iterator is collected, which an error's traceback puts off for as long as
    somebody holds it, and then complains where nobody can hear it that the JVM has gone. So it is ended here.
    """
    rows = frame.toLocalIterator()
    connection = rows.gi_frame.f_locals["self"]
    try:
        yield rows
    finally:
        rows.close()
        is_whole, connection._read_status = connection._read_status != 1, 0  # nothing is left to do for `__del__`
        with suppress(OSError):
            if not is_whole:
                connection._sockfile.write(bytes(4))  # no further partition is wanted
            connection._sockfile.close()
        connection._sock.close()


def in_utc(kind: Any) -> Callable[[Any], Any] | None:
    """Returns what gives the timestamps in values of a type their zone; None where there are none in it.

    PySpark gives each as a time of this process's zone that does not say so, as it gives times without a zone too: the
    type alone tells them apart.

    Args:
        kind: Spark's type of the values, of which nulls are left as they are.
    """
    match kind.typeName():
        case "timestamp":
            return _utc
        case "array":
            element = in_utc(kind.elementType)
            return element and (lambda values: [_or_null(element, each) for each in values])
        case "map":
            key, value = in_utc(kind.keyType), in_utc(kind.valueType)
            return (key or value) and (
                lambda entries: {_or_null(key, name): _or_null(value, each) for name, each in entries.items()}
            )
        case "struct":
            return _struct_in_utc(kind)
    return None


def _struct_in_utc(kind: Any) -> Callable[[Any], Any] | None:
    from pyspark.sql import Row

    fields = [in_utc(field.dataType) for field in kind.fields]
    named = Row(*kind.fieldNames())
    if not any(fields):
        return None
    return lambda row: named(*(_or_null(into, each) for into, each in zip(fields, row, strict=True)))


def _utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)


def _or_null(into: Callable[[Any], Any] | None, value: Any) -> Any:
    return value if into is None or value is None else into(value)


def moment_text(microseconds: int) -> str:
    """Returns a time as ISO 8601 in UTC, also one of the years that Python's own times have not.

    Years above 9999 have a sign and as many digits as it takes, as the standard has them; year 0 is 1 BC.
    """
    cycles, within = divmod(microseconds, _CYCLE_MICROSECONDS)
    moment = _EPOCH + timedelta(microseconds=within)
    year = moment.year + _CYCLE_YEARS * cycles
    text = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+05d}"
    return text + moment.isoformat()[4:]


def _write_json(frame: Any, rows: Rows, file: IO[bytes]) -> None:
    for row in rows:
        fields = {name: plain(value) for name, value in zip(frame.columns, row, strict=True)}
        file.write(json.dumps(fields, ensure_ascii=False).encode() + b"\n")


def _write_text(_: Any, rows: Rows, file: IO[bytes]) -> None:
    """Writes the first column's text as it is."""
    for row in rows:
        file.write(f"{row[0]}\n".encode())


def _write_csv(frame: Any, rows: Rows, file: IO[bytes]) -> None:
    for row in chain([frame.columns], rows):
        file.write(",".join(csv_field(value) for value in row).encode() + b"\n")


def _write_parquet(frame: Any, rows: Rows, file: IO[bytes]) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = to_arrow_schema(frame.schema, timezone="UTC")
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        while batch := list(islice(rows, _BATCH_ROWS)):
            columns = [
                pa.array([_arrow(value) for value in column], field.type)
                for field, column in zip(schema, zip(*batch, strict=True), strict=True)
            ]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))


def _write_table(frame: Any, rows: Rows, file: IO[bytes]) -> None:
    shown = [[_table_cell(value) for value in row] for row in islice(rows, TABLE_ROWS_MAX)]
    are_more = next(rows, None) is not None
    widths = [max([len(name), *(len(row[n]) for row in shown)]) for n, name in enumerate(frame.columns)]
    lines = [frame.columns, ["-" * width for width in widths], *shown]
    for line in lines:
        text = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        file.write(text.encode() + b"\n")
    if are_more:
        file.write(f"… more than {TABLE_ROWS_MAX} rows: --format json, csv or parquet brings all\n".encode())


def csv_field(value: Any) -> str:
    """Returns a value as a field of CSV: null is an empty one without quotes, and an empty text has quotes."""
    if value is None:
        return ""
    text = str(_csv_cell(value))
    if text and not any(mark in text for mark in ',"\r\n'):
        return text
    return '"' + text.replace('"', '""') + '"'


def _csv_cell(value: Any) -> Any:
    found = plain(value)
    return json.dumps(found, ensure_ascii=False) if isinstance(found, list | dict) else found


def _table_cell(value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        try:
            text = bytes(value).decode()
        except UnicodeDecodeError:
            text = f"0x{bytes(value[:_CELL_MAX]).hex()}"
    else:
        text = "null" if value is None else str(_csv_cell(value))
    shown = "".join(letter if letter.isprintable() else "·" for letter in text)
    return shown if len(shown) <= _CELL_MAX else f"{shown[: _CELL_MAX - 1]}…"


def _arrow(value: Any) -> Any:
    match value:
        case bytearray():
            return bytes(value)
        case _ if hasattr(value, "asDict"):
            return {key: _arrow(each) for key, each in value.asDict().items()}
        case dict():
            return [(_arrow(key), _arrow(each)) for key, each in value.items()]
        case list():
            return [_arrow(each) for each in value]
    return value
