"""A Spark session for the length of one verification."""

from collections.abc import Iterator
from contextlib import contextmanager

from mirrorlake.config.resolved import Configuration
from mirrorlake.config.spark.settings import is_local
from mirrorlake.pipeline.batch_jobs import BatchJobs, all_slots
from mirrorlake.pipeline.engine import EngineBuilder, settings_of
from mirrorlake.pipeline.session_start import build_session

PRELOAD = (
    "mirrorlake.freed_memory:keep_freed_memory",
    "mirrorlake.verify.worker",
    "mirrorlake.verify.view_worker",
    "mirrorlake.kafka.records.codec:warm",
)


@contextmanager
def verification_jobs(config: Configuration, build: EngineBuilder = build_session) -> Iterator[BatchJobs]:
    """Starts an engine, gives what runs tasks on all of it, and stops it.

    On one machine that is a slot for each lane; of a cluster also those for batch work, and all that executors have.

    Raises:
        JavaUnusableError: Spark cannot start.
        ExecutorUnusableError: a cluster has no executors, or they lack what tasks need.
    """
    batch_slots = 0 if is_local(config.engine.master) else config.engine.batch_slots
    engine = build(settings_of(config, preload=PRELOAD, batch_slots=batch_slots))
    try:
        yield BatchJobs(engine, slots=all_slots(engine))
    finally:
        engine.stop()
