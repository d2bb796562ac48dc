"""How the limits of mirrors are shared among lanes and leases.

A live copy is held back inside its lease (`mirror/pace.py`): each lane that copies for a mirror has an equal share of
its limit, and a debt of its own, which one lease leaves to the next. A segment is cut in one go, as its lease has an
end; the next one is not begun before what was read is paid for. Where lanes have live copies of the mirror, the limit
is theirs, so they pay for its segments: each lane an equal part, out of time in which it reads nothing itself.
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


@dataclass(slots=True)
class _Account:
    """What a lane owes for a mirror, in bytes, at a reading of the driver's clock.

    ``live`` is for what it read itself, ``segments`` its part of those that were cut; time pays for segments first.
    While ``order`` is there a lease of the lane runs, which pays by itself: both are as it was told then, and
    ``untold`` are parts of segments that were cut since.
    """

    lanes: int
    live: float = 0.0
    segments: float = 0.0
    untold: float = 0.0
    at_seconds: float = 0.0
    order: PaceOrder | None = None

    def segments_left(self, limit: float, now: float) -> float:
        """Returns what is left of the segments that it knows of."""
        rate = limit / self.lanes if self.order is None else self.order.bytes_per_second
        return max(0.0, self.segments - rate * max(0.0, now - self.at_seconds))

    def settle(self, limit: float, now: float) -> None:
        """Takes the time since it was last settled as payment; no lease of the lane runs."""
        paid = limit / self.lanes * max(0.0, now - self.at_seconds)
        self.live = max(0.0, self.live - max(0.0, paid - self.segments))
        self.segments = max(0.0, self.segments - paid)
        self.at_seconds = max(now, self.at_seconds)

    def ended(self, order: PaceOrder, read_bytes: int, debt_bytes: float | None, *, began: float, now: float) -> None:
        """Takes what a lease has read and left to pay; time that it did not use pays for segments cut meanwhile."""
        time_bytes = order.bytes_per_second * max(0.0, now - began)
        owed = max(0.0, order.debt_bytes + read_bytes - time_bytes) if debt_bytes is None else debt_bytes
        unused = max(0.0, time_bytes - (order.debt_bytes + read_bytes - owed))
        of_segments = min(owed, max(0.0, self.segments - time_bytes))
        self.live = owed - of_segments
        self.segments = of_segments + max(0.0, self.untold - unused)
        self.untold, self.order, self.at_seconds = 0.0, None, now


class Pacing:
    """The debts of all mirrors. Whoever calls it holds the table of states.

    A reload takes a limit away or adds one at any moment: each call looks at the limits once, and answers by that look.

    Args:
        limits: returns the limits as they are now.
    """

    def __init__(self, limits: Callable[[], Limits]) -> None:
        self._limits = limits
        self._accounts: dict[str, dict[int, _Account]] = {}
        self._cut: dict[str, _Debt] = {}

    @property
    def limited(self) -> Set[str]:
        """The mirrors that have a limit now."""
        return self._limits().keys()

    def orders(
        self, mirrors: Set[str], lane: int, *, lanes_of: Callable[[str], int], now_seconds: float
    ) -> dict[str, PaceOrder]:
        """Returns what a lease is told of mirrors that have a limit, and counts it as running until `live_ended`.

        Args:
            mirrors: that the lease serves, those without a limit too.
            lane: that runs the lease.
            lanes_of: how many lanes copy for a mirror, at least 1.
            now_seconds: reading of the driver's clock.
        """
        limits, found = self._limits(), {}
        for mirror in mirrors & limits.keys():
            limit, lanes = limits[mirror], lanes_of(mirror)
            account = self._account(mirror, lane, lanes)
            account.settle(limit, now_seconds)
            account.lanes = lanes
            account.order = PaceOrder(bytes_per_second=limit / lanes, debt_bytes=account.live + account.segments)
            found[mirror] = account.order
        return found

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
        """Takes what a lease has read for live copies of a mirror; `cut` comes first where it has cut segments too.

        What it says it owes at its end counts, whatever the limit is by now. It alone knows when it read: time before
        that, in which nothing was there to read, is no credit. Where it does not say, what it read is spread over its
        time.

        Args:
            mirror: its name.
            lane: that ran it.
            order: what it was told.
            read_bytes: by all its partitions of the mirror.
            debt_bytes: what it owed when it ended, with what it was told that it owes for segments; None where it did
                not say.
            began: reading of the driver's clock when it began.
            now: and when it had ended.
        """
        self._account(mirror, lane, 1).ended(order, read_bytes, debt_bytes, began=began, now=now)

    def cut(self, mirror: str, *, lanes: Set[int], read_bytes: int, began: float, now: float) -> None:
        """Takes what a lease has read for segments of a mirror; ``began`` and ``now`` as in `live_ended`.

        Args:
            mirror: its name.
            lanes: that have live copies of it; they pay for it, each lane an equal part.
            read_bytes: by all its partitions of the mirror.
            began: reading of the driver's clock when it began.
            now: and when it had ended.
        """
        limit = self._limits().get(mirror)
        if limit is None or not read_bytes:
            return
        self._cut.setdefault(mirror, _Debt()).add(read_bytes, limit, began=began, now=now)
        for lane in lanes:
            account = self._account(mirror, lane, len(lanes))
            if account.order is not None:
                account.untold += read_bytes / len(lanes)
                continue
            account.settle(limit, now)
            account.segments += read_bytes / len(lanes)

    def held_back(self, *, now_seconds: float) -> frozenset[str]:
        """Returns the mirrors of which no segment is to be cut now, as their limit would be passed."""
        limits = self._limits()
        return frozenset(mirror for mirror, limit in limits.items() if self._holds_back(mirror, limit, now_seconds))

    def _holds_back(self, mirror: str, limit: int, now: float) -> bool:
        if (debt := self._cut.get(mirror)) is not None and debt.left(limit, now) > 0:
            return True
        return any(each.segments_left(limit, now) > 0 for each in self._accounts.get(mirror, {}).values())

    def is_untold(self, mirror: str, lane: int) -> bool:
        """Tells whether a lease of a lane runs that was not told of all segments that the lane pays for."""
        account = self._accounts.get(mirror, {}).get(lane)
        return account is not None and account.untold > 0

    def _account(self, mirror: str, lane: int, lanes: int) -> _Account:
        return self._accounts.setdefault(mirror, {}).setdefault(lane, _Account(lanes=lanes))
