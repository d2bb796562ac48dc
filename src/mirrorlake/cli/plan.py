"""``mirrorlake plan``."""

import asyncio
from pathlib import Path

from mirrorlake.cli.output import print_json, print_table
from mirrorlake.cli.start import load, start_logs

COLUMNS = ("name", "topic", "partition", "destination", "to", "action", "start", "end", "offsets", "note")


def plan(path: Path, *, as_json: bool) -> int:
    """Prints what ``run`` would do now; returns 1 if it would refuse something, else 0."""
    start_logs()
    config = load(path)
    from mirrorlake.service.planning import read_plan

    rows = [row.as_json() for row in asyncio.run(read_plan(config))]
    if as_json:
        print_json(rows)
    else:
        print_table(rows, COLUMNS)
    return 1 if any("error" in row for row in rows) else 0
