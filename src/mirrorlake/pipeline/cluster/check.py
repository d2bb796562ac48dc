"""Runs on an executor, as a lease does: says what it lacks, and what its clock shows."""

import os
import pickle
import platform
import socket
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import mirrorlake
from mirrorlake.pipeline.cluster.identity import executor_id
from mirrorlake.pipeline.cluster.needs import Needs, RootSeen

WORK = f"{__name__}:check"
CLOCK = f"{__name__}:clock"


def check(plan: bytes) -> list[dict[str, object]]:
    """Returns one row: the host's name, and what is wrong with it, a sentence each. ``plan`` is a pickled `Needs`."""
    needs: Needs = pickle.loads(plan)
    return [
        {
            "kind": "checked",
            "executor": executor_id(),
            "host": socket.gethostname(),
            "python": platform.python_version(),
            "executable": sys.executable,
            "version": mirrorlake.__version__,
            "wrong": wrong_here(needs),
        }
    ]


def clock(_plan: bytes) -> list[dict[str, object]]:
    """Returns one row: what the wall clock of this host shows."""
    return [{"kind": "clock", "executor": executor_id(), "now_seconds": time.time()}]


def wrong_here(needs: Needs) -> list[str]:
    """Returns what this process lacks of what leases need."""
    return [*_version_trouble(needs), *_each(_root_trouble, needs.roots), *_missing(needs)]


def unreadable_here(needs: Needs) -> list[str]:
    """Returns what this process lacks of what is needed to read the same, by what cannot be otherwise on a fit host.

    Folders need not be writable. Without a marker nothing tells whether two are one: a folder's number and time may
    differ by how each host has it.
    """
    return [*_version_trouble(needs), *_each(_reading_trouble, needs.roots), *_missing(needs)]


def _each(trouble: Callable[[RootSeen], list[str]], roots: Iterable[RootSeen]) -> list[str]:
    return [each for root in roots for each in trouble(root)]


def _version_trouble(needs: Needs) -> list[str]:
    if mirrorlake.__version__ == needs.version:
        return []
    return [f"it has mirrorlake {mirrorlake.__version__}, the driver has {needs.version}"]


def _missing(needs: Needs) -> list[str]:
    wrong = []
    for file in needs.files:
        if not Path(file).exists():
            wrong.append(f"there is no file {file}")
        elif not os.access(file, os.R_OK):
            wrong.append(f"{file} cannot be read")
    wrong += [f"the environment variable {name} is not set" for name in needs.variables if name not in os.environ]
    return wrong


def _root_trouble(root: RootSeen) -> list[str]:
    if root.inode is None:
        return []  # missing at the driver too: said where archives are opened
    here = RootSeen.look(root.path)
    if here.inode is None:
        return [f"there is no folder {root.path}, the root of an archive"]
    if not os.access(root.path, os.R_OK | os.W_OK | os.X_OK):
        return [f"{root.path}, the root of an archive, cannot be written"]
    return [] if _are_one(root, here) else [_another(root)]


def _reading_trouble(root: RootSeen) -> list[str]:
    if root.inode is None:
        return []
    here = RootSeen.look(root.path)
    if here.inode is None:
        return [f"there is no folder {root.path}, the root of an archive, or it cannot be read"]
    return [_another(root)] if root.marker and not _are_one(root, here) else []


def _another(root: RootSeen) -> str:
    return f"{root.path} is not the folder that the driver has there: all hosts must share it"


def _are_one(there: RootSeen, here: RootSeen) -> bool:
    assert there.inode is not None
    assert here.inode is not None
    if there.marker and here.marker:
        return there.marker == here.marker
    if there.marker or here.marker:
        return there.inode[0] == here.inode[0]  # a marker made a moment ago reaches a network filesystem's others late
    return there.inode == here.inode
