"""Decides which lease each lane runs next, and takes what leases bring back.

Thread-safe: lanes ask from their own threads, the observer tells it the sources' ends from another. It holds no
truth: every position in it was read from a destination (law 1).
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from mirrorlake.archive.chain import Segment
from mirrorlake.clock import Clock
from mirrorlake.destinations.interface import ProducerHandOff
from mirrorlake.destinations.source_bounds import explain_out_of_range
from mirrorlake.destinations.work import Orders
from mirrorlake.errors import MirrorlakeError, OutcomeUnknownError, SupersededError
from mirrorlake.kafka.records.scratch import DECOMPRESSED_BYTES_MAX
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.mirror.due import Due
from mirrorlake.mirror.flush_clock import Retention
from mirrorlake.mirror.plan_bytes import plan_bytes
from mirrorlake.mirror.policy import Decision
from mirrorlake.mirror.work import LeasePlan, LeaseRow
from mirrorlake.moments import Moment
from mirrorlake.offsets import TopicPartition
from mirrorlake.pipeline.lanes import WATCHDOG_SECONDS, Lease
from mirrorlake.pipeline.lease_job import LeaseRow as JobRow
from mirrorlake.pipeline.recalls import Recalls
from mirrorlake.service.balance import find_move, spread
from mirrorlake.service.choosing import Chosen, Phase, choose
from mirrorlake.service.lease_plans import (
    BEGIN_SECONDS_MAX,
    LeaseLimits,
    live_seconds_of,
    orders_of,
    plan_of,
    seconds_until_over,
    with_owner,
)
from mirrorlake.service.owners.holding import HoldingOf, owned_for_ever
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.sight.events import Events
from mirrorlake.topics.targets import shard_of

WORK = "mirrorlake.mirror.lease_worker:work"

LEASE_SECONDS_MIN = 0.1
"""Of a lease whose pace is told; a shorter one tells none."""

BALANCE_SECONDS = 15.0
"""Time for a few leases between two moves, so that the effect of one is seen before the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    """A lease that runs: readings of the driver's clock, and what it serves."""

    number: int
    lane: int
    began: float
    ends_by: float
    sends_until: float
    writes_until: float
    states: Sequence[PartitionState]


