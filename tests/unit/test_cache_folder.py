"""One cache folder for everything that is kept between runs."""

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from mirrorlake.cache_folder import user_cache_folder
from mirrorlake.class_archive import cache_folder as class_archive_folder
from mirrorlake.embedded.jars import mirror_maker_libs
from mirrorlake.errors import ConfigurationError

PRINT_KERNEL_FOLDER = (
    "from mirrorlake.kafka.records.kernel_cache import prepare_kernel_cache; print(prepare_kernel_cache())"
)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"MIRRORLAKE_CACHE": "/big/disk", "XDG_CACHE_HOME": "/xdg", "HOME": "/h"}, "/big/disk"),
        ({"XDG_CACHE_HOME": "/xdg", "HOME": "/h"}, "/xdg/mirrorlake"),
        ({"HOME": "/h"}, "/h/.cache/mirrorlake"),
        ({"MIRRORLAKE_CACHE": "", "XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache/mirrorlake"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/mirrorlake"),
    ],
)
def test_the_folder_is_where_the_environment_says(environ: dict[str, str], expected: str) -> None:
    assert user_cache_folder(environ) == Path(expected)


def test_the_environment_is_this_processs_own_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIRRORLAKE_CACHE", "/big/disk")

    assert user_cache_folder() == Path("/big/disk")


def test_a_user_without_the_variable_home_has_one_in_the_user_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)

    assert user_cache_folder({}) == Path(pwd.getpwuid(os.getuid()).pw_dir) / ".cache" / "mirrorlake"


@pytest.mark.parametrize("path", ["cache", "./cache", "~/cache"])
def test_a_path_that_depends_on_the_process_is_refused(path: str) -> None:
    with pytest.raises(ConfigurationError, match="MIRRORLAKE_CACHE must be an absolute path"):
        user_cache_folder({"MIRRORLAKE_CACHE": path, "HOME": "/h"})


def test_kernels_jars_and_class_archives_lie_in_the_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIRRORLAKE_CACHE", str(tmp_path / "mine"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    jars = tmp_path / "mine" / "kafka-4.3.0-mirror-maker"
    jars.mkdir(parents=True)

    run = subprocess.run([sys.executable, "-c", PRINT_KERNEL_FOLDER], capture_output=True, text=True, check=True)

    assert Path(run.stdout.strip()).parent == tmp_path / "mine" / "numba"
    assert class_archive_folder() == tmp_path / "mine" / "class-archive"
    assert mirror_maker_libs() == jars  # found, so nothing is downloaded
    assert not (tmp_path / "xdg").exists()
