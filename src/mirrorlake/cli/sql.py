"""``mirrorlake sql``: one query over archives and live topics, its rows as a table, JSON, CSV or Parquet."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from mirrorlake.cli.start import load, start_logs
from mirrorlake.errors import StartStoppedError

if TYPE_CHECKING:
    from mirrorlake.config.resolved import Configuration
    from mirrorlake.pipeline.session import EngineSession
    from mirrorlake.pipeline.settings import SessionSettings
    from mirrorlake.spark_source.sql_tables import Query

_HEAP_MB = 1024


def sql(
    config: Path,
    query: str,
    *,
    form: str,
    output: Path | None,
    read_timeout: str | None = None,
    schemas: str | None = None,
) -> int:
    """Runs one query and writes its rows; returns the exit code.

    ``read_timeout`` is a duration; a task that waits longer for what it reads next fails. ``schemas`` is the key of a
    registry in an archive; values can be decoded then.

    SIGTERM, SIGINT and SIGHUP end it at any moment, with nothing left behind: a query changes nothing.

    Raises:
        StartStoppedError: one of them came.
        MirrorlakeError: the query cannot be run, or its rows not be had.
    """
    from mirrorlake.spark_source.sql import prepare, run_query

    start_logs()
    configuration = load(config)
    prepared = prepare(configuration, query)
    # PySpark gives times in the zone of its process; those inside of arrays and rows are converted by nobody after it.
    os.environ["TZ"] = "UTC"
    time.tzset()
    from mirrorlake.pipeline.session_start import build_session
    from mirrorlake.spark_source.sql_output import write_rows

    stop = _Stop()
    with (
        stop.told(),
        build_session(query_settings(configuration, prepared, is_stopping=stop.is_asked)) as session,
        stop.ending(session),
    ):
        frame = run_query(
            session.spark,
            configuration,
            prepared,
            read_timeout=read_timeout,
            schemas=schemas,
            is_stopping=stop.is_asked,
        )
        with _target(output) as file:
            write_rows(frame, "text" if prepared.explain and form == "table" else form, file)
    return 0


def query_settings(
    configuration: "Configuration", query: "Query", *, is_stopping: Callable[[], bool]
) -> "SessionSettings":
    """Returns what the session of a query is built from.

    Executors of a cluster are looked at for what the query's tables need; secrets of variables come with the reader.
    """
    from mirrorlake.config.spark.settings import is_local
    from mirrorlake.pipeline.cluster.needs import Needs, needs_for
    from mirrorlake.pipeline.engine import settings_of
    from mirrorlake.spark_source.sql import places_of

    needs = Needs()
    if not is_local(configuration.engine.master):
        needs = replace(needs_for(places_of(configuration, query)), variables=())
    settings = settings_of(configuration, preload=(), batch_slots=0, is_stopping=is_stopping)
    return replace(settings, app_name="mirrorlake sql", uses_sql=True, driver_heap_mb=_HEAP_MB, needs=needs)


class _Stop:
    """Ends a query when a signal comes: Spark's JVM, whatever it does, as nobody else would wake who waits for it."""

    def __init__(self) -> None:
        from mirrorlake.pipeline.signals import StopSignal

        self._signal = StopSignal(self._end)
        self._session: EngineSession | None = None

    def is_asked(self) -> bool:
        return self._signal.requested.is_set()

    @contextmanager
    def told(self) -> Iterator[None]:
        """Hears signals; what fails after one failed because of it."""
        self._signal.install()
        try:
            yield
        except Exception as error:
            if self.is_asked():
                raise self._stopped() from error
            raise

    @contextmanager
    def ending(self, session: "EngineSession") -> Iterator[None]:
        self._session = session
        if self.is_asked():  # between the session's start and the line before this one
            raise self._stopped()
        try:
            yield
        finally:
            self._session = None

    def _end(self, _name: str) -> None:
        session = self._session
        if session is not None:
            session.jvm.kill()

    def _stopped(self) -> StartStoppedError:
        return StartStoppedError(f"stopped by {self._signal.signal_name} before all rows were written")


@contextmanager
def _target(output: Path | None) -> Iterator[IO[bytes]]:
    """Gives stdout, or a file that appears under its name when it is whole."""
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    made = output.with_name(f".{output.name}.part")
    try:
        with made.open("wb") as file:
            yield file
        made.replace(output)
    finally:
        made.unlink(missing_ok=True)
