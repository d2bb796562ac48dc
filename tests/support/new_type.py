"""A `type` of destination as `docs/contributing.md` adds it: one row, and a folder."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import mirrorlake
from mirrorlake.config.destinations.registry import DestinationType

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "contributing.md"
TOY = Path(__file__).parent / "tally"
PACKAGE = Path(mirrorlake.__file__).parent
REGISTRY = "config/destinations/registry.py"
FOLDER = "kinds/tally"

HERE = DestinationType(section="support.tally.section:TallyForm", kinds=("support.tally.kind:TallyKind",))
"""The row of the toy where it lies among the tests, for those that need no command."""


def row_of_the_guide() -> str:
    """The row that the guide tells to write, under the name that the tests give the type."""
    return _of_the_guide(r'```python\n(    "census": DestinationType\(\n.+?\n    \),\n)```')


def commands_of_the_guide() -> list[str]:
    """The commands that copy the toy, under the name that the tests give the type."""
    lines = _of_the_guide(r"```console\n(\$ mkdir src/mirrorlake/kinds/census\n.+?)```").splitlines()
    return [line.removeprefix("$ ") for line in lines]


def _of_the_guide(pattern: str) -> str:
    # Under another name than the guide's: so these tests pass also where somebody has followed it.
    (found,) = re.findall(pattern, GUIDE.read_text(), re.DOTALL)
    assert isinstance(found, str)
    return found.replace("census", "tally").replace("Census", "Tally")


@dataclass(frozen=True)
class Extended:
    """A copy of the package with a type more, whose commands run as they do from a checkout."""

    source: Path

    @property
    def package(self) -> Path:
        return self.source / "mirrorlake"

    @property
    def environ(self) -> Mapping[str, str]:
        """Makes a process take this copy, and the documents' page of the checkout."""
        return {**os.environ, "PYTHONPATH": os.pathsep.join([str(self.source), str(ROOT)])}

    @property
    def python(self) -> tuple[str, ...]:
        """Takes nothing from the folder one is in."""
        return (sys.executable, "-P")


def extended(folder: Path) -> Extended:
    """Copies the package into a folder, and does there what the guide says, command by command."""
    made = Extended(source=folder / "src")
    shutil.copytree(PACKAGE, made.package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "tests").symlink_to(ROOT / "tests")
    for command in commands_of_the_guide():
        here = command.replace(".venv/bin/ruff", f"{shlex.quote(sys.executable)} -m ruff")
        subprocess.run(here, shell=True, cwd=folder, check=True)
    registry = made.package / REGISTRY
    before, end = registry.read_text().split("\n}\n", maxsplit=1)
    registry.write_text(f"{before}\n{row_of_the_guide()}}}\n{end}")
    return made
