"""``mirrorlake archive ls`` and ``mirrorlake archive check``."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from mirrorlake.cli.output import console, print_json, print_table
from mirrorlake.cli.progress import bytes_progress
from mirrorlake.cli.start import load, start_logs

if TYPE_CHECKING:
    from mirrorlake.service.archive_places import ArchivePlace
    from mirrorlake.service.archive_reports import PartitionReport

COLUMNS = (
    *("name", "partition", "format", "segments", "start", "position", "records", "gaps", "bytes"),
    *("first_time", "last_time", "claims"),
)
SEGMENT_COLUMNS = (
    *("name", "partition", "file", "start", "end", "records", "gaps", "bytes", "first_time", "last_time"),
)
CHECK_COLUMNS = ("name", "partition", "format", "segments", "start", "position", "bytes", "claims", "result")


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
    places = _places(where)
    from mirrorlake.service.archive_reports import read_footers, read_names, segment_row

    reports = read_names(places)
    files: list[dict[str, str | int | None]] = []
    with bytes_progress("reading footers", _bytes(reports)) as progressed:
        read_footers(
            reports,
            progressed=progressed,
            each=lambda *found: files.append(segment_row(*found)) if segments else None,
        )
    rows = [{**report.fields(), **(report.contents.as_json() if report.contents else {})} for report in reports]
    if as_json:
        print_json(
            files if segments else [_with_problems(row, report) for row, report in zip(rows, reports, strict=True)]
        )
    else:
        print_table(files if segments else rows, SEGMENT_COLUMNS if segments else COLUMNS)
        _print_problems(reports)
    return _exit_code(reports)


def check(where: Where, *, level: str, as_json: bool) -> int:
    """Checks every partition and prints a row each; returns 0 where all are sound, else 1."""
    start_logs()
    places = _places(where)
    from mirrorlake.service.archive_reports import check_contents, read_names

    reports = read_names(places)
    if level == "checksums":
        with bytes_progress("checking files", _bytes(reports)) as progressed:
            check_contents(reports, progressed=progressed)
    rows = [{**report.fields(), "result": "broken" if report.names.problems else "sound"} for report in reports]
    if as_json:
        print_json([_with_problems(row, report) for row, report in zip(rows, reports, strict=True)])
    else:
        print_table(rows, CHECK_COLUMNS)
        _print_problems(reports)
    return _exit_code(reports)


def _places(where: Where) -> "list[ArchivePlace]":
    from mirrorlake.service.archive_places import Filters, places_below, places_of

    filters = Filters(
        mirrors=frozenset(where.mirrors), names=frozenset(where.topics), partitions=frozenset(where.partitions)
    )
    if where.root is not None:
        return places_below(where.root, filters)
    assert where.config is not None
    return places_of(load(where.config), filters)


def _bytes(reports: "Sequence[PartitionReport]") -> int:
    return sum(report.names.size_bytes for report in reports)


def _with_problems(row: "dict[str, str | int | None]", report: "PartitionReport") -> dict[str, object]:
    problems = [{"problem": error.message, "hint": error.hint or None} for error in report.names.problems]
    return {**row, "problems": problems}


def _print_problems(reports: "Sequence[PartitionReport]") -> None:
    out = console()
    for report in reports:
        for error in report.names.problems:
            out.print(f"[red]error[/] {escape(error.message)}", soft_wrap=True)
            if error.hint:
                out.print(f"      {escape(error.hint)}", soft_wrap=True)


def _exit_code(reports: "Sequence[PartitionReport]") -> int:
    return 1 if any(report.names.problems for report in reports) else 0
