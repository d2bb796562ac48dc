"""A file with checksums of blocks hands out its own bytes, and none of a block that is another."""

import io
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorlake.archive.blocks.compared_file import ComparedFile
from mirrorlake.archive.blocks.sums import BlockSummer
from mirrorlake.archive.formats.summing_file import sum_of
from mirrorlake.errors import ChainBrokenError

DATA = random.Random(5).randbytes(1000)
READS = st.lists(st.tuples(st.integers(-1, 1100), st.integers(0, 1100), st.booleans()), min_size=1, max_size=25)
"""Where to, -1 for where it stands; how much; and whether into memory that is there."""


class ShortFile(io.BytesIO):
    """As a pipe or a signal would have it: a read gives less than asked for."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(size if size is None or size < 2 else (size + 1) // 2)

    def readinto(self, buffer: "memoryview", /) -> int:  # type: ignore[override]
        return super().readinto(buffer[: (len(buffer) + 1) // 2])


def compared(data: bytes, block_bytes: int, *, of: bytes = DATA, raw: type[io.BytesIO] = io.BytesIO) -> ComparedFile:
    summer = BlockSummer(block_bytes)
    summer.update(of)
    return ComparedFile(raw(data), file_bytes=len(of), blocks=summer.sums(), where="k")


def taken(file: ComparedFile, at: int, size: int, *, into: bool) -> bytes:
    if at >= 0:
        file.seek(at)
    if not into:
        return file.read(size)
    buffer = bytearray(size)
    return bytes(buffer[: file.readinto(buffer)])


@pytest.mark.parametrize("raw", [io.BytesIO, ShortFile])
@settings(max_examples=150, deadline=None)
@given(block_bytes=st.integers(1, 1200), reads=READS)
def test_reads_give_the_files_bytes_and_nothing_only_at_its_end(
    raw: type[io.BytesIO], block_bytes: int, reads: list[tuple[int, int, bool]]
) -> None:
    file = compared(DATA, block_bytes, raw=raw)
    for at, size, into in reads:
        start = file.tell() if at < 0 else at
        found = taken(file, at, size, into=into)
        assert found == DATA[start : start + len(found)]
        assert len(found) <= size
        assert found or not size or start >= len(DATA)
        assert file.tell() == start + len(found)


@settings(max_examples=300, deadline=None)
@given(block_bytes=st.integers(1, 1200), flipped=st.integers(0, 999), bit=st.integers(0, 7), reads=READS)
def test_nothing_of_a_changed_block_is_handed_out_and_all_others_are(
    block_bytes: int, flipped: int, bit: int, reads: list[tuple[int, int, bool]]
) -> None:
    changed = bytearray(DATA)
    changed[flipped] ^= 1 << bit
    file = compared(bytes(changed), block_bytes)
    bad = range(flipped // block_bytes * block_bytes, flipped // block_bytes * block_bytes + block_bytes)
    for at, size, into in reads:
        start = file.tell() if at < 0 else at
        if start in bad and start < len(DATA) and size:
            last = min(bad[-1], len(DATA) - 1)
            with pytest.raises(ChainBrokenError, match=f"k has other bytes from {bad[0]} to {last} than") as refused:
                taken(file, at, size, into=into)
            assert refused.value.facts["key"] == "k"
            assert file.tell() == start
        else:
            found = taken(file, at, size, into=into) if size else b""
            assert found == DATA[start : start + len(found)]
            assert found or not size or start >= len(DATA)
            if not size:
                file.seek(start)


@pytest.mark.parametrize("data", [DATA[:-1], DATA + b"x", b""])
@pytest.mark.parametrize("into", [True, False])
def test_nothing_is_handed_out_of_a_file_of_another_length(data: bytes, into: bool) -> None:
    with pytest.raises(ChainBrokenError, match=f"has {len(data)} bytes, its description says 1000"):
        taken(compared(data, 100), 0, 10, into=into)


@pytest.mark.parametrize(("size", "into"), [(50, True), (50, False), (500, True), (500, False)])
def test_a_file_that_is_cut_while_it_is_open_is_told(size: int, into: bool) -> None:
    raw = io.BytesIO(DATA)
    summer = BlockSummer(100)
    summer.update(DATA)
    file = ComparedFile(raw, file_bytes=1000, blocks=summer.sums(), where="k")
    assert taken(file, 0, 100, into=into)
    raw.truncate(150)
    with pytest.raises(ChainBrokenError, match="is shorter than it was"):
        taken(file, 100, size, into=into)


def test_it_is_summed_up_and_read_to_its_end_as_any_file() -> None:
    assert sum_of(compared(DATA, 64), read_bytes=100) == sum_of(io.BytesIO(DATA))  # type: ignore[arg-type]
    assert compared(DATA, 64).read() == DATA
    assert compared(b"", 64, of=b"").read() == b""
    file = compared(DATA, 64)
    assert (file.readable(), file.seekable(), file.seek(-5, io.SEEK_END), file.seek(2, io.SEEK_CUR)) == (
        True,
        True,
        995,
        997,
    )
    file.close()
    assert file.closed
