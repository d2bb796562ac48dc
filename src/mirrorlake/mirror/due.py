"""Which archived partition's next segment should be cut now, and where. One pure function.

Kafka is the archive's buffer: nothing is read before a segment is due, and then it is read, cut, encoded and
published inside one lease.
"""

from dataclasses import dataclass

from mirrorlake.destinations.archive.triggers import Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushRule:
    """When to cut; whichever comes first. Bytes are key, value and headers of the records, uncompressed."""

    bytes_max: int
    records_max: int
    time_seconds_max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What waits at the source for one archived partition.

    ``since_seconds`` is the clock reading at which the source's end was first seen past ``position``, None where
    nothing waits. ``bytes_per_record`` is the last segment's, None where there was none yet. ``fruitless_offsets`` is
    how many offsets waited when a read for bytes or records found too few of them; 0 where none did. What is
    below ``daily_end_offset`` was there at the last daily time. ``is_pressed`` is True where the source is about to
    delete some of it.
    """

    position: int
    source_end: int
    since_seconds: float | None
    bytes_per_record: float | None
    fruitless_offsets: int = 0
    daily_end_offset: int = 0
    is_pressed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """What to cut.

    ``end_offset`` (exclusive) is where the rest is flushed whatever the other triggers say; None where only full
    segments are wanted, because bytes or records seem to be enough for one.
    """

    trigger: Trigger
    end_offset: int | None


GROWTH_BEFORE_ANOTHER_LOOK = 1.25
"""How much more must wait than at a read that cut nothing: guesses are wrong where records are small or offsets have
gaps, and each wrong one costs a read of all that waits."""

BYTES_PER_RECORD_GUESS = 1024.0
"""Used until a first segment tells; a guess too low only delays the first segment to ``max-time``, and one too high
costs one read that cuts nothing."""


def due(rule: FlushRule, waiting: Waiting, *, now_seconds: float, flush_all: bool) -> Due | None:
    """Returns what to cut now, or None where the partition can wait.

    Offsets are taken for records: in a partition with gaps records are fewer, so this may say due a little early;
    the cut itself counts records exactly.
    """
    offsets = waiting.source_end - waiting.position
    if offsets <= 0:
        return None
    if flush_all:
        return Due(trigger=Trigger.EXPLICIT, end_offset=waiting.source_end)
    if waiting.daily_end_offset > waiting.position:
        # Before the age of what waits: what came after that time of day belongs to the next segment.
        return Due(trigger=Trigger.DAILY, end_offset=min(waiting.daily_end_offset, waiting.source_end))
    if waiting.since_seconds is not None and now_seconds - waiting.since_seconds >= rule.time_seconds_max:
        return Due(trigger=Trigger.TIME, end_offset=waiting.source_end)
    if waiting.is_pressed:
        return Due(trigger=Trigger.RETENTION, end_offset=waiting.source_end)
    if offsets < waiting.fruitless_offsets * GROWTH_BEFORE_ANOTHER_LOOK:
        return None  # reading the same records again would find too few again
    if offsets >= rule.records_max:
        return Due(trigger=Trigger.RECORDS, end_offset=None)
    if offsets * (waiting.bytes_per_record or BYTES_PER_RECORD_GUESS) >= rule.bytes_max:
        return Due(trigger=Trigger.BYTES, end_offset=None)
    return None
