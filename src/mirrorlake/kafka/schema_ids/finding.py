"""Schema ids of records, found in record batches. Values are never decoded, so every format is served.

Rules: ``docs/schemas.md``.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from mirrorlake.kafka.records import decode_kernels
from mirrorlake.kafka.records.batch_header import Batch
from mirrorlake.kafka.records.decode import record_error
from mirrorlake.kafka.records.kernels import Int64s, UInt8s
from mirrorlake.kafka.records.scratch import records_of
from mirrorlake.kafka.schema_ids import id_kernels as kernels
from mirrorlake.kafka.schema_ids.id_map import SIDES, UNKNOWN_IDS_MAX, SchemaIdMap, SchemaName, guids_in


class Framing(StrEnum):
    """What lies where a record's schema id is looked for, in the order of the kernel's numbers."""

    NULL = "null"
    """No key, or no value: a tombstone has no schema."""
    SHORT = "short"
    """Too short for an id."""
    NOT_FRAMED = "not-framed"
    """It begins with another byte than a schema id does."""
    GUID = "guid"
    """A GUID, which is known, and which the destination's registry gives no schema: no reader there can resolve it."""
    ABSENT = "absent"
    """An id or GUID that the source's registry does not know."""
    UNKNOWN = "unknown"
    """An id or GUID that is not in the map: nobody has asked the registries about it yet."""
    KNOWN = "known"
    """An id or GUID that is known."""


FRAMINGS = tuple(Framing)
SIDE_NAMES = ("key", "value")


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
    header = batch.header
    payload = records_of(batch, bytes_max=decompressed_bytes_max)
    patches = np.empty((2 * header.record_count, kernels.PATCH_FIELDS), np.int64)
    counts = np.zeros((SIDES, kernels.KINDS), np.int64)
    deltas = np.zeros((SIDES, kernels.KINDS), np.int64)
    unknown = np.empty(UNKNOWN_IDS_MAX, np.int64)
    unknown_guids = np.empty((UNKNOWN_IDS_MAX, 2), np.int64)
    outcome = np.zeros(kernels.OUTCOME_FIELDS, np.int64)
    status = kernels.find_ids(
        payload.ctypes.data,
        len(payload),
        header.record_count,
        header.last_offset_delta,
        ids.source_ids,
        ids.destination_ids,
        ids.source_guids,
        ids.destination_guids,
        ids.guid_states,
        ids.sides,
        patches,
        counts,
        deltas,
        unknown,
        unknown_guids,
        outcome,
    )
    if status != decode_kernels.OK:
        raise record_error(header, status, outcome.item(kernels.FAILED_RECORD))
    return FoundIds(
        payload=payload,
        patches=patches[: outcome.item(kernels.PATCHES)],
        counts=counts,
        first_offsets=deltas + header.base_offset,
        unknown=(
            *unknown[: outcome.item(kernels.UNKNOWN_IDS)].tolist(),
            *guids_in(unknown_guids[: outcome.item(kernels.UNKNOWN_GUIDS)]),
        ),
    )
