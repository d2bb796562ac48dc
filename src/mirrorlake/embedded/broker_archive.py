"""The class-data archive of the embedded broker; made by ``python -m mirrorlake.embedded.broker_archive``.

A start with it takes half the CPU time.
"""

import sys
import tempfile
from pathlib import Path

from mirrorlake import class_archive
from mirrorlake.embedded import jars
from mirrorlake.embedded.kafka_server import QUICK_START_JVM_FLAGS, EmbeddedKafka, archive_for
from mirrorlake.java import find_java

_WRITE_TIMEOUT_SECONDS = 300.0


def make_archive(libs: Path | None = None) -> Path | None:
    """Makes the archive for these jars, where there is none; takes some 15 CPU-seconds.

    Args:
        libs: folder with Kafka's jars; those of the embedded broker by default, fetched where they are missing.

    Returns:
        Its path, or None where it could not be made: the folder cannot be written, another process is at it, or the
        JVM wrote none.

    Raises:
        JavaUnusableError: there is no usable Java.
        ServerUnusableError: the jars could not be fetched, or the broker does not start.
    """
    libs = libs or jars.kafka_libs()
    java = find_java().executable
    archive = archive_for(java, libs)
    made_for = class_archive.being_made(archive, java=java, jars=libs, flags=QUICK_START_JVM_FLAGS)
    with made_for as being_written, tempfile.TemporaryDirectory() as folder:
        if being_written is not None:
            flags = (*QUICK_START_JVM_FLAGS, *class_archive.make_options(being_written))
            with EmbeddedKafka(Path(folder), libs=libs, jvm_flags=flags) as broker:
                broker.stop(timeout_seconds=_WRITE_TIMEOUT_SECONDS)
    return archive if archive.exists() else None


def main() -> int:
    """Makes the archive; prints its path. Exit code 1 where there is none."""
    return class_archive.run_maker(make_archive)


if __name__ == "__main__":
    sys.exit(main())
