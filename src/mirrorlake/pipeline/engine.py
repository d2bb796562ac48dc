"""What the rest of the program knows of an engine: leases go in, rows come out. Spark is one; tests have another."""

import threading
from collections.abc import Callable
from typing import Protocol

from mirrorlake.pipeline.lease_job import LeaseRow
from mirrorlake.pipeline.recalls import Recalls
from mirrorlake.pipeline.session import SessionSettings


class Engine(Protocol):
    """Runs leases, several at one time, from as many threads."""

    @property
    def recalls(self) -> Recalls:
        """Asks leases of this engine to end before their time."""
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
        self, work: str, plan: bytes, *, description: str, seconds_max: float | None = None
    ) -> list[LeaseRow]:
        """Runs ``work(plan)`` to its end and returns its rows (see ``lease_job.run_lease``).

        Raises:
            OutcomeUnknownError: the lease was given up; the work may have written something.
            EngineDiedError: the engine is gone; the same holds.
        """
        ...

    def lane_thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        """Makes, but does not start, a thread for a lane."""
        ...

    def stop(self) -> None:
        """Ends it in order. Idempotent."""
        ...

    def abandon(self) -> None:
        """Kills what is left of it and asks it nothing. Idempotent."""
        ...


EngineBuilder = Callable[[SessionSettings], Engine]
"""Starts an engine."""
