"""``archive hold add``, ``ls`` and ``remove``."""

from typing import Annotated

import typer

from mirrorlake.cli.applications import hold_app
from mirrorlake.cli.options import (
    ArchiveConfig,
    ArchiveRoot,
    Format,
    LogFormat,
    Mirrors,
    OutputFormat,
    Topics,
    Verbose,
    one_place,
)

HoldLabel = Annotated[str, typer.Option("--hold", help="Name of the hold: lower-case letters, digits and dashes.")]


@hold_app.command(
    "add",
    epilog="Example: `mirrorlake archive hold add -c mirror.yaml --topic orders --hold case-4711 --reason 'court'`",
)
def archive_hold_add(
    topic: Annotated[list[str], typer.Option("--topic", help="This topic's folder; may be repeated.")],
    hold: HoldLabel,
    config: ArchiveConfig = None,
    root: ArchiveRoot = None,
    mirror: Mirrors = None,
    partition: Annotated[
        int | None, typer.Option("--partition", help="Only this partition.", min=0, show_default=False)
    ] = None,
    from_offset: Annotated[
        int | None,
        typer.Option("--from-offset", help="From this offset on; needs --partition.", min=0, show_default=False),
    ] = None,
    to_offset: Annotated[
        int | None,
        typer.Option("--to-offset", help="To this offset, inclusive; needs --partition.", min=0, show_default=False),
    ] = None,
    reason: Annotated[str, typer.Option("--reason", help="For people who list it.")] = "",
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Hold a topic, a partition or a range: no process retires any of it until the hold is lifted.

    Says from which offset on it holds, as what was retired before is gone, and which offsets are missing that were
    archived. Exit codes: 0 held, 1 not, not all of it, or not certain.
    """
    from mirrorlake.archive.names import LAST_OFFSET_MAX, HoldName
    from mirrorlake.cli.archive import Where
    from mirrorlake.cli.archive_hold import add

    is_range = from_offset is not None or to_offset is not None
    if is_range and partition is None:
        raise typer.BadParameter("offsets are of one partition: give --partition", param_hint="--from-offset")
    try:
        name = HoldName(
            label=hold,
            partition=partition,
            first=(from_offset or 0) if is_range else None,
            last=(LAST_OFFSET_MAX if to_offset is None else to_offset) if is_range else None,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--hold") from error
    config = one_place(config, root, mirror)
    where = Where(config=config, root=root, mirrors=mirror or (), topics=topic)
    raise typer.Exit(add(where, name, reason=reason, as_json=output is OutputFormat.JSON))


@hold_app.command("ls", epilog="Example: `mirrorlake archive hold ls -c mirror.yaml`")
def archive_hold_ls(
    config: ArchiveConfig = None,
    root: ArchiveRoot = None,
    mirror: Mirrors = None,
    topic: Topics = None,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """List the holds of archives, also those that cannot be read, which hold their whole topic.

    Exit codes: 0 all were read, 1 some were not.
    """
    from mirrorlake.cli.archive import Where
    from mirrorlake.cli.archive_hold import ls

    config = one_place(config, root, mirror)
    where = Where(config=config, root=root, mirrors=mirror or (), topics=topic or ())
    raise typer.Exit(ls(where, as_json=output is OutputFormat.JSON))


@hold_app.command(
    "remove", epilog="Example: `mirrorlake archive hold remove -c mirror.yaml --topic orders --hold case-4711`"
)
def archive_hold_remove(
    topic: Annotated[list[str], typer.Option("--topic", help="This topic's folder; may be repeated.")],
    hold: HoldLabel,
    config: ArchiveConfig = None,
    root: ArchiveRoot = None,
    mirror: Mirrors = None,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Lift a hold, of whatever partitions and ranges it is; the next retention may retire what it held.

    Exit codes: 0 lifted, 1 there was none, or one that stays: a store refuses, or this version does not know it.
    """
    from mirrorlake.cli.archive import Where
    from mirrorlake.cli.archive_hold import lift

    config = one_place(config, root, mirror)
    where = Where(config=config, root=root, mirrors=mirror or (), topics=topic)
    raise typer.Exit(lift(where, hold, as_json=output is OutputFormat.JSON))
