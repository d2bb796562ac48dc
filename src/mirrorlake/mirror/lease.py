"""The work of one lease: opens the sinks of its partitions, reads, copies, and returns rows.

Everything is read anew from the destinations (law 1); only connections stay in the worker as a cache. No error
leaves: it becomes part of its row (law 6). At the hard end everything is dropped and reported as unknown (law 7).
"""

import asyncio
import contextlib
import traceback
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mirrorlake.clock import Clock
from mirrorlake.destinations.archive import ArchiveSink
from mirrorlake.destinations.interface import PartitionSink
from mirrorlake.destinations.snapshot_sink import SnapshotSink
from mirrorlake.destinations.source_bounds import explain_out_of_range
from mirrorlake.errors import (
    BrokerNotReadyError,
    MirrorlakeError,
    OutcomeUnknownError,
    RequestTimeoutError,
    TopicMissingError,
    TopicRecreatedError,
)
from mirrorlake.kafka.cluster import EARLIEST, LATEST
from mirrorlake.kafka.descriptions import ClusterMetadata, LogEnd, PartitionMetadata
from mirrorlake.kafka.settings import ClusterSettings
from mirrorlake.mirror.connections import LeaseConnections
from mirrorlake.mirror.encoder_turn import EncoderTurn
from mirrorlake.mirror.lineage import SourceMark, divergence, read_on
from mirrorlake.mirror.partition_copy import PartitionCopy
from mirrorlake.mirror.reader import BrokerReader
from mirrorlake.mirror.sinks import make_sink
from mirrorlake.mirror.work import DestinationWork, LeasePlan, LeaseRow, PartitionWork
from mirrorlake.offsets import TopicPartition

DRAIN_SECONDS = 0.4
"""Between the end of reading and the hard end: the answers still outstanding get this long."""

LIVE_END_SECONDS = 0.5
"""After the live time: answers that are outstanding then are unknown, whatever archives the lease goes on with."""

OPEN_TOGETHER_SECONDS = 1.0
"""So long destinations of a partition wait for one another, to be served by one read; one that hangs holds up none."""

SEND_ON_SECONDS = 0.2
"""After the live time: what was read and is not sent by then is left to the next lease."""

STALL_SECONDS = 3.0
"""An archive that got nothing from its source for so long, after the live time, does not hold the lease any more."""

LOOK_AGAIN_SECONDS = 0.05

RECALL_LOOK_SECONDS = 0.25
"""How often a lease looks whether it should end before its time."""

RECALLED_SECONDS_MIN = 1.0
"""A lease that is recalled runs so long all the same: one cut short while it reads its positions has only errors."""

ENCODING_SINKS = (ArchiveSink, SnapshotSink)
"""Sinks that take the encoder for what they write."""

Slot = tuple[DestinationWork, PartitionSink]


