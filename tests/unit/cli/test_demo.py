"""What the demo ends with, and what a signal interrupts."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mirrorlake.cli.demo import exit_code, may_be_interrupted


@pytest.mark.parametrize(
    ("is_equal", "is_interrupted", "code"), [(True, False, 0), (True, True, 130), (False, False, 1), (False, True, 1)]
)
def test_a_signal_is_no_success_and_hides_no_failure(is_equal: bool, is_interrupted: bool, code: int) -> None:
    assert exit_code(is_equal=is_equal, is_interrupted=is_interrupted) == code


PROGRAM = """
import os, signal, sys, time
from mirrorlake.cli.demo import ignore_signals, interrupt_on_signals
interrupt_on_signals()
"""


def said(program: str, folder: Path) -> tuple[int, str, str]:
    command = [sys.executable, "-c", PROGRAM + program]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=50, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_lets_an_import_end_and_interrupts_what_comes_after_it(name: str, tmp_path: Path) -> None:
    module = f"import os, signal\nos.kill(os.getpid(), signal.{name})\nsum(range(1000))\nis_whole = True\n"
    (tmp_path / "within.py").write_text(module)
    program = """
try:
    import within
    time.sleep(60)
except KeyboardInterrupt:
    ignore_signals()
    print(sys.modules["within"].is_whole)
"""
    assert said(program, tmp_path) == (0, "True\n", "")


def test_a_signal_that_comes_where_python_ignores_what_is_raised_is_heard_all_the_same(tmp_path: Path) -> None:
    program = """
class Dropped:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        sum(range(1000))
try:
    Dropped()
    time.sleep(60)
except KeyboardInterrupt:
    ignore_signals()
    print("heard")
"""
    code, out, err = said(program, tmp_path)
    assert (code, out) == (0, "heard\n")
    assert "Exception ignored in: <function Dropped.__del__" in err


def test_what_cleans_up_after_a_signal_is_not_interrupted(tmp_path: Path) -> None:
    program = """
try:
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
    finally:
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGINT)
            try:
                raise TimeoutError
            except TimeoutError:
                time.sleep(0.2)
        print("cleaned")
except KeyboardInterrupt:
    ignore_signals()
    print("ended")
"""
    assert said(program, tmp_path) == (0, "cleaned\nended\n", "")


@pytest.mark.parametrize(
    ("file", "may_be"),
    [
        ("/venv/lib/python3.11/site-packages/llvmlite/binding/newpassmanagers.py", False),
        ("/venv/lib/python3.11/site-packages/numba/core/codegen.py", False),
        ("<frozen importlib._bootstrap>", False),
        ("/venv/lib/python3.11/site-packages/mirrorlake/demo/story.py", True),
        ("/home/numbat/llvmlites/story.py", True),
    ],
)
def test_a_signal_does_not_interrupt_an_import_or_a_compilation(file: str, may_be: bool) -> None:
    """Nor what they call: the frame asked about is one further down."""
    scope: dict[str, Callable[[Callable[[], bool]], bool]] = {}
    exec(compile("def call(what):\n    return what()\n", file, "exec"), scope)

    assert scope["call"](lambda: may_be_interrupted(sys._getframe())) is may_be
