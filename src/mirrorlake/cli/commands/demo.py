"""``demo`` and ``config schema``."""

from typing import Annotated

import typer

from mirrorlake.cli.applications import app, config_app
from mirrorlake.cli.options import LogFormat, Verbose


@app.command(epilog="Example: `mirrorlake demo --keep`")
def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave both clusters running, and print what to try on them.", metavar="")
    ] = False,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Start two Kafka clusters on this machine, mirror between them and to Parquet, verify, and show the speeds."""
    from mirrorlake.cli.demo import demo as verb

    raise typer.Exit(verb(keep=keep))


@config_app.command("schema", epilog="Example: `mirrorlake config schema > mirrorlake.schema.json`")
def config_schema() -> None:
    """Print the JSON Schema of the configuration."""
    from mirrorlake.cli.config_schema import config_schema as verb

    raise typer.Exit(verb())
