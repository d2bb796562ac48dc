"""Decoded records become record batches at their own offsets. Pure.

A batch has one timestamp type, and one time where that is the broker's; offsets in it may have holes. It is cut where
it would become too large, and at a hole where it is large enough to go on as it is: a batch without a hole is appended
as its bytes, one with holes is taken apart by a destination that keeps offsets.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from mirrorlake.destinations.coalescing import NOT_COALESCED_BYTES_MIN
from mirrorlake.kafka.records.batch_header import (
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    PREFIX_BYTES,
    Batch,
    Codec,
    read_header,
    write_header,
)
from mirrorlake.kafka.records.columns import LOG_APPEND_TIME, RecordColumns
from mirrorlake.kafka.records.compression import compress
from mirrorlake.kafka.records.encode import RowEncoder, compressed
from mirrorlake.kafka.records.few_records import are_few
from mirrorlake.kafka.records.kernels import load_kernels

RECORD_BYTES = 16
"""What a record takes in a batch beside its bytes, about."""

ZSTD_LEVEL = 1
"""That of Parquet pages by default. Compressing is most of the work; level 3 takes 1.6 times as long."""

WORTH_IT = 15 / 16
"""What compressed bytes may come to, as a part of the others, to be sent in their place."""

TRIED_AGAIN_BYTES = 32 << 20
"""Behind so many bytes that gain nothing a batch is made both ways again: samples do not show all there is to gain."""

SAMPLED_BYTES = 3 << 19
"""A sample of one batch tells for so many bytes: it takes a tenth of a millisecond, whatever it shows."""

_SAMPLES = 4
_SAMPLE_BYTES = 4 << 10

_SPAN_MAX = 2**31 - 1
"""How far behind a batch's first offset a record of it may lie."""


class Gain:
    """What compression gained of the batches before, for those that follow. One for records that follow one another."""

    def __init__(self) -> None:
        self.is_worth_it: bool | None = None  # of the last batch that was made both ways; None before the first
        self.plain_bytes = 0  # that went without it since then
        self._unsampled_bytes = 0  # since the last sample

    @property
    def is_none_expected(self) -> bool:
        """True where the next batch goes without, unless a sample of it shows something."""
        return self.is_worth_it is False and self.plain_bytes < TRIED_AGAIN_BYTES

    @property
    def is_sampled(self) -> bool:
        """True where a sample of the next batch is to be looked at."""
        return self._unsampled_bytes == 0

    def passed(self, plain_bytes: int) -> None:
        """Takes a batch that goes without."""
        self.plain_bytes += plain_bytes
        self._unsampled_bytes = (self._unsampled_bytes + plain_bytes) if self._unsampled_bytes < SAMPLED_BYTES else 0

    def found(self, plain_bytes: int, compressed_bytes: int) -> bool:
        """Takes what a batch has shown that was made both ways; returns whether it goes compressed."""
        self.is_worth_it = compressed_bytes <= WORTH_IT * plain_bytes
        self.plain_bytes = self._unsampled_bytes = 0
        return self.is_worth_it


def batches_of(columns: RecordColumns, *, codec: Codec, bytes_max: int, gain: Gain | None = None) -> Iterator[Batch]:
    """Yields batches of v2 that hold these records, each in memory of its own that may be written to.

    A record without any time (of message format v0) is one of CreateTime −1, as format v2 has nothing else.

    Args:
        columns: in offset order.
        codec: of the batches.
        bytes_max: record bytes of one, before compression; a record that alone has more is one of its own. What is
            alone in its batch is always compressed: a topic may take it so alone.
        gain: what compression gained of the records before, where those that do not compress, as what is compressed or
            encrypted already, go without: the first batch tells, as it is made both ways, and of each behind one that
            gained nothing a sample is looked at. None where all are compressed.

    Raises:
        RecordTooLargeError: a record is above 2^31 - 1 bytes.
    """
    if not are_few(columns):
        # Each batch by itself may be few records, and would be written without the loops, nine times as slowly.
        load_kernels()
    rows = RowEncoder(columns)
    encoder = _Encoder(rows, codec, gain)
    for start, stop in _cuts(columns, bytes_max):
        made, made_codec = encoder.encoded(start, stop)
        attributes = made_codec | (LOG_APPEND_TIME_BIT if columns.timestamp_types[start] == LOG_APPEND_TIME else 0)
        write_header(made, rows.header(start, stop, made)._replace(attributes=attributes))
        yield Batch(read_header(made, 0, len(made) - PREFIX_BYTES), made)


