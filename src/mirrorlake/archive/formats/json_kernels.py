"""The compiled loops that write records as lines of JSON, and read the base64 in such lines.

Base64 is RFC 4648 §4: the standard alphabet, with padding. Text in JSON is escaped as RFC 8259 §7 asks for, in the
short forms where there are any; what need not be escaped is not.
"""

import numpy as np

from mirrorlake.kafka.records.kernels import (
    HEADER_KEY,
    HEADER_VALUE,
    KEY,
    VALUE,
    Int8s,
    Int64s,
    UInt8s,
    as_address,
    bytes_at,
    compiled,
    copy_bytes,
    headers_at,
    inlined,
    load_byte,
    load_int32,
    store_byte,
)

# The rows of the table of fixed texts: where each begins in the bytes of all of them, and how long it is.
HEAD, TIMESTAMP_MS, TIMESTAMP_TYPE, KEY_FIELD, VALUE_FIELD, HEADERS_FIELD, HEADER_KEY_FIELD = range(7)
HEADER_VALUE_FIELD, CREATE_TIME, LOG_APPEND_TIME, NOT_AVAILABLE, FIXED_TEXTS = range(7, 12)
BASE64_AT = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

_QUOTE = 0x22
_BACKSLASH = 0x5C
_NO_TIMESTAMP = -1
_PADDING = 0x3D

# Two characters of base64 for each 12 bits.
_PAIRS = np.array([ord(BASE64_AT[n >> 6]) | ord(BASE64_AT[n & 63]) << 8 for n in range(4096)], np.int64)
_BITS = np.full(256, -1, np.int64)
_BITS[[ord(character) for character in BASE64_AT]] = np.arange(64)
_SHORT_ESCAPES = np.zeros(256, np.int64)
for _byte, _letter in ((8, "b"), (9, "t"), (10, "n"), (12, "f"), (13, "r"), (_QUOTE, '"'), (_BACKSLASH, "\\")):
    _SHORT_ESCAPES[_byte] = ord(_letter)


@inlined
def _write_fixed(address: int, texts: Int64s, which: int) -> int:
    length: int = texts[which, 1]
    copy_bytes(address, texts[which, 0], length)
    return address + length


@inlined
def _write_digits(address: int, number: int) -> int:
    digits = 1
    rest = number // 10
    while rest > 0:
        rest //= 10
        digits += 1
    for place in range(digits - 1, -1, -1):
        store_byte(address + place, 0x30 + number % 10)
        number //= 10
    return address + digits


@inlined
def _write_number(address: int, number: int) -> int:
    """Writes a signed number in decimal; returns the address after it."""
    if number >= 0:
        return _write_digits(address, number)
    store_byte(address, 0x2D)
    # The lowest number has no positive counterpart, so its last digit is written apart.
    tens = -(number + 1) // 10
    last = -(number + 10 * tens)
    if last == 10:
        tens, last = tens + 1, 0
    if tens > 0:
        address = _write_digits(address + 1, tens)
        return _write_digits(address, last)
    return _write_digits(address + 1, last)


@inlined
def _write_base64(address: int, source: int, length: int) -> int:
    """Writes bytes as base64 in quotes; returns the address after it."""
    store_byte(address, _QUOTE)
    address += 1
    for start in range(0, length - 2, 3):
        bits = load_byte(source + start) << 16 | load_byte(source + start + 1) << 8 | load_byte(source + start + 2)
        first, second = _PAIRS[bits >> 12], _PAIRS[bits & 0xFFF]
        store_byte(address, first)
        store_byte(address + 1, first >> 8)
        store_byte(address + 2, second)
        store_byte(address + 3, second >> 8)
        address += 4
    left = length % 3
    if left:
        at = source + length - left
        bits = load_byte(at) << 16
        if left == 2:
            bits |= load_byte(at + 1) << 8
        first, second = _PAIRS[bits >> 12], _PAIRS[bits & 0xFFF]
        store_byte(address, first)
        store_byte(address + 1, first >> 8)
        store_byte(address + 2, second if left == 2 else _PADDING)
        store_byte(address + 3, _PADDING)
        address += 4
    store_byte(address, _QUOTE)
    return address + 1


@inlined
def _hex_digit(number: int) -> int:
    return 0x30 + number if number < 10 else 0x57 + number


@inlined
def _write_text(address: int, source: int, length: int) -> int:
    """Writes UTF-8 as a JSON string; returns the address after it."""
    store_byte(address, _QUOTE)
    address += 1
    for index in range(length):
        byte = load_byte(source + index)
        if _SHORT_ESCAPES[byte]:
            store_byte(address, _BACKSLASH)
            store_byte(address + 1, _SHORT_ESCAPES[byte])
            address += 2
        elif byte < 0x20:
            store_byte(address, _BACKSLASH)
            store_byte(address + 1, 0x75)
            store_byte(address + 2, 0x30)
            store_byte(address + 3, 0x30)
            store_byte(address + 4, _hex_digit(byte >> 4))
            store_byte(address + 5, _hex_digit(byte & 15))
            address += 6
        else:
            store_byte(address, byte)
            address += 1
    store_byte(address, _QUOTE)
    return address + 1


