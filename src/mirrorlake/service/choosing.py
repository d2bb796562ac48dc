"""Which partitions a lane's next lease serves. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from mirrorlake.mirror.due import Due
from mirrorlake.service.partition_state import PartitionState

DUE_PARTITIONS_PER_LEASE_MAX = 64
"""Due partitions beyond this wait for the next lease, or for the other lane."""

Chosen = tuple[PartitionState, Due | None]
"""A partition, and what an archive is to cut; None where everything is copied, or it is only looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """How a run is going: whether it is bounded, and whether it has been asked to stop."""

    once: bool
    is_stopping: bool = False

    def wants_live(self, state: PartitionState) -> bool:
        """Returns whether a partition that every lease copies is to be in another one."""
        if self.is_stopping or (self.once and state.once_end is None):
            return False
        return state.read_end is None or state.position is None or state.position < state.read_end

    def is_backing_off(self, state: PartitionState, now_seconds: float) -> bool:
        """Returns whether a failure keeps a partition back.

        A stop asks an archive once more, as the store may be well.
        """
        if self.is_stopping and not state.is_live and not self._is_given_up(state):
            return False
        return now_seconds < state.retry_at_seconds

    def has_rest(self, state: PartitionState, now_seconds: float) -> bool:
        """Returns whether a stopping run still has something to flush; a failure since then is enough to give it up."""
        if state.is_parked or state.is_paused or state.is_live or (state.failures and self._is_given_up(state)):
            return False
        if state.position is None:
            return not state.is_tried_at_stop
        return state.due_now(now_seconds, flush_all=True) is not None

    def _is_given_up(self, state: PartitionState) -> bool:
        """Once more was enough at a stop, or all tries of a bounded run."""
        return state.is_tried_at_stop or (self.once and state.gave_up)


def choose(
    states: Sequence[PartitionState],
    *,
    lane: int,
    lane_of: Mapping[str, int],
    lanes: int,
    phase: Phase,
    now_seconds: float,
    held_back: Collection[str] = (),
) -> list[Chosen]:
    """Returns the lane's own live partitions, and a share of what is due: its own first, then anybody's.

    Args:
        states: all there are.
        lane: whose lease it is.
        lane_of: the lane of each shard.
        lanes: how many there are.
        phase: how the run is going.
        now_seconds: reading of the driver's clock.
        held_back: mirrors for which no segment is cut now, as their limit would be passed. A stop does not ask: what
            waits is flushed.
    """
    live: list[Chosen] = []
    own: list[Chosen] = []
    others: list[Chosen] = []
    free = [state for state in states if not state.is_leased]
    # A shard that has just moved here may still be in its old lane's lease. Two of them would write under one identity:
    # one would fence the other, or end the transaction in which that fills a gap.
    busy = {state.shard for state in states if state.is_leased and state.is_live} if free else set()
    for state in free:
        if not _may_be_leased(state) or phase.is_backing_off(state, now_seconds):
            continue
        is_own = lane_of[state.shard] == lane
        if state.is_live:
            if is_own and phase.wants_live(state) and state.shard not in busy:
                live.append((state, None))
            continue
        if state.position is not None and not phase.is_stopping and state.mirror in held_back:
            continue
        due = state.due_now(now_seconds, flush_all=phase.once or phase.is_stopping)
        if due is not None or state.position is None or (state.is_to_be_compared and not phase.is_stopping):
            (own if is_own else others).append((state, due))
    # A lease opens a few at a time, in this order: where records come, they are not to wait until all others are open.
    live.sort(key=lambda chosen: -chosen[0].source_moved_seconds)
    # A share, because one task writes one segment at a time: what it leaves another lane may begin at once.
    share = -(-(len(own) + len(others)) // lanes)
    return [*live, *[*own, *others][: min(share, DUE_PARTITIONS_PER_LEASE_MAX)]]


def _may_be_leased(state: PartitionState) -> bool:
    return not (state.is_parked or state.is_paused or state.is_ending or state.waits_for_end)
