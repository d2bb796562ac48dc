"""Gives back the pages of program libraries that a process needed for its start alone.

A page of a library that was read once stays mapped, and counts as the process's memory, until the system runs short.
LLVM is the largest: 65 MB of it are read to load compiled loops, and none of it while they run. What is read again
comes from the file, in most cases from the system's cache of it.
"""

import contextlib
import ctypes
import mmap
import re
import threading
from collections.abc import Iterator
from pathlib import Path

_MAPS = Path("/proc/self/smaps")  # Linux alone has it
_LIBRARY = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (r-[-x]p) \S+ \S+ [1-9]\d* +/.*\.so[.\d]*$")
"""A part of a library that can be read and not be written. No library is unloaded here, so its addresses stay its own
between a look at the mappings and what is done about them."""
_MAPPING = re.compile(r"[0-9a-f]+-[0-9a-f]+ ")
_OWN = "Anonymous:"


def forget_library_pages() -> int:
    """Unmaps what this process has read of its libraries; returns how many bytes of mappings that was.

    Only parts without a page of the process's own: none is lost that the file does not have, as relocated addresses
    would be. Other threads may run meanwhile, and go on with what they read again.
    """
    madvise = getattr(ctypes.CDLL(None), "madvise", None)
    if madvise is None or not _MAPS.exists():
        return 0
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    forgotten = 0
    for start, length in list(_unchanged(_MAPS.read_text())):
        if madvise(start, length, mmap.MADV_DONTNEED) == 0:
            forgotten += length
    return forgotten


@contextlib.contextmanager
def forgotten_after(seconds: float) -> Iterator[None]:
    """Does so once, in a thread of its own, ``seconds`` from now, unless the block ends before."""
    timer = threading.Timer(seconds, forget_library_pages)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _unchanged(smaps: str) -> Iterator[tuple[int, int]]:
    """Yields address and length of each mapping of a library that holds no page of the process's own."""
    found: tuple[int, int] | None = None
    for line in smaps.splitlines():
        if _MAPPING.match(line):
            library = _LIBRARY.match(line)
            found = (int(library[1], 16), int(library[2], 16) - int(library[1], 16)) if library else None
        elif found is not None and line.startswith(_OWN):
            if line.split()[1] == "0":
                yield found
            found = None