class LeaseWork:
    """Runs one plan.

    Args:
        plan: what to copy.
        connections: the worker's cluster clients and this lease's produce channels.
        clock: tells when the lease is over.
    """

    def __init__(self, plan: LeasePlan, connections: LeaseConnections, clock: Clock) -> None:
        self.connections = connections
        self._plan = plan
        self._clock = clock
        self._started = clock.elapsed_seconds()
        self._live_until = self._started + plan.live_seconds
        self.recalled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.encoder = asyncio.Semaphore(1)
        self._waiting: set[asyncio.Timeout] = set()  # for the encoder
        self._readers: dict[tuple[str, int, bool, int], BrokerReader] = {}
        self._uses: Counter[tuple[str, TopicPartition, bool]] = Counter()
        self._metadata: dict[str, asyncio.Future[ClusterMetadata]] = {}
        self._reader_tasks: list[asyncio.Task[None]] = []
        self._jobs = {id(work): PartitionJob(work, self) for work in plan.partitions}

    @property
    def live_until(self) -> float:
        """Reading of the clock at which live reading ends; it comes nearer when the lease is recalled."""
        return self._live_until

    @property
    def hard_until(self) -> float:
        """Reading of the clock at which everything is dropped."""
        return self._started + self._plan.hard_seconds

    async def run(self) -> list[LeaseRow]:
        """Returns one row per partition and destination of the plan; never raises an error of ours."""
        tasks = {asyncio.create_task(job.run()): job for job in self._jobs.values()}
        if tasks:
            late = await self._until_live_end(tasks)
            await self._await_archives({task: job for task, job in tasks.items() if task in late})
        asking = [task for task in self._metadata.values() if task.cancel() or task.cancelled() or task.exception()]
        await asyncio.gather(*asking, return_exceptions=True)
        # Nobody is left who would take an answer, and a source that is silent would hold the lease past its end.
        for reading in self._reader_tasks:
            reading.cancel()
        await _gone([*tasks, *self._reader_tasks])
        rows = [row for job in self._jobs.values() for row in job.rows()]
        await self.connections.end_lease()
        return rows

    async def _until_live_end(self, tasks: "Iterable[asyncio.Task[None]]") -> "set[asyncio.Task[None]]":
        """Waits until everything has ended, or the live time has, and returns what goes on."""
        pending = set(tasks)
        all_of_them = len(pending)
        while pending:
            now = self._clock.elapsed_seconds()
            if now < self._live_until and self._is_recalled(now, is_whole=len(pending) == all_of_them):
                self._end_live(now)
            if now >= (sends_until := self._live_until + SEND_ON_SECONDS):
                self._drop_unsent()
            end = min(self.hard_until, self._live_until + LIVE_END_SECONDS)
            if now >= end:
                break
            next_look = min(now + RECALL_LOOK_SECONDS, sends_until if now < sends_until else end, end)
            _, pending = await asyncio.wait(pending, timeout=next_look - now)
        return pending

    def _drop_unsent(self) -> None:
        for job in self._jobs.values():
            job.drop_unsent()

    def _is_recalled(self, now: float, *, is_whole: bool) -> bool:
        if not is_whole and now >= self._started + self._plan.unbroken_seconds:
            return True
        file = self._plan.recall_file
        return bool(file) and now >= self._started + RECALLED_SECONDS_MIN and Path(file).exists()

    def _end_live(self, now: float) -> None:
        self._live_until = now
        self.recalled.set_result(None)
        for patience in self._waiting:
            if not patience.expired():
                patience.reschedule(asyncio.get_running_loop().time())
        for (_, _, is_live, _), reader in self._readers.items():
            if is_live:
                reader.end_reading()

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
                if task.done() or now >= self.hard_until or not job.archive_steps or now - since >= STALL_SECONDS:
                    task.cancel()
                    del pace[task]
            if pace:
                await asyncio.wait(pace, timeout=LOOK_AGAIN_SECONDS, return_when=asyncio.FIRST_COMPLETED)

    def may_begin(self) -> bool:
        """True while a further segment may be begun: within the live time, so that live partitions soon get theirs."""
        return self._clock.elapsed_seconds() < self.live_until

    async def take_encoder(self) -> bool:
        """Waits for the encoder as long as a segment may be begun; returns whether it was taken."""
        try:
            async with asyncio.timeout(max(0.0, self.live_until - self._clock.elapsed_seconds())) as patience:
                self._waiting.add(patience)
                try:
                    await self.encoder.acquire()
                finally:
                    self._waiting.discard(patience)
        except TimeoutError:
            return False
        if not self.may_begin():
            self.encoder.release()
            return False
        return True

    @property
    def live_is_over(self) -> bool:
        """True once live reading has ended."""
        return self._clock.elapsed_seconds() >= self.live_until

    def live_seconds_left(self) -> float:
        """Seconds until live reading ends; afterwards a short while, to look again."""
        return max(LOOK_AGAIN_SECONDS, self.live_until - self._clock.elapsed_seconds())

    async def leader_of(self, work: PartitionWork) -> PartitionMetadata:
        """Returns who leads the source partition.

        Raises:
            TopicMissingError: the source has no such partition.
            TopicRecreatedError: it is another topic of the same name.
            BrokerNotReadyError: the partition has no leader at the moment.
        """
        topic = (await self._source_metadata(work.cluster)).topics.get(work.source.topic)
        if topic is None or work.source.partition not in topic.partitions:
            raise TopicMissingError(
                f"source partition {work.source} does not exist on cluster {work.cluster.name}",
                hint="check the name, or that the topic was not deleted",
                topic=work.source.topic,
            )
        check_topic_id(work, topic.topic_id)
        led = topic.partitions[work.source.partition]
        if led.leader < 0:
            raise BrokerNotReadyError(f"source partition {work.source} has no leader at the moment")
        return led

    async def reader_for(self, work: PartitionWork, *, is_live: bool) -> tuple[BrokerReader, int]:
        """Returns the reader of the partition's leader, and the epoch it leads in; −1 where the broker does not say.

        Live and archive reads have connections of their own.

        Raises:
            MirrorlakeError: see ``leader_of``.
        """
        led = await self.leader_of(work)
        leader = led.leader
        # A request names a partition once: another copy of it, for another mirror or destination, has its own reader.
        use = (work.cluster.name, work.source, is_live)
        key = (work.cluster.name, leader, is_live, self._uses[use])
        self._uses[use] += 1
        reader = self._readers.get(key)
        if reader is None or reader.is_over:
            until = self.live_until if is_live else self.hard_until - DRAIN_SECONDS
            reader = BrokerReader(
                lambda: self.connections.fetch_connection(work.cluster, leader),
                clock=self._clock,
                read_until_seconds=until,
                settings=work.cluster,
            )
            self._readers[key] = reader
            self._reader_tasks.append(asyncio.create_task(reader.run()))
        return reader, led.leader_epoch

    async def _source_metadata(self, cluster: ClusterSettings) -> ClusterMetadata:
        """Returns what a source says of all topics of this lease, asked once.

        Leaders move, and a topic that was made again under the same name has another id.
        """
        if cluster.name not in self._metadata:
            topics = sorted({w.source.topic for w in self._plan.partitions if w.cluster.name == cluster.name})
            client = self.connections.client(cluster)
            self._metadata[cluster.name] = asyncio.ensure_future(client.metadata(topics, refresh=True))
        return await asyncio.shield(self._metadata[cluster.name])

    def make_sink(self, work: PartitionWork, destination: DestinationWork) -> PartitionSink:
        """Builds the sink of one destination, not opened."""
        return make_sink(
            work,
            destination,
            connections=self.connections,
            clock=self._clock,
            may_begin=self.may_begin,
            changed=self._jobs[id(work)].sink_changed,
        )


