"""Makes the class-data archive, in a process of its own: ``python -m mirrorlake.pipeline.archive_maker``.

Not in the user's own session: recording slows its start by half, and writing takes the JVM 12 s at its end.
"""

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

from mirrorlake import class_archive
from mirrorlake.java import find_java
from mirrorlake.pipeline.lease_job import run_lease
from mirrorlake.pipeline.session_start import build_session
from mirrorlake.pipeline.settings import SessionSettings, archive_flags, archive_for, jars_folder

_WRITE_TIMEOUT_SECONDS = 300.0
_TRAINING_LEASES = 3
_WITHOUT_SQL = SessionSettings(lanes=1)
_WITH_SQL = SessionSettings(lanes=1, uses_sql=True)


def make_archive(settings: SessionSettings = _WITHOUT_SQL) -> Path | None:
    """Makes the archive for these settings, where there is none; takes some 10 CPU-seconds, with SQL 25.

    Returns:
        Its path, or None where it could not be made: the folder cannot be written, another process is at it,
        or the JVM wrote none.

    Raises:
        JavaUnusableError: Spark does not start.
    """
    java = find_java().executable
    archive = archive_for(settings, java)
    made_for = class_archive.being_made(archive, java=java, jars=jars_folder(), flags=archive_flags(settings))
    with made_for as being_written:
        if being_written is not None:
            training = replace(settings, class_archive=False)
            session = build_session(training, more_jvm_flags=class_archive.make_options(being_written))
            try:
                if settings.uses_sql:
                    session.spark.range(1).collect()
                for _ in range(_TRAINING_LEASES):
                    run_lease(session.jobs, "builtins:list", b"", description="class-data archive")
            finally:
                session.stop(_WRITE_TIMEOUT_SECONDS)
    return archive if archive.exists() else None


def main() -> int:
    """Makes both archives, without SQL and with it; prints their paths. Exit code 1 where one of them is missing."""
    made = [class_archive.run_maker(partial(make_archive, each)) for each in (_WITHOUT_SQL, _WITH_SQL)]
    return max(made)


if __name__ == "__main__":
    sys.exit(main())
