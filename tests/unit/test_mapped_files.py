"""Pages of libraries are given back, and what they held is there again when it is asked for."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mirrorlake import mapped_files
from mirrorlake.mapped_files import forget_library_pages, forgotten_after

_READS_A_LIBRARY = """
import re, sys
import numpy, pyarrow.compute as pc, pyarrow as pa
from mirrorlake.mapped_files import forget_library_pages

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
    monkeypatch.setattr(mapped_files, "_MAPS", tmp_path / "missing")
    assert forget_library_pages() == 0


def test_only_unchanged_parts_of_libraries_that_cannot_be_written_are_given_back() -> None:
    def mapping(addresses: str, rights: str, inode: int, path: str, own_kb: int) -> str:
        return f"{addresses} {rights} 00000000 fe:00 {inode} {path}\nRss: 8 kB\nAnonymous: {own_kb} kB\nVmFlags: rd\n"

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
        ]
    )
    assert list(mapped_files._unchanged(smaps)) == [(0x1000, 0x2000), (0x5000, 0x1000)]


def test_it_is_done_once_after_a_time_unless_the_block_ends_before(monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()
    monkeypatch.setattr(mapped_files, "forget_library_pages", done.set)
    with forgotten_after(0.0):
        assert done.wait(60.0)
    done.clear()
    with forgotten_after(3600.0):
        pass
    assert not done.is_set()
