"""How long a lease may take to reach its worker: longer in a lane whose leases came late. Pure.

On a machine that has too little CPU for what runs on it every lease may come later than `BEGIN_SECONDS_MAX`, and do
nothing, for as long as that lasts. So a lane gives its next leases more time to begin, and what it gives is taken off
the time that a lease is live. Together both stay what they were at most: whoever waits until leases of this process
can write no more, the next owner too, waits for as long as before.
"""

from collections import defaultdict

from mirrorlake.service.lease_plans import BEGIN_SECONDS_MAX, lease_seconds_max

_SHORTEST_SECONDS = 1.0
"""Less than this is no longer given."""


class BeginTimes:
    """What each lane gives its leases to begin.

    Args:
        lease_seconds: the usual live time of a lease, which is left to it however late leases come.
    """

    def __init__(self, lease_seconds: float) -> None:
        self._live_seconds_max = lease_seconds_max(lease_seconds)
        self._given_max = self._live_seconds_max - lease_seconds
        self._given: defaultdict[int, float] = defaultdict(float)

    def begin_seconds(self, lane: int) -> float:
        """Returns how long the lane's next lease may take from its plan to its worker."""
        return BEGIN_SECONDS_MAX + self._given[lane]

    def live_seconds(self, lane: int, wanted_seconds: float) -> float:
        """Returns how long that lease is live where it should be for ``wanted_seconds``, never less than usual."""
        return min(wanted_seconds, self._live_seconds_max - self._given[lane])

    def lease_ended(self, lane: int, *, was_late: bool) -> None:
        """Takes whether a lease of the lane came too late and did nothing."""
        given = self._given[lane]
        if was_late:
            self._given[lane] = min(self._given_max, 2 * given + BEGIN_SECONDS_MAX)
        else:
            # Not all at once: on a machine that stays as it is the next one would be late again.
            self._given[lane] = given / 2 if given / 2 >= _SHORTEST_SECONDS else 0.0
