"""Batches compressed with LZ4 get other ids without being compressed anew."""

import random
from struct import pack, unpack_from

import cramjam
import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.kafka.records.batches import Batch, Codec, verify_crc
from mirrorlake.kafka.records.codec import decode_batches, encode_batch
from mirrorlake.kafka.schema_ids import rewriting
from mirrorlake.kafka.schema_ids.id_map import SchemaIdMap
from mirrorlake.kafka.schema_ids.lz4_changes import changed_frame, new_marks
from mirrorlake.kafka.schema_ids.lz4_kernels import MARK_BITS
from mirrorlake.kafka.schema_ids.rewriting import with_ids
from unit.kafka.records.record_samples import Sample, columns_of, only_batch, samples_of

THERE = {1: 501, 2: 502, 3: 100_001}
IDS = SchemaIdMap.of({1: 501, 2: 502, 3: 100_001})


def framed(schema_id: int, body: bytes) -> bytes:
    return b"\0" + pack(">i", schema_id) + body


def frame_of(data: bytes, *, content_checksum: bool = False, block_linked: bool = False) -> bytes:
    compressor = cramjam.lz4.Compressor(level=1, content_checksum=content_checksum, block_linked=block_linked)
    compressor.compress(data)
    return bytes(compressor.finish())


def without_block_checksums(frame: bytes) -> bytes:
    """As Kafka's own clients write frames."""
    flags = frame[4] & ~0x10
    found = frame[:4] + bytes([flags, frame[5], xxhash.xxh32_intdigest(bytes([flags, frame[5]])) >> 8 & 0xFF])
    at = 7
    while size := unpack_from("<I", frame, at)[0]:
        end = at + 4 + (size & 0x7FFFFFFF)
        found += frame[at:end]
        at = end + 4
    return found + bytes(4)


def changed(frame: bytes, before: bytes, wanted: bytes) -> bytes | None:
    marks = new_marks(len(wanted))
    for at in range(min(len(wanted), len(before))):
        marks[at >> MARK_BITS] |= before[at] != wanted[at]
    made = changed_frame(np.frombuffer(frame, np.uint8), np.frombuffer(wanted, np.uint8), marks, header_bytes=3)
    return None if made is None else made[3:].tobytes()


def lz4_batch(ids: list[int]) -> tuple[Batch, list[Sample]]:
    """A batch of records with these ids, and what its records are to become."""
    source = random.Random(1)
    bodies = [source.randbytes(700) for _ in ids]
    here = [Sample(n, key=b"k%d" % n, value=framed(ids[n], body)) for n, body in enumerate(bodies)]
    wanted = [Sample(n, key=b"k%d" % n, value=framed(THERE[ids[n]], body)) for n, body in enumerate(bodies)]
    return only_batch(encode_batch(columns_of(here), codec=Codec.LZ4)), wanted


