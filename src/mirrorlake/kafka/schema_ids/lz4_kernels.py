"""The compiled loop that makes, of the LZ4 frame of some data, that of data of which a few bytes are others.

A block is a row of sequences: some literals, then a match, which repeats bytes that came before. Literals are taken
from the new data. A match stays where what it repeats is still what is wanted there, and becomes literals where it is
not. Finding matches, which is most of compressing, is not done again. Block format: ``lz4_Block_format.md``, frames:
``lz4_Frame_format.md``, both of the LZ4 project.
"""

from mirrorlake.kafka.records.kernels import (
    Int64s,
    UInt8s,
    as_address,
    compiled,
    copy_bytes,
    inlined,
    load_byte,
    store_byte,
)

NOT_UNDERSTOOD = -1
"""In place of a length: the frame is of another kind, or is damaged, or what is made of it has no room."""

MARK_BITS = 4
"""A mark stands for so many bits of a position: sixteen bytes."""

FLAGS_AT = 4
BLOCK_CHECKSUMS = 0x10
SIZE_BYTES = CHECKSUM_BYTES = 4
IS_STORED = 1 << 31
"""The bit of a block's size that says that it is not compressed."""

_MAGIC = (0x04, 0x22, 0x4D, 0x18)
_DESCRIPTOR_BYTES = 3
_VERSION, _VERSION_MASK = 0x40, 0xC0
_CONTENT_SIZE, _CONTENT_CHECKSUM, _DICTIONARY_ID = 0x08, 0x04, 0x01
_CONTENT_SIZE_BYTES = 8
_OFFSET_BYTES = 2
_MATCH_BYTES_MIN = 4
_LENGTH_GOES_ON = 15
_LENGTH_BYTE_MAX = 255


@inlined
def _size_at(address: int) -> int:
    """Returns the four bytes at an address as a number: little-endian, unsigned."""
    return (
        load_byte(address)
        | (load_byte(address + 1) << 8)
        | (load_byte(address + 2) << 16)
        | (load_byte(address + 3) << 24)
    )


@inlined
def _write_size(address: int, size: int) -> int:
    """Writes a number as `_size_at` reads it; returns the address behind."""
    for index in range(SIZE_BYTES):
        store_byte(address + index, (size >> (8 * index)) & 0xFF)
    return address + SIZE_BYTES


@inlined
def _length_at(address: int, end: int, short: int) -> tuple[int, int]:
    """Returns a length that a token begins with ``short``, and where it ends."""
    length = short
    if short == _LENGTH_GOES_ON:
        more = _LENGTH_BYTE_MAX
        while more == _LENGTH_BYTE_MAX and address < end:
            more = load_byte(address)
            address += 1
            length += more
    return length, address


@inlined
def _write_length(address: int, length: int) -> int:
    """Writes what a token does not hold of a length; returns the address behind."""
    if length >= _LENGTH_GOES_ON:
        length -= _LENGTH_GOES_ON
        while length >= _LENGTH_BYTE_MAX:
            store_byte(address, _LENGTH_BYTE_MAX)
            address += 1
            length -= _LENGTH_BYTE_MAX
        store_byte(address, length)
        address += 1
    return address


@inlined
def _is_marked(marks: int, start: int, end: int) -> bool:
    """Tells whether a byte of ``[start, end)`` may change; most ranges are a few bytes."""
    first = start >> MARK_BITS
    last = (end - 1) >> MARK_BITS
    if load_byte(marks + first) | load_byte(marks + last):
        return True
    for mark in range(first + 1, last):  # noqa: SIM110  (a generator is no loop for the compiler)
        if load_byte(marks + mark):
            return True
    return False


@inlined
def _next_marked(marks: int, position: int, end: int) -> int:
    """Returns where the next sixteen bytes of which one may change begin, from those of a position on; else an end."""
    for mark in range(position >> MARK_BITS, ((end - 1) >> MARK_BITS) + 1):
        if load_byte(marks + mark):
            return mark << MARK_BITS
    return end


@inlined
def _is_alike(wanted: int, position: int, offset: int, length: int) -> bool:
    """Tells whether a match makes the bytes that are wanted."""
    start = position - offset
    for index in range(length):  # noqa: SIM110  (a generator is no loop for the compiler)
        if load_byte(wanted + position + index) != load_byte(wanted + start + index):
            return False
    return True


@inlined
def _write_literals(made: int, made_end: int, literals: int, length: int, match_length: int) -> int:
    """Writes a token and its literals; returns the address behind, 0 where there is no room for them and a match.

    ``match_length`` is what the token says of the match: its length but for the least it may have; −1 without one.
    """
    lengths_bytes = length // _LENGTH_BYTE_MAX + match_length // _LENGTH_BYTE_MAX + 3
    if made_end - made < 1 + lengths_bytes + length + _OFFSET_BYTES:
        return 0
    store_byte(made, (min(length, _LENGTH_GOES_ON) << 4) | max(0, min(match_length, _LENGTH_GOES_ON)))
    made = _write_length(made + 1, length)
    copy_bytes(made, literals, length)
    return made + length


@inlined
def _change_literals(literals: int, position: int, end: int, wanted: int, marks: int) -> int:
    """Writes what changes of literals, which are the bytes of ``[position, end)``; returns the end."""
    for mark in range(position >> MARK_BITS, ((end - 1) >> MARK_BITS) + 1):
        if load_byte(marks + mark):
            first = max(position, mark << MARK_BITS)
            copy_bytes(literals + first - position, wanted + first, min(end, (mark + 1) << MARK_BITS) - first)
    return end


