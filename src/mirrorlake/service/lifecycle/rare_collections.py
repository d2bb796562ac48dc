"""Keeps Python's search for cycles away from what lives long: a process that holds ten thousands of rows, or states."""

import contextlib
import gc
from collections.abc import Iterator

OBJECTS_PER_COLLECTION = 100_000
"""How many objects are made before Python looks for cycles among them: some 20 MB."""


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
