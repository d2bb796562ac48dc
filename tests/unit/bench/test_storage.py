"""One place for every contender of a run: memory where the largest input and its copy fit there, else the disk."""

from pathlib import Path

import pytest

from bench.brokers import KEPT_BYTES_MAX
from bench.contender import Kind
from bench.inputs import Input
from bench.storage import BESIDE_BYTES, Storage, bytes_of, choose_place

LARGE = Input(name="large", records=1_000_000, record_bytes=968, codec="none", partitions=3)
LARGE_BYTES = 1_000_000 * 1_000


def test_an_archive_takes_as_much_as_its_source() -> None:
    assert bytes_of(LARGE, Kind.PARQUET) == 2 * LARGE_BYTES


@pytest.mark.parametrize("kind", [Kind.KAFKA, Kind.KAFKA_MAPPED, Kind.KAFKA_TLS])
def test_of_a_copy_in_kafka_the_newest_is_kept_only(kind: Kind) -> None:
    assert bytes_of(LARGE, kind) == LARGE_BYTES + 3 * KEPT_BYTES_MAX
    assert bytes_of(LARGE, kind, copies=2) == LARGE_BYTES + 2 * 3 * KEPT_BYTES_MAX


@pytest.mark.parametrize(("spare_bytes", "expected"), [(LARGE_BYTES, Storage.MEMORY), (LARGE_BYTES - 1, Storage.DISK)])
def test_what_is_needed_must_fit_beside_what_runs(tmp_path: Path, spare_bytes: int, expected: Storage) -> None:
    place = choose_place(
        LARGE_BYTES,
        wanted=None,
        memory_folder=tmp_path,
        available_bytes=lambda: BESIDE_BYTES + spare_bytes,
    )
    assert place.storage is expected
    assert (place.folder == tmp_path) is (expected is Storage.MEMORY)


def test_without_such_a_folder_it_is_the_disk(tmp_path: Path) -> None:
    place = choose_place(1, wanted=None, memory_folder=tmp_path / "none", available_bytes=lambda: 1 << 50)
    assert place.storage is Storage.DISK


@pytest.mark.parametrize("wanted", Storage)
def test_what_was_asked_for_is_taken_whatever_there_is(tmp_path: Path, wanted: Storage) -> None:
    for available in (0, 1 << 50):
        place = choose_place(1, wanted=wanted, memory_folder=tmp_path, available_bytes=lambda n=available: n)  # type: ignore[misc]
        assert place.storage is wanted
