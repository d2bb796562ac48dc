"""The work of one lease: opens the sinks of its partitions, reads, copies, and returns rows.

Everything is read anew from the destinations (law 1); only connections stay in the worker as a cache. No error
leaves: it becomes part of its row (law 6). At the hard end everything is dropped and reported as unknown (law 7).
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from mirrorlake.clock import Clock
from mirrorlake.destinations.connections import LeaseConnections
from mirrorlake.destinations.interface import PartitionSink
from mirrorlake.destinations.work import DestinationWork, SinkContext
from mirrorlake.mirror.encoder_turn import Encoder
from mirrorlake.mirror.lease_time import LOOK_AGAIN_SECONDS, LeaseTime
from mirrorlake.mirror.live_ends import LiveEnds
from mirrorlake.mirror.openings import Openings
from mirrorlake.mirror.pace import Pace
from mirrorlake.mirror.partition_job import OPEN_TOGETHER_SECONDS, PartitionJob, gone
from mirrorlake.mirror.renewal import Renewals
from mirrorlake.mirror.starvation import Starvation
from mirrorlake.mirror.told_progress import ProgressTeller, ToldProgress
from mirrorlake.mirror.work import LeasePlan, LeaseRow, PartitionWork
from mirrorlake.sources.source import SourceContext
from mirrorlake.together import all_of
from mirrorlake.watchdog import prolong_watchdog

LIVE_END_SECONDS = 0.5
"""After the live time: answers that are outstanding then are unknown, whatever archives the lease goes on with."""

SEND_ON_SECONDS = 0.2
"""After the live time: what was read and is not sent by then is left to the next lease."""

STALL_SECONDS = 3.0
"""An archive that got nothing from its source for so long, after the live time, does not hold the lease any more."""

ASKED_TOGETHER = 128
"""Partitions of which it is asked at a time whether they are as they were left: others are copied meanwhile."""

RECALL_LOOK_SECONDS = 0.5
"""How often a lease looks whether it should end before its time."""


class LeaseWork:
    """Runs one plan.

    Args:
        plan: what to copy.
        connections: the worker's cluster clients and this lease's produce channels.
        clock: tells when the lease is over.
        began_seconds: the clock's reading when it began; now where left out.
    """

    def __init__(
        self, plan: LeasePlan, connections: LeaseConnections, clock: Clock, *, began_seconds: float | None = None
    ) -> None:
        self.time = LeaseTime(plan, clock, began_seconds=began_seconds)
        self.encoder = Encoder(self.time)
        self._connections = connections
        self._clock = clock
        self._teller = ProgressTeller(plan.progress_file, clock, self._progress)
        call_later = asyncio.get_running_loop().call_later
        self._paces = {mirror: Pace(order, clock=clock, call_later=call_later) for mirror, order in plan.paces.items()}
        self._sources = SourceContext(connections=connections, clock=clock, time=self.time)
        openings = Openings(turn_seconds_max=OPEN_TOGETHER_SECONDS)
        self._live_ends = LiveEnds(self.time)
        self._starvation = Starvation(clock)
        self._renewals = Renewals(
            plan.renewal_file, time=self.time, clock=clock, stands=self._stands, prolong=self._prolong
        )
        self._jobs = [
            PartitionJob(
                work,
                source=work.source_work.open(work.source, work.topic_id, self._sources),
                encoder=self.encoder,
                make_sink=self.make_sink,
                pace=self._paces.get(work.mirror),
                openings=openings,
                live_ends=self._live_ends,
                starvation=self._starvation,
            )
            for work in plan.partitions
        ]

    async def run(self) -> list[LeaseRow]:
        """Returns one row per partition and destination of the plan; never raises an error of ours."""
        tasks = {asyncio.create_task(job.run()): job for job in self._jobs}
        if tasks:
            late = await self._until_live_end(tasks)
            await self._renewals.close()
            await self._await_archives({task: job for task, job in tasks.items() if task in late})
        await self._sources.stop()
        await gone(tasks)
        await self._live_ends.close()
        rows = [self._with_debt(row) for job in self._jobs for row in job.rows()]
        await self._connections.end_lease()
        return rows

    def _with_debt(self, row: LeaseRow) -> LeaseRow:
        pace = self._paces.get(row.mirror)
        return row if pace is None else replace(row, debt_bytes=pace.left_bytes)

    async def _until_live_end(self, tasks: "Collection[asyncio.Task[None]]") -> "set[asyncio.Task[None]]":
        """Waits until everything has ended, or the live time has, and returns what goes on."""
        pending = {task for task in tasks if not task.done()}
        # Each says when it is done: to ask a thousand of them, four times a second, costs more than what they do.
        over, all_of_them = asyncio.get_running_loop().create_future(), len(tasks)

        def ended(task: "asyncio.Task[None]") -> None:
            pending.discard(task)
            if not pending and not over.done():
                over.set_result(None)

        for task in list(pending):
            task.add_done_callback(ended)
        try:
            while pending:
                self._teller.turn()
                self._renewals.turn(is_whole=len(pending) == all_of_them)
                now = self._clock.elapsed_seconds()
                if self.time.is_recalled(now, is_whole=len(pending) == all_of_them):
                    self._end_live(now)
                if now >= (sends_until := self.time.live_until + SEND_ON_SECONDS):
                    self._drop_unsent()
                end = min(self.time.hard_until, self.time.live_until + LIVE_END_SECONDS)
                if now >= end:
                    break
                next_look = min(now + RECALL_LOOK_SECONDS, sends_until if now < sends_until else end, end)
                self._starvation.wait_begins(next_look - now)
                await asyncio.wait([over], timeout=next_look - now)
                self._starvation.wait_ended()
        finally:
            for task in pending:
                task.remove_done_callback(ended)
        return pending

    async def _stands(self) -> bool:
        """Returns whether the lease would begin with what it has, if it began now."""
        if not self._sources.show_changes:
            return False
        for first in range(0, len(self._jobs), ASKED_TOGETHER):
            asked = self._jobs[first : first + ASKED_TOGETHER]
            if not all(await all_of(job.stands() for job in asked)):
                return False
        return True

    def _prolong(self, seconds: float) -> None:
        prolong_watchdog(seconds)
        self._connections.prolong(seconds)
        self._sources.prolong(seconds)
        self.time.prolong(seconds)

    def _progress(self) -> Iterable[ToldProgress]:
        for job in self._jobs:
            if job.has_moved:  # one in fifty, of many
                yield from job.progress()

    def _drop_unsent(self) -> None:
        for job in self._jobs:
            job.drop_unsent()

    def _end_live(self, now: float) -> None:
        self.time.end_live(now)
        self.encoder.end_waiting()
        self._sources.end_live()

    async def _await_archives(self, late: "Mapping[asyncio.Task[None], PartitionJob]") -> None:
        """Waits for archives that get on, at most until the hard end; everything else is cancelled now.

        What waits for a broker that is silent must not hold the lease: the partitions of others are part of it.
        """
        pace = {task: (job.archive_steps, self._clock.elapsed_seconds()) for task, job in late.items()}
        while pace:
            now = self._clock.elapsed_seconds()
            for task, (steps, since) in list(pace.items()):
                job = late[task]
                if job.archive_steps != steps or job.is_encoding:
                    pace[task] = (job.archive_steps, since := now)
                if task.done() or now >= self.time.hard_until or not job.archive_steps or now - since >= STALL_SECONDS:
                    task.cancel()
                    del pace[task]
            if pace:
                await asyncio.wait(pace, timeout=LOOK_AGAIN_SECONDS, return_when=asyncio.FIRST_COMPLETED)

    def make_sink(
        self, work: PartitionWork, destination: DestinationWork, changed: Callable[[], None]
    ) -> PartitionSink:
        """Builds the sink of one destination, not opened; ``changed`` is called when it has room again, or failed."""
        context = SinkContext(
            source_log=work.source_work.log(work.source, self._connections),
            connections=self._connections,
            clock=self._clock,
            may_begin=self.time.may_begin,
            changed=changed,
        )
        return destination.make_sink(context)
