"""Schema ids and GUIDs of decoded records, for who compares a copy with its source.

Changed as `rewriting.py` changes those of batches, or set aside: where both sides are set to the same, everything but
the ids is compared.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mirrorlake.errors import MirrorlakeError, SchemaUnknownError, SchemaUnreadableError
from mirrorlake.kafka.records.columns import HEADERS_TYPE, RecordColumns, bytes_column
from mirrorlake.kafka.schema_ids.framing import HEADER_NAMES
from mirrorlake.kafka.schema_ids.id_map import (
    ABSENT_ID,
    KEY,
    UNKNOWN_IDS_MAX,
    VALUE,
    SchemaIdMap,
    SchemaName,
    guid_rows,
    guids_in,
)

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]
UInt8s = npt.NDArray[np.uint8]

# By the byte before it: how many bytes an id or GUID has, in numbers of which width.
_FORMS = {0: (4, ">i4"), 1: (16, ">i8")}


class _Change(Protocol):
    """What becomes of ids, a row of one number each, and of GUIDs, a row of two (`guid_rows`)."""

    def ids(self, found: Int64s) -> Int64s: ...

    def guids(self, found: Int64s) -> Int64s: ...


def columns_with_ids(records: RecordColumns, ids: SchemaIdMap) -> RecordColumns:
    """Returns the same records with the destination's schema ids and GUIDs; shares what does not change.

    What cannot be read is as it was: whether it may be copied is not decided here.

    Raises:
        SchemaUnknownError: an id or GUID is not in the map.
        SchemaUnreadableError: the schema of one does not come to the destination.
    """
    return _changed(records, ids.sides, _Mapped(ids))


def columns_without_ids(records: RecordColumns, sides: int) -> RecordColumns:
    """Returns the same records with 0 for every schema id and GUID; shares what does not change.

    Args:
        records: of the source, or of its copy.
        sides: bit 0 for keys, bit 1 for values: what has ids.
    """
    return _changed(records, sides, _SetAside())


class _SetAside:
    def ids(self, found: Int64s) -> Int64s:
        return np.zeros_like(found)

    def guids(self, found: Int64s) -> Int64s:
        return np.zeros_like(found)


class _Mapped:
    """What ids and GUIDs are at the destination; those the source does not know stay."""

    def __init__(self, ids: SchemaIdMap) -> None:
        self._ids = ids
        self._guids = ids.guids

    def ids(self, found: Int64s) -> Int64s:
        ids, found = self._ids, found.ravel()
        rows = np.searchsorted(ids.source_ids, found)
        is_known = rows < len(ids.source_ids)
        is_known[is_known] = ids.source_ids[rows[is_known]] == found[is_known]
        if not is_known.all():
            raise unknown_error(np.unique(found[~is_known])[:UNKNOWN_IDS_MAX].tolist(), ids)
        changed = ids.destination_ids[rows]
        return np.where(changed == ABSENT_ID, found, changed).reshape(-1, 1)

    def guids(self, found: Int64s) -> Int64s:
        rows, which = np.unique(found, axis=0, return_inverse=True)
        guids = guids_in(rows)
        there = [self._ids.guid_there(each, known=self._guids) for each in guids]
        if unknown := [each for each, to in zip(guids, there, strict=True) if to is None]:
            raise unknown_error(unknown[:UNKNOWN_IDS_MAX], self._ids)
        return guid_rows(each for each in there if each is not None)[which.reshape(-1)]


def _changed(records: RecordColumns, sides: int, change: _Change) -> RecordColumns:
    columns = {KEY: records.keys, VALUE: records.values}
    headers = records.headers
    for side in (KEY, VALUE):
        if sides >> side & 1:
            headers, in_header = _headers_changed(headers, side, columns[side], change)
            columns[side] = _bytes_changed(columns[side], in_header, change)
    return RecordColumns(
        offsets=records.offsets,
        timestamps=records.timestamps,
        timestamp_types=records.timestamp_types,
        keys=columns[KEY],
        values=columns[VALUE],
        headers=headers,
        sizes=records.sizes,
    )


def _bytes_changed(array: pa.LargeBinaryArray, in_header: Bools, change: _Change) -> pa.LargeBinaryArray:
    """Returns a column with its ids and GUIDs changed where they are before the payload."""
    if not len(array):
        return array
    validity, ends_buffer, data_buffer = array.buffers()
    ends = np.frombuffer(ends_buffer, np.int64, count=len(array) + 1, offset=8 * array.offset)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    is_valid = np.ones(len(array), bool) if not array.null_count else np.asarray(array.is_valid().to_pylist(), bool)
    lengths, copied = np.diff(ends), data
    for magic, (size, dtype) in _FORMS.items():
        at = ends[:-1][np.flatnonzero(is_valid & ~in_header & (lengths > size))]
        at = at[data[at] == magic] + 1
        if not len(at):
            continue
        places = at[:, None] + np.arange(size)
        found = np.ascontiguousarray(data[places]).view(dtype).astype(np.int64)
        changed = _become(change, found)
        if not np.array_equal(changed, found):
            copied = data.copy() if copied is data else copied
            copied[places] = _bytes_of(changed, dtype, size)
    if copied is data:
        return array
    buffers = [validity, ends_buffer, pa.py_buffer(copied)]
    return pa.Array.from_buffers(pa.large_binary(), len(array), buffers, array.null_count, array.offset)


def _become(change: _Change, found: Int64s) -> Int64s:
    return change.ids(found) if found.shape[1] == 1 else change.guids(found)


def _bytes_of(changed: Int64s, dtype: str, size: int) -> UInt8s:
    return np.ascontiguousarray(changed.astype(dtype)).view(np.uint8).reshape(-1, size)


def unknown_error(unknown: Sequence[SchemaName], ids: SchemaIdMap) -> MirrorlakeError:
    """Returns the error for ids and GUIDs that are not in the map, of records that are compared."""
    if reason := ids.reason_of(unknown):
        return SchemaUnreadableError(
            f"records that are compared have a schema that the destination's registry does not get; {reason}",
            hint="`mirrorlake schemas plan` shows both histories; settle it, and restart the partition",
        )
    names = ",".join(map(str, unknown))
    return SchemaUnknownError(
        f"schema ids {names} of records that are compared are not known yet",
        hint="the registries are asked about them, and it is compared again",
        ids=names,
    )


def _headers_changed(
    headers: pa.ListArray, side: int, payloads: pa.LargeBinaryArray, change: _Change
) -> tuple[pa.ListArray, Bools]:
    """Returns the headers with a side's ids and GUIDs changed, and which records have their schema there."""
    name = HEADER_NAMES[side]
    in_header = np.zeros(len(headers), bool)
    items = headers.values
    if not len(items) or name not in items.field(0).unique().to_pylist():
        return headers, in_header
    names, values = items.field(0).to_pylist(), items.field(1).to_pylist()
    bounds = headers.offsets.to_numpy()
    has_payload = payloads.is_valid().to_pylist()
    for row in range(len(headers)):
        own = [at for at in range(bounds[row], bounds[row + 1]) if names[at] == name]
        if not own or values[own[-1]] is None or not has_payload[row]:
            continue
        in_header[row] = True
        values[own[-1]] = _header_changed(values[own[-1]], change)
    children = [bytes_column(names), bytes_column(values)]
    changed = pa.Array.from_buffers(HEADERS_TYPE.value_type, len(items), [None], 0, children=children)
    ends = pa.py_buffer(np.ascontiguousarray(bounds, np.int32))
    return pa.Array.from_buffers(HEADERS_TYPE, len(headers), [None, ends], 0, children=[changed]), in_header


def _header_changed(held: bytes, change: _Change) -> bytes:
    size, dtype = _FORMS.get(held[0], (0, "")) if held else (0, "")
    if not size or len(held) <= size:
        return held
    found = np.frombuffer(held[1 : 1 + size], dtype).astype(np.int64).reshape(1, -1)
    return held[:1] + _bytes_of(_become(change, found), dtype, size).tobytes() + held[1 + size :]
