import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirrorlake.pipeline.run_folder import FOLDER_BYTES_MAX, RunFolder


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


def test_what_a_killed_process_left_is_removed_by_the_next(parent: Path) -> None:
    with RunFolder((parent,)) as living:
        # A process that is killed lets go of its lock, and that is all it does.
        left = living.path.with_name(living.path.name + "x")
        left.mkdir()
        (left / "owner.lock").touch()
        with RunFolder((parent,)) as next_one:
            assert not left.exists()
            assert living.path.exists()
            assert next_one.path.exists()


def test_a_folder_in_use_is_left_alone(parent: Path) -> None:
    with RunFolder((parent,)) as first:
        with (first.path / "owner.lock").open() as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with RunFolder((parent,)):
            assert first.path.exists()
