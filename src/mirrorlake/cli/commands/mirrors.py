"""``validate``, ``plan``, ``run``, ``status``, ``verify`` and ``sql``."""

from pathlib import Path
from typing import Annotated

import typer

from mirrorlake.cli.applications import app
from mirrorlake.cli.options import (
    ConfigPath,
    Format,
    LogFormat,
    OutputFormat,
    RowsFormat,
    Verbose,
    VerifyLevel,
    chosen,
    duration,
    one_of,
    words,
)


@app.command(epilog="Example: `mirrorlake validate -c mirror.yaml`")
def validate(
    config: ConfigPath = None,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Parse and cross-check a configuration, and say what it means; touches nothing."""
    from mirrorlake.cli.validate import validate as verb

    raise typer.Exit(verb(chosen(config), as_json=output is OutputFormat.JSON))


@app.command(epilog="Example: `mirrorlake plan -c mirror.yaml --format json`")
def plan(
    config: ConfigPath = None,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Show what `run` would do now: topics made, ranges copied, refusals. Changes nothing."""
    from mirrorlake.cli.plan import plan as verb

    raise typer.Exit(verb(chosen(config), as_json=output is OutputFormat.JSON))


@app.command(epilog="Example: `mirrorlake run -c mirror.yaml --once`")
def run(
    context: typer.Context,
    config: ConfigPath = None,
    once: Annotated[
        bool, typer.Option("--once", help="Copy up to the ends found at the start, flush everything, end.", metavar="")
    ] = False,
    take_over: Annotated[
        bool,
        typer.Option(
            "--take-over",
            help="With --once: end a process that serves a mirror, instead of ending, as `run` without --once does.",
            metavar="",
        ),
    ] = False,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Mirror until Ctrl-C, SIGTERM or SIGHUP, then flush everything and end.

    Exit codes: 0 ended as asked, 1 failed, 3 partitions are parked, 4 another process has taken over.
    """
    from mirrorlake.cli.run import run as verb

    raise typer.Exit(verb(chosen(config), once=once, takes_over=take_over, engine=context.obj))


@app.command(epilog="Example: `mirrorlake status -c mirror.yaml`")
def status(
    config: ConfigPath = None,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Show source ends, destination positions and lag of every partition; reads only. Exit code 1 if a row failed."""
    from mirrorlake.cli.status import status as verb

    raise typer.Exit(verb(chosen(config), as_json=output is OutputFormat.JSON))


@app.command(epilog="Example: `mirrorlake verify -c mirror.yaml --level records`")
def verify(
    context: typer.Context,
    config: ConfigPath = None,
    level: Annotated[
        VerifyLevel,
        typer.Option(
            "--level",
            help="Names and positions only, checksums of archive files too, or every record.",
            parser=one_of(VerifyLevel),
            metavar=words(VerifyLevel),
        ),
    ] = VerifyLevel.RECORDS,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Prove that the copies equal their sources, or name the first offset that differs. Exit code 1 if one does."""
    from mirrorlake.cli.verify import verify as verb

    as_json = output is OutputFormat.JSON
    raise typer.Exit(verb(chosen(config), level=level.value, as_json=as_json, engine=context.obj))


@app.command(epilog='Example: `mirrorlake sql -c mirror.yaml "select count(*) from lake.orders"`')
def sql(
    query: Annotated[str, typer.Argument(help="A query that reads; tables are named by store or cluster, and topic.")],
    config: ConfigPath = None,
    rows: Annotated[
        RowsFormat,
        typer.Option(
            "--format",
            help="Table for people; JSON (an object a line), CSV and Parquet for programs.",
            parser=one_of(RowsFormat),
            metavar=words(RowsFormat),
        ),
    ] = RowsFormat.TABLE,
    file: Annotated[
        Path | None,
        typer.Option("--output", help="Write to this file, which appears when it is whole.", show_default=False),
    ] = None,
    read_timeout: Annotated[
        str,
        typer.Option(
            "--read-timeout",
            help="How long a task may wait for what it reads next, such as 30s or 10m.",
            parser=duration,
            metavar="DURATION",
        ),
    ] = "10m",
    schemas: Annotated[
        str | None,
        typer.Option(
            "--schemas",
            help="Key of a registry in an archive: `decoded(value)` is a value as JSON, by its archived schema.",
            metavar="REGISTRY",
            show_default=False,
        ),
    ] = None,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Query archives and live topics with Spark's SQL: `lake.orders` is a topic of the store or cluster `lake`."""
    from mirrorlake.cli.sql import sql as verb

    if rows is RowsFormat.PARQUET and file is None:
        raise typer.BadParameter("--format parquet needs --output FILE", param_hint="--output")
    done = verb(chosen(config), query, form=rows.value, output=file, read_timeout=read_timeout, schemas=schemas)
    raise typer.Exit(done)
