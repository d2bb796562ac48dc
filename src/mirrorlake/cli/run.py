"""``mirrorlake run``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mirrorlake.cli.progress import offsets_progress
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
    with offsets_progress("copying") as progressed:
        options = RunOptions(once=True, takes_over=takes_over, progressed=progressed, engine=engine)
        return serve(config, options)
