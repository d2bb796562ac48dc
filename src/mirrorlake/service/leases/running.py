"""A lease that runs, as the driver sees it: until when it may write, and whether it may go on. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mirrorlake.destinations.size_limit import SizeLimit
from mirrorlake.destinations.work import DestinationWork
from mirrorlake.mirror.pace import PaceOrder
from mirrorlake.pipeline.lanes import WATCHDOG_SECONDS, Prolonged
from mirrorlake.service.balance import BEHIND_MIN
from mirrorlake.service.lease_plans import seconds_until_over
from mirrorlake.service.owners.holding import Holding
from mirrorlake.service.partition_state import PartitionState

GOES_ON_AFTER = 0.75
"""The part of its live time after which a lease is allowed to go on: what is left is for its worker to ask whether
everything is as it was left, a second or two of a thousand partitions on a busy machine."""

GOES_ON_SECONDS_MIN = 2.0
"""So much of its live time is left then at least, where leases are short: driver and worker look twice a second."""

LIVE_TIMES_MAX = 15
"""So many live times a lease is live in all, five minutes by default. What a lease tells at its end alone, how old
records were and by which way they went, is not seen earlier."""


class Standing(NamedTuple):
    """What a lease was told of a partition, and a next one would be told: it goes on while that is the same.

    Attributes:
        work: what is to be done.
        size_limit: how large a batch the destination takes, None where that is as ``work`` says.
        holding: of the shard.
    """

    work: DestinationWork
    size_limit: SizeLimit | None
    holding: Holding


@dataclass(slots=True, kw_only=True)
class RunningLease:
    """A lease that runs: readings of the driver's clock, and what it serves.

    ``began`` is when its plan was made, from which it has ``begin_seconds`` to reach its worker, ``since`` when it was
    last allowed to go on, else the same. The other seconds are its plan's, from either. ``standing`` is what it was
    told of each of ``states``, None where it never goes on.
    """

    number: int
    lane: int
    began: float
    since: float
    begin_seconds: float
    live_seconds: float
    send_seconds: float
    hard_seconds: float
    paces: Mapping[str, PaceOrder]
    renewal_file: str
    prolonged: Prolonged
    states: Sequence[PartitionState]
    shards: frozenset[str]
    standing: Sequence[Standing] | None

    @property
    def ends_by(self) -> float:
        """When it must have ended, or its worker been killed."""
        return self.since + seconds_until_over(self.hard_seconds, begin_seconds=self.begin_seconds) + WATCHDOG_SECONDS

    @property
    def sends_until(self) -> float:
        """Until when it may append to Kafka."""
        return self.since + seconds_until_over(self.send_seconds, begin_seconds=self.begin_seconds)

    @property
    def writes_until(self) -> float:
        """Until when it may write to archives."""
        return self.since + seconds_until_over(self.hard_seconds, begin_seconds=self.begin_seconds)

    def is_time(self, now: float) -> bool:
        """Returns whether it should be said now whether it goes on."""
        after_seconds = min(GOES_ON_AFTER * self.live_seconds, self.live_seconds - GOES_ON_SECONDS_MIN)
        if self.standing is None or now < self.since + after_seconds:
            return False
        return now + self.live_seconds <= self.began + LIVE_TIMES_MAX * self.live_seconds

    def goes_on(self, now: float) -> None:
        """Counts everything from ``now`` on, as of a lease that begins then; call it before its worker may see that."""
        self.since = now
        self.prolonged.seconds = now - self.began


def may_begin_to_last(state: PartitionState, holding: Holding, *, now: float) -> bool:
    """Returns whether a lease may go on as far as one of its partitions is concerned, when it begins.

    Not where it waits for something that a next lease need not wait for: its owner before, or its end; nor where this
    lease compares it with its source, as groups have a place there only once its lease has ended well.

    Args:
        state: of the partition.
        holding: of its shard.
        now: reading of the driver's clock.
    """
    return (
        state.work.may_go_on
        and holding.refusal is None
        and not state.needs_tail_check
        and max(holding.fills_from_seconds, state.unknown_until_seconds) <= now
        and state.once_end is None
        and state.read_end is None
        and not state.is_bounded
    )


def are_well(states: Sequence[PartitionState]) -> bool:
    """Returns whether nothing is wrong with partitions, or asked of them, and they are not behind.

    A lane that is behind is balanced by what its leases bring back.
    """
    if any(s.is_parked or s.is_paused or s.is_ending or s.is_restart_asked or s.once_end is not None for s in states):
        return False
    return sum(state.lag or 0 for state in states) < BEHIND_MIN
