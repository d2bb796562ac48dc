"""Tables for people, JSON for programs; results on stdout and nothing else there."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import cast

from rich.cells import cell_len
from rich.console import Console
from rich.control import strip_control_codes
from rich.markup import escape
from rich.table import Table
from rich.text import Text

Cell = str | int | float | bool | None
Row = Mapping[str, Cell]

PLAIN_WIDTH = 10_000
"""Columns where nobody looks at a screen: wide enough that no name is cut and no line folded."""

_STYLES = {
    "parked": "red",
    "differs": "red",
    "refused": "red",
    "running": "cyan",
    "behind": "yellow",
    "unreachable": "yellow",
    "caught-up": "green",
    "ended": "green",
    "equal": "green",
    "explained": "green",
    "sound": "green",
    "broken": "red",
    "unknown": "yellow",
}
_STYLED = frozenset({"state", "result", "action", "verified"})

_INDENT = 2
_SCALARS = frozenset({str, int, float, bool, type(None)})
_GAP = 2
FOLDED_WIDTH_MIN = 16
"""A folded text gets at least this many columns: narrower ones cannot be read."""

_SHORT_HEADINGS = {
    "partition": "PART",
    "partitions": "PARTS",
    "destination": "DEST",
    "source_low": "SOURCE\nLOW",
    "source_high": "SOURCE\nHIGH",
    "dest_next": "DEST\nNEXT",
    "lag_seconds": "LAG\nSECONDS",
    "first_difference": "FIRST\nDIFFERENCE",
}
_FOLDABLE = frozenset({"name", "topic", "destination", "to", "note", "example of"})
_EXPENDABLE = ("to", "offsets", "lag")
"""What other columns say too, in the order in which it is left out."""
_FIRST_TO_GO = "lag_seconds"
"""Left out before anything is folded."""


def is_terminal() -> bool:
    """Tells whether somebody looks at stdout."""
    return sys.stdout.isatty()


def console() -> Console:
    """Returns the console of stdout; a file or pipe gets wide, plain text."""
    return Console(width=None if is_terminal() else PLAIN_WIDTH, highlight=False)


def error_console() -> Console:
    """Returns the console of stderr, for progress and notes."""
    return Console(stderr=True, highlight=False)


def print_warning(text: str) -> None:
    """Prints a line below a table that asks for a second look."""
    console().print(f"[yellow]warning[/] {escape(text)}")


def print_note(text: str) -> None:
    """Prints a line below a table that says what it does not show."""
    console().print(f"[dim]note[/] {escape(text)}")


def print_json(value: object) -> None:
    """Prints one JSON value, indented, alone on stdout."""
    print(indented(value))


def indented(value: object) -> str:
    """Returns what ``json.dumps(value, indent=2, ensure_ascii=False)`` does.

    That writes each single value in Python. Here the compiled encoder writes a mapping without lists or mappings in it
    at once, with the line break in place of a separator, and a list of such mappings too.

    Args:
        value: of what JSON knows; keys of mappings are texts.
    """
    return _indented(value, 1)


def _indented(value: object, depth: int) -> str:
    if not isinstance(value, dict | list | tuple) or not value:
        return json.dumps(value, ensure_ascii=False)
    pad = "\n" + " " * (_INDENT * depth)
    end = pad[:-_INDENT]
    if isinstance(value, list | tuple):
        if _are_rows(value):
            return f"[{pad}{_rows(value, depth)}{end}]"
        return f"[{pad}{(',' + pad).join([_indented(each, depth + 1) for each in value])}{end}]"
    if not any(isinstance(held, dict | list | tuple) for held in value.values()):
        return f"{{{pad}{_encoder(pad).encode(value)[1:-1]}{end}}}"
    items = [f"{json.dumps(key, ensure_ascii=False)}: {_indented(held, depth + 1)}" for key, held in value.items()]
    return f"{{{pad}{(',' + pad).join(items)}{end}}}"


def _are_rows(values: Sequence[object]) -> bool:
    """Tells whether all are mappings with something in them, and nothing that holds more."""
    if {*map(type, values)} != {dict} or not all(values):
        return False
    rows = cast("Sequence[dict[str, object]]", values)
    return {*map(type, chain.from_iterable(map(dict.values, rows)))} <= _SCALARS


def _rows(values: Sequence[object], depth: int) -> str:
    """Returns what stands between the brackets of a list of rows.

    All line breaks in it are separators: those in a text are written as two letters.
    """
    pad = "\n" + " " * (_INDENT * depth)
    inner = "\n" + " " * (_INDENT * (depth + 1))
    text = _encoder(inner).encode(values)
    between = f"{pad}}},{pad}{{{inner}"
    return f"{{{inner}{text[2:-2].replace(f'}},{inner}{{', between)}{pad}}}"


@cache
def _encoder(pad: str) -> json.JSONEncoder:
    """Returns an encoder of flat mappings; there are as many as levels."""
    return json.JSONEncoder(ensure_ascii=False, separators=("," + pad, ": "))


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a table is shown.

    Attributes:
        columns: those that are shown, in their order.
        headings: of each of them.
        common: what is the same in all rows, said once above the table instead.
        folded: columns whose texts may take several lines.
    """

    columns: tuple[str, ...]
    headings: Mapping[str, str]
    common: Mapping[str, str] = field(default_factory=dict)
    folded: frozenset[str] = frozenset()


