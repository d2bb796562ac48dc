"""``offsets list``, ``export``, ``import`` and ``reset``."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from mirrorlake.cli.applications import offsets_app
from mirrorlake.cli.options import (
    ConfigPath,
    DryRun,
    Format,
    LogFormat,
    Mirrors,
    OutputFormat,
    Verbose,
    check_can_ask,
    chosen,
    one_of,
    words,
)


class ListFormat(StrEnum):
    """How positions are shown."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


class PositionFormat(StrEnum):
    """How a file of positions is written."""

    CSV = "csv"
    JSON = "json"


Destinations = Annotated[
    list[str] | None,
    typer.Option(
        "--destination", help="Only at this destination, as `status` names it; may be repeated.", show_default=False
    ),
]
Topics = Annotated[
    list[str] | None, typer.Option("--topic", help="Only of this source topic; may be repeated.", show_default=False)
]
Partitions = Annotated[
    list[int] | None, typer.Option("--partition", help="Only this partition; may be repeated.", show_default=False)
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
LinesFormat = Annotated[
    PositionFormat,
    typer.Option(
        "--format",
        help="`name,topic,partition,offset` without a heading, or an object a line.",
        parser=one_of(PositionFormat),
        metavar=words(PositionFormat),
    ),
]


@offsets_app.command("list", epilog="Example: `mirrorlake offsets list -c mirror.yaml --mirror orders`")
def offsets_list(
    config: ConfigPath = None,
    mirror: Mirrors = None,
    destination: Destinations = None,
    topic: Topics = None,
    partition: Partitions = None,
    form: Annotated[
        ListFormat,
        typer.Option(
            "--format",
            help="Table for people; the lines of `export` for programs.",
            parser=one_of(ListFormat),
            metavar=words(ListFormat),
        ),
    ] = ListFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Show the next source offset that each destination needs, empty where nothing was begun; reads only.

    Exit codes: 0 all were read, 1 some were not.
    """
    from mirrorlake.cli.offsets.listing import show
    from mirrorlake.service.positions.files import FileFormat
    from mirrorlake.service.positions.listing import Wanted

    wanted = Wanted(
        mirrors=mirror or (), destinations=destination or (), topics=topic or (), partitions=partition or ()
    )
    lines = None if form is ListFormat.TABLE else FileFormat(form.value)
    raise typer.Exit(show(chosen(config), wanted, lines, None))


@offsets_app.command("export", epilog="Example: `mirrorlake offsets export -c mirror.yaml --file positions.csv`")
def offsets_export(
    config: ConfigPath = None,
    mirror: Mirrors = None,
    destination: Destinations = None,
    topic: Topics = None,
    partition: Partitions = None,
    form: LinesFormat = PositionFormat.CSV,
    file: Annotated[
        Path | None,
        typer.Option("--file", help="Write to this file, which appears when it is whole.", show_default=False),
    ] = None,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Write the positions as `import` reads them, in the formats of Mirus's offset tool; reads only.

    What could not be read has no line, and is named on stderr. Exit codes: 0 all were read, 1 some were not.
    """
    from mirrorlake.cli.offsets.listing import show
    from mirrorlake.service.positions.files import FileFormat
    from mirrorlake.service.positions.listing import Wanted

    wanted = Wanted(
        mirrors=mirror or (), destinations=destination or (), topics=topic or (), partitions=partition or ()
    )
    raise typer.Exit(show(chosen(config), wanted, FileFormat(form.value), file))


@offsets_app.command(
    "import", epilog="Example: `mirrorlake offsets import -c mirror.yaml --file positions.csv --dry-run`"
)
def offsets_import(
    file: Annotated[Path, typer.Option("--file", help="What `export` wrote, edited; `-` reads stdin.")],
    config: ConfigPath = None,
    mirror: Mirrors = None,
    destination: Destinations = None,
    topic: Topics = None,
    partition: Partitions = None,
    form: LinesFormat = PositionFormat.CSV,
    dry_run: DryRun = False,
    yes: Yes = False,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Move positions with mapped offsets to what a file says; empty is where `start` has the copy begin.

    The whole file is checked first, and every fault named with its line. Shows what would be moved and asks. Refused
    while the mirror runs. Exit codes: 0 moved, or all stand there, 1 not, 4 another process has taken over.
    """
    if str(file) == "-" and not (yes or dry_run):
        raise typer.BadParameter("stdin is the file: give --yes, or --dry-run", param_hint="--yes")
    check_can_ask(is_answered=yes or dry_run, otherwise="--dry-run")
    from mirrorlake.cli.offsets.moving import Manner, import_file
    from mirrorlake.service.positions.files import FileFormat
    from mirrorlake.service.positions.listing import Wanted

    wanted = Wanted(
        mirrors=mirror or (), destinations=destination or (), topics=topic or (), partitions=partition or ()
    )
    manner = Manner(is_dry=dry_run, asks=not yes, as_json=form is PositionFormat.JSON)
    raise typer.Exit(import_file(chosen(config), file, FileFormat(form.value), wanted, manner))


@offsets_app.command(
    "reset", epilog="Example: `mirrorlake offsets reset -c mirror.yaml --mirror orders --to-earliest --dry-run`"
)
def offsets_reset(
    mirror: Annotated[list[str], typer.Option("--mirror", help="Of this mirror; may be repeated.")],
    config: ConfigPath = None,
    destination: Destinations = None,
    topic: Topics = None,
    partition: Partitions = None,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To where the source begins.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To where the source ends.")] = False,
    to_offset: Annotated[
        int | None, typer.Option("--to-offset", help="To this source offset.", min=0, show_default=False)
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option("--to-datetime", help="To the first record of that time or later, else the end.", metavar="TIME"),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Forget positions with mapped offsets, so that the copy begins where `start` says, or move them all alike.

    Shows what would be moved and asks. Refused while the mirror runs. Exit codes: 0 moved, or all stand there, 1 not,
    4 another process has taken over.
    """
    given = [to_earliest, to_latest, to_offset is not None, to_datetime is not None]
    if sum(given) > 1:
        raise typer.BadParameter("give one of --to-earliest, --to-latest, --to-offset and --to-datetime")
    check_can_ask(is_answered=yes or dry_run, otherwise="--dry-run")
    from mirrorlake.cli.offsets.moving import Manner, reset
    from mirrorlake.service.positions.listing import Wanted
    from mirrorlake.service.positions.starts import Goal

    goal = Goal(
        is_earliest=to_earliest,
        is_latest=to_latest,
        offset=to_offset,
        timestamp_ms=None if to_datetime is None else _moment(to_datetime),
    )
    wanted = Wanted(mirrors=mirror, destinations=destination or (), topics=topic or (), partitions=partition or ())
    manner = Manner(is_dry=dry_run, asks=not yes, as_json=output is OutputFormat.JSON)
    raise typer.Exit(reset(chosen(config), goal, wanted, manner))


def _moment(text: str) -> int:
    from mirrorlake.config.kinds import read_moment

    try:
        return read_moment(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--to-datetime") from error
