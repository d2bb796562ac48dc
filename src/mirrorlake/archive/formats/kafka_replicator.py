"""Reading the Parquet files of kafka-replicator, which say less of a record than Kafka did.

Columns ``key``, ``value``, ``offset`` (unsigned), ``timestamp`` (nanoseconds), ``headers``; nothing is null. What the
file is of stands in its key-value metadata. Its statistics are not to be used, its writer fills them with other bytes.
"""

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mirrorlake.archive.formats.name_check import Edge, misplaced
from mirrorlake.archive.formats.parquet_rows import ROW_GROUP_BYTES_MAX
from mirrorlake.archive.formats.record_order import check_offsets, within_range
from mirrorlake.errors import ChainBrokenError
from mirrorlake.foreign_layout import EmptyField
from mirrorlake.kafka.records.columns import CREATE_TIME, HEADER_TYPE, HEADERS_TYPE, NO_TIMESTAMP, RecordColumns
from mirrorlake.offsets import OffsetRange

ROWS_MAX = 1 << 16
"""Records handed out at once, at most."""

BUFFER_BYTES = 1 << 20
"""What is read of a column at a time. Its row groups are of 128 MiB, so a column of one is not read whole."""

COLUMNS = ("key", "value", "offset", "timestamp", "headers")

NANOSECONDS = 1_000_000
"""In a millisecond."""

GO_ZERO_TIME_MS = -62_135_596_800_000
"""Year 1: what Go has for no time at all."""