def print_table(rows: Sequence[Row], columns: Sequence[str], *, title: str = "") -> None:
    """Prints rows under upper-case headings; numbers to the right, a dash for null, errors on lines of their own.

    Where the screen is too narrow for all of it the table gives way, see `fit`; nothing is ever cut off in
    silence.

    Args:
        rows: one mapping per row; a key ``error`` is shown below its row.
        columns: which keys, in which order; ``_`` in a name becomes ``-``.
        title: shown above.
    """
    out = console()
    # Programs read what is piped: `1,234` is not a number to them.
    is_grouped = is_terminal()
    layout = fit(rows, columns, width=out.width, is_grouped=is_grouped)
    if layout.common:
        out.print(", ".join(f"{column.replace('_', ' ')}: {escape(text)}" for column, text in layout.common.items()))
    lines = None if title or layout.folded else _lines(out, rows, layout, is_grouped=is_grouped)
    if lines is None:
        out.print(_folding_table(rows, layout, title=title, is_grouped=is_grouped))
    else:
        print(*lines, sep="\n", file=out.file)
    for row in rows:
        if row.get("error"):
            partition = "" if row.get("partition") is None else f"-{row['partition']}"
            topic = "" if row.get("topic") is None else f" {row['topic']}{partition}"  # not every row is about one
            where = escape(f"{row.get('name')}{topic} → {row.get('destination')}")
            out.print(f"[red]error[/] {where}: {escape(str(row['error']))}")


def _lines(out: Console, rows: Sequence[Row], layout: Layout, *, is_grouped: bool) -> list[str] | None:
    """Returns the lines of a table of which each row is one; None where one is not, or would be wider than the screen.

    A table of rich's takes a millisecond and more for each row: a minute for the offsets of a thousand groups.
    """
    columns: list[list[str]] = []
    width = -_GAP
    for column in layout.columns:
        texts = [layout.headings[column], *(_plain(row.get(column), is_grouped=is_grouped) for row in rows)]
        if any("\n" in text for text in texts):
            return None
        widths = list(map(_cells, texts))
        widest = max(widths)
        width += widest + _GAP
        shown = _styled(out, column, texts)
        spaces = [" " * (widest - each) for each in widths]
        pairs = zip(spaces, shown, strict=True) if _is_number(rows, column) else zip(shown, spaces, strict=True)
        columns.append(["".join(pair) for pair in pairs])
    if width > out.width:
        return None
    return [(" " * _GAP).join(cells) for cells in zip(*columns, strict=True)]


def _styled(out: Console, column: str, texts: Sequence[str]) -> list[str]:
    """Returns a heading and the texts below it, in colours where the screen has them."""

    @cache
    def ansi(text: str, style: str) -> str:
        with out.capture() as captured:
            out.print(Text(text, style=style, end=""), end="", no_wrap=True, overflow="ignore", crop=False)
        return captured.get()

    heading, *cells = texts
    return [ansi(heading, "bold"), *(ansi(text, style) if (style := _style(column, text)) else text for text in cells)]


