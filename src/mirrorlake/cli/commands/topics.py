"""``topics plan``, ``diff`` and ``apply``."""

from typing import Annotated

import typer

from mirrorlake.cli.applications import topics_app
from mirrorlake.cli.options import ConfigPath, Format, LogFormat, Mirrors, OutputFormat, Verbose, check_can_ask, chosen


@topics_app.command("plan", epilog="Example: `mirrorlake topics plan -c mirror.yaml --mirror orders`")
def topics_plan(
    config: ConfigPath = None,
    mirror: Mirrors = None,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Show which destination topics, partitions, settings and ACLs `apply` would make, and what else differs.

    Changes nothing. Exit codes: 0 shown, 1 something is refused or not known.
    """
    from mirrorlake.cli.topics.verbs import Asked, plan

    raise typer.Exit(plan(Asked(config=chosen(config), mirrors=mirror or ()), as_json=output is OutputFormat.JSON))


@topics_app.command("diff", epilog="Example: `mirrorlake topics diff -c mirror.yaml --format json`")
def topics_diff(
    config: ConfigPath = None,
    mirror: Mirrors = None,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Show how destination topics differ from what they should be. Changes nothing.

    Exit codes: 0 nothing differs, 1 something does, or is not known.
    """
    from mirrorlake.cli.topics.verbs import Asked, diff

    raise typer.Exit(diff(Asked(config=chosen(config), mirrors=mirror or ()), as_json=output is OutputFormat.JSON))


@topics_app.command("apply", epilog="Example: `mirrorlake topics apply -c mirror.yaml --yes`")
def topics_apply(
    config: ConfigPath = None,
    mirror: Mirrors = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Make the topics and add the partitions that are missing, set settings and ACLs, and read all of it back.

    Deletes nothing but ACLs, where the file says so. Exit codes: 0 all is done, 1 something is not, is refused or not
    known.
    """
    check_can_ask(config, is_answered=yes, otherwise="use `topics plan`")
    from mirrorlake.cli.topics.verbs import Asked, apply

    asked = Asked(config=chosen(config), mirrors=mirror or ())
    raise typer.Exit(apply(asked, asks=not yes, as_json=output is OutputFormat.JSON))
