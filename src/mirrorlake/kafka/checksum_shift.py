"""What a change in front of unchanged bytes does to their CRC-32C, without reading those bytes.

CRC is linear over GF(2): for two messages of one length, ``crc(a + rest) ^ crc(b + rest)`` depends on nothing but
``crc(a) ^ crc(b)`` and the length of ``rest``. It is that difference followed by as many zero bytes: a multiplication by
a power of x modulo the polynomial, which is a 32 × 32 matrix of bits for each length, composed here from one for each
digit of the length.
"""

from functools import cache

_POLYNOMIAL = 0x82F63B78
"""Castagnoli's, lowest bit first (RFC 3720, appendix B.4)."""
_DIGIT_BITS = 4
_DIGIT_MASK = (1 << _DIGIT_BITS) - 1

_Tables = tuple[list[int], list[int], list[int], list[int]]


def shifted(difference: int, length: int) -> int:
    """Returns by how much checksums of two messages differ that end in the same ``length`` bytes.

    Args:
        difference: the checksums of what is before those bytes, one XOR the other; equally long beginnings.
        length: not negative.
    """
    place = 0
    while length:
        if digit := length & _DIGIT_MASK:
            first, second, third, fourth = _tables(place, digit)
            difference = (
                first[difference & 255]
                ^ second[difference >> 8 & 255]
                ^ third[difference >> 16 & 255]
                ^ fourth[difference >> 24]
            )
        length >>= _DIGIT_BITS
        place += 1
    return difference


@cache
def _tables(place: int, digit: int) -> _Tables:
    """Returns, for each byte of a difference and each of its values, what becomes of it.

    The shift is by ``digit`` (1 to 15) times 16 to the power of ``place``. Made when a length first has that digit there.
    """
    columns = [shifted(column, (digit - 1) << (_DIGIT_BITS * place)) for column in _unit_columns(place)]
    return (_table(columns[:8]), _table(columns[8:16]), _table(columns[16:24]), _table(columns[24:]))


@cache
def _unit_columns(place: int) -> tuple[int, ...]:
    """Returns what becomes of each single bit, the lowest first, in a shift by 16 to the power of ``place``."""
    bits = tuple(1 << number for number in range(32))
    if place == 0:
        return tuple(_after_zero_byte(bit) for bit in bits)
    half = 1 << (_DIGIT_BITS * place - 1)
    return tuple(shifted(shifted(bit, half), half) for bit in bits)


def _after_zero_byte(difference: int) -> int:
    for _bit in range(8):
        difference = (difference >> 1) ^ (_POLYNOMIAL if difference & 1 else 0)
    return difference


def _table(columns: list[int]) -> list[int]:
    """Returns the XOR of the columns whose bits are set, for each of the 256 sets of bits."""
    table = [0]
    for column in columns:
        table += [column ^ known for known in table]
    return table
