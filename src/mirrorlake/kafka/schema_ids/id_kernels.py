"""The compiled loops that find the schema ids and GUIDs in the records of a batch, and write others in their place.

How an id or GUID lies before a key or value, or in a header: `SchemaId.java`; that the header goes before the payload,
and its last one counts: `DualSchemaIdDeserializer.java`, both of Confluent's serializers.
"""

import numpy as np

from mirrorlake.kafka.records.decode_kernels import BAD_OFFSET, BAD_RECORD, BYTES_LEFT, OK, read_one_header, read_record
from mirrorlake.kafka.records.kernels import Int64s, UInt8s, as_address, compiled, inlined, load_byte, store_byte
from mirrorlake.kafka.schema_ids.id_map import KEY, SIDES, UNNAMED_GUID, VALUE
from mirrorlake.kafka.schema_ids.lz4_kernels import MARK_BITS

# What is found where an id is looked for; the last four have an id or a GUID.
NULL, SHORT, NOT_FRAMED, GUID, ABSENT, UNKNOWN, KNOWN, KINDS = range(8)

# What the search leaves besides its status.
PATCHES, UNKNOWN_IDS, UNKNOWN_GUIDS, FAILED_RECORD, OTHERS, SEEN, OUTCOME_FIELDS = range(7)

# Fields of a patch: where the bytes of an id or GUID are, counted from the first record, how many they are (4 or 16),
# and what they become: a GUID in two words of eight bytes, an id in the second alone.
PATCH_AT, PATCH_BYTES, PATCH_HIGH, PATCH_LOW, PATCH_FIELDS = range(5)

# Fields of what was seen: of which side an id or GUID is, how many bytes it has (4 or 16), it as two words like a
# patch's, how many records name it, and the offset delta of the first.
SEEN_SIDE, SEEN_BYTES, SEEN_HIGH, SEEN_LOW, SEEN_COUNT, SEEN_FIRST, SEEN_FIELDS = range(7)
SEEN_TOO_MANY = -1
"""In place of how many were seen: there were more than there is room for, and what is there means nothing."""

_ID_BYTES = 4
_FRAMED_BYTES_MIN = 1 + _ID_BYTES
_WORD_BYTES = 8
GUID_BYTES = 2 * _WORD_BYTES
_GUID_BYTES_MIN = 1 + GUID_BYTES

_HEADER_NAMES = np.frombuffer(b"__key_schema_id\0\0__value_schema_id", np.uint8).reshape(SIDES, 17)
_HEADER_NAME_BYTES = np.array([15, 17], np.int64)


@inlined
def _has_name(address: int, length: int, side: int) -> bool:
    """Tells whether a header's key is that of a side's schema id."""
    if length != _HEADER_NAME_BYTES[side]:
        return False
    for index in range(length):  # noqa: SIM110  (a generator is no loop for the compiler)
        if load_byte(address + index) != _HEADER_NAMES[side, index]:
            return False
    return True


@inlined
def _id_at(address: int) -> int:
    """Returns the id whose four bytes are at an address: big-endian, signed."""
    value = (
        (load_byte(address) << 24)
        | (load_byte(address + 1) << 16)
        | (load_byte(address + 2) << 8)
        | load_byte(address + 3)
    )
    return value - (1 << 32) if value >= (1 << 31) else value


@inlined
def _word_at(address: int) -> int:
    """Returns the eight bytes at an address as a number: big-endian, signed."""
    word = 0
    for index in range(_WORD_BYTES):
        word = (word << 8) | load_byte(address + index)
    return word


@inlined
def _kind_of(address: int, length: int) -> int:
    """Returns what a payload is as far as its framing says; ``KNOWN`` where it has an id, ``GUID`` where it has one."""
    if length < 0:
        return NULL
    if length == 0:
        return SHORT
    magic = load_byte(address)
    if magic == 0:
        return KNOWN if length >= _FRAMED_BYTES_MIN else SHORT
    if magic == 1:
        return GUID if length >= _GUID_BYTES_MIN else SHORT
    return NOT_FRAMED


