"""Apicurio Registry 2.6 as a server of its own, in memory: the real registry of the tests.

Its API like Confluent's lies below ``/apis/ccompat/v7``. What it has not (modes, ids of one's own, contexts) is served
by `stub_registry`. It keeps white space, has no level of a subject that it does not know, and the level NONE for all.
"""

import fcntl
import importlib.util
import shutil
import socket
import subprocess
import tarfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

from mirrorlake.cache_folder import user_cache_folder
from mirrorlake.embedded.guarded_process import GuardedProcess
from mirrorlake.java import find_java

VERSION = "2.6.13.Final"
_START_SECONDS_MAX = 120.0
_IVY = f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="mirrorlake" module="registry"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="io.apicurio" name="apicurio-registry-app" rev="{VERSION}" conf="default->master"
      transitive="false">
      <artifact name="apicurio-registry-app" type="tar.gz" ext="tar.gz" m:classifier="all"/>
    </dependency>
  </dependencies>
</ivy-module>
"""


class ApicurioUnusableError(Exception):
    """It is not there and could not be fetched."""


def apicurio_folder() -> Path:
    """The folder with its jars, fetched once per machine by the Ivy inside PySpark's wheel (142 MB)."""
    folder = user_cache_folder() / f"apicurio-{VERSION}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            _fetch(folder)
    return folder


def _fetch(folder: Path) -> None:
    work = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    (work / "ivy.xml").write_text(_IVY)
    pyspark = importlib.util.find_spec("pyspark")
    assert pyspark is not None
    assert pyspark.origin is not None
    ivy = next((Path(pyspark.origin).parent / "jars").glob("ivy-*.jar"))
    command = [
        *(str(find_java().executable), "-jar", str(ivy), "-warn", "-ivy", str(work / "ivy.xml"), "-confs", "default"),
        *("-cache", str(work / "ivy"), "-retrieve", str(work / "[artifact]-[classifier].[ext]")),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    archive = work / "apicurio-registry-app-all.tar.gz"
    if done.returncode or not archive.exists():
        shutil.rmtree(work)
        raise ApicurioUnusableError(f"Apicurio {VERSION} could not be fetched from Maven Central: {done.stdout[-500:]}")
    with tarfile.open(archive) as packed:
        # Python 3.11 knows filters from its fourth patch on, as an attribute all of them take.
        packed.extraction_filter = getattr(tarfile, "data_filter", None)
        packed.extractall(work / "unpacked")
    (work / "unpacked").rename(folder)
    shutil.rmtree(work)


class Apicurio:
    """One server on loopback, empty at its start."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self._process: GuardedProcess | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/apis/ccompat/v7"

    def __enter__(self) -> Self:
        program = next(apicurio_folder().glob("apicurio-registry-app-*-runner.jar"))
        command = [
            *(str(find_java().executable), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx320m"),
            *("-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={self._port}"),
            *("-Dregistry.rest.artifact.deletion.enabled=true", "-jar", str(program)),
        ]
        log = self._folder / "apicurio.log"
        self._process = GuardedProcess(command, log_path=log)
        give_up_at = time.monotonic() + _START_SECONDS_MAX
        while not self._answers():
            assert self._process.exit_code is None, log.read_text()
            assert time.monotonic() < give_up_at, log.read_text()
            time.sleep(0.2)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def kill(self) -> None:
        """SIGKILL; entered again it is empty, at the same address."""
        if self._process is not None:
            self._process.kill()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False
