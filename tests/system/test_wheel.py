"""The wheel that people install holds what the source tree holds."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from support.wheel import NOT_SOURCE, PROJECT, build_wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def test_every_file_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    package = PROJECT / "src"
    in_tree = {
        str(path.relative_to(package))
        for path in (package / "mirrorlake").rglob("*")
        if path.is_file() and not NOT_SOURCE(str(path.parent), [path.name]) and "__pycache__" not in path.parts
    }

    in_wheel = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}

    assert in_wheel == in_tree
    assert "mirrorlake/py.typed" in in_wheel
    assert "mirrorlake/pipeline/log4j2.properties" in in_wheel


def test_the_wheel_brings_the_command_and_no_address_of_an_index(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (entry_points,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        commands = archive.read(entry_points).decode()
        requirements = [
            line for line in archive.read(metadata).decode().splitlines() if line.startswith("Requires-Dist:")
        ]

    assert "mirrorlake = mirrorlake.cli.main:main" in commands
    assert requirements
    assert not any("://" in line for line in requirements)


def test_the_wheel_can_be_imported_without_the_source_tree(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import mirrorlake; print(mirrorlake.__file__)"

    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, cwd=tmp_path)

    assert done.stdout.strip() == str(tmp_path / "mirrorlake" / "__init__.py")
