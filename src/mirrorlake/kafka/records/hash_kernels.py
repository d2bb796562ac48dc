"""The compiled loop that hashes records; `hashes.py` says what the hash is.

XXH64 as in its specification (Cyan4973/xxHash, doc/xxhash_spec.md).
"""

import numpy as np

from mirrorlake.kafka.records.kernels import (
    HEADER_KEY,
    HEADER_VALUE,
    KEY,
    VALUE,
    Int64s,
    UInt64s,
    as_address,
    bytes_at,
    compiled,
    headers_at,
    inlined,
    load_byte,
    load_int32,
    load_int64,
)

_PRIME_1 = np.uint64(0x9E3779B185EBCA87)
_PRIME_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_PRIME_3 = np.uint64(0x165667B19E3779F9)
_PRIME_4 = np.uint64(0x85EBCA77C2B2AE63)
_PRIME_5 = np.uint64(0x27D4EB2F165667C5)
_LOW_32 = 2**32 - 1


@inlined
def _rotate(word: np.uint64, bits: int) -> np.uint64:
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@inlined
def _round(accumulator: np.uint64, lane: np.uint64) -> np.uint64:
    return _rotate(accumulator + lane * _PRIME_2, 31) * _PRIME_1


@inlined
def _merge(accumulator: np.uint64, value: np.uint64) -> np.uint64:
    return (accumulator ^ _round(np.uint64(0), value)) * _PRIME_1 + _PRIME_4


@inlined
def _xxh64(address: int, length: int, seed: np.uint64) -> np.uint64:
    """Returns XXH64 of the bytes; a negative length counts as 0."""
    length = max(length, 0)
    end = address + length
    if length >= 32:
        one = seed + _PRIME_1 + _PRIME_2
        two = seed + _PRIME_2
        three = seed
        four = seed - _PRIME_1
        while end - address >= 32:
            one = _round(one, np.uint64(load_int64(address)))
            two = _round(two, np.uint64(load_int64(address + 8)))
            three = _round(three, np.uint64(load_int64(address + 16)))
            four = _round(four, np.uint64(load_int64(address + 24)))
            address += 32
        result = _rotate(one, 1) + _rotate(two, 7) + _rotate(three, 12) + _rotate(four, 18)
        result = _merge(_merge(_merge(_merge(result, one), two), three), four)
    else:
        result = seed + _PRIME_5
    return _finish(address, end, result + np.uint64(length))


@inlined
def _finish(address: int, end: int, result: np.uint64) -> np.uint64:
    """Takes in what is left of the input, fewer than 32 bytes, and mixes."""
    while end - address >= 8:
        result ^= _round(np.uint64(0), np.uint64(load_int64(address)))
        result = _rotate(result, 27) * _PRIME_1 + _PRIME_4
        address += 8
    if end - address >= 4:
        result ^= np.uint64(load_int32(address) & _LOW_32) * _PRIME_1
        result = _rotate(result, 23) * _PRIME_2 + _PRIME_3
        address += 4
    while address < end:
        result ^= np.uint64(load_byte(address)) * _PRIME_5
        result = _rotate(result, 11) * _PRIME_1
        address += 1
    result = (result ^ (result >> np.uint64(33))) * _PRIME_2
    result = (result ^ (result >> np.uint64(29))) * _PRIME_3
    return result ^ (result >> np.uint64(32))


@compiled("void(int64[::1], int64[::1], int64[:,::1], uint64[::1])")
def hash_records(offsets: Int64s, timestamps: Int64s, columns: Int64s, hashes: UInt64s) -> None:
    """Fills in the hash of each record."""
    words = np.empty(5, np.int64)
    words_address = as_address(words.ctypes.data)
    for row in range(offsets.shape[0]):
        key_address, key_length = bytes_at(columns, KEY, row)
        value_address, value_length = bytes_at(columns, VALUE, row)
        first, count = headers_at(columns, row)
        words[0] = offsets[row]
        words[1] = timestamps[row]
        words[2] = key_length
        words[3] = value_length
        words[4] = count
        result = _xxh64(words_address, 40, np.uint64(0))
        result = _xxh64(key_address, key_length, result)
        result = _xxh64(value_address, value_length, result)
        for header in range(first, first + count):
            key_address, key_length = bytes_at(columns, HEADER_KEY, header)
            value_address, value_length = bytes_at(columns, HEADER_VALUE, header)
            words[0] = key_length
            words[1] = value_length
            result = _xxh64(words_address, 16, result)
            result = _xxh64(key_address, key_length, result)
            result = _xxh64(value_address, value_length, result)
        hashes[row] = result
