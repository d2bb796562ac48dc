"""The ``mirrorlake`` command. Only light modules are imported here; each verb imports what it needs."""

import contextlib
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from mirrorlake import __version__
from mirrorlake.cli.applications import app as app
from mirrorlake.cli.options import LogFormat, Verbose
from mirrorlake.errors import MirrorlakeError, SupersededError
from mirrorlake.freed_memory import rarely_collected

if TYPE_CHECKING:
    from mirrorlake.pipeline.engine import EngineBuilder

for _verbs in ("mirrors", "topics", "groups", "schemas", "failover", "restore", "demo", "archives", "holds", "offsets"):
    # Each adds its verbs to the application; help shows them in this order.
    import_module(f"mirrorlake.cli.commands.{_verbs}")

EXIT_FAILED = 1
EXIT_SUPERSEDED = 4


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"mirrorlake {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _: Annotated[
        bool,
        typer.Option("--version", "-V", help="Show the version and end.", metavar="", callback=_version, is_eager=True),
    ] = False,
    __: LogFormat = None,
    ___: Verbose = False,
) -> None:
    """Takes the options before the verb."""


@contextlib.contextmanager
def ending_as_a_command() -> Iterator[None]:
    """Errors a user can cause end as one line on stderr and exit code 1."""
    try:
        try:
            yield
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
        print(f"error: {_said(error)}", file=sys.stderr)
        sys.exit(EXIT_FAILED)


def main(engine: "EngineBuilder | None" = None) -> None:
    """Runs the command line; see `ending_as_a_command` for its errors.

    Args:
        engine: what `run` and `verify` start for their leases; Spark where it is left out.
    """
    # What a verb imports lives to its end, too.
    with ending_as_a_command(), rarely_collected():
        app(obj=engine)


def _said(error: OSError) -> str:
    """Returns what the system says of a file, without its number and Python's quotes."""
    why = error.strerror or str(error)
    return why if error.filename is None else f"{error.filename}: {why}"


def _drop_stdout() -> None:
    """Lets go of what could not be written, or the interpreter tries once more at its end and complains."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


if __name__ == "__main__":
    main()
