"""What the owner of a mirror with a filter should know before it copies."""

from collections.abc import Sequence

import numpy as np

from mirrorlake.kafka.records.columns import CREATE_TIME, RecordColumns, bytes_column, headers_column
from mirrorlake.topics.targets import Target


def filter_warnings(target: Target) -> Sequence[str]:
    """Returns that tombstones would be left out, where the source is compacted: keys would stay that it has deleted."""
    if target.keeps is None or not target.source_is_compacted or target.keeps.rows(_tombstone()).all():
        return []
    return [
        f"{target.source}: the source is compacted, and the filter leaves out tombstones (their value is NULL, and so "
        "is what is said of it): keys that are deleted at the source stay in the copy; add `OR value IS NULL`"
    ]


def _tombstone() -> RecordColumns:
    return RecordColumns.of(
        offsets=np.zeros(1, np.int64),
        timestamps=np.zeros(1, np.int64),
        timestamp_types=np.full(1, CREATE_TIME, np.int8),
        keys=bytes_column([b""]),
        values=bytes_column([None]),
        headers=headers_column([[]]),
    )
