"""Memory that was freed is used again without a page fault."""

import platform
import subprocess
import sys

import pytest

# Three blocks at a time are more than glibc by itself would keep.
SCRIPT = """
import resource, sys
from mirrorlake.freed_memory import keep_freed_memory

assert not int(sys.argv[1]) or keep_freed_memory()

def work():
    blocks = [bytearray(16 << 20) for _ in range(3)]

work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
PAGES_OF_ONE_ROUND = 3 * (16 << 20) // 4096


def faults(*, keeps: bool) -> int:
    run = subprocess.run([sys.executable, "-c", SCRIPT, str(int(keeps))], capture_output=True, text=True, check=True)
    return int(run.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told")
def test_freed_memory_is_used_again_without_page_faults() -> None:
    assert faults(keeps=False) > PAGES_OF_ONE_ROUND, "else there is nothing to gain on this system"
    assert faults(keeps=True) < PAGES_OF_ONE_ROUND / 2
