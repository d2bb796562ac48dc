"""Which lane serves which shard: spread at first, moved when a lane falls behind, gathered while nothing is behind.

A lane that serves anything costs a worker: some 50 MB, and CPU for each of its looks and fetches, however little there
is to copy. So copies that have kept up for a while are served by one lane, until it falls behind.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

BEHIND_MIN = 10_000
"""Offsets a lane must be behind before anything moves: below, a lease or two settles it."""

BEHIND_RATIO = 2.0
"""A lane is behind the others when it has this many times their backlog; less is noise."""


GATHER_AFTER_SECONDS = 20.0
"""Nothing was behind for so long: one lane is enough."""

GATHER_AGAIN_AFTER_SECONDS = 600.0
"""The same after one lane was not enough, or brought nothing back from a lease."""

GATHERED_PARTITIONS_MAX = 500
"""More are not gathered: each change of leases opens all partitions of a lane, and copies wait for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A shard that another lane should serve from its next lease on."""

    shard: str
    lane: int


def spread(shards: Iterable[str], lanes: int) -> dict[str, int]:
    """Returns a lane for each shard, as even in number as can be; the same shards always get the same lanes."""
    return {shard: number % lanes for number, shard in enumerate(sorted(set(shards)))}


def find_move(lane_of: Mapping[str, int], backlog: Mapping[str, int], lanes: int) -> Move | None:
    """Returns the one move that helps the lane that is furthest behind, or None where nothing should move.

    The largest shard moves that does not make the receiving lane worse off than the giving one is now; a lane
    with a single backlogged shard keeps it, moving it would help nobody.

    Args:
        lane_of: the lane of every shard.
        backlog: offsets each shard is behind its sources; shards that are not named have none.
        lanes: how many lanes there are.
    """
    totals = dict.fromkeys(range(lanes), 0)
    for shard, lane in lane_of.items():
        totals[lane] += backlog.get(shard, 0)
    slowest = max(totals, key=lambda lane: totals[lane])
    fastest = min(totals, key=lambda lane: totals[lane])
    if totals[slowest] < BEHIND_MIN or totals[slowest] < BEHIND_RATIO * totals[fastest]:
        return None
    candidates = sorted(
        (shard for shard, lane in lane_of.items() if lane == slowest and backlog.get(shard, 0) > 0),
        key=lambda shard: (-backlog[shard], shard),
    )
    for shard in candidates:
        if totals[fastest] + backlog[shard] < totals[slowest]:
            return Move(shard=shard, lane=fastest)
    return None


class ShardLanes:
    """The lane of each shard. Not thread-safe.

    Args:
        shards: those there are.
        lanes: how many lanes there are.
        gathers: whether one lane serves all while nothing is behind.
        now_seconds: reading of the driver's clock.

    Attributes:
        of: the lane by shard.
    """

    def __init__(self, shards: Iterable[str], *, lanes: int, gathers: bool, now_seconds: float) -> None:
        self.of = spread(shards, lanes)
        self._lanes = lanes
        self._gathers = gathers and lanes > 1
        self._is_gathered = False
        self._gather_at_seconds = now_seconds + GATHER_AFTER_SECONDS

    def add(self, shards: Iterable[str]) -> None:
        """Gives shards found since the start a lane; those already served keep theirs."""
        for shard in sorted(set(shards) - self.of.keys()):
            self.of[shard] = 0 if self._is_gathered else len(self.of) % self._lanes

    def take(self, move: Move) -> None:
        """Moves a shard."""
        self.of[move.shard] = move.lane

    def look(self, *, backlog: int | None, partitions: int, now_seconds: float) -> int | None:
        """Gathers all shards, or spreads them again; returns how many lanes serve them then, None for no change.

        Args:
            backlog: offsets that all copies together are behind their sources; None keeps all lanes whatever it is.
            partitions: how many are copied.
            now_seconds: reading of the driver's clock.
        """
        if not self._gathers:
            return None
        if backlog is None or backlog >= BEHIND_MIN or partitions > GATHERED_PARTITIONS_MAX:
            self._not_before(now_seconds + GATHER_AFTER_SECONDS)
            return self._spread_again(now_seconds)
        if self._is_gathered or now_seconds < self._gather_at_seconds:
            return None
        self._is_gathered = True
        self.of = dict.fromkeys(self.of, 0)
        return 1

    def lost(self, *, now_seconds: float) -> int | None:
        """Spreads the shards where a lease brought nothing back: what kills a worker is to hit as few as may be.

        Returns as `look` does.
        """
        self._not_before(now_seconds + GATHER_AGAIN_AFTER_SECONDS)
        return self._spread_again(now_seconds)

    def _spread_again(self, now_seconds: float) -> int | None:
        if not self._is_gathered:
            return None
        self._is_gathered = False
        self._not_before(now_seconds + GATHER_AGAIN_AFTER_SECONDS)
        self.of = spread(self.of, self._lanes)
        return self._lanes

    def _not_before(self, seconds: float) -> None:
        self._gather_at_seconds = max(self._gather_at_seconds, seconds)
