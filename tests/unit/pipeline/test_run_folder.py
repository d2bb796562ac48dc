import fcntl
import multiprocessing
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.pipeline.run_folder import FOLDER_BYTES_MAX, SWEPT_AFTER_SECONDS, RunFolder


@pytest.fixture
def parent() -> Iterator[Path]:
    # pytest's own temporary folders are too long for sockets.
    folder = Path(tempfile.mkdtemp(prefix="ml-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_a_folder_exists_until_it_is_closed(parent: Path) -> None:
    folder = RunFolder((parent,))
    (folder.path / "some.sock").touch()
    assert folder.path.parent == parent

    folder.close()
    folder.close()
    assert list(parent.iterdir()) == []


def test_a_parent_that_is_too_long_for_sockets_is_passed_over(parent: Path) -> None:
    long = parent / ("x" * FOLDER_BYTES_MAX)
    long.mkdir()
    with RunFolder((long, parent)) as folder:
        assert folder.path.parent == parent


def test_a_parent_that_does_not_exist_is_passed_over(parent: Path) -> None:
    with RunFolder((parent / "missing", parent)) as folder:
        assert folder.path.parent == parent


def test_no_usable_parent_is_an_error_that_names_each(parent: Path) -> None:
    with pytest.raises(OSError, match="missing: No such file"):
        RunFolder((parent / "missing",))


def age(folder: Path, seconds: float) -> None:
    """Makes a folder look as if nothing had happened in it for so long."""
    at = time.time() - seconds
    os.utime(folder, (at, at))


def test_what_a_killed_process_left_is_removed_by_the_next(parent: Path) -> None:
    with RunFolder((parent,)) as living:
        # A process that is killed lets go of its lock, and that is all it does.
        left = living.path.with_name(living.path.name + "x")
        left.mkdir()
        (left / "some.sock").touch()
        age(left, SWEPT_AFTER_SECONDS + 1)
        age(living.path, 1_000_000)
        with RunFolder((parent,)) as next_one:
            assert not left.exists()
            assert living.path.exists()
            assert next_one.path.exists()


def test_folders_of_another_sort_are_removed_by_their_own_sort_alone(parent: Path) -> None:
    with RunFolder((parent,), name="mirrorlake-demo") as living:
        left = living.path.with_name(living.path.name + "x")
        left.mkdir()
        (left / "data").touch()
        age(left, SWEPT_AFTER_SECONDS + 1)
        age(living.path, SWEPT_AFTER_SECONDS + 1)
        with RunFolder((parent,)):
            assert left.exists()
        with RunFolder((parent,), name="mirrorlake-demo"):
            assert not left.exists()
            assert living.path.exists()


def test_a_folder_without_sockets_may_be_deep(parent: Path) -> None:
    long = parent / ("x" * FOLDER_BYTES_MAX)
    long.mkdir()
    with RunFolder((long,), name="mirrorlake-demo", bytes_max=4096) as folder:
        assert folder.path.parent == long


def test_a_folder_that_nobody_holds_yet_is_left_for_a_minute(parent: Path) -> None:
    with RunFolder((parent,)) as living:
        young = living.path.with_name(living.path.name + "x")
        young.mkdir()
        with RunFolder((parent,)):
            assert young.exists()


def test_what_older_versions_left_is_removed_and_what_they_hold_is_not(parent: Path) -> None:
    prefix = f"mirrorlake-{os.getuid()}-"
    left, held, unlocked = (parent / f"{prefix}{name}" for name in ("left", "held", "unlocked"))
    start, fresh_start = parent / "mirrorlake-start-a", parent / "mirrorlake-start-b"
    for folder in (left, held, unlocked, start, fresh_start):
        folder.mkdir()
    for folder in (left, held):
        (folder / "owner.lock").touch()
    for folder in (left, held, unlocked, start):
        age(folder, 7_200.0)
    with (held / "owner.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with RunFolder((parent,)) as new:
            assert set(parent.iterdir()) == {held, fresh_start, new.path}


def test_a_folder_in_use_is_left_alone(parent: Path) -> None:
    with RunFolder((parent,)) as first:
        lock = os.open(first.path, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(lock)
        age(first.path, 1_000_000)
        with RunFolder((parent,)):
            assert first.path.exists()


def test_a_folder_that_was_swept_before_it_was_locked_is_made_anew(
    parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process may be stopped for a minute at any instruction, while others start."""
    make, lock = tempfile.mkdtemp, fcntl.flock
    made: list[Path] = []

    def make_and_lose_the_first(**options: Any) -> str:
        made.append(Path(make(**options)))
        if len(made) == 1:
            made[0].rmdir()
        return str(made[-1])

    def lose_the_second_and_lock(descriptor: int, how: int) -> None:
        if len(made) == 2 and made[1].exists():
            made[1].rmdir()
        lock(descriptor, how)

    monkeypatch.setattr(tempfile, "mkdtemp", make_and_lose_the_first)
    monkeypatch.setattr(fcntl, "flock", lose_the_second_and_lock)
    with RunFolder((parent,)) as folder:
        assert folder.path == made[2]
        assert folder.path.exists()


def folders_lost(parent: Path, starts: int) -> int:
    lost = 0
    for _ in range(starts):
        with RunFolder((parent,)) as folder:
            lost += not folder.path.exists()
    return lost


def test_starts_at_one_time_do_not_sweep_each_others_folders(parent: Path) -> None:
    with ProcessPoolExecutor(4, mp_context=multiprocessing.get_context("spawn")) as starts:
        assert list(starts.map(folders_lost, [parent] * 4, [500] * 4)) == [0, 0, 0, 0]
    assert list(parent.iterdir()) == []
