"""Topics that Kafka's log cleaner works on at once."""

from support.copies import create_topic, wait_until
from support.records import Record, consume
from support.topics import append

EAGER = {
    "cleanup_policy": "compact",
    "min_cleanable_dirty_ratio": "0.01",
    "segment_ms": "100",
    "delete_retention_ms": "0",
}
"""Segments are rolled and cleaned as soon as may be, tombstones go in the next pass."""

RECORD_MS = 1000
"""Between two records: a segment's age is told by the timestamps in it."""


def create_compacted(servers: str, topic: str, partitions: int = 1, **configs: str) -> None:
    """A topic of which the cleaner leaves the last record of each key within seconds."""
    create_topic(servers, topic, partitions, **(EAGER | configs))


def keyed_records(count: int, keys: int, *, start: int = 0, timestamp: int = 1_700_000_000_000) -> list[Record]:
    """Records whose keys come again and again; the value says the number."""
    return [
        Record(timestamp + n * RECORD_MS, b"key-%d" % (n % keys), b"value-%d" % n) for n in range(start, start + count)
    ]


def append_and_compact(
    servers: str, topic: str, records: list[Record], *, left: set[int], batch_records: int = 10
) -> dict[int, Record]:
    """Writes records and waits until of the whole partition the offsets ``left`` remain; returns what is there then.

    The segment that is written to is never cleaned, so one more record is written into a new one.
    """
    append(servers, topic, 0, records, batch_records=batch_records)
    append(
        servers,
        topic,
        0,
        [Record(max(r.timestamp for r in records) + RECORD_MS, b"last", b"the newest is never cleaned")],
    )
    found: dict[int, Record] = {}

    def is_clean() -> bool:
        found.clear()
        found.update(consume(servers, topic, 0))
        return set(found) == left

    wait_until(is_clean, f"the cleaner to leave {sorted(left)} in {topic}", log=lambda: f"it holds {sorted(found)}")
    return found
