"""``schemas plan``, ``diff``, ``apply``, ``ls`` and ``check``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mirrorlake.cli.applications import schemas_app
from mirrorlake.cli.options import ConfigPath, Format, LogFormat, Mirrors, OutputFormat, Verbose, check_can_ask, chosen

if TYPE_CHECKING:
    from mirrorlake.cli.schemas.verbs import Asked

Subjects = Annotated[
    list[str] | None,
    typer.Option("--subject", help="Only this subject, by the source's name; may be repeated.", show_default=False),
]


def _asked(config: Path | None, mirror: list[str] | None, subject: list[str] | None) -> "Asked":
    from mirrorlake.cli.schemas.verbs import Asked

    return Asked(config=chosen(config), mirrors=mirror or (), subjects=subject or ())


@schemas_app.command("plan", epilog="Example: `mirrorlake schemas plan -c mirror.yaml --subject orders-value`")
def schemas_plan(
    config: ConfigPath = None,
    mirror: Mirrors = None,
    subject: Subjects = None,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Show every change `apply` would make to a registry, in order; of impossible ones both histories.

    Changes nothing. Exit codes: 0 shown, 1 something is refused or not known.
    """
    from mirrorlake.cli.schemas.verbs import plan

    raise typer.Exit(plan(_asked(config, mirror, subject), as_json=output is OutputFormat.JSON))


@schemas_app.command("diff", epilog="Example: `mirrorlake schemas diff -c mirror.yaml --format json`")
def schemas_diff(
    config: ConfigPath = None,
    mirror: Mirrors = None,
    subject: Subjects = None,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Show both histories, side by side, of subjects that are not what they should be. Changes nothing.

    Exit codes: 0 nothing differs, 1 something does, or is not known.
    """
    from mirrorlake.cli.schemas.verbs import diff

    raise typer.Exit(diff(_asked(config, mirror, subject), as_json=output is OutputFormat.JSON))


@schemas_app.command("apply", epilog="Example: `mirrorlake schemas apply -c mirror.yaml --yes`")
def schemas_apply(
    config: ConfigPath = None,
    mirror: Mirrors = None,
    subject: Subjects = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Make the changes that `plan` shows, and read them back. Nothing of a refused subject is changed.

    Exit codes: 0 all is done, 1 something is not, is refused or not known.
    """
    check_can_ask(config, is_answered=yes, otherwise="use `schemas plan`")
    from mirrorlake.cli.schemas.verbs import apply

    raise typer.Exit(apply(_asked(config, mirror, subject), asks=not yes, as_json=output is OutputFormat.JSON))


@schemas_app.command("ls", epilog="Example: `mirrorlake schemas ls -c mirror.yaml --mirror orders`")
def schemas_ls(
    config: ConfigPath = None,
    mirror: Mirrors = None,
    subject: Subjects = None,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """List the subjects of mirrors and of what they refer to, and how both registries stand.

    Exit codes: 0 listed, 1 something could not be found out.
    """
    from mirrorlake.cli.schemas.verbs import ls

    raise typer.Exit(ls(_asked(config, mirror, subject), as_json=output is OutputFormat.JSON))


@schemas_app.command("check", epilog="Example: `mirrorlake schemas check -c mirror.yaml --mirror orders`")
def schemas_check(
    config: ConfigPath = None,
    mirror: Mirrors = None,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Say which schema ids all records of mirrors' topics carry, and who can read them. Changes nothing.

    Exit codes: 0 every record can be read with either registry, 1 some cannot, or something could not be found out.
    """
    from mirrorlake.cli.schemas.verbs import check

    raise typer.Exit(check(_asked(config, mirror, None), as_json=output is OutputFormat.JSON))
