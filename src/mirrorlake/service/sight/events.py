"""What happens in a running service, told to the log and the metrics. One method per event."""

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence

import structlog

from mirrorlake.clock import Clock
from mirrorlake.config.units import format_duration
from mirrorlake.errors import (
    MirrorlakeError,
    OutcomeUnknownError,
    PartitionUnbegunError,
    RemoteTierError,
    SchemaUnknownError,
)
from mirrorlake.mirror.policy import Decision
from mirrorlake.mirror.told_progress import ToldProgress
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.sight.accounts import CatchUps, account_of
from mirrorlake.service.sight.metrics import Metrics
from mirrorlake.service.sight.park_names import park_name
from mirrorlake.service.sight.troubles import Fact, Line, Trouble, lines_of
from mirrorlake.topics.targets import UNKNOWN_PARTITION

_log = structlog.get_logger("mirrorlake")


class Events:
    """Tells log and metrics.

    Args:
        metrics: where series are kept.
        clock: dates them.
        first_destinations: label of each mirror's first destination, by mirror; the mirror-v3 series speak of it.
        is_v3: whether the lines of mirror-v3 are wanted, for its form: ``loop start``, and a ``heartbeat`` per mirror.
    """

    def __init__(
        self, metrics: Metrics, clock: Clock, first_destinations: dict[str, str], *, is_v3: bool = False
    ) -> None:
        self._metrics = metrics
        self._clock = clock
        self._first = first_destinations
        self._is_v3 = is_v3
        self._records_told: dict[str, int] = {}
        self._flushed_seconds: dict[tuple[str, TopicPartition, str], float] = {}
        self._waiting: set[tuple[str, TopicPartition, str]] = set()
        self._began_seconds = clock.elapsed_seconds()
        self._catch_ups = CatchUps(self._began_seconds)
        self._held = threading.local()

    def began(self, state: PartitionState) -> None:
        """A partition joins the service; its position is known for archives, else read by its first lease."""
        self._metrics.began(state, is_first=self._is_first(state))
        facts = _facts(state)
        if self._is_v3:
            _log.info("loop start", mirror=state.mirror)
        if state.error is not None:
            self._tell(_trouble_of(state, state.error, is_final=state.is_parked))
        elif state.position is None:
            _log.info("starting mirror", **facts)
        else:
            _log.info("starting mirror", **facts, start_offset=state.position)

    def position_found(self, state: PartitionState) -> None:
        """The first lease of a partition has read its position, or where it begins by the age of records."""
        max_age = format_duration(state.work.max_age_seconds or 0.0)
        _log.info("position found", **_facts(state), start_offset=state.first_position, max_age=max_age)

    def retired(self, state: PartitionState) -> None:
        """A partition is no longer what it was and begins anew: its topic was recreated, or is there now."""
        self._metrics.retired(state)
        _log.info("partition begins anew", **_facts(state), position=state.position)

    def not_ready(self, mirror: str, topic: str, destination: str, error: MirrorlakeError) -> None:
        """A topic could not be asked for; it will be asked again."""
        facts = {"mirror": mirror, "topic": topic, "destination": destination, **_trouble(error)}
        self._tell(Trouble(event="target not ready, trying again", is_final=False, partition="", facts=facts, own={}))

    def _is_first(self, state: PartitionState) -> bool:
        return self._first.get(state.mirror) == state.destination

    def lease_told(self, state: PartitionState, told: ToldProgress) -> None:
        """A lease that runs has told how far it is with one partition at one destination."""
        self._metrics.lease_told(state, told, is_first=self._is_first(state))

    def lease_ended(self, lane: int, state: PartitionState, row: LeaseRow | None, decision: Decision | None) -> None:
        """A lease ended for one partition at one destination; ``decision`` is what its error means.

        None where there is no error, or the partition stands parked already, which was said then.
        """
        self._metrics.lease_ended(
            state,
            row,
            is_first=self._is_first(state),
            now_seconds=self._clock.now_seconds(),
        )
        for flush in row.flushes if row else ():
            _log.info(
                "flushed batch",
                **_facts(state),
                path=flush.key,
                **{"from": flush.offsets.start_offset, "to": flush.offsets.end_offset - 1},
                count=flush.records,
                bytes=flush.file_bytes,
                buffered_bytes=flush.raw_bytes,
                encoded_bytes=flush.file_bytes,
                elapsed_ms=flush.elapsed_ms,
                **self._interval(state),
                trigger=flush.trigger,
            )
        if row is not None and (lost := row.gap_offsets.get("truncated")):
            _log.warning("source has deleted records, continuing at its log start", **_facts(state), offsets=lost)
        if row is not None and row.dead_letters:
            self._lettered(state, row)
        if self._was_waiting(state):
            return
        if state.error is None or decision is None:
            return
        if isinstance(state.error, SchemaUnknownError):
            return  # many partitions wait for the same ids, so whoever asks the registries says so (`SchemaSync.ask`)
        own: dict[str, Fact] = {"failures": state.failures, "lane": lane}
        if isinstance(state.error, RemoteTierError):
            own = {"position": state.position}
        elif decision is Decision.PARK:
            own = {"position": state.position, "lane": lane}
        self._tell(_trouble_of(state, state.error, is_final=decision is Decision.PARK, own=own))

    def _lettered(self, state: PartitionState, row: LeaseRow) -> None:
        """Says how many records became dead letters in a lease, and why."""
        for name, count in sorted(row.dead_letters.items()):
            side, _, reason = name.partition(":")
            _log.warning(
                "records name no schema and are dead letters",
                **_facts(state),
                side=side,
                reason=reason,
                count=count,
                position=row.position,
            )

    def deletions_doubted(self, state: PartitionState, done: LeaseRow | ToldProgress) -> None:
        """A copy has read on so late that its compacted source may have removed tombstones before."""
        self._metrics.deletions_doubted(state)
        kept = state.flush_clock.retention.tombstones_seconds
        _log.warning(
            "deletions may be missing: the source was read on too late to be sure of its tombstones",
            **_facts(state),
            position=done.position,
            delete_retention="" if kept is None else format_duration(kept),
            hint="`verify` names a record that stayed in the copy, and what to do about it; it does not happen where "
            "delete.retention.ms of the source is more than twice the longest outage",
        )

    def source_lost_its_end(self, state: PartitionState, log_end: int) -> None:
        """The source's log ends below what a bounded run, or a stop, was to copy."""
        _log.warning(
            "source has lost records that were to be copied, continuing to where it ends now",
            **_facts(state),
            position=state.position,
            log_end=log_end,
            wanted_end=state.once_end,
            hint="an election of a leader that was not in sync, or a broken disk, cut the source's log",
        )

    def _was_waiting(self, state: PartitionState) -> bool:
        """Notes whether a partition waits for a remote tier; True where it did before, which was said then."""
        key = (state.mirror, state.source, state.destination)
        if not isinstance(state.error, RemoteTierError):
            self._waiting.discard(key)
            return False
        was_waiting = key in self._waiting
        self._waiting.add(key)
        return was_waiting

    def _interval(self, state: PartitionState) -> Mapping[str, int]:
        """Returns the time since the partition's last flush, as mirror-v3 names it; nothing at the first one."""
        key = (state.mirror, state.source, state.destination)
        now = self._clock.elapsed_seconds()
        before, self._flushed_seconds[key] = self._flushed_seconds.get(key), now
        return {} if before is None else {"interval_ms": int((now - before) * 1000)}

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """What this thread tells of failures within is told at the end, in one line for each kind of trouble."""
        if getattr(self._held, "troubles", None) is not None:
            yield
            return
        held: list[Trouble] = []
        self._held.troubles = held
        try:
            yield
        finally:
            self._held.troubles = None
            for line in lines_of(held):
                _write(line)

    def _tell(self, trouble: Trouble) -> None:
        held: list[Trouble] | None = getattr(self._held, "troubles", None)
        if held is not None:
            held.append(trouble)
        else:
            (line,) = lines_of([trouble])
            _write(line)

    def ended(self, states: Sequence[PartitionState], *, failure: str = "") -> None:
        """The service ends: says of each mirror what it did and how it stands, in mirror-v3's words.

        A copy to Kafka that the end itself has cut short has no error: the next start looks where it ends.

        Args:
            states: of all partitions.
            failure: why no mirror has ended well that has no error of its own; empty where they have.
        """
        now = self._clock.elapsed_seconds()
        errors = {s.mirror: s.error.message for s in states if s.error is not None and not _is_cut_short(s, s.error)}
        self.looked(states)
        for mirror in sorted({state.mirror for state in states}):
            did = account_of(mirror, states, now_seconds=now).facts(now - self._began_seconds)
            _log.info("mirror totals", mirror=mirror, **did)
            # mirror-v3's lines as they are there: its users' tools read them.
            if error := errors.get(mirror, failure):
                _log.error("mirror exited with error", mirror=mirror, error=error)
            else:
                _log.info("mirror task terminated gracefully", mirror=mirror)

    def looked(self, states: Sequence[PartitionState]) -> None:
        """The ends of the sources are known anew: says where a Kafka destination has caught up."""
        for caught_up in self._catch_ups.looked(states, self._clock.elapsed_seconds()):
            _log.info("caught up", **caught_up.facts())

    def partition_ended(self, state: PartitionState) -> None:
        """A destination has all of a partition that its mirror is to copy: the line says where that is, for others."""
        limit = state.bounds.limit if state.bounds is not None else None
        _log.info("partition has ended", **_facts(state), end_offset=limit, position=state.position)

    def mirror_ended(self, mirror: str, states: Sequence[PartitionState]) -> None:
        """Nothing is left for a mirror to copy, whatever its source gains."""
        _log.info("mirror has ended", mirror=mirror, partitions=len(states))

    def lease_took(self, lane: int, seconds: float) -> None:
        """A lease ended after ``seconds``."""
        self._metrics.lease_took(lane, seconds)

    def shard_moved(self, shard: str, lane: int) -> None:
        """A lane fell behind and another one serves the shard from now on."""
        _log.info("shard moved to another lane", shard=shard, lane=lane)

    def served_by(self, lanes: int) -> None:
        """One lane serves everything, as nothing is behind; or all do again."""
        if lanes == 1:
            _log.info("one lane serves all copies, as none is behind")
        else:
            _log.info("copies are spread over all lanes again", lanes=lanes)

    def heartbeat(self, states: Sequence[PartitionState]) -> None:
        """A line now and then that says the service lives, and how far it is.

        ``lag`` is of the partitions whose lag is known; ``lag_unknown`` says how many are not among them, as
        parked ones whose sources are not asked any more.
        """
        if self._is_v3:
            self._v3_heartbeats(states)
            return
        now = self._clock.elapsed_seconds()
        lags = [state.lag_now(now) for state in states]
        known = [lag for lag in lags if lag is not None]
        _log.info(
            "heartbeat",
            partitions=len(states),
            lag=sum(known) if known else "unknown",
            **({"lag_unknown": len(lags) - len(known)} if 0 < len(known) < len(lags) else {}),
            parked=sum(state.is_parked for state in states),
            **({"ended": ended} if (ended := sum(state.has_ended for state in states)) else {}),
            **({"paused": paused} if (paused := sum(state.is_paused for state in states)) else {}),
            records=sum(state.copied_records for state in states),
        )

    def _v3_heartbeats(self, states: Sequence[PartitionState]) -> None:
        """A line per mirror, as there: the next offset it waits for, and the records since the last such line."""
        now = self._clock.elapsed_seconds()
        for state in states:
            lag = state.lag_now(now)
            _log.info(
                "heartbeat",
                mirror=state.mirror,
                expected_offset="unknown" if state.shown_position is None else state.shown_position,
                progressed=state.copied_records - self._records_told.get(state.mirror, 0),
                lag="unknown" if lag is None else lag,
                **({"parked": park_name(state.error)} if state.is_parked and state.error else {}),
                **({"paused": True} if state.is_paused else {}),
            )
            self._records_told[state.mirror] = state.copied_records