@inlined
def _write_headers(address: int, columns: Int64s, texts: Int64s, first: int, count: int) -> int:
    address = _write_fixed(address, texts, HEADERS_FIELD)
    for header in range(first, first + count):
        if header > first:
            store_byte(address, 0x2C)
            address += 1
        address = _write_fixed(address, texts, HEADER_KEY_FIELD)
        source, length = bytes_at(columns, HEADER_KEY, header)
        address = _write_text(address, source, length)
        source, length = bytes_at(columns, HEADER_VALUE, header)
        if length >= 0:
            address = _write_fixed(address, texts, HEADER_VALUE_FIELD)
            address = _write_base64(address, source, length)
        store_byte(address, 0x7D)
        address += 1
    store_byte(address, 0x5D)
    return address + 1


@compiled("int64(int64[::1], int64[::1], int8[::1], int64[:,::1], int64[:,::1], uint8[::1])")
def write_lines(
    offsets: Int64s, timestamps: Int64s, types: Int8s, columns: Int64s, texts: Int64s, output: UInt8s
) -> int:
    """Writes a line for each record, all header keys UTF-8; returns the bytes written.

    ``texts`` are the addresses and lengths of the fixed texts. The output has room for whatever the records become.
    """
    begin = as_address(output.ctypes.data)
    address = begin
    for row in range(offsets.shape[0]):
        address = _write_fixed(address, texts, HEAD)
        address = _write_number(address, offsets[row])
        if timestamps[row] != _NO_TIMESTAMP:
            address = _write_fixed(address, texts, TIMESTAMP_MS)
            address = _write_number(address, timestamps[row])
        address = _write_fixed(address, texts, TIMESTAMP_TYPE)
        which = NOT_AVAILABLE if types[row] < 0 else CREATE_TIME + types[row]
        address = _write_fixed(address, texts, which)
        source, length = bytes_at(columns, KEY, row)
        if length >= 0:
            address = _write_fixed(address, texts, KEY_FIELD)
            address = _write_base64(address, source, length)
        source, length = bytes_at(columns, VALUE, row)
        if length >= 0:
            address = _write_fixed(address, texts, VALUE_FIELD)
            address = _write_base64(address, source, length)
        first, count = headers_at(columns, row)
        if count:
            address = _write_headers(address, columns, texts, first, count)
        store_byte(address, 0x7D)
        store_byte(address + 1, 0x0A)
        address += 2
    return address - begin


@inlined
def _quad_at(source: int) -> int:
    """Returns the 24 bits of four characters, below 0 where one is not of the alphabet."""
    first, second = _BITS[load_byte(source)], _BITS[load_byte(source + 1)]
    third, fourth = _BITS[load_byte(source + 2)], _BITS[load_byte(source + 3)]
    if first | second | third | fourth < 0:
        return -1
    bits: int = first << 18 | second << 12 | third << 6 | fourth
    return bits


@inlined
def _read_end(source: int, address: int) -> int:
    """Reads the last four characters, padded or not; returns the address after the bytes, 0 where they are wrong."""
    first, second = _BITS[load_byte(source)], _BITS[load_byte(source + 1)]
    if first | second < 0:
        return 0
    third, fourth = load_byte(source + 2), load_byte(source + 3)
    bits = first << 18 | second << 12
    if third == _PADDING:
        # Bits that are left over are 0, or two texts would stand for the same bytes.
        if fourth != _PADDING or bits & 0xFFFF:
            return 0
        store_byte(address, bits >> 16)
        return address + 1
    if _BITS[third] < 0:
        return 0
    bits |= _BITS[third] << 6
    store_byte(address, bits >> 16)
    store_byte(address + 1, bits >> 8)
    if fourth == _PADDING:
        return 0 if bits & 0xFF else address + 2
    if _BITS[fourth] < 0:
        return 0
    store_byte(address + 2, bits | _BITS[fourth])
    return address + 3


@compiled("int64(int64, int64, int64, uint8[::1], int64[::1])")
def read_base64(texts: int, text_ends: int, count: int, output: UInt8s, ends: Int64s) -> int:
    """Decodes ``count`` texts; returns -1, or the row of one that is not base64.

    ``texts`` is where the first begins and ``text_ends`` the address of the array of 32-bit ends, one more than there
    are texts, as Arrow keeps them. ``ends`` takes where the bytes of each end in the output, which has room for them.
    """
    begin = as_address(output.ctypes.data)
    address = begin
    ends[0] = 0
    for row in range(count):
        source = texts + load_int32(text_ends + 4 * row)
        source_end = texts + load_int32(text_ends + 4 * row + 4)
        if (source_end - source) & 3:
            return row
        while source_end - source > 4:
            bits = _quad_at(source)
            if bits < 0:
                return row
            store_byte(address, bits >> 16)
            store_byte(address + 1, bits >> 8)
            store_byte(address + 2, bits)
            source += 4
            address += 3
        if source < source_end:
            address = _read_end(source, address)
            if address == 0:
                return row
        ends[row + 1] = address - begin
    return -1
