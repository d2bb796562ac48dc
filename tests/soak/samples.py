"""Memory and file handles of the service's processes over the whole run."""

import statistics
import threading
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from support.service_process import ServiceProcess

EVERY_SECONDS = 5.0
GROWTH_MAX = 1.3
SLACK = {"memory_mb": 100.0, "handles": 30.0}
"""What a third of the run may be above the first one and still be called flat: warm caches, not a leak."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """Medians over the first and the last third of a run, and the most ever seen."""

    first_third: float
    last_third: float
    most: float

    def is_flat(self, slack: float) -> bool:
        return self.last_third <= self.first_third * GROWTH_MAX + slack


class Sampler:
    """Looks at whatever service runs, from a thread, until stopped."""

    def __init__(self, current: Callable[[], ServiceProcess]) -> None:
        self._current = current
        self._stop = threading.Event()
        self._seen: dict[str, list[tuple[float, float]]] = {}
        self._thread = threading.Thread(target=self._work, name="samples", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def trends(self) -> dict[str, dict[str, Trend]]:
        """By role, of memory and handles; a role that was hardly seen is left out."""
        return {
            role: {"memory_mb": _trend([m for m, _ in seen]), "handles": _trend([h for _, h in seen])}
            for role, seen in self._seen.items()
            if len(seen) >= 6
        }

    def _work(self) -> None:
        while not self._stop.wait(EVERY_SECONDS):
            service = self._current()
            for process in service.processes():
                try:
                    role = _role(process, service.pid)
                    memory_mb = process.memory_info().rss / 1e6
                    self._seen.setdefault(role, []).append((memory_mb, float(process.num_fds())))
                except psutil.Error:
                    continue  # it was killed meanwhile, as things go here


def _role(process: psutil.Process, driver: int) -> str:
    if process.pid == driver:
        return "driver"
    return "JVM" if process.name() == "java" else "other Python"


def _trend(values: list[float]) -> Trend:
    third = max(1, len(values) // 3)
    return Trend(
        first_third=round(statistics.median(values[:third]), 1),
        last_third=round(statistics.median(values[-third:]), 1),
        most=round(max(values), 1),
    )
