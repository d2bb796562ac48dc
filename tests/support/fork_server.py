"""Processes that start in no time: forked from one that has imported what tests run in them."""

import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from unittest.mock import patch

from support.script_environ import SCRIPT_ENVIRON

COMMANDS = (
    *("mirrorlake.cli.plan", "mirrorlake.cli.restore", "mirrorlake.cli.run", "mirrorlake.cli.status"),
    *("mirrorlake.cli.validate", "mirrorlake.cli.verify", "mirrorlake.cli.archive", "mirrorlake.cli.archive_diff"),
    *("mirrorlake.cli.archive_erase", "mirrorlake.cli.archive_hold", "mirrorlake.cli.archive_keeping"),
    *("mirrorlake.cli.archive_snapshot", "mirrorlake.cli.configuration.importing"),
    *("mirrorlake.cli.failover.failing_back", "mirrorlake.cli.failover.failing_over", "mirrorlake.cli.groups.sync"),
    *("mirrorlake.cli.offsets.groups", "mirrorlake.cli.offsets.listing", "mirrorlake.cli.offsets.moving"),
    *("mirrorlake.cli.schemas.verbs", "mirrorlake.cli.topics.verbs"),
    *("mirrorlake.config.asked", "mirrorlake.config.loading"),
    *("mirrorlake.groups.restoring", "mirrorlake.groups.syncing"),
    *("mirrorlake.service.archives.erasing", "mirrorlake.service.archives.holding"),
    *("mirrorlake.service.archives.merging", "mirrorlake.service.archives.missing"),
    *("mirrorlake.service.archives.places", "mirrorlake.service.archives.snapshotting"),
    *("mirrorlake.service.failover.reading", "mirrorlake.service.failover.turning"),
    *("mirrorlake.service.failover.way_back", "mirrorlake.service.failover.writers"),
    *("mirrorlake.service.plan.planning", "mirrorlake.service.positions.group_offsets"),
    *("mirrorlake.service.positions.moving", "mirrorlake.service.positions.planning"),
    *("mirrorlake.service.run", "mirrorlake.service.sight.logs", "mirrorlake.service.status"),
    *("mirrorlake.service.subjects.compared_ids", "mirrorlake.service.subjects.planning"),
    *("mirrorlake.service.taking_over.taking", "mirrorlake.topics.restoring", "mirrorlake.topics.sync.applying"),
    *("mirrorlake.verify.diff.comparison", "mirrorlake.verify.engine", "mirrorlake.verify.verification"),
    *("rich.table", "typer._adapters"),
)
"""What verbs import when they run, and would anew in each process: half a CPU-second and more of `run` or `verify`."""

PRELOADED = (
    *COMMANDS,
    "pandas",  # which pyarrow imports when it is first given a Python value, 0.4 CPU-seconds
    "support.lease_processes",
    "support.leases",
    "support.forked_command",
    "fault.archive_writer",
    "fault.snapshot_writer",
    "support.loaded_kernels",  # 1.5 CPU-seconds
    "support.frozen_heap",
)

SECONDS_MAX = 300.0


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


def exit_codes(programs: Sequence[tuple[Callable[..., int], tuple[object, ...]]]) -> list[int | None]:
    """Runs functions side by side with their arguments, each in such a process; returns what they return.

    That is the process's exit code, so it is small; negative where a signal ended it, None where nothing did in time.
    """
    started = [fork_context().Process(target=_end_with, args=program, daemon=True) for program in programs]
    for process in started:
        process.start()
    try:
        for process in started:
            process.join(SECONDS_MAX)
        return [process.exitcode for process in started]
    finally:
        for process in started:
            process.kill()
            process.join()


def _end_with(program: Callable[..., int], arguments: tuple[object, ...]) -> None:
    sys.exit(program(*arguments))


def missing_modules() -> int:
    """Runs in such a process: how many modules it should have and has not, compiled kernels among them."""
    return len({*PRELOADED, "mirrorlake.kafka.records.native"} - sys.modules.keys())
