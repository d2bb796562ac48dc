"""Options that several verbs have, and what their words mean."""

import os
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

if TYPE_CHECKING:
    from mirrorlake.config.resolved import Configuration

CONFIG_VARIABLE = "MIRRORLAKE_CONFIG"
CONFIG_HERE = Path("mirror.yaml")


class OutputFormat(StrEnum):
    """How a listing is shown."""

    TABLE = "table"
    JSON = "json"


class ImportedProgram(StrEnum):
    """Programs whose configuration ``config import`` reads; named here too, as help needs no reader of them."""

    MM2 = "mm2"
    MIRUS = "mirus"
    VIOOH = "viooh"


class RowsFormat(StrEnum):
    """How the rows of a query are written."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


class CheckLevel(StrEnum):
    """How deep a check of an archive looks."""

    NAMES = "names"
    CHECKSUMS = "checksums"


class VerifyLevel(StrEnum):
    """How deep a verification looks."""

    NAMES = "names"
    CHECKSUMS = "checksums"
    RECORDS = "records"


class RestoredOffsets(StrEnum):
    """Which offsets restored records get."""

    PRESERVE = "preserve"
    MAP = "map"


class RestoredGaps(StrEnum):
    """How offsets without a record are closed."""

    MARKERS = "markers"
    FILLER = "filler"
    REFUSE = "refuse"


class Layout(StrEnum):
    """How another program has laid the files of an archive."""

    KAFKA_REPLICATOR = "kafka-replicator"


class LogForm(StrEnum):
    """How log lines look."""

    TEXT = "text"
    JSON = "json"


W = TypeVar("W", bound=StrEnum)


def one_of(kind: type[W]) -> Callable[[str], W]:
    """Returns a reader of one of some words, that says in our words what it did not like."""

    def read(text: str) -> W:
        for word in kind:
            if text == word.value:
                return word
        raise typer.BadParameter(f"expected {' or '.join(kind)}, found {text!r}")

    return read


def duration(text: str) -> str:
    """Returns the text of a time such as ``10m``, as it was given.

    Raises:
        BadParameter: it is none, or not above zero.
    """
    from mirrorlake.config.units import DURATION_HINT, parse_duration

    try:
        if parse_duration(text) > 0:
            return text
    except ValueError:
        pass
    raise typer.BadParameter(f"{text[:60]!r}: {DURATION_HINT}, above zero")


def words(kind: type[StrEnum]) -> str:
    """Returns how help shows the words of an option."""
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
        parser=one_of(OutputFormat),
        metavar=words(OutputFormat),
    ),
]
LogFormat = Annotated[
    LogForm | None,
    typer.Option(
        "--log-format",
        help="How log lines look; overrides MIRRORLAKE_LOG_FORMAT.",
        parser=one_of(LogForm),
        metavar=words(LogForm),
        callback=_set_log_format,
        show_default=False,
    ),
]
Verbose = Annotated[
    bool,
    typer.Option(
        "-v", "--verbose", help="Log debug events, too.", metavar="", callback=_set_verbose, show_default=False
    ),
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
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")]
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


def chosen(config: Path | None, *, options: str = "option '--config'") -> Path:
    """Returns the configuration file that is meant where none may be named; ``options`` are what could name one."""
    if config is not None:
        return config
    if named := os.environ.get(CONFIG_VARIABLE):
        return Path(named)
    if CONFIG_HERE.is_file():
        return CONFIG_HERE
    raise typer.BadParameter(f"Missing {options}: {CONFIG_VARIABLE} is not set, and there is no ./{CONFIG_HERE}")


def one_place(config: Path | None, root: Path | None, mirror: list[str] | None) -> Path | None:
    """Returns the configuration that is meant; None where a folder is."""
    if config is not None and root is not None:
        raise typer.BadParameter("give either --config FILE or --root FOLDER")
    if mirror and root is not None:
        raise typer.BadParameter("--mirror needs --config FILE", param_hint="--mirror")
    return None if root is not None else chosen(config, options="option '--config' or '--root'")


def check_can_ask(
    config: Path | None,
    *,
    is_answered: bool,
    otherwise: str,
    check: "Callable[[Configuration], object] | None" = None,
) -> None:
    """Checks that there is somebody who can say yes, before any cluster or store is asked.

    Where nobody can, what is wrong with the configuration is said first: with ``--yes`` alone it would come next.

    Args:
        config: the configuration file, as it was given.
        is_answered: nobody is to be asked.
        otherwise: what to give in place of an answer, for the message.
        check: what else is checked against the configuration.

    Raises:
        BadParameter: stdin is no terminal, or no configuration file is named.
        ConfigurationErrors: stdin is no terminal, and the configuration or what ``check`` looks at cannot be used.
    """
    if is_answered or sys.stdin.isatty():
        return
    from mirrorlake.cli.start import load

    loaded = load(chosen(config))
    if check is not None:
        check(loaded)
    raise typer.BadParameter(f"nobody can be asked here: give --yes, or {otherwise}", param_hint="--yes")
