"""Writers that are killed at their crash points leave one chain with every record, on a real file system."""

import subprocess
import sys
from pathlib import Path

import pytest

from fault import archive_writer
from fault.archive_writer import archived, source_records, write_archive
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.clock import ManualClock
from mirrorlake.kafka.columns import RecordColumns
from mirrorlake.stores.crash_points import no_crash
from mirrorlake.stores.filesystem import FilesystemStore

SOURCE_END = 40
FAR_FUTURE_SECONDS = 4_000_000_000.0


def assert_archive_is_the_source(root: Path, extension: str) -> None:
    """One chain, whole files, every record once; and nothing but segments and their descriptions after a sweep."""
    archive = archived(root, no_crash, extension=extension)
    chain = archive.read_chain()
    assert chain.position == SOURCE_END
    found = []
    for info in archive.store.list("orders/0"):
        if not info.name.startswith("_"):
            with open_segment(archive.store, info.key) as segment:
                segment.check_content()
                found += list(segment.records())
    assert RecordColumns.concat(found).equals(source_records(0, SOURCE_END))
    store = FilesystemStore(root, clock=ManualClock(FAR_FUTURE_SECONDS))
    archive.sweep(chain)
    ArchivedPartition(store, destination_name="orders", partition=0, extension=extension).sweep(chain)
    assert len(list((root / "orders/0").iterdir())) == chain.segment_count
    if extension == "ndjson":
        # Every writer has the same records, so what a dead one described is what the next one publishes.
        assert len(list((root / "orders/_meta/0").iterdir())) == chain.segment_count


@pytest.mark.parametrize("length_after", [2, 5])
@pytest.mark.parametrize(("extension", "steps"), [("parquet", 14), ("ndjson", 20)])
def test_a_kill_at_any_crash_point_is_repaired_by_the_next_writer(
    tmp_path: Path, extension: str, steps: int, length_after: int
) -> None:
    done = subprocess.run([sys.executable, archive_writer.__file__, "each", str(tmp_path), extension, "3"], check=False)
    # 5 crash points of the segment's file, 5 of the claim's, 4 of the protocol; 6 of the description.
    assert done.returncode == steps
    for life in range(done.returncode + 1):
        root = tmp_path / str(life)
        write_archive(archived(root, no_crash, extension=extension), SOURCE_END, length_after, no_crash)
        assert_archive_is_the_source(root, extension)


@pytest.mark.parametrize(("extension", "seed"), [("parquet", 1), ("parquet", 2), ("ndjson", 3)])
def test_processes_with_different_cuts_killed_at_random_leave_one_chain(
    tmp_path: Path, extension: str, seed: int
) -> None:
    writers = [
        subprocess.Popen(
            [
                sys.executable,
                archive_writer.__file__,
                "random",
                *(str(tmp_path), extension, str(SOURCE_END), str(length), str(seed * 10 + length), "0.06"),
            ]
        )
        for length in (3, 4, 7)
    ]
    try:
        codes = [writer.wait(timeout=300) for writer in writers]
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    assert codes == [0, 0, 0]
    assert_archive_is_the_source(tmp_path, extension)
