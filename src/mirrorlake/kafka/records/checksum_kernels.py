"""The compiled loop that tells what a change in front of unchanged bytes does to their CRC-32C, without reading those.

CRC is linear over GF(2): for two messages of one length, ``crc(a + rest) ^ crc(b + rest)`` depends on nothing but
``crc(a) ^ crc(b)`` and the length of ``rest``. It is that difference followed by as many zero bytes, hence its product
with a power of x, modulo the polynomial. Tables would be quicker by count of steps, but not beside megabytes of batches
that push them out of the cache.
"""

import numpy as np

from mirrorlake.kafka.records.kernels import compiled, inlined

_POLYNOMIAL = 0x82F63B78
"""Castagnoli's (RFC 3720, appendix B.4), in the checksum's order of bits: the highest one is x to the power of 0."""
_ONE = 1 << 31
_LENGTH_BITS_MAX = 32


@inlined
def _times(one: int, other: int) -> int:
    """Returns the product of two polynomials, modulo the polynomial."""
    product = 0
    bit = _ONE
    while one:
        if one & bit:
            product ^= other
            one ^= bit
        bit >>= 1
        other = (other >> 1) ^ _POLYNOMIAL if other & 1 else other >> 1
    return product


@compiled("int64(int64, int64)")
def times(one: int, other: int) -> int:
    """Returns the product of two polynomials of 32 bits, modulo the polynomial."""
    return _times(one, other)


def _shifts() -> list[int]:
    """Returns x to the power of 8, 16, 32 and so on: what a shift by 1, 2, 4 bytes multiplies with."""
    shifts = [_ONE >> 8]
    for _ in range(_LENGTH_BITS_MAX - 1):
        shifts.append(times(shifts[-1], shifts[-1]))
    return shifts


_SHIFTS = np.array(_shifts(), np.int64)


@compiled("int64(int64, int64)")
def shifted(difference: int, length: int) -> int:
    """Returns by how much the checksums of two messages differ that end in the same ``length`` bytes.

    Args:
        difference: the checksums of what is before those bytes, one XOR the other; equally long beginnings.
        length: from 0 to below 2 to the power of 32.
    """
    place = 0
    while length:
        if length & 1:
            difference = _times(difference, _SHIFTS[place])
        length >>= 1
        place += 1
    return difference
