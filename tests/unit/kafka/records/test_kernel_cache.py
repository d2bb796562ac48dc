import os
import subprocess
import sys
from pathlib import Path

import pytest

from mirrorlake.kafka.records import kernel_cache

PRINT_FOLDER = """
from mirrorlake.kafka.records.kernel_cache import prepare_kernel_cache
folder = prepare_kernel_cache()
print(folder)
import numba
print(numba.config.CACHE_DIR)
"""


def folders_printed(*, before: str = "", **variables: str) -> tuple[Path, Path]:
    """Runs a fresh interpreter; returns the folder it was told, and the one numba has."""
    environment = {
        key: value
        for key, value in os.environ.items()
        if key not in ("NUMBA_CACHE_DIR", "MIRRORLAKE_CACHE", "XDG_CACHE_HOME", "HOME")
    }
    run = subprocess.run(
        [sys.executable, "-c", before + PRINT_FOLDER],
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    told, numbas = run.stdout.splitlines()
    return Path(told), Path(numbas)


def test_folder_is_below_the_users_cache(tmp_path: Path) -> None:
    told, numbas = folders_printed(HOME=str(tmp_path))
    assert told == numbas
    assert told.parent == tmp_path / ".cache" / "mirrorlake" / "numba"


def test_folder_follows_xdg(tmp_path: Path) -> None:
    told, numbas = folders_printed(HOME=str(tmp_path / "home"), XDG_CACHE_HOME=str(tmp_path / "xdg"))
    assert told == numbas
    assert told.parent == tmp_path / "xdg" / "mirrorlake" / "numba"


def test_folder_follows_mirrorlakes_own_variable(tmp_path: Path) -> None:
    told, numbas = folders_printed(XDG_CACHE_HOME=str(tmp_path / "xdg"), MIRRORLAKE_CACHE=str(tmp_path / "own"))
    assert told == numbas
    assert told.parent == tmp_path / "own" / "numba"


def test_own_folder_that_cannot_be_written_gives_way_to_a_temporary_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file where a folder should be")
    told, numbas = folders_printed(MIRRORLAKE_CACHE=str(tmp_path / "file"), TMPDIR=str(tmp_path))
    assert told == numbas
    assert told.parent == tmp_path / f"mirrorlake-numba-{os.getuid()}"


def test_folder_that_was_chosen_is_left_alone(tmp_path: Path) -> None:
    told, numbas = folders_printed(HOME=str(tmp_path), NUMBA_CACHE_DIR=str(tmp_path / "elsewhere"))
    assert told == numbas == tmp_path / "elsewhere"


def test_numba_imported_too_early_is_told(tmp_path: Path) -> None:
    told, numbas = folders_printed(before="import numba\n", HOME=str(tmp_path))
    assert told == numbas


def test_home_that_cannot_be_written_gives_way_to_a_temporary_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file where a folder should be")
    told, numbas = folders_printed(HOME=str(tmp_path / "file"), TMPDIR=str(tmp_path))
    assert told == numbas
    # The same for all processes of the user: the second need not compile.
    assert told.parent == tmp_path / f"mirrorlake-numba-{os.getuid()}"
    assert told.parent.stat().st_mode & 0o777 == 0o700


def test_temporary_folder_others_can_write_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file where a folder should be")
    trap = tmp_path / f"mirrorlake-numba-{os.getuid()}"
    trap.mkdir()
    trap.chmod(0o777)
    told, _ = folders_printed(HOME=str(tmp_path / "file"), TMPDIR=str(tmp_path))
    assert told.parent == tmp_path
    assert told != trap
    assert list(trap.iterdir()) == []


@pytest.mark.parametrize("target_exists", [True, False])
def test_temporary_folder_that_is_a_link_is_not_used(tmp_path: Path, target_exists: bool) -> None:
    (tmp_path / "file").write_text("a file where a folder should be")
    if target_exists:
        (tmp_path / "elsewhere").mkdir()
    trap = tmp_path / f"mirrorlake-numba-{os.getuid()}"
    trap.symlink_to(tmp_path / "elsewhere")
    told, _ = folders_printed(HOME=str(tmp_path / "file"), TMPDIR=str(tmp_path))
    assert told.parent == tmp_path
    assert list((tmp_path / "elsewhere").glob("*")) == []


def test_numba_is_imported_by_the_first_call_of_a_kernel_only() -> None:
    code = """
import sys
import mirrorlake.kafka.records.batches, mirrorlake.kafka.records.columns, mirrorlake.kafka.records.compression
from mirrorlake.kafka.records import codec
assert "numba" not in sys.modules
codec.warm()
assert "numba" in sys.modules
# A quarter of a second that nothing here needs.
assert "pandas" not in sys.modules
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_every_module_of_kernels_counts_for_the_folder() -> None:
    package = Path(kernel_cache.__file__).parents[2]
    modules = {path.parent for path in package.rglob("*kernels.py")}
    assert modules == {package / folder for folder in kernel_cache.KERNEL_FOLDERS}
