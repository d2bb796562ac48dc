"""Bytes nobody meant: whatever they are, the answer is records or a CorruptBatchError, never anything else."""

import ctypes
import mmap
import random
import struct
from collections.abc import Iterator

import pyarrow as pa
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorlake.errors import CorruptBatchError
from mirrorlake.kafka.records.batches import AbortedTransactions, Codec, classify, walk
from mirrorlake.kafka.records.codec import decode_batches, encode_batch
from unit.kafka.records.record_samples import Sample, columns_of, samples_of
from unit.kafka.records.written_by_kafka import WRITTEN_BY_KAFKA

pytestmark = pytest.mark.usefixtures("way_of_decoding")

HEADERS = ((b"trace", b"\x01\x02"), (b"trace", None), (b"", b""))
SAMPLES = [
    Sample(1000, 1_700_000_000_000, b"key", b"value" * 20, HEADERS),
    Sample(1001, -1, None, b""),
    Sample(1003, 0, b"", None, HEADERS[:1]),
]
NAMES = ["none", "gzip", "snappy", "lz4", "zstd", "gaps", "log-append-time", "empty", "commit", "v0", "v1"]


def decoded_or_corrupt(data: bytes | bytearray | memoryview) -> list[Sample] | None:
    """Goes the way a fetch answer goes; None where it was refused."""
    try:
        return decoded(memoryview(data))
    except CorruptBatchError as error:
        offset = error.facts["offset"]
    assert isinstance(offset, int)
    return None


def decoded(data: memoryview) -> list[Sample]:
    aborted = AbortedTransactions()
    batches = list(walk(data))
    for batch in batches:
        classify(batch, position=0, aborted=aborted)
    records = [each for each in batches if each.header.magic == 2 and not each.header.is_control]
    # A small limit keeps decompression bombs that chance makes from taking the test's time.
    return samples_of(decode_batches(records, decompressed_bytes_max=1 << 22))


def resealed(data: bytes | bytearray) -> bytearray:
    """The same bytes with a length and a checksum that are right, so that what they hold is looked at."""
    data = bytearray(data)
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return data


@pytest.mark.parametrize("codec", Codec)
def test_batch_cut_at_any_byte_is_left_over(codec: Codec) -> None:
    data = encode_batch(columns_of(SAMPLES), codec=codec)
    for length in range(len(data)):
        assert decoded_or_corrupt(data[:length]) == []


@pytest.mark.parametrize("codec", Codec)
def test_batch_cut_at_any_byte_and_sealed_again_is_corrupt(codec: Codec) -> None:
    data = encode_batch(columns_of(SAMPLES), codec=codec)
    for length in range(61, len(data)):
        assert decoded_or_corrupt(resealed(data[:length])) is None


@pytest.mark.parametrize("name", NAMES)
def test_any_flipped_bit_is_found_by_the_checksum_or_is_not_covered_by_it(name: str) -> None:
    good = WRITTEN_BY_KAFKA[name]
    for position in range(len(good)):
        for bit in range(8):
            data = bytearray(good)
            data[position] ^= 1 << bit
            decoded_or_corrupt(data)


@pytest.mark.parametrize("codec", Codec)
def test_any_flipped_bit_under_a_right_checksum_is_survived(codec: Codec) -> None:
    good = encode_batch(columns_of(SAMPLES), codec=codec)
    for position in range(16, len(good)):
        for bit in range(8):
            data = bytearray(good)
            data[position] ^= 1 << bit
            decoded_or_corrupt(resealed(data))


@pytest.mark.parametrize("codec", Codec)
def test_random_bytes_for_records_are_survived(codec: Codec) -> None:
    seeded = random.Random(codec)
    header = encode_batch(columns_of(SAMPLES), codec=codec)[:61]
    for _ in range(3000):
        noise = seeded.randbytes(seeded.randrange(120))
        data = header + noise
        struct.pack_into(">i", data, 57, seeded.choice([0, 1, 3, len(noise) // 7, 2**31 - 1]))
        struct.pack_into(">i", data, 23, seeded.choice([0, 3, 2**31 - 2]))
        decoded_or_corrupt(resealed(data))


@settings(deadline=None, max_examples=300)
@given(changes=st.lists(st.tuples(st.integers(61, 400), st.binary(min_size=1, max_size=6)), min_size=1, max_size=5))
def test_records_with_bytes_overwritten_are_survived(changes: list[tuple[int, bytes]]) -> None:
    # The body is not compressed, so what is overwritten are lengths and counts.
    data = encode_batch(columns_of(SAMPLES), codec=Codec.NONE)
    for position, change in changes:
        start = 61 + (position - 61) % (len(data) - 61)
        data[start : start + len(change)] = change
    decoded_or_corrupt(resealed(data))


@settings(deadline=None, max_examples=300)
@given(data=st.binary(max_size=300))
def test_random_bytes_for_an_answer_are_survived(data: bytes) -> None:
    decoded_or_corrupt(data)


@pytest.fixture
def before_a_wall() -> Iterator[memoryview]:
    """Memory after whose last byte any access ends the process."""
    page = mmap.PAGESIZE
    libc = ctypes.CDLL(None, use_errno=True)
    memory = memoryview(mmap.mmap(-1, 2 * page))
    wall = ctypes.c_void_p(pa.py_buffer(memory).address + page)
    no_access, read_and_write = 0, 3
    assert libc.mprotect(wall, ctypes.c_size_t(page), no_access) == 0
    yield memory[:page]
    assert libc.mprotect(wall, ctypes.c_size_t(page), read_and_write) == 0


def test_nothing_after_a_batch_is_read(before_a_wall: memoryview) -> None:
    seeded = random.Random(4)
    good = encode_batch(columns_of(SAMPLES), codec=Codec.NONE)
    for _ in range(5000):
        data = bytearray(good[: seeded.randrange(62, len(good) + 1)])
        for _ in range(seeded.randrange(4)):
            # Lengths and counts are what leads astray: large, small and negative ones.
            data[seeded.randrange(61, len(data))] = seeded.choice([0x00, 0x01, 0x7E, 0x7F, 0x80, 0xFE, 0xFF])
        place = before_a_wall[-len(data) :]
        place[:] = resealed(data)
        decoded_or_corrupt(place)
