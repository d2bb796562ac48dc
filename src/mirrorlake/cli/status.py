"""``mirrorlake status``."""

import asyncio
from pathlib import Path

from mirrorlake.cli.output import Row, print_json, print_table
from mirrorlake.cli.start import load, start_logs

COLUMNS = ("name", "topic", "partition", "destination", "source_low", "source_high", "dest_next", "lag", "state")


def status(path: Path, *, as_json: bool) -> int:
    """Prints one row per partition and destination; returns 1 if a row failed, else 0."""
    start_logs()
    config = load(path)
    from mirrorlake.service.status import read_status

    rows = [row.as_json() for row in asyncio.run(read_status(config))]
    if as_json:
        print_json(rows)
    else:
        print_table([_named(row) for row in rows], COLUMNS)
    return 1 if any("error" in row for row in rows) else 0


def _named(row: Row) -> Row:
    """Returns a row whose state says why, for people."""
    return {**row, "state": f"{row['state']}: {row['reason']}"} if "reason" in row else row
