"""``mirrorlake verify``."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mirrorlake.cli.output import error_console, print_json, print_table
from mirrorlake.cli.start import load, start_logs

if TYPE_CHECKING:
    from mirrorlake.config.resolved import Configuration
    from mirrorlake.pipeline.engine import EngineBuilder
    from mirrorlake.service.status import StatusRow
    from mirrorlake.verify.verification import Verdict

COLUMNS = (
    "name",
    "topic",
    "partition",
    "destination",
    "start",
    "end",
    "records",
    "lag",
    "result",
    "first_difference",
    "difference",
)


def verify(path: Path, *, level: str, as_json: bool, engine: "EngineBuilder | None" = None) -> int:
    """Compares every copy with its source; prints one row each; returns 0 where all are equal, else 1.

    Records are compared on ``engine``, by default Spark's.
    """
    start_logs()
    config = load(path)
    from mirrorlake.service.status import read_status

    rows = asyncio.run(read_status(config))
    verdicts = compare(config, rows, level=level, engine=engine)
    found = [verdict.as_json() for verdict in verdicts]
    if as_json:
        print_json(found)
    else:
        print_table(found, COLUMNS)
    return 0 if all(row["result"] == "equal" for row in found) else 1


def compare(
    config: "Configuration", rows: Sequence["StatusRow"], *, level: str, engine: "EngineBuilder | None" = None
) -> list["Verdict"]:
    """Returns a verdict per row, with a progress bar on stderr for work on records."""
    from mirrorlake.verify import verification

    if level == "names":
        return verification.verify_names(rows)
    from rich.progress import Progress

    bars = error_console()
    with Progress(console=bars, transient=True, disable=not bars.is_terminal) as progress:
        if level == "checksums":
            bar = progress.add_task("checking files", total=len(rows))
            return verification.verify_checksums(rows, progressed=lambda n: progress.advance(bar, n))
        from mirrorlake.pipeline.session import build_session
        from mirrorlake.verify.engine import verification_engine

        with verification_engine(config, engine or build_session) as run_task:
            comparing = verification.RecordVerification(
                rows,
                run_task=run_task,
                tasks_at_once=config.engine.lanes,
                largest_batch_bytes=config.engine.largest_batch_bytes,
                progressed=lambda n: progress.advance(bar, n),
            )
            bar = progress.add_task("comparing records", total=comparing.offsets_to_read)
            return comparing.run()
