"""Which lane serves which shard: spread at first, moved when a lane falls behind. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

BEHIND_MIN = 10_000
"""Offsets a lane must be behind before anything moves: below, a lease or two settles it."""

BEHIND_RATIO = 2.0
"""A lane is behind the others when it has this many times their backlog; less is noise."""


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