class Supervisor:
    """Holds the state of every partition at every destination and turns it into leases.

    Args:
        states: one per source partition and destination.
        source_clusters: the source's settings, by mirror.
        lanes: how many lanes there are.
        lease_seconds: how long a live lease runs; up to `lease_seconds_max` where it can be recalled.
        memory_bytes_max: bound of the receive buffers of all lanes together.
        largest_batch_bytes: what one record batch may decompress to.
        once: stop at each state's ``once_end``, flushing whatever the triggers say.
        clock: the driver's clock.
        events: told what happens; logs and metrics hang there.
        holding: what this process holds of a shard at a Kafka destination.
        recalls: ends leases before their time.
        changed: called when somebody waiting for the end should look again.
    """

    def __init__(
        self,
        states: Sequence[PartitionState],
        *,
        source_clusters: Mapping[str, ClusterSettings],
        lanes: int,
        lease_seconds: float,
        memory_bytes_max: int,
        largest_batch_bytes: int = DECOMPRESSED_BYTES_MAX,
        once: bool,
        clock: Clock,
        events: Events,
        changed: Callable[[], None],
        holding: HoldingOf = owned_for_ever,
        recalls: Recalls | None = None,
    ) -> None:
        self._lock = threading.Lock()
        self._states = list(states)
        self._source_clusters = source_clusters
        self._lanes = lanes
        self._limits = LeaseLimits(
            lease_seconds=lease_seconds,
            memory_bytes_max=memory_bytes_max // lanes,
            largest_batch_bytes=largest_batch_bytes,
        )
        self._phase = Phase(once=once)
        self._clock = clock
        self._events = events
        self._changed = changed
        self._holding = holding
        self._recalls = recalls or Recalls(None)
        self._leases = 0
        self._running: dict[bytes, _Running] = {}
        self._offsets_per_second: dict[int, float] = {}  # of a lane's last lease
        self._lane_of = spread((state.shard for state in states), lanes)
        self._balanced_at = clock.elapsed_seconds()
        self._end: MirrorlakeError | None = None

    # --- asked by others ----------------------------------------------------------------------------------

    @property
    def states(self) -> Sequence[PartitionState]:
        """Every state, in the order given; read-only for others."""
        return self._states

    @property
    def end_error(self) -> MirrorlakeError | None:
        """Why the process must end, where another one took over; else None."""
        return self._end

    @property
    def is_finished(self) -> bool:
        """True where a bounded or stopping run has nothing more to do."""
        with self._lock:
            if self._end is not None:
                return True
            if self._phase.is_stopping:
                now = self._clock.elapsed_seconds()
                return not any(s.is_leased or self._phase.has_rest(s, now) for s in self._states)
            return self._phase.once and all(s.is_finished and not s.is_leased for s in self._states)

    @property
    def unflushed(self) -> Sequence[PartitionState]:
        """Archived partitions that a stop should have brought further, and could not; parked ones are left out.

        Where the position could not be read, nothing is known to be archived.
        """
        with self._lock:
            return [
                s for s in self._states if not s.is_live and not s.is_parked and (s.position or 0) < (s.once_end or 0)
            ]

    @property
    def is_quiet(self) -> bool:
        """True where no lease is under way, nor one that brought nothing back can be, and nobody has taken over."""
        now = self._clock.elapsed_seconds()
        with self._lock:
            return self._end is None and not any(s.is_leased or now < s.unknown_until_seconds for s in self._states)

    @property
    def lease_overdue_seconds(self) -> float:
        """How long ago the latest of all leases should have ended, or its worker been killed; 0 where none is late."""
        now = self._clock.elapsed_seconds()
        with self._lock:
            return max(
                (now - running.ends_by for running in self._running.values() if now > running.ends_by), default=0.0
            )

    @property
    def is_complete(self) -> bool:
        """True where every partition of a bounded run is at its end, or nothing will get it there."""
        with self._lock:
            return all(state.is_finished for state in self._states)

    @property
    def progress(self) -> tuple[int, int]:
        """Offsets copied and offsets to copy of a bounded run, over all destinations; both 0 until they are known."""
        with self._lock:
            spans = [state.span for state in self._states if state.span is not None]
        return sum(done for done, _ in spans), sum(total for _, total in spans)

    def source_cluster(self, mirror: str) -> ClusterSettings:
        """Returns how to reach the source of ``mirror``."""
        return self._source_clusters[mirror]

    def add(self, states: Sequence[PartitionState], source_clusters: Mapping[str, ClusterSettings]) -> None:
        """Adds partitions found later; shards already served keep their lane."""
        with self._lock:
            self._source_clusters = {**self._source_clusters, **source_clusters}
            self._states = [*self._states, *states]
            for shard in sorted({s.shard for s in states} - self._lane_of.keys()):
                self._lane_of[shard] = len(self._lane_of) % self._lanes
        self._changed()

    def retire(self, states: Sequence[PartitionState]) -> bool:
        """Ends ``states``, which are replaced or gone; False, and none ended yet, while a lease may be at work on one.

        No further lease of theirs begins, so that a later call finds them at rest.
        """
        now = self._clock.elapsed_seconds()
        with self._lock:
            for state in states:
                state.is_ending = True
            if any(state.is_leased or now < state.unknown_until_seconds for state in states):
                return False
            ended = {id(state) for state in states}
            self._states = [state for state in self._states if id(state) not in ended]
        return True

    def explain(self, state: PartitionState, error: MirrorlakeError) -> None:
        """Takes that there is a better reason why ``state`` stands parked than the one its last lease had."""
        with self._lock:
            if state.is_parked:
                state.error = error
                self._events.lease_ended(-1, state, None, Decision.PARK)

    def stopped(self, state: PartitionState, error: MirrorlakeError) -> None:
        """Takes that a look at the clusters found a partition that must not be copied any more; a later one may not."""
        with self._lock:
            state.was_refused = True
            for running in self._running.values():
                if any(each is state for each in running.states):
                    self._recalls.recall(running.number)
        self.drifted(state, error)

    def drifted(self, state: PartitionState, error: MirrorlakeError) -> None:
        """Takes that the last segment of an archived partition is not what it was: it stops, once."""
        now = self._clock.elapsed_seconds()
        with self._lock:
            if not state.is_parked and not state.is_ending:
                self._events.lease_ended(-1, state, None, state.failed(error, now))
        self._changed()

    def tail_seen(self, state: PartitionState, tail: Segment) -> None:
        """Takes the last segment of an archived partition, as a look at it found it."""
        with self._lock:
            state.saw_tail(tail)

    def superseded(self, error: SupersededError) -> None:
        """Takes that another process owns a mirror now: no further lease begins."""
        with self._lock:
            self._end = error
            self._recall_all()
        self._changed()

    def stop(self) -> None:
        """Asks for the graceful end: live leases are not renewed, what waits for an archive now is flushed.

        What the sources gain from now on is left to the next start, or a busy source would never let go.
        """
        with self._lock:
            self._phase = replace(self._phase, is_stopping=True)
            for state in self._states:
                if not state.is_live and state.once_end is None:
                    state.once_end = state.source_end
            self._recall_all()
        self._changed()

    def recall_waited_for(self) -> None:
        """Recalls leases that run longer than usual where something waits for their end."""
        now = self._clock.elapsed_seconds()
        with self._lock:
            for running in self._running.values():
                if now >= running.began + self._limits.lease_seconds and self._is_waited_for(running, now):
                    self._recalls.recall(running.number)

    def _is_waited_for(self, running: _Running, now: float) -> bool:
        """Returns whether partitions wait for the lane, or leave it."""
        leave = any(state.is_ending or self._lane_of[state.shard] != running.lane for state in running.states)
        return leave or bool(self._choose(running.lane, now))

    def _recall_all(self) -> None:
        for running in self._running.values():
            self._recalls.recall(running.number)

    def observed(self, cluster: str, ends: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Takes log start and last stable offset of partitions of the source cluster of that name."""
        now, wall = self._clock.elapsed_seconds(), self._clock.now_seconds()
        with self._lock:
            for state in self._states:
                if state.source in ends and self._source_clusters[state.mirror].name == cluster:
                    state.saw_source(*ends[state.source], now, wall)
                    if self._phase.once and state.once_end is None:
                        state.once_end = state.source_end
                    is_outside = state.is_ahead(now) or state.is_truncated
                    if not state.is_live and not state.is_leased and is_outside:
                        error = explain_out_of_range(state.source, state.position or 0, *ends[state.source])
                        self._events.lease_ended(-1, state, None, state.failed(error, now))
            self._balance(now)
            self._events.looked(self._states)

    def ends_to_ask(self, cluster: str) -> Sequence[TopicPartition]:
        """Returns the partitions of a source cluster whose logs may end below what this run was to copy."""
        with self._lock:
            here = (s for s in self._states if self._source_clusters[s.mirror].name == cluster)
            return sorted({state.source for state in here if state.may_have_lost_its_end})

    def log_ends(self, cluster: str, ends: Mapping[TopicPartition, int]) -> None:
        """Takes where the leaders' logs end. A bounded run, or a stop, that was to go further ends there.

        The records between are gone at the source (an unclean election, a disk): nobody can copy them any more.
        """
        with self._lock:
            for state in self._states:
                if state.source not in ends or self._source_clusters[state.mirror].name != cluster:
                    continue
                if state.may_have_lost_its_end and state.once_end is not None and ends[state.source] < state.once_end:
                    self._events.source_lost_its_end(state, ends[state.source])
                    state.once_end = ends[state.source]
        self._changed()

    def times_to_ask(self, cluster: str) -> Mapping[int, Sequence[TopicPartition]]:
        """Returns the times whose offsets archives want to know of a source cluster, in Unix milliseconds."""
        now, wall = self._clock.elapsed_seconds(), self._clock.now_seconds()
        asked: dict[int, set[TopicPartition]] = defaultdict(set)
        with self._lock:
            for state in self._states:
                if self._source_clusters[state.mirror].name == cluster:
                    for time_ms in state.times_to_ask(now_seconds=now, wall_seconds=wall):
                        asked[time_ms].add(state.source)
        return {time_ms: sorted(partitions) for time_ms, partitions in asked.items()}

    def answered(self, cluster: str, time_ms: int, offsets: Mapping[TopicPartition, int]) -> None:
        """Takes the first offset at or after a time, for each partition asked for; its end where there is none."""
        with self._lock:
            for state in self._states:
                if state.source in offsets and self._source_clusters[state.mirror].name == cluster:
                    state.flush_clock.answered(time_ms, offsets[state.source])

    def keeps(self, retentions: Mapping[tuple[str, TopicPartition], Retention]) -> None:
        """Takes what source topics keep now, by mirror and partition."""
        with self._lock:
            for state in self._states:
                if found := retentions.get((state.mirror, state.source)):
                    state.flush_clock.retention = found

    def _balance(self, now: float) -> None:
        """Lets the lane that is furthest behind hand a shard over, now and then; it moves with its next lease."""
        if now - self._balanced_at < BALANCE_SECONDS:
            return
        if any(running.began < self._balanced_at for running in self._running.values()):
            return  # what the last move did is not known yet
        self._balanced_at = now
        backlog: dict[str, int] = defaultdict(int)
        for state in self._states:
            if state.is_live and not state.is_parked:
                backlog[state.shard] += state.lag or 0
        move = find_move(self._lane_of, backlog, self._lanes)
        if move is not None:
            self._lane_of[move.shard] = move.lane
            self._events.shard_moved(move.shard, move.lane)

    # --- the lanes' side ----------------------------------------------------------------------------------

    def next_lease(self, lane_index: int) -> Lease | None:
        """Returns the lane's next lease: its own live partitions and whatever is due, or None."""
        now = self._clock.elapsed_seconds()
        with self._lock:
            if self._end is not None:
                return None
            chosen = self._choose(lane_index, now)
            if not chosen:
                return None
            plan = self._plan(lane_index, chosen)
            lease = Lease(
                work=WORK,
                plan=plan_bytes(plan),
                description=f"lease {plan.lease} of lane {lane_index}: {len(chosen)} partition(s)",
                seconds=plan.hard_seconds,
            )
            self._running[lease.plan] = _Running(
                number=plan.lease,
                lane=lane_index,
                began=now,
                ends_by=now + seconds_until_over(lease.seconds) + WATCHDOG_SECONDS,
                sends_until=now + seconds_until_over(plan.send_seconds),
                writes_until=now + seconds_until_over(plan.hard_seconds),
                states=[state for state, _ in chosen],
            )
            for state, _ in chosen:
                state.is_leased = True
                state.is_tried_at_stop = self._phase.is_stopping
            return lease

    def lease_ended(self, lane_index: int, lease: Lease, outcome: list[JobRow] | MirrorlakeError) -> None:
        """Takes the rows of a lease; partitions it says nothing of have an unknown outcome."""
        rows, unknown = _split(outcome)
        now = self._clock.elapsed_seconds()
        with self._lock:
            ended = self._running.pop(lease.plan)
            self._recalls.forget(ended.number)
            self._events.lease_took(lane_index, now - ended.began)
            self._offsets_per_second[lane_index] = _offsets(rows.values()) / max(now - ended.began, LEASE_SECONDS_MIN)
            with self._events.together():
                for state in ended.states:
                    state.is_leased = False
                    row = rows.get((state.mirror, state.source, state.destination))
                    if row is None:
                        until = ended.sends_until if state.is_live else ended.writes_until
                        state.unknown_until_seconds = until
                    decision = state.took(row, now) if row is not None else state.failed(unknown, now)
                    self._events.lease_ended(lane_index, state, row, decision)
                    if decision is Decision.END:
                        self._end = state.error
            self._share_hand_offs(ended.states, rows)
        self._changed()

    def _share_hand_offs(
        self, leased: Sequence[PartitionState], rows: Mapping[tuple[str, TopicPartition, str], LeaseRow]
    ) -> None:
        """Gives every partition of a shard that is leased whole what its last lease left: one alone cannot tell.

        A row with an error counts too, as its source may have failed and not the shard. Where rows differ or are
        missing there is no hand-off, for partitions that were not in the lease neither.
        """
        left: dict[tuple[str, str], list[ProducerHandOff | None]] = defaultdict(list)
        for state in leased:
            if state.work.needs_whole_shard:
                row = rows.get((state.mirror, state.source, state.destination))
                left[state.shard, state.work.cluster_name].append(row.hand_off if row is not None else None)
        for state in self._states:
            if state.work.needs_whole_shard and (found := left.get((state.shard, state.work.cluster_name))):
                state.hand_off = found[0] if all(each == found[0] for each in found) else None

    # --- choosing -----------------------------------------------------------------------------------------

    def _choose(self, lane: int, now: float) -> list[Chosen]:
        return choose(
            self._states, lane=lane, lane_of=self._lane_of, lanes=self._lanes, phase=self._phase, now_seconds=now
        )

    def _plan(self, lane: int, chosen: Sequence[Chosen]) -> LeasePlan:
        self._leases += 1
        live_seconds = self._limits.lease_seconds
        if self._recalls.reach_workers:
            pace = self._offsets_per_second.get(lane, 0.0)
            live_seconds = live_seconds_of(chosen, lease_seconds=live_seconds, offsets_per_second=pace)
        return plan_of(
            chosen,
            lease=self._leases,
            lane=lane,
            live_seconds=live_seconds,
            limits=self._limits,
            source_clusters=self._source_clusters,
            orders=self._orders,
            begins_by=Moment.of(self._clock, in_seconds=BEGIN_SECONDS_MAX),
            recall_file=self._recalls.file_of(self._leases),
        )

    def _orders(self, state: PartitionState, due: Due | None) -> Orders:
        orders, written = orders_of(state, due), state.work.written_partition
        if written is None:
            return orders
        holding = self._holding(state.mirror, written.cluster, shard_of(state.source), written.partition)
        return with_owner(orders, state, holding, now_seconds=self._clock.elapsed_seconds())


def _offsets(rows: Iterable[LeaseRow]) -> int:
    """Returns how many offsets a lease brought its destinations further."""
    return sum(max(0, row.position - row.start_offset) for row in rows if row.position is not None)


def _split(
    outcome: list[JobRow] | MirrorlakeError,
) -> tuple[dict[tuple[str, TopicPartition, str], LeaseRow], MirrorlakeError]:
    """Returns the lease's rows by state, and the error that holds for every state without one."""
    if isinstance(outcome, MirrorlakeError):
        return {}, outcome
    rows: dict[tuple[str, TopicPartition, str], LeaseRow] = {}
    unknown: MirrorlakeError = OutcomeUnknownError("the lease brought nothing back for this partition")
    for job_row in outcome:
        row = job_row.get("row")
        if isinstance(row, LeaseRow):
            rows[row.mirror, row.source, row.destination] = row
        elif job_row["kind"] == "retried":
            unknown = OutcomeUnknownError("the worker of the lease died; what it did last is unknown")
        else:
            unknown = OutcomeUnknownError(
                f"the lease failed: {job_row.get('error_type')}: {job_row.get('message')}",
            )
            unknown.__cause__ = RuntimeError(str(job_row.get("traceback", "")))
    return rows, unknown
