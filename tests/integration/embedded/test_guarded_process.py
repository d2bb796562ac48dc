"""The guard of subprocesses, with programs that are quick to start."""

import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from mirrorlake.embedded.guarded_process import GuardedProcess

SLEEP = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
IGNORE = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
DEAF = [sys.executable, "-c", f"{IGNORE}; {SLEEP[-1]}"]


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30.0
    while not is_so():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.01)


def wait_for_line(log: Path) -> None:
    wait_until(lambda: b"\n" in log.read_bytes())


def test_output_and_exit_code_of_a_program_that_ends_by_itself(tmp_path: Path) -> None:
    process = GuardedProcess(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], log_path=tmp_path / "log")
    wait_until(lambda: process.exit_code is not None)

    assert process.exit_code == 3
    assert (tmp_path / "log").read_text() == "out\nerr\n"
    process.stop(timeout_seconds=0.0)
    process.kill()


def test_a_program_that_does_not_exist_says_so_in_the_log(tmp_path: Path) -> None:
    process = GuardedProcess(["/no/such/program"], log_path=tmp_path / "log")
    wait_until(lambda: process.exit_code is not None)
    process.stop(timeout_seconds=30.0)

    assert process.exit_code == 127
    assert "/no/such/program" in (tmp_path / "log").read_text()


def test_arguments_reach_the_program_as_they_are(tmp_path: Path) -> None:
    awkward = ["two words", "$HOME", "'", ""]
    script = "import sys; print(sys.argv[1:])"
    process = GuardedProcess([sys.executable, "-c", script, *awkward], log_path=tmp_path / "log")
    wait_for_line(tmp_path / "log")
    process.kill()

    assert (tmp_path / "log").read_text() == f"{awkward}\n"


@pytest.mark.parametrize(("command", "exit_code"), [(SLEEP, -15), (DEAF, -9)], ids=["obeys", "ignores"])
def test_stop_asks_first_and_kills_then(tmp_path: Path, command: list[str], exit_code: int) -> None:
    process = GuardedProcess(command, log_path=tmp_path / "log")
    wait_for_line(tmp_path / "log")

    process.stop(timeout_seconds=30.0 if command is SLEEP else 0.2)

    assert process.exit_code == exit_code
    assert not psutil.pid_exists(process.pid)


@pytest.mark.parametrize("is_paused", [False, True])
def test_it_dies_with_the_process_that_started_it(tmp_path: Path, is_paused: bool) -> None:
    script = f"""
        import time
        from pathlib import Path
        from mirrorlake.embedded.guarded_process import GuardedProcess
        log = Path({str(tmp_path / "log")!r})
        process = GuardedProcess({DEAF!r}, log_path=log)
        while b"up" not in log.read_bytes():
            time.sleep(0.01)
        if {is_paused}:
            process.pause()
        print(process.pid, flush=True)
        time.sleep(600)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        guarded = psutil.Process(int(parent.stdout.readline()))
        parent.kill()

    wait_until(lambda: not guarded.is_running() or guarded.status() == psutil.STATUS_ZOMBIE)
