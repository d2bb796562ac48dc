"""What a mirror with ``offsets: map`` writes about itself, in the transaction of its data: keys and values. Pure.

All numbers are big-endian. A *text* is an unsigned 16-bit length and as many bytes of UTF-8. The runs are those of
``offset_map``. First byte of a key: ``P``, ``M``, ``L`` or ``S``; second byte: version 1.

Number of shards, partition 0 of ``mirrorlake.progress.<mirror>``, its first record, written once and outside of any
transaction; mirrors from before it was written have 16:

    key    "S", 1
    value  int8 version 1, int32 shards

Progress, topic ``mirrorlake.progress.<mirror>``, the newest counts; compaction keeps it:

    key    "P", 1, text destination topic, text source topic, int32 source partition
    value  int8 version 1, text source cluster id, text source topic id, text destination topic id, int32 leader epoch
           of the last batch copied (-1 unknown), int64 start and int64 end of the range this transaction covered,
           int32 destination partition, int64 destination offset of the transaction's first record (-1 none), int64
           end of the last record ever copied at the destination (exclusive, 0 none), int64 source offset where the
           open page of the offset map begins, int64 source offset where the copy began, its runs
    header ``select``, where the mirror has or had one: see ``select_mark``; ``route`` likewise: see ``route_mark``;
           ``empty-from``, where the range ends with offsets that held no record: see ``empty_mark``

Full page of the offset map, topic ``mirrorlake.offset-map.<mirror>``, written once:

    key    "M", 1, text destination topic, text source topic, int32 source partition, text source topic id, int64 source
           offset where it begins
    value  int8 version 1, int64 source offset where it ends (exclusive), int32 destination partition, its runs

Later page, same topic, written once: runs that lie before the end of the map, as a position was moved back by hand:

    key    "L", 1, as of a full page, then int64 destination offset of its first record
    value  as of a full page

Map of a source partition: its full pages by where they begin, then the open page of its progress; of
source offsets that none of them names, what the later pages say, by their destination offsets.
"""

import struct
from dataclasses import dataclass

from mirrorlake.destinations.map.marks.route_mark import UNMARKED, RouteMark
from mirrorlake.destinations.map.marks.select_mark import AS_IT_IS_MARK, SelectMark
from mirrorlake.destinations.map.offset_map import FullPage, MappedRun, OpenPage, decode_runs, open_page
from mirrorlake.destinations.transactions.own_bytes import TEXT_LENGTH, text_bytes
from mirrorlake.errors import DestinationForeignError
from mirrorlake.offsets import OffsetRange, TopicPartition

FORMAT = 1

_PROGRESS_KEY, _PAGE_KEY, _LATER_KEY = b"P", b"M", b"L"
SHARDS_KEY = b"S" + bytes((FORMAT,))


_PARTITION = struct.Struct(">i")
_OFFSET = struct.Struct(">q")
_PROGRESS = struct.Struct(">iqqiqqqq")
_PAGE = struct.Struct(">bqi")
_SHARDS = struct.Struct(">bi")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ProgressKey:
    """Whose progress: a source partition on its way to a destination topic."""

    destination_topic: str
    source: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PageKey:
    """Which page: of whose map, of which of the source's topics of that name, beginning where.

    ``later_at`` is the destination offset of the first record of a later page, None of any other.
    """

    progress: ProgressKey
    source_topic_id: str
    start_offset: int
    later_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MapProgress:
    """How far a source partition is copied.

    ``offsets`` is the source range the last transaction covered; its end is the position. ``destination_offset`` is
    that of the transaction's first record, None where it had none. ``destination_end`` is the offset after the last
    record ever copied, 0 where there is none. ``leader_epoch`` is the source's, -1 where unknown. ``start_offset`` is
    the source offset at which the copy began. ``select`` says by which `select` its newest records were made, ``route``
    by which route they were taken. From ``empty_from`` to the position the source held no record when it was read; None
    where there was one right before the position, or it is not known.
    """

    source_cluster_id: str
    source_topic_id: str
    destination_topic_id: str
    leader_epoch: int
    offsets: OffsetRange
    destination_partition: int
    destination_offset: int | None
    destination_end: int
    page: OpenPage
    start_offset: int
    select: SelectMark = AS_IT_IS_MARK
    route: RouteMark = UNMARKED
    empty_from: int | None = None

    @property
    def position(self) -> int:
        """The next source offset the destination needs."""
        return self.offsets.end_offset

    @property
    def mapped(self) -> OffsetRange:
        """The source offsets that the offset map speaks of: past the position where that was moved back."""
        end = max(self.position, self.page.last_end, self.start_offset)
        return OffsetRange(start_offset=self.start_offset, end_offset=end)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapPage:
    """A full page, and the destination partition its offsets belong to."""

    page: FullPage
    destination_partition: int

    @property
    def runs(self) -> list[MappedRun]:
        """What it says."""
        return list(decode_runs(self.page.offsets.start_offset, self.page.encoded))


