"""``mirrorlake archive snapshot``."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mirrorlake.cli.archive import Where
from mirrorlake.cli.archive_keeping import places_of, print_rows
from mirrorlake.cli.progress import bytes_progress
from mirrorlake.cli.start import load, start_logs

if TYPE_CHECKING:
    from mirrorlake.config.resolved import Configuration
    from mirrorlake.pipeline.engine import EngineBuilder
    from mirrorlake.service.archives.snapshot_options import SnapshotOptions
    from mirrorlake.service.archives.snapshot_plan import PlannedSnapshot
    from mirrorlake.service.archives.snapshotting import SnapshotRow

COLUMNS = (*("name", "partition", "start", "end", "bytes", "snapshot", "records", "output_bytes", "result", "reason"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked for, as it was written; None where it was not."""

    to: str | None = None
    until: str | None = None
    until_offset: int | None = None
    keeps_tombstones: bool = False


def snapshot(where: Where, asked: Asked, *, is_dry: bool, as_json: bool, engine: "EngineBuilder | None" = None) -> int:
    """Makes the snapshots and prints a row for each partition; returns 1 where one failed, else 0.

    They are made on ``engine``, by default Spark's, which is started only where there is something to do.
    """
    start_logs()
    assert where.config is not None
    config = load(where.config)
    from mirrorlake.clock import SystemClock
    from mirrorlake.service.archives.snapshotting import (
        finish_dead_runs,
        plan_snapshots,
        planned_row,
        with_rights,
    )

    options = _options(config, asked)
    planned = plan_snapshots(places_of(where), options, clock=SystemClock())
    if not is_dry:
        planned = with_rights(planned)
    if is_dry or all(each.plan is None for each in planned):
        rows = [planned_row(each) for each in planned]
        if not is_dry:
            finish_dead_runs(planned, writer=options.writer, clock=SystemClock())
    else:
        rows = _made(config, planned, options, engine)
    rows.sort(key=_place)
    print_rows([row.as_json() for row in rows], COLUMNS, as_json=as_json)
    return 1 if any(row.error is not None for row in rows) else 0


def _made(
    config: "Configuration",
    planned: "Sequence[PlannedSnapshot]",
    options: "SnapshotOptions",
    engine: "EngineBuilder | None",
) -> "list[SnapshotRow]":
    from mirrorlake.clock import SystemClock
    from mirrorlake.pipeline.session_start import build_session
    from mirrorlake.service.archives.snapshotting import SnapshotRun, snapshot_engine

    with (
        bytes_progress("making snapshots", sum(each.size_bytes for each in planned)) as progressed,
        snapshot_engine(config, engine or build_session, options) as running,
    ):
        run = SnapshotRun(planned, options=options, engine=running, clock=SystemClock(), progressed=progressed)
        return run.run()


def _options(config: "Configuration", asked: Asked) -> "SnapshotOptions":
    """Returns what was asked for.

    Raises:
        ConfigurationErrors: an option that cannot be used, each by its name.
    """
    from mirrorlake.service.archives.snapshot_options import options_of
    from mirrorlake.service.states import writer_name

    return options_of(
        config,
        to=asked.to,
        until=asked.until,
        until_offset=asked.until_offset,
        keeps_tombstones=asked.keeps_tombstones,
        writer=writer_name(),
    )


def _place(row: "SnapshotRow") -> tuple[str, int, str]:
    place = row.planned.place
    return place.name, place.partition, place.store.where("")
