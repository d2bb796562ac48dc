"""The compiled loops that read records out of batches.

Three rules keep them safe whatever the bytes say: no byte is read before its position was compared with the
end of what holds it; a position that runs out becomes ``_BEYOND``, which stays beyond every end; and the room
for outputs is compared with the length of each batch before anything of it is written.

Record layout: `DefaultRecord.java` (numbers are zigzag varints, as in Protocol Buffers); like it, any
negative length of a key or value is a null.
"""

from mirrorlake.kafka.records.kernels import (
    INT32_MAX,
    Int8s,
    Int32s,
    Int64s,
    UInt8s,
    as_address,
    compiled,
    copy_bytes,
    inlined,
    load_byte,
)

# Columns of the table of batches: one row per batch.
ADDRESS, LENGTH, RECORD_COUNT, BASE_OFFSET, LAST_OFFSET_DELTA = range(5)
BASE_TIMESTAMP, APPEND_TIMESTAMP, IS_APPEND_TIME, TABLE_COLUMNS = range(5, 9)

# Fields of the running state: where the columns end so far, and where a kernel gave up.
ROW, KEY_BYTES, VALUE_BYTES, NULL_KEYS, NULL_VALUES, HEADER_COUNT = range(6)
HEADER_KEY_BYTES, HEADER_VALUE_BYTES, NULL_HEADER_VALUES = range(6, 9)
FAILED_BATCH, FAILED_RECORD, STATE_FIELDS = range(9, 12)

# Statuses.
OK, NO_ROOM, BAD_RECORD, BAD_OFFSET, BYTES_LEFT, TOO_MANY_HEADERS = range(6)

_BEYOND = 2**63 - 1
_UINT32_MAX = 2**32 - 1


@inlined
def _read_varint(position: int, end: int) -> tuple[int, int]:
    """Returns a zigzag number of at most 32 bits and the position after it, or ``_BEYOND``."""
    value = 0
    shift = 0
    while position < end and shift < 35:
        byte = load_byte(position)
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > _UINT32_MAX:
                return 0, _BEYOND
            return (value >> 1) ^ -(value & 1), position
        shift += 7
    return 0, _BEYOND


@inlined
def _read_varlong(position: int, end: int) -> tuple[int, int]:
    """Returns a zigzag number of at most 64 bits and the position after it, or ``_BEYOND``."""
    value = 0
    shift = 0
    while position < end and shift < 70:
        byte = load_byte(position)
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return ((value >> 1) & _BEYOND) ^ -(value & 1), position
        shift += 7
    return 0, _BEYOND


@inlined
def _skip(position: int, length: int, end: int) -> int:
    """Returns the position after ``length`` bytes, or ``_BEYOND``; a negative length is a null."""
    if length <= 0:
        return position
    if length > end - position:
        return _BEYOND
    return position + length


@inlined
def skip_headers(position: int, count: int, end: int) -> tuple[int, int, int, int]:
    """Returns the position after the headers, or ``_BEYOND``; bytes of keys and of values; null values."""
    key_bytes = 0
    value_bytes = 0
    nulls = 0
    # A header has at least its two lengths; this also keeps a count that lies from taking time.
    if count < 0 or count > (end - position) // 2:
        return _BEYOND, 0, 0, 0
    for _ in range(count):
        key_length, position = _read_varint(position, end)
        position = _skip(position, key_length, end)
        value_length, position = _read_varint(position, end)
        position = _skip(position, value_length, end)
        if position > end or key_length < 0:
            return _BEYOND, 0, 0, 0
        key_bytes += key_length
        value_bytes += max(value_length, 0)
        nulls += value_length < 0
    return position, key_bytes, value_bytes, nulls


