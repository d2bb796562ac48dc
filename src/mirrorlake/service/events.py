"""What happens in a running service, told to the log and the metrics. One method per event."""

from collections.abc import Sequence

import structlog

from mirrorlake.clock import Clock
from mirrorlake.errors import MirrorlakeError
from mirrorlake.mirror.policy import Decision
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.metrics import Metrics
from mirrorlake.service.park_names import park_name
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.targets import UNKNOWN_PARTITION

_log = structlog.get_logger("mirrorlake")


class Events:
    """Tells log and metrics.

    Args:
        metrics: where series are kept.
        clock: dates them.
        first_destinations: label of each mirror's first destination, by mirror; the mirror-v3 series speak of it.
    """

    def __init__(self, metrics: Metrics, clock: Clock, first_destinations: dict[str, str]) -> None:
        self._metrics = metrics
        self._clock = clock
        self._first = first_destinations
        self._flushed_seconds: dict[tuple[str, TopicPartition, str], float] = {}

    def began(self, state: PartitionState) -> None:
        """A partition joins the service; its position is known for archives, else read by its first lease."""
        self._metrics.began(state, is_first=self._first.get(state.mirror) == state.destination)
        facts = _facts(state)
        if state.error is None:
            _log.info("starting mirror", **facts, start_offset=state.position)
        elif state.is_parked:
            _log.error("partition parked", **facts, **_trouble(state.error), reason=park_name(state.error))
        else:
            _log.warning("partition failed, trying again", **facts, **_trouble(state.error))

    def retired(self, state: PartitionState) -> None:
        """A partition is no longer what it was and begins anew: its topic was made again, or is there now."""
        _log.info("partition begins anew", **_facts(state), position=state.position)

    def not_ready(self, mirror: str, topic: str, destination: str, error: MirrorlakeError) -> None:
        """A topic could not be asked for; it will be asked again."""
        _log.warning(
            "target not ready, trying again", mirror=mirror, topic=topic, destination=destination, **_trouble(error)
        )

    def lease_ended(self, lane: int, state: PartitionState, row: LeaseRow | None, decision: Decision | None) -> None:
        """A lease ended for one partition at one destination; ``decision`` is what its error means.

        None where there is no error, or the partition stands parked already, which was said then.
        """
        facts = _facts(state)
        self._metrics.lease_ended(
            state,
            row,
            is_first=self._first.get(state.mirror) == state.destination,
            now_seconds=self._clock.now_seconds(),
        )
        for flush in row.flushes if row else ():
            _log.info(
                "flushed batch",
                **facts,
                path=flush.key,
                **{"from": flush.offsets.start_offset, "to": flush.offsets.end_offset - 1},
                count=flush.records,
                bytes=flush.file_bytes,
                buffered_bytes=flush.raw_bytes,
                encoded_bytes=flush.file_bytes,
                elapsed_ms=flush.elapsed_ms,
                interval_ms=self._interval_ms(state),
                trigger=flush.trigger,
            )
        if row is not None and (lost := row.gap_offsets.get("truncated")):
            _log.warning("source has deleted records, going on at its log start", **facts, offsets=lost)
        if state.error is None or decision is None:
            return
        facts |= _trouble(state.error)
        if decision is Decision.PARK:
            reason = park_name(state.error)
            _log.error("partition parked", **facts, reason=reason, position=state.position, lane=lane)
        else:
            _log.warning("partition failed, trying again", **facts, failures=state.failures, lane=lane)

    def _interval_ms(self, state: PartitionState) -> int | None:
        """Returns the time since the partition's last flush, as mirror-v3 tells it; None at the first one."""
        key = (state.mirror, state.source, state.destination)
        now = self._clock.elapsed_seconds()
        before, self._flushed_seconds[key] = self._flushed_seconds.get(key), now
        return None if before is None else int((now - before) * 1000)

    def ended(self, states: Sequence[PartitionState]) -> None:
        """The service ends: says of each mirror how it stands, in mirror-v3's words."""
        errors = {state.mirror: state.error for state in states if state.error is not None}
        for mirror in sorted({state.mirror for state in states}):
            if mirror in errors:
                _log.error("mirror exited with error", mirror=mirror, error=errors[mirror].message)
            else:
                _log.info("mirror task terminated gracefully", mirror=mirror)

    def lease_took(self, lane: int, seconds: float) -> None:
        """A lease ended after ``seconds``."""
        self._metrics.lease_took(lane, seconds)

    def shard_moved(self, shard: str, lane: int) -> None:
        """A lane fell behind and another one serves the shard from now on."""
        _log.info("shard moved to another lane", shard=shard, lane=lane)

    def observed(self, states: Sequence[PartitionState]) -> None:
        """The sources' ends were read."""
        self._metrics.observed(states, elapsed_seconds=self._clock.elapsed_seconds())

    def heartbeat(self, states: Sequence[PartitionState]) -> None:
        """A line now and then that says the service lives, and how far it is."""
        _log.info(
            "heartbeat",
            partitions=len(states),
            lag=sum(state.lag or 0 for state in states),
            parked=sum(state.is_parked for state in states),
            records=sum(state.records for state in states),
        )


def _facts(state: PartitionState) -> dict[str, str | int]:
    """Returns what every line about a partition says: which one, and where it goes."""
    facts: dict[str, str | int] = {"mirror": state.mirror, "topic": state.source.topic}
    if state.source.partition != UNKNOWN_PARTITION:
        facts["partition"] = state.source.partition
    facts["destination"] = state.destination
    return facts


def _trouble(error: MirrorlakeError) -> dict[str, str]:
    """Returns what a line about a failure says more."""
    trouble = {"error": error.message, "kind": type(error).__name__}
    if error.hint:
        trouble["hint"] = error.hint
    return trouble
