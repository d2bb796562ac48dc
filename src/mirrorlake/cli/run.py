"""``mirrorlake run``."""

from pathlib import Path

from mirrorlake.cli.start import load, start_logs


def run(path: Path, *, once: bool) -> int:
    """Mirrors until asked to stop; returns the exit code (see ``service.run.run``)."""
    start_logs()
    config = load(path)
    from mirrorlake.service.run import RunOptions
    from mirrorlake.service.run import run as serve

    return serve(config, RunOptions(once=once))