def encode_progress_key(key: ProgressKey) -> bytes:
    """Returns the key of a progress record."""
    return _PROGRESS_KEY + _tail_of_key(key)


def encode_page_key(key: PageKey) -> bytes:
    """Returns the key of a page."""
    kind, later = (_PAGE_KEY, b"") if key.later_at is None else (_LATER_KEY, _OFFSET.pack(key.later_at))
    return kind + _tail_of_key(key.progress) + text_bytes(key.source_topic_id) + _OFFSET.pack(key.start_offset) + later


def decode_progress_key(data: bytes) -> ProgressKey:
    """Returns what ``encode_progress_key`` wrote.

    Raises:
        DestinationForeignError: it is no key of a progress record this version understands.
    """
    reader = _Reader(data)
    key = _key_from(reader, _PROGRESS_KEY)
    reader.end()
    return key


def decode_page_key(data: bytes) -> PageKey:
    """Returns what ``encode_page_key`` wrote.

    Raises:
        DestinationForeignError: it is no key of a page this version understands.
    """
    reader = _Reader(data)
    is_later = data[:1] == _LATER_KEY
    progress = _key_from(reader, _LATER_KEY if is_later else _PAGE_KEY)
    topic_id = reader.text()
    (start_offset,) = reader.fields(_OFFSET)
    later_at = reader.fields(_OFFSET)[0] if is_later else None
    reader.end()
    return PageKey(progress=progress, source_topic_id=topic_id, start_offset=start_offset, later_at=later_at)


def encode_progress(progress: MapProgress) -> bytes:
    """Returns the value of a progress record; ``select``, ``route`` and ``empty_from`` are headers: see ``marks``."""
    return b"".join(
        (
            bytes((FORMAT,)),
            text_bytes(progress.source_cluster_id),
            text_bytes(progress.source_topic_id),
            text_bytes(progress.destination_topic_id),
            _PROGRESS.pack(
                progress.leader_epoch,
                progress.offsets.start_offset,
                progress.offsets.end_offset,
                progress.destination_partition,
                -1 if progress.destination_offset is None else progress.destination_offset,
                progress.destination_end,
                progress.page.start_offset,
                progress.start_offset,
            ),
            progress.page.encoded,
        )
    )


def decode_progress(
    data: bytes, select: SelectMark = AS_IT_IS_MARK, route: RouteMark = UNMARKED, empty_from: int | None = None
) -> MapProgress:
    """Returns what ``encode_progress`` wrote, with what the record's headers say.

    Raises:
        DestinationForeignError: it is no progress record this version understands.
    """
    reader = _Reader(data)
    reader.version()
    cluster_id, topic_id, destination_topic_id = reader.text(), reader.text(), reader.text()
    epoch, start, end, partition, first, last, page_start, began = reader.fields(_PROGRESS)
    if not 0 <= start <= end or not 0 <= began <= page_start:
        raise _foreign(f"range [{start}, {end}) of a page from {page_start}")
    return MapProgress(
        source_cluster_id=cluster_id,
        source_topic_id=topic_id,
        destination_topic_id=destination_topic_id,
        leader_epoch=epoch,
        offsets=OffsetRange(start_offset=start, end_offset=end),
        destination_partition=partition,
        destination_offset=None if first < 0 else first,
        destination_end=last,
        page=open_page(page_start, reader.rest()),
        start_offset=began,
        select=select,
        route=route,
        empty_from=empty_from,
    )


