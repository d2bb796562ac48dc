"""Memory that was freed is used again without a page fault; pages of libraries go back, and come when asked for."""

import platform
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mirrorlake import freed_memory
from mirrorlake.freed_memory import forget_library_pages, forgotten_after

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


_READS_A_LIBRARY = """
import re, sys
import numpy, pyarrow.compute as pc, pyarrow as pa
from mirrorlake.freed_memory import forget_library_pages

def mapped():
    return int(re.search(r"Pss_File:\\s+(\\d+)|$", open("/proc/self/smaps_rollup").read())[1])

def work():
    return pc.sum(pc.multiply(pa.array(range(1000)), 2)).as_py(), float(numpy.linalg.det(numpy.eye(3)))

before, first = work(), mapped()
forgotten, behind = forget_library_pages(), mapped()
print(forgotten > 0, behind < first, work() == before == (999000, 1.0))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_a_process_has_read_of_its_libraries_is_no_memory_of_it_any_more_and_still_works() -> None:
    said = subprocess.run([sys.executable, "-c", _READS_A_LIBRARY], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["True"] * 3


def test_without_proc_nothing_happens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(freed_memory, "_MAPS", tmp_path / "missing")
    assert forget_library_pages() == 0


def test_only_unchanged_parts_of_libraries_that_cannot_be_written_are_given_back() -> None:
    def mapping(addresses: str, rights: str, inode: int, path: str, own_kb: int, swapped_kb: int = 0) -> str:
        own = f"Rss: 8 kB\nAnonymous: {own_kb} kB\nSwap: {swapped_kb} kB\nSwapPss: 0 kB\nVmFlags: rd\n"
        return f"{addresses} {rights} 00000000 fe:00 {inode} {path}\n{own}"

    smaps = "".join(
        [
            mapping("1000-3000", "r-xp", 7, "/lib/libone.so.6", 0),
            mapping("3000-4000", "r--p", 7, "/lib/libone.so.6", 4),  # relocated addresses
            mapping("4000-5000", "rw-p", 7, "/lib/libone.so.6", 0),
            mapping("5000-6000", "r--p", 8, "/site/two.cpython-311-x86_64-linux-gnu.so", 0),
            mapping("6000-7000", "r--p", 9, "/lib/libgone.so (deleted)", 0),
            mapping("7000-8000", "r--p", 10, "/data/table.parquet", 0),
            mapping("8000-9000", "r--s", 11, "/lib/libshared.so", 0),
            mapping("9000-a000", "r--p", 0, "", 0),
            mapping("a000-b000", "r-xp", 0, "[vdso]", 0),
            mapping("b000-c000", "r--p", 12, "/lib/libswapped.so", 0, swapped_kb=4),
            mapping("c000-d000", "r--p", 13, "/lib/liblast.so.1", 0),
        ]
    )
    assert list(freed_memory._unchanged(smaps)) == [(0x1000, 0x2000), (0x5000, 0x1000), (0xC000, 0x1000)]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_was_loaded_meanwhile_is_left_alone() -> None:
    parts = freed_memory.unchanged_parts()
    assert forget_library_pages([]) == 0
    assert forget_library_pages(parts[:1]) == parts[0][1]


def test_it_is_done_once_after_a_time_unless_the_block_ends_before(monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()
    monkeypatch.setattr(freed_memory, "forget_library_pages", lambda _: done.set())
    with forgotten_after(0.0):
        assert done.wait(60.0)
    done.clear()
    with forgotten_after(3600.0):
        pass
    assert not done.is_set()