@inlined
def _row_of(source_ids: Int64s, wanted: int) -> int:
    """Returns the row of an id in the ascending ids, -1 where it is not there."""
    low = 0
    high = source_ids.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if source_ids[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < source_ids.shape[0] and source_ids[low] == wanted else -1


@inlined
def _note_unknown(wanted: int, unknown: Int64s, count: int) -> int:
    """Adds an id to those that are not known, once and while there is room; returns how many there are."""
    for index in range(count):
        if unknown[index] == wanted:
            return count
    if count < unknown.shape[0]:
        unknown[count] = wanted
        return count + 1
    return count


@inlined
def _guid_row_of(source_guids: Int64s, high: int, low: int) -> int:
    """Returns the row of a GUID in the ascending GUIDs, -1 where it is not there."""
    first = 0
    end = source_guids.shape[0]
    while first < end:
        middle = (first + end) >> 1
        word = source_guids[middle, 0]
        if word < high or (word == high and source_guids[middle, 1] < low):
            first = middle + 1
        else:
            end = middle
    is_there = first < source_guids.shape[0] and source_guids[first, 0] == high and source_guids[first, 1] == low
    return first if is_there else -1


@inlined
def _note_unknown_guid(high: int, low: int, unknown: Int64s, count: int) -> int:
    """Adds a GUID to those that are not known, once and while there is room; returns how many there are."""
    for index in range(count):
        if unknown[index, 0] == high and unknown[index, 1] == low:
            return count
    if count < unknown.shape[0]:
        unknown[count, 0] = high
        unknown[count, 1] = low
        return count + 1
    return count


@inlined
def _patch(patches: Int64s, patch: int, at: int, length: int, high: int, low: int) -> int:
    """Adds a patch; returns how many there are."""
    patches[patch, PATCH_AT] = at
    patches[patch, PATCH_BYTES] = length
    patches[patch, PATCH_HIGH] = high
    patches[patch, PATCH_LOW] = low
    return patch + 1


@inlined
def _note_seen(side: int, length: int, high: int, low: int, offset_delta: int, seen: Int64s, count: int) -> int:
    """Counts a record by the id or GUID it names; returns how many there are, or ``SEEN_TOO_MANY``."""
    for row in range(count):
        if (
            seen[row, SEEN_LOW] == low
            and seen[row, SEEN_HIGH] == high
            and seen[row, SEEN_BYTES] == length
            and seen[row, SEEN_SIDE] == side
        ):
            seen[row, SEEN_COUNT] += 1
            return count
    if count == seen.shape[0] or count == SEEN_TOO_MANY:
        return SEEN_TOO_MANY
    seen[count, SEEN_SIDE] = side
    seen[count, SEEN_BYTES] = length
    seen[count, SEEN_HIGH] = high
    seen[count, SEEN_LOW] = low
    seen[count, SEEN_COUNT] = 1
    seen[count, SEEN_FIRST] = offset_delta
    return count + 1


@compiled(
    "int64(int64, int64, int64, int64, int64[::1], int64[::1], int64[:,::1], int64[:,::1], int64[::1], int64, "
    "int64[:,::1], int64[:,::1], int64[:,::1], int64[::1], int64[:,::1], int64[:,::1], int64[::1])"
)
def find_ids(
    start: int,
    length: int,
    record_count: int,
    last_offset_delta: int,
    source_ids: Int64s,
    destination_ids: Int64s,
    source_guids: Int64s,
    destination_guids: Int64s,
    guid_states: Int64s,
    sides: int,
    patches: Int64s,
    counts: Int64s,
    first_deltas: Int64s,
    unknown: Int64s,
    unknown_guids: Int64s,
    seen: Int64s,
    outcome: Int64s,
) -> int:
    """Finds the ids and GUIDs of a batch's records and what they become; returns a status of `decode_kernels.py`.

    ``start`` is the address of the records, decompressed, ``length`` their bytes. ``source_ids`` ascend, each with its
    id at the destination or, below zero, ``ABSENT_ID`` or ``LOST_ID``. ``source_guids`` ascend likewise, each with its
    GUID at the destination where its state is not below zero. ``sides`` has bit 0 for keys, bit 1 for values.
    ``patches`` has room for two rows per record, and is given one for each that changes. ``counts`` is given how many
    of each kind there are on each side, ``first_deltas`` the offset delta of the first record of each. ``unknown`` and
    ``unknown_guids`` are given those that are not in the map, as many as there is room for. ``seen``, where it has
    room, is given a row for each id and GUID that is named on a side, known or not. ``outcome`` counts all of these,
    and in ``OTHERS`` the sides of records that are neither ``NULL`` nor ``KNOWN``.
    """
    end = start + length
    counts[:] = 0
    position = start
    previous_delta = -1
    patch = 0
    unknown_count = 0
    unknown_guid_count = 0
    others = 0
    seen_count = 0
    for record in range(record_count):
        outcome[FAILED_RECORD] = record
        record_end, _, offset_delta, _, key, key_length, value, value_length, headers, count = read_record(
            position, end
        )
        if record_end > end or count < 0 or count > (record_end - headers) // 2:
            return BAD_RECORD
        if offset_delta <= previous_delta or offset_delta > last_offset_delta:
            return BAD_OFFSET
        previous_delta = offset_delta
        position = headers
        key_header, key_header_length, value_header, value_header_length = 0, -1, 0, -1
        for _header in range(count):
            name, name_length, held, held_length, position = read_one_header(position, record_end)
            if position > record_end:
                return BAD_RECORD
            if _has_name(name, name_length, KEY):
                key_header, key_header_length = held, held_length
            elif _has_name(name, name_length, VALUE):
                value_header, value_header_length = held, held_length
        if position != record_end:
            return BAD_RECORD
        # A header that is null leaves the matter to the payload, and so does one of a payload that is not there.
        if key_header_length >= 0 and key_length >= 0:
            key, key_length = key_header, key_header_length
        if value_header_length >= 0 and value_length >= 0:
            value, value_length = value_header, value_header_length
        for side in range(SIDES):
            if (sides >> side) & 1 == 0:
                continue
            address = key if side == KEY else value
            kind = _kind_of(address, key_length if side == KEY else value_length)
            if kind == KNOWN:
                source_id = _id_at(address + 1)
                if seen.shape[0] > 0:
                    seen_count = _note_seen(side, _ID_BYTES, 0, source_id, offset_delta, seen, seen_count)
                row = _row_of(source_ids, source_id)
                if row < 0:
                    kind = UNKNOWN
                    unknown_count = _note_unknown(source_id, unknown, unknown_count)
                elif destination_ids[row] < 0:
                    kind = ABSENT
                elif destination_ids[row] != source_id:
                    patch = _patch(patches, patch, address + 1 - start, _ID_BYTES, 0, destination_ids[row])
            elif kind == GUID:
                high = _word_at(address + 1)
                low = _word_at(address + 1 + _WORD_BYTES)
                if seen.shape[0] > 0:
                    seen_count = _note_seen(side, GUID_BYTES, high, low, offset_delta, seen, seen_count)
                row = _guid_row_of(source_guids, high, low)
                if row < 0:
                    kind = UNKNOWN
                    unknown_guid_count = _note_unknown_guid(high, low, unknown_guids, unknown_guid_count)
                elif guid_states[row] >= 0:
                    kind = KNOWN
                    there = destination_guids[row]
                    if there[0] != high or there[1] != low:
                        patch = _patch(patches, patch, address + 1 - start, GUID_BYTES, there[0], there[1])
                elif guid_states[row] != UNNAMED_GUID:
                    kind = ABSENT
            if counts[side, kind] == 0:
                first_deltas[side, kind] = offset_delta
            counts[side, kind] += 1
            if kind not in (NULL, KNOWN):
                others += 1
    if position != end:
        return BYTES_LEFT
    outcome[PATCHES] = patch
    outcome[UNKNOWN_IDS] = unknown_count
    outcome[UNKNOWN_GUIDS] = unknown_guid_count
    outcome[OTHERS] = others
    outcome[SEEN] = seen_count
    return OK


@compiled("int64(int64[:,::1], int64, uint8[::1])")
def mark_patches(patches: Int64s, count: int, marks: UInt8s) -> int:
    """Sets the mark of each sixteen bytes in which one of the first ``count`` patches lies; returns how many there are.

    ``marks`` are zero, one for each sixteen bytes of what the patches are for.
    """
    for patch in range(count):
        at = patches[patch, PATCH_AT]
        for mark in range(at >> MARK_BITS, ((at + patches[patch, PATCH_BYTES] - 1) >> MARK_BITS) + 1):
            marks[mark] = 1
    return count


@compiled("int64(uint8[::1], int64[:,::1], int64)")
def write_ids(payload: UInt8s, patches: Int64s, count: int) -> int:
    """Writes the first ``count`` patches, which ``find_ids`` made for bytes like these; returns how many."""
    start = as_address(payload.ctypes.data)
    for patch in range(count):
        address = start + patches[patch, PATCH_AT]
        length = patches[patch, PATCH_BYTES]
        for index in range(length):
            behind = length - 1 - index
            word = patches[patch, PATCH_LOW] if behind < _WORD_BYTES else patches[patch, PATCH_HIGH]
            store_byte(address + index, word >> (8 * (behind % _WORD_BYTES)))
    return count
