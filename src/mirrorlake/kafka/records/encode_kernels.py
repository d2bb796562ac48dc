"""The compiled loops that write records as the body of a batch.

Record layout: `DefaultRecord.java` (numbers are zigzag varints, as in Protocol Buffers).
"""

from mirrorlake.kafka.records.kernels import (
    HEADER_KEY,
    HEADER_VALUE,
    INT32_MAX,
    KEY,
    VALUE,
    Int64s,
    UInt8s,
    as_address,
    bytes_at,
    compiled,
    copy_bytes,
    headers_at,
    inlined,
    store_byte,
)

_SEVEN_BITS_LESS = 2**57 - 1


@inlined
def _zigzag(number: int) -> int:
    return (number << 1) ^ (number >> 63)


@inlined
def varint_bytes(number: int) -> int:
    """Returns how many bytes the zigzag varint of a number takes."""
    rest = _zigzag(number)
    length = 1
    while rest & ~0x7F != 0:
        rest = (rest >> 7) & _SEVEN_BITS_LESS
        length += 1
    return length


@inlined
def write_varint(address: int, number: int) -> int:
    """Writes the zigzag varint of a number; returns the address after it."""
    rest = _zigzag(number)
    while rest & ~0x7F != 0:
        store_byte(address, (rest & 0x7F) | 0x80)
        rest = (rest >> 7) & _SEVEN_BITS_LESS
        address += 1
    store_byte(address, rest)
    return address + 1


@inlined
def _field_bytes(length: int) -> int:
    """Returns the bytes of a length and what it counts; -1 is a null."""
    return varint_bytes(length) + max(length, 0)


@inlined
def _write_field(address: int, source: int, length: int) -> int:
    """Writes a length and what it counts; -1 is a null. Returns the address after it."""
    address = write_varint(address, length)
    if length > 0:
        copy_bytes(address, source, length)
        address += length
    return address


@compiled("int64(int64[::1], int64[::1], int64[:,::1], int64[::1])")
def measure_records(offsets: Int64s, timestamps: Int64s, columns: Int64s, body_lengths: Int64s) -> int:
    """Fills in the length of each record's body; returns the bytes of all, or -1 - row of one too large."""
    total = 0
    for row in range(offsets.shape[0]):
        length = 1 + varint_bytes(timestamps[row] - timestamps[0]) + varint_bytes(offsets[row] - offsets[0])
        length += _field_bytes(bytes_at(columns, KEY, row)[1])
        length += _field_bytes(bytes_at(columns, VALUE, row)[1])
        first, count = headers_at(columns, row)
        length += varint_bytes(count)
        for header in range(first, first + count):
            length += _field_bytes(bytes_at(columns, HEADER_KEY, header)[1])
            length += _field_bytes(bytes_at(columns, HEADER_VALUE, header)[1])
        # Everything inside is smaller than the body, so this bounds every length in it.
        if length > INT32_MAX:
            return -1 - row
        body_lengths[row] = length
        total += varint_bytes(length) + length
    return total


@compiled("int64(int64[::1], int64[::1], int64[:,::1], int64[::1], uint8[::1], int64)")
def write_records(
    offsets: Int64s, timestamps: Int64s, columns: Int64s, body_lengths: Int64s, output: UInt8s, start: int
) -> int:
    """Writes measured records from ``start`` on; returns where they end, or -1 for want of room."""
    output_address = as_address(output.ctypes.data)
    address = output_address + start
    output_end = output_address + output.shape[0]
    for row in range(offsets.shape[0]):
        length = body_lengths[row]
        if varint_bytes(length) + length > output_end - address:
            return -1
        address = write_varint(address, length)
        store_byte(address, 0)  # attributes: none are in use
        address = write_varint(address + 1, timestamps[row] - timestamps[0])
        address = write_varint(address, offsets[row] - offsets[0])
        source, length = bytes_at(columns, KEY, row)
        address = _write_field(address, source, length)
        source, length = bytes_at(columns, VALUE, row)
        address = _write_field(address, source, length)
        first, count = headers_at(columns, row)
        address = write_varint(address, count)
        for header in range(first, first + count):
            source, length = bytes_at(columns, HEADER_KEY, header)
            address = _write_field(address, source, length)
            source, length = bytes_at(columns, HEADER_VALUE, header)
            address = _write_field(address, source, length)
    return address - output_address
