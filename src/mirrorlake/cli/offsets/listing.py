"""``mirrorlake offsets list`` and ``export``."""

import contextlib
import os
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from mirrorlake.cli.output import Row, print_table
from mirrorlake.cli.start import ask, load, start_logs

if TYPE_CHECKING:
    from mirrorlake.service.positions.files import FileFormat
    from mirrorlake.service.positions.listing import Wanted
    from mirrorlake.service.status import StatusRow

COLUMNS = ("name", "topic", "partition", "destination", "offset", "movable")
NOTHING_ASKED_FOR = "error: no mirror copies what was asked for\nhint: `mirrorlake plan` lists what each mirror copies"


def show(path: Path, wanted: "Wanted", form: "FileFormat | None", file: Path | None) -> int:
    """Shows where all partitions stand at all destinations, or writes it to a file.

    Args:
        path: of the configuration.
        wanted: which of them.
        form: of a file; None shows a table.
        file: is there once it is whole; None is stdout. What could not be read has no line, and is said on stderr.

    Returns:
        0, or 1 where a position could not be read, or something that was asked for is not there.
    """
    start_logs()
    config = load(path)
    from mirrorlake.service.positions.files import write_lines
    from mirrorlake.service.positions.listing import is_unread, lines_of
    from mirrorlake.service.status import read_status

    wanted.check(config)
    rows = [row for row in ask(read_status(config)) if wanted.includes(row.target)]
    if not rows and (wanted.topics or wanted.partitions):
        # No line would read as "nothing was begun", and a name misspelt gives the same picture.
        print(NOTHING_ASKED_FOR, file=sys.stderr)
        return 1
    unread = [row for row in rows if is_unread(row)]
    # A source that could not be asked has no topics and no partitions: whether they are there is not known.
    missing = (
        []
        if unread
        else [
            *unmet("topic", wanted.topics, (row.target.source.topic for row in rows)),
            *unmet("partition", wanted.partitions, (row.target.source.partition for row in rows)),
        ]
    )
    for each in missing:
        print(f"error: no mirror copies {each} of what was asked for", file=sys.stderr)
    if form is None:
        print_table([_table_row(row) for row in rows], COLUMNS)
        return 1 if unread or missing else 0
    text = write_lines(lines_of(rows), form)
    if file is None:
        sys.stdout.write(text)
    else:
        write_whole(file, text)
    for row in unread:
        _say_unread(row)
    return 1 if unread or missing else 0


def unmet(what: str, asked: Collection[object], found: Iterable[object]) -> list[str]:
    """Returns what was asked for and not found, each with what it is, in order. Pure."""
    there = set(found)
    return [f"{what} {each}" for each in sorted(asked, key=str) if each not in there]


def _say_unread(row: "StatusRow") -> None:
    from mirrorlake.topics.targets import UNKNOWN_PARTITION

    target = row.target
    source = target.source.topic if target.source.partition == UNKNOWN_PARTITION else str(target.source)
    print(f"error: {target.mirror.name} {source} → {target.destination.label}: {row.error}", file=sys.stderr)


def _table_row(row: "StatusRow") -> Row:
    from mirrorlake.kinds.registry import kind_of
    from mirrorlake.service.positions.listing import is_unread, offset_of

    movable = kind_of(row.target.destination).immovable(row.target) is None
    shown: Row = {**row.target.as_json(), "offset": None if is_unread(row) else offset_of(row), "movable": movable}
    return {**shown, "error": str(row.error)} if is_unread(row) else shown


def write_whole(file: Path, text: str) -> None:
    """Writes a file that appears, or is replaced, when it is whole.

    Raises:
        OSError: it cannot be written; names the file that was asked for.
    """
    made = file.with_name(f".{file.name}.part")
    try:
        with made.open("w", encoding="utf-8", newline="") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        made.replace(file)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file)) from error
    finally:
        with contextlib.suppress(OSError):
            made.unlink(missing_ok=True)
