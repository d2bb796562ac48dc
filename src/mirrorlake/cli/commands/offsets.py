"""``offsets list``, ``export``, ``import`` and ``reset``."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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

if TYPE_CHECKING:
    from mirrorlake.service.positions.group_offsets import WantedOffsets


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
OfGroups = Annotated[
    bool, typer.Option("--groups", help="Of the consumer groups of a cluster in place of mirrors.", metavar="")
]
OfCluster = Annotated[
    str | None,
    typer.Option(
        "--cluster", help="Whose groups, by its name in the file; needed where it has several.", show_default=False
    ),
]
Group = Annotated[
    list[str] | None, typer.Option("--group", help="Only this consumer group; may be repeated.", show_default=False)
]
Force = Annotated[bool, typer.Option("--force", help="With --groups: take groups back too.", metavar="")]
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
    groups: OfGroups = False,
    cluster: OfCluster = None,
    group: Group = None,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Show the next source offset that each destination needs, empty where nothing was begun; reads only.

    With --groups: what the consumer groups of a cluster have committed.

    Exit codes: 0 all were read, 1 some were not, or there is nothing of that name.
    """
    from mirrorlake.cli.offsets.listing import show
    from mirrorlake.service.positions.files import FileFormat
    from mirrorlake.service.positions.listing import Wanted

    wanted = Wanted(
        mirrors=mirror or (), destinations=destination or (), topics=topic or (), partitions=partition or ()
    )
    lines = None if form is ListFormat.TABLE else FileFormat(form.value)
    if _is_of_groups(groups, cluster, group, mirror, destination):
        from mirrorlake.cli.offsets.groups import show_groups

        raise typer.Exit(show_groups(chosen(config), cluster, _offsets(group, topic, partition), lines, None))
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
    groups: OfGroups = False,
    cluster: OfCluster = None,
    group: Group = None,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Write the positions as `import` reads them, in the formats of Mirus's offset tool; reads only.

    What could not be read has no line, and is named on stderr. With --groups: what the consumer groups of a cluster
    have committed. Exit codes: 0 all were read, 1 some were not, or there is nothing of that name.
    """
    from mirrorlake.cli.offsets.listing import show
    from mirrorlake.service.positions.files import FileFormat
    from mirrorlake.service.positions.listing import Wanted

    wanted = Wanted(
        mirrors=mirror or (), destinations=destination or (), topics=topic or (), partitions=partition or ()
    )
    if _is_of_groups(groups, cluster, group, mirror, destination):
        from mirrorlake.cli.offsets.groups import show_groups

        asked = _offsets(group, topic, partition)
        raise typer.Exit(show_groups(chosen(config), cluster, asked, FileFormat(form.value), file))
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
    groups: OfGroups = False,
    cluster: OfCluster = None,
    group: Group = None,
    force: Force = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Move positions with mapped offsets to what a file says; empty is where `start` has the copy begin.

    The whole file is checked first, and every fault named with its line. Shows what would be moved and asks. Refused
    while the mirror runs. With --groups: commits for consumer groups without members, and takes none back. Exit codes:
    0 moved, or all stand there, 1 not, 4 another process has taken over.
    """
    if str(file) == "-" and not (yes or dry_run):
        raise typer.BadParameter("stdin is the file: give --yes, or --dry-run", param_hint="--yes")
    check_can_ask(config, is_answered=yes or dry_run, otherwise="--dry-run", check=lambda _: file.open("rb").close())
    from mirrorlake.cli.offsets.moving import Manner, import_file
    from mirrorlake.service.positions.files import FileFormat
    from mirrorlake.service.positions.listing import Wanted

    wanted = Wanted(
        mirrors=mirror or (), destinations=destination or (), topics=topic or (), partitions=partition or ()
    )
    manner = Manner(is_dry=dry_run, asks=not yes, as_json=form is PositionFormat.JSON)
    if _is_of_groups(groups, cluster, group, mirror, destination, force=force):
        from mirrorlake.cli.offsets.groups import import_groups

        asked = _offsets(group, topic, partition)
        lines = FileFormat(form.value)
        raise typer.Exit(import_groups(chosen(config), cluster, file, lines, asked, manner, is_forced=force))
    raise typer.Exit(import_file(chosen(config), file, FileFormat(form.value), wanted, manner))


