"""Servers that are built from source by Go, once per machine."""

import os
import shutil
import subprocess
from pathlib import Path

from mirrorlake.cache_folder import user_cache_folder


class GoProgramUnusableError(Exception):
    """It is not there and could not be built."""


def go_program(module: str, version: str, *, name: str, cache: Path | None = None) -> Path:
    """The program, built on the first call (a minute or two).

    Args:
        module: what ``go install`` takes, without the version.
        version: without ``v`` in front.
        name: of the folder in the cache that it is kept in, with the version.
        cache: the user's by default.
    """
    folder = (user_cache_folder() if cache is None else cache) / f"{name}-{version}"
    program = folder / module.rpartition("/")[2]
    if program.exists():
        return program
    go = shutil.which("go")
    if go is None:
        raise GoProgramUnusableError(f"no Go on this machine, so {name} {version} cannot be built: install Go")
    what = f"{module}@v{version}"
    built = subprocess.run(
        [go, "install", what], env={**os.environ, "GOBIN": str(folder)}, capture_output=True, text=True, check=False
    )
    if built.returncode != 0:
        raise GoProgramUnusableError(f"`go install {what}` failed:\n{built.stderr}")
    return program