def _folding_table(rows: Sequence[Row], layout: Layout, *, title: str, is_grouped: bool) -> Table:
    table = Table(title=title or None, box=None, pad_edge=False, title_justify="left", header_style="bold")
    for column in layout.columns:
        is_folded = column in layout.folded
        table.add_column(
            layout.headings[column],
            justify="right" if _is_number(rows, column) else "left",
            no_wrap=not is_folded,
            overflow="fold",
            min_width=_column_width(rows, column, layout.headings[column], is_folded=is_folded, is_grouped=is_grouped),
        )
    for row in rows:
        table.add_row(*(_marked_up(column, row.get(column), is_grouped=is_grouped) for column in layout.columns))
    return table


def fit(rows: Sequence[Row], columns: Sequence[str], *, width: int, is_grouped: bool = True) -> Layout:
    """Returns how rows are shown in ``width`` columns of a screen, digits in groups of three or not. Pure.

    Whatever fits is shown as it is. Otherwise, one after the other until it fits: headings become short and
    columns without a value go; what is the same in every row is said once; long texts may be folded; columns
    that repeat what others say are left out.
    """
    shown = tuple(columns)
    headings = {column: column.upper().replace("_", "-") for column in columns}
    if _width(rows, shown, headings, is_grouped=is_grouped) <= width:
        return Layout(columns=shown, headings=headings)
    headings = {column: _SHORT_HEADINGS.get(column, heading) for column, heading in headings.items()}
    shown = tuple(column for column in shown if any(row.get(column) is not None for row in rows))
    if _width(rows, shown, headings, is_grouped=is_grouped) > width:
        shown = tuple(column for column in shown if column != _FIRST_TO_GO)
    common: dict[str, str] = {}
    if _width(rows, shown, headings, is_grouped=is_grouped) > width:
        common = {column: str(rows[0][column]) for column in shown if _is_common(rows, column)}
        shown = tuple(column for column in shown if column not in common)
    folded = (
        frozenset(_FOLDABLE & set(shown))
        if _width(rows, shown, headings, is_grouped=is_grouped) > width
        else frozenset()
    )
    for column in _EXPENDABLE:
        if _width(rows, shown, headings, folded=folded, is_grouped=is_grouped) > width:
            shown = tuple(other for other in shown if other != column)
    return Layout(columns=shown, headings=headings, common=common, folded=folded & set(shown))


def _width(
    rows: Sequence[Row],
    columns: Sequence[str],
    headings: Mapping[str, str],
    *,
    is_grouped: bool,
    folded: frozenset[str] = frozenset(),
) -> int:
    """Returns how wide the table is, at the least; columns are two spaces apart."""
    widths = [
        _column_width(rows, column, headings[column], is_folded=column in folded, is_grouped=is_grouped)
        for column in columns
    ]
    return sum(widths) + _GAP * max(0, len(widths) - 1)


def _column_width(rows: Sequence[Row], column: str, heading: str, *, is_folded: bool, is_grouped: bool) -> int:
    """Returns how wide a column must be."""
    texts = (_plain(row.get(column), is_grouped=is_grouped) for row in rows)
    natural = max([*map(len, heading.split("\n")), *map(_cells, texts)])
    return min(natural, FOLDED_WIDTH_MIN) if is_folded else natural


def _cells(text: str) -> int:
    """Returns how many columns of a screen a text takes; mostly there is nothing to look up."""
    return len(text) if text.isascii() else cell_len(text)


def _is_number(rows: Sequence[Row], column: str) -> bool:
    return any(isinstance(row.get(column), int | float) for row in rows)


def _is_common(rows: Sequence[Row], column: str) -> bool:
    """Tells whether all rows, several of them, say the same in a column that is not what one looks for."""
    if len(rows) < 2 or column in _STYLED or _is_number(rows, column):
        return False
    return len({row.get(column) for row in rows}) == 1


def _plain(value: Cell, *, is_grouped: bool) -> str:
    if isinstance(value, str):
        return strip_control_codes(value)
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if is_grouped and abs(value) >= 10_000 else str(value)
    return f"{value:,.1f}" if is_grouped else f"{value:.1f}"


def _style(column: str, text: str) -> str:
    """Returns the colour of a text, empty for none."""
    return _STYLES.get(text.partition(":")[0], "") if column in _STYLED else ""


def _marked_up(column: str, value: Cell, *, is_grouped: bool) -> str:
    text = _plain(value, is_grouped=is_grouped)
    style = _style(column, text) if isinstance(value, str) else ""
    return f"[{style}]{escape(text)}[/]" if style else escape(text)
