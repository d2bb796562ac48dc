"""Opens a segment to be read from a position on, once it is known to be whole and whose it is.

Nothing of a segment is handed out before this was looked at: what it says of itself agrees with its name and its place,
its file is as long as its description says, and its bytes are those it was sealed with. The bytes of a file of a bucket
that is small are read once, checked, and decoded where they lie in memory. Any other is read twice: first all of it is
compared, then it is decoded, now or in a later lease, and what is read then is compared with what the first reading
found, block by block. A log that says the checksums of its blocks, and any such file that is large and in a bucket, is
read once, and each block compared as it is read.
A file of mirror-v3 has nothing to compare with but its edges, which are looked at first.
"""

import io
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO, cast

import pyarrow as pa

from mirrorlake.archive.blocks.seen_file import SeenFile
from mirrorlake.archive.blocks.sums import BlockSums
from mirrorlake.archive.chain import Segment
from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.formats.interface import SegmentReader
from mirrorlake.archive.formats.log_reader import LogSegmentReader
from mirrorlake.archive.formats.name_check import check_bare_edges
from mirrorlake.archive.formats.parquet_reader import ParquetSegmentReader
from mirrorlake.archive.formats.registry import LOG, open_segment
from mirrorlake.archive.formats.summing_file import sum_of
from mirrorlake.archive.layouts.foreign_store import ForeignStore
from mirrorlake.archive.seal import NEAR_READ_BYTES, READ_BYTES
from mirrorlake.archive.sidecar import check_described
from mirrorlake.errors import ChainBrokenError
from mirrorlake.kafka.records.codec import Codec
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.offsets import OffsetRange
from mirrorlake.sources.archive.content import Content, LogContent, Piece, RecordContent, in_offset_order
from mirrorlake.sources.archive.known_segments import Compared, KnownSegments
from mirrorlake.sources.archive.piece_buffers import PieceBuffers
from mirrorlake.stores.object_store import ObjectMissingError, ObjectStore

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

HELD_BYTES_MAX = 64 << 20
"""Files of buckets up to this size are read whole before they are decoded."""

RANGE_BYTES = 8 << 20
"""What one request for such a file asks for."""


class ReadingGivenUpError(Exception):
    """Ends a thread that reads for nobody any more; nobody waits for what it finds."""


