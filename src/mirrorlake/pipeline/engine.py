"""What the rest of the program knows of an engine: leases go in, rows come out. Spark is one; tests have another."""

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from mirrorlake.config.resolved import Configuration
from mirrorlake.config.spark.settings import is_local
from mirrorlake.pipeline.cluster.needs import Needs, needs_of
from mirrorlake.pipeline.lease_files import LeaseFiles
from mirrorlake.pipeline.lease_job import LeaseRow
from mirrorlake.pipeline.settings import SessionSettings
from mirrorlake.pipeline.task_bounds import TASK_SECONDS


class Engine(Protocol):
    """Runs leases, several at one time, from as many threads."""

    @property
    def lease_files(self) -> LeaseFiles:
        """Asks leases of this engine to end before their time."""
        ...

    @property
    def slots(self) -> int:
        """How many tasks it runs at one time; of a cluster those of the executors that are there now."""
        ...

    def is_alive(self) -> bool:
        """Returns whether it is still there."""
        ...

    def answers(self) -> bool:
        """Asks whether it still works, and returns that; may hang as long as it does."""
        ...

    def warm_up(self) -> None:
        """Runs an empty lease, so that the next is a quick one.

        Raises:
            OutcomeUnknownError, EngineDiedError: as `run_lease`.
        """
        ...

    def run_lease(
        self,
        work: str,
        plan: bytes,
        *,
        description: str,
        seconds_max: float | None = None,
        seconds_more: Callable[[], float] = float,
    ) -> list[LeaseRow]:
        """Runs ``work(plan)`` to its end and returns its rows (see ``lease_job.run_lease``).

        ``seconds_more`` says by how much a work with ``seconds_max`` was prolonged until now; 0 by default.

        Raises:
            OutcomeUnknownError: the lease was given up; the work may have written something.
            EngineDiedError: the engine is gone; the same holds.
        """
        ...

    def run_shuffle(
        self,
        read: str,
        merge: str,
        orders: Sequence[bytes],
        *,
        plans: Sequence[bytes],
        description: str,
        read_seconds_max: float = TASK_SECONDS,
        merge_seconds_max: float = TASK_SECONDS,
    ) -> list[LeaseRow]:
        """Runs ``read`` of each order, and ``merge`` of the blocks of all buckets (see ``shuffle_job.run_shuffle``).

        Raises:
            OutcomeUnknownError: the job was given up; its tasks may have written something.
            EngineDiedError: the engine is gone; the same holds.
        """
        ...

    def lane_thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        """Makes, but does not start, a thread for a lane; its ``start`` raises EngineDiedError."""
        ...

    def stop(self) -> None:
        """Ends it in order. Idempotent."""
        ...

    def abandon(self) -> None:
        """Kills what is left of it and asks it nothing. Idempotent."""
        ...


def settings_of(
    config: Configuration,
    *,
    preload: tuple[str, ...],
    batch_slots: int,
    serves_page: bool = False,
    is_stopping: Callable[[], bool] = bool,
) -> SessionSettings:
    """Returns what an engine for a configuration is built from.

    Args:
        config: the whole configuration; what executors must have follows from its mirrors.
        preload: what workers load before their first lease.
        batch_slots: task slots beside the lanes.
        serves_page: whether Spark's page is served where the file wants it: its port is the service's, and commands of
            the same file run beside that.
        is_stopping: ends a start that takes its time.
    """
    engine = config.engine
    return SessionSettings(
        lanes=engine.lanes,
        batch_slots=batch_slots,
        master=engine.master,
        preload=preload,
        spark_conf=engine.spark_conf,
        spark_secrets=engine.spark_secrets,
        cluster_timeout_seconds=engine.start_timeout_seconds,
        ui_port=engine.ui_port if serves_page else None,
        event_log=engine.event_log,
        needs=Needs() if is_local(engine.master) else needs_of(config),
        is_stopping=is_stopping,
    )


EngineBuilder = Callable[[SessionSettings], Engine]
"""Starts an engine."""