@inlined
def _change_block(
    block: int, end: int, position: int, wanted: int, wanted_bytes: int, marks: int, made: int, made_end: int
) -> tuple[int, int]:
    """Makes one compressed block; returns the position behind it, −1 where that cannot be, and the address behind.

    Sequences that stay are copied together: ``run`` is where the first begins that was not. ``behind_run`` is the
    position from which on the bytes are literals of a sequence that is not written yet, −1 where there is none.
    """
    run = block
    behind_run = -1
    next_marked = _next_marked(marks, position, wanted_bytes)
    while block < end:
        sequence = block
        first = position
        token = load_byte(block)
        length, block = _length_at(block + 1, end, token >> 4)
        if length > end - block or length > wanted_bytes - position:
            return -1, made
        position += length
        if position > next_marked and length > 0:
            _change_literals(block, first, position, wanted, marks)
        block += length
        if block == end:
            if behind_run >= 0:
                made = _write_literals(made, made_end, wanted + behind_run, position - behind_run, -1)
                return (position, made) if made else (-1, made)
            if made_end - made < end - run:
                return -1, made
            copy_bytes(made, run, end - run)
            return position, made + end - run
        if end - block < _OFFSET_BYTES:
            return -1, made
        offset = load_byte(block) | (load_byte(block + 1) << 8)
        short, block = _length_at(block + _OFFSET_BYTES, end, token & _LENGTH_GOES_ON)
        length = short + _MATCH_BYTES_MIN
        if offset == 0 or offset > position or length > wanted_bytes - position:
            return -1, made
        behind = position + length
        may_change = behind > next_marked or _is_marked(marks, position - offset, behind - offset)
        if may_change and not _is_alike(wanted, position, offset, length):
            if behind_run < 0:
                if made_end - made < sequence - run:
                    return -1, made
                copy_bytes(made, run, sequence - run)
                made += sequence - run
                behind_run = first
        elif behind_run >= 0:
            made = _write_literals(made, made_end, wanted + behind_run, position - behind_run, short)
            if not made:
                return -1, made
            store_byte(made, offset & 0xFF)
            store_byte(made + 1, offset >> 8)
            made = _write_length(made + _OFFSET_BYTES, short)
            run = block
            behind_run = -1
        position = behind
        if position > next_marked:
            next_marked = _next_marked(marks, position, wanted_bytes)
    return -1, made  # a block ends with literals


@inlined
def _first_block(address: int, end: int) -> int:
    """Returns the address of a frame's first block, 0 where the frame is another than this loop knows."""
    if end - address < len(_MAGIC) + _DESCRIPTOR_BYTES:
        return 0
    for index in range(len(_MAGIC)):
        if load_byte(address + index) != _MAGIC[index]:
            return 0
    flags = load_byte(address + FLAGS_AT)
    if flags & _VERSION_MASK != _VERSION or flags & (_CONTENT_CHECKSUM | _DICTIONARY_ID) != 0:
        return 0
    size_bytes = _CONTENT_SIZE_BYTES if flags & _CONTENT_SIZE != 0 else 0
    return address + len(_MAGIC) + _DESCRIPTOR_BYTES + size_bytes


@compiled("int64(int64, int64, int64, int64, uint8[::1], uint8[::1], int64[::1])")
def change_frame(
    source: int, source_bytes: int, wanted: int, wanted_bytes: int, marks: UInt8s, made: UInt8s, blocks: Int64s
) -> int:
    """Makes a frame of new data, in blocks that hold as much as those of the one there is; returns its length.

    Where the blocks have checksums, room is left for them, and they are left to the caller.

    Args:
        source: address of one whole LZ4 frame, of as many bytes as are wanted; its literals are changed.
        source_bytes: how many it has.
        wanted: address of what the new one is to decompress to.
        wanted_bytes: how many these are.
        marks: not zero for each sixteen bytes of ``wanted`` of which one differs from what the frame is of.
        made: is given the new frame; a few bytes more than the one there is are enough.
        blocks: is given where the data of each block begins in the new frame, and a zero behind the last one.
    """
    end = source + source_bytes
    marked = as_address(marks.ctypes.data)
    start = as_address(made.ctypes.data)
    made_end = start + made.shape[0]
    at = _first_block(source, end)
    if at == 0 or at > end or made_end - start < at - source:
        return NOT_UNDERSTOOD
    behind_block = CHECKSUM_BYTES if load_byte(source + FLAGS_AT) & BLOCK_CHECKSUMS != 0 else 0
    copy_bytes(start, source, at - source)
    to = start + at - source
    position = 0
    block = 0
    while end - at >= SIZE_BYTES and made_end - to >= SIZE_BYTES:
        size = _size_at(at)
        at += SIZE_BYTES
        if size == 0:
            blocks[block] = 0
            to = _write_size(to, 0)
            return to - start if at == end and position == wanted_bytes else NOT_UNDERSTOOD
        is_stored = size & IS_STORED != 0
        size &= IS_STORED - 1
        if size > end - at - behind_block or block == blocks.shape[0] - 1:
            return NOT_UNDERSTOOD
        data = to + SIZE_BYTES
        if is_stored:
            if size > wanted_bytes - position or size > made_end - data - behind_block:
                return NOT_UNDERSTOOD
            copy_bytes(data, wanted + position, size)
            position += size
            behind = data + size
            _write_size(to, size | IS_STORED)
        else:
            first = position
            position, behind = _change_block(
                at, at + size, position, wanted, wanted_bytes, marked, data, made_end - behind_block
            )
            # Larger than what it holds no block may be.
            if position < 0 or behind - data > position - first:
                return NOT_UNDERSTOOD
            _write_size(to, behind - data)
        blocks[block] = data - start
        block += 1
        at += size + behind_block
        to = behind + behind_block
    return NOT_UNDERSTOOD
