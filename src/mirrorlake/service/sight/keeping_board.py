"""What the schedules of archives have done, as metrics and for who asks the service. Thread-safe.

A failed run changes nothing of health or of a partition's state: records go on arriving, and nothing is lost. It is
shown here, in the log, and by `status`.
"""

import math
import threading
from collections import Counter as Counts
from collections.abc import Iterator
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mirrorlake.clock import utc_text
from mirrorlake.service.archives.scheduled import KeepingOutcome, KeepingResult

Key = tuple[str, str, str]
"""Mirror, destination and work."""

LABELS = ("mirror", "destination", "work")


DOUBTS_TOLD_MAX = 100
"""Folders that retention left alone which are named; all of them are counted."""


@dataclass(slots=True)
class _Entry:
    """One schedule; times are Unix seconds, None where there was none yet."""

    due_seconds: float = math.inf
    began_seconds: float | None = None
    ended_seconds: float | None = None
    done_seconds: float | None = None
    took_seconds: float = 0.0
    last: KeepingOutcome | None = None
    is_running: bool = False
    results: Counts[KeepingResult] = field(default_factory=Counts)
    files: int = 0
    size_bytes: int = 0
    made_bytes: int = 0
    failed: int = 0


class KeepingBoard(Collector):
    """Takes what is planned, begun and done, by `Key`."""

    def __init__(self) -> None:
        self._entries: dict[Key, _Entry] = {}
        self._lock = threading.Lock()

    def planned(self, key: Key, due_seconds: float) -> None:
        """Takes when something is due next; infinite where it never is."""
        with self._lock:
            self._entries.setdefault(key, _Entry()).due_seconds = due_seconds

    def began(self, key: Key, now_seconds: float) -> None:
        """A run has begun."""
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            entry.began_seconds, entry.is_running = now_seconds, True

    def ended(self, key: Key, outcome: KeepingOutcome, *, now_seconds: float, seconds: float) -> None:
        """A run has ended after ``seconds``."""
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            entry.is_running, entry.last, entry.ended_seconds, entry.took_seconds = False, outcome, now_seconds, seconds
            if outcome.result is KeepingResult.DONE:
                entry.done_seconds = now_seconds
            entry.results[outcome.result] += 1
            entry.files += outcome.files
            entry.size_bytes += outcome.size_bytes
            entry.made_bytes += outcome.made_bytes
            entry.failed += outcome.failures

    def rows(self) -> list[dict[str, object]]:
        """Returns a row for each schedule, as the listener tells it; what is not known yet is null."""
        with self._lock:
            return [_row(key, entry) for key, entry in self._entries.items()]

    def collect(self) -> Iterator[Metric]:
        """Yields the series as they are now; nothing where no archive has a schedule."""
        with self._lock:
            entries = dict(self._entries)
            if entries:
                yield from _times(entries)
                yield from _counts(entries)


def _row(key: Key, entry: _Entry) -> dict[str, object]:
    mirror, destination, work = key
    last = entry.last
    row: dict[str, object] = {
        "name": mirror,
        "destination": destination,
        "work": work,
        "is_running": entry.is_running,
        "next": None if math.isinf(entry.due_seconds) else _time(entry.due_seconds),
        "ended": _time(entry.ended_seconds),
        "result": None if last is None else last.result.value,
        "files": None if last is None else last.files,
        "bytes": None if last is None else last.size_bytes,
        "failures": None if last is None else last.failures,
    }
    if last is not None and last.error is not None:
        row["error"] = str(last.error)
    if last is not None and last.doubts:
        row["doubted"], row["doubts"] = len(last.doubts), dict(last.doubts[:DOUBTS_TOLD_MAX])
    return row


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else utc_text(int(seconds * 1000))


def _times(entries: dict[Key, _Entry]) -> Iterator[Metric]:
    last = GaugeMetricFamily(
        "mirrorlake_archive_last_run_timestamp_seconds", "Unix time at which the last run ended", labels=LABELS
    )
    done = GaugeMetricFamily(
        "mirrorlake_archive_last_success_timestamp_seconds",
        "Unix time at which the last run ended of which nothing failed",
        labels=LABELS,
    )
    due = GaugeMetricFamily("mirrorlake_archive_next_run_timestamp_seconds", "Unix time of the next run", labels=LABELS)
    took = GaugeMetricFamily("mirrorlake_archive_run_seconds", "Wall time of the last run", labels=LABELS)
    for key, entry in entries.items():
        if not math.isinf(entry.due_seconds):
            due.add_metric(key, entry.due_seconds)
        if entry.ended_seconds is not None:
            last.add_metric(key, entry.ended_seconds)
            took.add_metric(key, entry.took_seconds)
        if entry.done_seconds is not None:
            done.add_metric(key, entry.done_seconds)
    yield from (last, done, due, took)


def _counts(entries: dict[Key, _Entry]) -> Iterator[Metric]:
    runs = CounterMetricFamily("mirrorlake_archive_runs", "Runs, by how they ended", labels=(*LABELS, "result"))
    files = CounterMetricFamily("mirrorlake_archive_files", "Files merged, or retired", labels=LABELS)
    sizes = CounterMetricFamily("mirrorlake_archive_bytes", "Bytes of the files merged, or retired", labels=LABELS)
    made = CounterMetricFamily("mirrorlake_archive_made_bytes", "Bytes of the segments made of them", labels=LABELS)
    failures = CounterMetricFamily(
        "mirrorlake_archive_failures", "Groups or partitions that failed, and are tried again", labels=LABELS
    )
    for key, entry in entries.items():
        for result in KeepingResult:
            runs.add_metric((*key, result.value), entry.results[result])
        files.add_metric(key, entry.files)
        sizes.add_metric(key, entry.size_bytes)
        made.add_metric(key, entry.made_bytes)
        failures.add_metric(key, entry.failed)
    yield from (runs, files, sizes, made, failures)
