"""``groups plan`` and ``groups sync``."""

from typing import Annotated

import typer

from mirrorlake.cli.applications import groups_app
from mirrorlake.cli.options import ConfigPath, Format, LogFormat, OutputFormat, Verbose, check_can_ask, chosen

Groups = Annotated[
    list[str] | None,
    typer.Option(
        "--group",
        help="Only this group, or those that an expression between slashes matches; may be repeated.",
        show_default=False,
    ),
]
OfMirrors = Annotated[
    list[str] | None, typer.Option("--mirror", help="Only this mirror's; may be repeated.", show_default=False)
]
Force = Annotated[
    bool, typer.Option("--force", help="Also groups that stand elsewhere at the destination, and back.", metavar="")
]


@groups_app.command(epilog="Example: `mirrorlake groups plan -c mirror.yaml --group billing`")
def plan(
    config: ConfigPath = None,
    group: Groups = None,
    mirror: OfMirrors = None,
    force: Force = False,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Show what `groups sync` would commit for each consumer group, and why not more. Changes nothing.

    Exit codes: 0 every group would stand where it should, 1 something could not be read, 3 some groups would be left
    alone, or their place is unknown.
    """
    from mirrorlake.cli.groups.sync import GroupsOptions
    from mirrorlake.cli.groups.sync import plan as verb

    options = GroupsOptions(groups=group or (), mirrors=mirror or (), is_forced=force)
    raise typer.Exit(verb(chosen(config), options, as_json=output is OutputFormat.JSON))


@groups_app.command(epilog="Example: `mirrorlake groups sync -c mirror.yaml --group '/shop-.*/' --yes`")
def sync(
    config: ConfigPath = None,
    group: Groups = None,
    mirror: OfMirrors = None,
    force: Force = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.", metavar="")] = False,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Commit at the destination what consumer groups have committed at the source, translated, and read it back.

    Groups with members at the destination are left alone. Exit codes: 0 every group stands where it should, 1 something
    could not be read, 3 some groups were left alone, or their place is unknown.
    """
    check_can_ask(config, is_answered=yes, otherwise="use `groups plan`")
    from mirrorlake.cli.groups.sync import GroupsOptions
    from mirrorlake.cli.groups.sync import sync as verb

    options = GroupsOptions(groups=group or (), mirrors=mirror or (), is_forced=force)
    raise typer.Exit(verb(chosen(config), options, as_json=output is OutputFormat.JSON, asks=not yes))
