"""A file is summed up while it is read in order, and hands out nothing else afterwards, however it is read."""

import io
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.archive.blocks import seen_file
from mirrorlake.archive.blocks.seen_file import SeenFile
from mirrorlake.archive.blocks.sums import BlockSummer
from mirrorlake.errors import ChainBrokenError

BLOCK_BYTES = 8
DATA = bytes(range(43))


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seen_file, "BLOCK_BYTES", BLOCK_BYTES)
        yield


def seen(data: bytes = DATA) -> tuple[SeenFile, bytearray]:
    """The file, and the bytes that stand on the disk."""
    disk = bytearray(data)

    class Disk(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            at = self.tell()
            return bytes(disk[at : at + len(super().read(size))])

        def readinto(self, buffer: "bytearray | memoryview", /) -> int:  # type: ignore[override]
            data = self.read(len(buffer))
            buffer[: len(data)] = data
            return len(data)

    return SeenFile(Disk(data), file_bytes=len(data), where="k"), disk


@given(cuts=st.lists(st.integers(0, len(DATA)), max_size=6), into=st.booleans())
def test_the_sums_are_those_of_the_file_in_whatever_pieces_it_is_read(cuts: list[int], *, into: bool) -> None:
    file, _ = seen()
    for start, end in pairwise(sorted([0, *cuts, len(DATA)])):
        if into:
            piece = bytearray(end - start)
            assert file.readinto(piece) == end - start
        else:
            piece = bytearray(file.read(end - start))
        assert bytes(piece) == DATA[start:end]
    expected = BlockSummer(BLOCK_BYTES)
    expected.update(DATA)
    assert file.sums() == expected.sums()


def test_a_file_that_was_not_read_whole_and_in_order_has_no_sums() -> None:
    file, _ = seen()
    file.seek(8)
    file.read()
    assert file.sums() is None
    file.seek(0)
    file.read(8)
    assert file.sums() is None


def test_what_was_read_before_it_is_compared_is_not_summed_up() -> None:
    file, disk = seen()
    disk[3] ^= 1
    file.read(20)
    disk[3] ^= 1
    file.begin_sums()
    file.seek(0)
    assert file.read() == DATA
    expected = BlockSummer(BLOCK_BYTES)
    expected.update(DATA)
    assert file.sums() == expected.sums()


@given(
    reads=st.lists(st.tuples(st.integers(0, len(DATA)), st.integers(0, len(DATA))), max_size=8),
    changed=st.integers(0, len(DATA) - 1),
)
def test_after_it_was_compared_any_read_returns_the_bytes_it_had_or_names_the_file(
    reads: list[tuple[int, int]], changed: int
) -> None:
    file, disk = seen()
    file.read()
    sums = file.sums()
    assert sums is not None
    file.compare_with(sums, than="it had before")
    disk[changed] ^= 1
    for at, size in reads:
        file.seek(at)
        block = changed // BLOCK_BYTES
        meets_change = (
            size and at < len(DATA) and at // BLOCK_BYTES <= block <= (min(at + size, len(DATA)) - 1) // BLOCK_BYTES
        )
        if meets_change:
            with pytest.raises(ChainBrokenError, match=r"^k has other bytes from .* than it had before"):
                file.read(size)
        else:
            assert file.read(size) == DATA[at : at + size]
