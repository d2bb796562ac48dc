"""``mirrorlake verify``."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mirrorlake.cli.output import Row, error_console, print_json, print_table, print_warning
from mirrorlake.cli.start import ask, load, start_logs

if TYPE_CHECKING:
    from mirrorlake.config.resolved import Configuration
    from mirrorlake.pipeline.engine import EngineBuilder
    from mirrorlake.service.status import StatusRow
    from mirrorlake.verify.verdict import Verdict

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


_COUNTED = ("erased", "cleaned", "repeated", "dead_lettered", "dead_lettered_copied")


def columns_of(found: Sequence[Row]) -> tuple[str, ...]:
    """Returns the columns of a table of verdicts; those that only count some kinds where there are any."""
    counted = (each for each in _COUNTED if any(row[each] for row in found))
    after = COLUMNS.index("records") + 1
    return (*COLUMNS[:after], *counted, *COLUMNS[after:])


def print_causes(found: Sequence[Row]) -> None:
    """Prints why copies differ, where that is known, and what to do about it."""
    for row in found:
        if row.get("cause"):
            print_warning(f"{row['name']} {row['topic']}-{row['partition']} → {row['destination']}: {row['cause']}")


def verify(path: Path, *, level: str, as_json: bool, engine: "EngineBuilder | None" = None) -> int:
    """Compares every copy with its source; prints one row each; returns 0 where all are equal, else 1.

    A row is ``empty`` where nothing could be compared; that is not equal. Records that were erased from a copy, or
    copied once more after its position was moved back, or are dead letters, are counted, and no difference; nor are
    those that a cleaner took from it, unless the source keeps them.

    Records are compared on ``engine``, by default Spark's.
    """
    start_logs()
    config = load(path)
    from mirrorlake.service.status import read_status

    rows = ask(read_status(config))
    verdicts = compare(config, rows, level=level, engine=engine)
    found = [verdict.as_json() for verdict in verdicts]
    if as_json:
        print_json(found)
    else:
        print_table(found, columns_of(found))
        print_causes(found)
    return 0 if all(row["result"] == "equal" for row in found) else 1


def compare(
    config: "Configuration", rows: Sequence["StatusRow"], *, level: str, engine: "EngineBuilder | None" = None
) -> list["Verdict"]:
    """Returns a verdict per row, with a progress bar on stderr for work on records."""
    from mirrorlake.verify import positions

    if level == "names":
        return positions.verify_names(rows)
    from rich.progress import Progress

    bars = error_console()
    with Progress(console=bars, transient=True, disable=not bars.is_terminal) as progress:
        if level == "checksums":
            bar = progress.add_task("checking files", total=len(rows))
            return positions.verify_checksums(rows, progressed=lambda n: progress.advance(bar, n))
        from mirrorlake.pipeline.session_start import build_session
        from mirrorlake.service.subjects.compared_ids import ComparedIds
        from mirrorlake.verify.engine import verification_jobs
        from mirrorlake.verify.verification import RecordVerification

        with verification_jobs(config, engine or build_session) as jobs:
            comparing = RecordVerification(
                rows,
                run_task=jobs.run,
                # Executors that come later are used too: as many as may run wait for a slot.
                tasks_at_once=max(jobs.slots, config.engine.lanes + config.engine.batch_slots),
                largest_batch_bytes=config.engine.largest_batch_bytes,
                progressed=lambda n: progress.advance(bar, n),
                ids_of=ComparedIds(rows).of,
            )
            bar = progress.add_task("comparing records", total=comparing.offsets_to_read)
            return comparing.run()
