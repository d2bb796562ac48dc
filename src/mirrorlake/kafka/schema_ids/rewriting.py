"""Schema ids of records changed in record batches: from those of one registry to those of another.

Four bytes of a record change, or the sixteen of a GUID, and no other. Values are never decoded, so every format is
served: what follows the id, Protobuf's message indexes too, is copied as bytes. Rules: ``docs/schemas.md``.
"""

from collections.abc import Iterable

import numpy as np
from crc32c import crc32c

from mirrorlake.errors import MirrorlakeError, SchemaUnknownError, SchemaUnreadableError
from mirrorlake.kafka.records.batch_header import CHECKED_FROM, CRC, CRC_AT, HEADER_BYTES, Batch, Codec, write_header
from mirrorlake.kafka.records.compression import compress
from mirrorlake.kafka.records.decode import decode_batches
from mirrorlake.kafka.records.kernels import UInt8s
from mirrorlake.kafka.records.old_formats import as_v2
from mirrorlake.kafka.records.scratch import records_of
from mirrorlake.kafka.schema_ids import id_kernels as kernels
from mirrorlake.kafka.schema_ids.counting import all_counts
from mirrorlake.kafka.schema_ids.counts import SchemaIdCounts
from mirrorlake.kafka.schema_ids.finding import FoundIds, counts_last, found_last
from mirrorlake.kafka.schema_ids.framing import FRAMINGS, SIDE_NAMES, Framing
from mirrorlake.kafka.schema_ids.id_map import SIDES, SchemaIdMap, SchemaName
from mirrorlake.kafka.schema_ids.lz4_changes import changed_frame, new_marks
from mirrorlake.kafka.schema_ids.search import SEARCH

_UNREADABLE = (kernels.SHORT, kernels.NOT_FRAMED, kernels.GUID, kernels.ABSENT)

_LETTERS_TOPIC = 'dead-letters: {topic: "{topic}.dead-letters"}'
"""How a topic for dead letters is named, in hints; as the configuration's own say it."""


def with_ids(batch: Batch, ids: SchemaIdMap, *, in_place: bool = False) -> Batch:
    """Returns a batch with the destination's schema ids: itself where none changes, else one with memory of its own.

    Only the bytes of each id and GUID differ, and the checksum; where it is compressed, by its own codec again, also
    its length. Of the formats before v2 it is a v2 batch.

    Args:
        batch: a data batch whose checksum was verified.
        ids: the map.
        in_place: True where the batch's bytes are nobody else's: those of one that is not compressed and can be written
            to are changed then where they are. Nothing is changed where an error is raised.

    Raises:
        SchemaUnknownError: an id or GUID is not in the map; nothing is concluded of the batch.
        SchemaUnreadableError: a record cannot be read, and does not pass as it is; or its schema does not come to the
            destination.
        CorruptBatchError, BatchTooLargeError: as ``find_ids``.
    """
    if batch.header.magic < 2:
        batch = as_v2(batch)
    payload = _searched(batch, ids)
    if not SEARCH.patch_count:
        return batch
    if batch.header.codec == Codec.NONE:
        return _patched(batch, in_place=in_place and not batch.view.readonly)
    return _patched_and_compressed(batch, payload)


def counted_ids(batch: Batch, ids: SchemaIdMap) -> SchemaIdCounts:
    """Checks a batch whose ids stay, and returns which schemas its records name on the sides that the map looks at.

    Args:
        batch: a data batch whose checksum was verified.
        ids: the map.

    Raises:
        SchemaUnknownError, SchemaUnreadableError, CorruptBatchError, BatchTooLargeError: as ``with_ids``.
    """
    if batch.header.magic < 2:
        batch = as_v2(batch)
    _searched(batch, ids, counts_names=True)
    counts = counts_last(batch, ids.sides)
    return all_counts(decode_batches([batch]), ids.sides) if counts is None else counts


def _searched(batch: Batch, ids: SchemaIdMap, *, counts_names: bool = False) -> UInt8s:
    """Searches a batch, and returns its records, decompressed; raises as ``with_ids``."""
    payload = records_of(batch, bytes_max=None)
    if not SEARCH.run(batch.header, payload, ids, counts_names=counts_names):
        found = found_last(batch, payload)
        if found.unknown:
            raise unknown_error(found.unknown, ids, offset=_first_offset(found, kernels.UNKNOWN))
        _check_readable(found, ids)
    return payload