@inlined
def read_one_header(position: int, end: int) -> tuple[int, int, int, int, int]:
    """Returns address and length of a header's key, those of its value, and the position after it, or ``_BEYOND``."""
    key_length, position = _read_varint(position, end)
    key = position
    position = _skip(position, key_length, end)
    value_length, position = _read_varint(position, end)
    value = position
    position = _skip(position, value_length, end)
    if position > end or key_length < 0:
        return 0, 0, 0, 0, _BEYOND
    return key, key_length, value, value_length, position


@inlined
def read_record(position: int, end: int) -> tuple[int, int, int, int, int, int, int, int, int, int]:
    """Reads a record up to its headers.

    Returns its end, or ``_BEYOND``; timestamp and offset delta; where what follows them begins; address and
    length of key and value; address and number of headers.
    """
    body_length, position = _read_varint(position, end)
    if position > end or body_length < 0 or body_length > end - position:
        return _BEYOND, 0, 0, 0, 0, 0, 0, 0, 0, 0
    record_end = position + body_length
    position = _skip(position, 1, record_end)  # attributes: none are in use
    timestamp_delta, position = _read_varlong(position, record_end)
    offset_delta, position = _read_varint(position, record_end)
    rest = position
    key_length, position = _read_varint(position, record_end)
    key = position
    position = _skip(position, key_length, record_end)
    value_length, position = _read_varint(position, record_end)
    value = position
    position = _skip(position, value_length, record_end)
    header_count, position = _read_varint(position, record_end)
    if position > record_end:
        return _BEYOND, 0, 0, 0, 0, 0, 0, 0, 0, 0
    return (
        record_end,
        timestamp_delta,
        offset_delta,
        rest,
        key,
        key_length,
        value,
        value_length,
        position,
        header_count,
    )


@compiled(
    "int64(int64[:,::1], int64, int64, int64[::1], int64[::1], int8[::1], int64[::1], "
    "int64[::1], uint8[::1], uint8[::1], int64[::1], uint8[::1], uint8[::1], "
    "int32[::1], int64[::1], int64[::1], int64[::1])"
)
def decode_records(
    table: Int64s,
    start_offset: int,
    end_offset: int,
    offsets: Int64s,
    timestamps: Int64s,
    timestamp_types: Int8s,
    sizes: Int64s,
    key_offsets: Int64s,
    key_validity: UInt8s,
    keys: UInt8s,
    value_offsets: Int64s,
    value_validity: UInt8s,
    values: UInt8s,
    header_offsets: Int32s,
    header_addresses: Int64s,
    header_ends: Int64s,
    state: Int64s,
) -> int:
    """Appends the records of some batches to columns, from where ``state`` says they end; returns a status.

    Only records with ``start_offset <= offset < end_offset`` are kept; the others are checked too. Validity
    is one byte a row. Headers are checked and counted; ``header_addresses`` and ``header_ends`` say, from 0
    for the first row of this call, where those of a record lie that has any.
    """
    row = state[ROW]
    first_row = row
    key_end = state[KEY_BYTES]
    value_end = state[VALUE_BYTES]
    keys_address = as_address(keys.ctypes.data)
    values_address = as_address(values.ctypes.data)
    key_offsets[row] = key_end
    value_offsets[row] = value_end
    header_offsets[row] = state[HEADER_COUNT]
    for index in range(table.shape[0]):
        batch = table[index]
        position = batch[ADDRESS]
        end = position + batch[LENGTH]
        previous_delta = -1
        state[FAILED_BATCH] = index
        if batch[RECORD_COUNT] > min(offsets.shape[0] - row, header_ends.shape[0] - (row - first_row)) or batch[
            LENGTH
        ] > min(keys.shape[0] - key_end, values.shape[0] - value_end):
            return NO_ROOM
        for record in range(batch[RECORD_COUNT]):
            state[FAILED_RECORD] = record
            (
                record_end,
                timestamp_delta,
                offset_delta,
                _,
                key,
                key_length,
                value,
                value_length,
                headers,
                count,
            ) = read_record(position, end)
            key_bytes, value_bytes, nulls = 0, 0, 0
            position = headers
            if count != 0:
                position, key_bytes, value_bytes, nulls = skip_headers(headers, count, record_end)
            if position != record_end:
                return BAD_RECORD
            if offset_delta <= previous_delta or offset_delta > batch[LAST_OFFSET_DELTA]:
                return BAD_OFFSET
            previous_delta = offset_delta
            offset = batch[BASE_OFFSET] + offset_delta
            if offset < start_offset or offset >= end_offset:
                continue
            if count != 0:
                header_addresses[row - first_row] = headers
                header_ends[row - first_row] = record_end
                state[HEADER_COUNT] += count
                state[HEADER_KEY_BYTES] += key_bytes
                state[HEADER_VALUE_BYTES] += value_bytes
                state[NULL_HEADER_VALUES] += nulls
                if state[HEADER_COUNT] > INT32_MAX:
                    return TOO_MANY_HEADERS
            key_validity[row] = key_length >= 0
            value_validity[row] = value_length >= 0
            state[NULL_KEYS] += key_length < 0
            state[NULL_VALUES] += value_length < 0
            key_length = max(key_length, 0)
            value_length = max(value_length, 0)
            copy_bytes(keys_address + key_end, key, key_length)
            copy_bytes(values_address + value_end, value, value_length)
            key_end += key_length
            value_end += value_length
            offsets[row] = offset
            timestamps[row] = (
                batch[APPEND_TIMESTAMP] if batch[IS_APPEND_TIME] else batch[BASE_TIMESTAMP] + timestamp_delta
            )
            timestamp_types[row] = batch[IS_APPEND_TIME]
            sizes[row] = key_length + value_length + key_bytes + value_bytes
            row += 1
            key_offsets[row] = key_end
            value_offsets[row] = value_end
            header_offsets[row] = state[HEADER_COUNT]
        if position != end:
            return BYTES_LEFT
    state[ROW] = row
    state[KEY_BYTES] = key_end
    state[VALUE_BYTES] = value_end
    return OK


