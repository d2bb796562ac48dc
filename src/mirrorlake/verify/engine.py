"""A Spark session for the length of one verification."""

from collections.abc import Iterator
from contextlib import contextmanager

from mirrorlake.config.resolved import Configuration
from mirrorlake.pipeline.engine import EngineBuilder, settings_of
from mirrorlake.pipeline.lease_job import LeaseRow
from mirrorlake.pipeline.session import build_session
from mirrorlake.verify.verification import RunTask

PRELOAD = (
    "mirrorlake.mirror.freed_memory:keep_freed_memory",
    "mirrorlake.verify.worker",
    "mirrorlake.verify.view_worker",
    "mirrorlake.kafka.records.codec:warm",
)


@contextmanager
def verification_engine(config: Configuration, build: EngineBuilder = build_session) -> Iterator[RunTask]:
    """Starts an engine, gives what runs one task on it, and stops it.

    Raises:
        JavaUnusableError: Spark cannot start.
    """
    engine = build(settings_of(config, preload=PRELOAD, batch_slots=0))
    try:

        def run_task(work: str, plan: bytes, description: str) -> list[LeaseRow]:
            return engine.run_lease(work, plan, description=description)

        yield run_task
    finally:
        engine.stop()