def unknown_error(unknown: Iterable[SchemaName], ids: SchemaIdMap, *, offset: int) -> MirrorlakeError:
    """Returns the error for ids and GUIDs that are not in the map.

    Args:
        unknown: those.
        ids: the map.
        offset: of the first record that has one of them.
    """
    if reason := ids.reason_of(unknown):
        return SchemaUnreadableError(
            f"the record at offset {offset}, or one behind it, has a schema that the destination's registry does not "
            f"get; {reason}",
            hint="`mirrorlake schemas plan` shows both histories; settle it, or have such records go to a topic by "
            f"`schemas: {{on-unreadable: dead-letter, {_LETTERS_TOPIC}}}`, and restart the partition",
            offset=offset,
        )
    names = ",".join(map(str, unknown))
    return SchemaUnknownError(
        f"schema ids {names} from offset {offset} on are not known yet",
        hint="their subjects are mirrored to the destination's registry first, and the partition is copied on",
        ids=names,
        offset=offset,
    )


def _first_offset(found: FoundIds, kind: int) -> int:
    return min(int(found.first_offsets[side, kind]) for side in range(SIDES) if found.counts[side, kind])


def _check_readable(found: FoundIds, ids: SchemaIdMap) -> None:
    for side, name in enumerate(SIDE_NAMES):
        if ids.passes >> side & 1:
            continue
        kinds = [kind for kind in _UNREADABLE if found.counts[side, kind]]
        if kinds:
            kind = min(kinds, key=lambda each: int(found.first_offsets[side, each]))
            offset = int(found.first_offsets[side, kind])
            raise unreadable_error(name, FRAMINGS[kind], offset=offset)


def unreadable_error(side: str, framing: Framing, *, offset: int) -> SchemaUnreadableError:
    """Returns the error for a record that names no schema on a side, ``key`` or ``value``."""
    if framing is Framing.GUID:
        return SchemaUnreadableError(
            f"the {side} of the record at offset {offset} names its schema by a guid, and the destination's registry "
            "gives none: no reader there could find the schema by it",
            hint=f"Confluent's registry gives GUIDs from 8.0 on; {_ways_on(side)}",
            offset=offset,
            side=side,
            framing=framing.value,
        )
    return SchemaUnreadableError(
        f"the {side} of the record at offset {offset} names no schema that is known: {framing.value}",
        hint=_ways_on(side),
        offset=offset,
        side=side,
        framing=framing.value,
    )


def _ways_on(side: str) -> str:
    """Returns what may be done with records that name no schema on a side; the other side's policy stays."""
    return (
        f"`schemas: {{on-unreadable: {{{side}: pass}}}}` copies such records as they are, `schemas: {{on-unreadable: "
        f"{{{side}: dead-letter}}, {_LETTERS_TOPIC}}}` writes them to that topic instead"
    )


def _patched(batch: Batch, *, in_place: bool) -> Batch:
    header, view = batch
    if not in_place:
        copy = np.empty(header.batch_bytes, np.uint8)
        copy[:] = np.frombuffer(view, np.uint8)
        view = copy.data
    kernels.write_ids(np.frombuffer(view[HEADER_BYTES:], np.uint8), SEARCH.patches, SEARCH.patch_count)
    crc = crc32c(view[CHECKED_FROM:])
    CRC.pack_into(view, CRC_AT, crc)
    return Batch(header._replace(crc=crc), view)


def _patched_and_compressed(batch: Batch, payload: UInt8s) -> Batch:
    header = batch.header
    kernels.write_ids(payload, SEARCH.patches, SEARCH.patch_count)
    view = _changed_lz4(batch, payload) if header.codec == Codec.LZ4 else None
    view = _compressed(header.codec, payload.data) if view is None else view
    header = header._replace(batch_bytes=len(view))
    write_header(view, header)
    return Batch(header._replace(crc=CRC.unpack_from(view, CRC_AT)[0]), view)


def _compressed(codec: Codec, payload: memoryview) -> memoryview:
    """Returns a batch without its header."""
    whole = bytearray(HEADER_BYTES)
    whole += compress(codec, payload)
    return memoryview(whole)


def _changed_lz4(batch: Batch, payload: UInt8s) -> memoryview | None:
    """Returns an LZ4 batch without its header, with the ids that the payload has by now; see `changed_frame`."""
    marks = new_marks(len(payload))
    kernels.mark_patches(SEARCH.patches, SEARCH.patch_count, marks)
    frame = np.frombuffer(batch.view, np.uint8)[HEADER_BYTES:]
    made = changed_frame(frame, payload, marks, header_bytes=HEADER_BYTES)
    return None if made is None else made.data
