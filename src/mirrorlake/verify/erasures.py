"""Which records were erased from snapshots: a view lists no gaps, so the audit objects beside it tell."""

from collections.abc import Iterable

from mirrorlake.archive.maintenance.erase_audit import RecordedErasure, key_hash
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.offsets import OffsetRange


class Erasures:
    """What the audit objects of one partition name.

    A record counts as named where its key does, and it lies below the end of the snapshot that was rewritten: a later
    record of the key was never erased. An attempt that came to nothing has its object too, so what is named may be
    there; who asks looks first.
    """

    def __init__(self, recorded: Iterable[RecordedErasure]) -> None:
        # All objects of one run share its salt, so a key is hashed once for each run.
        self._ends: dict[bytes, dict[str, int]] = {}
        for each in recorded:
            ends = self._ends.setdefault(each.salt, {})
            ends |= {name: max(each.end_offset, ends.get(name, 0)) for name in each.key_hashes}

    def named(self, columns: RecordColumns) -> list[OffsetRange]:
        """Returns the offsets of those records that are named, each alone, in the order of the records."""
        if not self._ends or not len(columns):
            return []
        pairs = zip(columns.offsets.tolist(), columns.keys.to_pylist(), strict=True)
        return [OffsetRange(start_offset=at, end_offset=at + 1) for at, key in pairs if self._is_named(at, key)]

    def _is_named(self, offset: int, key: bytes | None) -> bool:
        return any(offset < ends.get(key_hash(key, salt), 0) for salt, ends in self._ends.items())
