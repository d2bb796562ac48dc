"""Which differences between a partition and its copy Kafka's log cleaner explains.

Where a topic is compacted, source and copy are cleaned at different times, so a record may be missing on that side.
So it may where the log shows that it was cleaned, as a topic's policy may have been another one before. And it may be
only if the cleaner could take it: a later record of its key stands on either side, or it is a tombstone.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    """On which sides the cleaner works, and where the log of a side shows that one did: ascending, apart.

    ``copied`` are the offsets at which the copy had a record once, None where all may be; ascending, apart.
    """

    source: bool
    copy: bool
    source_shows: Sequence[OffsetRange] = ()
    copy_shows: Sequence[OffsetRange] = ()
    copied: Sequence[OffsetRange] | None = None


class Compared(NamedTuple):
    """What the records of a range say.

    ``difference`` is the first one that no cleaner explains: its offset with ``missing``, ``extra`` or ``different``;
    None where there is none. ``suspects`` are those before it that one explains if their keys came again,
    ``tombstones`` the offsets of the source's that it has taken from the copy.
    """

    difference: tuple[int, str] | None
    suspects: list[Suspect]
    tombstones: list[int]


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


def compare(source: Sequence[Trace], copy: Sequence[Trace], compacted: Compacted) -> Compared:
    """Returns the first difference no cleaner explains, and what one may explain before it. Pure."""
    suspects: list[Suspect] = []
    tombstones: list[int] = []
    source_shows, copy_shows = lies_in(compacted.source_shows), lies_in(compacted.copy_shows)
    was_copied = _anywhere if compacted.copied is None else lies_in(compacted.copied)
    for offset, expected, held in side_by_side(source, copy):
        if expected is not None and held is not None:
            if expected.record_hash != held.record_hash:
                return Compared((offset, "different"), suspects, tombstones)
            continue
        only = expected or held
        assert only is not None
        if held is None:
            how, may_be_cleaned = "missing", (compacted.copy and was_copied(offset)) or copy_shows(offset)
        else:
            how, may_be_cleaned = "extra", compacted.source or source_shows(offset)
        if not may_be_cleaned or only.key_hash == NULL_KEY:
            return Compared((offset, how), suspects, tombstones)
        if not only.is_tombstone:
            suspects.append(Suspect(offset, only.key_hash, how))
        elif held is None:
            tombstones.append(offset)
    return Compared(None, suspects, tombstones)


def _anywhere(_offset: int) -> bool:
    return True


def lies_in(ranges: Sequence[OffsetRange]) -> Callable[[int], bool]:
    """Returns what tells whether an offset lies in one of some ranges, which are ascending and apart. Pure."""
    starts = [each.start_offset for each in ranges]

    def is_in(offset: int) -> bool:
        at = bisect_right(starts, offset) - 1
        return at >= 0 and offset < ranges[at].end_offset

    return is_in


def without_erased(traces: Sequence[Trace], erased: Sequence[OffsetRange]) -> Sequence[Trace]:
    """Returns the records of a source but for those of offsets that its archive says were erased from it. Pure.

    Args:
        traces: ascending.
        erased: in order, apart.
    """
    if not erased:
        return traces
    is_erased = lies_in(erased)
    return [trace for trace in traces if not is_erased(trace.offset)]


def first_unexplained(suspects: Sequence[Suspect], latest: Mapping[int, int]) -> Suspect | None:
    """Returns the first suspect whose key has no later record. Pure.

    Args:
        suspects: ascending.
        latest: the highest offset of each suspect key on either side.
    """
    return next((s for s in suspects if latest.get(s.key_hash, -1) <= s.offset), None)
