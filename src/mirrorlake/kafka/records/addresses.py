"""The table of addresses through which kernels reach the Arrow arrays of columns."""

import numpy as np
import pyarrow as pa

from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.kafka.records.kernels import COLUMN_FIELDS, COLUMN_ROWS, Int64s


def kernel_input(numbers: Int64s) -> Int64s:
    """Returns the numbers contiguous and writable, copied only where they are not.

    Kernels are compiled for such arrays alone; what Arrow hands out, as a reader of files gets it, is read-only.
    """
    return np.require(numbers, requirements=("C", "W"))


def column_table(columns: RecordColumns) -> Int64s:
    """Returns the table `kernels.py` lays out; good as long as ``columns`` lives."""
    items = columns.headers.values
    arrays = (columns.keys, columns.values, columns.headers, items.field(0), items.field(1))
    table = np.zeros((COLUMN_ROWS, COLUMN_FIELDS), np.int64)
    for row, array in enumerate(arrays):
        validity, offsets, *data = array.buffers()[:3]
        table[row] = (_address(validity), array.offset, _address(offsets), _address(data[0]) if data else 0)
    return table


def _address(buffer: pa.Buffer | None) -> int:
    return 0 if buffer is None else int(buffer.address)
