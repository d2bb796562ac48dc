"""What makes a segment due beside how much waits: the time of day, and a source that is about to delete.

Pure: clock readings and offsets go in. It remembers nothing a restart needs: what a daily time found waiting while
nobody ran is asked of the source, by the records' own times.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from math import inf

PRESSED_SHARE = 0.5
"""What waits is archived early once it has half of the source's retention behind it, in age or in bytes: a broker
looks every five minutes by default, and deletes whole segments of its log."""

LOOK_SECONDS_MIN, LOOK_SECONDS_MAX = 0.5, 30.0
LOOKS_PER_RETENTION = 20.0
"""How often the source is asked how much of what waits is old. It also bounds how often records that are old when
they arrive, such as those of a backfill, are archived early."""

RECORD_BYTES_GUESS = 1024.0
RECORD_OVERHEAD_BYTES = 70.0
"""What a record may take in the source's log beside key, value and headers, where it is alone in its batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What a source topic keeps of each partition: so many seconds, so many bytes; None where it has no such bound.

    ``tombstones_seconds`` is for how long it keeps tombstones at least, once the cleaner has come by; None where it
    removes nothing by key.
    """

    seconds: float | None = None
    bytes_max: int | None = None
    tombstones_seconds: float | None = None


def last_daily_seconds(at_utc: time, now_seconds: float) -> float:
    """Returns the newest moment of that time of day that is not after ``now_seconds``; both in Unix seconds."""
    now = datetime.fromtimestamp(now_seconds, UTC)
    moment = datetime.combine(now.date(), at_utc, UTC)
    return (moment if moment <= now else moment - timedelta(days=1)).timestamp()


@dataclass(slots=True, kw_only=True)
class FlushClock:
    """Follows one archived partition.

    ``daily_end_offset`` is the source's end as it was at the last daily time; 0 where none has come. Only the newest
    daily time counts: after a clock that jumped by days there is one flush. A clock that is put back makes a time of
    day come again, which is one more segment and no harm.
    """

    daily_at_utc: time | None = None
    retention: Retention = field(default_factory=Retention)
    daily_end_offset: int = 0
    _daily_seconds: float | None = None
    _missed_daily_ms: int | None = None
    _source_start: int | None = None
    _is_deletion_near: bool = False
    _old_end_offset: int = 0
    _asked_old_ms: int | None = None
    _looked_seconds: float = -inf

    def saw_source(self, *, position: int | None, start: int, end: int, wall_seconds: float) -> None:
        """Takes log start and end of the source as they are at ``wall_seconds``."""
        if self.daily_at_utc is not None:
            self._saw_time(last_daily_seconds(self.daily_at_utc, wall_seconds), end)
        deleted = 0 if self._source_start is None else start - self._source_start
        self._source_start = start
        if deleted > 0 and position is not None:
            # The next deletion may take as much as this one did.
            self._is_deletion_near = position - start <= deleted

    def _saw_time(self, daily_seconds: float, end: int) -> None:
        before, self._daily_seconds = self._daily_seconds, daily_seconds
        if before is None:
            # Whether what waits was there at that moment already, nobody who ran then can say.
            self._missed_daily_ms = int(daily_seconds * 1000)
        elif daily_seconds > before:
            self._missed_daily_ms = None
            self.daily_end_offset = end

    def moved(self) -> None:
        """Notes that the archive has advanced: records about to be deleted are safe."""
        self._is_deletion_near = False

    def times_to_ask(self, *, now_seconds: float, wall_seconds: float) -> Collection[int]:
        """Returns the times, in Unix milliseconds, of which the source should be asked for the first offset since.

        Asked while something waits. ``answered`` takes the answers; what is not answered is asked again.
        """
        asked = [] if self._missed_daily_ms is None else [self._missed_daily_ms]
        seconds = self.retention.seconds
        if seconds is not None:
            pause = min(LOOK_SECONDS_MAX, max(LOOK_SECONDS_MIN, seconds / LOOKS_PER_RETENTION))
            if now_seconds - self._looked_seconds >= pause:
                self._looked_seconds = now_seconds
                # In steps, so that partitions of the same retention are asked for together.
                step_ms = int(pause * 1000)
                self._asked_old_ms = int((wall_seconds - seconds * PRESSED_SHARE) * 1000) // step_ms * step_ms
                asked.append(self._asked_old_ms)
        return asked

    def answered(self, time_ms: int, offset: int) -> None:
        """Takes the first offset at or after a time; the source's end where no record is so late."""
        if time_ms == self._missed_daily_ms:
            self._missed_daily_ms = None
            self.daily_end_offset = max(self.daily_end_offset, offset)
        if time_ms == self._asked_old_ms:
            self._old_end_offset = offset

    def is_pressed(self, *, position: int, end: int, bytes_per_record: float | None) -> bool:
        """Tells whether the source may soon delete some of what waits in ``[position, end)``."""
        if self._is_deletion_near or position < self._old_end_offset:
            return True
        if self.retention.bytes_max is None:
            return False
        each = (RECORD_BYTES_GUESS if bytes_per_record is None else bytes_per_record) + RECORD_OVERHEAD_BYTES
        return (end - position) * each >= self.retention.bytes_max * PRESSED_SHARE
