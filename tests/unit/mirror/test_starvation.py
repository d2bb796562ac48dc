"""Who is named where an answer is missing: also this process, where it was not run."""

import os
import signal
import subprocess
import sys
import time

import pytest

from mirrorlake.clock import ManualClock, SystemClock
from mirrorlake.errors import TransientError
from mirrorlake.mirror.starvation import Starvation, not_answered, starved_seconds


@pytest.mark.parametrize(
    ("asked", "took", "used", "starved"),
    [
        (0.25, 0.25, 0.0, 0.0),
        (0.25, 0.1, 0.0, 0.0),
        (0.25, 0.7, 0.0, 0.0),
        (0.25, 4.25, 0.0, 4.0),
        (0.25, 4.25, 1.5, 2.5),
        (0.25, 4.25, 6.0, 0.0),
        (-1.0, 2.0, 0.0, 2.0),
    ],
)
def test_a_process_lacks_the_time_by_which_a_wait_was_late_and_that_it_did_not_use(
    asked: float, took: float, used: float, starved: float
) -> None:
    assert starved_seconds(asked, took, used_seconds=used) == pytest.approx(starved)


def test_the_text_names_this_process_only_where_it_lacked_the_cpu() -> None:
    who = "destination far of source orders/0"
    plain, starved = (not_answered(who, starved_seconds=seconds) for seconds in (0.9, 4.24))
    assert plain.message == f"{who} did not answer within the lease"
    assert "`engine.lease`" in plain.hint
    assert str(starved).startswith(
        f"{who} did not answer within the lease; this process had no CPU time for 4.2 s of it"
    )
    assert "too little CPU" in str(starved)
    assert isinstance(plain, TransientError)
    assert isinstance(starved, TransientError)


def test_waits_add_up() -> None:
    clock = ManualClock()
    starvation = Starvation(clock)
    for late in (0.0, 2.0, 3.0):
        starvation.wait_begins(0.25)
        clock.advance(0.25 + late)
        starvation.wait_ended()
    assert starvation.seconds == pytest.approx(5.0, abs=0.5)


def test_a_stopped_process_was_not_run() -> None:
    program = """
import sys
from mirrorlake.clock import SystemClock
from mirrorlake.mirror.starvation import Starvation
starvation = Starvation(SystemClock())
starvation.wait_begins(0.1)
print("waits", flush=True)
sys.stdin.readline()
starvation.wait_ended()
print(starvation.seconds, flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"waits\n"
        began = SystemClock().elapsed_seconds()
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(1.5)
        os.kill(process.pid, signal.SIGCONT)
        process.stdin.write(b"\n")
        process.stdin.flush()
        stopped = float(process.stdout.readline())
        assert 1.2 <= stopped <= SystemClock().elapsed_seconds() - began
