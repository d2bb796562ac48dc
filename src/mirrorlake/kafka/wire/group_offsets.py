"""OffsetFetch version 8 and OffsetCommit version 7, written out: a thousand groups have fifty thousand offsets.

OffsetFetch 8 is the first that takes many groups (KIP-709); brokers know it since Kafka 3.0. OffsetCommit 7 is the last
before compact encodings, and known since Kafka 2.3. What the versions after them add is for members of groups.

Sources: ``OffsetFetchRequest.json``, ``OffsetFetchResponse.json``, ``OffsetCommitRequest.json`` and
``OffsetCommitResponse.json`` of Apache Kafka 4.3.0.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from mirrorlake.kafka.wire.answers import check_end, not_understood, rows_by_topic
from mirrorlake.kafka.wire.compact import (
    NO_TAGS,
    after_tags,
    compact_text,
    count_at,
    number_at,
    text_at,
    varint,
)

OFFSET_FETCH_VERSION = 8
OFFSET_COMMIT_VERSION = 7

_ALL_PARTITIONS = b"\0"
_THROTTLE_BYTES = 4
_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")
_FETCHED = struct.Struct(">iqiBhB")
"""A partition without metadata: its number, offset, leader epoch, an empty text or none, the error code, no tags."""
_FETCHED_HEAD = struct.Struct(">iqi")
_LONG = 0x80
"""From which on a compact number takes more than one byte."""
_GROUP_BYTES_MIN = _TOPIC_BYTES_MIN = 3

_TEXT_BYTES_MAX = 0x7FFF
_NO_TEXT = _SHORT.pack(-1)
_NO_GENERATION = _INT.pack(-1)
_NO_MEMBER = _SHORT.pack(0)
_COMMITTED = struct.Struct(">iqih")
_REFUSED = struct.Struct(">ih")


FetchedOffset = tuple[int, int, int, int, str]
"""What an answer says of one partition of a topic: its number; the error code, 0 for none, with any other of which the
rest means nothing; the offset committed, -1 for nothing; the leader epoch of the last record that was read, -1 where it
is not known; and a text of the group's own, empty for none. A bare tuple, as one is made for each offset there is, and
taken apart at once."""


class FetchedGroup(NamedTuple):
    """What an answer says of one group.

    Attributes:
        group: its name.
        error_code: 0 for none; with any other the rest means nothing.
        topics: by name, in the broker's order.
    """

    group: str
    error_code: int
    topics: list[tuple[str, list[FetchedOffset]]]


OffsetToCommit = tuple[int, int, int, str]
"""An offset of one partition, as a request has it: the partition's number, the offset, the leader epoch, a text."""

CommitAnswer = tuple[str, int, int]
"""What an answer says of one partition: its topic, its number, and a code; 0 is committed."""


def encode_offset_fetch(groups: Mapping[str, Mapping[str, Sequence[int]] | None], *, is_stable: bool) -> bytes:
    """Returns the body of a request.

    Args:
        groups: by name, the numbers of the partitions of each topic; None for all that the group has offsets of.
        is_stable: whether an offset counts only where no transaction is to commit another (KIP-447).
    """
    pieces = [varint(len(groups) + 1)]
    names: dict[str, bytes] = {}
    for group, topics in groups.items():
        pieces.append(compact_text(group))
        if topics is None:
            pieces += (_ALL_PARTITIONS, NO_TAGS)
            continue
        pieces.append(varint(len(topics) + 1))
        for topic, numbers in topics.items():
            name = names.get(topic)
            if name is None:
                name = names[topic] = compact_text(topic)
            pieces += (name, varint(len(numbers) + 1), struct.pack(f">{len(numbers)}i", *numbers), NO_TAGS)
        pieces.append(NO_TAGS)
    pieces += (b"\1" if is_stable else b"\0", NO_TAGS)
    return b"".join(pieces)


def decode_offset_fetch(view: memoryview) -> list[FetchedGroup]:
    """Returns the groups of an answer, in the broker's order.

    Raises:
        CorruptBatchError: not such an answer.
    """
    try:
        return list(_groups(view))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise not_understood("OffsetFetch", error) from error


def _groups(view: memoryview) -> Iterator[FetchedGroup]:
    names: dict[bytes, str] = {}
    # Slices of bytes are bytes: texts that are known are found by them.
    data = bytes(view)
    groups, at = count_at(view, _THROTTLE_BYTES, _GROUP_BYTES_MIN)
    for _ in range(groups):
        group, at = text_at(view, at)
        held: list[tuple[str, list[FetchedOffset]]] = []
        topics, at = count_at(view, at, _TOPIC_BYTES_MIN)
        for _ in range(topics):
            if (plain := _plain_topic(data, at, names)) is None:
                topic, at = _name_at(view, at, names)
                partitions, at = count_at(view, at, _FETCHED.size)
                offsets, at = _partitions(view, at, partitions)
                at = after_tags(view, at)
            else:
                topic, offsets, at = plain
            held.append((topic, offsets))
        (code,) = _SHORT.unpack_from(view, at)
        at = after_tags(view, at + _SHORT.size)
        yield FetchedGroup(group or "", code, held)
    check_end(view, after_tags(view, at))


