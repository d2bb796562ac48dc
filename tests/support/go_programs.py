"""Servers that are built from source by Go, once per machine.

As a program of its own (``python -m support.go_programs``) it builds those of `make test`, so that the tests find them.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from mirrorlake.cache_folder import user_cache_folder


@dataclass(frozen=True, slots=True)
class GoProgram:
    """What Go builds. ``module`` is what ``go install`` takes, ``version`` is without ``v`` in front."""

    module: str
    version: str
    name: str

    @property
    def label(self) -> str:
        """Its folder in the cache."""
        return f"{self.name}-{self.version}"


VERSITYGW = GoProgram("github.com/versity/versitygw/cmd/versitygw", "1.8.0", "versitygw")
TOXIPROXY = GoProgram("github.com/Shopify/toxiproxy/v2/cmd/server", "2.5.0", "toxiproxy")


class GoProgramUnusableError(Exception):
    """It is not there and could not be built."""


def built(wanted: GoProgram, cache: Path | None = None) -> Path:
    """The program, built on the first call (a minute or two), by one process: others wait for it.

    Args:
        wanted: which.
        cache: the user's by default.
    """
    folder = (user_cache_folder() if cache is None else cache) / wanted.label
    program = folder / wanted.module.rpartition("/")[2]
    if program.exists():
        return program
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            _build(wanted, folder)
    return program


def _build(wanted: GoProgram, folder: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise GoProgramUnusableError(f"no Go on this machine, so {wanted.label} cannot be built: install Go")
    what = f"{wanted.module}@v{wanted.version}"
    ended = subprocess.run(
        [go, "install", what], env={**os.environ, "GOBIN": str(folder)}, capture_output=True, text=True, check=False
    )
    if ended.returncode != 0:
        raise GoProgramUnusableError(f"`go install {what}` failed:\n{ended.stderr}")


if __name__ == "__main__":
    for each in (VERSITYGW, TOXIPROXY):
        with contextlib.suppress(GoProgramUnusableError):  # the tests that need it say so
            built(each)
