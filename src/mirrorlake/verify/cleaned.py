"""Which differences between a partition and its copy Kafka's log cleaner explains.

Where a topic is compacted, source and copy are cleaned at different times, so a record may be missing on that side.
It may be only if the cleaner could take it: a later record of its key stands on either side, or it is a tombstone.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import xxhash

from mirrorlake.kafka.records.codec import RecordColumns, record_hashes
from mirrorlake.offsets import OffsetRange

NULL_KEY = -1
"""Stands for the hash of a null key, which no cleaner touches."""


class Trace(NamedTuple):
    """What is compared of one record. ``record_hash`` covers offset, timestamp, key, value and headers."""

    offset: int
    record_hash: int
    key_hash: int
    is_tombstone: bool


class Suspect(NamedTuple):
    """A record that only one side holds, and that the cleaner may have taken on the other."""

    offset: int
    key_hash: int
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """On which sides the cleaner works."""

    source: bool
    copy: bool


def traces_of(columns: RecordColumns) -> list[Trace]:
    """Returns one trace a record, in order."""
    hashes: Sequence[int] = record_hashes(columns).tolist()
    tombstones = np.asarray(columns.values.is_null().to_numpy(zero_copy_only=False)).tolist()
    return [
        Trace(offset, digest, key_hash(key), tombstone)
        for offset, digest, key, tombstone in zip(
            columns.offsets.tolist(), hashes, columns.keys.to_pylist(), tombstones, strict=True
        )
    ]


def key_hash(key: bytes | None) -> int:
    """Returns a hash of a record's key."""
    return NULL_KEY if key is None else xxhash.xxh3_64_intdigest(key)


def side_by_side(source: Sequence[Trace], copy: Sequence[Trace]) -> Iterator[tuple[int, Trace | None, Trace | None]]:
    """Yields each offset at which a side has a record, ascending, with the records of both; None where there is none.

    Pure.
    """
    there, here = {t.offset: t for t in source}, {t.offset: t for t in copy}
    for offset in sorted(there.keys() | here.keys()):
        yield offset, there.get(offset), here.get(offset)


def compare(
    source: Sequence[Trace], copy: Sequence[Trace], compacted: Compacted
) -> tuple[tuple[int, str] | None, list[Suspect]]:
    """Returns the first difference no cleaner explains, and the suspects before it. Pure.

    The difference is its offset with ``missing``, ``extra`` or ``different``; None where there is none.
    """
    suspects: list[Suspect] = []
    for offset, expected, held in side_by_side(source, copy):
        if expected is not None and held is not None:
            if expected.record_hash != held.record_hash:
                return (offset, "different"), suspects
            continue
        only = expected or held
        assert only is not None
        how, may_be_cleaned = ("missing", compacted.copy) if held is None else ("extra", compacted.source)
        if not may_be_cleaned or only.key_hash == NULL_KEY:
            return (offset, how), suspects
        if not only.is_tombstone:
            suspects.append(Suspect(offset, only.key_hash, how))
    return None, suspects


def without_erased(traces: Sequence[Trace], erased: Sequence[OffsetRange]) -> Sequence[Trace]:
    """Returns the records of a source but for those of offsets that its archive says were erased from it. Pure.

    Args:
        traces: ascending.
        erased: in order, apart.
    """
    if not erased:
        return traces
    starts = [each.start_offset for each in erased]

    def is_erased(offset: int) -> bool:
        at = bisect_right(starts, offset) - 1
        return at >= 0 and offset < erased[at].end_offset

    return [trace for trace in traces if not is_erased(trace.offset)]


def first_unexplained(suspects: Sequence[Suspect], latest: Mapping[int, int]) -> Suspect | None:
    """Returns the first suspect whose key has no later record. Pure.

    Args:
        suspects: ascending.
        latest: the highest offset of each suspect key on either side.
    """
    return next((s for s in suspects if latest.get(s.key_hash, -1) <= s.offset), None)
