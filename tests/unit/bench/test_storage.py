"""One place for every contender of a run: memory where the largest input fits there twice, else the disk."""

from pathlib import Path

import pytest

from bench.inputs import Input
from bench.storage import BESIDE_BYTES, Storage, choose_place

SMALL = Input(name="small", records=1_000, record_bytes=100, codec="none")
LARGE = Input(name="large", records=1_000_000, record_bytes=968, codec="none")
LARGE_TWICE_BYTES = 2 * 1_000_000 * 1_000


@pytest.mark.parametrize(
    ("spare_bytes", "expected"), [(LARGE_TWICE_BYTES, Storage.MEMORY), (LARGE_TWICE_BYTES - 1, Storage.DISK)]
)
def test_the_largest_input_decides_for_all(tmp_path: Path, spare_bytes: int, expected: Storage) -> None:
    place = choose_place(
        [SMALL, LARGE, SMALL],
        wanted=None,
        memory_folder=tmp_path,
        available_bytes=lambda: BESIDE_BYTES + spare_bytes,
    )
    assert place.storage is expected
    assert (place.folder == tmp_path) is (expected is Storage.MEMORY)


def test_without_such_a_folder_it_is_the_disk(tmp_path: Path) -> None:
    place = choose_place([SMALL], wanted=None, memory_folder=tmp_path / "none", available_bytes=lambda: 1 << 50)
    assert place.storage is Storage.DISK


@pytest.mark.parametrize("wanted", Storage)
def test_what_was_asked_for_is_taken_whatever_there_is(tmp_path: Path, wanted: Storage) -> None:
    for available in (0, 1 << 50):
        place = choose_place([SMALL], wanted=wanted, memory_folder=tmp_path, available_bytes=lambda n=available: n)  # type: ignore[misc]
        assert place.storage is wanted