def _is_cut_short(state: PartitionState, error: MirrorlakeError) -> bool:
    """Tells whether an error only says that a lease ended before all it had sent was answered."""
    is_ours = isinstance(error, OutcomeUnknownError | PartitionUnbegunError)
    return is_ours and state.is_live and not (state.is_parked or state.gave_up)


def _facts(state: PartitionState) -> dict[str, str | int]:
    """Returns what every line about a partition says: which one, and where it goes."""
    facts: dict[str, str | int] = {"mirror": state.mirror, "topic": state.source.topic}
    if state.source.partition != UNKNOWN_PARTITION:
        facts["partition"] = state.source.partition
    facts["destination"] = state.destination
    return facts


def _trouble_of(
    state: PartitionState, error: MirrorlakeError, *, is_final: bool, own: Mapping[str, Fact] | None = None
) -> Trouble:
    """Returns what is told of a partition that failed; it is parked where that is final."""
    event = "partition parked" if is_final else "partition failed, trying again"
    if isinstance(error, RemoteTierError):
        event = "waiting for the source's remote tier"
    facts: dict[str, Fact] = {**_facts(state), **_trouble(error)}
    if is_final:
        facts["reason"] = park_name(error)
    name = "" if state.source.partition == UNKNOWN_PARTITION else str(state.source)
    return Trouble(event=event, is_final=is_final, partition=name, facts=facts, own=own or {})


def _write(line: Line) -> None:
    (_log.error if line.is_final else _log.warning)(line.event, **line.facts)


def _trouble(error: MirrorlakeError) -> dict[str, str]:
    """Returns what a line about a failure says more."""
    trouble = {"error": error.message, "kind": type(error).__name__}
    if error.hint:
        trouble["hint"] = error.hint
    return trouble
