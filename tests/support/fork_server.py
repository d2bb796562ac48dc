"""Processes that start in no time: forked from one that has imported what tests run in them."""

import multiprocessing
import os
import sys
from functools import cache
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from unittest.mock import patch

from support.script_environ import SCRIPT_ENVIRON

PRELOADED = ("support.lease_processes", "support.leases", "fault.archive_writer", "fault.snapshot_writer")


@cache
def fork_context() -> ForkServerContext:
    """The context whose processes are forked from that one, which is started by the first call.

    Python before 3.14 does not tell it where tests find their modules, and it says nothing of those it cannot import:
    every process would then import them anew, at 1.5 CPU-seconds each.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    with patch.dict(os.environ, PYTHONPATH=SCRIPT_ENVIRON["PYTHONPATH"]):
        forkserver.ensure_running()
    return context


def end_with_missing_modules() -> None:
    """Runs in such a process: it ends with the number of modules that it should have and has not."""
    sys.exit(len(set(PRELOADED) - sys.modules.keys()))
