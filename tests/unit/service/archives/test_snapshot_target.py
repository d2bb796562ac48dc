"""Where a snapshot may go: whatever holds records, or may hold them, is no place for it."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mirrorlake.archive.origin import Origin
from mirrorlake.errors import ChainBrokenError, MirrorlakeError
from mirrorlake.service.archives.places import ArchivePlace
from mirrorlake.service.archives.snapshot_options import SnapshotOptions
from mirrorlake.service.archives.snapshot_target import find_target
from mirrorlake.stores.settings import FilesystemSettings
from support.archives import mark_archive, write_segment
from support.golden import write_mirror_v3_segment
from support.records import simple_records
from unit.destinations.snapshots.test_sink import Bench, record

ORIGIN = Origin(cluster_id="cluster", topic="users", topic_id="topic", partition=0)
RECORDS = ("parquet", "ndjson", "log", "mirror-v3", "damaged")


def fill(root: Path, partition: int, what: str) -> None:
    folder = root / "users" / str(partition)
    if what == "empty":
        folder.mkdir(parents=True)
    elif what == "mirror-v3":
        write_mirror_v3_segment(folder, "users", partition, 0, simple_records(3))
    elif what == "damaged":
        write_segment(root, "users", partition, 0, 10).write_bytes(b"PAR1")
    elif what == "snapshots":
        with ThreadPoolExecutor(1) as executor:
            bench = Bench(root, executor)
            bench.log.append(record(b"k", b"v"))
            bench.lease()
        if partition:
            (root / "users" / "0").rename(folder)
    elif what != "none":
        write_segment(root, "users", partition, 0, 10, extension=what)


def refusal(root: Path) -> MirrorlakeError | None:
    place = ArchivePlace(store=FilesystemSettings(root=root), name="orders", partition=0)
    try:
        find_target(place, SnapshotOptions(name_template="users"), ORIGIN)
    except MirrorlakeError as error:
        return error
    return None


@pytest.mark.parametrize("other", ["none", "empty", "snapshots", *RECORDS])
@pytest.mark.parametrize("own", ["none", "empty", "snapshots", *RECORDS])
@pytest.mark.parametrize("is_recorded", [False, True])
def test_a_folder_with_records_in_any_partition_is_refused(
    tmp_path: Path, own: str, other: str, is_recorded: bool
) -> None:
    fill(tmp_path, 1, other)
    fill(tmp_path, 0, own)
    if is_recorded:
        mark_archive(tmp_path, {"users": {0: 10, 1: 10}})
    before = sorted(tmp_path.rglob("*"))
    error = refusal(tmp_path)
    assert (error is not None) == (is_recorded or own in RECORDS or other in RECORDS)
    if error is not None:
        assert "no snapshot goes there" in error.message
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_that_was_recorded_and_is_gone_is_refused(tmp_path: Path) -> None:
    fill(tmp_path, 0, "parquet")
    mark_archive(tmp_path, {"users": {0: 10}})
    shutil.rmtree(tmp_path / "users")
    error = refusal(tmp_path)
    assert isinstance(error, ChainBrokenError)
    assert "topics of that name were archived there" in error.message
