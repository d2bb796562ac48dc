"""How a run ended: its exit code, and the last lines of its log that say why."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import structlog

from mirrorlake.clock import utc_text
from mirrorlake.destinations.transactions.owner_states import OwnerState
from mirrorlake.errors import MirrorlakeError, TopicMissingError, TopicRecreatedError
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.state_table import StateTable
from mirrorlake.topics.targets import UNKNOWN_PARTITION, Target

_log = structlog.get_logger("mirrorlake")

EXIT_DONE, EXIT_FAILED, EXIT_PARKED, EXIT_SUPERSEDED = 0, 1, 3, 4

NAMED_MAX = 10
"""Partitions that one log line names."""


def exit_code(
    table: StateTable,
    *,
    once: bool,
    ended: bool,
    superseded: MirrorlakeError | None,
    waiting: Sequence[Target],
    missing: Mapping[TopicPartition, MirrorlakeError] = MappingProxyType({}),
    stopped: bool = False,
) -> int:
    """Returns the exit code of a run that has ended, and says why it is none of success.

    Args:
        table: how all partitions stand.
        once: whether the run was bounded.
        ended: whether every lane came to its end in time.
        superseded: another process has taken over.
        waiting: what could not even be asked for.
        missing: source partitions that a bounded run read up to where something is missing.
        stopped: whether it was asked to stop.
    """
    if superseded is not None:
        _log.error("another process has taken over", error=str(superseded))
        return EXIT_SUPERSEDED
    # What is parked is named whatever else there is, and first: the lines behind it say why the code is another one.
    if parked := [_left(state) for state in table.states if state.is_parked]:
        _log.error("ended while partitions are parked", partitions=len(parked), left=_named(parked))
    if cut_short := [_left(state) for state in table.states if once and stopped and not state.is_finished]:
        _log.error(
            "stopped before the ends found at the start were reached",
            partitions=len(cut_short),
            left=_named(cut_short),
            hint="run it again, it continues there",
        )
    if unflushed := [state for state in table.unflushed if not (once and (stopped or state.gave_up))]:
        _log.error(
            "the graceful stop could not archive everything",
            partitions=len(unflushed),
            offsets=_offsets_left(unflushed),
            left=_named([_left(state) for state in unflushed]),
            hint="nothing is lost: the next start continues from there",
        )
    failed = _given_up(table.states, waiting) if once else []
    if failed:
        _log.error(
            "gave up before everything was copied",
            partitions=len(failed),
            left=_named(failed),
            hint="the lines above say why; run it again, it continues there",
        )
    for partition, error in missing.items():
        _log.error("not all of the source could be read", source=str(partition), error=error.message, hint=error.hint)
    if cut_short or unflushed or failed or missing or not ended:
        return EXIT_FAILED
    return EXIT_PARKED if parked else EXIT_DONE


def served_elsewhere(living: Mapping[str, Sequence[OwnerState]]) -> int:
    """Says which mirrors another process is alive to serve; returns the exit code."""
    for cluster, states in living.items():
        for state in states:
            _log.error(
                "another process serves the mirror, and a bounded run does not take it over",
                mirror=state.mirror,
                cluster=cluster,
                owner=state.owner,
                owner_since=utc_text(state.taken_at_ms),
                hint="end that process, or let it do the work; with `--take-over` this command ends it",
            )
    return EXIT_SUPERSEDED


def _given_up(states: Sequence[PartitionState], waiting: Sequence[Target]) -> list[str]:
    """Returns what a bounded run leaves that it tried often enough, or could not even ask for."""
    return [
        *(_left(state) for state in states if state.gave_up),
        *dict.fromkeys(_left_unasked(target) for target in waiting),
    ]


def _left_unasked(target: Target) -> str:
    """Returns a partition of which nothing is known, in the words of `_left`."""
    return f"{target.mirror.name}: {_source_said(target.source)} to {target.destination.label}, offsets unknown"


def _source_said(source: TopicPartition) -> str:
    return source.topic if source.partition == UNKNOWN_PARTITION else str(source)


def _named(names: Sequence[str]) -> str:
    return "; ".join(names[:NAMED_MAX]) + (f"; and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else "")


def _offsets_left(states: Sequence[PartitionState]) -> int | str:
    """Returns how many offsets partitions still need, ``unknown`` where one of them could not be read."""
    left = 0
    for state in states:
        if state.once_end is None or state.shown_position is None:
            return "unknown"
        left += max(0, state.once_end - state.shown_position)
    return left


def _left(state: PartitionState) -> str:
    """Returns a partition and the offsets that are left at its source, both inclusive, in words."""
    end = state.source_end if state.once_end is None else state.once_end
    said = _offsets_said(state.position, end)
    if isinstance(state.error, TopicRecreatedError):
        said = "all of the source topic that is there now"  # the position is of the one before
    elif isinstance(state.error, TopicMissingError) and end is not None and end < (state.position or 0):
        # A topic that was away and is back may be another one, whose end says nothing of what was copied.
        said = f"position {state.position}, not known whether the source topic is the same"
    return f"{state.mirror}: {_source_said(state.source)} to {state.destination}, {said}"


def _offsets_said(position: int | None, end: int | None) -> str:
    """Returns the offsets between a position and an end (exclusive), of which either may be unknown."""
    if position is None:
        return "offsets unknown" if end is None else f"offsets up to {end - 1}, position unknown"
    if end is None:
        return f"offsets from {position} on, source's end unknown"
    if end < position:
        return f"nothing left, as the source ends at {end} and the position is {position}"
    return "nothing left" if end == position else f"offsets {position} to {end - 1}"