def _plain_topic(data: bytes, at: int, names: dict[bytes, str]) -> tuple[str, list[FetchedOffset], int] | None:
    """Returns a topic with its offsets, and where it ends; None where that has to be read piece by piece.

    That is a topic whose name came before, with fewer than 127 partitions, none of them with metadata or tags: nearly
    all of them. This runs for each topic of each group, and calls nothing of Python's own.
    """
    size = data[at]
    start = at + size
    if not 1 < size < _LONG or (topic := names.get(data[at + 1 : start])) is None:
        return None
    count = data[start]
    end = start + 1 + (count - 1) * _FETCHED.size
    if not 1 < count < _LONG or end >= len(data) or data[end]:
        return None
    offsets: list[FetchedOffset] = []
    for number, offset, epoch, metadata_size, code, tags in _FETCHED.iter_unpack(data[start + 1 : end]):
        if metadata_size > 1 or tags:
            return None
        offsets.append((number, code, offset, epoch, ""))
    return topic, offsets, end + 1


def _name_at(view: memoryview, at: int, names: dict[bytes, str]) -> tuple[str, int]:
    """Returns a topic's name, the same object for the same name, and where it ends."""
    size, start = number_at(view, at)
    end = start + max(0, size - 1)
    written = bytes(view[start:end])
    if (known := names.get(written)) is not None:
        return known, end
    name, end = text_at(view, at)
    names[written] = name = name or ""
    return name, end


def _partitions(view: memoryview, at: int, count: int) -> tuple[list[FetchedOffset], int]:
    """Returns so many partitions of a topic, and where they end."""
    offsets: list[FetchedOffset] = []
    for _ in range(count):
        number, offset, epoch = _FETCHED_HEAD.unpack_from(view, at)
        metadata, at = text_at(view, at + _FETCHED_HEAD.size)
        (code,) = _SHORT.unpack_from(view, at)
        at = after_tags(view, at + _SHORT.size)
        offsets.append((number, code, offset, epoch, metadata or ""))
    return offsets, at


def fits_offset_commit(group: str, offsets: Mapping[str, Sequence[OffsetToCommit]]) -> bool:
    """Tells whether the texts of a commit fit this version, in which none is longer than 32 767 bytes."""
    texts = [group, *offsets, *{text for held in offsets.values() for *_, text in held}]
    return all(len(text) <= _TEXT_BYTES_MAX // 4 or len(text.encode()) <= _TEXT_BYTES_MAX for text in texts)


def encode_offset_commit(group: str, offsets: Mapping[str, Sequence[OffsetToCommit]]) -> bytes:
    """Returns the body of a request of somebody who is no member of the group.

    Args:
        group: its name.
        offsets: by topic.
    """
    pieces = [_text(group), _NO_GENERATION, _NO_MEMBER, _NO_TEXT, _INT.pack(len(offsets))]
    pack = _COMMITTED.pack
    for topic, held in offsets.items():
        pieces += (_text(topic), _INT.pack(len(held)))
        for number, offset, epoch, metadata in held:
            text = metadata.encode()
            pieces += (pack(number, offset, epoch, len(text)), text)
    return b"".join(pieces)


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _SHORT.pack(len(encoded)) + encoded


def is_all_committed(view: memoryview, topics: Mapping[str, Sequence[OffsetToCommit]]) -> bool:
    """Tells whether an answer says of exactly what was asked, in its order, that it is committed."""
    pieces = [_INT.pack(len(topics))]
    pack = _REFUSED.pack
    for topic, held in topics.items():
        pieces += (_text(topic), _INT.pack(len(held)))
        pieces += [pack(number, 0) for number, *_ in held]
    return view[_THROTTLE_BYTES:] == b"".join(pieces)


def decode_offset_commit(view: memoryview) -> list[CommitAnswer]:
    """Returns the partitions of an answer, in the broker's order.

    Raises:
        CorruptBatchError: not such an answer.
    """
    try:
        return [(topic, number, code) for topic, rows in rows_by_topic(view, _REFUSED) for number, code in rows]
    except (struct.error, UnicodeDecodeError) as error:
        raise not_understood("OffsetCommit", error) from error
