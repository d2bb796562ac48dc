"""``demo`` and the verbs of ``config``."""

from pathlib import Path
from typing import Annotated

import typer

from mirrorlake.cli.applications import app, config_app
from mirrorlake.cli.options import ImportedProgram, LogFormat, Verbose


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
    from mirrorlake.cli.configuration.schema import config_schema as verb

    raise typer.Exit(verb())


@config_app.command("import", epilog="Example: `mirrorlake config import --from mm2 mm2.properties > mirror.yaml`")
def config_import(
    file: Annotated[Path, typer.Argument(help="The other program's configuration.", metavar="FILE")],
    program: Annotated[ImportedProgram, typer.Option("--from", help="Whose configuration it is.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write; stdout where not given.", metavar="FILE")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the output file.", metavar="")] = False,
    take_offsets: Annotated[
        bool,
        typer.Option(
            "--take-offsets", help="Read at the clusters where it stood, and have the copies begin there.", metavar=""
        ),
    ] = False,
    offsets_topic: Annotated[
        str | None,
        typer.Option(
            "--offsets-topic",
            help="Where Kafka Connect stores that, if the file does not say it.",
            metavar="TOPIC",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write another program's configuration as one of mirrorlake's, with a remark for each line without an equal."""
    from mirrorlake.cli.configuration.importing import config_import as verb

    if offsets_topic is not None and not take_offsets:
        raise typer.BadParameter("it is read with --take-offsets only", param_hint="--offsets-topic")
    code = verb(program.value, file, output, force=force, take_offsets=take_offsets, offsets_topic=offsets_topic)
    raise typer.Exit(code)
