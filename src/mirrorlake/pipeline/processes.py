"""Processes below this one: found, killed as a tree, collected when they have ended."""

import contextlib
import os
import signal
from collections.abc import Iterable

import psutil


def descendants(pid: int) -> list[int]:
    """Returns the process ids below ``pid``, parents first; none where it has ended."""
    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return []


def kill(pids: Iterable[int]) -> None:
    """Sends SIGKILL to each process that still exists and is ours."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def collect_ended_children() -> None:
    """Takes the exit codes of ended children, known or adopted, so that none stays as a zombie.

    Orphans of a dead JVM are handed to process 1, which in a container is often this process.
    """
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
