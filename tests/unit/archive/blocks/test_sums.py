"""Checksums of blocks: those of the bytes, however these come, and read back as they were written or not at all."""

import itertools
import json
from dataclasses import replace

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.archive.blocks.sums import (
    BLOCK_BYTES,
    BLOCK_BYTES_MAX,
    BlockSummer,
    BlockSums,
    block_fields,
    block_sums_in,
)
from mirrorlake.archive.envelope import FileSum, SegmentFooter, decode_footer, encode_footer
from mirrorlake.archive.sidecar import create_sidecar, find_sidecar
from mirrorlake.errors import ChainBrokenError
from mirrorlake.stores.memory import MemoryStore
from unit.archive.test_envelope import FOOTER as RECORDS_FOOTER

DATA = bytes(range(256)) * 3
KEY = "orders/3/00000000000000000010-00000000000000000020.log"
SIDECAR = "orders/_meta/3/00000000000000000010-00000000000000000020.log.json"


def sums_of(data: bytes, block_bytes: int) -> BlockSums:
    summer = BlockSummer(block_bytes)
    summer.update(data)
    return summer.sums()


SUMS = sums_of(DATA, 300)
FILE = FileSum(bytes=len(DATA), checksum=xxhash.xxh3_128_hexdigest(DATA), blocks=SUMS)
FOOTER: SegmentFooter = replace(RECORDS_FOOTER, file=FILE, checksum=FILE.checksum, algorithm="xxh3-128")


@given(data=st.binary(max_size=400), block_bytes=st.integers(1, 90), cuts=st.lists(st.integers(0, 400), max_size=9))
def test_blocks_have_the_sums_of_their_bytes_however_these_come(data: bytes, block_bytes: int, cuts: list[int]) -> None:
    summer = BlockSummer(block_bytes)
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    for start, end in itertools.pairwise(bounds):
        summer.update(memoryview(data)[start:end])
    blocks = [data[at : at + block_bytes] for at in range(0, len(data), block_bytes)]
    found = summer.sums()
    assert found.hexdigests() == [xxhash.xxh3_128_hexdigest(block) for block in blocks]
    assert len(found) == len(blocks)
    assert all(found.holds(number, memoryview(block)) for number, block in enumerate(blocks))
    assert block_sums_in(json.loads(json.dumps(block_fields(found))), file_bytes=len(data)) == found


def test_another_byte_is_not_held() -> None:
    assert not SUMS.holds(0, memoryview(b"x" + DATA[1:300]))
    assert not SUMS.holds(0, memoryview(DATA[:299]))
    assert not SUMS.holds(1, memoryview(DATA[:300]))
    assert not SUMS.holds(9, memoryview(DATA[:300]))


def test_a_description_has_them_beside_the_sum_of_the_file_and_is_equal_without_them() -> None:
    assert json.loads(encode_footer(FOOTER))["file"] == {
        "bytes": len(DATA),
        "checksum": {"algorithm": "xxh3-128", "value": FILE.checksum},
        "blocks": {
            "bytes": 300,
            "algorithm": "xxh3-128",
            "values": [xxhash.xxh3_128_hexdigest(DATA[at : at + 300]) for at in (0, 300, 600)],
        },
    }
    back = decode_footer(encode_footer(FOOTER), where="x")
    assert back.file is not None
    assert back.file.blocks == SUMS
    plain = replace(FOOTER, file=replace(FILE, blocks=None))
    assert plain == FOOTER
    old = decode_footer(encode_footer(plain), where="x")
    assert old.file is not None
    assert old.file.blocks is None


def changed(**fields: object) -> bytes:
    data = json.loads(encode_footer(FOOTER))
    data["file"]["blocks"] |= fields
    return json.dumps(data).encode()


DIGITS = SUMS.hexdigests()
VOID = {
    "one too few": changed(values=DIGITS[:2]),
    "one too many": changed(values=[*DIGITS, DIGITS[0]]),
    "none": changed(values=[]),
    "of another size": changed(bytes=255),
    "of no size": changed(bytes=0),
    "of a negative size": changed(bytes=-300),
    "of a size that is none": changed(bytes="300"),
    "of a size that is true": changed(bytes=True),
    "of a fraction": changed(bytes=300.0),
    "larger than can be held": changed(bytes=BLOCK_BYTES_MAX + 1, values=DIGITS[:1]),
    "of another algorithm": changed(algorithm="md5"),
    "too short": changed(values=[*DIGITS[:2], DIGITS[2][:-2]]),
    "no digits": changed(values=[*DIGITS[:2], "x" * 32]),
    "with spaces": changed(values=[*DIGITS[:2], DIGITS[2][:-1] + " "]),
    "in capitals": changed(values=[*DIGITS[:2], "A" * 32]),
    "a number": changed(values=[*DIGITS[:2], 7]),
    "no list": changed(values="".join(DIGITS)),
}


@pytest.mark.parametrize("data", VOID.values(), ids=VOID)
def test_what_are_not_the_blocks_of_the_file_make_the_description_void(data: bytes) -> None:
    with pytest.raises(ChainBrokenError, match="x: its footer is not one of mirrorlake's"):
        decode_footer(data, where="x")
    store = MemoryStore({KEY: DATA, SIDECAR: data})
    create_sidecar(store, KEY, FOOTER)
    assert len(store.objects) == 3
    with store.open(KEY) as file:
        assert find_sidecar(store, KEY, file) == FOOTER


@pytest.mark.parametrize("blocks", [None, [], "x", 7, {}, {"bytes": 300, "algorithm": "xxh3-128"}])
def test_blocks_that_are_none_make_it_void_too(blocks: object) -> None:
    data = json.loads(encode_footer(FOOTER))
    data["file"]["blocks"] = blocks
    with pytest.raises(ChainBrokenError, match="its footer is not one of mirrorlake's"):
        decode_footer(json.dumps(data).encode(), where="x")


def test_a_field_of_a_file_or_its_blocks_that_is_not_known_is_passed_over() -> None:
    data = json.loads(changed(colour="blue"))
    data["file"]["colour"] = "blue"
    back = decode_footer(json.dumps(data).encode(), where="x")
    assert back == FOOTER
    assert back.file is not None
    assert back.file.blocks == SUMS


@pytest.mark.parametrize("first_has_blocks", [True, False])
def test_writers_of_the_same_bytes_share_a_description_whichever_of_them_sums_up_blocks(first_has_blocks: bool) -> None:
    """A version before writes none, and one of them may be of that version."""
    plain = replace(FOOTER, file=replace(FILE, blocks=None))
    store = MemoryStore()
    for footer in (FOOTER, plain) if first_has_blocks else (plain, FOOTER):
        create_sidecar(store, KEY, footer)
    assert list(store.objects) == [SIDECAR]
    assert (b"blocks" in store.objects[SIDECAR]) == first_has_blocks


def test_a_segment_of_128_mib_is_described_by_some_kilobytes() -> None:
    blocks = BlockSums(block_bytes=BLOCK_BYTES, digests=bytes(16 * 256))
    file = FileSum(bytes=128 << 20, checksum="0" * 32, blocks=blocks)
    assert len(encode_footer(replace(FOOTER, file=file))) < 10_000
