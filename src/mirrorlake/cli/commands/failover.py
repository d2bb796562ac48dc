"""``failover plan | run`` and ``failback plan | run``."""

from typing import Annotated

import typer

from mirrorlake.cli.applications import failback_app, failover_app
from mirrorlake.cli.options import (
    ConfigPath,
    Format,
    LogFormat,
    Mirrors,
    OutputFormat,
    Verbose,
    VerifyLevel,
    check_can_ask,
    chosen,
    one_of,
    words,
)

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.", metavar="")]
TakeOver = Annotated[
    bool, typer.Option("--take-over", help="End a process that serves a mirror, instead of ending.", metavar="")
]
NoGroups = Annotated[bool, typer.Option("--no-groups", help="Leave consumer groups alone.", metavar="")]
From = Annotated[
    str,
    typer.Option("--from", help="Where from, where a mirror copies to several clusters.", show_default=False),
]


@failover_app.command("plan", epilog="Example: `mirrorlake failover plan -c mirror.yaml`")
def failover_plan(
    config: ConfigPath = None,
    mirror: Mirrors = None,
    no_groups: NoGroups = False,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Show how far each copy is, what of its source is not there, and where each consumer group would stand.

    Changes nothing, and works where the source is gone. Exit codes: 0 everything can be brought over, 1 something is
    not known or not to be trusted, 3 something cannot be had, or some groups would be left.
    """
    from mirrorlake.cli.failover.failing_over import FailoverOptions, plan

    options = FailoverOptions(mirrors=mirror or (), takes_groups=not no_groups)
    raise typer.Exit(plan(chosen(config), options, as_json=output is OutputFormat.JSON))


@failover_app.command("run", epilog="Example: `mirrorlake failover run -c mirror.yaml --yes --format json`")
def failover_run(
    context: typer.Context,
    config: ConfigPath = None,
    mirror: Mirrors = None,
    level: Annotated[
        VerifyLevel,
        typer.Option(
            "--level",
            help="How the copies are verified: by their ends and newest records, or every record.",
            parser=one_of(VerifyLevel),
            metavar=words(VerifyLevel),
        ),
    ] = VerifyLevel.NAMES,
    take_over: TakeOver = False,
    no_groups: NoGroups = False,
    yes: Yes = False,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Copy what the sources still hold, take consumer groups along, verify, and say what is not there.

    Stop producers and consumers of the source first. Exit codes: 0 all is there, 1 not, 3 something cannot be had or
    some groups are left, 4 another process serves a mirror.
    """
    check_can_ask(config, is_answered=yes, otherwise="use `failover plan`")
    from mirrorlake.cli.failover.failing_over import FailoverOptions, run

    options = FailoverOptions(mirrors=mirror or (), takes_over=take_over, takes_groups=not no_groups, level=level.value)
    as_json = output is OutputFormat.JSON
    raise typer.Exit(run(chosen(config), options, asks=not yes, as_json=as_json, engine=context.obj))


@failback_app.command("plan", epilog="Example: `mirrorlake failback plan -c mirror.yaml`")
def failback_plan(
    context: typer.Context,
    config: ConfigPath = None,
    mirror: Mirrors = None,
    from_cluster: From = "",
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Show what goes back to the old source, where the two sides have diverged, and what must be decided.

    Changes nothing. Exit codes: 0 all can go back, 1 something is refused or not known, 3 somebody must decide.
    """
    from mirrorlake.cli.failover.failing_back import FailbackOptions, plan

    options = FailbackOptions(mirrors=mirror or (), from_cluster=from_cluster)
    as_json = output is OutputFormat.JSON
    raise typer.Exit(plan(chosen(config), options, as_json=as_json, engine=context.obj))


@failback_app.command("run", epilog="Example: `mirrorlake failback run -c mirror.yaml --yes`")
def failback_run(
    context: typer.Context,
    config: ConfigPath = None,
    mirror: Mirrors = None,
    from_cluster: From = "",
    take_over: TakeOver = False,
    no_groups: NoGroups = False,
    yes: Yes = False,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Copy back what the copies gained, take consumer groups along, and prove both sides equal.

    Stop producers and consumers of the copies first, and do not start the mirror itself meanwhile. Exit codes: 0 both
    sides are equal, 1 not, 3 somebody must decide about a partition or some groups are left, 4 another process serves a
    mirror.
    """
    check_can_ask(config, is_answered=yes, otherwise="use `failback plan`")
    from mirrorlake.cli.failover.failing_back import FailbackOptions, run

    options = FailbackOptions(
        mirrors=mirror or (), from_cluster=from_cluster, takes_over=take_over, takes_groups=not no_groups
    )
    as_json = output is OutputFormat.JSON
    raise typer.Exit(run(chosen(config), options, asks=not yes, as_json=as_json, engine=context.obj))
