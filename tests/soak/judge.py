"""What came out: compared by our own ``verify``, and record by record by a consumer that shares no code with us."""

import asyncio
import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from mirrorlake.destinations.progress_store import ProgressTopics
from mirrorlake.destinations.shard_count import find_shards
from mirrorlake.kafka.cluster import ClusterClient
from mirrorlake.offsets import TopicPartition
from support.copies import log_end, source_end
from support.map_copies import held_through_map, progress_of
from support.records import Record, consume, settings_of


@dataclass(slots=True, kw_only=True)
class Comparison:
    """Of all partitions. ``lost``: source records without an equal one at their offset; ``duplicated``: records at
    the destination that the source does not have at that offset; ``fillers_seen``: what only a consumer that reads
    uncommitted data sees."""

    records: int = 0
    lost: int = 0
    duplicated: int = 0
    fillers_seen: int = 0
    ends_differ: list[str] = field(default_factory=list)
    first_differences: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


def compare(
    source: str,
    destination: str,
    partitions: list[TopicPartition],
    *,
    compacted: frozenset[str],
    filled: frozenset[str],
    mapped: frozenset[str],
) -> Comparison:
    """Reads every partition on both sides with aiokafka.

    Args:
        source: bootstrap servers, past the faults.
        destination: likewise.
        partitions: of both.
        compacted: topics that a cleaner works on. They are read uncommitted, because aiokafka gives up at a marker
            that was cleaned; nothing in them is transactional but our gaps, of which it must see nothing.
        filled: topics whose gaps are filled with records that those who read uncommitted do see.
        mapped: topics whose copies have offsets of their own; each is a mirror of its name.
    """
    found = Comparison()
    for where in partitions:
        try:
            if where.topic in mapped:
                _compare_mapped(source, destination, where, found)
                continue
            _compare_one(source, destination, where, found, compacted=compacted, filled=filled)
        except Exception as error:  # noqa: BLE001 (whatever it is, the other partitions are of interest too)
            found.unread.append(f"{where}: {error!r}")
    return found


def _compare_one(
    source: str,
    destination: str,
    where: TopicPartition,
    found: Comparison,
    *,
    compacted: frozenset[str],
    filled: frozenset[str],
) -> None:
    topic, number = where.topic, where.partition
    end, held_end = source_end(source, topic, number), log_end(destination, topic, number)
    if end != held_end:
        found.ends_differ.append(f"{where}: {end} at the source, {held_end} at the destination")
    level = "read_uncommitted" if topic in compacted else "read_committed"
    expected = consume(source, topic, number, isolation_level=level)
    held = consume(destination, topic, number, isolation_level=level)
    if topic not in compacted | filled:
        seen = consume(destination, topic, number, isolation_level="read_uncommitted")
        found.fillers_seen += len(seen.keys() - held.keys())
    lost = {o for o, record in expected.items() if held.get(o) != record}
    extra = {o for o, record in held.items() if expected.get(o) != record}
    if topic in compacted:
        lost, extra = _without_compacted(expected, held, lost, extra)
    found.records += len(expected)
    found.lost += len(lost)
    found.duplicated += len(extra)
    if lost or extra:
        first = min(lost | extra)
        found.first_differences.append(f"{where} {first}: {expected.get(first)} against {held.get(first)}")


def progress_topics(servers: str, mirror: str) -> ProgressTopics:
    """Where a service keeps the progress of a mirror whose offsets are mapped."""
    return ProgressTopics(mirror=mirror, shards=shards_of(servers, mirror))


def shards_of(servers: str, mirror: str) -> int:
    """How many shards the mirror was given; 1 where it has not begun."""

    async def ask() -> int | None:
        async with ClusterClient(settings_of(servers)) as client:
            return await find_shards(client, mirror)

    return asyncio.run(ask()) or 1


def mapped_position(servers: str, where: TopicPartition) -> int:
    """The source offset up to which a mapped copy says it has come."""
    progress = progress_of(servers, where, shards=shards_of(servers, where.topic))
    return progress.offsets.end_offset if progress is not None else 0


def _compare_mapped(source: str, destination: str, where: TopicPartition, found: Comparison) -> None:
    """Every source record at its mapped offset, and as many records at the destination as the map has."""
    end, position = source_end(source, where.topic, where.partition), mapped_position(destination, where)
    if end != position:
        found.ends_differ.append(f"{where}: {end} at the source, progress {position}")
    expected = consume(source, where.topic, where.partition)
    held = held_through_map(destination, where, shards=shards_of(destination, where.topic))
    there = consume(destination, where.topic, where.partition)
    lost = {o for o, record in expected.items() if held.get(o) != record}
    found.records += len(expected)
    found.lost += len(lost)
    found.duplicated += len(held.keys() - expected.keys()) + len(there) - len(held)
    if lost:
        found.first_differences.append(f"{where} {min(lost)}: {expected[min(lost)]} against {held.get(min(lost))}")


def _without_compacted(
    expected: dict[int, Record], held: dict[int, Record], lost: set[int], extra: set[int]
) -> tuple[set[int], set[int]]:
    """Leaves out what a cleaner took on one side only: a record that a later one of its key stands for on that side.

    A last record that is a tombstone may be gone too.
    """

    def is_replaced(offset: int, record: Record, by: dict[int, Record]) -> bool:
        return offset not in by and (
            record.value is None or any(o > offset and r.key == record.key for o, r in by.items())
        )

    lost = {o for o in lost if not is_replaced(o, expected[o], held)}
    return lost, {o for o in extra if not is_replaced(o, held[o], expected)}


def verify(config: Path) -> list[str]:
    """Rows of ``mirrorlake verify`` that are not equal; empty where it found every copy equal."""
    done = subprocess.run(
        [sys.executable, "-m", "mirrorlake", "verify", "-c", str(config), "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        rows = json.loads(done.stdout)
    except ValueError:
        return [f"exit code {done.returncode}: {done.stderr[-1000:]}"]
    unequal = [str(row) for row in rows if row["result"] != "equal"]
    if not rows or (done.returncode != 0 and not unequal):
        unequal.append(f"exit code {done.returncode} over {len(rows)} rows: {done.stderr[-1000:]}")
    return unequal