class StoppableFile(io.RawIOBase):
    """A file of which nothing more is read once its reader was given up, whoever reads it for whatever.

    Args:
        file: seekable, closed with this.
        is_given_up: asked before each read.
    """

    def __init__(self, file: BinaryIO, is_given_up: Callable[[], bool]) -> None:
        super().__init__()
        self._file = file
        self._is_given_up = is_given_up

    def readable(self) -> bool:
        """Returns True."""
        return True

    def seekable(self) -> bool:
        """Returns True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Moves the position and returns it."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Returns the position."""
        return self._file.tell()

    def read(self, size: int = -1, /) -> bytes:
        """Returns the next bytes, as the file does.

        Raises:
            ReadingGivenUpError: nobody wants them.
        """
        self._check_wanted()
        return self._file.read(size)

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Fills the buffer, as the file does; see `read`."""
        self._check_wanted()
        read: int = self._file.readinto(buffer)  # type: ignore[attr-defined]  # every store's file has it
        return read

    def close(self) -> None:
        """Closes the file."""
        super().close()
        self._file.close()

    def _check_wanted(self) -> None:
        if self._is_given_up():
            raise ReadingGivenUpError


class OpenSegment:
    """One segment, open.

    Args:
        store: where it lies.
        key: of the segment.
        segment: as it was listed.
        is_snapshot: whether it must be one.
        known: what was found of segments before.

    Attributes:
        footer: what it says of itself; None where mirror-v3 wrote it.

    Raises:
        ChainBrokenError: it is damaged, renamed or swapped; or of the other kind.
        ObjectMissingError: it is gone.
        MirrorlakeError: the store could not be read.
    """

    def __init__(
        self,
        store: ObjectStore,
        key: str,
        segment: Segment,
        *,
        is_snapshot: bool,
        known: KnownSegments,
        is_given_up: Callable[[], bool] = lambda: False,
    ) -> None:
        self._key = key
        self._segment = segment
        self._is_snapshot = is_snapshot
        self._known = known
        self._is_near = store.listing_page_objects is None or segment.size_bytes <= HELD_BYTES_MAX
        self._read_bytes = NEAR_READ_BYTES if self._is_near else READ_BYTES
        listed = _as_listed(cast(BinaryIO, StoppableFile(store.open(key), is_given_up)), key, segment)
        is_held = self._is_near and store.listing_page_objects is not None
        self._seen = None if is_held else SeenFile(listed, file_bytes=segment.size_bytes, where=key)
        self._file = cast(BinaryIO, self._seen) if self._seen is not None else _held(listed, segment)
        try:
            self._reader: SegmentReader = open_segment(store, key, opened=self._file)
            self.footer = self._reader.footer
            self._check_description()
            self._is_checked = self._check_bytes(store)
        except ChainBrokenError:
            self._file.close()
            store.open(key).close()  # its description goes after a segment that a merge deletes
            raise
        except BaseException:
            self._file.close()
            raise

    def content(
        self, offsets: OffsetRange, *, codec: Codec, batch_bytes_max: int, buffers: PieceBuffers | None = None
    ) -> Content:
        """Returns a range of its content; call once, and close that then.

        Args:
            offsets: the range.
            codec: of batches that are made of decoded records.
            batch_bytes_max: record bytes of one of those.
            buffers: for pieces of it; None for memory of their own.
        """
        if self._segment.name.extension == LOG:
            self._compare_first()
            return self._log_content(offsets, buffers)
        return RecordContent(
            self._reader,
            self.records(offsets),
            offsets=offsets,
            codec=codec,
            batch_bytes_max=batch_bytes_max,
        )

    def _log_content(self, offsets: OffsetRange, buffers: PieceBuffers | None) -> Content:
        assert isinstance(self._reader, LogSegmentReader), "only logs have batches"
        stop = self._known.stop_before(self._key, self._segment.size_bytes, offsets.start_offset)
        content = LogContent(
            self._reader.file,
            self._segment,
            offsets=offsets,
            key=self._key,
            stop=stop,
            unit_bytes=self._reader.unit_bytes,
            buffers=buffers,
        )
        return _Remembering(content, self._key, self._segment, self._known)

    def records(self, offsets: OffsetRange, *, is_glimpse: bool = False) -> Iterator[RecordColumns]:
        """Yields the records of a range, in offset order, the last ones once nothing is left that could be wrong.

        Args:
            offsets: the range.
            is_glimpse: whether a few of them are to be looked at, and nothing is copied: a file that could not be
                compared without a download is then not read whole for it.

        Raises:
            ChainBrokenError: damaged. All of a file that was not compared with its checksum yet is, before anything is
                yielded.
        """
        if not is_glimpse:
            self._compare_first()
        if self._is_snapshot:
            assert isinstance(self._reader, ParquetSegmentReader), "only Parquet files are snapshots"
            yield from in_offset_order(self._reader, offsets, where=self._key)
        elif self._is_near_and_sealed and not is_glimpse:
            assert isinstance(self._reader, ParquetSegmentReader), "only Parquet files are sealed"
            yield from self._bounded(self._reader.intact_records(offsets), offsets)
        else:
            yield from self._bounded(self._reader.records(within=offsets), offsets)

    def _compare_first(self) -> None:
        if not self._is_checked:
            self._compare()
            self._is_checked = True

    def check_batches(self) -> None:
        """Compares a `log` segment, whose batches `records` decodes as they are, with all checksums there are of it.

        Raises:
            ChainBrokenError: damaged.
        """
        if self._segment.name.extension == LOG:
            self._reader.check_content()

    def close(self) -> None:
        """Closes the file."""
        self._reader.close()

    @property
    def _is_near_and_sealed(self) -> bool:
        """True of a Parquet file that is as it was written and can be read a page at a time."""
        is_sealed = isinstance(self._reader, ParquetSegmentReader) and self.footer is not None and self.footer.seal
        return bool(is_sealed) and self._is_checked and self._is_near

    def _bounded(self, records: Iterator[RecordColumns], offsets: OffsetRange) -> Iterator[RecordColumns]:
        """Yields the same, the last ones once the last record of the file was seen, where the range holds it."""
        name, last, held = self._segment.name, None, None
        for columns in records:
            if int(columns.offsets[0]) < name.from_offset or int(columns.offsets[-1]) > name.to_offset:
                raise self._broken(f"holds offsets {columns.offsets[0]} to {columns.offsets[-1]}")
            if held is not None:
                yield held
            held, last = columns, int(columns.offsets[-1])
        wanted = self._last_offset()
        if wanted is not None and offsets.start_offset <= wanted < offsets.end_offset and last != wanted:
            raise self._broken(f"ends before offset {wanted}, which is its last one")
        if held is not None:
            yield held

    def _last_offset(self) -> int | None:
        """Returns the offset of the last record; None where nothing says it."""
        if self._segment.name.extension == LOG:
            return None  # a cleaner may have taken the record with which a batch ended
        return self._segment.name.to_offset if self.footer is None else self.footer.last_offset

    def _check_description(self) -> None:
        footer, name = self.footer, self._segment.name
        if footer is None:
            check_described(self._key)
            return
        if footer.offsets != name.offsets:
            raise self._broken(f"says of itself that it covers {footer.offsets}")
        if (footer.snapshot is not None) != self._is_snapshot:
            kind = "a snapshot" if footer.snapshot is not None else "a segment of every record"
            raise self._broken(f"is {kind}, and the others of its folder are not")
        if footer.file is not None and footer.file.bytes != self._segment.size_bytes:
            raise self._broken(f"has {self._segment.size_bytes} bytes, its description says {footer.file.bytes}")

    def _check_bytes(self, store: ObjectStore) -> bool:
        """Compares the whole file with its seal where that costs no download; returns whether nothing is left.

        Of a log with checksums of blocks nothing needs to be: what is read of it is compared.
        """
        if self._known.is_intact(self._as_compared) and (self._seen is not None or self.footer is None):
            self._go_by(self._known.sums_of(self._as_compared))
            return True
        if self.footer is None:
            # Records of a snapshot lie in another order; of files that share offsets a name holds a part.
            if not self._is_snapshot and not isinstance(store, ForeignStore):
                folder = self._key.rpartition("/")[0].rpartition("/")[2]
                check_bare_edges(self._key, self._reader.edges(), name=self._segment.name, partition=int(folder))
            self._known.found_intact(self._as_compared)
            return True
        if isinstance(self._reader, LogSegmentReader) and self._reader.compares_blocks:
            return True
        if not self._is_near and self._seen is not None and (sums := self._said_sums(self.footer)) is not None:
            self._seen.compare_with(sums, than="it says of itself")
            return True
        if not self._is_near or (isinstance(self._reader, ParquetSegmentReader) and self.footer.seal is None):
            return False
        self._compare()
        return True

    def _said_sums(self, footer: SegmentFooter) -> BlockSums | None:
        """Returns the checksums of the file's blocks by its own account; None where it has none.

        Raises:
            ChainBrokenError: the end of a Parquet file, which holds them, is damaged.
        """
        if isinstance(self._reader, ParquetSegmentReader):
            return self._reader.block_sums()
        return footer.file.blocks if footer.file is not None else None

    def _compare(self) -> None:
        """Compares all of the file with all that is said of it, by reading it once.

        Raises:
            ChainBrokenError: they differ.
        """
        assert self.footer is not None, "nothing to compare with"
        if self._seen is not None:
            self._seen.begin_sums()
        if isinstance(self._reader, ParquetSegmentReader):
            if self.footer.seal is None:
                self._reader.check_content()
            else:
                self._reader.check_seal(read_bytes=self._read_bytes)
        elif (found := sum_of(self._file, read_bytes=self._read_bytes)) != self.footer.file:
            raise self._broken(f"has {found}, its description says {self.footer.file}")
        sums = self._seen.sums() if self._seen is not None else None
        self._known.found_intact(self._as_compared, sums)
        self._go_by(sums)

    @property
    def _as_compared(self) -> Compared:
        footer = self.footer
        said = "" if footer is None else footer.seal or (footer.file.checksum if footer.file else footer.checksum)
        return Compared(self._key, self._segment.size_bytes, said or "")

    def _go_by(self, sums: BlockSums | None) -> None:
        """Has all that is read from now on compared; the description inside of the file, which was read, at once."""
        if self._seen is None or sums is None:
            return
        self._seen.compare_with(sums, than="it had when all of it was compared")
        if isinstance(self._reader, ParquetSegmentReader):
            self._seen.seek(-self._reader.footer_bytes, io.SEEK_END)
            self._seen.read()

    def _broken(self, what: str) -> ChainBrokenError:
        return ChainBrokenError(
            f"{self._key} {what}",
            hint="the file was changed, cut, renamed or swapped: put the right one back from a copy of "
            "the archive; nothing of it was copied that is not right",
            key=self._key,
        )


class _Remembering:
    """Remembers where the reading of a `log` segment stops, so that the next lease need not search the place."""

    def __init__(self, content: LogContent, key: str, segment: Segment, known: KnownSegments) -> None:
        self._content = content
        self._key = key
        self._size_bytes = segment.size_bytes
        self._known = known

    def next_piece(self) -> Piece | None:
        stop = self._content.stop
        piece = self._content.next_piece()
        if piece is not None:
            # Behind the last piece a batch may stand that was cut, of which the rest is wanted another time.
            self._known.stopped(self._key, self._size_bytes, stop)
        return piece

    def close(self) -> None:
        self._content.close()


def _as_listed(file: BinaryIO, key: str, segment: Segment) -> BinaryIO:
    """Returns the file, at its start, where it is as long as it was listed.

    Raises:
        ObjectMissingError: it is another one than was listed: all of the folder is to be listed anew.
    """
    try:
        found = file.seek(0, io.SEEK_END)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    if found != segment.size_bytes:
        file.close()
        raise ObjectMissingError(f"{key} has {found} bytes, it was listed with {segment.size_bytes}", key=key)
    return file


def _held(file: BinaryIO, segment: Segment) -> BinaryIO:
    """Returns the same file in memory."""
    with file:
        parts = bytearray()
        while data := file.read(RANGE_BYTES):
            parts += data
    return io.BytesIO(parts) if segment.name.extension != "parquet" else pa.BufferReader(parts)
