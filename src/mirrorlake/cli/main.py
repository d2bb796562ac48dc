"""The ``mirrorlake`` command. Only light modules are imported here; each verb imports what it needs."""

import os
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from mirrorlake import __version__
from mirrorlake.errors import MirrorlakeError, SupersededError

if TYPE_CHECKING:
    from mirrorlake.pipeline.engine import EngineBuilder

EXIT_FAILED = 1
EXIT_SUPERSEDED = 4

CONFIG_VARIABLE = "MIRRORLAKE_CONFIG"
CONFIG_HERE = Path("mirror.yaml")

_CONTEXT = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    name="mirrorlake",
    context_settings=_CONTEXT,
    help="Exactly-once Kafka mirroring: same offsets at the other cluster, small tidy archives, from outside the "
    "broker.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    epilog="Example: `mirrorlake validate -c mirror.yaml`, then `plan`, `run` and `status` with the same file.",
)
config_app = typer.Typer(
    help="The configuration itself.",
    context_settings=_CONTEXT,
    no_args_is_help=True,
    epilog="Example: `mirrorlake config schema`",
)
app.add_typer(config_app, name="config")
archive_app = typer.Typer(
    context_settings=_CONTEXT,
    help="See and check archives; only stores are asked, never a cluster.",
    no_args_is_help=True,
    epilog="Example: `mirrorlake archive check -c mirror.yaml --level checksums`",
)
app.add_typer(archive_app, name="archive")


class OutputFormat(StrEnum):
    """How a listing is shown."""

    TABLE = "table"
    JSON = "json"


class CheckLevel(StrEnum):
    """How deep a check of an archive looks."""

    NAMES = "names"
    CHECKSUMS = "checksums"


class VerifyLevel(StrEnum):
    """How deep a verification looks."""

    NAMES = "names"
    CHECKSUMS = "checksums"
    RECORDS = "records"


class LogForm(StrEnum):
    """How log lines look."""

    TEXT = "text"
    JSON = "json"


W = TypeVar("W", bound=StrEnum)


def _one_of(kind: type[W]) -> Callable[[str], W]:
    """Returns a reader of one of some words, that says in our words what it did not like."""

    def read(text: str) -> W:
        for word in kind:
            if text == word.value:
                return word
        raise typer.BadParameter(f"expected {' or '.join(kind)}, found {text!r}")

    return read


def _words(kind: type[StrEnum]) -> str:
    return f"[{'|'.join(kind)}]"


def _set_log_format(form: LogForm | None) -> None:
    # By way of the environment, so that it holds for what this process starts, and for itself where it starts again.
    if form is not None:
        os.environ["MIRRORLAKE_LOG_FORMAT"] = form.value


def _set_verbose(asked: bool) -> None:
    if asked:
        os.environ["MIRRORLAKE_LOG_LEVEL"] = "debug"


ConfigPath = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        help="Configuration file, native or mirror-v3 form. Default: MIRRORLAKE_CONFIG, else ./mirror.yaml.",
        show_default=False,
    ),
]
Format = Annotated[
    OutputFormat,
    typer.Option(
        "--format",
        help="Table for people, JSON for programs.",
        parser=_one_of(OutputFormat),
        metavar=_words(OutputFormat),
    ),
]
LogFormat = Annotated[
    LogForm | None,
    typer.Option(
        "--log-format",
        help="How log lines look; goes before MIRRORLAKE_LOG_FORMAT.",
        parser=_one_of(LogForm),
        metavar=_words(LogForm),
        callback=_set_log_format,
        show_default=False,
    ),
]
Verbose = Annotated[
    bool,
    typer.Option("-v", "--verbose", help="Log debug events, too.", callback=_set_verbose, show_default=False),
]
ArchiveConfig = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        help="All archives of this configuration. Default, without --root: MIRRORLAKE_CONFIG, else ./mirror.yaml.",
        show_default=False,
    ),
]
ArchiveRoot = Annotated[
    Path | None,
    typer.Option("--root", help="All partitions below this folder, without a configuration.", show_default=False),
]
Mirrors = Annotated[
    list[str] | None, typer.Option("--mirror", help="Only this mirror's; may be repeated.", show_default=False)
]
Topics = Annotated[
    list[str] | None, typer.Option("--topic", help="Only this topic's folder; may be repeated.", show_default=False)
]
Partitions = Annotated[
    list[int] | None, typer.Option("--partition", help="Only this partition; may be repeated.", show_default=False)
]


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"mirrorlake {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _: Annotated[
        bool, typer.Option("--version", "-V", help="Show the version and end.", callback=_version, is_eager=True)
    ] = False,
    __: LogFormat = None,
    ___: Verbose = False,
) -> None:
    """Takes the options before the verb."""


def _chosen(config: Path | None, *, options: str = "option '--config'") -> Path:
    """Returns the configuration file that is meant where none may be named; ``options`` are what could name one."""
    if config is not None:
        return config
    if named := os.environ.get(CONFIG_VARIABLE):
        return Path(named)
    if CONFIG_HERE.is_file():
        return CONFIG_HERE
    raise typer.BadParameter(f"Missing {options}: {CONFIG_VARIABLE} is not set, and there is no ./{CONFIG_HERE}")


