"""Moments of one process as another one sees them: by the clock that cannot jump on one machine, else by the date."""

import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mirrorlake.clock import ManualClock, SystemClock
from mirrorlake.moments import Moment, this_machine

NAMESPACE = Path("/proc/self/ns/time")

AGO = "import pickle, sys; from mirrorlake.clock import SystemClock; " + (
    "print(pickle.loads(bytes.fromhex(sys.argv[1])).seconds_since(SystemClock()))"
)


class JumpingClock(ManualClock):
    """A machine whose date is changed."""

    def jump(self, seconds: float) -> None:
        self._now += seconds


def test_a_moment_passes_when_its_time_is_over() -> None:
    clock = ManualClock()
    moment = Moment.of(clock, in_seconds=2.0)
    assert moment.seconds_since(clock) == -2.0
    clock.advance(5.0)
    assert moment.seconds_since(clock) == 3.0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a reading of CLOCK_BOOTTIME belongs to")
@pytest.mark.parametrize("jump_seconds", [-3600.0, 3600.0])
def test_on_one_machine_a_change_of_the_date_does_not_move_a_moment(jump_seconds: float) -> None:
    clock = JumpingClock()
    moment = Moment.of(clock, in_seconds=2.0)
    clock.jump(jump_seconds)
    clock.advance(5.0)
    assert moment.seconds_since(clock) == 3.0


@pytest.mark.parametrize("machine", ["", "another kernel's"])
def test_on_another_machine_the_date_alone_counts(machine: str) -> None:
    here, there = ManualClock(), ManualClock()
    moment = replace(Moment.of(here, in_seconds=2.0), machine=machine)
    here.advance(5.0)
    there.advance(5.0)
    there._elapsed += 1_000_000.0  # it was started at another time
    assert moment.seconds_since(there) == 3.0


def test_two_machines_that_tell_nothing_of_themselves_are_not_taken_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirrorlake.moments.this_machine", lambda: "")
    here, there = ManualClock(), ManualClock()
    moment = Moment.of(here)
    there._elapsed += 1_000_000.0
    assert moment.seconds_since(there) == 0.0


def test_another_process_of_this_machine_reads_the_same_time() -> None:
    moment = Moment.of(SystemClock())
    told = subprocess.run(
        [sys.executable, "-c", AGO, pickle.dumps(moment).hex()], check=True, capture_output=True, text=True
    )
    assert 0.0 < float(told.stdout) <= moment.seconds_since(SystemClock())


@pytest.mark.skipif(not NAMESPACE.is_symlink(), reason="needs Linux 5.6 and its time namespaces")
def test_a_machine_is_one_start_of_a_kernel_and_one_time_namespace() -> None:
    boot, namespace = this_machine().split(" ")
    assert len(boot) == 36
    assert namespace == str(NAMESPACE.readlink())
