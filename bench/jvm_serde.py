"""The JVM's serializers, for the same records: Apicurio's for Kafka with the ids of Confluent's, which are not public.

They are fetched once per machine by the Ivy inside PySpark's wheel, as the registry of the tests is, which runs beside
them: they ask it once for each schema, and nothing of that is in what is measured.
"""

import importlib.util
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mirrorlake.cache_folder import user_cache_folder
from mirrorlake.java import find_java

VERSION = "2.6.13.Final"
_PROGRAM = Path(__file__).with_name("SerdeLoop.java")
_TESTS = Path(__file__).parents[1] / "tests"
_TIMEOUT_SECONDS = 300.0
_IVY = f"""<ivy-module version="2.0">
  <info organisation="mirrorlake" module="serde"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="io.apicurio" name="apicurio-registry-serdes-avro-serde" rev="{VERSION}"
      conf="default->master,runtime"/>
  </dependencies>
</ivy-module>
"""


def jvm_records_per_cpu_second(schema: str, bodies: Sequence[bytes]) -> float | None:
    """Returns how many records a thread decodes and encodes once it is compiled; the best of five rounds.

    None, and a line that says why, where there is no compiler of Java, or Maven Central does not have it.

    Args:
        schema: of the records, in Avro.
        bodies: the records, without what names their schema.
    """
    try:
        jars = _serde_folder()
        sys.path.append(str(_TESTS))
        from support.apicurio import Apicurio

        with tempfile.TemporaryDirectory(prefix="mirrorlake-serde-") as name, Apicurio(Path(name)) as registry:
            return _measured(jars, registry.url.replace("ccompat/v7", "registry/v2"), Path(name), schema, bodies)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or error
        print(f"the JVM's serializers were not measured: {said}", flush=True)
        return None


def _measured(jars: Path, url: str, folder: Path, schema: str, bodies: Sequence[bytes]) -> float:
    (folder / "schema.avsc").write_text(schema, encoding="utf-8")
    framed = b"".join(struct.pack(">i", len(body)) + body for body in bodies)
    (folder / "bodies").write_bytes(struct.pack(">i", len(bodies)) + framed)
    java = find_java().executable
    javac = java.with_name("javac") if java.with_name("javac").exists() else Path("javac")
    _run(str(javac), "-d", str(folder), "-cp", f"{jars}/*", str(_PROGRAM))
    arguments = (url, str(folder / "schema.avsc"), str(folder / "bodies"))
    done = _run(str(java), "-Xmx512m", "-cp", f"{folder}:{jars}/*", "SerdeLoop", *arguments)
    return float(done.split()[-1])


def _serde_folder() -> Path:
    folder = user_cache_folder() / f"apicurio-serde-{VERSION}"
    if folder.is_dir():
        return folder
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    ivy = next((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        work = Path(name)
        (work / "ivy.xml").write_text(_IVY)
        pattern = str(work / "jars" / "[artifact]-[revision].[ext]")
        options = ("-warn", "-ivy", str(work / "ivy.xml"), "-confs", "default", "-cache", str(work / "ivy"))
        _run(str(find_java().executable), "-jar", str(ivy), *options, "-retrieve", pattern)
        shutil.move(work / "jars", folder)
    return folder


def _run(*command: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL, timeout=_TIMEOUT_SECONDS
    )
    return done.stdout
