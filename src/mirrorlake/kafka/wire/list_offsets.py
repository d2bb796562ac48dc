"""ListOffsets version 5, written out: it is asked of every partition once or twice a second.

Version 5 is the last one before compact encodings, and every broker since 2.2 speaks it. Later ones add questions
(the newest time, the start of the local log), which kafka-python's own classes ask.

Source: ``ListOffsetsRequest.json`` and ``ListOffsetsResponse.json`` of Apache Kafka 4.3.0.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from mirrorlake.errors import CorruptBatchError

LIST_OFFSETS_VERSION = 5

_CONSUMER = -1
_REQUEST = struct.Struct(">ibi")
_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")
_REQUEST_PARTITION = struct.Struct(">iiq")
_ANSWER = struct.Struct(">ii")
_PARTITION = struct.Struct(">ihqqi")
_TOPIC_BYTES_MIN = 6


class ListedOffset(NamedTuple):
    """What an answer says of one partition.

    Attributes:
        topic: its topic.
        partition: its number.
        error_code: 0 for none; with any other the offset means nothing.
        offset: what was asked for, -1 where there is none.
    """

    topic: str
    partition: int
    error_code: int
    offset: int


def encode_list_offsets(
    topics: Mapping[str, Sequence[tuple[int, int]]], *, timestamp: int, isolation_level: int
) -> bytes:
    """Returns the body of a request.

    Args:
        topics: by name, the number of each partition and the epoch its leader leads in.
        timestamp: Unix milliseconds, -1 for the end, -2 for the start.
        isolation_level: of the end.
    """
    pieces = [_REQUEST.pack(_CONSUMER, isolation_level, len(topics))]
    pack = _REQUEST_PARTITION.pack
    for topic, partitions in topics.items():
        name = topic.encode()
        pieces += (_SHORT.pack(len(name)), name, _INT.pack(len(partitions)))
        pieces += [pack(number, epoch, timestamp) for number, epoch in partitions]
    return b"".join(pieces)


def decode_list_offsets(view: memoryview) -> list[ListedOffset]:
    """Returns the partitions of an answer, in the broker's order.

    Raises:
        CorruptBatchError: not such an answer.
    """
    try:
        return list(_partitions(view))
    except (struct.error, UnicodeDecodeError) as error:
        raise _not_understood(str(error)) from error


def _partitions(view: memoryview) -> Iterator[ListedOffset]:
    _, topics = _ANSWER.unpack_from(view)
    at = _ANSWER.size
    _check_count(topics, _TOPIC_BYTES_MIN, len(view) - at)
    for _ in range(topics):
        (length,) = _SHORT.unpack_from(view, at)
        name_end = at + _SHORT.size + length
        if length < 0 or name_end > len(view):
            raise _not_understood(f"a name of {length} bytes announced, {len(view) - at} there")
        topic = str(view[at + _SHORT.size : name_end], "utf-8")
        (partitions,) = _INT.unpack_from(view, name_end)
        at = name_end + _INT.size
        _check_count(partitions, _PARTITION.size, len(view) - at)
        end = at + partitions * _PARTITION.size
        for number, error_code, _, offset, _ in _PARTITION.iter_unpack(view[at:end]):
            yield ListedOffset(topic, number, error_code, offset)
        at = end
    if at != len(view):
        raise _not_understood(f"{len(view) - at} bytes follow its end")


def _check_count(count: int, row_bytes_min: int, there: int) -> None:
    # Checked before looping: a flipped bit must not make two thousand million rounds.
    if not 0 <= count * row_bytes_min <= there:
        raise _not_understood(f"{count} entries cannot be in {there} bytes")


def _not_understood(why: str) -> CorruptBatchError:
    return CorruptBatchError(f"an answer to ListOffsets could not be understood: {why}", hint="nothing of it was used")
