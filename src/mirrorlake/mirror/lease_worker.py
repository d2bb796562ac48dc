"""The entry point inside a Spark Python worker: unpickles a plan, runs it, pickles the rows.

The event loop and the cluster clients outlive a lease in their process, as a cache: a worker that dies loses
nothing but the time to connect again.
"""

import asyncio
import contextlib
import gc
import pickle
import threading
from collections.abc import Iterator
from itertools import zip_longest

import uvloop

from mirrorlake.clock import SystemClock
from mirrorlake.destinations.connections import LeaseConnections, WorkerCache
from mirrorlake.errors import LeaseLateError
from mirrorlake.kafka.records.scratch import allow
from mirrorlake.kafka.wire.fetch import FETCH_BYTES_MAX
from mirrorlake.mirror.lease import LeaseWork
from mirrorlake.mirror.work import LeasePlan, LeaseRow
from mirrorlake.stores.crash_points import CrashPoint, no_crash

RECEIVE_BUFFER_BYTES = FETCH_BYTES_MAX + (1 << 20)
"""Above what one fetch answer holds: the bytes asked for, and headers of many partitions."""

SILENT_SECONDS = 2.0
"""A kept connection that has owed an answer for so long when a lease ends is not kept: one that a network has forgotten
would hold up the next leases too."""

UNCOLLECTED_PARTITIONS_MIN = 64
UNCOLLECTED_SECONDS = 2.0
"""Leases of so many partitions, and more, begin without Python's collector, for so long at most: it would go again and
again through what is being made to stay, a fifth of what it takes to open a quiet partition."""


class Worker:
    """One process' event loop and connections.

    Args:
        crash_point: called before every step that touches a destination; for tests.
    """

    def __init__(self, crash_point: CrashPoint = no_crash) -> None:
        # Python's own costs a copy 6 % more (decision 0118). The clock of this one counts whole milliseconds: what must
        # be exact, as until when anything may be sent, asks ``self._clock``.
        self._loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        self._cache = WorkerCache(crash_point)
        self._clock = SystemClock()

    def run(self, plan: LeasePlan) -> list[LeaseRow]:
        """Runs one lease to its end and returns its rows."""
        return self._loop.run_until_complete(self._run(plan))

    def close(self) -> None:
        """Closes the connections and the loop; the worker is of no more use."""
        self._loop.run_until_complete(self._cache.close())
        self._loop.close()

    async def _run(self, plan: LeasePlan) -> list[LeaseRow]:
        # All its times count from this reading, which is older than that of the check: a process that is stopped in
        # between must not write any longer for it.
        now = self._clock.elapsed_seconds()
        if (late_seconds := plan.begins_by.seconds_since(self._clock)) > 0:
            return late_rows(plan, late_seconds)
        allow(plan.largest_batch_bytes)
        connections = LeaseConnections(
            self._cache,
            clock=self._clock,
            live_until_seconds=now + plan.live_seconds,
            send_until_seconds=now + plan.send_seconds,
            memory_bytes_max=plan.memory_bytes_max,
            receive_buffer_bytes=RECEIVE_BUFFER_BYTES,
        )
        try:
            with _uncollected(len(plan.partitions)):
                return await LeaseWork(plan, connections, self._clock, began_seconds=now).run()
        finally:
            # What this lease has asked nobody waits for any more, and no time passes for it until the next one begins.
            self._cache.close_silent(SILENT_SECONDS)


@contextlib.contextmanager
def _uncollected(partitions: int) -> Iterator[None]:
    """Keeps the collector away for the first seconds of the block, where that is worth while."""
    if partitions < UNCOLLECTED_PARTITIONS_MIN or not gc.isenabled():
        yield
        return
    gc.disable()
    timer = asyncio.get_running_loop().call_later(UNCOLLECTED_SECONDS, gc.enable)
    try:
        yield
    finally:
        timer.cancel()
        gc.enable()


def late_rows(plan: LeasePlan, late_seconds: float) -> list[LeaseRow]:
    """Returns the rows of a lease that came to its worker ``late_seconds`` too late: it read and wrote nothing."""
    return [
        LeaseRow(
            mirror=work.mirror,
            source=work.source,
            destination=destination.destination,
            start_offset=0,
            position=None,
            source_start=None,
            source_end=None,
            mark=mark,
            error=LeaseLateError(
                "a lease came to its worker too late and did nothing",
                hint="Spark had no free slot for it (executors were lost, or there are fewer slots than "
                "`engine.lanes`), or its JVM was frozen; it is tried again",
                seconds_late=round(late_seconds, 1),
            ),
        )
        for work in plan.partitions
        for destination, mark in zip_longest(work.destinations, work.marks)
    ]


_of_this_thread = threading.local()  # one in a Python worker of Spark's; several where leases run in one process


def work(plan_bytes: bytes) -> list[dict[str, object]]:
    """Runs the pickled ``LeasePlan``; returns one mapping ``{"kind": "progress", "row": LeaseRow}`` per destination."""
    if not hasattr(_of_this_thread, "worker"):
        _of_this_thread.worker = Worker()
    worker: Worker = _of_this_thread.worker
    plan: LeasePlan = pickle.loads(plan_bytes)
    return [{"kind": "progress", "row": row} for row in worker.run(plan)]
