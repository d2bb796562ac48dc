"""A `type` of destination as `docs/contributing.md` adds it: one row, and a folder."""

import os
import re
import shutil
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
    """The row that the guide tells to write, as it stands there."""
    (row,) = re.findall(r'```python\n(    "tally": DestinationType\(\n.+?\n    \),\n)```', GUIDE.read_text(), re.DOTALL)
    assert isinstance(row, str)
    return row


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
    """Copies the package into a folder, and does there what the guide says."""
    made = Extended(source=folder)
    shutil.copytree(PACKAGE, made.package, ignore=shutil.ignore_patterns("__pycache__"))
    registry = made.package / REGISTRY
    before, end = registry.read_text().split("\n}\n", maxsplit=1)
    registry.write_text(f"{before}\n{row_of_the_guide()}}}\n{end}")
    (made.package / FOLDER).mkdir()
    for module in TOY.glob("*.py"):
        text = module.read_text().replace("support.tally", "mirrorlake.kinds.tally")
        (made.package / FOLDER / module.name).write_text(text)
    return made
