"""Dead letters: records that name no schema, on their way to a topic of their own, with the reason in headers. Pure.

A letter is the record as the source has it, key, value, headers and time, and behind its headers those of
``LetterOrigin`` and the reason: text in UTF-8, under names like those of Kafka Connect's dead letter queues (KIP-298).
Where offsets are mapped they are written by the commit whose position passes them (``map.owned_shard``); where they are
kept, by a transaction before that, which says so (``preserve.letter_book``).
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mirrorlake.archive.formats.log_batches import made_of
from mirrorlake.destinations.filtering import gaps_at
from mirrorlake.destinations.interface import ClassifiedBatch
from mirrorlake.errors import RecordTooLargeError
from mirrorlake.kafka.records.batches import Codec, Path
from mirrorlake.kafka.records.codec import decode_batches, encode_batch
from mirrorlake.kafka.records.columns import RecordColumns, headers_column
from mirrorlake.kafka.records.old_formats import as_v2
from mirrorlake.kafka.schema_ids.id_map import SchemaIdMap
from mirrorlake.kafka.schema_ids.unreadable import Headers, Unreadable, dead_letters_of, headers_of
from mirrorlake.offsets import Gap, GapKind, OffsetRange, TopicPartition

DEAD_LETTERED_REASON = "dead-lettered"
"""For the counters: why a batch is passed over, or made anew."""

PREFIX = b"__mirrorlake.errors."
_CLUSTER, _TOPIC, _TOPIC_ID = PREFIX + b"cluster.id", PREFIX + b"topic", PREFIX + b"topic.id"
_PARTITION, _OFFSET = PREFIX + b"partition", PREFIX + b"offset"
_MIRROR, _DESTINATION = PREFIX + b"mirror", PREFIX + b"destination.topic"
_SIDE, _REASON = PREFIX + b"side", PREFIX + b"reason"

BATCH_BYTES_MAX = 512 << 10
"""Letters are written in batches of about so much; half of what a topic takes by default."""

_RECORD_BYTES = 64
"""What a record takes beside its bytes, at most, as it is encoded; a header takes ``columns.HEADER_BYTES``."""


class LetterOrigin(NamedTuple):
    """Whose a letter is: where its record lies, and on its way to which destination topic by which mirror."""

    cluster_id: str
    topic: str
    topic_id: str
    partition: int
    offset: int
    mirror: str
    destination_topic: str

    @classmethod
    def anywhere_in(
        cls, source: TopicPartition, *, cluster_id: str, topic_id: str, mirror: str, destination_topic: str
    ) -> "LetterOrigin":
        """Returns what all letters of a source partition have in common, with 0 for the offset."""
        return cls(cluster_id, source.topic, topic_id, source.partition, 0, mirror, destination_topic)

    @property
    def source(self) -> TopicPartition:
        """The source partition."""
        return TopicPartition(self.topic, self.partition)

    def headers(self, side: str, reason: str) -> Headers:
        """Returns the headers that a letter gets."""
        told = (
            (_CLUSTER, self.cluster_id),
            (_TOPIC, self.topic),
            (_TOPIC_ID, self.topic_id),
            (_PARTITION, str(self.partition)),
            (_OFFSET, str(self.offset)),
            (_MIRROR, self.mirror),
            (_DESTINATION, self.destination_topic),
            (_SIDE, side),
            (_REASON, reason),
        )
        return [(name, text.encode()) for name, text in told]


def origin_of(headers: Headers) -> LetterOrigin | None:
    """Returns whose letter it is by its headers; None where they are not those of a letter."""
    found = dict(headers)  # the last of each counts: a record may have been a letter before
    held = [found.get(name) for name in (_CLUSTER, _TOPIC, _TOPIC_ID, _PARTITION, _OFFSET, _MIRROR, _DESTINATION)]
    try:
        cluster, topic, topic_id, partition, offset, mirror, destination = [
            str(each, "utf-8") for each in held if each is not None
        ]
        return LetterOrigin(cluster, topic, topic_id, int(partition), int(offset), mirror, destination)
    except ValueError:  # one is missing, or is no text or no number
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Letters:
    """Letters of one source batch, at their source offsets, ascending; ``reasons`` as many, ``side:reason`` each."""

    records: RecordColumns
    reasons: tuple[str, ...]
    codec: Codec

    @property
    def size_bytes(self) -> int:
        """About what they take in memory."""
        return int(self.records.weights(record_bytes=_RECORD_BYTES).sum())

    @property
    def counts(self) -> Counter[str]:
        """How many there are by side and reason."""
        return Counter(self.reasons)

    def below(self, offset: int) -> "Letters":
        """Returns those below a source offset."""
        return self._rows(0, self._row_at(offset))

    def behind(self, offset: int) -> "Letters":
        """Returns those from a source offset on."""
        return self._rows(self._row_at(offset), len(self.records))

    def _row_at(self, offset: int) -> int:
        return int(np.searchsorted(self.records.offsets, offset))

    def _rows(self, start: int, stop: int) -> "Letters":
        return replace(self, records=self.records.slice(start, stop), reasons=self.reasons[start:stop])

    @classmethod
    def merged(cls, letters: Sequence["Letters"]) -> list["Letters"]:
        """Returns them in their order as few: those that follow one another with one codec are one."""
        return [
            cls(
                records=RecordColumns.concat([each.records for each in held]),
                reasons=tuple(reason for each in held for reason in each.reasons),
                codec=codec,
            )
            for codec, found in groupby(letters, key=lambda each: each.codec)
            if (held := list(found))
        ]

    def parts(self, batch_bytes_max: int) -> Iterator[RecordColumns]:
        """Yields them in parts of which each makes a batch, dense and none above ``batch_bytes_max``."""
        part_bytes_max = min(BATCH_BYTES_MAX, batch_bytes_max // 2)
        first, size = 0, 0
        for row, weight in enumerate(self.records.weights(record_bytes=_RECORD_BYTES).tolist()):
            if row > first and size + weight > part_bytes_max:
                yield self.records.slice(first, row).renumbered(0)
                first, size = row, 0
            size += weight
        if first < len(self.records):
            yield self.records.slice(first, len(self.records)).renumbered(0)

    def check_sizes(self, batch_bytes_max: int, *, topic: str) -> None:
        """Checks that each makes a batch the topic takes.

        Raises:
            RecordTooLargeError: one does not; with its source ``offset``, ``bytes`` and ``limit``, and ``topic``.
        """
        weights = self.records.weights(record_bytes=_RECORD_BYTES)
        for row in np.flatnonzero(weights > batch_bytes_max // 2).tolist():
            size = len(encode_batch(self.records.slice(row, row + 1).renumbered(0), codec=self.codec))
            if size > batch_bytes_max:
                offset = int(self.records.offsets[row])
                raise RecordTooLargeError(
                    f"the dead letter of the record at source offset {offset} makes a batch of {size} bytes, topic "
                    f"{topic} takes {batch_bytes_max}",
                    hint=f"raise max.message.bytes of {topic} to at least {size}",
                    offset=offset,
                    bytes=size,
                    topic=topic,
                    limit=batch_bytes_max,
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Parted:
    """A batch without the records that become dead letters: ``item`` is what is left, ``gaps`` where they were."""

    item: ClassifiedBatch
    gaps: tuple[Gap, ...]
    letters: Letters


def parted(
    item: ClassifiedBatch,
    ids: SchemaIdMap,
    origin: LetterOrigin,
    *,
    source_items: Sequence[ClassifiedBatch] | None = None,
) -> Parted | None:
    """Returns a batch without the records that become dead letters; None where none does.

    Args:
        item: with records; its checksum was verified.
        ids: the map.
        origin: of the letters; the offset is each record's own.
        source_items: what the source has, in order and the batch's records among it, where a `select` has made others
            of them; None where the batch is the source's.

    Raises:
        SchemaUnknownError, SchemaUnreadableError: as ``dead_letters_of``.
        CorruptBatchError, BatchTooLargeError: it cannot be decoded.
    """
    records = decode_batches([item.batch])
    found = dead_letters_of(records, ids)
    if not found:
        return None
    rows = np.array([each.row for each in found], np.int64)
    taken = records.relocated(rows, records.offsets[rows])
    if source_items is not None:
        taken = _at_source(source_items, taken.offsets)
    letters = Letters(
        records=_letters(taken, found, origin),
        reasons=tuple(f"{each.side}:{each.reason}" for each in found),
        codec=item.batch.header.codec,
    )
    left, gaps = _without(item, records, rows)
    return Parted(item=left, gaps=gaps, letters=letters)


def without_lettered(item: ClassifiedBatch, offsets: npt.NDArray[np.int64]) -> tuple[ClassifiedBatch, tuple[Gap, ...]]:
    """Returns a batch without the records at some offsets, ascending, that have a letter already; and where they were.

    Raises:
        CorruptBatchError, BatchTooLargeError: it cannot be decoded.
    """
    header = item.batch.header
    # What is in a wrapper of an old format begins anywhere before it.
    start = header.base_offset if header.magic >= 2 else 0
    first, stop = np.searchsorted(offsets, [start, header.next_offset]).tolist()
    if item.path == Path.SKIP or first == stop:
        return item, ()
    if header.magic >= 2 and stop - first == header.next_offset - header.base_offset:  # all of it, whatever it holds
        whole = OffsetRange(start_offset=header.base_offset, end_offset=header.next_offset)
        left = item._replace(path=Path.SKIP.value, reason=DEAD_LETTERED_REASON)
        return left, (Gap(offsets=whole, kind=GapKind.DEAD_LETTERED),)
    records = decode_batches([item.batch])
    rows = np.flatnonzero(np.isin(records.offsets, offsets[first:stop]))
    return _without(item, records, rows) if len(rows) else (item, ())


def _without(
    item: ClassifiedBatch, records: RecordColumns, rows: npt.NDArray[np.int64]
) -> tuple[ClassifiedBatch, tuple[Gap, ...]]:
    is_kept = np.ones(len(records), bool)
    is_kept[rows] = False
    kept = np.flatnonzero(is_kept)
    gaps = tuple(gaps_at(records.offsets[rows], GapKind.DEAD_LETTERED))
    if not len(kept):
        return item._replace(path=Path.SKIP.value, reason=DEAD_LETTERED_REASON), gaps
    batch = as_v2(item.batch) if item.batch.header.magic < 2 else item.batch
    made = made_of(batch, records.relocated(kept, records.offsets[kept])).batch
    return ClassifiedBatch(batch=made, path=Path.RECORDS.value, reason=DEAD_LETTERED_REASON), gaps


def _at_source(items: Sequence[ClassifiedBatch], offsets: npt.NDArray[np.int64]) -> RecordColumns:
    """Returns the records at some offsets, ascending and one at least, of batches in order that hold them."""
    start = bisect_right(items, int(offsets[0]), key=lambda item: item.batch.header.next_offset)
    stop = bisect_left(items, int(offsets[-1]), start, key=lambda item: item.batch.header.last_offset) + 1
    held = []
    for item in items[start:stop]:
        if item.path != Path.SKIP:
            records = decode_batches([item.batch])
            rows = np.flatnonzero(np.isin(records.offsets, offsets))
            held.append(records.relocated(rows, records.offsets[rows]))
    found = RecordColumns.concat(held)
    assert found.offsets.tolist() == offsets.tolist(), "every record has one that it was made of"
    return found


def _letters(taken: RecordColumns, found: Sequence[Unreadable], origin: LetterOrigin) -> RecordColumns:
    headers = [
        [*own, *origin._replace(offset=offset).headers(each.side, each.reason)]
        for own, offset, each in zip(headers_of(taken), taken.offsets.tolist(), found, strict=True)
    ]
    return taken.with_headers(headers_column(headers))
