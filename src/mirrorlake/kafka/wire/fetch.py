"""Fetch version 11: the request and the answer, without a fetch session; `fetch_by_id` has a later one.

Source: ``FetchRequest.json`` and ``FetchResponse.json`` of Apache Kafka 4.3.0. Version 11 is the last one
before compact encodings; it knows zstd (since 10), names topics, and every broker since 2.3 speaks it.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from mirrorlake.errors import CorruptBatchError
from mirrorlake.kafka.wire.error_codes import error_for

READ_UNCOMMITTED = 0
READ_COMMITTED = 1

FETCH_BYTES_MAX = 8 << 20
"""Bytes asked for in one answer. Half as many cost a tenth more CPU, twice as many gain nothing (decision 0117)."""

_REQUEST = struct.Struct(">iiiibiii")
_REQUEST_PARTITION = struct.Struct(">iiqqi")
_NO_FORGOTTEN_TOPICS_NO_RACK = b"\0\0\0\0\0\0"
_ANSWER = struct.Struct(">ihii")
_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")
_PARTITION = struct.Struct(">ihqqqiii")
_ABORTED_FROM = 34
_ABORTED = struct.Struct(">qq")
_REPLICA_AND_SIZE = struct.Struct(">ii")
_NO_RECORDS = memoryview(b"")


class FetchPartition(NamedTuple):
    """What to fetch of one partition.

    Attributes:
        topic: its topic.
        partition: its number.
        fetch_offset: first offset wanted; the answer begins with the batch that holds it, which may begin
            earlier.
        partition_bytes_max: limit; the answer's first batch comes whole however large.
        leader_epoch: the epoch the broker must lead in, or -1 to take any.
    """

    topic: str
    partition: int
    fetch_offset: int
    partition_bytes_max: int
    leader_epoch: int = -1


class AbortedTransaction(NamedTuple):
    """An aborted transaction with data in or after the fetched range.

    Attributes:
        producer_id: whose.
        first_offset: of its first record.
    """

    producer_id: int
    first_offset: int


class FetchedPartition(NamedTuple):
    """One partition of an answer.

    Attributes:
        topic: its topic.
        partition: its number.
        error_code: 0 for none; with any other value the rest means nothing.
        high_watermark: exclusive end of what is replicated.
        last_stable_offset: exclusive end of what is decided (committed or aborted); -1 where the broker does
            not say.
        log_start_offset: first offset that is still there, inclusive.
        aborted: the transactions whose batches up to their abort marker must be ignored.
        records: whole batches, then perhaps a cut one; a part of the frame, valid until that is released.
    """

    topic: str
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[AbortedTransaction, ...]
    records: memoryview


def encode_fetch(
    partitions: Sequence[FetchPartition],
    *,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    isolation_level: int = READ_COMMITTED,
) -> bytes:
    """Returns the body of a request.

    The broker serves the partitions in the order given, and with a small ``max_bytes`` the first may get it
    all: rotate.

    Args:
        partitions: what to fetch; no partition twice.
        max_wait_ms: how long the broker may wait for ``min_bytes``. Nothing behind it on the connection is
            answered then.
        min_bytes: 1 to answer as soon as there is anything.
        max_bytes: limit of the whole answer, passed over by a first batch that is larger.
        isolation_level: `READ_COMMITTED` or `READ_UNCOMMITTED`.
    """
    pieces: list[bytes] = []
    runs = 0
    at = 0
    pack = _REQUEST_PARTITION.pack
    while at < len(partitions):
        topic = partitions[at].topic
        stop = at
        rows: list[bytes] = []
        while stop < len(partitions) and partitions[stop].topic == topic:
            asked = partitions[stop]
            rows.append(pack(asked.partition, asked.leader_epoch, asked.fetch_offset, -1, asked.partition_bytes_max))
            stop += 1
        name = topic.encode()
        pieces += (_SHORT.pack(len(name)), name, _INT.pack(len(rows)), *rows)
        runs += 1
        at = stop
    head = _REQUEST.pack(-1, max_wait_ms, min_bytes, max_bytes, isolation_level, 0, -1, runs)
    return b"".join((head, *pieces, _NO_FORGOTTEN_TOPICS_NO_RACK))


def decode_fetch(view: memoryview) -> list[FetchedPartition]:
    """Returns the partitions of an answer, in the broker's order.

    Args:
        view: the answer's body. The records of the result are parts of it.

    Raises:
        CorruptBatchError: not such an answer. Nothing outside ``view`` is ever read.
        MirrorlakeError: the broker refused the whole request.
    """
    try:
        return _decode(view)
    except (struct.error, UnicodeDecodeError) as error:
        raise not_understood(str(error)) from error


def _decode(view: memoryview) -> list[FetchedPartition]:
    _, error_code, _, topics = _ANSWER.unpack_from(view)
    if error_code:
        raise error_for(error_code, what="Fetch")
    at = _ANSWER.size
    fetched: list[FetchedPartition] = []
    for _ in range(_count(topics, 6, at, view)):
        (length,) = _SHORT.unpack_from(view, at)
        at += 2
        name_end = _end(at, length, view)
        topic = str(view[at:name_end], "utf-8")
        (partitions,) = _INT.unpack_from(view, name_end)
        at = name_end + 4
        for _ in range(_count(partitions, _PARTITION.size, at, view)):
            # Without aborted transactions (0, or -1 for null) the replica and the size of the records follow.
            number, code, high_watermark, last_stable, log_start, transactions, _, size = _PARTITION.unpack_from(
                view, at
            )
            aborted: tuple[AbortedTransaction, ...] = ()
            if transactions > 0:
                at += _ABORTED_FROM
                stop = at + _count(transactions, _ABORTED.size, at, view) * _ABORTED.size
                aborted = tuple(map(AbortedTransaction._make, _ABORTED.iter_unpack(view[at:stop])))
                _, size = _REPLICA_AND_SIZE.unpack_from(view, stop)
                at = stop + _REPLICA_AND_SIZE.size
            else:
                at += _PARTITION.size
            records = _NO_RECORDS
            if size > 0:
                records = view[at : _end(at, size, view)]
                at += size
            fetched.append(
                FetchedPartition(topic, number, code, high_watermark, last_stable, log_start, aborted, records)
            )
    if at != len(view):
        raise not_understood(f"{len(view) - at} bytes follow its end")
    return fetched


def _count(count: int, row_bytes_min: int, at: int, view: memoryview) -> int:
    # Checked before looping: a flipped bit must not make two thousand million rounds, nor memory for them.
    if not 0 <= count * row_bytes_min <= len(view) - at:
        raise not_understood(f"{count} entries cannot be in {len(view) - at} bytes")
    return count


def _end(at: int, length: int, view: memoryview) -> int:
    if not 0 <= length <= len(view) - at:
        raise not_understood(f"{length} bytes announced, {len(view) - at} there")
    return at + length


def not_understood(why: str) -> CorruptBatchError:
    """Returns the error for an answer that is none."""
    return CorruptBatchError(f"an answer to Fetch could not be understood: {why}", hint="nothing of it was used")
