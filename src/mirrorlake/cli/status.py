"""``mirrorlake status``."""

import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from mirrorlake.cli.output import Row, print_json, print_note, print_table, print_warning
from mirrorlake.cli.start import ask, load, start_logs
from mirrorlake.config.resolved import Form

COLUMNS = (
    *("name", "topic", "partition", "destination", "source_low", "source_high", "dest_next", "lag", "lag_seconds"),
    "state",
)


V3_COLUMNS = ("mirror", "source_high", "dest_next", "lag", "state")
"""In the mirror-v3 form, whose table begins with these four: a mirror is one partition there."""

OWNER_COLUMNS = ("owner", "owner_since")
"""Shown where somebody owns a mirror at a Kafka destination."""

NAMED_MAX = 3
"""Partitions that one line below the table names."""

UNKNOWN_NOTE = "what only a running service knows is unknown, such as partitions it parked"
"""Shown below the table, with the reason: rows that are parked by what can be read say so all the same."""


def status(path: Path, *, as_json: bool) -> int:
    """Prints one row per partition and destination; returns 1 if a row failed, else 0."""
    start_logs()
    config = load(path)
    from mirrorlake.service.status import read_live_status

    found = ask(read_live_status(config))
    rows: list[Row] = [row.as_json() for row in found.rows]
    rows += [{**row, "state": "unknown"} for idle in found.idle for row in idle.as_json()]
    if as_json:
        print_json(rows)
    else:
        is_v3 = config.form is Form.MIRROR_V3
        is_owned = any("owner" in row for row in rows)
        native_columns = (*COLUMNS, *OWNER_COLUMNS) if is_owned else COLUMNS
        print_table([{**_named(row), "mirror": row["name"]} for row in rows], V3_COLUMNS if is_v3 else native_columns)
        for idle in found.idle:
            print_warning(idle.message)
        for message in stale_copies(rows):
            print_warning(message)
        for message in failing_copies(rows):
            print_warning(message)
        for message in () if is_v3 else waiting_copies(rows):
            print_note(message)
        for failed in found.service.failed_keeping:
            print_warning(failed.message)
        for message in (said for doubted in found.service.doubted_keeping for said in doubted.messages):
            print_warning(message)
        for message in found.service.unserved:
            print_warning(message)
        if not found.service.answers:
            note = f"{UNKNOWN_NOTE}: {found.service.silent_because}"
            if is_v3:  # what reads that form's table expects nothing below it
                print(f"note: {note}", file=sys.stderr)
            else:
                print_note(note)
    return 1 if any("error" in row for row in rows) else 0


def stale_copies(rows: Sequence[Row]) -> list[str]:
    """Returns a line for each destination of a mirror that has stale copies: how many, and some of them."""
    return _told_by_place(rows, "stale", "stale copies of")


def failing_copies(rows: Sequence[Row]) -> list[str]:
    """Returns such a line of partitions at which a running service fails and tries again, with what it fails at."""
    return _told_by_place(rows, "failing", "tries again after a failure:")


def waiting_copies(rows: Sequence[Row]) -> list[str]:
    """Returns such a line of partitions at which nothing is wrong and that wait, with what for."""
    return _told_by_place(rows, "waiting", "waits, with nothing wrong, in")


def _told_by_place(rows: Sequence[Row], key: str, what: str) -> list[str]:
    by_place: dict[tuple[object, object], list[str]] = defaultdict(list)
    for row in rows:
        if key in row:
            by_place[row["name"], row["destination"]].append(f"{row['topic']}-{row['partition']} ({row[key]})")
    return [
        f"{name} → {destination}: {what} {len(copies)} partition(s): {', '.join(copies[:NAMED_MAX])}"
        + (", …" if len(copies) > NAMED_MAX else "")
        for (name, destination), copies in by_place.items()
    ]


def _named(row: Row) -> Row:
    """Returns a row whose state says why, for people."""
    return {**row, "state": f"{row['state']}: {row['reason']}"} if "reason" in row else row
