"""What becomes of memory that a process has no use for: what is freed stays for the next, libraries' pages go back.

glibc gives large blocks back to the system as soon as they are freed, and every page of the next one is then faulted
in and cleared again: a fifth of an archiving worker's CPU. So they are kept, for the next fetch, batch or row group of
the same size; what is kept is bounded.

A page of a library that was read once stays mapped, and counts as the process's memory, until the system runs short.
LLVM is the largest: 65 MB of it are read to load compiled loops, and none of it while they run. What is read again
comes from the file, in most cases from the system's cache of it.

Python looks for cycles that hold memory nobody uses. What lives long, in a process that holds ten thousands of rows or
states, is not looked through again and again (`rarely_collected`).
"""

import contextlib
import ctypes
import gc
import mmap
import re
import threading
from collections.abc import Collection, Iterator
from pathlib import Path

# malloc.h of glibc; the largest threshold it takes on 64 bits, and four of those.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
MMAP_BYTES_MIN = 32 << 20
"""Blocks from this size on still go back at once."""
KEPT_BYTES_MAX = 128 << 20
"""Free memory above this at the end of the heap goes back."""

OBJECTS_PER_COLLECTION = 100_000
"""How many objects are made before Python looks for cycles among them: some 20 MB."""

_MAPS = Path("/proc/self/smaps")  # Linux alone has it
_LIBRARY = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (r-[-x]p) \S+ \S+ [1-9]\d* +/.*\.so[.\d]*$")
"""A part of a library that can be read and not be written. No library is ever unloaded: its addresses stay its own."""
_MAPPING = re.compile(r"[0-9a-f]+-[0-9a-f]+ ")
_OWN = ("Anonymous:", "Swap:")  # pages that were changed are in memory, or swapped out

Part = tuple[int, int]
"""A mapping: its address and its length in bytes."""


def keep_freed_memory() -> bool:
    """Tells the C library; returns whether it listens, as only glibc's does. For a whole process and its forks."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, MMAP_BYTES_MIN)) and bool(mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES_MAX))


def forget_library_pages(among: Collection[Part] | None = None) -> int:
    """Unmaps what this process has read of its libraries; returns how many bytes of mappings that was.

    Only parts without a page of the process's own: none is lost that the file does not have, as relocated addresses
    would be. A library that another thread loads just now may look like that, too: ``among`` leaves it out.

    Args:
        among: parts that were there for a while; all where no other thread runs.
    """
    madvise = getattr(ctypes.CDLL(None), "madvise", None)
    if madvise is None:
        return 0
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    forgotten = 0
    for part in unchanged_parts():
        if (among is None or part in among) and madvise(*part, mmap.MADV_DONTNEED) == 0:
            forgotten += part[1]
    return forgotten


@contextlib.contextmanager
def forgotten_after(seconds: float) -> Iterator[None]:
    """Does so once, ``seconds`` from now, with what is loaded now, unless the block ends before."""
    timer = threading.Timer(seconds, forget_library_pages, [frozenset(unchanged_parts())])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def unchanged_parts() -> list[Part]:
    """Returns each part of a library that holds no page of the process's own; none where the system does not say."""
    return list(_unchanged(_MAPS.read_text())) if _MAPS.exists() else []


def _unchanged(smaps: str) -> Iterator[Part]:
    """Yields what `unchanged_parts` returns, of the text in which Linux says it."""
    found: Part | None = None
    for line in smaps.splitlines():
        if _MAPPING.match(line):
            if found is not None:
                yield found
            library = _LIBRARY.match(line)
            found = (int(library[1], 16), int(library[2], 16) - int(library[1], 16)) if library else None
        elif line.startswith(_OWN) and line.split()[1] != "0":
            found = None
    if found is not None:
        yield found


@contextlib.contextmanager
def rarely_collected() -> Iterator[None]:
    """Has Python look for cycles after so many new objects, instead of seven hundred, within the block.

    What an answer about thousands of partitions is made into is more than seven hundred objects, so it was still in use
    when they were looked through, and counted as what lives long; after a few answers all that does was looked through,
    for nothing.
    """
    before = gc.get_threshold()
    gc.set_threshold(OBJECTS_PER_COLLECTION, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
