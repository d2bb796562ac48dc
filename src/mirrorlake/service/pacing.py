"""How the limits of mirrors are shared among lanes and leases.

A live copy is held back inside its lease (`mirror/pace.py`): each lane that copies for a mirror has an equal share of
its limit, and a debt of its own, which one lease leaves to the next. A segment is cut in one go, as its lease has an
end; the next one is not begun before what was read is paid for, and live copies of the mirror wait for that too.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass

from mirrorlake.mirror.pace import PaceOrder

Limits = Mapping[str, int]
"""Bytes per second, above zero, by mirror; a mirror without a limit is absent."""


@dataclass(slots=True)
class _Debt:
    """Bytes that were read and not paid for at a reading of the driver's clock."""

    left_bytes: float = 0.0
    at_seconds: float = 0.0

    def left(self, rate: float, now: float) -> float:
        return max(0.0, self.left_bytes - rate * max(0.0, now - self.at_seconds))

    def add(self, read_bytes: int, rate: float, *, began: float, now: float) -> None:
        """Adds what was read from ``began`` to ``now``. Time is credited once, also where such times overlap."""
        begin = max(began, self.at_seconds)
        self.left_bytes = max(0.0, self.left(rate, begin) + read_bytes - rate * max(0.0, now - begin))
        self.at_seconds = max(now, self.at_seconds)


class Pacing:
    """The debts of all mirrors. Whoever calls it holds the table of states.

    Args:
        limits: returns the limits as they are now.
    """

    def __init__(self, limits: Callable[[], Limits]) -> None:
        self._limits = limits
        self._live: dict[tuple[str, int], _Debt] = {}
        self._cut: dict[str, _Debt] = {}

    @property
    def limited(self) -> Set[str]:
        """The mirrors that have a limit now."""
        return self._limits().keys()

    def order(self, mirror: str, lane: int, *, lanes: int, now_seconds: float) -> PaceOrder:
        """Returns what a lease is told of a mirror that has a limit.

        Args:
            mirror: its name.
            lane: that runs the lease.
            lanes: how many copy for the mirror, at least 1.
            now_seconds: reading of the driver's clock.
        """
        limit = self._limits()[mirror]
        rate = limit / lanes
        live = self._live.get((mirror, lane), _Debt()).left(rate, now_seconds)
        cut = self._cut.get(mirror, _Debt()).left(limit, now_seconds)
        return PaceOrder(bytes_per_second=rate, debt_bytes=live + cut / lanes)

    def live_ended(
        self,
        mirror: str,
        lane: int,
        order: PaceOrder,
        *,
        read_bytes: int,
        debt_bytes: float | None = None,
        began: float,
        now: float,
    ) -> None:
        """Takes what a lease has read for live copies of a mirror.

        What it says it owes at its end counts. It alone knows when it read: time before that, in which nothing was
        there to read, is no credit. Where it does not say, what it read is spread over its time.

        Args:
            mirror: its name.
            lane: that ran it.
            order: what it was told.
            read_bytes: by all its partitions of the mirror.
            debt_bytes: what it owed when it ended, with its part of what segments owe; None where it did not say.
            began: reading of the driver's clock when it began.
            now: and when it had ended.
        """
        own = self._live.setdefault((mirror, lane), _Debt())
        limit = self._limits().get(mirror)
        if debt_bytes is not None and limit is not None:
            of_segments = self._cut.get(mirror, _Debt()).left(limit, now) * order.bytes_per_second / limit
            own.left_bytes, own.at_seconds = max(0.0, debt_bytes - of_segments), now
            return
        own.add(read_bytes, order.bytes_per_second, began=began, now=now)

    def cut(self, mirror: str, *, read_bytes: int, began: float, now: float) -> None:
        """Takes what a lease has read for segments of a mirror; ``began`` and ``now`` as in `live_ended`."""
        limit = self._limits().get(mirror)
        if limit is not None and read_bytes:
            self._cut.setdefault(mirror, _Debt()).add(read_bytes, limit, began=began, now=now)

    def holds_back(self, mirror: str, *, now_seconds: float) -> bool:
        """Tells whether no segment of a mirror with a limit is to be cut now."""
        return self._cut.get(mirror, _Debt()).left(self._limits()[mirror], now_seconds) > 0