def encode_page(page: MapPage) -> bytes:
    """Returns the value of a page."""
    return _PAGE.pack(FORMAT, page.page.offsets.end_offset, page.destination_partition) + page.page.encoded


def decode_page(key: PageKey, data: bytes) -> MapPage:
    """Returns what ``encode_page`` wrote.

    Raises:
        DestinationForeignError: it is no page this version understands.
    """
    reader = _Reader(data)
    reader.version()
    reader.at = 0
    _, end, partition = reader.fields(_PAGE)
    if end < key.start_offset:
        raise _foreign(f"a page from {key.start_offset} that ends at {end}")
    offsets = OffsetRange(start_offset=key.start_offset, end_offset=end)
    return MapPage(page=FullPage(offsets=offsets, encoded=reader.rest()), destination_partition=partition)


def encode_shards(shards: int) -> bytes:
    """Returns the value of the record that says how many shards a mirror has; its key is ``SHARDS_KEY``."""
    return _SHARDS.pack(FORMAT, shards)


def decode_shards(data: bytes) -> int:
    """Returns what ``encode_shards`` wrote.

    Raises:
        DestinationForeignError: it is no such number this version understands.
    """
    reader = _Reader(data)
    reader.version()
    reader.at = 0
    _, shards = reader.fields(_SHARDS)
    reader.end()
    if shards < 1:
        raise _foreign(f"{shards} shards")
    return shards


class _Reader:
    """Takes fields off the front of some bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def fields(self, shape: struct.Struct) -> tuple[int, ...]:
        try:
            found = shape.unpack_from(self._data, self.at)
        except struct.error as error:
            raise _foreign(f"{len(self._data)} bytes are too few") from error
        self.at += shape.size
        return found

    def text(self) -> str:
        (length,) = self.fields(TEXT_LENGTH)
        found = self._data[self.at : self.at + length]
        if len(found) != length:
            raise _foreign(f"{len(self._data)} bytes are too few")
        self.at += length
        try:
            return found.decode()
        except UnicodeDecodeError as error:
            raise _foreign(str(error)) from error

    def version(self) -> None:
        found = self.rest()[:1]
        self.at += 1
        if found != bytes((FORMAT,)):
            raise _foreign(f"format {found[0] if found else 'none'}, this version knows {FORMAT}")

    def rest(self) -> bytes:
        return self._data[self.at :]

    def end(self) -> None:
        if self.at != len(self._data):
            raise _foreign(f"{len(self._data) - self.at} bytes too many")


def _tail_of_key(key: ProgressKey) -> bytes:
    return (
        bytes((FORMAT,))
        + text_bytes(key.destination_topic)
        + text_bytes(key.source.topic)
        + _PARTITION.pack(key.source.partition)
    )


def _key_from(reader: _Reader, kind: bytes) -> ProgressKey:
    if reader.rest()[:1] != kind:
        raise _foreign(f"a key that begins with {reader.rest()[:1]!r}")
    reader.at += 1
    reader.version()
    destination_topic, topic = reader.text(), reader.text()
    (partition,) = reader.fields(_PARTITION)
    return ProgressKey(destination_topic=destination_topic, source=TopicPartition(topic, partition))


def _foreign(why: str) -> DestinationForeignError:
    return DestinationForeignError(
        f"a progress topic holds a record that is not this version's: {why}",
        hint="let no other producer write to mirrorlake.progress.* and mirrorlake.offset-map.*; a newer mirrorlake's "
        "records need that version, or a mirror of another name",
    )
