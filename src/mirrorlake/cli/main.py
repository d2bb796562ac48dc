"""The ``mirrorlake`` command. Only light modules are imported here; each verb imports what it needs."""

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from mirrorlake import __version__
from mirrorlake.errors import MirrorlakeError, SupersededError

EXIT_FAILED = 1
EXIT_SUPERSEDED = 4

app = typer.Typer(
    name="mirrorlake",
    help="Exactly-once Kafka mirroring: same offsets at the other cluster, small tidy archives, from outside the "
    "broker.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    epilog="Example: `mirrorlake validate -c mirror.yaml`, then `plan`, `run` and `status` with the same file.",
)
config_app = typer.Typer(
    help="The configuration itself.", no_args_is_help=True, epilog="Example: `mirrorlake config schema`"
)
app.add_typer(config_app, name="config")


class OutputFormat(StrEnum):
    """How a listing is shown."""

    TABLE = "table"
    JSON = "json"


class VerifyLevel(StrEnum):
    """How deep a verification looks."""

    NAMES = "names"
    CHECKSUMS = "checksums"
    RECORDS = "records"


ConfigPath = Annotated[
    Path, typer.Option("--config", "-c", help="Configuration file, native or mirror-v3 form.", show_default=False)
]
Format = Annotated[OutputFormat, typer.Option("--format", help="Table for people, JSON for programs.")]


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"mirrorlake {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _: Annotated[
        bool, typer.Option("--version", help="Show the version and end.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Takes the options before the verb."""


@app.command(epilog="Example: `mirrorlake validate -c mirror.yaml`")
def validate(config: ConfigPath) -> None:
    """Parse and cross-check a configuration; touches nothing."""
    from mirrorlake.cli.validate import validate as verb

    raise typer.Exit(verb(config))


@app.command(epilog="Example: `mirrorlake plan -c mirror.yaml --format json`")
def plan(config: ConfigPath, output: Format = OutputFormat.TABLE) -> None:
    """Show what `run` would do now: topics made, ranges copied, refusals. Changes nothing."""
    from mirrorlake.cli.plan import plan as verb

    raise typer.Exit(verb(config, as_json=output is OutputFormat.JSON))


@app.command(epilog="Example: `mirrorlake run -c mirror.yaml --once`")
def run(
    config: ConfigPath,
    once: Annotated[
        bool, typer.Option("--once", help="Copy up to the ends found at the start, flush everything, end.")
    ] = False,
) -> None:
    """Mirror until SIGINT or SIGTERM, then flush everything and end.

    Exit codes: 0 ended as asked, 1 failed, 3 partitions stand parked, 4 another process has taken over.
    """
    from mirrorlake.cli.run import run as verb

    raise typer.Exit(verb(config, once=once))


@app.command(epilog="Example: `mirrorlake status -c mirror.yaml`")
def status(config: ConfigPath, output: Format = OutputFormat.TABLE) -> None:
    """Show source ends, destination positions and lag of every partition; reads only. Exit code 1 if a row failed."""
    from mirrorlake.cli.status import status as verb

    raise typer.Exit(verb(config, as_json=output is OutputFormat.JSON))


@app.command(epilog="Example: `mirrorlake verify -c mirror.yaml --level records`")
def verify(
    config: ConfigPath,
    level: Annotated[
        VerifyLevel,
        typer.Option("--level", help="Names and positions only, checksums of archive files too, or every record."),
    ] = VerifyLevel.RECORDS,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Prove that the copies equal their sources, or name the first offset that differs. Exit code 1 if one does."""
    from mirrorlake.cli.verify import verify as verb

    raise typer.Exit(verb(config, level=level.value, as_json=output is OutputFormat.JSON))


@app.command(epilog="Example: `mirrorlake demo --keep`")
def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave both clusters running, and print what to try on them.")
    ] = False,
) -> None:
    """Start two Kafka clusters on this machine, mirror between them and to Parquet, verify, and show the speeds."""
    from mirrorlake.cli.demo import demo as verb

    raise typer.Exit(verb(keep=keep))


@config_app.command("schema", epilog="Example: `mirrorlake config schema > mirrorlake.schema.json`")
def config_schema() -> None:
    """Print the JSON Schema of the configuration."""
    from mirrorlake.cli.config_schema import config_schema as verb

    raise typer.Exit(verb())


def main() -> None:
    """Runs the command line; errors a user can cause end as one line on stderr and exit code 1."""
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except MirrorlakeError as error:
        sys.stdout.flush()
        print(f"error: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        sys.exit(EXIT_SUPERSEDED if isinstance(error, SupersededError) else EXIT_FAILED)
    except BrokenPipeError:
        # Whoever read our output has seen enough; nothing is left to say to it.
        _drop_stdout()
        sys.exit(EXIT_FAILED)
    except OSError as error:
        _drop_stdout()
        print(f"error: {error}", file=sys.stderr)
        sys.exit(EXIT_FAILED)


def _drop_stdout() -> None:
    """Lets go of what could not be written, or the interpreter tries once more at its end and complains."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


if __name__ == "__main__":
    main()