@offsets_app.command(
    "reset", epilog="Example: `mirrorlake offsets reset -c mirror.yaml --mirror orders --to-earliest --dry-run`"
)
def offsets_reset(
    mirror: Annotated[
        list[str] | None, typer.Option("--mirror", help="Of this mirror; may be repeated.", show_default=False)
    ] = None,
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
        typer.Option(
            "--to-datetime",
            help="To the first record of that time or later, else the end, such as 2026-11-20T12:00:00.000Z.",
            metavar="TIME",
        ),
    ] = None,
    groups: OfGroups = False,
    cluster: OfCluster = None,
    group: Group = None,
    force: Force = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Forget positions with mapped offsets, so that the copy begins where `start` says, or move them all alike.

    Shows what would be moved and asks. Refused while the mirror runs. With --groups: commits for the consumer groups
    named, of all they have committed. Exit codes: 0 moved, or all stand there, 1 not, 4 another process has taken over.
    """
    is_of_groups = _is_of_groups(groups, cluster, group, mirror, destination, force=force)
    given = [to_earliest, to_latest, to_offset is not None, to_datetime is not None]
    if sum(given) > 1:
        raise typer.BadParameter("give one of --to-earliest, --to-latest, --to-offset and --to-datetime")
    if is_of_groups and not (group and any(given)):
        raise typer.BadParameter("name each --group, and give one of the goals --to-…", param_hint="--groups")
    if not is_of_groups and not mirror:
        raise typer.BadParameter("Missing option '--mirror', or '--groups' for those of consumer groups")
    check_can_ask(config, is_answered=yes or dry_run, otherwise="--dry-run")
    from mirrorlake.cli.offsets.moving import Manner, reset
    from mirrorlake.service.positions.listing import Wanted
    from mirrorlake.service.positions.starts import Goal

    goal = Goal(
        is_earliest=to_earliest,
        is_latest=to_latest,
        offset=to_offset,
        timestamp_ms=None if to_datetime is None else _moment(to_datetime),
    )
    wanted = Wanted(
        mirrors=mirror or (), destinations=destination or (), topics=topic or (), partitions=partition or ()
    )
    manner = Manner(is_dry=dry_run, asks=not yes, as_json=output is OutputFormat.JSON)
    if is_of_groups:
        from mirrorlake.cli.offsets.groups import reset_groups

        asked = _offsets(group, topic, partition)
        raise typer.Exit(reset_groups(chosen(config), cluster, goal, asked, manner, is_forced=force))
    raise typer.Exit(reset(chosen(config), goal, wanted, manner))


def _is_of_groups(
    groups: bool,
    cluster: str | None,
    group: list[str] | None,
    mirror: list[str] | None,
    destination: list[str] | None,
    *,
    force: bool = False,
) -> bool:
    """Returns whether groups are meant, once the options go together."""
    if groups and (mirror or destination):
        raise typer.BadParameter("groups are of a cluster, not of a mirror", param_hint="--groups")
    if not groups and (cluster is not None or group or force):
        raise typer.BadParameter("--cluster, --group and --force go with --groups", param_hint="--groups")
    return groups


def _offsets(groups: list[str] | None, topics: list[str] | None, partitions: list[int] | None) -> "WantedOffsets":
    from mirrorlake.service.positions.group_offsets import WantedOffsets

    return WantedOffsets(groups=groups or (), topics=topics or (), partitions=partitions or ())


def _moment(text: str) -> int:
    from mirrorlake.config.values.positions import read_moment

    try:
        return read_moment(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--to-datetime") from error
