"""Leases in processes of their own, that may be killed, frozen, or kill themselves at a named step."""

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

from mirrorlake.mirror.lease_worker import Worker
from mirrorlake.mirror.work import LeasePlan
from mirrorlake.stores.crash_points import CrashPoint
from support.copies import wait_until
from support.fork_server import fork_context


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """Where a process ends itself with SIGKILL: before the ``occurrence``-th time (from 1) of ``step``.

    ``rival`` is a plan that another writer runs from start to end before the first time of ``rival_at``: the
    steps that only a lost race leads to are reached so.
    """

    step: str
    occurrence: int = 1
    rival: LeasePlan | None = None
    rival_at: str = ""

    def crash_point(self) -> CrashPoint:
        counts: dict[str, int] = {}

        def crash_point(step: str) -> None:
            counts[step] = counts.get(step, 0) + 1
            if self.rival is not None and step == self.rival_at and counts[step] == 1:
                _run_aside(self.rival)
            if step == self.step and counts[step] == self.occurrence:
                os.kill(os.getpid(), signal.SIGKILL)

        return crash_point


def _run_aside(plan: LeasePlan) -> None:
    # In a thread: the calling one may have an event loop running.
    rival = threading.Thread(target=lambda: Worker().run(plan))
    rival.start()
    rival.join()


def wake(zombie: BaseProcess, *, seconds_max: float = 60) -> None:
    """Lets a frozen process go on, and waits for its end."""
    assert zombie.pid is not None
    os.kill(zombie.pid, signal.SIGCONT)
    zombie.join(seconds_max)


def die_in_lease(plan: LeasePlan, death: Death) -> None:
    """Runs in the process: one lease, which should not survive."""
    Worker(crash_point=death.crash_point()).run(plan)


def freeze_in_lease(plan: LeasePlan, step: str, occurrence: int) -> None:
    """Runs in the process: one lease that freezes itself before the ``occurrence``-th time (from 1) of ``step``."""
    seen = 0

    def crash_point(reached: str) -> None:
        nonlocal seen
        seen += reached == step
        if reached == step and seen == occurrence:
            os.kill(os.getpid(), signal.SIGSTOP)

    Worker(crash_point=crash_point).run(plan)


def run_leases_until(plan: LeasePlan, ends_at: float) -> None:
    """Runs in the process: lease after lease on one worker until the wall clock says ``ends_at``."""
    worker = Worker()
    while time.time() < ends_at:
        worker.run(plan)
    worker.close()


class LeaseProcesses:
    """Starts such processes, quickly: they are forked from a process that has imported everything."""

    def __init__(self) -> None:
        self._started: list[BaseProcess] = []

    def start(self, work: Callable[..., None], *arguments: object) -> BaseProcess:
        """Starts ``work``, a function of this module, with arguments that can be pickled."""
        process = fork_context().Process(target=work, args=arguments, daemon=True)
        process.start()
        self._started.append(process)
        return process

    def die_in_lease(self, plan: LeasePlan, death: Death) -> None:
        """Runs a lease in a process that must be killed at its named step."""
        process = self.start(die_in_lease, plan, death)
        process.join(120)
        assert process.exitcode == -signal.SIGKILL, f"ended with {process.exitcode}: {death.step} was not reached"

    def freeze_in_lease(self, plan: LeasePlan, step: str, occurrence: int = 1) -> BaseProcess:
        """Runs a lease in a process that stops itself before a step, and returns it once it has."""
        zombie = self.start(freeze_in_lease, plan, step, occurrence)
        assert zombie.pid is not None
        stat = Path(f"/proc/{zombie.pid}/stat")
        wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "the worker to freeze")
        return zombie

    def end(self) -> None:
        """Kills what still runs."""
        for process in self._started:
            process.kill()
            process.join()
