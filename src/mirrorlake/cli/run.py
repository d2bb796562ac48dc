"""``mirrorlake run``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mirrorlake.cli.progress import offsets_progress
from mirrorlake.cli.start import load, start_logs

if TYPE_CHECKING:
    from mirrorlake.config.resolved import Configuration
    from mirrorlake.pipeline.engine import EngineBuilder


def run(path: Path, *, once: bool, takes_over: bool, engine: "EngineBuilder | None" = None) -> int:
    """Mirrors until asked to stop; returns the exit code (see `mirrorlake.service.run.run`).

    A bounded run shows a progress bar on stderr where that is a terminal. Leases run on ``engine``, by default Spark's.
    """
    start_logs()
    config = load(path)
    from mirrorlake.pipeline.session_start import build_session
    from mirrorlake.service.lifecycle.parts import RunOptions
    from mirrorlake.service.run import run as serve

    engine = engine or build_session
    if not (once and sys.stderr.isatty()):
        options = RunOptions(once=once, takes_over=takes_over, engine=engine)
        return serve(config, options, reread=lambda: load(path))
    return copy_once(config, shown_as="copying", takes_over=takes_over, engine=engine)


def copy_once(
    config: "Configuration", *, shown_as: str, takes_over: bool = False, engine: "EngineBuilder | None" = None
) -> int:
    """Copies up to the ends found at the start, with a progress bar on stderr; returns the exit code of the run.

    Args:
        config: what to copy.
        shown_as: what the bar calls it.
        takes_over: ends a process that serves a mirror, instead of ending.
        engine: what runs the leases; Spark's where it is left out.
    """
    from mirrorlake.pipeline.session_start import build_session
    from mirrorlake.service.lifecycle.parts import RunOptions
    from mirrorlake.service.run import run as serve

    with offsets_progress(shown_as) as progressed:
        options = RunOptions(once=True, takes_over=takes_over, progressed=progressed, engine=engine or build_session)
        return serve(config, options)