class _Encoder:
    """Makes batches of one run of records, compressed where that is worth it.

    Args:
        rows: the records.
        codec: that it is tried with.
        gain: as for `batches_of`.
    """

    def __init__(self, rows: RowEncoder, codec: Codec, gain: Gain | None) -> None:
        self._rows = rows
        self._codec = codec
        self._gain = gain

    def encoded(self, start_row: int, stop_row: int) -> tuple[memoryview, Codec]:
        """Returns some rows as one batch that lacks its header, and how it is compressed."""
        plain = self._rows.uncompressed(start_row, stop_row)
        if self._codec == Codec.NONE:
            return plain, Codec.NONE
        gain = self._gain if stop_row - start_row > 1 else None
        if gain is not None and gain.is_none_expected and not (gain.is_sampled and _shrinks(plain, self._codec)):
            gain.passed(len(plain))
            return plain, Codec.NONE
        made = compressed(plain, self._codec, zstd_level=ZSTD_LEVEL)
        if gain is not None and not gain.found(len(plain), len(made)):
            return plain, Codec.NONE
        return made, self._codec


def _shrinks(plain: memoryview, codec: Codec) -> bool:
    """Tells whether a sample of a batch's records, or all of a small one's, become smaller by a codec."""
    records = plain[HEADER_BYTES:]
    if len(records) > _SAMPLES * _SAMPLE_BYTES:
        apart = (len(records) - _SAMPLE_BYTES) // (_SAMPLES - 1)
        sample = b"".join(records[at * apart : at * apart + _SAMPLE_BYTES] for at in range(_SAMPLES))
    else:
        sample = bytes(records)
    return len(compress(codec, sample, zstd_level=ZSTD_LEVEL)) <= WORTH_IT * len(sample)


def _cuts(columns: RecordColumns, bytes_max: int) -> Iterator[tuple[int, int]]:
    """Yields the rows of each batch: first, and the one after the last."""
    offsets = columns.offsets
    ends = np.cumsum(columns.weights(record_bytes=RECORD_BYTES))
    holes = np.flatnonzero(np.diff(offsets) != 1) + 1
    breaks = _breaks(columns)
    row, count, before = 0, len(columns), 0
    while row < count:
        stop = int(np.searchsorted(ends, before + bytes_max, side="right"))
        stop = min(max(stop, row + 1), int(np.searchsorted(offsets, int(offsets[row]) + _SPAN_MAX, side="right")))
        stop = min(stop, _next(breaks, row, count))
        if len(holes):
            large_enough = int(np.searchsorted(ends, before + NOT_COALESCED_BYTES_MIN, side="left")) + 1
            stop = min(stop, _next(holes, large_enough - 1, count))
        yield row, stop
        row, before = stop, int(ends[stop - 1])


def _breaks(columns: RecordColumns) -> npt.NDArray[np.intp]:
    """Returns the rows that cannot share a batch with the one before."""
    types = columns.timestamp_types
    differs = np.diff(types) != 0
    if (types == LOG_APPEND_TIME).any():
        differs |= (types[1:] == LOG_APPEND_TIME) & (np.diff(columns.timestamps) != 0)
    return np.flatnonzero(differs) + 1


def _next(rows: npt.NDArray[np.intp], after: int, otherwise: int) -> int:
    """Returns the first of some ascending rows that is behind ``after``."""
    number = int(np.searchsorted(rows, after, side="right"))
    return int(rows[number]) if number < len(rows) else otherwise
