"""``mirrorlake archive ls`` and ``mirrorlake archive check``."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from rich.markup import escape

from mirrorlake.cli.output import console, print_json, print_note, print_table
from mirrorlake.cli.progress import bytes_progress
from mirrorlake.cli.start import load, start_logs

if TYPE_CHECKING:
    from mirrorlake.errors import MirrorlakeError
    from mirrorlake.service.archives.places import Finding, Survey
    from mirrorlake.service.archives.reports import PartitionReport

_log = structlog.get_logger("mirrorlake")

COLUMNS = (
    *("name", "partition", "format", "segments", "start", "position", "records", "gaps", "bytes"),
    *("first_time", "last_time", "claims", "covered"),
)
SEGMENT_COLUMNS = (
    *("name", "partition", "file", "start", "end", "records", "gaps", "bytes", "first_time", "last_time"),
)
NO_CONTENTS: dict[str, str | int | None] = dict.fromkeys(("records", "gaps", "first_time", "last_time"))
"""Of what is not there no footer says anything."""
CHECK_COLUMNS = ("name", "partition", "format", "segments", "start", "position", "bytes", "claims", "covered", "result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Which partitions are meant, as given on the command line; ``config`` or ``root`` is set."""

    config: Path | None
    root: Path | None
    mirrors: Sequence[str] = ()
    topics: Sequence[str] = ()
    partitions: Sequence[int] = ()


def ls(where: Where, *, segments: bool, as_json: bool) -> int:
    """Prints a row per partition or per file; returns 1 where something is wrong with one, else 0."""
    start_logs()
    survey = survey_of(where)
    from mirrorlake.service.archives.missing import find_lost
    from mirrorlake.service.archives.reports import finding_row, read_footers, read_names, segment_row

    reports = read_names(survey.places)
    findings = [finding for finding in survey.findings if not finding.is_odd_name] + find_lost(survey, reports)
    files: list[dict[str, str | int | None]] = []
    with bytes_progress("reading footers", _bytes(reports)) as progressed:
        read_footers(
            reports,
            progressed=progressed,
            each=lambda *found: files.append(segment_row(*found)) if segments else None,
        )
    rows = [{**report.fields(), **(report.contents.as_json() if report.contents else {})} for report in reports]
    lost = [{**finding_row(finding), **NO_CONTENTS} for finding in findings]
    if as_json and segments:
        print_json(files)
        _log_problems(reports, findings)
    elif as_json:
        print_json(
            [_with_problems(row, report) for row, report in zip(rows, reports, strict=True)]
            + [{**row, "problems": [_problem(finding.error)]} for row, finding in zip(lost, findings, strict=True)]
        )
    else:
        columns = (*COLUMNS, "holds") if any(row["holds"] for row in rows) else COLUMNS
        print_table(files if segments else [*rows, *lost], SEGMENT_COLUMNS if segments else columns)
        _print_problems(reports, findings)
        _print_doubts(reports)
        _print_nothings(survey)
    return _exit_code(reports, findings)


def check(where: Where, *, level: str, as_json: bool) -> int:
    """Checks every partition and prints a row each, and one for each that is missing; returns 0 where all are sound.

    1 where something is wrong, and where there was nothing to check.
    """
    start_logs()
    survey = survey_of(where)
    from mirrorlake.service.archives.missing import find_missing
    from mirrorlake.service.archives.reports import check_contents, check_ends, finding_row, read_names
    from mirrorlake.service.archives.schemas import damaged_schemas

    reports = read_names(survey.places)
    if level == "names":
        # Before what is missing is told: an end that was renamed is not gone.
        check_ends(reports)
    findings = [finding for finding in survey.findings if not finding.is_odd_name] + find_missing(survey, reports)
    if level == "checksums":
        with bytes_progress("checking files", _bytes(reports)) as progressed:
            check_contents(reports, progressed=progressed)
        _warn_of_bare(reports)
        findings += damaged_schemas(survey)
    rows = [{**report.fields(), "result": "broken" if report.names.problems else "sound"} for report in reports]
    lost = [{**finding_row(finding), "result": "broken"} for finding in findings]
    if as_json:
        print_json(
            [_with_problems(row, report) for row, report in zip(rows, reports, strict=True)]
            + [{**row, "problems": [_problem(finding.error)]} for row, finding in zip(lost, findings, strict=True)]
        )
    else:
        print_table([*rows, *lost], CHECK_COLUMNS)
        _print_problems(reports, findings)
        _print_doubts(reports)
    return _exit_code(reports, findings)


def _warn_of_bare(reports: "Sequence[PartitionReport]") -> None:
    for report in reports:
        if report.bare and not report.names.problems:
            _log.warning(
                f"{report.place.where}: {report.bare} files have no checksum: their records were read, and compared "
                "with nothing",
                hint=f"mirror-v3 wrote them, or what described them in {report.place.name}/_meta is lost; "
                "`mirrorlake verify` compares them with the source",
            )


def survey_of(where: Where) -> "Survey":
    """Returns the partitions that are meant; warns of folders with odd names.

    Raises:
        MirrorlakeError: the configuration or a store could not be read.
    """
    from mirrorlake.service.archives.places import Filters, places_below, places_of

    filters = Filters(
        mirrors=frozenset(where.mirrors), names=frozenset(where.topics), partitions=frozenset(where.partitions)
    )
    if where.root is not None:
        survey = places_below(where.root, filters)
    else:
        assert where.config is not None
        survey = places_of(load(where.config), filters)
    for finding in survey.findings:
        if finding.is_odd_name:
            _log.warning(f"{finding.store.where('')}/{finding.name} was passed over", error=finding.error.message)
    return survey


def _bytes(reports: "Sequence[PartitionReport]") -> int:
    return sum(report.names.size_bytes for report in reports)


def _with_problems(row: "dict[str, str | int | None]", report: "PartitionReport") -> dict[str, object]:
    return {**row, "problems": [_problem(error) for error in report.names.problems]}


def _problem(error: "MirrorlakeError") -> dict[str, str | None]:
    return {"problem": error.message, "hint": error.hint or None}


def _print_problems(reports: "Sequence[PartitionReport]", findings: "Sequence[Finding]") -> None:
    out = console()
    for error in [error for report in reports for error in report.names.problems] + [each.error for each in findings]:
        out.print(f"[red]error[/] {escape(error.message)}", soft_wrap=True)
        if error.hint:
            out.print(f"      {escape(error.hint)}", soft_wrap=True)


def _log_problems(reports: "Sequence[PartitionReport]", findings: "Sequence[Finding]") -> None:
    """Says on stderr what is wrong, where the result has no place for it."""
    for error in [error for report in reports for error in report.names.problems] + [each.error for each in findings]:
        _log.error(error.message, hint=error.hint)


def _print_doubts(reports: "Sequence[PartitionReport]") -> None:
    """Says what retention leaves alone: it grows, and nothing else tells."""
    for report in reports:
        if report.doubt:
            print_note(f"`retain` leaves {report.place.name}-{report.place.partition} alone: {report.doubt}")


def _print_nothings(survey: "Survey") -> None:
    """Says of each store in which nothing was found that it was looked at."""
    filters = survey.filters
    asked = " that was asked for" if filters.names or filters.partitions or filters.mirrors else ""
    filled = {place.store for place in survey.places} | {finding.store for finding in survey.findings}
    for store in survey.owners:
        if store not in filled:
            print_note(f"nothing{asked} is archived in {store.where('')}")


def _exit_code(reports: "Sequence[PartitionReport]", findings: "Sequence[Finding]") -> int:
    return 1 if findings or any(report.names.problems for report in reports) else 0
