"""The compiled loops that read the values of a Parquet page in the PLAIN encoding.

A data page of a column that may be null begins with its definition levels: their length, and runs of them (RLE and
bit-packed, of one bit each). Behind them each value that is not null stands as its length, four bytes, and its bytes.
Source: ``Encodings.md`` of Apache Parquet's format.

Of a page that does not compress, zstd makes a frame of blocks that hold its bytes as they are. Source: RFC 8878,
§3.1.1.
"""

from mirrorlake.kafka.records.kernels import (
    Int64s,
    UInt8s,
    as_address,
    compiled,
    copy_bytes,
    inlined,
    load_byte,
    load_int32,
)

_LEVELS_LENGTH_BYTES = 4
_VALUE_LENGTH_BYTES = 4
_VARINT_SHIFT_MAX = 28

_FRAME_MAGIC = -0x02D04AD8  # FD2FB528, as a signed number
_FRAME_HEADER_BYTES_MIN = 6
_FRAME_UNFAMILIAR = 0x0F  # a dictionary, a checksum, and what is reserved
_FRAME_SINGLE_SEGMENT = 0x20
_BLOCK_HEADER_BYTES = 3
_RAW = 0


@inlined
def _levels_into(address: int, end: int, lengths: Int64s, start_row: int, rows: int) -> int:
    """Writes 0 for each row with a value and -1 for each without; returns 0, or -1 where the levels do not say all."""
    row, stop = start_row, start_row + rows
    while row < stop:
        header, shift = 0, 0
        while True:
            if address >= end or shift > _VARINT_SHIFT_MAX:
                return -1
            byte = load_byte(address)
            address += 1
            header |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        count = header >> 1
        if count == 0:
            return -1
        if header & 1 == 0:
            if address >= end or load_byte(address) > 1 or count > stop - row:
                return -1
            level = load_byte(address) - 1
            address += 1
            for _ in range(count):
                lengths[row] = level
                row += 1
        else:
            if count > end - address:
                return -1
            for number in range(min(8 * count, stop - row)):
                lengths[row] = ((load_byte(address + (number >> 3)) >> (number & 7)) & 1) - 1
                row += 1
            address += count
    return 0


@compiled("int64(uint8[::1], int64, int64, int64, int64[::1], uint8[::1], int64[::1])")
def read_plain(
    page: UInt8s, is_nullable: int, start_row: int, rows: int, lengths: Int64s, data: UInt8s, offsets: Int64s
) -> int:
    """Copies the values of a page behind those of the pages before, one behind the other.

    Args:
        page: the page, decompressed.
        is_nullable: 1 where it has definition levels.
        start_row: its first row in ``lengths`` and ``offsets``.
        rows: how many it has.
        lengths: filled in: of each value, -1 where it is null.
        data: takes the values, from ``offsets[start_row]`` on; there is room for all of the page.
        offsets: filled in behind that, as Arrow has it: where each value begins, and behind the last one where it ends.

    Returns:
        Where the values end; -1 where the page is not what it must be.
    """
    address = as_address(page.ctypes.data)
    end = address + page.shape[0]
    target = as_address(data.ctypes.data)
    position = offsets[start_row]
    if page.shape[0] > data.shape[0] - position:
        return -1
    if is_nullable != 0:
        if end - address < _LEVELS_LENGTH_BYTES:
            return -1
        levels_bytes = load_int32(address)
        address += _LEVELS_LENGTH_BYTES
        if levels_bytes < 0 or levels_bytes > end - address:
            return -1
        if _levels_into(address, address + levels_bytes, lengths, start_row, rows) != 0:
            return -1
        address += levels_bytes
    for row in range(start_row, start_row + rows):
        if is_nullable == 0 or lengths[row] == 0:
            if end - address < _VALUE_LENGTH_BYTES:
                return -1
            length = load_int32(address)
            address += _VALUE_LENGTH_BYTES
            if length < 0 or length > end - address:
                return -1
            copy_bytes(target + position, address, length)
            lengths[row] = length
            address += length
            position += length
        offsets[row + 1] = position
    return position if address == end else -1


@inlined
def _frame_header_bytes(address: int) -> int:
    """Returns how long the header of a zstd frame is; -1 where it is another frame, or says what is not known here."""
    if load_int32(address) != _FRAME_MAGIC:
        return -1
    descriptor = load_byte(address + 4)
    if descriptor & _FRAME_UNFAMILIAR != 0:
        return -1
    is_single = descriptor & _FRAME_SINGLE_SEGMENT
    size_bytes = 1 << (descriptor >> 6)
    if size_bytes == 1 and is_single == 0:
        size_bytes = 0
    return 5 + size_bytes + (0 if is_single != 0 else 1)


@inlined
def _walk_raw(address: int, end: int, target: int, room: int, copies: int) -> int:
    """Walks over the blocks of a frame; returns how many bytes they hold, or -1 where one is not as it is."""
    total = 0
    while True:
        if end - address < _BLOCK_HEADER_BYTES:
            return -1
        header = load_byte(address) | load_byte(address + 1) << 8 | load_byte(address + 2) << 16
        address += _BLOCK_HEADER_BYTES
        size = header >> 3
        if (header >> 1) & 3 != _RAW or size > end - address or size > room - total:
            return -1
        if copies != 0 and size > 0:
            copy_bytes(target + total, address, size)
        total += size
        address += size
        if header & 1 != 0:
            return total if address == end else -1


@compiled("int64(uint8[::1], uint8[::1])")
def copy_raw_frame(frame: UInt8s, page: UInt8s) -> int:
    """Copies what a zstd frame holds into a page of that size; 0, or -1 where it is for zstd to decompress.

    Nothing is copied then: all blocks are looked at first.
    """
    address, target = as_address(frame.ctypes.data), as_address(page.ctypes.data)
    end, room = address + frame.shape[0], page.shape[0]
    if frame.shape[0] < _FRAME_HEADER_BYTES_MIN:
        return -1
    header_bytes = _frame_header_bytes(address)
    if header_bytes < 0 or header_bytes > end - address:
        return -1
    if _walk_raw(address + header_bytes, end, target, room, 0) != room:
        return -1
    return 0 if _walk_raw(address + header_bytes, end, target, room, 1) == room else -1
