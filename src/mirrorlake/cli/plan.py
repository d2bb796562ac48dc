"""``mirrorlake plan``."""

from pathlib import Path

from mirrorlake.cli.output import print_json, print_table, print_warning
from mirrorlake.cli.start import ask, load, start_logs

COLUMNS = ("name", "topic", "partition", "destination", "to", "action", "start", "end", "offsets", "note")


def plan(path: Path, *, as_json: bool) -> int:
    """Prints what ``run`` would do now; returns 1 if it would refuse something, else 0."""
    start_logs()
    config = load(path)
    from mirrorlake.service.plan.planning import read_whole_plan

    found = ask(read_whole_plan(config))
    idle = [{**row, "action": "nothing to do"} for each in found.idle for row in each.as_json()]
    if as_json:
        print_json([*(row.as_json() for row in found.rows), *idle])
    else:
        print_table([*(row.as_row() for row in found.rows), *idle], COLUMNS)
        warnings = [warning for row in found.rows for warning in row.warnings]
        for warning in dict.fromkeys([*warnings, *(each.message for each in found.idle)]):
            print_warning(warning)
    return 1 if any(row.error is not None for row in found.rows) else 0
