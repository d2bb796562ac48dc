"""``mirrorlake run``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mirrorlake.cli.output import error_console
from mirrorlake.cli.start import load, start_logs

if TYPE_CHECKING:
    from mirrorlake.pipeline.engine import EngineBuilder


def run(path: Path, *, once: bool, takes_over: bool, engine: "EngineBuilder | None" = None) -> int:
    """Mirrors until asked to stop; returns the exit code (see `mirrorlake.service.run.run`).

    A bounded run shows a progress bar on stderr where that is a terminal. Leases run on ``engine``, by default Spark's.
    """
    start_logs()
    config = load(path)
    from mirrorlake.pipeline.session import build_session
    from mirrorlake.service.lifecycle.parts import RunOptions
    from mirrorlake.service.run import run as serve

    engine = engine or build_session
    if not (once and sys.stderr.isatty()):
        options = RunOptions(once=once, takes_over=takes_over, engine=engine)
        return serve(config, options, reread=lambda: load(path))
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("copying"), BarColumn(), MofNCompleteColumn(), TextColumn("offsets"), TimeRemainingColumn())
    with Progress(*columns, console=error_console(), transient=True) as progress:
        bar = progress.add_task("copying", total=None)
        return serve(
            config,
            RunOptions(
                once=True,
                takes_over=takes_over,
                progressed=lambda done, total: progress.update(bar, completed=done, total=total or None),
                engine=engine,
            ),
        )
