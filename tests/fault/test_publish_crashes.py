"""Writers that are killed at their crash points leave one chain with every record, on a real file system."""

import subprocess
import sys
from pathlib import Path

import pytest

from fault import archive_writer
from fault.archive_writer import archived, source_records, write_archive
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.clock import ManualClock
from mirrorlake.kafka.columns import RecordColumns
from mirrorlake.stores.crash_points import no_crash
from mirrorlake.stores.filesystem import FilesystemStore

SOURCE_END = 40
FAR_FUTURE_SECONDS = 4_000_000_000.0


def assert_archive_is_the_source(root: Path) -> None:
    """One chain, whole files, every record once; and nothing but segments after a sweep."""
    archive = archived(root, no_crash)
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
    store.sweep_staged("orders/0")
    assert len(list((root / "orders/0").iterdir())) == chain.segment_count


@pytest.mark.parametrize("length_after", [2, 5])
def test_a_kill_at_any_crash_point_is_repaired_by_the_next_writer(tmp_path: Path, length_after: int) -> None:
    done = subprocess.run([sys.executable, archive_writer.__file__, "each", str(tmp_path), "3"], check=False)
    assert done.returncode == 14  # 5 crash points of the segment's file, 5 of the claim's, 4 of the protocol
    for life in range(done.returncode + 1):
        root = tmp_path / str(life)
        write_archive(archived(root, no_crash), SOURCE_END, length_after, no_crash)
        assert_archive_is_the_source(root)


@pytest.mark.parametrize("seed", [1, 2])
def test_processes_with_different_cuts_killed_at_random_leave_one_chain(tmp_path: Path, seed: int) -> None:
    writers = [
        subprocess.Popen(
            [
                sys.executable,
                archive_writer.__file__,
                "random",
                *(str(tmp_path), str(SOURCE_END), str(length), str(seed * 10 + length), "0.06"),
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
    assert_archive_is_the_source(tmp_path)
