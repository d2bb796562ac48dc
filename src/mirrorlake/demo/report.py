"""The closing table: what was copied, how fast, and what a comparison of every record said."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mirrorlake.demo.loading import Content
from mirrorlake.demo.screen import Row

COLUMNS = ("topic", "to", "records", "mb", "seconds", "records/s", "mb/s", "added", "verified")

EQUAL = "equal"
NOT_COMPARED = "not compared"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedLeg:
    """One topic at one destination.

    ``content`` is what the first run copied in ``seconds``, ``added`` the records the second one did;
    ``verdict`` what the comparison of both together said.
    """

    topic: str
    destination: str
    content: Content
    seconds: float
    added: int
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSize:
    """Published files of an archive and their bytes together."""

    files: int
    file_bytes: int


def closing_rows(legs: Sequence[CopiedLeg], *, seconds: float) -> list[Row]:
    """Returns one row per leg and one for all of them, which were copied side by side in ``seconds``."""
    together = CopiedLeg(
        topic="all",
        destination="",
        content=sum((leg.content for leg in legs), Content()),
        seconds=seconds,
        added=sum(leg.added for leg in legs),
        verdict=EQUAL if all(leg.verdict == EQUAL for leg in legs) else "differs",
    )
    return [_row(leg) for leg in (*legs, together)]


def _row(leg: CopiedLeg) -> Row:
    megabytes = leg.content.record_bytes / 1e6
    return {
        "topic": leg.topic,
        "to": leg.destination,
        "records": leg.content.records,
        "mb": round(megabytes, 1),
        "seconds": round(leg.seconds, 1),
        "records/s": round(leg.content.records / leg.seconds) if leg.seconds > 0 else None,
        "mb/s": round(megabytes / leg.seconds, 1) if leg.seconds > 0 else None,
        "added": leg.added,
        "verified": leg.verdict,
    }


def verdicts(compared: Sequence[Mapping[str, object]], expected: Mapping[str, int]) -> dict[tuple[str, str], str]:
    """Returns what ``verify`` says by topic and destination; ``equal`` only where it saw every record there is.

    Args:
        compared: what ``mirrorlake verify --format json`` printed: one row per partition and destination.
        expected: records that readers find in each topic.
    """
    by_leg: dict[tuple[str, str], list[Mapping[str, object]]] = {}
    for row in compared:
        by_leg.setdefault((str(row["topic"]), str(row["destination"])), []).append(row)
    return {leg: _verdict(rows, expected[leg[0]]) for leg, rows in by_leg.items()}


def _verdict(rows: Sequence[Mapping[str, object]], expected: int) -> str:
    others = sorted({str(row["result"]) for row in rows} - {EQUAL})
    if others:
        return ", ".join(others)
    seen = sum(records for row in rows if isinstance(records := row["records"], int))
    return EQUAL if seen == expected else f"{seen} of {expected}"


def archive_size(lake: Path) -> ArchiveSize:
    """Returns how many Parquet files lie below ``lake`` and how large they are."""
    sizes = [path.stat().st_size for path in lake.rglob("*.parquet")]
    return ArchiveSize(files=len(sizes), file_bytes=sum(sizes))


def explanation(legs: Sequence[CopiedLeg], archive: ArchiveSize) -> list[str]:
    """Returns the lines below the table: what its numbers are, and what became of the bytes."""
    archived = sum((leg.content for leg in legs if leg.destination == "lake"), Content())
    return [
        "Records, MB and speeds are the first run's; added are those of the second one. MB are keys, values and "
        "headers before compression. Seconds are those in which one of a topic's partitions was under way, seen from "
        "outside, ten looks a second: from the last one before any of it had come to the first after all had.",
        f"The archive: {archive.files} Parquet files, {archive.file_bytes / 1e6:.1f} MB, for "
        f"{archived.record_bytes / 1e6:.1f} MB of records in the first run.",
    ]
