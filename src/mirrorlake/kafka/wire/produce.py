"""Produce version 8: the request around batches that are not copied, and the answer.

Source: ``ProduceRequest.json`` and ``ProduceResponse.json`` of Apache Kafka 4.3.0. Version 8 is the last one
before compact encodings; it knows zstd (since 7) and says which records were refused.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from mirrorlake.errors import CorruptBatchError

_ACKS_ALL: Final = -1
"""Never anything else: with fewer, a record that was answered for can vanish, and with none no answer
comes."""
_RECORD_ERRORS_SHOWN = 3

_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")
_TWO_INTS = struct.Struct(">ii")
_ACKS_TIMEOUT_TOPICS = struct.Struct(">hii")
_PARTITION = struct.Struct(">ihqqqi")

Batch = tuple[str, int, bytes | bytearray | memoryview]
"""Topic, partition, and one whole record batch."""


class ProducedPartition(NamedTuple):
    """What became of one batch.

    Attributes:
        topic: its topic.
        partition: its number.
        error_code: 0 for none.
        base_offset: offset of the batch's first record, also where the batch was known already; -1 with an
            error.
        log_append_time_ms: the broker's clock where the topic stamps records with it, else -1.
        log_start_offset: first offset of the partition, inclusive; -1 with an error.
        error_message: the broker's words about the batch and its first refused records; None where it has
            none.
    """

    topic: str
    partition: int
    error_code: int
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    error_message: str | None


def encode_produce(
    batches: Sequence[Batch], *, timeout_ms: int, transactional_id: str | None = None
) -> list[bytes | bytearray | memoryview]:
    """Returns the body of a request in pieces; the batches are among them as they are.

    Args:
        batches: one batch each of different partitions; the order inside the request means nothing to the
            broker.
        timeout_ms: how long the broker may wait for the replicas (it answers REQUEST_TIMED_OUT then: appended
            all the same).
        transactional_id: of the transaction all batches belong to; None for batches outside of one.

    Raises:
        AssertionError: a partition comes twice. The broker would keep the later batch and lose the earlier
            one in silence, so this check is not an ``assert`` that an option switches off.
    """
    by_topic: dict[str, dict[int, bytes | bytearray | memoryview]] = {}
    for topic, partition, batch in batches:
        of_topic = by_topic.setdefault(topic, {})
        if partition in of_topic:
            raise AssertionError(f"partition {topic}-{partition} twice in one Produce request")
        of_topic[partition] = batch
    parts: list[bytes | bytearray | memoryview] = []
    between = _string(transactional_id) + _ACKS_TIMEOUT_TOPICS.pack(_ACKS_ALL, timeout_ms, len(by_topic))
    for topic, of_topic in by_topic.items():
        between += _string(topic) + _INT.pack(len(of_topic))
        for partition, batch in of_topic.items():
            parts += (between + _TWO_INTS.pack(partition, len(batch)), batch)
            between = b""
    if between:
        parts.append(between)
    return parts


def answer_bytes_min(topics: Sequence[str]) -> int:
    """Returns the fewest bytes of an answer that leaves no batch out, its size included: one without an error.

    Args:
        topics: of each batch of the request.
    """
    return 16 + sum([6 + len(topic) for topic in {*topics}]) + (_PARTITION.size + 2) * len(topics)


def decode_produce(view: memoryview) -> list[ProducedPartition]:
    """Returns what became of each batch.

    Raises:
        CorruptBatchError: not such an answer. Nothing outside ``view`` is ever read.
    """
    try:
        return _decode(view)
    except (struct.error, UnicodeDecodeError) as error:
        raise _not_understood(str(error)) from error


def _decode(view: memoryview) -> list[ProducedPartition]:
    produced: list[ProducedPartition] = []
    topics, at = _count(view, 0, 6)
    for _ in range(topics):
        name, at = _read_string(view, at)
        if name is None:
            raise _not_understood("a topic has no name")
        partitions, at = _count(view, at, _PARTITION.size + 2)
        for _ in range(partitions):
            number, code, base_offset, append_time, log_start, refused = _PARTITION.unpack_from(view, at)
            at += _PARTITION.size
            message: str | None = None
            if refused == 0 and code == 0 and _SHORT.unpack_from(view, at) == (-1,):
                at += 2
            else:
                message, at = _read_messages(view, at, refused)
            produced.append(ProducedPartition(name, number, code, base_offset, append_time, log_start, message))
    if at + 4 != len(view):  # throttle_time_ms ends the answer
        raise _not_understood(f"{len(view) - at - 4} bytes follow its end")
    return produced


def _read_messages(view: memoryview, at: int, refused: int) -> tuple[str | None, int]:
    if not 0 <= refused * 6 <= len(view) - at:
        raise _not_understood(f"{refused} refused records cannot be in {len(view) - at} bytes")
    said: list[str] = []
    for _ in range(refused):
        (index,) = _INT.unpack_from(view, at)
        message, at = _read_string(view, at + 4)
        if len(said) < _RECORD_ERRORS_SHOWN:
            said.append(f"record {index}: {message or 'refused'}")
    if refused > len(said):
        said.append(f"and {refused - len(said)} more records")
    message, at = _read_string(view, at)
    if message:
        said.insert(0, message)
    return "; ".join(said) or None, at


def _count(view: memoryview, at: int, row_bytes_min: int) -> tuple[int, int]:
    (count,) = _INT.unpack_from(view, at)
    at += 4
    # Checked before looping: a flipped bit must not make two thousand million rounds, nor memory for them.
    if not 0 <= count * row_bytes_min <= len(view) - at:
        raise _not_understood(f"{count} entries cannot be in {len(view) - at} bytes")
    return count, at


def _read_string(view: memoryview, at: int) -> tuple[str | None, int]:
    (length,) = _SHORT.unpack_from(view, at)
    at += 2
    if length == -1:
        return None, at
    if not 0 <= length <= len(view) - at:
        raise _not_understood(f"{length} bytes announced, {len(view) - at} there")
    return str(view[at : at + length], "utf-8"), at + length


def _string(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    encoded = text.encode()
    return _SHORT.pack(len(encoded)) + encoded


def _not_understood(why: str) -> CorruptBatchError:
    return CorruptBatchError(f"an answer to Produce could not be understood: {why}", hint="its outcome is unknown")
