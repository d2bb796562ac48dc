"""How long a task of batch work may take before it is taken for one that hangs.

Nothing tells a task that hangs from one that is slow but that the slow one ends some time. So the bounds are those of
work that is far slower than any that is worth waiting for, and follow from how much there is to do.
"""

TASK_SECONDS = 3600.0
"""Of every task: to begin, to wait for stores and brokers that are away for a while, to end."""

BYTES_PER_SECOND_MIN = 1 << 20
"""Of files that are read, and of what becomes of them written and read back: 30 to 70 MB on one core are usual."""

RECORDS_PER_SECOND_MIN = 10.0
"""Of offsets whose records' sizes nobody knows: ten of a megabyte each are 10 MB."""


def seconds_for(*, size_bytes: int = 0, offsets: int = 0) -> float:
    """Returns how many seconds a task may take that is to read so many bytes of files, and so many offsets."""
    return TASK_SECONDS + size_bytes / BYTES_PER_SECOND_MIN + offsets / RECORDS_PER_SECOND_MIN
