"""Keeps the memory a worker frees in the process, for the next fetch, batch or row group of the same size.

glibc gives large blocks back to the system as soon as they are freed, and every page of the next one is then faulted
in and cleared again: a fifth of an archiving worker's CPU. What is kept is bounded.
"""

import ctypes

# malloc.h of glibc; the largest threshold it takes on 64 bits, and four of those.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
MMAP_BYTES_MIN = 32 << 20
"""Blocks from this size on still go back at once."""
KEPT_BYTES_MAX = 128 << 20
"""Free memory above this at the end of the heap goes back."""


def keep_freed_memory() -> bool:
    """Tells the C library; returns whether it listens, as only glibc's does. For a whole process and its forks."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, MMAP_BYTES_MIN)) and bool(mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES_MAX))
