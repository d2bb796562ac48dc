"""One partition's part of a lease: its sinks are opened, grouped by position, copied to, and reported on."""

import asyncio
import contextlib
import traceback
from collections.abc import Callable, Iterable
from typing import Any

from mirrorlake.destinations.interface import PartitionSink
from mirrorlake.destinations.work import DestinationWork
from mirrorlake.errors import (
    MirrorlakeError,
    OutcomeUnknownError,
    PartitionUnbegunError,
    TopicRecreatedError,
)
from mirrorlake.mirror.encoder_turn import Encoder, EncoderTurn
from mirrorlake.mirror.lease_time import LOOK_AGAIN_SECONDS
from mirrorlake.mirror.live_ends import LiveEnds
from mirrorlake.mirror.openings import Openings
from mirrorlake.mirror.pace import Pace
from mirrorlake.mirror.partition_copy import PartitionCopy
from mirrorlake.mirror.starvation import LEASE_WAS_SHORT, Starvation, hint_of, not_answered, without_cpu
from mirrorlake.mirror.told_progress import ToldProgress
from mirrorlake.mirror.work import LeaseRow, PartitionWork
from mirrorlake.sources.mark import SourceMark
from mirrorlake.sources.source import SourcePartition
from mirrorlake.together import all_of

OPEN_TOGETHER_SECONDS = 1.0
"""So long destinations of a partition wait for one another, to be served by one read; one that hangs holds up none."""

Slot = tuple[DestinationWork, PartitionSink]

MakeSink = Callable[[PartitionWork, DestinationWork, Callable[[], None]], PartitionSink]
"""Builds the sink of one destination, not opened, and told what to call when it has room again, or failed."""


