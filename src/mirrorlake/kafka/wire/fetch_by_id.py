"""Fetch version 13: the same request and answer as in `kafka.wire.fetch`, with topics named by their ids.

A topic that was deleted and recreated has its old name, and may have the old leader epoch: a fetch by name goes on in
the new one as if nothing had happened. A fetch by id is refused (KIP-516). Brokers know it since Kafka 3.1.

Source: ``FetchRequest.json`` and ``FetchResponse.json`` of Apache Kafka 4.3.0; compact encodings of KIP-482.
"""

import struct
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from mirrorlake.kafka.wire.compact import NO_TAGS, after_tags, count_at, number_at, varint
from mirrorlake.kafka.wire.error_codes import error_for
from mirrorlake.kafka.wire.fetch import (
    READ_COMMITTED,
    AbortedTransaction,
    FetchedPartition,
    FetchPartition,
    not_understood,
)

FETCH_BY_ID_VERSION = 13

_REQUEST = struct.Struct(">iiiibii")
_REQUEST_PARTITION = struct.Struct(">iiqiqi")
_FORGOTTEN_PARTITION = struct.Struct(">i")
_NO_RACK = b"\1\0"
_ANSWER = struct.Struct(">ihi")
_PARTITION = struct.Struct(">ihqqqB")
_NOTHING_ABORTED = 1
"""How an empty list is written; 0 is none at all."""
_ABORTED = struct.Struct(">qq")
_REPLICA_BYTES = 4
_ID_BYTES = 16
_NO_RECORDS = memoryview(b"")

NO_SESSION_ID = 0
OPENING_EPOCH = 0
FINAL_EPOCH = -1


class SessionStep(NamedTuple):
    """What a request means in an incremental fetch session (KIP-227).

    With `OPENING_EPOCH` the broker is asked for a session of the request's partitions, with `FINAL_EPOCH` for none; in
    both cases the session of ``session_id`` ends. With any other epoch the request only says what changes in that
    session.

    Attributes:
        session_id: of a session there is, `NO_SESSION_ID` for none.
        epoch: how many requests the session has seen, from 1 on.
    """

    session_id: int = NO_SESSION_ID
    epoch: int = FINAL_EPOCH


NO_SESSION = SessionStep()
"""Each request by itself."""


class AnswerHead(NamedTuple):
    """What an answer says of the whole request.

    Attributes:
        error_code: 0 for none; with any other nothing was fetched.
        session_id: of the session the request was in, or has opened; `NO_SESSION_ID` where there is none.
    """

    error_code: int
    session_id: int


def encode_fetch_by_id(
    partitions: Sequence[FetchPartition],
    ids: Mapping[str, bytes],
    *,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    isolation_level: int = READ_COMMITTED,
    session: SessionStep = NO_SESSION,
    forgotten: Sequence[tuple[str, int]] = (),
) -> bytes:
    """Returns the body of a request; see `encode_fetch`.

    Args:
        partitions: what to fetch; no partition twice.
        ids: 16 bytes for each topic among them, and among the forgotten.
        max_wait_ms: see `encode_fetch`; so are the others.
        min_bytes: 1 to answer as soon as there is anything.
        max_bytes: limit of the whole answer.
        isolation_level: `READ_COMMITTED` or `READ_UNCOMMITTED`.
        session: which session it is in.
        forgotten: partitions, by topic and number, that the session is to have no more.
    """
    pieces: list[bytes] = []
    runs = 0
    at = 0
    while at < len(partitions):
        topic, stop = partitions[at].topic, at
        rows: list[bytes] = []
        while stop < len(partitions) and partitions[stop].topic == topic:
            p = partitions[stop]
            row = _REQUEST_PARTITION.pack(p.partition, p.leader_epoch, p.fetch_offset, -1, -1, p.partition_bytes_max)
            rows += (row, NO_TAGS)
            stop += 1
        pieces += (ids[topic], varint(stop - at + 1), *rows, NO_TAGS)
        runs += 1
        at = stop
    head = _REQUEST.pack(-1, max_wait_ms, min_bytes, max_bytes, isolation_level, *session)
    return b"".join((head, varint(runs + 1), *pieces, _forgotten(forgotten, ids), _NO_RACK))


