"""``mirrorlake plan``."""

import asyncio
from pathlib import Path

from mirrorlake.cli.output import print_json, print_table, print_warning
from mirrorlake.cli.start import load, start_logs

COLUMNS = ("name", "topic", "partition", "destination", "to", "action", "start", "end", "offsets", "note")


def plan(path: Path, *, as_json: bool) -> int:
    """Prints what ``run`` would do now; returns 1 if it would refuse something, else 0."""
    start_logs()
    config = load(path)
    from mirrorlake.service.planning import read_plan

    rows = asyncio.run(read_plan(config))
    if as_json:
        print_json([row.as_json() for row in rows])
    else:
        print_table([row.as_row() for row in rows], COLUMNS)
        for warning in dict.fromkeys(warning for row in rows for warning in row.warnings):
            print_warning(warning)
    return 1 if any(row.error is not None for row in rows) else 0
