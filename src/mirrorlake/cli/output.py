"""Tables for people, JSON for programs; results on stdout and nothing else there."""

import json
import sys
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

Cell = str | int | float | bool | None
Row = Mapping[str, Cell]

PLAIN_WIDTH = 240
"""Columns where nobody looks at a screen: wide enough that nothing is cut."""

_STYLES = {
    "parked": "red",
    "differs": "red",
    "refused": "red",
    "running": "cyan",
    "caught-up": "green",
    "equal": "green",
    "unknown": "yellow",
}


def console() -> Console:
    """Returns the console of stdout; a file or pipe gets wide, plain text."""
    return Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)


def error_console() -> Console:
    """Returns the console of stderr, for progress and notes."""
    return Console(stderr=True, highlight=False)


def print_json(value: object) -> None:
    """Prints one JSON value, indented, alone on stdout."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(rows: Sequence[Row], columns: Sequence[str], *, title: str = "") -> None:
    """Prints rows under upper-case headings; numbers to the right, nothing for null, errors on lines of their own.

    Args:
        rows: one mapping per row; a key ``error`` is shown below its row.
        columns: which keys, in which order; ``_`` in a name becomes ``-``.
        title: shown above.
    """
    table = Table(title=title or None, box=None, pad_edge=False, title_justify="left", header_style="bold")
    for column in columns:
        is_number = any(isinstance(row.get(column), int | float) for row in rows)
        table.add_column(
            column.upper().replace("_", "-"),
            justify="right" if is_number else "left",
            no_wrap=True,
            overflow="fold" if column == "error" else "ellipsis",
        )
    for row in rows:
        table.add_row(*(_text(column, row.get(column)) for column in columns))
    out = console()
    out.print(table)
    for row in rows:
        if row.get("error"):
            where = f"{row.get('topic')}-{row.get('partition')}"
            error = escape(str(row["error"]))
            out.print(f"[red]error[/] {row.get('name')} {where} → {row.get('destination')}: {error}")


def _text(column: str, value: Cell) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 100_000 else str(value)
    text = str(value)
    style = _STYLES.get(text) if column in {"state", "result", "action"} else None
    return f"[{style}]{text}[/]" if style else text
