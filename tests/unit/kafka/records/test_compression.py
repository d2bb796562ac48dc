import os
import tracemalloc

import cramjam
import pytest

from mirrorlake.kafka.records.batches import Codec
from mirrorlake.kafka.records.compression import MalformedDataError, OutputFullError, compress, decompress_into
from unit.kafka.records.written_by_kafka import WRITTEN_BY_KAFKA

COMPRESSED = [codec for codec in Codec if codec != Codec.NONE]
RECORDS = WRITTEN_BY_KAFKA["none"][61:]
SIZES = [0, 1, 32 * 1024 - 1, 32 * 1024, 32 * 1024 + 1, 64 * 1024, 300_000]


def data_of(size: int) -> bytes:
    """Half of it noise, half of it not."""
    return os.urandom(size // 2) + bytes(size - size // 2)


def decompressed(codec: Codec, data: bytes, room: int) -> bytes:
    output = bytearray(room)
    length = decompress_into(codec, memoryview(data), output)
    return bytes(output[:length])


@pytest.mark.parametrize("codec", COMPRESSED)
def test_reads_what_kafka_compressed(codec: Codec) -> None:
    assert decompressed(codec, WRITTEN_BY_KAFKA[codec.name.lower()][61:], 1000) == RECORDS


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("codec", COMPRESSED)
def test_round_trip_into_exactly_the_room_needed(codec: Codec, size: int) -> None:
    data = data_of(size)
    assert decompressed(codec, bytes(compress(codec, memoryview(data))), size) == data


@pytest.mark.parametrize("size", [size for size in SIZES if size])
@pytest.mark.parametrize("codec", COMPRESSED)
def test_one_byte_too_little_room_is_told_from_bad_data(codec: Codec, size: int) -> None:
    compressed = bytes(compress(codec, data_of(size)))
    with pytest.raises(OutputFullError):
        decompressed(codec, compressed, size - 1)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_bomb_is_refused_without_taking_memory(codec: Codec) -> None:
    bomb = bytes(compress(codec, bytes(50_000_000)))
    output = bytearray(10_000)
    tracemalloc.start()
    with pytest.raises(OutputFullError):
        decompress_into(codec, bomb, output)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize("codec", COMPRESSED)
def test_data_cut_anywhere_is_malformed(codec: Codec) -> None:
    compressed = bytes(compress(codec, data_of(500)))
    for length in range(len(compressed)):
        try:
            data = decompressed(codec, compressed[:length], 10_000)
        except MalformedDataError:
            continue
        # Nothing may come out that was not put in: no bytes, or a frame that lacks only its end mark.
        assert len(data) <= 500


@pytest.mark.parametrize("codec", COMPRESSED)
def test_noise_is_malformed(codec: Codec) -> None:
    with pytest.raises(MalformedDataError):
        decompressed(codec, b"\xff" * 100, 1000)


@pytest.mark.parametrize("length", [-1, 1_000_000, 2**31 - 1])
def test_xerial_block_with_an_impossible_length_is_malformed(length: int) -> None:
    framing = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    with pytest.raises(MalformedDataError, match="cut"):
        decompressed(Codec.SNAPPY, framing + length.to_bytes(4, "big", signed=True) + b"x" * 50, 1000)


def test_snappy_without_framing_is_read_too() -> None:
    data = data_of(5000)
    assert decompressed(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(data)), 5000) == data


def test_snappy_is_framed_as_the_java_client_frames_it() -> None:
    ours = bytes(compress(Codec.SNAPPY, RECORDS))
    assert ours[:16] == WRITTEN_BY_KAFKA["snappy"][61:77]
    blocks = bytes(compress(Codec.SNAPPY, bytes(80_000)))
    sizes = []
    position = 16
    while position < len(blocks):
        length = int.from_bytes(blocks[position : position + 4], "big")
        sizes.append(cramjam.snappy.decompress_raw_len(blocks[position + 4 : position + 4 + length]))
        position += 4 + length
    assert sizes == [32_768, 32_768, 14_464]


def test_lz4_blocks_are_independent_and_at_most_64_kib() -> None:
    frame = bytes(compress(Codec.LZ4, data_of(200_000)))
    magic, flags, block_descriptor = frame[:4], frame[4], frame[5]
    assert magic == bytes.fromhex("04224d18")
    assert flags & 0b1110_0000 == 0b0110_0000  # version 1, independent
    assert flags & 0b0000_1111 == 0  # no content size, no content checksum, no dictionary
    assert block_descriptor == 0x40


def test_none_is_passed_on_as_it_is() -> None:
    assert compress(Codec.NONE, RECORDS) is RECORDS
    with pytest.raises(ValueError, match="no decompression"):
        decompress_into(Codec.NONE, RECORDS, bytearray(1000))
