"""The wheel that people install, built from this checkout."""

import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]
NOT_SOURCE = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.pyc", "*.nbi", "*.nbc")


def build_wheel(folder: Path) -> Path:
    """Builds it below ``folder`` and returns its path."""
    # From a copy: a build leaves its traces in the tree it builds from.
    copy, built = folder / "project", folder / "wheel"
    shutil.copytree(PROJECT / "src", copy / "src", ignore=NOT_SOURCE)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, copy / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(built), str(copy)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    (path,) = built.glob("mirrorlake-*.whl")
    return path
