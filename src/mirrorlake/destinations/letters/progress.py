"""Letter progress: which source offsets of a copy that keeps them have a dead letter already. Keys and values. Pure.

All numbers are big-endian. A *text* is an unsigned 16-bit length and as many bytes of UTF-8, a *varint* an unsigned
number of 7 bits a byte, the lowest first, the highest bit set in all bytes but the last.

Topic ``mirrorlake.letter-progress.<mirror>``, the newest counts; compaction keeps it:

    key    "D", 1, text destination topic, text destination topic id, text source cluster id, text source topic, text
           source topic id, int32 partition
    value  int8 version 1, text topic, int32 partition and int64 offset of the first letter of the record's transaction,
           varint number of ranges of source offsets, then of each, ascending: varint offsets since the end of the one
           before (0 for the first), varint length

A record names what its transaction has written letters for, and of what the record before named whatever may still be
asked for. Nothing is known of the same topics under other ids.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from mirrorlake.destinations.transactions.own_bytes import TEXT_LENGTH, number_at, put_number, text_bytes
from mirrorlake.errors import DestinationForeignError
from mirrorlake.offsets import OffsetRange, TopicPartition

FORMAT = 1

_KEY = b"D" + bytes((FORMAT,))
_PARTITION = struct.Struct(">i")
_LETTER = struct.Struct(">iq")

Offsets = npt.NDArray[np.int64]
"""Source offsets, ascending and each once."""

NO_OFFSETS: Offsets = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class LetterKey:
    """Whose letter progress: a source partition and its copy, both as they were made."""

    destination_topic: str
    destination_topic_id: str
    source_cluster_id: str
    source_topic: str
    source_topic_id: str
    partition: int

    @property
    def source(self) -> TopicPartition:
        """The source partition."""
        return TopicPartition(self.source_topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lettered:
    """Source offsets that have a dead letter, and where the first letter lies of the transaction that said so."""

    offsets: Offsets
    first_letter: TopicPartition
    letter_offset: int

    @property
    def first_at(self) -> tuple[TopicPartition, int]:
        """Partition and offset of that letter."""
        return self.first_letter, self.letter_offset


def encode_key(key: LetterKey) -> bytes:
    """Returns the key of a record."""
    texts = (
        key.destination_topic,
        key.destination_topic_id,
        key.source_cluster_id,
        key.source_topic,
        key.source_topic_id,
    )
    return _KEY + b"".join(map(text_bytes, texts)) + _PARTITION.pack(key.partition)


def decode_key(data: bytes) -> LetterKey:
    """Returns what ``encode_key`` wrote.

    Raises:
        DestinationForeignError: it is no key this version understands.
    """
    if data[:2] != _KEY:
        raise _foreign(f"a key that begins with {data[:2]!r}")
    at, texts = 2, []
    try:
        for _ in range(5):
            text, at = _text_at(data, at)
            texts.append(text)
        (partition,) = _PARTITION.unpack_from(data, at)
    except (struct.error, UnicodeDecodeError) as error:
        raise _foreign(str(error)) from error
    if at + _PARTITION.size != len(data):
        raise _foreign(f"a key of {len(data)} bytes")
    topic, topic_id, cluster_id, source_topic, source_topic_id = texts
    return LetterKey(
        destination_topic=topic,
        destination_topic_id=topic_id,
        source_cluster_id=cluster_id,
        source_topic=source_topic,
        source_topic_id=source_topic_id,
        partition=partition,
    )


def encode_lettered(lettered: Lettered) -> bytes:
    """Returns the value of a record."""
    first = lettered.first_letter
    encoded = bytearray((FORMAT,))
    encoded += text_bytes(first.topic) + _LETTER.pack(first.partition, lettered.letter_offset)
    ranges = ranges_of(lettered.offsets)
    put_number(encoded, len(ranges))
    end = 0
    for each in ranges:
        put_number(encoded, each.start_offset - end)
        put_number(encoded, len(each))
        end = each.end_offset
    return bytes(encoded)


def decode_lettered(data: bytes) -> Lettered:
    """Returns what ``encode_lettered`` wrote.

    Raises:
        DestinationForeignError: it is no value this version understands.
    """
    if data[:1] != bytes((FORMAT,)):
        raise _foreign(f"format {data[0] if data else 'none'}, this version knows {FORMAT}")
    numbers = []
    try:
        topic, at = _text_at(data, 1)
        partition, letter_offset = _LETTER.unpack_from(data, at)
        at += _LETTER.size
        while at < len(data):
            number, at = number_at(data, at)
            numbers.append(number)
    except (struct.error, ValueError) as error:
        raise _foreign(f"{len(data)} bytes: {error}") from error
    if not numbers or len(numbers) != 1 + 2 * numbers[0]:
        raise _foreign(f"{len(numbers)} numbers")
    parts, end = [], 0
    for skipped, length in zip(numbers[1::2], numbers[2::2], strict=True):
        parts.append(np.arange(end + skipped, end + skipped + length, dtype=np.int64))
        end += skipped + length
    return Lettered(
        offsets=np.concatenate([NO_OFFSETS, *parts]),
        first_letter=TopicPartition(topic, partition),
        letter_offset=letter_offset,
    )


def ranges_of(offsets: Offsets) -> Sequence[OffsetRange]:
    """Returns ascending offsets as ranges, as few as there can be."""
    breaks = [0, *(np.flatnonzero(np.diff(offsets) > 1) + 1).tolist(), len(offsets)]
    return [
        OffsetRange(start_offset=int(offsets[start]), end_offset=int(offsets[stop - 1]) + 1)
        for start, stop in pairwise(breaks)
        if start < stop
    ]


def joined(parts: Iterable[Offsets], *, start: int = 0) -> Offsets:
    """Returns the offsets of all parts from ``start`` on."""
    offsets: Offsets = np.unique(np.concatenate([NO_OFFSETS, *parts]))
    return offsets[int(np.searchsorted(offsets, start)) :]


def within(offsets: Offsets, start: int, end: int) -> Offsets:
    """Returns those of some offsets that lie in ``[start, end)``."""
    first, stop = np.searchsorted(offsets, [start, end]).tolist()
    return offsets[first:stop]


def _text_at(data: bytes, at: int) -> tuple[str, int]:
    (length,) = TEXT_LENGTH.unpack_from(data, at)
    at += TEXT_LENGTH.size
    if at + length > len(data):
        raise struct.error("it ends within a text")
    return data[at : at + length].decode(), at + length


def _foreign(why: str) -> DestinationForeignError:
    return DestinationForeignError(
        f"a topic of letter progress holds a record that is not this version's: {why}",
        hint="let no other producer write to mirrorlake.letter-progress.*; a newer mirrorlake's records need that "
        "version, or a mirror of another name",
    )
