"""Structured logs on stderr: one event a line, facts as key=value or as JSON. Stdout stays for results."""

import errno
import logging
import os
import sys
from pathlib import Path
from typing import Any

import structlog

_SAID_BY_THE_ERROR = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers of PySpark's that repeat an exception while it is made."""


def configure_logs(*, level: str, as_json: bool) -> None:
    """Sends every log line of this process to stderr.

    Args:
        level: ``debug``, ``info``, ``warning`` or ``error``; lower ones are dropped.
        as_json: one JSON object a line instead of text.
    """
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0, pad_level=False)
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            _without_empty_hint,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.dict_tracebacks if as_json else _short_exceptions,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=lambda *_: _StderrLogger(),
    )
    # py4j and PySpark log through the standard library; their chatter is not ours to show.
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_is_not_of_py4j)
    logging.basicConfig(handlers=[handler], level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    # A query that Spark refuses is an error of ours, of one line; PySpark says it too, with Java's stack behind it.
    for name in _SAID_BY_THE_ERROR:
        logging.getLogger(name).disabled = True


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Leaves out what py4j says through the root logger: a traceback for each call that no JVM is left to answer."""
    return Path(record.pathname).parent.name != "py4j"


def _without_empty_hint(_: Any, __: str, event: Any) -> Any:
    """Leaves a hint out that says nothing."""
    if not event.get("hint", "said"):
        del event["hint"]
    return event


class _StderrLogger:
    """Writes to whatever ``sys.stderr`` is at the moment: a progress bar puts itself in between."""

    def msg(self, message: str) -> None:
        """Writes one line; to nowhere from then on where stderr is a terminal that is gone."""
        try:
            print(message, file=sys.stderr, flush=True)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            # Nobody reads it any more, and what the process still has to flush must not end with it.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 2)
            os.close(nowhere)

    debug = info = warning = error = critical = exception = msg


def _short_exceptions(_: Any, __: str, event: Any) -> Any:
    """Renders an exception as text, whatever logged it."""
    return structlog.processors.format_exc_info(_, __, event)
