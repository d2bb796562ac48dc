"""When something is to be done again and again: by a cron expression or at an interval, both in UTC. Pure.

Nothing is remembered between processes: an interval counts from 1970 and not from a start, so a service that is started
anew every ten minutes still sees each quarter of an hour, and two services mean the same moments.
"""

import math
from dataclasses import dataclass
from datetime import UTC, datetime

_REFERENCE = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The moments at which something is due: those of ``cron``, or every ``every_seconds`` since 1970.

    ``cron`` has five fields as in crontab(5), or six of which the first is the second; in UTC.

    Raises:
        ValueError: not exactly one of the two is given, or it has no moment; the text says what is wrong.
    """

    cron: str | None = None
    every_seconds: float | None = None

    def __post_init__(self) -> None:
        if (self.cron is None) is (self.every_seconds is None):
            raise ValueError("a schedule is an expression or an interval")
        if self.every_seconds is not None and not 0 < self.every_seconds < math.inf:
            raise ValueError(f"not an interval: {self.every_seconds} s")
        if self.cron is not None and _moment_after(self.cron, _REFERENCE) is None:
            raise ValueError("no such moment within 50 years")

    def next_after(self, now_seconds: float) -> float:
        """Returns the first moment after a time, both in Unix seconds; infinite where there is none in 50 years."""
        if self.every_seconds is not None:
            passed = math.floor(now_seconds / self.every_seconds)
            moment = (passed + 1) * self.every_seconds
            # Where the interval is no sum of powers of two, the product may round to the moment that it is now.
            return moment if moment > now_seconds else (passed + 2) * self.every_seconds
        assert self.cron is not None
        found = _moment_after(self.cron, datetime.fromtimestamp(math.floor(now_seconds), UTC))
        return math.inf if found is None else found.timestamp()


def _moment_after(cron: str, now: datetime) -> datetime | None:
    """Returns the first moment of an expression after a time; None where there is none in 50 years.

    Raises:
        ValueError: it is no expression.
    """
    # Here, as most configurations have no expression: whoever has none starts without it.
    from cronsim import CronSim, CronSimError

    try:
        return next(CronSim(cron, now), None)
    except CronSimError as error:
        raise ValueError(str(error).lower()) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Appointment:
    """The next moment of a schedule, and when it was looked up; Unix seconds.

    However many moments pass while nobody looks, as the machine slept or the work took long, they are one.
    """

    schedule: Schedule
    made_seconds: float
    due_seconds: float

    @classmethod
    def after(cls, schedule: Schedule, now_seconds: float) -> "Appointment":
        """Returns the next one after a time."""
        return cls(schedule=schedule, made_seconds=now_seconds, due_seconds=schedule.next_after(now_seconds))

    def is_due(self, now_seconds: float) -> bool:
        """Tells whether its moment has come."""
        return now_seconds >= self.due_seconds

    def seen_at(self, now_seconds: float) -> "Appointment":
        """Returns it as it is; made anew where the clock was set back since, or it would wait for that long more."""
        return Appointment.after(self.schedule, now_seconds) if now_seconds < self.made_seconds else self
