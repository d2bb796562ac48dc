"""Columns that grow while batches are read into them, and become `RecordColumns` without being copied."""

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mirrorlake.kafka.records import decode_kernels as kernels
from mirrorlake.kafka.records.columns import HEADER_BYTES, HEADER_TYPE, HEADERS_TYPE, RecordColumns, no_bytes
from mirrorlake.kafka.records.kernels import Int64s

_RECORD_BYTES = 48  # of its row in all columns: six numbers, and what is null

# How far a guess of what is still to come is believed; beyond it a column doubles.
_GUESS_BYTES_MAX = 64 * 1024 * 1024

Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Batches that are read in one go.

    Attributes:
        table: a row per batch, as `decode_kernels.py` lays it out; its addresses are good for the time of the
            call.
        record_count: of all batches, believable: compared with their bytes.
        payload_bytes: of all batches, decompressed.
        growth: how many times these and all batches before are the whole; 1 where nothing follows.
    """

    table: Int64s
    record_count: int
    payload_bytes: int
    growth: float


class GrowingArray(Generic[Scalar]):
    """An array that grows, mostly once, and is cut at the end to what was used."""

    __slots__ = ("array",)

    def __init__(self, dtype: type[Scalar]) -> None:
        self.array: npt.NDArray[Scalar] = np.empty(0, dtype)

    def reserve(self, *, used: int, needed: int, guess: int) -> None:
        """Makes room for ``needed`` items in all; if that takes a new array, for ``guess``, within reason."""
        if needed > len(self.array):
            believed = max(2 * needed, _GUESS_BYTES_MAX // self.array.itemsize)
            grown = np.empty(max(needed, min(guess, believed)), self.array.dtype)
            grown[:used] = self.array[:used]
            self.array = grown

    def taken(self, used: int) -> npt.NDArray[Scalar]:
        """Returns the first ``used`` items; a copy where they would hold much more memory than they need."""
        return self.array[:used] if used > len(self.array) // 2 else self.array[:used].copy()


class GrowingBinary:
    """A large binary array that grows; validity takes a byte a row until the end."""

    __slots__ = ("data", "offsets", "validity")

    def __init__(self) -> None:
        self.offsets = GrowingArray(np.int64)
        self.validity = GrowingArray(np.uint8)
        self.data = GrowingArray(np.uint8)

    def reserve_rows(self, *, used: int, needed: int, guess: int) -> None:
        """Makes room for rows, without their bytes. The end offset is not kept: whoever appends writes it."""
        self.offsets.reserve(used=used, needed=needed + 1, guess=guess + 1)
        self.validity.reserve(used=used, needed=needed, guess=guess)

    def taken(self, *, rows: int, data_bytes: int, nulls: int) -> pa.LargeBinaryArray:
        """Returns the first rows as an Arrow array."""
        if rows == 0:
            return no_bytes()
        validity = None
        if nulls:
            validity = pa.py_buffer(np.packbits(self.validity.array[:rows], bitorder="little"))
        offsets, data = self.offsets.taken(rows + 1), self.data.taken(data_bytes)
        buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.large_binary(), rows, buffers, nulls)


class GrowingRecords:
    """All columns of records, and the state that says how far each is filled.

    Args:
        start_offset: records below it are not kept.
        end_offset: neither are those at or above it.
    """

    def __init__(self, *, start_offset: int, end_offset: int) -> None:
        self._start_offset = start_offset
        self._end_offset = end_offset
        self.state = np.zeros(kernels.STATE_FIELDS, np.int64)
        self._offsets = GrowingArray(np.int64)
        self._timestamps = GrowingArray(np.int64)
        self._timestamp_types = GrowingArray(np.int8)
        self._sizes = GrowingArray(np.int64)
        self._keys = GrowingBinary()
        self._values = GrowingBinary()
        self._header_offsets = GrowingArray(np.int32)
        self._header_keys = GrowingBinary()
        self._header_values = GrowingBinary()
        # Where the headers of a group's records lie.
        self._header_addresses = np.empty(0, np.int64)
        self._header_ends = np.empty(0, np.int64)

    @property
    def data_bytes(self) -> int:
        """Returns about what the records so far take in memory: keys, values, headers, and what each of them costs."""
        fields = (
            kernels.KEY_BYTES,
            kernels.VALUE_BYTES,
            kernels.HEADER_KEY_BYTES,
            kernels.HEADER_VALUE_BYTES,
        )
        costs = _RECORD_BYTES * int(self.state[kernels.ROW]) + HEADER_BYTES * int(self.state[kernels.HEADER_COUNT])
        return costs + sum(int(self.state[field]) for field in fields)

    def read(self, group: Group) -> int:
        """Appends a group's records; returns the kernel's status, after which only ``OK`` lets it go on."""
        before = self.state.copy()
        self._reserve(group)
        status = kernels.decode_records(
            group.table,
            self._start_offset,
            self._end_offset,
            self._offsets.array,
            self._timestamps.array,
            self._timestamp_types.array,
            self._sizes.array,
            self._keys.offsets.array,
            self._keys.validity.array,
            self._keys.data.array,
            self._values.offsets.array,
            self._values.validity.array,
            self._values.data.array,
            self._header_offsets.array,
            self._header_addresses,
            self._header_ends,
            self.state,
        )
        if status == kernels.OK and self.state[kernels.HEADER_COUNT] > before[kernels.HEADER_COUNT]:
            status = self._read_headers(before, group.growth)
        return status

    def _reserve(self, group: Group) -> None:
        row, key_bytes, value_bytes = (int(field) for field in self.state[: kernels.VALUE_BYTES + 1])
        rows = row + group.record_count
        guess = int(rows * group.growth)
        for column in (self._offsets, self._timestamps, self._sizes, self._timestamp_types):
            column.reserve(used=row, needed=rows, guess=guess)
        for binary in (self._keys, self._values):
            binary.reserve_rows(used=row, needed=rows, guess=guess)
        self._header_offsets.reserve(used=row, needed=rows + 1, guess=guess + 1)
        # All bytes of a group may be keys, or all values; the first guess is that they are values.
        payload = group.payload_bytes
        self._keys.data.reserve(
            used=key_bytes, needed=key_bytes + payload, guess=int(key_bytes * group.growth) + payload
        )
        self._values.data.reserve(
            used=value_bytes, needed=value_bytes + payload, guess=int((value_bytes + payload) * group.growth)
        )
        if group.record_count > len(self._header_ends):
            self._header_addresses = np.empty(group.record_count, np.int64)
            self._header_ends = np.empty(group.record_count, np.int64)

    def _read_headers(self, before: Int64s, growth: float) -> int:
        state = self.state
        used, needed = int(before[kernels.HEADER_COUNT]), int(state[kernels.HEADER_COUNT])
        bytes_fields = (kernels.HEADER_KEY_BYTES, kernels.HEADER_VALUE_BYTES)
        for binary, field in zip((self._header_keys, self._header_values), bytes_fields, strict=True):
            binary.reserve_rows(used=used, needed=needed, guess=int(needed * growth))
            data_bytes = int(state[field])
            binary.data.reserve(used=int(before[field]), needed=data_bytes, guess=int(data_bytes * growth))
        return kernels.gather_headers(
            int(before[kernels.ROW]),
            int(state[kernels.ROW]),
            self._header_addresses,
            self._header_ends,
            self._header_offsets.array,
            before[list(bytes_fields)],
            self._header_keys.offsets.array,
            self._header_keys.data.array,
            self._header_values.offsets.array,
            self._header_values.validity.array,
            self._header_values.data.array,
        )

    def taken(self) -> RecordColumns:
        """Returns what was read. The columns go with it: nothing may be read afterwards."""
        state = [int(field) for field in self.state]
        rows = state[kernels.ROW]
        if rows == 0:
            return RecordColumns.empty()
        return RecordColumns(
            offsets=self._offsets.taken(rows),
            timestamps=self._timestamps.taken(rows),
            timestamp_types=self._timestamp_types.taken(rows),
            keys=self._keys.taken(rows=rows, data_bytes=state[kernels.KEY_BYTES], nulls=state[kernels.NULL_KEYS]),
            values=self._values.taken(
                rows=rows, data_bytes=state[kernels.VALUE_BYTES], nulls=state[kernels.NULL_VALUES]
            ),
            headers=self._taken_headers(rows, state),
            sizes=self._sizes.taken(rows),
        )

    def _taken_headers(self, rows: int, state: list[int]) -> pa.ListArray:
        count = state[kernels.HEADER_COUNT]
        keys = self._header_keys.taken(rows=count, data_bytes=state[kernels.HEADER_KEY_BYTES], nulls=0)
        values = self._header_values.taken(
            rows=count,
            data_bytes=state[kernels.HEADER_VALUE_BYTES],
            nulls=state[kernels.NULL_HEADER_VALUES],
        )
        headers = pa.Array.from_buffers(HEADER_TYPE, count, [None], 0, children=[keys, values])
        offsets = pa.py_buffer(self._header_offsets.taken(rows + 1))
        return pa.Array.from_buffers(HEADERS_TYPE, rows, [None, offsets], 0, children=[headers])