@compiled(
    "int64(int64, int64, int64[::1], int64[::1], int32[::1], int64[::1], int64[::1], uint8[::1], int64[::1], "
    "uint8[::1], uint8[::1])"
)
def gather_headers(
    first_row: int,
    end_row: int,
    header_addresses: Int64s,
    header_ends: Int64s,
    header_offsets: Int32s,
    position: Int64s,
    key_offsets: Int64s,
    keys: UInt8s,
    value_offsets: Int64s,
    value_validity: UInt8s,
    values: UInt8s,
) -> int:
    """Appends the headers of the rows a call of ``decode_records`` added to the columns of headers.

    ``position`` holds the bytes of header keys and of header values so far, and is moved on.
    """
    key_end = position[0]
    value_end = position[1]
    keys_address = as_address(keys.ctypes.data)
    values_address = as_address(values.ctypes.data)
    if header_offsets[end_row] > value_validity.shape[0]:
        return NO_ROOM
    for row in range(first_row, end_row):
        address = header_addresses[row - first_row]
        end = header_ends[row - first_row]
        for header in range(header_offsets[row], header_offsets[row + 1]):
            key_length, address = _read_varint(address, end)
            key_address = address
            address = _skip(address, key_length, end)
            value_length, address = _read_varint(address, end)
            value_address = address
            address = _skip(address, value_length, end)
            if address > end or key_length < 0:
                return BAD_RECORD
            if key_length > keys.shape[0] - key_end or value_length > values.shape[0] - value_end:
                return NO_ROOM
            key_offsets[header] = key_end
            copy_bytes(keys_address + key_end, key_address, key_length)
            key_end += key_length
            value_offsets[header] = value_end
            value_validity[header] = value_length >= 0
            if value_length > 0:
                copy_bytes(values_address + value_end, value_address, value_length)
                value_end += value_length
    header_count = header_offsets[end_row]
    key_offsets[header_count] = key_end
    value_offsets[header_count] = value_end
    position[0] = key_end
    position[1] = value_end
    return OK
