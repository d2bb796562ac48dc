"""A work that hangs is ended with its process, and one that was prolonged has so much longer."""

import subprocess
import sys

import pytest

RUN = """
import time
from mirrorlake.watchdog import prolong_watchdog, watchdog
prolong_watchdog(1000.0)
with watchdog({seconds}):
    for more in {prolonged}:
        prolong_watchdog(more)
    time.sleep({sleeps})
print("ended by itself")
"""


@pytest.mark.parametrize(
    ("seconds", "prolonged", "sleeps", "ends"),
    [
        (0.2, [], 60.0, False),
        (0.2, [0.1, 0.1], 60.0, False),
        (0.2, [60.0], 0.5, True),
        (None, [60.0], 0.0, True),
    ],
)
def test_a_work_ends_with_its_process_once_its_time_and_what_it_was_given_more_is_over(
    seconds: float | None, prolonged: list[float], sleeps: float, ends: bool
) -> None:
    code = RUN.format(seconds=seconds, prolonged=prolonged, sleeps=sleeps)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=50.0)
    assert ("ended by itself" in run.stdout, run.returncode == 0) == (ends, ends)
    assert ("Timeout" in run.stderr) is not ends
