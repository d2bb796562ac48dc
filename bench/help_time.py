"""How long a user waits for ``mirrorlake --help``."""

import subprocess
import sys
import time


def measure_help(rounds: int = 5) -> float:
    """Returns the seconds of the fastest round: what the program needs, not what the machine was busy with."""
    return min(_help_seconds() for _ in range(rounds))


def _help_seconds() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "mirrorlake", "--help"], check=True, capture_output=True)
    return time.perf_counter() - began
