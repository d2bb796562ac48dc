"""What came out: compared by our own ``verify``, and record by record by a consumer that shares no code with us."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from mirrorlake.destinations.map.progress_store import ProgressTopics
from mirrorlake.destinations.map.shard_count import find_shards
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.offsets import TopicPartition
from soak.mirrors import Mode, Served
from support.copies import log_end, source_end
from support.map_copies import held_through_map, progress_of
from support.records import Record, consume, settings_of


@dataclass(slots=True, kw_only=True)
class Comparison:
    """Of all partitions. ``lost``: source records without an equal one at their offset; ``duplicated``: records at
    the destination that the source does not have at that offset; ``fillers_seen``: what only a consumer that reads
    uncommitted data sees."""

    records: int = 0
    archived: int = 0
    lost: int = 0
    duplicated: int = 0
    fillers_seen: int = 0
    ends_differ: list[str] = field(default_factory=list)
    first_differences: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


def compare(source: str, destination: str, served: Sequence[Served], lake: Path) -> Comparison:
    """Reads every partition on both sides with aiokafka, and its archive with pyarrow.

    Args:
        source: bootstrap servers, past the faults.
        destination: likewise.
        served: what was copied; what is taken is left out. Compacted topics are read uncommitted, because aiokafka
            gives up at a marker that was cleaned; nothing in them is transactional but our gaps, of which it must see
            nothing.
        lake: the folder of the archives.
    """
    found = Comparison()
    for each in served:
        for number in range(0 if each.is_taken else each.partitions):
            where = TopicPartition(each.topic, number)
            try:
                if each.mode is Mode.MAP:
                    _compare_mapped(source, destination, where, each.mirror_of(number), found)
                else:
                    _compare_one(source, destination, where, each, found)
                if each.is_archived:
                    _compare_archive(source, lake, where, each, found)
            except Exception as error:  # noqa: BLE001 (whatever it is, the other partitions are of interest too)
                found.unread.append(f"{where}: {error!r}")
    return found


def _compare_one(source: str, destination: str, where: TopicPartition, served: Served, found: Comparison) -> None:
    topic, number = where.topic, where.partition
    end, held_end = source_end(source, topic, number), log_end(destination, topic, number)
    if end != held_end:
        found.ends_differ.append(f"{where}: {end} at the source, {held_end} at the destination")
    level = "read_uncommitted" if served.is_compacted else "read_committed"
    expected = consume(source, topic, number, isolation_level=level)
    held = consume(destination, topic, number, isolation_level=level)
    if not served.is_compacted and served.mode is not Mode.FILLER:
        seen = consume(destination, topic, number, isolation_level="read_uncommitted")
        found.fillers_seen += len(seen.keys() - held.keys())
    found.records += len(expected)
    _count_differences(str(where), expected, held, served, found)


def _count_differences(
    where: str, expected: dict[int, Record], held: dict[int, Record], served: Served, found: Comparison
) -> None:
    lost = {o for o, record in expected.items() if held.get(o) != record}
    extra = {o for o, record in held.items() if expected.get(o) != record}
    if served.is_compacted:
        lost, extra = _without_compacted(expected, held, lost, extra)
    found.lost += len(lost)
    found.duplicated += len(extra)
    if lost or extra:
        first = min(lost | extra)
        found.first_differences.append(f"{where} {first}: {expected.get(first)} against {held.get(first)}")


def _compare_archive(source: str, lake: Path, where: TopicPartition, served: Served, found: Comparison) -> None:
    """Every file of the partition's folder as a plain reader sees it, none of our code in between."""
    level = "read_uncommitted" if served.is_compacted else "read_committed"
    expected = consume(source, where.topic, where.partition, isolation_level=level)
    held: dict[int, Record] = {}
    rows = 0
    for file in sorted((lake / where.topic / str(where.partition)).glob("*.parquet")):
        for row in pq.read_table(file).to_pylist():
            held[row["offset"]] = _record_of(row)
            rows += 1
    found.archived += len(held)
    found.duplicated += rows - len(held)
    _count_differences(f"archive of {where}", expected, held, served, found)


def _record_of(row: dict[str, Any]) -> Record:
    headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
    return Record(row["timestamp_ms"], row["key"], row["value"], headers)


def progress_topics(servers: str, mirror: str) -> ProgressTopics:
    """Where a service keeps the progress of a mirror whose offsets are mapped."""
    return ProgressTopics(mirror=mirror, shards=shards_of(servers, mirror))


def shards_of(servers: str, mirror: str) -> int:
    """How many shards the mirror was given; 1 where it has not begun."""

    async def ask() -> int | None:
        async with ClusterClient(settings_of(servers)) as client:
            return await find_shards(client, mirror)

    return asyncio.run(ask()) or 1


def mapped_position(servers: str, where: TopicPartition, mirror: str) -> int:
    """The source offset up to which a mapped copy says it has come."""
    progress = progress_of(servers, where, mirror=mirror, shards=shards_of(servers, mirror))
    return progress.offsets.end_offset if progress is not None else 0


def _compare_mapped(source: str, destination: str, where: TopicPartition, mirror: str, found: Comparison) -> None:
    """Every source record at its mapped offset, and as many records at the destination as the map has."""
    end, position = source_end(source, where.topic, where.partition), mapped_position(destination, where, mirror)
    if end != position:
        found.ends_differ.append(f"{where}: {end} at the source, progress {position}")
    expected = consume(source, where.topic, where.partition)
    held = held_through_map(destination, where, mirror=mirror, shards=shards_of(destination, mirror))
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


def verify(config: Path, served: Sequence[Served]) -> list[str]:
    """Rows of ``mirrorlake verify`` that are not as they must be: equal, or anything but equal where it is taken."""
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
    taken = {each.topic for each in served if each.is_taken}
    unequal = [str(row) for row in rows if (row["result"] == "equal") == (row["topic"] in taken)]
    wanted = {(each.topic, number) for each in served for number in range(each.partitions)}
    if missing := wanted - {(row["topic"], row["partition"]) for row in rows}:
        unequal.append(f"no row for {sorted(missing)}")
    if not rows or (done.returncode != (1 if taken else 0) and not unequal):
        unequal.append(f"exit code {done.returncode} over {len(rows)} rows: {done.stderr[-1000:]}")
    return unequal
