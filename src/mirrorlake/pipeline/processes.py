"""Processes below this one: found through /proc, killed as a tree, collected when they have ended."""

import contextlib
import os
import signal
from collections.abc import Iterable
from pathlib import Path

_PROC = Path("/proc")


def descendants(pid: int) -> list[int]:
    """Returns the process ids below ``pid``, parents first; none where there is no /proc (macOS)."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.glob("[0-9]*"):
        # The name of a program, in brackets, may itself hold spaces and brackets: count from the last one.
        try:
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(entry.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


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