@pytest.mark.parametrize("ids", [[1], [2] * 200, [1, 2] * 100, [3] * 200, [1, 3, 2] * 70])
def test_a_batch_gets_its_ids_and_is_not_compressed_anew(ids: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    batch, wanted = lz4_batch(ids)
    monkeypatch.delattr(rewriting, "compress")

    made = with_ids(batch, IDS)

    verify_crc(made)
    assert samples_of(decode_batches([made])) == wanted
    assert abs(len(made.view) - len(batch.view)) < 8 * len(ids)


def test_what_repeats_an_id_and_is_none_stays() -> None:
    text = framed(1, b"and so on")
    samples = [Sample(0, key=None, value=text + b"; " + text + b"; " + text)]
    batch = only_batch(encode_batch(columns_of(samples), codec=Codec.LZ4))

    made = with_ids(batch, IDS)

    value = framed(501, b"and so on") + b"; " + text + b"; " + text
    assert samples_of(decode_batches([made])) == [Sample(0, key=None, value=value)]


_data = st.lists(
    st.one_of(st.binary(max_size=40), st.sampled_from([b"\0\0\0\0\1", b"abcabcabc", bytes(300), b"xy" * 400])),
    min_size=1,
    max_size=40,
).map(b"".join)


@given(_data, st.data(), st.booleans(), st.booleans())
def test_what_is_made_decompresses_to_what_is_wanted(
    data: bytes, more: st.DataObject, block_linked: bool, has_checksums: bool
) -> None:
    wanted = bytearray(data)
    for _ in range(more.draw(st.integers(0, 4))):
        at = more.draw(st.integers(0, max(0, len(data) - 1)))
        new = more.draw(st.binary(min_size=1, max_size=16))[: len(data) - at]
        wanted[at : at + len(new)] = new
    frame = frame_of(data, block_linked=block_linked)
    frame = frame if has_checksums else without_block_checksums(frame)

    made = changed(frame, data, bytes(wanted))

    if made is not None:
        assert bytes(cramjam.lz4.decompress(made)) == wanted
        assert made[:7] == frame[:7]
    if wanted == data:
        assert made == frame


def sequence(literals: bytes, offset: int = 0, length: int = 0) -> bytes:
    """One sequence of a block; without a match where the length is 0."""

    def beyond(count: int) -> bytes:
        return b"\xff" * ((count - 15) // 255) + bytes([(count - 15) % 255]) if count >= 15 else b""

    more = max(0, length - 4)
    made = bytes([min(len(literals), 15) << 4 | min(more, 15)]) + beyond(len(literals)) + literals
    return made + pack("<H", offset) + beyond(more) if length else made


def block_by_chance(data: bytes, start: int, end: int, first: int, chance: random.Random) -> bytes:
    """A block with matches that no compressor would choose: short, far away, or of themselves; from ``first`` on."""
    made, literals, at = bytearray(), start, start
    while at < end - 12:  # as the format wants the end of a block to be
        offset = chance.choice([1, 2, 5, chance.randint(1, max(1, min(at - first, 65_535)))])
        length = 0
        while first <= at - offset and at + length < end - 5 and data[at - offset + length] == data[at + length]:
            length += 1
        if length >= 4 and chance.random() < 0.8:
            length = length if chance.random() < 0.5 else chance.randint(4, length)
            made += sequence(data[literals:at], offset, length)
            at += length
            literals = at
        else:
            at += 1
    return bytes(made + sequence(data[literals:end]))


def frame_by_chance(data: bytes, chance: random.Random) -> bytes:
    """A frame of such blocks, of which some are stored, linked or not, with or without checksums and the size."""
    is_linked, has_checksums, has_size = (chance.random() < 0.5 for _ in range(3))
    flags = 0x40 | (0 if is_linked else 0x20) | (0x10 if has_checksums else 0) | (0x08 if has_size else 0)
    descriptor = bytes([flags, 0x40]) + (pack("<Q", len(data)) if has_size else b"")
    frame = bytearray(b"\x04\x22\x4d\x18" + descriptor + bytes([xxhash.xxh32_intdigest(descriptor) >> 8 & 0xFF]))
    for start in range(0, len(data), 1 << 16):
        end = min(len(data), start + (1 << 16))
        block = block_by_chance(data, start, end, 0 if is_linked else start, chance)
        is_stored = len(block) >= end - start or chance.random() < 0.1
        block = data[start:end] if is_stored else block
        frame += pack("<I", len(block) | (1 << 31 if is_stored else 0)) + block
        frame += pack("<I", xxhash.xxh32_intdigest(block)) if has_checksums else b""
    return bytes(frame + bytes(4))


@pytest.mark.parametrize("seed", range(40))
def test_frames_of_any_compressor_are_changed(seed: int) -> None:
    chance = random.Random(seed)
    parts = [b"\0\0\0\0\1", b"abcabcabc", bytes(30), b"xy" * 40, chance.randbytes(20), framed(2, b"body")]
    data = b"".join(chance.choices(parts, k=chance.choice([3, 40, 4000])))
    wanted = bytearray(data)
    for _ in range(chance.choice([1, 5, 300])):
        at = chance.randrange(len(data) - 4)
        wanted[at : at + 4] = pack(">i", chance.choice([1, 2, 500, 100_001]))
    frame = frame_by_chance(data, chance)
    assert bytes(cramjam.lz4.decompress(frame)) == data

    made = changed(frame, data, bytes(wanted))

    assert made is None or bytes(cramjam.lz4.decompress(made)) == wanted
    assert changed(frame, data, data) == frame


def test_blocks_that_are_stored_and_blocks_behind_the_first_are_changed() -> None:
    source = random.Random(2)
    data = source.randbytes(1 << 20) + b" ".join(source.choices([b"text", b"and", b"more", b"of it"], k=200_000))
    wanted = bytearray(data)
    for at in (0, 65_534, 1 << 19, (1 << 20) + 65_530, len(data) - 4):
        wanted[at : at + 4] = b"here"
    frame = frame_of(data)
    made = changed(frame, data, bytes(wanted))
    assert made is not None
    assert bytes(cramjam.lz4.decompress(made)) == wanted
    assert len(made) < len(frame) + 1000


def test_a_checksum_of_a_block_is_that_of_its_new_bytes() -> None:
    data = random.Random(3).randbytes(70_000)
    frame = frame_of(data)
    assert frame[4] & 0x10
    made = changed(frame, data, b"here" + data[4:])
    assert made is not None
    (size,) = unpack_from("<I", made, 7)
    end = 11 + (size & 0x7FFFFFFF)
    assert unpack_from("<I", made, end)[0] == xxhash.xxh32_intdigest(made[11:end])
    assert bytes(cramjam.lz4.decompress(made)) == b"here" + data[4:]


def test_a_frame_that_would_grow_by_much_is_to_be_compressed_anew() -> None:
    data = b"some text, and some text" * 9000
    wanted = data[:30_000] + b"other" + data[30_005:]
    assert changed(frame_of(data), data, wanted) is None, "one match makes all of a block"


def test_a_frame_with_a_checksum_of_all_its_content_is_to_be_compressed_anew() -> None:
    data = b"some text, and some text" * 20
    assert changed(frame_of(data, content_checksum=True), data, data) is None


@pytest.mark.parametrize("length", [0, 3, 4, 6, 7, 8, 10, 11, 20])
def test_nothing_is_made_of_a_frame_that_is_cut(length: int) -> None:
    data = b"some text, and some text, and some more of it"
    assert changed(frame_of(data)[:length], data, data) is None


def test_nothing_is_made_of_a_frame_of_more_or_less_than_is_wanted() -> None:
    data = b"some text, and some text" * 20
    assert changed(frame_of(data), data, data + b"more") is None
    assert changed(frame_of(data), data, data[:-1]) is None
    assert changed(frame_of(data) + frame_of(data), data, data) is None


@given(_data, st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), max_size=6), st.binary(max_size=8))
def test_no_damage_of_a_frame_reaches_other_memory(data: bytes, damage: list[tuple[int, int]], start: bytes) -> None:
    frame = bytearray(frame_of(data))
    for at, byte in damage:
        frame[at % len(frame)] = byte
    wanted = np.full(len(data) + 128, 0xEE, np.uint8)
    wanted[64:-64] = np.frombuffer(start[: len(data)] + data[len(start) :], np.uint8)
    marks = new_marks(len(data))
    marks[: len(start) + 1] = 1

    made = changed_frame(np.frombuffer(frame, np.uint8), wanted[64:-64], marks, header_bytes=64)

    assert (wanted[:64] == 0xEE).all()
    assert (wanted[-64:] == 0xEE).all()
    if made is not None:
        assert len(made) <= 64 + len(frame) + len(frame) // 8 + 1024