@app.command(epilog="Example: `mirrorlake validate -c mirror.yaml`")
def validate(
    config: ConfigPath = None,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Parse and cross-check a configuration, and say what it means; touches nothing."""
    from mirrorlake.cli.validate import validate as verb

    raise typer.Exit(verb(_chosen(config), as_json=output is OutputFormat.JSON))


@app.command(epilog="Example: `mirrorlake plan -c mirror.yaml --format json`")
def plan(
    config: ConfigPath = None,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Show what `run` would do now: topics made, ranges copied, refusals. Changes nothing."""
    from mirrorlake.cli.plan import plan as verb

    raise typer.Exit(verb(_chosen(config), as_json=output is OutputFormat.JSON))


@app.command(epilog="Example: `mirrorlake run -c mirror.yaml --once`")
def run(
    context: typer.Context,
    config: ConfigPath = None,
    once: Annotated[
        bool, typer.Option("--once", help="Copy up to the ends found at the start, flush everything, end.")
    ] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="With --once: end a process that serves a mirror, instead of ending.")
    ] = False,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Mirror until Ctrl-C, SIGTERM or SIGHUP, then flush everything and end.

    Exit codes: 0 ended as asked, 1 failed, 3 partitions are parked, 4 another process has taken over.
    """
    from mirrorlake.cli.run import run as verb

    raise typer.Exit(verb(_chosen(config), once=once, takes_over=take_over, engine=context.obj))


@app.command(epilog="Example: `mirrorlake status -c mirror.yaml`")
def status(
    config: ConfigPath = None,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Show source ends, destination positions and lag of every partition; reads only. Exit code 1 if a row failed."""
    from mirrorlake.cli.status import status as verb

    raise typer.Exit(verb(_chosen(config), as_json=output is OutputFormat.JSON))


@app.command(epilog="Example: `mirrorlake verify -c mirror.yaml --level records`")
def verify(
    context: typer.Context,
    config: ConfigPath = None,
    level: Annotated[
        VerifyLevel,
        typer.Option(
            "--level",
            help="Names and positions only, checksums of archive files too, or every record.",
            parser=_one_of(VerifyLevel),
            metavar=_words(VerifyLevel),
        ),
    ] = VerifyLevel.RECORDS,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Prove that the copies equal their sources, or name the first offset that differs. Exit code 1 if one does."""
    from mirrorlake.cli.verify import verify as verb

    as_json = output is OutputFormat.JSON
    raise typer.Exit(verb(_chosen(config), level=level.value, as_json=as_json, engine=context.obj))


@app.command(epilog="Example: `mirrorlake demo --keep`")
def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave both clusters running, and print what to try on them.")
    ] = False,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Start two Kafka clusters on this machine, mirror between them and to Parquet, verify, and show the speeds."""
    from mirrorlake.cli.demo import demo as verb

    raise typer.Exit(verb(keep=keep))


@archive_app.command("ls", epilog="Example: `mirrorlake archive ls -c mirror.yaml --topic orders --segments`")
def archive_ls(
    config: ArchiveConfig = None,
    root: ArchiveRoot = None,
    mirror: Mirrors = None,
    topic: Topics = None,
    partition: Partitions = None,
    segments: Annotated[bool, typer.Option("--segments", help="A row per file instead of one per partition.")] = False,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """List archived partitions: offsets, records, gaps, bytes, times. Exit code 1 if something is wrong with one."""
    from mirrorlake.cli.archive import Where, ls

    config = _one_place(config, root, mirror)
    where = Where(config=config, root=root, mirrors=mirror or (), topics=topic or (), partitions=partition or ())
    raise typer.Exit(ls(where, segments=segments, as_json=output is OutputFormat.JSON))


@archive_app.command("check", epilog="Example: `mirrorlake archive check --root /backups/kafka --level checksums`")
def archive_check(
    config: ArchiveConfig = None,
    root: ArchiveRoot = None,
    mirror: Mirrors = None,
    topic: Topics = None,
    partition: Partitions = None,
    level: Annotated[
        CheckLevel,
        typer.Option(
            "--level",
            help="Names only, or every file against its own checksum too.",
            parser=_one_of(CheckLevel),
            metavar=_words(CheckLevel),
        ),
    ] = CheckLevel.NAMES,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Check that archives are whole, and name everything that is wrong; `verify` compares with the source.

    Exit codes: 0 all are sound, 1 one is not.
    """
    from mirrorlake.cli.archive import Where, check

    config = _one_place(config, root, mirror)
    where = Where(config=config, root=root, mirrors=mirror or (), topics=topic or (), partitions=partition or ())
    raise typer.Exit(check(where, level=level.value, as_json=output is OutputFormat.JSON))


def _one_place(config: Path | None, root: Path | None, mirror: list[str] | None) -> Path | None:
    """Returns the configuration that is meant; None where a folder is."""
    if config is not None and root is not None:
        raise typer.BadParameter("give either --config FILE or --root FOLDER")
    if mirror and root is not None:
        raise typer.BadParameter("--mirror needs --config FILE", param_hint="--mirror")
    return None if root is not None else _chosen(config, options="option '--config' or '--root'")


@config_app.command("schema", epilog="Example: `mirrorlake config schema > mirrorlake.schema.json`")
def config_schema() -> None:
    """Print the JSON Schema of the configuration."""
    from mirrorlake.cli.config_schema import config_schema as verb

    raise typer.Exit(verb())


def main(engine: "EngineBuilder | None" = None) -> None:
    """Runs the command line; errors a user can cause end as one line on stderr and exit code 1.

    Args:
        engine: what `run` and `verify` start for their leases; Spark where it is left out.
    """
    try:
        try:
            app(obj=engine)
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
