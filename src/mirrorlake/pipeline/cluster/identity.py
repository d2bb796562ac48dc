"""Which executor a Python worker belongs to."""

import contextlib
import functools

import psutil


@functools.cache
def executor_id() -> str:
    """Returns the id of the executor above this worker, empty where that cannot be told."""
    with contextlib.suppress(psutil.Error, IndexError, ValueError):
        command = psutil.Process().parents()[1].cmdline()  # the first is the daemon that the worker forked from
        return command[command.index("--executor-id") + 1]
    return ""
