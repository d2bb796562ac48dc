"""Records of a mirror's own, as they are written: keys and values of one time."""

from collections.abc import Sequence

import numpy as np

from mirrorlake.kafka.records.codec import RecordColumns
from mirrorlake.kafka.records.columns import bytes_column, headers_column, no_headers

KeyAndValue = tuple[bytes, bytes | None]
"""One record of ours; without a value it takes back what its key said before."""


Headers = Sequence[tuple[bytes, bytes | None]]


def columns_of(
    records: Sequence[KeyAndValue], timestamp_ms: int, *, headers: Sequence[Headers] | None = None
) -> RecordColumns:
    """Returns keys and values as records of one batch, all of one time; without headers none has any."""
    return RecordColumns.of(
        offsets=np.arange(len(records), dtype=np.int64),
        timestamps=np.full(len(records), timestamp_ms, np.int64),
        timestamp_types=np.zeros(len(records), np.int8),
        keys=bytes_column([key for key, _ in records]),
        values=bytes_column([value for _, value in records]),
        headers=no_headers(len(records)) if headers is None else headers_column(headers),
    )
