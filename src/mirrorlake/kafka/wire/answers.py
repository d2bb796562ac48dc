"""What reading answers by hand shares: how wrong bytes are told, and answers by topic from before compact encodings.

Who reads an answer turns `struct.error`, `IndexError` and `UnicodeDecodeError` into `not_understood`: all say that the
bytes are not such an answer. Nothing outside of the view is ever read.
"""

import struct
from collections.abc import Iterator
from typing import Any

from mirrorlake.errors import CorruptBatchError

_HEAD = struct.Struct(">ii")
"""How long the broker holds the client back, and how many topics follow."""

_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")
_TOPIC_BYTES_MIN = _SHORT.size + _INT.size


class MalformedError(struct.error):
    """Bytes are not what they should be; as ``struct`` raises where there are too few."""


def not_understood(api: str, why: Exception | str) -> CorruptBatchError:
    """Returns the error for an answer that is none."""
    return CorruptBatchError(f"an answer to {api} could not be understood: {why}", hint="nothing of it was used")


def check_count(count: int, row_bytes_min: int, there: int, *, count_min: int = 0) -> None:
    """Checks that so many rows can be in the bytes that are there, as counts are believed before rows are read.

    A flipped bit must not make two thousand million rounds, nor memory for them.

    Raises:
        MalformedError: they cannot.
    """
    if count < count_min or count * row_bytes_min > there:
        raise MalformedError(f"{count} entries cannot be in {there} bytes")


def check_end(view: memoryview | bytes, at: int) -> None:
    """Checks that an answer ends there.

    Raises:
        MalformedError: something follows.
    """
    if at != len(view):
        raise MalformedError(f"{len(view) - at} bytes follow its end")


def rows_by_topic(view: memoryview, row: struct.Struct) -> Iterator[tuple[str, Iterator[tuple[Any, ...]]]]:
    """Yields each topic of an answer, in the broker's order, with the rows of its partitions.

    Args:
        view: the answer: its head, topics by name, and of each the partitions, all of one length.
        row: of one partition.

    Raises:
        struct.error: it is another; also `MalformedError`, once all topics are taken.
        UnicodeDecodeError: a name is no UTF-8.
    """
    _, topics = _HEAD.unpack_from(view)
    at = _HEAD.size
    check_count(topics, _TOPIC_BYTES_MIN, len(view) - at)
    for _ in range(topics):
        (length,) = _SHORT.unpack_from(view, at)
        name_end = at + _SHORT.size + length
        if length < 0 or name_end > len(view):
            raise MalformedError(f"a name of {length} bytes announced, {len(view) - at} there")
        topic = str(view[at + _SHORT.size : name_end], "utf-8")
        (partitions,) = _INT.unpack_from(view, name_end)
        at = name_end + _INT.size
        check_count(partitions, row.size, len(view) - at)
        end = at + partitions * row.size
        yield topic, row.iter_unpack(view[at:end])
        at = end
    check_end(view, at)
