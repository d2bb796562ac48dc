"""Decides which lease each lane runs next, and takes what leases bring back.

Thread-safe: lanes ask from their own threads. What it knows of partitions is in the table of states, whose lock it
shares: what is chosen stays as it was until it is leased.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf

from mirrorlake.clock import Clock
from mirrorlake.errors import MirrorlakeError, SupersededError
from mirrorlake.kafka.records.scratch import DECOMPRESSED_BYTES_MAX
from mirrorlake.mirror.pace import PaceOrder
from mirrorlake.mirror.plan_bytes import plan_bytes
from mirrorlake.mirror.renewal import is_taken, write_renewal
from mirrorlake.mirror.told_progress import read_told
from mirrorlake.mirror.work import LeasePlan, LeaseRow
from mirrorlake.moments import Moment
from mirrorlake.pipeline.lanes import Lease
from mirrorlake.pipeline.lease_files import LeaseFiles
from mirrorlake.pipeline.lease_job import LeaseRow as JobRow
from mirrorlake.service.balance import ShardLanes, find_move
from mirrorlake.service.choosing import Chosen, choose
from mirrorlake.service.lease_plans import (
    LeaseLimits,
    description_of,
    live_seconds_of,
    plan_of,
)
from mirrorlake.service.leases.begin_times import BeginTimes
from mirrorlake.service.leases.lease_orders import NO_SCHEMA_IDS, LeaseOrders, SchemaIds
from mirrorlake.service.leases.outcome import outcome_of
from mirrorlake.service.leases.running import RunningLease, Standing, are_well, may_begin_to_last
from mirrorlake.service.owners.holding import Holding, HoldingOf, owned_for_ever
from mirrorlake.service.pacing import Limits, Pacing
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.sight.events import Events
from mirrorlake.service.state_table import RowKey, StateTable
from mirrorlake.stores.settings import StoreSettings

WORK = "mirrorlake.mirror.lease_worker:work"

LOOK_SECONDS = 0.5
"""Between two looks at what leases tell of their progress."""

LOAD_LOOK_SECONDS = 2.0
"""Between two looks whether one lane is enough, or is not any more."""

BALANCE_SECONDS = 15.0
"""Time for a few leases between two moves, so that the effect of one is seen before the next."""


def _not_seen(_: StoreSettings) -> str:
    return ""


class Supervisor:
    """Turns the table of states into leases, lane by lane.

    Args:
        table: the state of every partition.
        lanes: how many lanes there are.
        lease_seconds: how long a live lease runs; `lease_seconds_max` where it copies to Kafka only, can be recalled,
            and none of its partitions has failed.
        memory_bytes_max: bound of the receive buffers of all lanes together.
        largest_batch_bytes: what one record batch may decompress to.
        clock: the driver's clock.
        events: told what happens; logs and metrics hang there.
        holding: what this process holds of a shard at a Kafka destination.
        archive_id_of: the id of the archive that was seen in a root, empty where none was.
        lease_files: ends leases before their time, and says how far they are.
        limits: bytes per second by mirror, as they are now.
        gathers: whether one lane serves everything while nothing is behind.
        schemas: knows what schema ids become, and is told those that leases have met and nobody knows.
        changed: called when somebody waiting for the end should look again.
    """

    def __init__(
        self,
        table: StateTable,
        *,
        lanes: int,
        lease_seconds: float,
        memory_bytes_max: int,
        largest_batch_bytes: int = DECOMPRESSED_BYTES_MAX,
        clock: Clock,
        events: Events,
        changed: Callable[[], None],
        holding: HoldingOf = owned_for_ever,
        archive_id_of: Callable[[StoreSettings], str] = _not_seen,
        lease_files: LeaseFiles | None = None,
        limits: Callable[[], Limits] = dict,
        gathers: bool = False,
        schemas: SchemaIds = NO_SCHEMA_IDS,
    ) -> None:
        self._pacing = Pacing(limits)
        self._begin_times = BeginTimes(lease_seconds)
        self._table = table
        self._lanes = lanes
        self._limits = LeaseLimits(
            lease_seconds=lease_seconds,
            memory_bytes_max=memory_bytes_max // lanes,
            largest_batch_bytes=largest_batch_bytes,
        )
        self._clock = clock
        self._events = events
        self._changed = changed
        self._orders = LeaseOrders(clock, holding=holding, archive_id_of=archive_id_of, schemas=schemas)
        self._lease_files = lease_files or LeaseFiles(None)
        self._leases = 0
        self._running: dict[bytes, RunningLease] = {}
        self._balanced_at = self._load_looked_at = clock.elapsed_seconds()
        self._shard_lanes = ShardLanes(
            (state.shard for state in table.states), lanes=lanes, gathers=gathers, now_seconds=self._balanced_at
        )
        self._progress_looked_at = -inf
        self._end: MirrorlakeError | None = None

    # --- asked by others ----------------------------------------------------------------------------------

    @property
    def end_error(self) -> MirrorlakeError | None:
        """Why the process must end, where another one took over; else None."""
        return self._end

    @property
    def is_finished(self) -> bool:
        """True where a bounded or stopping run has nothing more to do, or another process has taken over."""
        return self._end is not None or self._table.is_finished

    @property
    def is_quiet(self) -> bool:
        """True where no lease is under way, nor one that brought nothing back can be, and nobody has taken over."""
        return self._end is None and self._table.is_quiet

    @property
    def lease_overdue_seconds(self) -> float:
        """How long ago the latest of all leases should have ended, or its worker been killed; 0 where none is late."""
        now = self._clock.elapsed_seconds()
        with self._table.held():
            return max(
                (now - running.ends_by for running in self._running.values() if now > running.ends_by), default=0.0
            )

    def superseded(self, error: SupersededError) -> None:
        """Ends the run, as another process owns a mirror now: no further lease begins."""
        with self._table.held():
            self._end = error
            self._recall_all()
        self._changed()

    def stop(self) -> None:
        """Asks for the graceful end: live leases are not renewed, what waits for an archive now is flushed."""
        with self._table.held():
            self._table.stopping()
            self._recall_all()
        self._changed()

    def stopped(self, state: PartitionState, error: MirrorlakeError) -> None:
        """Stops a partition that, by a look at the clusters, must not be copied any more; a later look may allow it."""
        with self._table.held():
            self._table.stopped(state, error)
            self.recall([state])

    def recall(self, states: Sequence[PartitionState]) -> None:
        """Asks the leases that serve one of ``states`` to end before their time."""
        wanted = {id(state) for state in states}
        with self._table.held():
            for running in self._running.values():
                if any(id(state) in wanted for state in running.states):
                    self._lease_files.recall(running.number)

    def recall_waited_for(self) -> None:
        """Recalls leases that run longer than usual where something waits for their end."""
        now = self._clock.elapsed_seconds()
        with self._table.held():
            for running in self._running.values():
                if now >= running.began + self._limits.lease_seconds and self._is_waited_for(running, now):
                    self._lease_files.recall(running.number)

    def let_go_on(self) -> None:
        """Lets leases go on, for as long as one that begins now, where nothing waits for their end and all is well.

        What is counted of them here comes before what their workers may see: a crash in between costs nobody anything.
        Not where what was allowed before was not taken: a worker that is frozen is waited for no longer.
        """
        with self._table.held():
            for running in self._running.values():
                # Before the clock is read for what is counted here, should this process be stopped in between.
                until = Moment.of(self._clock, in_seconds=running.live_seconds)
                now = self._clock.elapsed_seconds()
                if self._end is None and running.is_time(now) and self._may_go_on(running, now):
                    if not is_taken(running.renewal_file):
                        continue
                    running.goes_on(now)
                    write_renewal(running.renewal_file, until)

    def _may_go_on(self, running: RunningLease, now: float) -> bool:
        phase = self._table.phase
        if phase.once or phase.is_stopping or running.standing is None or not are_well(running.states):
            return False
        # A limit that came since recalls the lease; where that could not be written, it ends by itself.
        if self._pacing.limited & {state.mirror for state in running.states}:
            return False
        if any(known != self._orders.standing(s) for s, known in zip(running.states, running.standing, strict=True)):
            return False
        return not self._is_waited_for(running, now)

    def look_at_progress(self) -> None:
        """Takes what leases that run tell of their progress: for people to see, and nothing is decided by it."""
        now = self._clock.elapsed_seconds()
        if now < self._progress_looked_at + LOOK_SECONDS:
            return
        self._progress_looked_at = now
        with self._table.held():
            running = [(each.number, each.states) for each in self._running.values()]
        for number, states in running:
            if told := read_told(self._lease_files.progress_file_of(number)):
                with self._table.held():
                    # Its partitions may be in the next lease by now, which has done none of this.
                    if any(each.number == number for each in self._running.values()):
                        self._table.told(states, told)

    def _is_waited_for(self, running: RunningLease, now: float) -> bool:
        """Returns whether partitions wait for the lane, or leave it, or it must be told what segments were cut."""
        leave = any(self._shard_lanes.of[shard] != running.lane for shard in running.shards)
        untold = any(self._pacing.is_untold(mirror, running.lane) for mirror in running.paces)
        return (
            leave or untold or any(state.is_ending for state in running.states) or bool(self._choose(running.lane, now))
        )

    def _recall_all(self) -> None:
        for running in self._running.values():
            self._lease_files.recall(running.number)

    def balance(self) -> None:
        """Lets the lane that is furthest behind hand a shard over, now and then; it moves with its next lease.

        While nothing is behind one lane serves everything.
        """
        now = self._clock.elapsed_seconds()
        with self._table.held():
            if now >= self._load_looked_at + LOAD_LOOK_SECONDS:
                self._load_looked_at = now
                self._gather(now)
            if now < self._balanced_at + BALANCE_SECONDS:
                return
            if any(running.since < self._balanced_at for running in self._running.values()):
                return  # what the last move did is not known yet
            self._balanced_at = now
            self._add_new_shards()
            backlog: dict[str, int] = defaultdict(int)
            for state in self._copied():
                backlog[state.shard] += state.lag or 0
            move = find_move(self._shard_lanes.of, backlog, self._lanes)
            if move is not None:
                self._shard_lanes.take(move)
                self._events.shard_moved(move.shard, move.lane)

    def _gather(self, now: float) -> None:
        phase = self._table.phase
        if self._end is not None or phase.once or phase.is_stopping:
            return
        if not (copied := list(self._copied())):
            return
        # What is not known may be much: partitions that were never looked at are not called quiet. And a mirror with a
        # limit has a share of it in each lane: one that took over all of it would begin beside those that still read.
        may_be = all(s.lag is not None for s in copied) and not self._pacing.limited & {s.mirror for s in copied}
        backlog = sum(state.lag or 0 for state in copied) if may_be else None
        self._served_by(self._shard_lanes.look(backlog=backlog, partitions=len(copied), now_seconds=now))

    def _served_by(self, lanes: int | None) -> None:
        if lanes is not None:
            self._events.served_by(lanes)
            self._changed()

    def _copied(self) -> Iterator[PartitionState]:
        """Yields what every lease of its lane copies."""
        return (s for s in self._table.states if s.is_live and not s.is_parked and not s.is_paused)

    def _add_new_shards(self) -> None:
        self._shard_lanes.add(state.shard for state in self._table.states)

    # --- the lanes' side ----------------------------------------------------------------------------------

    def next_lease(self, lane_index: int) -> Lease | None:
        """Returns the lane's next lease: its own live partitions and whatever is due, or None."""
        now = self._clock.elapsed_seconds()
        with self._table.held():
            if self._end is not None:
                return None
            chosen = self._choose(lane_index, now)
            if not chosen:
                return None
            live_seconds = self._begin_times.live_seconds(lane_index, self._live_seconds(chosen))
            standing = self._lasting(chosen, now, live_seconds=live_seconds)
            begin_seconds = self._begin_times.begin_seconds(lane_index)
            plan = self._plan(
                lane_index,
                chosen,
                begin_seconds=begin_seconds,
                live_seconds=live_seconds,
                may_go_on=standing is not None,
            )
            lease = Lease(
                work=WORK,
                plan=plan_bytes(plan),
                description=description_of(plan, lane_index),
                seconds=plan.hard_seconds,
            )
            # The reading from which its worker counts: this process may have been stopped since the one above.
            planned = plan.begins_by.elapsed_seconds - begin_seconds
            self._running[lease.plan] = RunningLease(
                number=plan.lease,
                lane=lane_index,
                began=planned,
                since=planned,
                begin_seconds=begin_seconds,
                live_seconds=plan.live_seconds,
                send_seconds=plan.send_seconds,
                hard_seconds=plan.hard_seconds,
                paces=plan.paces,
                renewal_file=plan.renewal_file,
                prolonged=lease.prolonged,
                states=[state for state, _ in chosen],
                shards=frozenset(state.shard for state, _ in chosen),
                standing=standing,
            )
            self._table.leased(state for state, _ in chosen)
            return lease

    def lease_ended(self, lane_index: int, lease: Lease, outcome: list[JobRow] | MirrorlakeError) -> None:
        """Takes the rows of a lease; partitions it says nothing of have an unknown outcome."""
        rows, unknown = brought = outcome_of(outcome)
        now = self._clock.elapsed_seconds()
        with self._table.held():
            ended = self._running.pop(lease.plan)
            self._lease_files.forget(ended.number)
            self._begin_times.lease_ended(lane_index, was_late=brought.was_late)
            self._events.lease_took(lane_index, now - ended.began)
            self._pay(lane_index, ended, rows, now)
            self._orders.ask_for_ids(rows.values())
            superseded = self._table.lease_ended(
                lane_index,
                ended.states,
                rows,
                unknown=unknown,
                archived_until_seconds=ended.writes_until,
                sent_until_seconds=ended.sends_until,
            )
            self._end = superseded or self._end
            if not rows:
                self._served_by(self._shard_lanes.lost(now_seconds=now))
        self._changed()

    # --- choosing -----------------------------------------------------------------------------------------

    def _choose(self, lane: int, now: float) -> list[Chosen]:
        self._add_new_shards()
        return choose(
            self._table.states,
            lane=lane,
            lane_of=self._shard_lanes.of,
            lanes=self._lanes,
            phase=self._table.phase,
            now_seconds=now,
            held_back=self._pacing.held_back(now_seconds=now),
        )

    def _lanes_of(self, mirror: str) -> set[int]:
        """Returns the lanes that have live copies of a mirror."""
        shards = {state.shard for state in self._table.states if state.mirror == mirror and state.is_live}
        return {self._shard_lanes.of[shard] for shard in shards if shard in self._shard_lanes.of}

    def _paces(self, lane: int, chosen: Sequence[Chosen]) -> dict[str, PaceOrder]:
        return self._pacing.orders(
            {state.mirror for state, _ in chosen},
            lane,
            lanes_of=lambda mirror: max(1, len(self._lanes_of(mirror))),
            now_seconds=self._clock.elapsed_seconds(),
        )

    def _pay(self, lane: int, ended: RunningLease, rows: Mapping[RowKey, LeaseRow], now: float) -> None:
        """Takes what a lease has read of mirrors with a limit; what is not known of it counts as its share."""
        for mirror, order in ended.paces.items():
            found = [row for row in rows.values() if row.mirror == mirror]
            live_bytes = sum(row.live_bytes for row in found)
            cut_bytes = sum(row.cut_bytes for row in found)
            if not found:
                live_bytes = int(order.bytes_per_second * (now - ended.began))
            debt_bytes = max((row.debt_bytes for row in found if row.debt_bytes is not None), default=None)
            lanes = self._lanes_of(mirror)
            self._pacing.cut(mirror, lanes=lanes, read_bytes=cut_bytes, began=ended.began, now=now)
            self._pacing.live_ended(
                mirror, lane, order, read_bytes=live_bytes, debt_bytes=debt_bytes, began=ended.began, now=now
            )

    def _live_seconds(self, chosen: Sequence[Chosen]) -> float:
        live_seconds = self._limits.lease_seconds
        return live_seconds_of(chosen, lease_seconds=live_seconds) if self._lease_files.reach_workers else live_seconds

    def _lasting(self, chosen: Sequence[Chosen], now: float, *, live_seconds: float) -> Sequence[Standing] | None:
        """Returns what is told of the partitions of a lease that may go on; None where it may not."""
        if self._table.phase.once or live_seconds <= self._limits.lease_seconds:
            return None
        if self._pacing.limited & {state.mirror for state, _ in chosen}:
            return None
        standing: list[Standing] = []
        holdings: dict[Holding, Holding] = {}  # those of a shard are equal, and kept once
        for state, _ in chosen:
            found = self._orders.standing(state)
            if found is None or not may_begin_to_last(state, found.holding, now=now):
                return None
            standing.append(found._replace(holding=holdings.setdefault(found.holding, found.holding)))
        return standing

    def _plan(
        self, lane: int, chosen: Sequence[Chosen], *, begin_seconds: float, live_seconds: float, may_go_on: bool
    ) -> LeasePlan:
        self._leases += 1
        return plan_of(
            chosen,
            lease=self._leases,
            lane=lane,
            live_seconds=live_seconds,
            limits=self._limits,
            sources=self._table.sources,
            orders=self._orders.of,
            begins_by=Moment.of(self._clock, in_seconds=begin_seconds),
            recall_file=self._lease_files.recall_file_of(self._leases),
            progress_file=self._lease_files.progress_file_of(self._leases),
            renewal_file=self._lease_files.renewal_file_of(self._leases) if may_go_on else "",
            paces=self._paces(lane, chosen),
        )
