"""Kafka's own jars, fetched once by the Ivy inside PySpark's wheel: no Maven, no container engine.

The jars end in a cache outside the source tree. A folder of jars appears there complete or not at all, so
whoever finds it may use it.
"""

import fcntl
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mirrorlake.cache_folder import user_cache_folder
from mirrorlake.errors import ServerUnusableError
from mirrorlake.java import find_java

KAFKA_VERSION = "4.3.0"

_CACHE_HINT = "let MIRRORLAKE_CACHE name a folder you can write to, with 150 MB free"
_FETCH_TIMEOUT_SECONDS = 900.0  # 44 MB; a line of 1 Mbit/s needs six minutes.
_FETCH_ATTEMPTS = 3  # Ivy gives up at the first refused file; what it already has is kept between attempts.
# Kafka logs through SLF4J 1.7 and brings no back end; without one a broker dies in silence.
_LOGGING = ("org.slf4j", "slf4j-simple", "1.7.36")


def kafka_libs(version: str = KAFKA_VERSION, *, cache: Path | None = None) -> Path:
    """Returns a folder with every jar a Kafka broker needs, fetching them where they are not there yet.

    Safe when several processes call it at once: one downloads, the others wait for it. Says on stderr that it
    is downloading. Idempotent; a second call only looks whether the folder is there.

    Args:
        version: Kafka's version, 2.4 or newer; those before 4.0 bring ZooKeeper's jars too.
        cache: where to keep the folder; the user's cache folder by default.

    Raises:
        JavaUnusableError: Ivy has to run and Java cannot.
        ServerUnusableError: the jars could not be fetched, or the cache cannot be written.
        ConfigurationError: as `user_cache_folder`.
    """
    modules = [("org.apache.kafka", "kafka_2.13", version)]
    return _libs(f"kafka-{version}", modules, cache=cache)


def mirror_maker_libs(version: str = KAFKA_VERSION, *, cache: Path | None = None) -> Path:
    """Returns a folder with a broker's jars, MirrorMaker 2 and Kafka's tools; else as `kafka_libs`."""
    artifacts = ("kafka_2.13", "connect-mirror", "connect-runtime", "kafka-tools")
    modules = [("org.apache.kafka", artifact, version) for artifact in artifacts]
    return _libs(f"kafka-{version}-mirror-maker", modules, cache=cache)


def _libs(name: str, modules: list[tuple[str, str, str]], *, cache: Path | None) -> Path:
    try:
        cache = user_cache_folder() if cache is None else cache
    except RuntimeError as cause:
        raise ServerUnusableError(f"nowhere to keep Kafka's jars: {cause}", hint=_CACHE_HINT) from cause
    folder = cache / name
    if folder.is_dir():
        return folder
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _only_one(cache / f".{name}.lock"):
            if not folder.is_dir():
                _fetch(folder, [*modules, _LOGGING])
    except OSError as cause:
        raise ServerUnusableError(
            f"the cache of Kafka's jars cannot be written: {cause}",
            hint=_CACHE_HINT,
        ) from cause
    return folder


@contextmanager
def _only_one(lock: Path) -> Iterator[None]:
    """Lets one process at a time in; the kernel opens the lock again when its holder dies."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(folder: Path, modules: list[tuple[str, str, str]]) -> None:
    java = find_java()
    message = f"mirrorlake: downloading Kafka's jars into {folder} (once, about a minute) …"
    print(message, file=sys.stderr, flush=True)
    # One fixed name is enough under the lock, and it lets us clear away what a killed download left.
    work = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        (work / "ivy.xml").write_text(_ivy_file(modules), encoding="utf-8")
        command = [
            *(str(java.executable), "-jar", str(_ivy_jar()), "-warn"),
            *("-ivy", str(work / "ivy.xml"), "-confs", "default", "-cache", str(work / "ivy")),
            *("-retrieve", str(work / "libs" / "[artifact]-[revision](-[classifier]).[ext]")),
        ]
        _run_ivy(command, folder)
        (work / "libs").rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run_ivy(command: list[str], folder: Path) -> None:
    said = ""
    for _attempt in range(_FETCH_ATTEMPTS):
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=_FETCH_TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            said = f"no end after {_FETCH_TIMEOUT_SECONDS:.0f} s"
            continue
        if done.returncode == 0:
            return
        said = _reason(done.stdout)
    raise ServerUnusableError(
        f"Kafka's jars could not be downloaded from Maven Central: {said}",
        hint="check the network; behind a proxy set "
        "JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=… -Dhttps.proxyPort=…'; "
        f"without a network put the libs folder of a Kafka download in place as {folder}",
    )


def _reason(output: str) -> str:
    """Returns the few lines of Ivy's output that tell what went wrong."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if "Exception" in line or "not found" in line or "ERROR" in line.upper()]
    return "; ".join(list(dict.fromkeys(telling or lines))[:3]) or "Ivy said nothing"


def _ivy_jar() -> Path:
    # Looked up without importing PySpark: that would take seconds, and only `pipeline` may.
    pyspark = importlib.util.find_spec("pyspark")
    places = [] if pyspark is None else list(pyspark.submodule_search_locations or [])
    jars = [jar for place in places for jar in sorted(Path(place).glob("jars/ivy-*.jar"))]
    if not jars:
        raise ServerUnusableError(
            "the Ivy jar of the PySpark wheel is not there, so Kafka's jars cannot be fetched",
            hint="install pyspark from its wheel: pip install --force-reinstall 'pyspark>=4.3,<4.4'",
        )
    return jars[-1]


def _ivy_file(modules: list[tuple[str, str, str]]) -> str:
    dependencies = "\n".join(
        f'    <dependency org="{org}" name="{name}" rev="{revision}" conf="default->default"/>'
        for org, name, revision in modules
    )
    return (
        '<ivy-module version="2.0">\n'
        '  <info organisation="mirrorlake" module="jars"/>\n'
        '  <configurations><conf name="default"/></configurations>\n'
        f"  <dependencies>\n{dependencies}\n  </dependencies>\n"
        "</ivy-module>\n"
    )
