"""What the owner of a mirror with a filter, a route or `select` should know before it copies."""

from collections.abc import Sequence

import numpy as np

from mirrorlake.kafka.records.columns import CREATE_TIME, RecordColumns, bytes_column, headers_column
from mirrorlake.topics.targets import Target


def filter_warnings(target: Target) -> Sequence[str]:
    """Returns what is wrong about a filter, a route and `select`, where the source is compacted."""
    if not target.source_is_compacted:
        return []
    return [*_left_out_tombstones(target), *_other_topics(target), *_other_keys(target)]


def _left_out_tombstones(target: Target) -> Sequence[str]:
    """Returns that tombstones would be left out: keys would stay that the source has deleted."""
    if target.keeps is None or target.keeps.rows(_tombstone()).all():
        return []
    return [
        f"{target.source}: the source is compacted, and the filter leaves out tombstones (their value is NULL, and so "
        "is what is said of it): keys that are deleted at the source stay in the copy; add `OR value IS NULL`"
    ]


def _other_topics(target: Target) -> Sequence[str]:
    """Returns that a newer record of a key, or its tombstone, may go to another topic: the older one stays."""
    if target.takes is None or target.takes.branch.keys_stay:
        return []
    return [
        f"{target.source}: the source is compacted, and `route` looks at more than the key: where a newer record of a "
        f"key, or its tombstone, goes to another topic, {target.destination_topic} keeps the older one; look at the "
        "key alone"
    ]


def _other_keys(target: Target) -> Sequence[str]:
    """Returns that records of one key may get several: the source's cleaner and whoever reads the copy disagree."""
    if target.projects is None or target.projects.wanted.keys_follow_keys:
        return []
    return [
        f"{target.source}: the source is compacted, and `select` makes keys of more than the key: what the cleaner "
        "takes at the source stays in the copy under other keys, and `verify` may say `differs` for it; make the key "
        "of the key alone"
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
