"""Schema ids of decoded records, for who compares a copy with its source.

Changed as `rewriting.py` changes those of batches, or set aside: where both sides are set to the same, everything but
the ids is compared.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mirrorlake.errors import MirrorlakeError, SchemaUnknownError, SchemaUnreadableError
from mirrorlake.kafka.records.columns import HEADERS_TYPE, RecordColumns, bytes_column
from mirrorlake.kafka.schema_ids.id_map import ABSENT_ID, KEY, UNKNOWN_IDS_MAX, VALUE, SchemaIdMap

HEADER_NAMES = {KEY: b"__key_schema_id", VALUE: b"__value_schema_id"}
_FRAMED_BYTES_MIN = 5
_ID = np.dtype(">i4")

Bools = npt.NDArray[np.bool_]
Ids = npt.NDArray[np.int64]
Change = Callable[[Ids], Ids]


def columns_with_ids(records: RecordColumns, ids: SchemaIdMap) -> RecordColumns:
    """Returns the same records with the destination's schema ids; shares what does not change.

    What cannot be read is as it was: whether it may be copied is not decided here.

    Raises:
        SchemaUnknownError: an id is not in the map.
        SchemaUnreadableError: an id's schema does not come to the destination.
    """
    return _changed(records, ids.sides, partial(_mapped, ids=ids))


def columns_without_ids(records: RecordColumns, sides: int) -> RecordColumns:
    """Returns the same records with 0 for every schema id; shares what does not change.

    Args:
        records: of the source, or of its copy.
        sides: bit 0 for keys, bit 1 for values: what has ids.
    """
    return _changed(records, sides, np.zeros_like)


def _changed(records: RecordColumns, sides: int, change: Change) -> RecordColumns:
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


def _bytes_changed(array: pa.LargeBinaryArray, in_header: Bools, change: Change) -> pa.LargeBinaryArray:
    """Returns a column with its ids changed where they are before the payload."""
    if not len(array):
        return array
    validity, ends_buffer, data_buffer = array.buffers()
    ends = np.frombuffer(ends_buffer, np.int64, count=len(array) + 1, offset=8 * array.offset)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    is_valid = np.ones(len(array), bool) if not array.null_count else np.asarray(array.is_valid().to_pylist(), bool)
    rows = np.flatnonzero(is_valid & ~in_header & (np.diff(ends) >= _FRAMED_BYTES_MIN))
    at = ends[:-1][rows]
    at = at[data[at] == 0] + 1
    if not len(at):
        return array
    places = at[:, None] + np.arange(_ID.itemsize)
    found = np.ascontiguousarray(data[places]).view(_ID).ravel().astype(np.int64)
    changed = change(found)
    if np.array_equal(changed, found):
        return array
    copied = data.copy()
    copied[places] = changed.astype(_ID).view(np.uint8).reshape(places.shape)
    buffers = [validity, ends_buffer, pa.py_buffer(copied)]
    return pa.Array.from_buffers(pa.large_binary(), len(array), buffers, array.null_count, array.offset)


def _mapped(found: Ids, ids: SchemaIdMap) -> Ids:
    """Returns what ids become; those the source does not know stay.

    Raises:
        SchemaUnknownError: one is not in the map.
    """
    rows = np.searchsorted(ids.source_ids, found)
    is_known = rows < len(ids.source_ids)
    is_known[is_known] = ids.source_ids[rows[is_known]] == found[is_known]
    if not is_known.all():
        raise unknown_error(np.unique(found[~is_known])[:UNKNOWN_IDS_MAX].tolist(), ids)
    changed = ids.destination_ids[rows]
    return np.where(changed == ABSENT_ID, found, changed)


def unknown_error(unknown: Sequence[int], ids: SchemaIdMap) -> MirrorlakeError:
    """Returns the error for ids that are not in the map, of records that are compared."""
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
    headers: pa.ListArray, side: int, payloads: pa.LargeBinaryArray, change: Change
) -> tuple[pa.ListArray, Bools]:
    """Returns the headers with a side's ids changed, and which records have their schema there."""
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
        held = values[own[-1]]
        if len(held) >= _FRAMED_BYTES_MIN and held[0] == 0:
            new = change(np.frombuffer(held, _ID, count=1, offset=1).astype(np.int64))
            values[own[-1]] = held[:1] + new.astype(_ID).tobytes() + held[_FRAMED_BYTES_MIN:]
    children = [bytes_column(names), bytes_column(values)]
    changed = pa.Array.from_buffers(HEADERS_TYPE.value_type, len(items), [None], 0, children=children)
    ends = pa.py_buffer(np.ascontiguousarray(bounds, np.int32))
    return pa.Array.from_buffers(HEADERS_TYPE, len(headers), [None, ends], 0, children=[changed]), in_header
