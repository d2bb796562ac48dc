"""Reads partitions, and where in them to begin and to end: offsets and times of records."""

from datetime import UTC, datetime, timedelta

from mirrorlake.config.reading import INTEGER_MAX, found, read_duration, read_integer, read_text, refuse
from mirrorlake.config.sources.source import Start
from mirrorlake.config.values.names import read_topic
from mirrorlake.offsets import StartKind

PARTITION_MAX = 2**31 - 1
_MILLISECOND = timedelta(milliseconds=1)


def read_partitions(value: object) -> tuple[int, ...] | None:
    """Reads ``all`` (None) or a list of partitions, each once."""
    if isinstance(value, str) and value == "all":
        return None
    if not isinstance(value, list) or not value:
        refuse(f"expected all or a list of partitions, found {found(value)}", "for example [0, 1]")
    partitions = [read_integer(0, PARTITION_MAX)(item) for item in value]
    if len(set(partitions)) < len(partitions):
        refuse("names a partition twice")
    return tuple(sorted(partitions))


def read_start(value: object) -> Start:
    """Reads where to begin: a word, or ``{timestamp: …}``, ``{max-age: …}``, ``{offsets: {topic: {partition: …}}}``."""
    if isinstance(value, str) and value in ("earliest", "latest"):
        return Start(kind=StartKind("".join(value)))
    if not isinstance(value, dict) or len(value) != 1 or not {"timestamp", "offsets", "max-age"} & set(value):
        hint = "or {timestamp: 2026-01-31T00:00:00Z}, {max-age: 7d}, or {offsets: {topic: {partition: offset}}}"
        refuse(f"expected earliest or latest, found {found(value)}", hint)
    if "timestamp" in value:
        return Start(kind=StartKind.TIMESTAMP, timestamp_ms=_timestamp_ms(value["timestamp"]))
    if "max-age" in value:
        return Start(kind=StartKind.MAX_AGE, max_age_seconds=read_duration(60, 36500 * 86400)(value["max-age"]))
    return Start(kind=StartKind.OFFSETS, offsets=read_offsets(value["offsets"]))


def _timestamp_ms(value: object) -> int:
    if isinstance(value, int):
        return read_integer(0)(value)
    return round(_since_1970(value, "write 2026-01-31T00:00:00Z, or milliseconds since 1970") / _MILLISECOND)


def _since_1970(value: object, hint: str) -> timedelta:
    try:
        moment = datetime.fromisoformat(read_text(value))
    except ValueError:
        refuse(f"{found(value)} is not a time", hint)
    if moment.tzinfo is None:
        refuse(f"{found(value)} has no time zone", "end it with Z for UTC")
    return moment - datetime(1970, 1, 1, tzinfo=UTC)


def read_moment(value: object) -> int:
    """Reads a time as records have it, to the millisecond (RFC 3339); returned as Unix milliseconds."""
    since = _since_1970(value, "write 2026-01-31T12:00:00.000Z")
    if since % _MILLISECOND:
        refuse(f"{found(value)} is finer than a millisecond, and records' times are not", "write three decimals")
    if since < timedelta():
        refuse(f"{found(value)} is before 1970, and no record is")
    return since // _MILLISECOND


def read_offsets(value: object) -> dict[str, dict[int, int]]:
    """Reads offsets by topic and partition."""
    if not isinstance(value, dict) or not all(isinstance(item, dict) and item for item in value.values()):
        refuse("expected offsets by topic and partition", "for example {orders: {0: 100, 1: 250}}")
    offsets: dict[str, dict[int, int]] = {}
    for topic, by_partition in value.items():
        offsets[read_topic(topic)] = {
            _partition_key(key): read_integer(0, INTEGER_MAX)(offset) for key, offset in by_partition.items()
        }
    return offsets


def _partition_key(key: str) -> int:
    if not key.isascii() or not key.isdigit() or int(key) > PARTITION_MAX:
        refuse(f"{found(key)} is not a partition")
    return int(key)
