"""Python values as record columns."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mirrorlake.kafka.records.codec import HEADER_TYPE, HEADERS_TYPE, RecordColumns
from mirrorlake.kafka.records.columns import CREATE_TIME

Headers = tuple[tuple[bytes, bytes | None], ...]
"""Header keys and values in order; keys may repeat, values may be null."""


def record_columns(
    *, timestamps_ms: Sequence[int], keys: Sequence[bytes], values: Sequence[bytes | None], headers: Sequence[Headers]
) -> RecordColumns:
    """Returns one record per row at offsets 0, 1, …; all four have the same length."""
    rows = len(keys)
    flat = [header for of_record in headers for header in of_record]
    bounds = np.zeros(rows + 1, np.int32)
    np.cumsum([len(of_record) for of_record in headers], out=bounds[1:])
    items = pa.StructArray.from_arrays(
        [
            pa.array([key for key, _ in flat], pa.large_binary()),
            pa.array([value for _, value in flat], pa.large_binary()),
        ],
        fields=list(HEADER_TYPE),
    )
    return RecordColumns.of(
        offsets=np.arange(rows, dtype=np.int64),
        timestamps=np.array(timestamps_ms, np.int64),
        timestamp_types=np.full(rows, CREATE_TIME, np.int8),
        keys=pa.array(keys, pa.large_binary()),
        values=pa.array(values, pa.large_binary()),
        headers=pa.ListArray.from_arrays(pa.array(bounds), items, type=HEADERS_TYPE),
    )
