"""Writers of snapshots that are killed at their crash points, alone and several at once, on a real file system."""

from pathlib import Path

import pytest

from fault.snapshot_writer import KEYS, die_at_each, die_at_random, snapshots, source_value, write_snapshots
from mirrorlake.archive.snapshots.view import check_snapshots_content
from mirrorlake.clock import ManualClock
from mirrorlake.stores.crash_points import no_crash
from mirrorlake.stores.filesystem import FilesystemStore
from support.fork_server import exit_codes
from support.snapshots import view

FAR_FUTURE_SECONDS = 4_000_000_000.0


def assert_view_is_the_sources(root: Path, source_end: int) -> None:
    """No overlap, whole files, the newest holds the latest of every key; and nothing but snapshots after a sweep."""
    folder = snapshots(root, no_crash)
    chain = folder.read_chain()
    assert chain.position == source_end
    assert check_snapshots_content(folder) == chain.segment_count
    latest = {offset % KEYS: offset for offset in range(source_end)}
    expected = {offset: source_value(offset) for _, offset in sorted(latest.items())}
    held = {offset: record.value for offset, record in view(root, "users").items()}
    assert list(held.items()) == [(o, value) for o, value in expected.items() if value is not None]
    folder.sweep(chain)
    FilesystemStore(root, clock=ManualClock(FAR_FUTURE_SECONDS)).sweep_staged("users/0")
    assert len(list((root / "users/0").iterdir())) == chain.segment_count


@pytest.mark.parametrize("length_after", [5, 9])
def test_a_kill_at_any_crash_point_is_repaired_by_the_next_writer(tmp_path: Path, length_after: int) -> None:
    (deaths,) = exit_codes([(die_at_each, (str(tmp_path), 8))])
    assert deaths == 14  # 5 crash points of the snapshot's file, 5 of the claim's, 4 of the protocol
    for life in range(deaths + 1):
        root = tmp_path / str(life)
        write_snapshots(snapshots(root, no_crash), 20, length_after, no_crash)
        assert_view_is_the_sources(root, 20)


@pytest.mark.parametrize("seed", [1, 2])
def test_processes_with_different_cuts_killed_at_random_leave_one_view(tmp_path: Path, seed: int) -> None:
    codes = exit_codes([(die_at_random, (str(tmp_path), 40, n, seed * 10 + n, 0.06)) for n in (3, 4, 7)])
    assert codes == [0, 0, 0]
    assert_view_is_the_sources(tmp_path, 40)
