"""CPU and memory of a process with all its descendants."""

import sys
import time
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """CPU-seconds, user and system, of all processes since they began; and whether the first one still runs."""

    cpu_seconds: float
    is_running: bool


class ProcessTree:
    """Everything that descends from one process, also what left it for process 1 after it was first seen.

    Reaped children count through their parent (``children_user``). What nobody of the tree waited for counts up to the
    last look before it ended, and until the others have used as much again.
    """

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._cpu_seconds: dict[psutil.Process, float] = {self._root: 0.0}
        self._cpu_seconds_max = 0.0

    def use(self) -> Use:
        """Looks at every process now; look often, so that those which leave the tree are known by then."""
        self._find_new()
        for process in list(self._cpu_seconds):
            try:
                self._cpu_seconds[process] = _cpu_seconds(process)
            except psutil.ZombieProcess:
                continue  # not waited for yet: the last look stands
            except psutil.NoSuchProcess:
                # Its parent has its seconds now. The first process's parent is none of ours: the last look stands.
                if process != self._root:
                    del self._cpu_seconds[process]
        # What a process used that nobody waited for is gone from the sum when it ends: the last look stands.
        self._cpu_seconds_max = max(self._cpu_seconds_max, sum(self._cpu_seconds.values()))
        return Use(cpu_seconds=self._cpu_seconds_max, is_running=_is_running(self._root))

    def moment(self) -> tuple[float, float]:
        """Returns the clock, in seconds since some moment, and the CPU-seconds used until now."""
        return time.perf_counter(), self.use().cpu_seconds

    def memory_bytes(self) -> int:
        """Returns the PSS on Linux, where shared pages are shared out; else the RSS, which counts them each time."""
        total = 0
        for process in list(self._cpu_seconds):
            try:
                if sys.platform == "linux":
                    total += process.memory_full_info().pss
                else:
                    total += process.memory_info().rss
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return total

    def _find_new(self) -> None:
        for known in list(self._cpu_seconds):
            try:
                for child in known.children(recursive=True):
                    self._cpu_seconds.setdefault(child, 0.0)
            except psutil.NoSuchProcess:
                continue


def used(what: str, before: tuple[float, float], behind: tuple[float, float]) -> dict[str, float]:
    """Returns ``{what}_seconds`` and ``{what}_cpu_seconds`` between two moments of a tree, to the millisecond."""
    return {
        f"{what}_seconds": round(behind[0] - before[0], 3),
        f"{what}_cpu_seconds": round(behind[1] - before[1], 3),
    }


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system + times.children_user + times.children_system


def _is_running(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