def _forgotten(partitions: Sequence[tuple[str, int]], ids: Mapping[str, bytes]) -> bytes:
    topics = [(topic, [number for _, number in held]) for topic, held in groupby(partitions, key=lambda each: each[0])]
    pieces = [varint(len(topics) + 1)]
    for topic, numbers in topics:
        pieces += (ids[topic], varint(len(numbers) + 1), *map(_FORGOTTEN_PARTITION.pack, numbers), NO_TAGS)
    return b"".join(pieces)


def decode_head(view: memoryview) -> AnswerHead:
    """Returns what an answer says of the whole request.

    Raises:
        CorruptBatchError: not such an answer.
    """
    try:
        _, error_code, session_id = _ANSWER.unpack_from(view)
    except struct.error as error:
        raise not_understood(str(error)) from error
    return AnswerHead(error_code, session_id)


def decode_fetch_by_id(view: memoryview, names: Mapping[bytes, str]) -> list[FetchedPartition]:
    """Returns the partitions of an answer, in the broker's order.

    Args:
        view: the answer's body. The records of the result are parts of it.
        names: of the topics that were asked for, by their ids.

    Raises:
        CorruptBatchError: not such an answer, or about another topic. Nothing outside ``view`` is ever read.
        MirrorlakeError: the broker refused the whole request.
    """
    try:
        return _decode(view, names)
    except (struct.error, IndexError) as error:
        raise not_understood(str(error)) from error


def _decode(view: memoryview, names: Mapping[bytes, str]) -> list[FetchedPartition]:
    _, error_code, _ = _ANSWER.unpack_from(view)
    if error_code:
        raise error_for(error_code, what="Fetch")
    fetched: list[FetchedPartition] = []
    topics, at = count_at(view, _ANSWER.size, _ID_BYTES + 2)
    for _ in range(topics):
        topic_id = bytes(view[at : at + _ID_BYTES])
        if topic_id not in names:
            raise not_understood(f"it is about a topic of id {topic_id.hex()}, which was not asked for")
        partitions, at = count_at(view, at + _ID_BYTES, _PARTITION.size)
        at = after_tags(view, _read_partitions(view, at, names[topic_id], partitions, fetched))
    at = after_tags(view, at)
    if at != len(view):
        raise not_understood(f"{len(view) - at} bytes follow its end")
    return fetched


def _read_partitions(view: memoryview, at: int, topic: str, count: int, fetched: list[FetchedPartition]) -> int:
    """Appends so many partitions of a topic; returns where they end. Written out: it runs for each partition there is.

    Mostly nothing was aborted, which is one byte, and no tags follow, which is another.
    """
    unpack, size_max = _PARTITION.unpack_from, len(view)
    for _ in range(count):
        number, code, high_watermark, last_stable, log_start, transactions = unpack(view, at)
        aborted: tuple[AbortedTransaction, ...] = ()
        at += _PARTITION.size
        if transactions > _NOTHING_ABORTED:
            aborted, at = _aborted_at(view, at - 1)
        size, at = number_at(view, at + _REPLICA_BYTES)
        records = _NO_RECORDS
        if size > 1:  # one more than the bytes there are; 0 is none at all
            end = at + size - 1
            if end > size_max:
                raise not_understood(f"{size - 1} bytes announced, {size_max - at} there")
            records, at = view[at:end], end
        at = after_tags(view, at) if view[at] else at + 1
        fetched.append(FetchedPartition(topic, number, code, high_watermark, last_stable, log_start, aborted, records))
    return at


def _aborted_at(view: memoryview, at: int) -> tuple[tuple[AbortedTransaction, ...], int]:
    found: list[AbortedTransaction] = []
    count, at = count_at(view, at, _ABORTED.size)
    for _ in range(count):
        found.append(AbortedTransaction._make(_ABORTED.unpack_from(view, at)))
        at = after_tags(view, at + _ABORTED.size)
    return tuple(found), at
