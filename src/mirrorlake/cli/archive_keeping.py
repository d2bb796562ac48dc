"""``mirrorlake archive merge`` and ``mirrorlake archive retain``."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog
from rich.markup import escape

from mirrorlake.cli.archive import Where, survey_of
from mirrorlake.cli.output import Row, console, print_json, print_note, print_table
from mirrorlake.cli.progress import bytes_progress
from mirrorlake.cli.start import load, start_logs
from mirrorlake.errors import ConfigurationError
from mirrorlake.page_compression import Compression

if TYPE_CHECKING:
    from mirrorlake.config.resolved import Configuration
    from mirrorlake.pipeline.engine import EngineBuilder
    from mirrorlake.service.archives.merging import MergeRow, PlannedPartition
    from mirrorlake.service.archives.places import ArchivePlace

_log = structlog.get_logger("mirrorlake")

MERGE_COLUMNS = ("name", "partition", "inputs", "start", "end", "bytes", "output_bytes", "result", "reason")
RETAIN_COLUMNS = ("name", "partition", "segments", "start", "end", "bytes", "result", "reason")


def merge(
    where: Where,
    *,
    is_dry: bool,
    as_json: bool,
    compression: Compression | None = None,
    engine: "EngineBuilder | None" = None,
) -> int:
    """Merges what the configuration asks for and prints a row for each group; returns 1 where one failed, else 0.

    Segments are made on ``engine``, by default Spark's, which is started only where there is something to do.
    ``compression`` takes the place of the one that destinations name.

    Raises:
        ConfigurationError: some folder that is chosen is not Parquet, and ``compression`` is given.
    """
    start_logs()
    assert where.config is not None
    config = load(where.config)
    from mirrorlake.clock import SystemClock
    from mirrorlake.service.archives.merging import plan_places, planned_rows, refuse_without_rights

    places = places_of(where)
    if compression is not None:
        places = [_compressed(place, compression) for place in places]
    planned = plan_places(places, clock=SystemClock())
    if not is_dry:
        refuse_without_rights(planned)
    is_work = any(each.failure is None and (each.plan.groups or each.is_to_clean) for each in planned)
    rows = planned_rows(planned) if is_dry or not is_work else _merged(config, planned, engine)
    print_rows([row.as_json() for row in _in_order(rows)], MERGE_COLUMNS, as_json=as_json)
    if not as_json:
        _note_kept_inputs(planned)
    return 1 if any(row.error is not None for row in rows) else 0


def _compressed(place: "ArchivePlace", compression: Compression) -> "ArchivePlace":
    """Returns a partition of which what is made is compressed so."""
    destination = place.destination
    if destination is None or destination.merge is None:
        return place
    if destination.format != "parquet":
        raise ConfigurationError(
            f"{place.where} is {destination.format}, which has no compression of its own",
            hint="choose other topics or mirrors, or leave --compression out",
        )
    return replace(place, destination=replace(destination, merge=replace(destination.merge, compression=compression)))


def retain(where: Where, *, is_dry: bool, as_json: bool) -> int:
    """Retires what the configuration asks for and prints a row for each partition; returns 1 where one failed."""
    start_logs()
    from mirrorlake.clock import SystemClock
    from mirrorlake.service.archives import retention

    rows = retention.retain(places_of(where), clock=SystemClock(), is_dry=is_dry)
    print_rows([row.as_json() for row in rows], RETAIN_COLUMNS, as_json=as_json)
    return 1 if any(row.error is not None for row in rows) else 0


def places_of(where: Where, *, is_all: bool = False) -> "list[ArchivePlace]":
    """Returns the partitions that are meant; none where nothing was archived yet.

    With ``is_all`` they have to be all that is there of their topics. Partitions that had segments and whose folders
    are gone are among them, and topics that are gone are warned of, where they are not asked for by name.

    Raises:
        ChainBrokenError: what was asked for is not there, or is gone, or the root is none of an archive.
        MirrorlakeError: some folder could not be looked into: nothing is done by halves.
    """
    from mirrorlake.service.archives.missing import check_is_archive, lost_partitions, lost_topics

    survey = survey_of(where)
    for finding in survey.findings:
        if finding.is_beside and not is_all:
            _log.warning(finding.error.message, hint=finding.error.hint)
        elif not finding.is_odd_name:
            raise finding.error
    lost = lost_partitions(survey)
    for finding in lost_topics(survey):
        if finding.name in where.topics:
            raise finding.error
        _log.warning(finding.error.message, hint=finding.error.hint)
    if not lost:
        check_is_archive(survey)
    return [*survey.places, *lost]


def _merged(
    config: "Configuration", planned: "Sequence[PlannedPartition]", engine: "EngineBuilder | None"
) -> "list[MergeRow]":
    from mirrorlake.clock import SystemClock
    from mirrorlake.pipeline.session_start import build_session
    from mirrorlake.service.archives.merging import MergeRun, keeping_jobs

    given = [each.settings.parallelism for each in planned if each.settings is not None]
    # Of several destinations with bounds of their own, the lowest is kept by all.
    at_once = min((bound for bound in given if bound is not None), default=None)
    with (
        bytes_progress("merging", sum(each.size_bytes for each in planned)) as progressed,
        keeping_jobs(config, engine or build_session, at_once=at_once) as jobs,
    ):
        return MergeRun(planned, jobs=jobs, clock=SystemClock(), progressed=progressed).run()


def _in_order(rows: "Sequence[MergeRow]") -> "list[MergeRow]":
    def place(row: "MergeRow") -> tuple[str, int, str, int]:
        return row.place.name, row.place.partition, row.place.store.where(""), row.start or 0

    return sorted(rows, key=place)


def _note_kept_inputs(planned: "Sequence[PlannedPartition]") -> None:
    if any(each.settings is not None and each.settings.keep_inputs_seconds for each in planned):
        print_note("`keep-inputs`: until inputs go, a reader that knows nothing of mirrorlake sees their records twice")


def print_rows(rows: Sequence[Row], columns: Sequence[str], *, as_json: bool) -> None:
    """Prints rows as a table, and the errors of those that failed below it; or as JSON."""
    if as_json:
        print_json(list(rows))
        return
    print_table([{**row, "error": None} for row in rows], columns)
    for row in rows:
        if row.get("error"):
            where = escape(f"{row['name']}-{row['partition']}: {row['error']}")
            console().print(f"[red]error[/] {where}", soft_wrap=True)
