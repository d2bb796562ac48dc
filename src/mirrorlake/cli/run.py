"""``mirrorlake run``."""

import sys
from pathlib import Path

from mirrorlake.cli.output import error_console
from mirrorlake.cli.start import load, start_logs


def run(path: Path, *, once: bool) -> int:
    """Mirrors until asked to stop; returns the exit code (see ``service.run.run``).

    A bounded run shows a progress bar on stderr where that is a terminal.
    """
    start_logs()
    config = load(path)
    from mirrorlake.service.run import RunOptions
    from mirrorlake.service.run import run as serve

    if not (once and sys.stderr.isatty()):
        return serve(config, RunOptions(once=once))
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("copying"), BarColumn(), MofNCompleteColumn(), TextColumn("offsets"), TimeRemainingColumn())
    with Progress(*columns, console=error_console(), transient=True) as progress:
        bar = progress.add_task("copying", total=None)
        return serve(
            config,
            RunOptions(
                once=True, progressed=lambda done, total: progress.update(bar, completed=done, total=total or None)
            ),
        )
