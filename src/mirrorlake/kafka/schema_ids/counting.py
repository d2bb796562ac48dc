"""Counts decoded records by the schema id or GUID they name, column by column. Imports no compiled loop.

The rules are those of `id_kernels.py`: the last header of the side's name counts, unless it or the payload is null.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self, TypeVar
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.kafka.schema_ids.counts import (
    NAMES_MAX,
    SchemaIdCounts,
    Seen,
    SideCounts,
    common_sides,
)
from mirrorlake.kafka.schema_ids.framing import HEADER_NAMES, SIDE_NAMES, Framing
from mirrorlake.kafka.schema_ids.id_map import KEY, SchemaName, guids_in

T = TypeVar("T")
Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]
UInt8s = npt.NDArray[np.uint8]

_NULL, _SHORT, _NOT_FRAMED, _ID, _GUID = range(5)
_NAMELESS = {Framing.NULL: _NULL, Framing.SHORT: _SHORT, Framing.NOT_FRAMED: _NOT_FRAMED}
_NAMED_BYTES = {0: 4, 1: 16}
"""By the byte before it: how many bytes an id or a GUID has."""


class SchemaIdCounter:
    """Counts the records of one file, in whatever order they come.

    Args:
        sides: bit 0 for keys, bit 1 for values: what is counted.
    """

    def __init__(self, sides: int) -> None:
        self._sides = sides
        self._nameless: dict[str, dict[Framing, Seen]] = {}
        self._names: dict[str, dict[SchemaName, Seen]] = {}
        for side, name in enumerate(SIDE_NAMES):
            if sides >> side & 1:
                self._nameless[name], self._names[name] = {}, {}

    def take(self, records: RecordColumns) -> None:
        """Counts the next records. A side that names more than ``NAMES_MAX`` schemas is given up."""
        self.add(all_counts(records, self._sides))

    def add(self, counts: SchemaIdCounts) -> None:
        """Adds the next records as they were counted elsewhere, on these sides at least."""
        for name, names in list(self._names.items()):
            _add(counts[name].nameless, self._nameless[name])
            _add(counts[name].names, names)
            if len(names) > NAMES_MAX:
                del self._names[name], self._nameless[name]
                self._sides &= ~(1 << SIDE_NAMES.index(name))

    @property
    def sides(self) -> int:
        """What is still counted: bit 0 for keys, bit 1 for values."""
        return self._sides

    @property
    def counts(self) -> SchemaIdCounts | None:
        """What was counted so far; None where nothing is, or each side was given up."""
        return {
            name: SideCounts(nameless=dict(self._nameless[name]), names=dict(names))
            for name, names in self._names.items()
        } or None


def joined_counts(parts: Sequence[SchemaIdCounts | None]) -> SchemaIdCounts | None:
    """Returns the counts of several parts together: of the sides that were counted of each; None where none was."""
    counter = SchemaIdCounter(common_sides(parts))
    for part in parts:
        if part is not None:
            counter.add(part)
    return counter.counts


def _add(counts: Mapping[T, Seen], to: dict[T, Seen]) -> None:
    for name, seen in counts.items():
        to[name] = seen.joined(to.get(name))


def all_counts(records: RecordColumns, sides: int) -> SchemaIdCounts:
    """Returns what records have on some sides, however many schemas they name."""
    return {name: side_counts(records, side) for side, name in enumerate(SIDE_NAMES) if sides >> side & 1}


def side_counts(records: RecordColumns, side: int) -> SideCounts:
    """Returns what records have on a side, however many schemas they name."""
    if not len(records):
        return SideCounts(nameless={}, names={})
    payload = _Held.of(records.keys if side == KEY else records.values)
    found = _Named.of(payload)
    rows, held = _in_headers(records.headers, HEADER_NAMES[side], payload.lengths >= 0)
    if len(rows):
        found.replace(rows, _Named.of(held))
    nameless = {
        framing: _seen(records.offsets[found.kinds == kind])
        for framing, kind in _NAMELESS.items()
        if (found.kinds == kind).any()
    }
    names: dict[SchemaName, Seen] = {}
    rows = np.flatnonzero(found.kinds == _ID)
    for row, seen in _by_value(found.words[rows, 1], records.offsets[rows]):
        names[int(found.words[rows[row], 1])] = seen
    rows = np.flatnonzero(found.kinds == _GUID)
    for row, seen in _by_value(_order_of(found.words[rows]), records.offsets[rows]):
        names[_guid(found.words[rows[row]])] = seen
    return SideCounts(nameless=nameless, names=names)


class _Held(NamedTuple):
    """Values where they lie: the first byte of each, and how many it has, -1 where it is null."""

    data: UInt8s
    starts: Int64s
    lengths: Int64s

    @classmethod
    def of(cls, array: pa.LargeBinaryArray) -> Self:
        _, ends_buffer, data_buffer = array.buffers()
        ends = np.frombuffer(ends_buffer, np.int64, count=len(array) + 1, offset=8 * array.offset)
        data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
        lengths = np.diff(ends)
        if array.null_count:
            lengths[array.is_null().to_numpy(zero_copy_only=False)] = -1
        return cls(data, ends[:-1], lengths)


class _Named(NamedTuple):
    """What values name: the kind of each, and two words, big-endian and signed, of which an id is the second."""

    kinds: npt.NDArray[np.int8]
    words: Int64s

    @classmethod
    def of(cls, held: _Held) -> Self:
        data, starts, lengths = held
        kinds = np.full(len(lengths), _NOT_FRAMED, np.int8)
        words = np.zeros((len(lengths), 2), np.int64)
        kinds[lengths < 0] = _NULL
        kinds[lengths == 0] = _SHORT
        some = np.flatnonzero(lengths > 0)
        magic = data[starts[some]]
        for first_byte, size in _NAMED_BYTES.items():
            rows = some[magic == first_byte]
            kinds[rows[lengths[rows] <= size]] = _SHORT
            rows = rows[lengths[rows] > size]
            if not len(rows):
                continue
            taken = np.ascontiguousarray(data[(starts[rows] + 1)[:, None] + np.arange(size)])
            if size == _NAMED_BYTES[0]:
                kinds[rows] = _ID
                words[rows, 1] = taken.view(">i4")[:, 0]
            else:
                kinds[rows] = _GUID
                words[rows] = taken.view(">i8")
        return cls(kinds, words)

    def replace(self, rows: Int64s, by: "_Named") -> None:
        """Puts what others name into some rows."""
        self.kinds[rows] = by.kinds
        self.words[rows] = by.words


def _in_headers(headers: pa.ListArray, name: bytes, has_payload: Bools) -> tuple[Int64s, _Held]:
    """Returns the records whose schema a header names, and what it holds."""
    items, bounds = headers.values, headers.offsets.to_numpy()
    nothing = np.empty(0, np.int64)
    found = nothing
    if len(items):
        found = np.flatnonzero(pc.equal(items.field(0), pa.scalar(name, pa.large_binary())).to_numpy(False))
        found = found[(found >= bounds[0]) & (found < bounds[-1])]
    if not len(found):
        return nothing, _Held(np.empty(0, np.uint8), nothing, nothing)
    last = np.full(len(headers), -1, np.int64)
    np.maximum.at(last, np.searchsorted(bounds, found, side="right") - 1, found)
    held = _Held.of(items.field(1))
    rows = np.flatnonzero((last >= 0) & has_payload)
    rows = rows[held.lengths[last[rows]] >= 0]
    return rows, _Held(held.data, held.starts[last[rows]], held.lengths[last[rows]])


def _by_value(values: Int64s, offsets: Int64s) -> list[tuple[int, Seen]]:
    """Returns for each value, of which there may be none, a row that has it and what was seen of it."""
    if not len(values):
        return []
    if (values == values[0]).all():
        return [(0, _seen(offsets))]
    _, rows, which, counts = np.unique(values, return_index=True, return_inverse=True, return_counts=True)
    firsts = np.full(len(rows), np.iinfo(np.int64).max)
    np.minimum.at(firsts, which, offsets)
    numbers = zip(rows.tolist(), counts.tolist(), firsts.tolist(), strict=True)
    return [(row, Seen(count, first)) for row, count, first in numbers]


def _order_of(words: Int64s) -> Int64s:
    """Returns a number for each pair of words, equal where they are."""
    if not len(words) or (words == words[0]).all():
        return np.zeros(len(words), np.int64)
    return np.unique(words, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _seen(offsets: Int64s) -> Seen:
    return Seen(len(offsets), int(offsets.min()))


def _guid(words: Int64s) -> UUID:
    (guid,) = guids_in(words.reshape(1, 2))
    return guid
