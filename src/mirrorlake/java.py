"""The Java that Spark will take, looked up in Spark's order and checked before anything is started on it."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mirrorlake.errors import JavaUnusableError

FEATURE_MIN = 17
"""Spark 4.3 and Kafka 4.3 are compiled for Java 17."""

VECTOR_MODULE = "jdk.incubator.vector"
"""Spark 4 names it on the command line of every JVM it starts; a JVM without it refuses to start."""

_PROBE_TIMEOUT_SECONDS = 60.0  # A cold JVM on a busy machine takes seconds, a broken one must not hang us.
_HOW_TO_GET_JAVA = (
    f"install a JDK or full JRE {FEATURE_MIN} or newer: "
    "Debian and Ubuntu `apt install openjdk-17-jre-headless`, "
    "macOS `brew install openjdk@17`, with SDKMAN `sdk install java 17-tem`; "
    "then unset JAVA_HOME or let it name that installation"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java that was started once and can run Spark and Kafka.

    Attributes:
        executable: the ``java`` program.
        version: as it tells itself, such as ``17.0.15``.
        source: where it was found, in words: ``JAVA_HOME=/opt/jdk`` or ``PATH``.
    """

    executable: Path
    version: str
    source: str


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """Returns the Java that ``spark-class`` would take, after checking its version and modules.

    A ``JAVA_HOME`` that is set and not empty wins even where it is wrong, then comes ``PATH`` (source:
    Spark's ``bin/spark-class``). Looking further would only find another Java than the one Spark fails with.
    Idempotent; a program found good is not started a second time in this process.

    Args:
        environ: the environment to look in; this process's own by default.

    Raises:
        JavaUnusableError: there is none, it does not run, is older than 17, or lacks a module Spark needs.
    """
    environ = os.environ if environ is None else environ
    java_home = environ.get("JAVA_HOME", "")
    if java_home:
        executable = Path(java_home) / "bin" / "java"
        source = f"JAVA_HOME={java_home}"
        if not os.access(executable, os.X_OK) or executable.is_dir():
            raise _unusable(f"{source}, but there is no program {executable}", source=source)
    else:
        found = shutil.which("java", path=environ.get("PATH", os.defpath))
        if found is None:
            raise _unusable("JAVA_HOME is not set and there is no java on PATH", source="PATH")
        executable, source = Path(found), "PATH"
    return _checked(executable, source)


@cache
def _checked(executable: Path, source: str) -> Java:
    # One start answers both questions: each line is MODULE@VERSION. Java 8 does not know the option.
    listing = _run(executable, "--list-modules", source=source)
    modules = dict(line.strip().split("@", 1) for line in listing.stdout.splitlines() if "@" in line)
    version = modules.get("java.base")
    if listing.returncode != 0 or version is None:
        version = _version_of_old_java(executable, source)
    if _feature(version) < FEATURE_MIN:
        raise _unusable(
            f"{executable} ({source}) is Java {version}, and {FEATURE_MIN} or newer is needed",
            source=source,
            version=version,
        )
    if VECTOR_MODULE not in modules:
        raise _unusable(
            f"{executable} ({source}), Java {version}, was built without the module {VECTOR_MODULE}, which Spark needs",
            source=source,
            version=version,
        )
    return Java(executable=executable, version=version, source=source)


def _version_of_old_java(executable: Path, source: str) -> str:
    asked = _run(executable, "-version", source=source)
    found = re.search(r'version "([^"]+)"', asked.stderr + asked.stdout)
    if found is None:
        said = (asked.stderr + asked.stdout).strip().splitlines()
        raise _unusable(
            f"{executable} ({source}) does not run as Java: exit code {asked.returncode}, "
            f"it said {said[0] if said else 'nothing'!r}",
            source=source,
        )
    return found.group(1)


def _feature(version: str) -> int:
    """Returns the number people call a Java by: 8 for ``1.8.0_402``, 17 for ``17.0.15``, 25 for ``25-ea``."""
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def _run(executable: Path, argument: str, *, source: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [executable, argument],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_TIMEOUT_SECONDS,
            check=False,
            # A signal to our process group must not kill the probe: it would look like an unusable Java.
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired) as cause:
        raise _unusable(f"{executable} ({source}) cannot be started: {cause}", source=source) from cause


def _unusable(what: str, *, source: str, version: str | None = None) -> JavaUnusableError:
    message = f"Java cannot be used: {what}"
    return JavaUnusableError(message, hint=_HOW_TO_GET_JAVA, source=source, version=version)
