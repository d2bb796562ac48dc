"""ListOffsets version 5, written out: it is asked of every partition once or twice a second.

Version 5 is the last one before compact encodings, and every broker since 2.2 speaks it. Later ones add questions
(the newest time, the start of the local log), which kafka-python's own classes ask.

Source: ``ListOffsetsRequest.json`` and ``ListOffsetsResponse.json`` of Apache Kafka 4.3.0.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mirrorlake.kafka.wire.answers import not_understood, rows_by_topic

LIST_OFFSETS_VERSION = 5

_CONSUMER = -1
_REQUEST = struct.Struct(">ibi")
_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")
_REQUEST_PARTITION = struct.Struct(">iiq")
_PARTITION = struct.Struct(">ihqqi")


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
        return [
            ListedOffset(topic, number, error_code, offset)
            for topic, rows in rows_by_topic(view, _PARTITION)
            for number, error_code, _, offset, _ in rows
        ]
    except (struct.error, UnicodeDecodeError) as error:
        raise not_understood("ListOffsets", error) from error
