"""An engine without Spark: leases run in the threads that ask for them. For tests of everything that is not Spark's.

What it lacks is what Spark is there for: a lease that hangs is not ended, one that crashes its process takes all along.
"""

import os
import pickle
import threading
from collections.abc import Callable, Sequence

from mirrorlake.pipeline.lease_files import LeaseFiles
from mirrorlake.pipeline.lease_job import LeaseRow, rows_of
from mirrorlake.pipeline.run_folder import RunFolder
from mirrorlake.pipeline.settings import SessionSettings
from mirrorlake.pipeline.shuffle_job import shuffled_in_process
from mirrorlake.pipeline.task_bounds import TASK_SECONDS


class InProcessEngine:
    """Runs leases in this process; see `Engine`.

    Args:
        settings: as for Spark; only the number of slots matters here, and nothing enforces it.
    """

    def __init__(self, settings: SessionSettings) -> None:
        self._slots = settings.slots
        self._folder = RunFolder()
        self._lease_files = LeaseFiles(self._folder.path)

    @property
    def lease_files(self) -> LeaseFiles:
        """Asks leases of this engine to end before their time."""
        return self._lease_files

    @property
    def slots(self) -> int:
        """How many tasks were asked for at one time."""
        return self._slots

    def is_alive(self) -> bool:
        """Returns True."""
        return True

    def answers(self) -> bool:
        """Returns True."""
        return True

    def warm_up(self) -> None:
        """Does nothing: no lease is slower than another."""

    def run_lease(
        self,
        work: str,
        plan: bytes,
        *,
        description: str,  # noqa: ARG002
        seconds_max: float | None = None,  # noqa: ARG002
        seconds_more: Callable[[], float] = float,  # noqa: ARG002
    ) -> list[LeaseRow]:
        """Runs ``work(plan)`` and returns its rows, pickled on the way as Spark's are. Raises nothing of the work's."""
        return [{**pickle.loads(row), "worker_pid": os.getpid(), "attempt": 0} for row in rows_of(work, plan, None)]

    def run_shuffle(
        self,
        read: str,
        merge: str,
        orders: Sequence[bytes],
        *,
        plans: Sequence[bytes],
        description: str,  # noqa: ARG002
        read_seconds_max: float = TASK_SECONDS,  # noqa: ARG002
        merge_seconds_max: float = TASK_SECONDS,  # noqa: ARG002
    ) -> list[LeaseRow]:
        """Runs a shuffle in this process, in memory; raises what its works raise."""
        return shuffled_in_process(read, merge, orders, plans=plans)

    def lane_thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        """Makes, but does not start, a thread for a lane."""
        return threading.Thread(target=target, name=name)

    def stop(self) -> None:
        """Removes its folder. Idempotent."""
        self._folder.close()

    def abandon(self) -> None:
        """Removes its folder. Idempotent."""
        self._folder.close()