def check_topic_id(work: PartitionWork, found: str) -> None:
    """Checks that the source topic is the one the plan was made for.

    Raises:
        TopicRecreatedError: it is not.
    """
    # While a source is upgraded to Kafka 2.8 some of its brokers give ids and others do not.
    if work.topic_id and found and found != work.topic_id:
        raise TopicRecreatedError(
            f"source topic {work.source.topic} was deleted and made again (topic id {work.topic_id}, now {found}); "
            "what was copied so far belongs to the one before",
            hint="re-create the destination topic, or mirror to another topic or folder, and start again",
            expected=work.topic_id,
            found=found,
        )


class PartitionJob:
    """One partition's part of a lease: opens its sinks, groups them by position, copies, and reports."""

    def __init__(self, work: PartitionWork, lease: LeaseWork) -> None:
        self._work = work
        self._lease = lease
        self._slots: list[Slot] = []
        self._copies: list[PartitionCopy] = []
        self._errors: dict[int, MirrorlakeError] = {}
        self._opened: set[int] = set()
        self._served: set[int] = set()  # to the end: what another one is waited for says nothing of these
        self._copy_of: dict[int, PartitionCopy] = {}
        self._epoch_ends: dict[int, LogEnd] = {}
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
                is_open_still = not sink.is_done or (isinstance(sink, ENCODING_SINKS) and not sink.is_settled)
                if is_open_still and id(sink) not in self._served:
                    self._errors.setdefault(id(sink), self._cut_short(destination, sink))
            raise
        finally:
            for copy in self._copies:
                copy.drop()
                self._errors.update(copy.errors)
            for _, sink in self._slots:
                sink.abandon()

    def _cut_short(self, destination: DestinationWork, sink: PartitionSink) -> MirrorlakeError:
        """Returns what it means that the lease ended here: who did not answer, or an unknown outcome."""
        if id(sink) not in self._opened and not self._is_asking_source:
            return RequestTimeoutError(
                f"destination {destination.destination} of source {self._work.source} did not answer within the lease"
            )
        if not self._copies:
            return RequestTimeoutError(
                f"cluster {self._work.cluster.name} did not answer for source {self._work.source} within the lease"
            )
        return OutcomeUnknownError(
            f"the lease ended before all that was taken of source {self._work.source} was known to be safe at "
            f"{destination.destination}"
        )

    async def _run(self) -> None:
        self._slots = [(d, self._lease.make_sink(self._work, d)) for d in self._work.destinations]
        self._is_asking_source = True
        await self._look_at_epochs()
        self._is_asking_source = False
        opening = {asyncio.create_task(self._open(sink)): sink for _, sink in self._slots}
        try:
            opened, late = await asyncio.wait(opening, timeout=OPEN_TOGETHER_SECONDS)
            for task in opened:
                task.result()  # raises what no sink should
            ready = [sink for sink in opening.values() if id(sink) in self._opened]
            await asyncio.gather(
                *(self._serve(sinks) for sinks in _together(ready, self._lease.encoder)),
                *(self._serve_late(task, opening[task]) for task in late),
            )
        finally:
            for task in opening:
                task.cancel()

    async def _serve_late(self, opening: "asyncio.Task[None]", sink: PartitionSink) -> None:
        """Serves alone what opened after the others had begun."""
        await opening
        if id(sink) in self._opened:
            await asyncio.gather(*(self._serve(sinks) for sinks in _together([sink], self._lease.encoder)))

    async def _serve(self, sinks: list[PartitionSink]) -> None:
        """Reads once for sinks at one position; archives take turns, one open encoder a task (law 8)."""
        await self._read_for(sinks)
        self._served.update(map(id, sinks))

    async def _read_for(self, sinks: list[PartitionSink]) -> None:
        if not any(isinstance(sink, ENCODING_SINKS) for sink in sinks):
            await self._copy(sinks, is_live=True)
            return
        turn = EncoderTurn(self._lease.take_encoder, self._lease.encoder.release)
        if await turn.take():
            try:
                await self._copy(sinks, is_live=False, turn=turn)
            finally:
                turn.give_back()

    async def _explain_out_of_range(self, position: int) -> MirrorlakeError:
        client = self._lease.connections.client(self._work.cluster)
        source = self._work.source
        try:
            log_starts = await client.list_offsets([source], timestamp=EARLIEST)
            log_ends = await client.list_offsets([source], timestamp=LATEST)
        except MirrorlakeError as error:
            return error
        return explain_out_of_range(source, position, log_starts[source], log_ends[source])

    async def _look_at_epochs(self) -> None:
        """Asks where the epochs of the marks end at the source, if another leader leads it than when they were made.

        Raises:
            MirrorlakeError: the source could not be asked; nothing is copied then.
        """
        if not any(self._work.marks):
            return
        leader_epoch = (await self._lease.leader_of(self._work)).leader_epoch
        client = self._lease.connections.client(self._work.cluster)
        for epoch in sorted({mark.epoch for mark in self._work.marks if mark and mark.leader_epoch != leader_epoch}):
            end = (await client.epoch_ends({self._work.source: epoch}))[self._work.source]
            if isinstance(end, MirrorlakeError):
                raise end
            self._epoch_ends[epoch] = end

    def _mark_of(self, sink: PartitionSink) -> SourceMark | None:
        index = next(n for n, (_, each) in enumerate(self._slots) if each is sink)
        return self._work.marks[index] if index < len(self._work.marks) else None

    def _divergence(self, sink: PartitionSink, position: int) -> MirrorlakeError | None:
        mark = self._mark_of(sink)
        if mark is None or mark.epoch not in self._epoch_ends:
            return None
        destination = next(d.destination for d, each in self._slots if each is sink)
        end = self._epoch_ends[mark.epoch]
        return divergence(self._work.source, mark, end, position, destination=destination)

    async def _open(self, sink: PartitionSink) -> None:
        try:
            await sink.open()
            error = self._divergence(sink, sink.progress.position)
        except MirrorlakeError as refusal:
            # A copy of a log that was lost differs from the one there is: that says more than that it differs.
            position = refusal.facts.get("position")
            error = (self._divergence(sink, position) if isinstance(position, int) else None) or refusal
        if error is None:
            self._opened.add(id(sink))
        else:
            self._errors[id(sink)] = error

    async def _copy(self, sinks: list[PartitionSink], *, is_live: bool, turn: EncoderTurn | None = None) -> None:
        reader, leader_epoch = await self._lease.reader_for(self._work, is_live=is_live)
        copy = PartitionCopy(
            self._work.source,
            sinks,
            # An archive ends by its own orders, or where a rival's claim says, which may be further.
            end_offset=self._work.end_offset if any(sink.is_endless for sink in sinks) else None,
            changed=reader.changed,
            explain_out_of_range=self._explain_out_of_range,
            leader_epoch=leader_epoch,
            turn=turn,
        )
        self._copies.append(copy)
        self._copy_of.update({id(sink): copy for sink in sinks})
        reader.add(copy)
        running = asyncio.create_task(copy.run())
        over = asyncio.create_task(reader.over.wait())
        try:
            await self._until_over(copy, running, over)
        finally:
            copy.end_reading()
            reader.changed()
            running.cancel()
            over.cancel()
            await _gone([running, over])
        await copy.drain()

    async def _until_over(self, copy: PartitionCopy, running: "asyncio.Task[None]", over: "asyncio.Task[bool]") -> None:
        """Waits for the copy or its reader to end; a live sink read along with an archive ends with the live time."""
        ends: set[asyncio.Future[Any]] = {running, over, self._lease.recalled}
        while not running.done() and not over.done():
            await asyncio.wait(ends, timeout=self._lease.live_seconds_left(), return_when=asyncio.FIRST_COMPLETED)
            ends.discard(self._lease.recalled)  # now or never, and from now on it is looked at again and again
            if self._lease.live_is_over and copy.is_live_only:
                return

    def rows(self) -> Iterable[LeaseRow]:
        """Yields one row per destination; call when ``run`` is over."""
        start = next((c.source_start for c in self._copies if c.source_start is not None), None)
        end = next((c.source_end for c in self._copies if c.source_end is not None), None)
        for destination, sink in self._slots:
            progress = sink.progress
            yield LeaseRow(
                mirror=self._work.mirror,
                source=self._work.source,
                destination=destination.destination,
                start_offset=progress.start_offset,
                position=progress.position if id(sink) in self._opened else None,
                source_start=start,
                source_end=end,
                records=progress.records,
                raw_bytes=progress.raw_bytes,
                batches=dict(progress.batches),
                gap_offsets=dict(progress.gap_offsets),
                first_timestamp_ms=progress.first_timestamp_ms,
                last_timestamp_ms=progress.last_timestamp_ms,
                flushes=tuple(progress.flushes),
                latencies=dict(progress.latencies),
                latency_seconds_sum=progress.latency_seconds_sum,
                handed_on=progress.handed_on,
                mark=self._mark_after(sink),
                error=self._errors.get(id(sink)),
            )

    def _mark_after(self, sink: PartitionSink) -> SourceMark | None:
        before, copy = self._mark_of(sink), self._copy_of.get(id(sink))
        if copy is None:
            return before
        return read_on(before, epoch=copy.epoch_read, offset=copy.next_offset, leader_epoch=copy.leader_epoch)


def _together(sinks: Iterable[PartitionSink], encoder: asyncio.Semaphore) -> list[list[PartitionSink]]:
    """Groups sinks that stand at the same position, archives first: they decode before a header is rewritten in place.

    At most one Kafka destination is in a group, because each rewrites the headers for itself. While another
    partition's archive holds the encoder nobody waits for it: a live sink then reads for itself. A snapshot is made
    alone: nobody waits until its view is written.
    """
    together: list[list[PartitionSink]] = []
    open_groups: dict[int, list[PartitionSink]] = {}
    for sink in sorted(sinks, key=lambda s: not isinstance(s, ENCODING_SINKS)):
        if sink.is_done:
            continue
        if isinstance(sink, SnapshotSink):
            together.append([sink])
            continue
        group = open_groups.get(sink.next_offset)
        if group is None or encoder.locked():
            open_groups[sink.next_offset] = group = []
            together.append(group)
        group.append(sink)
        if sink.is_endless:
            del open_groups[sink.next_offset]
    return together


async def _gone(tasks: Iterable["asyncio.Task[Any]"]) -> None:
    """Waits until cancelled or ended tasks are really over."""
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError):
            await task
