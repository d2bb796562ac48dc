"""Schema ids of records, found in record batches. Values are never decoded, so every format is served.

Rules: ``docs/schemas.md``.
"""

from dataclasses import dataclass
from uuid import UUID

from mirrorlake.kafka.records.batch_header import Batch
from mirrorlake.kafka.records.kernels import Int64s, UInt8s
from mirrorlake.kafka.records.scratch import records_of
from mirrorlake.kafka.schema_ids import id_kernels as kernels
from mirrorlake.kafka.schema_ids.counts import NAMELESS, SchemaIdCounts, Seen, SideCounts
from mirrorlake.kafka.schema_ids.framing import FRAMINGS, SIDE_NAMES, Framing
from mirrorlake.kafka.schema_ids.id_map import SchemaIdMap, SchemaName, guids_in
from mirrorlake.kafka.schema_ids.search import SEARCH


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FoundIds:
    """What the records of one batch have where schema ids are looked for.

    Attributes:
        payload: the records, decompressed; the batch's own memory where it is not compressed.
        patches: a row for each id or GUID that changes, as `id_kernels.py` lays it out.
        counts: records by side and framing, in the order of ``Framing``.
        first_offsets: the offset of the first record of each; without meaning where there is none.
        unknown: ids and GUIDs that the map does not hold, at most ``UNKNOWN_IDS_MAX`` of each.
    """

    payload: UInt8s
    patches: Int64s
    counts: Int64s
    first_offsets: Int64s
    unknown: tuple[SchemaName, ...]

    def count(self, side: int, framing: Framing) -> int:
        """Returns how many records have that on a side."""
        return int(self.counts[side, FRAMINGS.index(framing)])

    def first_offset(self, side: int, framing: Framing) -> int:
        """Returns the offset of the first record that has that on a side; without meaning where none has."""
        return int(self.first_offsets[side, FRAMINGS.index(framing)])


def find_ids(batch: Batch, ids: SchemaIdMap, *, decompressed_bytes_max: int | None = None) -> FoundIds:
    """Returns the schema ids and GUIDs of a batch's records, against a map.

    Args:
        batch: a v2 data batch whose checksum was verified.
        ids: the map.
        decompressed_bytes_max: the largest the batch may become, None for what the process allows.

    Raises:
        CorruptBatchError: compression or a record is not right.
        BatchTooLargeError: it becomes larger than allowed.
    """
    payload = records_of(batch, bytes_max=decompressed_bytes_max)
    SEARCH.run(batch.header, payload, ids)
    return found_last(batch, payload)


def found_last(batch: Batch, payload: UInt8s) -> FoundIds:
    """Returns what this thread's last search found, in memory of its own.

    Args:
        batch: which it was for.
        payload: its records, decompressed.
    """
    outcome = SEARCH.outcome
    return FoundIds(
        payload=payload,
        patches=SEARCH.patches[: SEARCH.patch_count].copy(),
        counts=SEARCH.counts.copy(),
        first_offsets=SEARCH.first_deltas + batch.header.base_offset,
        unknown=(
            *SEARCH.unknown[: outcome.item(kernels.UNKNOWN_IDS)].tolist(),
            *guids_in(SEARCH.unknown_guids[: outcome.item(kernels.UNKNOWN_GUIDS)]),
        ),
    )


def counts_last(batch: Batch, sides: int) -> SchemaIdCounts | None:
    """Returns which schemas this thread's last search, which was to count them, has seen; None where there were many.

    Args:
        batch: which it was for.
        sides: that it looked at: bit 0 for keys, bit 1 for values.
    """
    count = SEARCH.outcome.item(kernels.SEEN)
    if count == kernels.SEEN_TOO_MANY:
        return None
    base, rows = batch.header.base_offset, SEARCH.seen[:count].tolist()
    counts, firsts = SEARCH.counts.tolist(), SEARCH.first_deltas.tolist()
    found: dict[str, SideCounts] = {}
    for side, name in enumerate(SIDE_NAMES):
        if sides >> side & 1:
            nameless = {
                framing: Seen(counts[side][kind], base + firsts[side][kind])
                for kind, framing in enumerate(NAMELESS)
                if counts[side][kind]
            }
            names = {
                _name(row): Seen(row[kernels.SEEN_COUNT], base + row[kernels.SEEN_FIRST])
                for row in rows
                if row[kernels.SEEN_SIDE] == side
            }
            found[name] = SideCounts(nameless=nameless, names=names)
    return found


def _name(row: list[int]) -> SchemaName:
    high, low = row[kernels.SEEN_HIGH], row[kernels.SEEN_LOW]
    if row[kernels.SEEN_BYTES] == kernels.GUID_BYTES:
        return UUID(int=(high % (1 << 64) << 64) + low % (1 << 64))
    return low
