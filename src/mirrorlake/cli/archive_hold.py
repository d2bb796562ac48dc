"""``mirrorlake archive hold add``, ``ls`` and ``remove``."""

from typing import TYPE_CHECKING

from rich.markup import escape

from mirrorlake.cli.archive import Where, survey_of
from mirrorlake.cli.output import console, print_json, print_note, print_table
from mirrorlake.cli.start import start_logs
from mirrorlake.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirrorlake.archive.names import HoldName
    from mirrorlake.service.archives.holding import HoldRow
    from mirrorlake.service.archives.places import Survey

COLUMNS = ("name", "partition", "hold", "start", "end", "result", "reason")
LISTED = ("name", "partition", "store", "hold", "start", "end", "created_at", "reason")


def add(where: Where, hold: "HoldName", *, reason: str, as_json: bool) -> int:
    """Places a hold and prints a row for each partition it concerns; returns 0 where all of it is held for certain.

    Raises:
        ConfigurationError: of one of the topics nothing is archived that it could hold; none is held then.
        ChainBrokenError: one of the topics was archived, and its folder is gone; likewise.
        MirrorlakeError: a store could not be read.
    """
    start_logs()
    from mirrorlake.clock import SystemClock
    from mirrorlake.service.archives import holding
    from mirrorlake.service.archives.missing import lost_topics

    survey = _survey(where)
    concerned = holding.concerned(survey.places, hold)
    if missing := [name for name in where.topics if name not in concerned]:
        for finding in lost_topics(survey):
            if finding.name in missing:
                raise finding.error
        what = ", ".join(missing) + ("" if hold.partition is None else f", partition {hold.partition}")
        raise ConfigurationError(
            f"nothing is archived of {what}, so nothing was held",
            hint="`mirrorlake archive ls` shows the topics' folders; a topic that was recreated has several",
        )
    rows = holding.place(survey.places, hold, reason=reason, clock=SystemClock())
    _print(rows, COLUMNS, as_json=as_json)
    return 0 if all(row.result == "held" for row in rows) else 1


def ls(where: Where, *, as_json: bool) -> int:
    """Prints a row for each hold; returns 1 where one cannot be read, else 0."""
    start_logs()
    from mirrorlake.service.archives import holding

    rows = holding.listed(_survey(where).places)
    _print(rows, LISTED, as_json=as_json)
    if not (rows or as_json):
        print_note("nothing is held")
    return 1 if any(row.error for row in rows) else 0


def lift(where: Where, label: str, *, as_json: bool) -> int:
    """Lifts the holds of a label and prints a row for each; returns 0 where there is one, and all went, else 1."""
    start_logs()
    from mirrorlake.service.archives import holding

    rows = holding.lift(_survey(where).places, label)
    _print(rows, COLUMNS, as_json=as_json)
    if not (rows or as_json):
        print_note(f"there is no hold {label} there")
    return 0 if rows and not any(row.error for row in rows) else 1


def _survey(where: Where) -> "Survey":
    """Returns the partitions that are meant.

    Raises:
        MirrorlakeError: some folder could not be looked into: nothing is done by halves.
    """
    survey = survey_of(where)
    for finding in survey.findings:
        if not (finding.is_odd_name or finding.is_beside):
            raise finding.error
    return survey


def _print(rows: "Sequence[HoldRow]", columns: tuple[str, ...], *, as_json: bool) -> None:
    shown = [row.as_json() for row in rows]
    if as_json:
        print_json(shown)
        return
    print_table([{**row, "error": None} for row in shown], columns)
    for row in rows:
        if row.error is not None:
            console().print(f"[red]error[/] {escape(row.error.message)}", soft_wrap=True)
            if row.error.hint:
                console().print(f"      {escape(row.error.hint)}", soft_wrap=True)
