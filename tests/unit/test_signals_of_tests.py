"""What tests start hears SIGINT, however the tests themselves were started."""

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_children_of_a_test_run_that_a_script_started_in_the_background_hear_interrupts() -> None:
    """A shell without job control lets what it starts with ``&`` ignore SIGINT, and that is handed on."""
    program = (
        "import conftest, subprocess, sys;"
        "subprocess.run([sys.executable, '-c', 'import signal; print(signal.getsignal(signal.SIGINT).__name__)'])"
    )
    said = subprocess.run(
        ["/bin/sh", "-c", 'trap "" INT; exec "$0" -c "$1"', sys.executable, program],
        cwd=TESTS,
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "default_int_handler\n"
