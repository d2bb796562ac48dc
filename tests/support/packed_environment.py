"""An environment with the package's wheel and what that needs, packed by venv-pack for Spark to bring to executors."""

import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution, requires
from pathlib import Path

from packaging.requirements import Requirement

from support.wheel import build_wheel


def packed_environment(folder: Path) -> Path:
    """Makes one below ``folder`` and returns its archive; Spark's jars, which every executor has, are left out."""
    environment = folder / "environment"
    venv.create(environment, with_pip=True)
    (site,) = environment.glob("lib/python*/site-packages")
    for needed in _needed_by("mirrorlake"):
        _link(needed, site)
    _run(environment / "bin/python", "-m", "pip", "install", "--quiet", "--no-deps", build_wheel(folder))
    # Not a plain .tar: Spark unpacks that without the rights to run what is in it (SPARK-38632).
    archive = folder / "environment.tar.gz"
    pack = ("-q", "-p", environment, "-o", archive, "--exclude", "*/pyspark/jars/*", "--compress-level", "1")
    _run(Path(sys.executable).with_name("venv-pack"), *pack)
    return archive


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _needed_by(name: str) -> list[Distribution]:
    """Returns the distributions that one needs, and those that these need."""
    found: dict[str, Distribution] = {}

    def add(needed: Iterator[str]) -> None:
        for each in needed:
            try:
                one = distribution(each)
            except PackageNotFoundError:  # of another system
                continue
            if one.name not in found:
                found[one.name] = one
                add(_requirements(one.name))

    add(_requirements(name))
    return list(found.values())


def _requirements(name: str) -> Iterator[str]:
    for line in requires(name) or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement.name


def _link(installed: Distribution, site: Path) -> None:
    for file in installed.files or ():
        if file.parts[0] == "..":
            continue
        target = site / file
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            os.link(str(file.locate()), target)
