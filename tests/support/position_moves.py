"""Moves of positions as a process of their own makes them: killed, frozen, or met by a rival at any step."""

import asyncio
import os
import signal
from pathlib import Path

from mirrorlake.config.loading import load_configuration
from mirrorlake.service.positions.files import FileFormat
from mirrorlake.service.positions.listing import Wanted
from mirrorlake.service.positions.moving import Moved
from mirrorlake.service.positions.planning import carry_out, plan_of_file
from mirrorlake.stores.crash_points import CrashPoint, no_crash
from support.lease_processes import Death


def move(config: Path, text: str, crash_point: CrashPoint = no_crash) -> Moved:
    """Moves positions to what a text of CSV says; it must be without a fault."""
    configuration = load_configuration(config, environ={})
    planned = asyncio.run(plan_of_file(configuration, text.encode(), FileFormat.CSV, Wanted()))
    assert not planned.faults, planned.faults
    return asyncio.run(carry_out(configuration, planned, crash_point=crash_point))


def die_in_move(config: Path, text: str, death: Death) -> None:
    """Runs in a process: a move that should not survive."""
    move(config, text, death.crash_point())


def freeze_in_move(config: Path, text: str, step: str) -> None:
    """Runs in a process: a move that freezes itself before the first time of ``step``."""
    seen = False

    def crash_point(reached: str) -> None:
        nonlocal seen
        if reached == step and not seen:
            seen = True
            os.kill(os.getpid(), signal.SIGSTOP)

    move(config, text, crash_point)
