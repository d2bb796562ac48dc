"""What a process does when it is asked to end, without Spark: a terminal that closes is asked for as Ctrl-C is."""

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PROGRAM = """
import sys, time
from pathlib import Path
import structlog
from mirrorlake.pipeline.signals import StopSignal
from mirrorlake.service.sight.logs import configure_logs

notes = Path(sys.argv[1])
configure_logs(level="info", as_json=False)
log = structlog.get_logger()

def on_stop(name):
    log.info("asked", signal=name)
    notes.joinpath("asked").write_text(name)

stop = StopSignal(on_stop).install()
notes.joinpath("installed").touch()
stop.wait()
while not notes.joinpath("go-on").exists():
    log.info("flushing")
    time.sleep(0.02)
notes.joinpath("flushed").touch()
log.info("graceful end")
"""
SECONDS_MAX = 30.0


def wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., "subprocess.Popen[bytes]"]]:
    started: list[subprocess.Popen[bytes]] = []

    def begin(*before: str, stderr: int = subprocess.DEVNULL) -> "subprocess.Popen[bytes]":
        command = [*before, sys.executable, "-c", PROGRAM, str(tmp_path)]
        started.append(subprocess.Popen(command, stderr=stderr, start_new_session=True))
        wait_for((tmp_path / "installed").exists)
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait()


def test_a_terminal_that_closes_asks_for_a_graceful_stop_however_often_it_says_so(
    start: Callable[..., "subprocess.Popen[bytes]"], tmp_path: Path
) -> None:
    """The kernel and the shell both send it: the second one is no wish for an end at once."""
    process = start()
    process.send_signal(signal.SIGHUP)
    wait_for((tmp_path / "asked").exists)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)  # the first of its kind, as a session manager sends it with the other
    time.sleep(0.2)
    assert process.poll() is None
    (tmp_path / "go-on").touch()
    assert process.wait(SECONDS_MAX) == 0
    assert (tmp_path / "asked").read_text() == "SIGHUP"
    assert (tmp_path / "flushed").exists()


def test_a_second_terminate_after_a_hangup_still_ends_the_process_at_once(
    start: Callable[..., "subprocess.Popen[bytes]"], tmp_path: Path
) -> None:
    process = start()
    process.send_signal(signal.SIGHUP)
    wait_for((tmp_path / "asked").exists)
    for _ in range(100):
        process.send_signal(signal.SIGTERM)
        time.sleep(0.05)
        if process.poll() is not None:
            break
    assert process.returncode == 143


def test_a_hangup_that_whoever_started_the_process_ignores_stays_ignored(
    start: Callable[..., "subprocess.Popen[bytes]"], tmp_path: Path
) -> None:
    process = start("nohup")
    process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert not (tmp_path / "asked").exists()
    process.send_signal(signal.SIGTERM)
    wait_for((tmp_path / "asked").exists)
    (tmp_path / "go-on").touch()
    assert process.wait(SECONDS_MAX) == 0
    assert (tmp_path / "asked").read_text() == "SIGTERM"


def test_a_terminal_that_is_gone_takes_the_log_with_it_and_nothing_else(
    start: Callable[..., "subprocess.Popen[bytes]"], tmp_path: Path
) -> None:
    ours, theirs = pty.openpty()
    process = start(stderr=theirs)
    os.close(theirs)
    os.close(ours)  # every line to it is an error from now on (EIO)
    process.send_signal(signal.SIGHUP)
    wait_for((tmp_path / "asked").exists)
    (tmp_path / "go-on").touch()
    assert process.wait(SECONDS_MAX) == 0
    assert (tmp_path / "flushed").exists()
