"""The states of all partitions, behind one lock: whoever has something to say of a partition says it here.

No other module writes states. What is written means nothing after a crash (law 1): every position in it was read from
a destination, and a pause lasts as long as the process.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import replace
from types import MappingProxyType

from mirrorlake.archive.chain import Segment
from mirrorlake.clock import Clock
from mirrorlake.destinations.interface import ProducerHandOff
from mirrorlake.destinations.source_bounds import explain_out_of_range
from mirrorlake.errors import MirrorlakeError
from mirrorlake.mirror.flush_clock import Retention
from mirrorlake.mirror.policy import Decision
from mirrorlake.mirror.told_progress import ToldProgress
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.choosing import Phase
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.selection import Pauses, Selection
from mirrorlake.service.sight.events import Events
from mirrorlake.sources.client import Bounds, seen_from
from mirrorlake.sources.source import SourceWork

RowKey = tuple[str, TopicPartition, str]
"""Mirror, source partition and destination of a lease's row."""


def _tell_nobody() -> None:
    """Tells nobody."""


class StateTable:
    """The state of every partition at every destination. Thread-safe.

    Args:
        once: stop at each state's ``once_end``, flushing whatever the triggers say.
        clock: the driver's clock.
        events: told what happens; logs and metrics hang there.
        changed: called when somebody waiting for the end should look again.
        pauses: in force from the beginning, where there are some.
    """

    def __init__(
        self,
        *,
        once: bool,
        clock: Clock,
        events: Events,
        changed: Callable[[], None] = _tell_nobody,
        pauses: Pauses | None = None,
    ) -> None:
        self._lock = threading.RLock()
        self._states: list[PartitionState] = []
        self._sources: Mapping[str, SourceWork] = {}
        self._phase = Phase(once=once)
        self._pauses = pauses or Pauses()
        self._clock = clock
        self._events = events
        self._changed = changed

    # --- read ---------------------------------------------------------------------------------------------

    def held(self) -> AbstractContextManager[bool]:
        """Keeps everybody else from the table within a block: for what is chosen by several states at one moment."""
        return self._lock

    @property
    def states(self) -> Sequence[PartitionState]:
        """Every state, in the order added; read-only for others."""
        return self._states

    @property
    def now_seconds(self) -> float:
        """The reading of the clock by which states are judged."""
        return self._clock.elapsed_seconds()

    @property
    def phase(self) -> Phase:
        """How the run is going."""
        return self._phase

    @property
    def pauses(self) -> Pauses:
        """What is paused, those included that are found later."""
        return self._pauses

    @property
    def sources(self) -> Mapping[str, SourceWork]:
        """How to reach the source, by mirror."""
        return self._sources

    @property
    def is_finished(self) -> bool:
        """True where a bounded or stopping run has nothing more to do."""
        with self._lock:
            if self._phase.is_stopping:
                now = self._clock.elapsed_seconds()
                return not any(s.is_leased or self._phase.has_rest(s, now) for s in self._states)
            return self._phase.once and all(s.is_finished and not s.is_leased for s in self._states)

    @property
    def is_quiet(self) -> bool:
        """True where no lease is under way, nor one that brought nothing back can be."""
        now = self._clock.elapsed_seconds()
        with self._lock:
            return not any(s.is_leased or now < s.unknown_until_seconds for s in self._states)

    @property
    def unflushed(self) -> Sequence[PartitionState]:
        """Archived partitions that a stop should have brought further, and could not; no parked or paused ones.

        Where the position could not be read, nothing is known to be archived.
        """
        with self._lock:
            wanted = [s for s in self._states if not (s.is_live or s.is_parked or s.is_paused)]
            return [s for s in wanted if (s.position or 0) < (s.once_end or 0)]

    @property
    def progress(self) -> tuple[int, int]:
        """Offsets copied and offsets to copy of a bounded run, over all destinations; both 0 until they are known."""
        with self._lock:
            spans = [state.span for state in self._states if state.span is not None]
        return sum(done for done, _ in spans), sum(total for _, total in spans)

    # --- partitions come and go ---------------------------------------------------------------------------

    def add(
        self,
        states: Sequence[PartitionState],
        sources: Mapping[str, SourceWork],
        *,
        refused: Iterable[tuple[PartitionState, MirrorlakeError]] = (),
        until_another_look: Iterable[PartitionState] = (),
    ) -> None:
        """Adds partitions; those of a paused selection are paused from the beginning.

        Args:
            states: new, and nobody else's.
            sources: where to read, by mirror.
            refused: of ``states``, those that cannot begin, each with the reason.
            until_another_look: of ``states``, those that another look at the clusters may find well.
        """
        now = self._clock.elapsed_seconds()
        with self._lock, self._events.together():
            for state, error in refused:
                state.failed(error, now)
            for state in until_another_look:
                state.was_refused = True
            for state in states:
                state.is_paused = self._pauses.is_paused(state.mirror, state.source)
                self._events.began(state)
            # What is served already keeps its source until `sources_seen` tells of another.
            self._sources = {**sources, **self._sources}
            self._states = [*self._states, *states]
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
            self._forget_bounds({(state.mirror, state.source) for state in states})
        return True

    def _forget_bounds(self, ended: Set[tuple[str, TopicPartition]]) -> None:
        """Has what no destination of a mirror is served of any more begin without what looks have told of it."""
        served = {(state.mirror, state.source) for state in self._states}
        gone: dict[str, set[TopicPartition]] = defaultdict(set)
        for mirror, source in ended - served:
            gone[mirror].add(source)
        forgotten = {name: self._sources[name].forgetting(sources) for name, sources in gone.items()}
        self._sources = {**self._sources, **forgotten}

    # --- commands -----------------------------------------------------------------------------------------

    def selected(self, selection: Selection) -> list[PartitionState]:
        """Returns the states that a selection means now."""
        with self._lock:
            return [state for state in self._states if selection.includes(state.mirror, state.source)]

    def set_paused(self, selection: Selection, *, is_paused: bool) -> list[PartitionState]:
        """Pauses or resumes what a selection means, now and later; returns the states that changed. Idempotent.

        A lease that is under way is left to end. What is resumed is compared with its source at its next lease, as
        after a start: others may have been at work on the destination meanwhile.
        """
        with self._lock:
            self._pauses = self._pauses.with_rule(selection, is_paused=is_paused)
            changed = [s for s in self.selected(selection) if s.is_paused is not is_paused]
            for state in changed:
                state.is_paused = is_paused
                if not is_paused:
                    state.doubt_source()
                    state.hand_off = None
        self._changed()
        return changed

    def ask_restart(self, selection: Selection) -> list[PartitionState]:
        """Notes that what is parked or fails of a selection is to begin anew; returns those states. Idempotent."""
        with self._lock:
            asked = [s for s in self.selected(selection) if s.is_parked or s.failures]
            for state in asked:
                state.is_restart_asked = True
        self._changed()
        return asked

    def restart_refused(self, states: Iterable[PartitionState]) -> None:
        """Withdraws the restart that was asked for these partitions: a look has shown that they cannot begin anew."""
        with self._lock:
            for state in states:
                state.is_restart_asked = False

    def stopping(self) -> None:
        """Begins the end of the run: records that wait for an archive now are the last that are flushed.

        What the sources gain from now on is left to the next start, or a busy source would never let go.
        """
        with self._lock:
            self._phase = replace(self._phase, is_stopping=True)
            for state in self._states:
                if not state.is_live and state.once_end is None:
                    state.once_end = state.source_end

    # --- what looks at clusters and stores found ----------------------------------------------------------

    def explain(self, state: PartitionState, error: MirrorlakeError) -> None:
        """Replaces the reason for which ``state`` is parked by a better one than its last lease had."""
        with self._lock:
            if state.is_parked:
                state.error = error
                self._events.lease_ended(-1, state, None, Decision.PARK)

    def stopped(self, state: PartitionState, error: MirrorlakeError) -> None:
        """Stops a partition that, by a look at the clusters, must not be copied any more; a later look may allow it."""
        with self._lock:
            state.was_refused = True
        self.drifted(state, error)

    def drifted(self, state: PartitionState, error: MirrorlakeError) -> None:
        """Stops an archived partition whose last segment is not what it was, once."""
        now = self._clock.elapsed_seconds()
        with self._lock:
            if not state.is_parked and not state.is_ending:
                self._events.lease_ended(-1, state, None, state.failed(error, now))
        self._changed()

    def tail_seen(self, state: PartitionState, tail: Segment) -> None:
        """Takes the last segment of an archived partition, as a look at it found it."""
        with self._lock:
            state.saw_tail(tail)

    def past_the_end(
        self, cluster: str, ends: Mapping[TopicPartition, Bounds | tuple[int, int]]
    ) -> Sequence[TopicPartition]:
        """Returns the partitions of a source that one of their destinations has more of than these ends show."""
        with self._lock:
            found = [state for state in self._from(cluster, ends) if not (state.is_parked or state.position is None)]
            past = [s.source for s in found if (s.position or 0) > seen_from(ends[s.source], s.position)[1]]
        return sorted(set(past))

    def observed(
        self,
        cluster: str,
        ends: Mapping[TopicPartition, Bounds | tuple[int, int]],
        missing: Mapping[TopicPartition, MirrorlakeError] = MappingProxyType({}),
    ) -> None:
        """Takes log start and last stable offset of partitions of the source cluster of that name.

        Args:
            cluster: the source's name.
            ends: by partition.
            missing: why some of those that end below a position of ours end there.
        """
        now, wall = self._clock.elapsed_seconds(), self._clock.now_seconds()
        with self._lock:
            for state in self._from(cluster, ends):
                state.saw_source(Bounds(*ends[state.source]), now, wall)
                if self._phase.once and state.once_end is None:
                    state.once_end = state.source_end
                if self._is_outside(state, now):
                    position = state.position or 0
                    start, end = seen_from(ends[state.source], state.position)
                    lost = missing.get(state.source) if position > end else None
                    error = lost or explain_out_of_range(state.source, position, start, end)
                    self._events.lease_ended(-1, state, None, state.failed(error, now))
            self._events.looked(self._states)
            self._tell_ended()

    def _is_outside(self, state: PartitionState, now: float) -> bool:
        """Tells whether what was just seen of a source is to be said of a copy that needs something else of it.

        Leases of live copies find that out themselves; but a bounded run gives none to one that is past its end.
        """
        if state.is_leased or not (state.is_ahead(now) or state.is_truncated):
            return False
        is_waited_for = self._phase.once and state.is_past_source_end
        return not state.is_live or (is_waited_for and now >= state.retry_at_seconds)

    def _tell_ended(self) -> None:
        """Tells of the partitions that have all the mirror is to copy, each once, and of mirrors without another."""
        told = [state for state in self._states if state.has_ended and not (state.is_end_told or state.is_parked)]
        for state in told:
            state.is_end_told = True
            self._events.partition_ended(state)
        for mirror in sorted({state.mirror for state in told}):
            own = [state for state in self._states if state.mirror == mirror]
            if all(state.has_ended for state in own):
                self._events.mirror_ended(mirror, own)

    def doubt_source(self, cluster: str, partitions: Container[TopicPartition]) -> None:
        """Has the next lease of these partitions compare what was copied with the source cluster of that name."""
        with self._lock:
            for state in self._from(cluster, partitions):
                state.doubt_source()

    def unseen(self, cluster: str, errors: Mapping[TopicPartition, MirrorlakeError]) -> None:
        """Takes why a look at the source cluster of that name failed, by partition.

        A source that was away may come back as another one, so that the copies are compared with it again.
        A bounded run that has not found where a partition ends gives it no lease, nor one that is past the end it has
        found. So the look is its try, or the run would wait for ever.
        """
        now = self._clock.elapsed_seconds()
        with self._lock:
            for state in self._from(cluster, errors):
                state.lost_source()
                if not self._phase.once:
                    continue
                is_begun = state.once_end is not None and not state.is_past_source_end
                is_left_alone = is_begun or state.is_leased or state.is_finished
                if not is_left_alone and not state.is_paused and now >= state.retry_at_seconds:
                    self._events.lease_ended(-1, state, None, state.failed(errors[state.source], now))

    def ends_to_ask(self, cluster: str) -> Sequence[TopicPartition]:
        """Returns the partitions of a source cluster whose logs may end below what this run was to copy."""
        with self._lock:
            return sorted({state.source for state in self._from(cluster) if state.may_have_lost_its_end})

    def log_ends(self, cluster: str, ends: Mapping[TopicPartition, int]) -> None:
        """Takes where the leaders' logs end. A bounded run, or a stop, that was to go further ends there.

        The records between are gone at the source (an unclean election, a disk): nobody can copy them any more.
        """
        with self._lock:
            for state in self._from(cluster, ends):
                if state.may_have_lost_its_end and state.once_end is not None and ends[state.source] < state.once_end:
                    self._events.source_lost_its_end(state, ends[state.source])
                    state.once_end = ends[state.source]
        self._changed()

    def times_to_ask(self, cluster: str) -> Mapping[int, Sequence[TopicPartition]]:
        """Returns the times whose offsets archives want to know of a source cluster, in Unix milliseconds."""
        now, wall = self._clock.elapsed_seconds(), self._clock.now_seconds()
        asked: dict[int, set[TopicPartition]] = defaultdict(set)
        with self._lock:
            for state in self._from(cluster):
                for time_ms in state.times_to_ask(now_seconds=now, wall_seconds=wall):
                    asked[time_ms].add(state.source)
        return {time_ms: sorted(partitions) for time_ms, partitions in asked.items()}

    def answered(self, cluster: str, time_ms: int, offsets: Mapping[TopicPartition, int]) -> None:
        """Takes the first offset at or after a time, for each partition asked for; its end where there is none."""
        with self._lock:
            for state in self._from(cluster, offsets):
                state.flush_clock.answered(time_ms, offsets[state.source])

    def sources_seen(self, sources: Mapping[str, SourceWork]) -> None:
        """Takes where to read, by mirror, as a look has found it; an archive's bounds move with what it holds.

        What a look could not tell of some partitions stays as it was known before.
        """
        with self._lock:
            known = self._sources
            seen = {name: each.seen_after(known[name]) if name in known else each for name, each in sources.items()}
            self._sources = {**known, **seen}

    def keeps(self, retentions: Mapping[tuple[str, TopicPartition], Retention]) -> None:
        """Takes what source topics keep now, by mirror and partition."""
        with self._lock:
            for state in self._states:
                if found := retentions.get((state.mirror, state.source)):
                    state.flush_clock.retention = found

    def limits_seen(self, found: Mapping[RowKey, int]) -> None:
        """Takes the largest batches that destination topics take now, by mirror, partition and destination."""
        with self._lock:
            for state in self._states:
                if limit := found.get(key_of(state)):
                    state.saw_batch_bytes_max(limit)

    def _from(self, cluster: str, among: Container[TopicPartition] | None = None) -> list[PartitionState]:
        """Returns the states whose source is in the cluster of that name; only those of ``among``, where given."""
        return [
            state
            for state in self._states
            if (among is None or state.source in among) and self._sources[state.mirror].name == cluster
        ]

    def ids_known(self, mirror: str, destination: str) -> None:
        """Has partitions that wait for schema ids leased again at once: the ids are known now, or will not be."""
        with self._lock:
            for state in self._states:
                if (state.mirror, state.destination) == (mirror, destination):
                    state.no_longer_waits()
        self._changed()

    # --- leases -------------------------------------------------------------------------------------------

    def leased(self, states: Iterable[PartitionState]) -> None:
        """Notes that a lease of these begins."""
        with self._lock:
            for state in states:
                state.is_leased = True
                state.is_tried_at_stop = self._phase.is_stopping

    def told(self, leased: Sequence[PartitionState], told: Sequence[ToldProgress]) -> None:
        """Takes what a lease of these states has told of its progress since it began; what has ended is let be."""
        by_key = {(each.mirror, each.source, each.destination): each for each in told}
        with self._lock:
            for state in leased:
                progress = by_key.get(key_of(state))
                if progress is not None and state.is_leased and progress != state.told:
                    state.saw_progress(progress)
                    self._events.lease_told(state, progress)
                    self._tell_missed_deletions(state, progress)

    def lease_ended(
        self,
        lane: int,
        leased: Sequence[PartitionState],
        rows: Mapping[RowKey, LeaseRow],
        *,
        unknown: MirrorlakeError,
        archived_until_seconds: float,
        sent_until_seconds: float,
    ) -> MirrorlakeError | None:
        """Takes the rows of a lease; returns why the process must end, where a row says that another took over.

        Args:
            lane: that ran it.
            leased: what it served.
            rows: what came back.
            unknown: the error of a state without a row, whose outcome is unknown.
            archived_until_seconds: reading of the clock until which the lease may write to archives.
            sent_until_seconds: until which it may append to Kafka.
        """
        now = self._clock.elapsed_seconds()
        end: MirrorlakeError | None = None
        with self._lock, self._events.together():
            for state in leased:
                state.is_leased = False
                row = rows.get(key_of(state))
                if row is not None:
                    self._tell_missed_deletions(state, row)
                state.deletions.lease_ended()
                if row is None:
                    state.lost_lease(sent_until_seconds if state.is_live else archived_until_seconds)
                is_first = state.first_position is None
                decision = state.took(row, now) if row is not None else state.failed(unknown, now)
                if is_first and state.first_position is not None and state.work.max_age_seconds is not None:
                    self._events.position_found(state)
                self._events.lease_ended(lane, state, row, decision)
                if decision is Decision.END:
                    end = state.error
            self._share_hand_offs(leased, rows)
            self._tell_ended()
        return end

    def _tell_missed_deletions(self, state: PartitionState, done: LeaseRow | ToldProgress) -> None:
        """Tells where a copy in a cluster may have missed tombstones; views are built anew then, archives keep all."""
        if state.is_live and state.deletions.got_on(
            done,
            kept_seconds=state.flush_clock.retention.tombstones_seconds,
            now_seconds=self._clock.elapsed_seconds(),
            wall_seconds=self._clock.now_seconds(),
        ):
            self._events.deletions_doubted(state, done)

    def _share_hand_offs(self, leased: Sequence[PartitionState], rows: Mapping[RowKey, LeaseRow]) -> None:
        """Gives every partition of a shard that is leased whole what its last lease left: one alone cannot tell.

        A row with an error counts too, as its source may have failed and not the shard. Where rows differ or are
        missing there is no hand-off, for partitions that were not in the lease neither.

        Of other shards too nothing is left by a lease that brought no row back: its worker may be at work still under
        the identity that a partition which was not in the lease was handed by the one before.
        """
        left: dict[tuple[str, str], list[ProducerHandOff | None]] = defaultdict(list)
        lost: set[tuple[str, str]] = set()
        for state in leased:
            shard = (state.shard, state.work.cluster_name)
            row = rows.get(key_of(state))
            if state.work.needs_whole_shard:
                left[shard].append(row.hand_off if row is not None else None)
            elif state.is_live and row is None:
                lost.add(shard)
        if not left and not lost:
            return
        for state in self._states:
            shard = (state.shard, state.work.cluster_name)
            if state.work.needs_whole_shard and (found := left.get(shard)):
                state.hand_off = found[0] if all(each == found[0] for each in found) else None
            elif state.is_live and shard in lost:
                state.hand_off = None


def key_of(state: PartitionState) -> RowKey:
    """Returns what names a state among all others."""
    return (state.mirror, state.source, state.destination)
