"""What a driver and a lease that runs say to each other: one value in a file, replaced as a whole each time."""

import contextlib
import pickle
from pathlib import Path


def write_message(file: str, value: object) -> bool:
    """Puts a value in the place of what the file held, and returns whether it could be written.

    Whoever reads meanwhile has the one or the other whole.
    """
    hidden = Path(hidden_file_of(file))
    try:
        hidden.write_bytes(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))
        hidden.replace(file)
    except OSError:
        return False
    return True


def hidden_file_of(file: str) -> str:
    """Returns where a value is written before it takes its place; a full disk leaves a part of one there."""
    return f"{file}.new"


def read_message(file: str) -> object:
    """Returns the value in a file; None where there is none, or it cannot be understood."""
    try:
        with open(file, "rb") as found:  # noqa: PTH123 - some times a second for each lane, and mostly there is none
            content = found.read()
    except OSError:
        return None
    # A damaged file raises anything, and costs what it would have said, not the lease or the run that reads it.
    with contextlib.suppress(Exception):
        return pickle.loads(content)
    return None
