"""CPU of a tree of processes, against processes that burn a known time."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from bench.process_tree import ProcessTree

BURN = "import time\nwhile time.process_time() < 0.5: pass\n"


@contextmanager
def running(script: str) -> Iterator[subprocess.Popen[str]]:
    """Starts a script that says a line when it is done, and then waits for its input to end."""
    command = [sys.executable, "-c", textwrap.dedent(script) + "\nprint('done', flush=True); input()\n"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        yield process
        process.kill()


def test_living_children_count() -> None:
    script = f"""
        import subprocess, sys
        child = subprocess.Popen(
            [sys.executable, "-c", {BURN!r} + "print(flush=True)\\ntime.sleep(600)"], stdout=subprocess.PIPE
        )
        child.stdout.readline()
    """
    with running(script) as process:
        tree = ProcessTree(process.pid)
        use = tree.use()
        for child in psutil.Process(process.pid).children():
            child.kill()

    assert 0.4 <= use.cpu_seconds < 5.0
    assert use.is_running


def test_children_that_ended_before_the_first_look_count() -> None:
    script = f"""
        import subprocess, sys
        subprocess.run([sys.executable, "-c", {BURN!r}])
    """
    with running(script) as process:
        use = ProcessTree(process.pid).use()

    assert 0.4 <= use.cpu_seconds < 5.0


def test_the_last_look_stands_when_the_process_has_ended() -> None:
    with running(BURN) as process:
        tree = ProcessTree(process.pid)
        before = tree.use()
    after = tree.use()

    assert before.is_running
    assert not after.is_running
    assert after.cpu_seconds == before.cpu_seconds >= 0.4


def test_memory_is_that_of_real_processes() -> None:
    tree = ProcessTree(os.getpid())
    tree.use()

    assert 5_000_000 < tree.memory_bytes() < 50_000_000_000