# A number of nanoseconds that 64 bits do not hold was written modulo 2^64, as Go counts. Kafka's times are whole
# milliseconds, and 2^64 ns is none: so what is left over says how often it went round, from -7812 to 7812 times; that
# is four million years either way.
_ROUND_MS, _ROUND_REST = divmod(1 << 64, NANOSECONDS)
_COMMON = 64
_ROUNDS = NANOSECONDS // _COMMON
_INVERSE = pow(_ROUND_REST // _COMMON, -1, _ROUNDS)


class KafkaReplicatorReader:
    """Reads what one file holds of a range. Close it, or use it as a context manager; the file is closed with it.

    Args:
        file: seekable.
        where: names the file in messages.
        region: of which the file must be, as of ``topic`` and ``partition``.
        topic: see ``region``.
        partition: see ``region``.
        held: the offsets of the file's name.
        served: those that are read of it, a part of ``held`` or all.
        null_for_empty: fields of which an empty one is handed out as null.

    Attributes:
        footer: None: it says of itself what mirrorlake's segments do not.

    Raises:
        ChainBrokenError: not a whole Parquet file, not one of kafka-replicator's, or another one than its name says.
    """

    def __init__(
        self,
        file: BinaryIO,
        *,
        where: str,
        region: str,
        topic: str,
        partition: int,
        held: OffsetRange,
        served: OffsetRange,
        null_for_empty: frozenset[EmptyField] = frozenset(),
    ) -> None:
        self.footer = None
        self._source = file
        self._where = where
        self._topic = topic
        self._partition = partition
        self._held = held
        self._served = served
        self._nulls = null_for_empty
        try:
            self._file = pq.ParquetFile(file, pre_buffer=False, buffer_size=BUFFER_BYTES)
            self._check_columns()
            self._check_place(region)
        except (pa.ArrowException, OSError, ValueError) as error:
            file.close()
            raise self._damaged(error) from error
        except BaseException:
            file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._source.close()

    def records(self, *, within: OffsetRange | None = None) -> Iterator[RecordColumns]:
        """Yields the records of what is served in offset order, in pieces of bounded size.

        Args:
            within: leaves out records outside.

        Raises:
            ChainBrokenError: damaged, or offsets that do not grow, or lie outside the range of the file's name, or do
                not end with its last one.
        """
        wanted = self._served if within is None else _common(self._served, within)
        position = self._held.start_offset
        for group in range(self._file.num_row_groups):
            if position >= wanted.end_offset:
                return
            # Statistics are not to be used, but the offsets alone are read quickly.
            last = self._last_of(group) if wanted.start_offset > position else None
            if last is not None and position <= last < wanted.start_offset:
                position = last + 1
                continue
            for batch in self._batches(group, COLUMNS):
                columns = self._decoded(batch)
                position = self._followed(columns.offsets, position)
                if len(kept := within_range(columns, wanted)):
                    yield kept
        if position != self._held.end_offset:
            raise self._cut_short()

    def edges(self) -> tuple[Edge, ...]:
        """Returns the first and the last record of the file; nothing without records.

        Raises:
            ChainBrokenError: damaged.
        """
        groups = [each for each in range(self._file.num_row_groups) if self._file.metadata.row_group(each).num_rows]
        if not groups:
            return ()
        first = int(next(self._offsets(groups[0]))[0])
        last = self._last_of(groups[-1])
        assert last is not None, "a row group with rows"
        return Edge(partition=self._partition, offset=first), Edge(partition=self._partition, offset=last)

    def sources(self) -> set[tuple[str, int]]:
        """Returns the topic and partition that the file says its records are of."""
        return {(self._topic, self._partition)}

    def check_bytes(self) -> None:
        """Does nothing: the file says nothing of its bytes."""

    def check_content(self, *, each: Callable[[RecordColumns], None] | None = None) -> None:
        """Reads everything that is served.

        Args:
            each: called with the records on the way.

        Raises:
            ChainBrokenError: damaged.
        """
        for columns in self.records():
            if each is not None:
                each(columns)

    # --- what the file says -------------------------------------------------------------------------------

    def _check_columns(self) -> None:
        missing = [name for name in COLUMNS if name not in self._file.schema_arrow.names]
        if missing:
            raise self._broken(f"is not a file of kafka-replicator's: it has no columns {missing}")

    def _check_place(self, region: str) -> None:
        """Compares what the file says it is of with its name and its folders."""
        said = {key.decode(): value.decode() for key, value in (self._file.metadata.metadata or {}).items()}
        self._compare(said, "region", region)
        self._compare(said, "topic", self._topic)
        self._compare(said, "partition", self._partition)
        self._compare(said, "startOffset", self._held.start_offset)
        last = self._held.end_offset - 1
        if self._said(said, "endOffset") != str(last):
            # Its compaction names a file by too low an end where the last input lay inside of another one. Whoever
            # gives that file the name of its last record's offset brings its records back.
            end, edges = int(self._said(said, "endOffset")), self.edges()
            if end > last or not edges or edges[-1].offset != last:
                raise misplaced(self._where, f"says of itself that it ends at offset {end}", f"it ends at {last}")
        rows = self._file.metadata.num_rows
        if self._said(said, "messageCount") != str(rows):
            raise self._broken(f"holds {rows} records, and says that they are {said['messageCount']}")

    def _compare(self, said: dict[str, str], what: str, wanted: str | int) -> None:
        if (found := self._said(said, what)) != str(wanted):
            raise misplaced(self._where, f"says of itself that its {what} is {found}", f"it is {wanted}")

    def _said(self, said: dict[str, str], what: str) -> str:
        if what not in said:
            raise self._broken(f"is not a file of kafka-replicator's: it does not say its {what}")
        return said[what]

    # --- records ------------------------------------------------------------------------------------------

    def _followed(self, offsets: npt.NDArray[np.int64], position: int) -> int:
        """Returns the position behind some offsets, which must grow and lie in the range of the file's name."""
        after = check_offsets(offsets, position, None, where=self._where)
        if after <= self._held.end_offset:
            return after
        last = self.edges()[-1].offset
        raise ChainBrokenError(
            f"{self._where} holds offsets up to {last}, and its name ends at {self._held.end_offset - 1}",
            hint="kafka-replicator's compaction names a file so where the last one it took lay inside of another, and "
            f"deletes those: give it the name that ends in {last:020}, and all of it is read",
            key=self._where,
        )

    def _batches(self, group: int, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        metadata = self._file.metadata.row_group(group)
        if not metadata.num_rows:
            return
        row_bytes = max(1, metadata.total_byte_size // metadata.num_rows)
        rows = min(ROWS_MAX, max(1, ROW_GROUP_BYTES_MAX // row_bytes)) if len(columns) > 1 else ROWS_MAX
        try:
            yield from self._file.iter_batches(
                batch_size=rows, row_groups=[group], columns=list(columns), use_threads=False
            )
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._damaged(error) from error

    def _offsets(self, group: int) -> Iterator[npt.NDArray[np.int64]]:
        try:
            for batch in self._batches(group, ("offset",)):
                yield _numbers(batch, "offset")
        except (pa.ArrowException, ValueError) as error:
            raise self._damaged(error) from error

    def _last_of(self, group: int) -> int | None:
        """Returns the last offset of a row group; None where it has none."""
        last = None
        for offsets in self._offsets(group):
            last = int(offsets[-1])
        return last

    def _decoded(self, batch: pa.RecordBatch) -> RecordColumns:
        try:
            return RecordColumns.of(
                offsets=_numbers(batch, "offset"),
                timestamps=kafka_times(_numbers(batch, "timestamp")),
                timestamp_types=np.full(len(batch), CREATE_TIME, np.int8),
                keys=self._bytes(batch.column("key"), EmptyField.KEY),
                values=self._bytes(batch.column("value"), EmptyField.VALUE),
                headers=self._headers(batch.column("headers")),
            )
        except (pa.ArrowException, ValueError) as error:
            raise self._damaged(error) from error

    def _bytes(self, column: pa.Array, field: EmptyField) -> pa.LargeBinaryArray:
        found = column.cast(pa.large_binary())
        if field not in self._nulls:
            return found
        return pc.if_else(pc.equal(pc.binary_length(found), 0), pa.scalar(None, pa.large_binary()), found)

    def _headers(self, headers: pa.Array) -> pa.ListArray:
        found = headers.type
        if not (pa.types.is_list(found) and pa.types.is_struct(found.value_type) and headers.null_count == 0):
            raise ValueError(f"headers of type {found}")
        bounds, items = headers.offsets.to_numpy(), headers.flatten()
        keys = items.field("key").cast(pa.large_binary())
        values = self._bytes(items.field("value"), EmptyField.HEADER_VALUE)
        struct = pa.StructArray.from_arrays([keys, values], fields=list(HEADER_TYPE))
        return pa.ListArray.from_arrays(pa.array(bounds - bounds[0]), struct, type=HEADERS_TYPE)

    # --- what is wrong ------------------------------------------------------------------------------------

    def _cut_short(self) -> ChainBrokenError:
        return self._broken(f"ends before offset {self._held.end_offset - 1}, the last of its name")

    def _damaged(self, error: Exception) -> ChainBrokenError:
        return self._broken(f"cannot be read as a file of kafka-replicator's: {error}")

    def _broken(self, what: str) -> ChainBrokenError:
        return ChainBrokenError(
            f"{self._where} {what}",
            hint="put it back from a copy; or, where files of other levels hold its offsets, move it out of the folder",
            key=self._where,
        )


def kafka_times(nanoseconds: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Returns Kafka's times of those that kafka-replicator stored: Unix milliseconds, -1 for none.

    Raises:
        ValueError: one cannot come from a whole number of milliseconds.
    """
    times: npt.NDArray[np.int64] = nanoseconds // NANOSECONDS
    rows = np.flatnonzero(nanoseconds % NANOSECONDS)
    if len(rows):
        wrapped = nanoseconds[rows]
        if (wrapped % _COMMON).any():
            raise ValueError(f"a timestamp that is no time of Kafka's: {wrapped[np.flatnonzero(wrapped % _COMMON)[0]]}")
        rounds = (-(wrapped // _COMMON % _ROUNDS) * _INVERSE) % _ROUNDS
        rounds = np.where(rounds > _ROUNDS // 2, rounds - _ROUNDS, rounds)
        rest = (wrapped % NANOSECONDS + rounds * _ROUND_REST) // NANOSECONDS
        times[rows] = times[rows] + rounds * _ROUND_MS + rest
        times[times == GO_ZERO_TIME_MS] = NO_TIMESTAMP
    return times


def _numbers(batch: pa.RecordBatch, name: str) -> npt.NDArray[np.int64]:
    column = batch.column(name).cast(pa.int64())
    if column.null_count:
        raise ValueError(f"null in {name}")
    numbers: npt.NDArray[np.int64] = column.to_numpy()
    return numbers


def _common(one: OffsetRange, other: OffsetRange) -> OffsetRange:
    start = max(one.start_offset, other.start_offset)
    return OffsetRange(start_offset=start, end_offset=max(start, min(one.end_offset, other.end_offset)))
