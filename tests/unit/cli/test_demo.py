"""What the demo ends with, and what a signal interrupts."""

import subprocess
import sys
from pathlib import Path

import pytest

from mirrorlake.cli.demo import exit_code


@pytest.mark.parametrize(
    ("is_equal", "is_interrupted", "code"), [(True, False, 0), (True, True, 130), (False, False, 1), (False, True, 1)]
)
def test_a_signal_is_no_success_and_hides_no_failure(is_equal: bool, is_interrupted: bool, code: int) -> None:
    assert exit_code(is_equal=is_equal, is_interrupted=is_interrupted) == code


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_lets_an_import_end_and_interrupts_what_comes_after_it(name: str, tmp_path: Path) -> None:
    """An interrupt within the import machinery may be swallowed there, or leave its lock taken for good."""
    module = f"import os, signal\nos.kill(os.getpid(), signal.{name})\nsum(range(1000))\nis_whole = True\n"
    (tmp_path / "within.py").write_text(module)
    program = """
import sys, time
from mirrorlake.cli.demo import _interrupt_on_signals
_interrupt_on_signals()
try:
    import within
    time.sleep(60)
except KeyboardInterrupt:
    print(sys.modules["within"].is_whole)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
