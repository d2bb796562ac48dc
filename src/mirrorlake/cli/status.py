"""``mirrorlake status``."""

import asyncio
from pathlib import Path

from mirrorlake.cli.output import print_json, print_table
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
        print_table(rows, COLUMNS)
    return 1 if any("error" in row for row in rows) else 0