class PartitionJob:
    """One partition's part of a lease: opens its sinks, groups them by position, copies, and reports.

    Args:
        work: what to copy, and where to.
        source: the partition, open for the lease.
        encoder: of the task.
        make_sink: builds the sinks.
        openings: of the lease.
        live_ends: of the lease.
        starvation: of the lease.
        pace: of the mirror, None where it has no limit.
    """

    def __init__(
        self,
        work: PartitionWork,
        *,
        source: SourcePartition,
        encoder: Encoder,
        make_sink: MakeSink,
        openings: Openings,
        live_ends: LiveEnds,
        starvation: Starvation,
        pace: Pace | None = None,
    ) -> None:
        self._pace = pace
        self._live_ends = live_ends
        self._starvation = starvation
        self._openings = openings
        self._has_begun = False
        self._work = work
        self._source = source
        self._encoder = encoder
        self._make_sink = make_sink
        self._slots: list[Slot] = []
        self._copies: list[PartitionCopy] = []
        self._errors: dict[int, MirrorlakeError] = {}
        self._opened: set[int] = set()
        self._served: set[int] = set()  # to the end: what another one is waited for says nothing of these
        self._copy_of: dict[int, PartitionCopy] = {}
        self._is_asking_source = False

    @property
    def archive_steps(self) -> int:
        """Grows while an archive gets on; 0 where none is being read for."""
        return sum(1 + copy.steps for copy in self._copies if copy.has_archive)

    @property
    def is_encoding(self) -> bool:
        """True while records are being written to an archive's segment."""
        return any(copy.is_busy for copy in self._copies if copy.has_archive)

    def drop_unsent(self) -> None:
        """Leaves to the next lease what was read and not sent."""
        for copy in self._copies:
            copy.drop_unsent()

    async def stands(self) -> bool:
        """Returns whether every destination is served, and is as this lease has left it; see `PartitionSink.stands`."""
        if self._errors or not self._slots or len(self._copy_of) != len(self._slots):
            return False
        if any(copy.errors for copy in self._copies):
            return False
        for _, sink in self._slots:
            if not await sink.stands():
                return False
        return True

    def sink_changed(self) -> None:
        """Passes on that a sink has room again, or failed."""
        for copy in self._copies:
            copy.sink_changed()

    async def run(self) -> None:
        """Copies until nothing is left to do or the lease is over."""
        try:
            await self._run()
        except MirrorlakeError as error:
            for _, sink in self._slots:
                self._errors.setdefault(id(sink), error)
        except Exception as error:  # noqa: BLE001 - a bug of ours ends this partition's part, not the others' (law 6)
            traceback.print_exc()
            for _, sink in self._slots:
                self._errors.setdefault(id(sink), OutcomeUnknownError(f"internal error: {error!r}; please report it"))
        except asyncio.CancelledError:
            for destination, sink in self._slots:
                if not (sink.is_done and sink.is_settled) and id(sink) not in self._served:
                    self._errors.setdefault(id(sink), self._cut_short(destination, sink))
            raise
        finally:
            for copy in self._copies:
                copy.drop()
                self._errors.update(copy.errors)
            for destination, sink in self._slots:
                # However it came to this: what has no answer is unknown, and no row may hide it (law 7).
                if not sink.is_settled:
                    self._errors.setdefault(id(sink), self._cut_short(destination, sink))
                sink.abandon()

    def _cut_short(self, destination: DestinationWork, sink: PartitionSink) -> MirrorlakeError:
        """Returns what it means that the lease ended here: who did not answer, or an unknown outcome."""
        if not self._has_begun:
            return PartitionUnbegunError(
                f"the lease was over before it came to source {self._work.source}",
                hint="many partitions are opened a few at a time; the next lease continues",
            )
        if id(sink) not in self._opened and not self._is_asking_source:
            return self._not_answered(f"destination {destination.destination} of source {self._work.source}")
        if not self._copies:
            return self._not_answered(f"{self._work.source_work.label}, asked for source {self._work.source},")
        starved_seconds = self._starvation.seconds
        return OutcomeUnknownError(
            f"the lease ended before all that was taken of source {self._work.source} was known to be safe at "
            f"{destination.destination}{without_cpu(starved_seconds)}",
            hint=hint_of(starved_seconds),
            **{LEASE_WAS_SHORT: not self._live_ends.are_early},
        )

    def _not_answered(self, who: str) -> MirrorlakeError:
        """Returns that somebody had not answered when the lease ended: no reproach to who had not all of its time."""
        starved_seconds = self._starvation.seconds
        if self._live_ends.are_early:
            said = f"the lease was ended early, before {who} had answered"
            return OutcomeUnknownError(said + without_cpu(starved_seconds), hint=hint_of(starved_seconds))
        return not_answered(who, starved_seconds=starved_seconds)

    async def _run(self) -> None:
        self._slots = [(d, self._make_sink(self._work, d, self.sink_changed)) for d in self._work.destinations]
        if len(self._slots) == 1:
            await self._run_alone(self._slots[0][1])
            return
        opening: dict[asyncio.Task[None], PartitionSink] = {}
        try:
            async with self._openings.turn(self._places):
                await self._look_at_marks()
                opening |= {asyncio.create_task(self._open(sink)): sink for _, sink in self._slots}
                opened, late = await asyncio.wait(opening, timeout=OPEN_TOGETHER_SECONDS)
            for task in opened:
                task.result()  # raises what no sink should
            ready = [sink for sink in opening.values() if id(sink) in self._opened]
            serving = [self._serve(sinks) for sinks in _together(ready, self._encoder)]
            await all_of([*serving, *(self._serve_late(task, opening[task]) for task in late)])
        finally:
            for task in opening:
                task.cancel()

    async def _run_alone(self, sink: PartitionSink) -> None:
        """Serves the only destination: nobody waits for it, so that it needs no task of its own while it opens."""
        async with self._openings.turn(self._places):
            await self._look_at_marks()
            await self._open(sink)
        if id(sink) in self._opened and not sink.is_done:
            await self._serve([sink])

    @property
    def _places(self) -> tuple[str, ...]:
        """The source and the destinations, by name: who shares them waits for the same brokers and stores."""
        return self._work.source_work.label, *(each.destination for each in self._work.destinations)

    async def _serve_late(self, opening: "asyncio.Task[None]", sink: PartitionSink) -> None:
        """Serves alone what opened after the others had begun."""
        await opening
        if id(sink) in self._opened and not sink.is_done:
            await self._serve([sink])

    async def _serve(self, sinks: list[PartitionSink]) -> None:
        """Reads once for sinks at one position; archives take turns, one open encoder a task (law 8)."""
        await self._read_for(sinks)
        self._served.update(map(id, sinks))

    async def _read_for(self, sinks: list[PartitionSink]) -> None:
        if not any(sink.needs_encoder for sink in sinks):
            await self._copy(sinks, is_live=True)
            return
        turn = self._encoder.turn()
        if await turn.take():
            try:
                await self._copy(sinks, is_live=False, turn=turn)
            finally:
                turn.give_back()

    async def _look_at_marks(self) -> None:
        """Begins: asks the source what the marks of earlier leases are worth.

        Raises:
            MirrorlakeError: the source could not be asked; nothing is copied then.
        """
        self._has_begun = True
        self._is_asking_source = True
        if marks := [mark for mark in self._work.marks if mark]:
            await self._source.look_at_marks(marks)
        self._is_asking_source = False

    def _mark_of(self, sink: PartitionSink) -> SourceMark | None:
        index = next(n for n, (_, each) in enumerate(self._slots) if each is sink)
        return self._work.marks[index] if index < len(self._work.marks) else None

    def _divergence(self, sink: PartitionSink, position: int) -> MirrorlakeError | None:
        if (mark := self._mark_of(sink)) is None:
            return None
        destination = next(d.destination for d, each in self._slots if each is sink)
        return self._source.divergence(mark, position, destination=destination)

    async def _open(self, sink: PartitionSink) -> None:
        try:
            await sink.open()
            error = self._divergence(sink, sink.progress.position)
        except MirrorlakeError as refusal:
            # A copy of a log that was lost differs from the one there is: that says more than that it differs.
            position = refusal.facts.get("position")
            error = (self._divergence(sink, position) if isinstance(position, int) else None) or refusal
            error = await self._recreation() or error
        if error is None:
            self._opened.add(id(sink))
        else:
            self._errors[id(sink)] = error

    async def _recreation(self) -> MirrorlakeError | None:
        """Returns that the source topic was recreated, if it was: a copy of the one before differs from it."""
        try:
            await self._source.find()
        except TopicRecreatedError as error:
            return error
        except MirrorlakeError:
            return None  # whoever reads the source finds it out
        return None

    async def _copy(self, sinks: list[PartitionSink], *, is_live: bool, turn: EncoderTurn | None = None) -> None:
        reader = await self._source.reader(is_live=is_live)
        copy = PartitionCopy(
            self._work.source,
            reader,
            sinks,
            # An archive ends by its own orders, or where a rival's claim says, which may be further.
            end_offset=self._work.end_offset if any(sink.is_endless for sink in sinks) else None,
            turn=turn,
            pace=self._pace,
        )
        self._copies.append(copy)
        self._copy_of.update({id(sink): copy for sink in sinks})
        copy.begin()
        running = asyncio.create_task(copy.run())
        try:
            await self._until_over(copy, running)
        finally:
            copy.end_reading()
            reader.changed()
            running.cancel()
            await gone([running])
        await copy.drain()

    async def _until_over(self, copy: PartitionCopy, running: "asyncio.Task[None]") -> None:
        """Waits for the copy or its reader to end; a live sink read along with an archive ends with the live time."""
        over = copy.reader.over
        await self._live_ends.wait(running, over)
        # From now on it is looked at again and again.
        while not (running.done() or over.is_set() or copy.is_live_only):
            await asyncio.wait([running], timeout=LOOK_AGAIN_SECONDS)

    @property
    def has_moved(self) -> bool:
        """False where nothing was taken for any destination yet, so that none can have moved."""
        # Asked once a second of every partition: `any` takes twice as long.
        for copy in self._copies:  # noqa: SIM110
            if copy.has_taken:
                return True
        return False

    def progress(self) -> Iterable[ToldProgress]:
        """Yields what has moved since the lease began, one per destination."""
        for destination, sink in self._slots:
            done = sink.progress
            if id(sink) in self._opened and (done.records or done.position != done.start_offset):
                yield ToldProgress(
                    self._work.mirror,
                    self._work.source,
                    destination.destination,
                    done.position,
                    done.records,
                    done.raw_bytes,
                    dict(done.batches),
                    dict(done.gap_offsets),
                    dict(done.latencies),
                    done.latency_seconds_sum,
                    done.held_until_ms,
                )

    def rows(self) -> Iterable[LeaseRow]:
        """Yields one row per destination; call when ``run`` is over."""
        start = next((c.reader.source_start for c in self._copies if c.reader.source_start is not None), None)
        end = next((c.reader.source_end for c in self._copies if c.reader.source_end is not None), None)
        live_bytes = sum(copy.live_bytes for copy in self._copies)
        cut_bytes = sum(copy.cut_bytes for copy in self._copies)
        for number, (destination, sink) in enumerate(self._slots):
            progress = sink.progress
            yield LeaseRow(
                mirror=self._work.mirror,
                source=self._work.source,
                destination=destination.destination,
                start_offset=progress.start_offset,
                position=progress.position if id(sink) in self._opened else None,
                source_start=start,
                source_end=end,
                ended_at=copy.reader.ended_at if (copy := self._copy_of.get(id(sink))) is not None else None,
                records=progress.records,
                raw_bytes=progress.raw_bytes,
                batches=dict(progress.batches),
                gap_offsets=dict(progress.gap_offsets),
                dead_letters=dict(progress.dead_letters),
                first_timestamp_ms=progress.first_timestamp_ms,
                last_timestamp_ms=progress.last_timestamp_ms,
                flushes=tuple(progress.flushes),
                latencies=dict(progress.latencies),
                latency_seconds_sum=progress.latency_seconds_sum,
                hand_off=progress.hand_off,
                mark=self._mark_after(sink),
                size_limit=progress.size_limit,
                held_until_ms=progress.held_until_ms,
                live_bytes=0 if number else live_bytes,
                cut_bytes=0 if number else cut_bytes,
                error=self._errors.get(id(sink)),
            )

    def _mark_after(self, sink: PartitionSink) -> SourceMark | None:
        before, copy = self._mark_of(sink), self._copy_of.get(id(sink))
        if copy is None:
            return before
        return copy.reader.mark_after(before, next_offset=copy.next_offset)


def _together(sinks: Iterable[PartitionSink], encoder: Encoder) -> list[list[PartitionSink]]:
    """Groups sinks that stand at the same position, archives first: they decode before a header is rewritten in place.

    At most one Kafka destination is in a group, because each rewrites the headers for itself. While another
    partition's archive holds the encoder nobody waits for it: a live sink then reads for itself. A snapshot is made
    alone: nobody waits until its view is written.
    """
    together: list[list[PartitionSink]] = []
    open_groups: dict[int, list[PartitionSink]] = {}
    for sink in sorted(sinks, key=lambda sink: not sink.needs_encoder):
        if sink.is_done:
            continue
        if sink.reads_alone:
            together.append([sink])
            continue
        group = open_groups.get(sink.next_offset)
        if group is None or encoder.is_held:
            open_groups[sink.next_offset] = group = []
            together.append(group)
        group.append(sink)
        if sink.is_endless:
            del open_groups[sink.next_offset]
    return together


async def gone(tasks: Iterable["asyncio.Task[Any]"]) -> None:
    """Waits until cancelled or ended tasks are really over."""
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError):
            await task
