"""The checksum of records whose checksums are known part by part, as of a segment that was put together from others.

The checksum of two runs of records does not follow from their two: each is of twelve streams that run through. So who
puts row groups together without decoding them keeps the checksum of each run, and sums those up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import xxhash

from mirrorlake.archive.checksum import ContentChecksum
from mirrorlake.kafka.records.columns import RecordColumns

PARTS_ALGORITHM = "xxh3-128-parts"

CHECKSUM_DIGITS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPart:
    """A run of records: those from the end of the part before up to ``end_offset``, and their `ContentChecksum`."""

    end_offset: int
    checksum: str


class RecordChecksum(Protocol):
    """Sums up records in order."""

    def update(self, columns: RecordColumns) -> None:
        """Takes the next records."""
        ...

    def hexdigest(self) -> str:
        """Returns the checksum of all records taken so far: 32 hexadecimal digits."""
        ...


class PartedChecksum:
    """Sums up records in the order of their offsets, each part for itself; holds the part it is in.

    Args:
        ends: where each part ends, exclusive, in order; no record lies behind the last.
    """

    def __init__(self, ends: Sequence[int]) -> None:
        self._ends = list(ends)
        self._part = ContentChecksum()
        self._parts: list[RecordPart] = []

    def update(self, columns: RecordColumns) -> None:
        """Takes the next records; those behind the last part count for it."""
        row = 0
        while row < len(columns):
            last = len(self._parts) + 1 == len(self._ends)
            end = len(columns)
            if not last:
                end = int(np.searchsorted(columns.offsets, self._ends[len(self._parts)]))
            if end > row:
                self._part.update(columns.slice(row, end))
                row = end
            if row < len(columns):
                self._end_part()

    def hexdigest(self) -> str:
        """Returns the checksum of all parts, as if no record came any more."""
        while len(self._parts) < len(self._ends):
            self._end_part()
        return checksum_of_parts(self._parts)

    def _end_part(self) -> None:
        self._parts.append(RecordPart(end_offset=self._ends[len(self._parts)], checksum=self._part.hexdigest()))
        self._part = ContentChecksum()


def checksum_of_parts(parts: Sequence[RecordPart]) -> str:
    """Returns the XXH3 128-bit hash of the checksums of the parts, as bytes, one after another."""
    return xxhash.xxh3_128(b"".join(bytes.fromhex(part.checksum) for part in parts)).hexdigest()


def checksum_by(parts: Sequence[RecordPart]) -> RecordChecksum:
    """Returns what sums up records as these parts were; as one run where there are none."""
    return PartedChecksum([part.end_offset for part in parts]) if parts else ContentChecksum()
