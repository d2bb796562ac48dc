"""Python values as record columns."""

from collections.abc import Sequence

import numpy as np

from mirrorlake.kafka.records.codec import RecordColumns
from mirrorlake.kafka.records.columns import CREATE_TIME, bytes_column, headers_column

Headers = tuple[tuple[bytes, bytes | None], ...]
"""Header keys and values in order; keys may repeat, values may be null."""


def record_columns(
    *, timestamps_ms: Sequence[int], keys: Sequence[bytes], values: Sequence[bytes | None], headers: Sequence[Headers]
) -> RecordColumns:
    """Returns one record per row at offsets 0, 1, …; all four have the same length."""
    rows = len(keys)
    return RecordColumns.of(
        offsets=np.arange(rows, dtype=np.int64),
        timestamps=np.array(timestamps_ms, np.int64),
        timestamp_types=np.full(rows, CREATE_TIME, np.int8),
        keys=bytes_column(keys),
        values=bytes_column(values),
        headers=headers_column(headers),
    )
