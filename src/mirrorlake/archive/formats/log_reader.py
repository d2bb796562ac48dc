"""Reading segments written as a log."""

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import BinaryIO, Self, cast

from mirrorlake.archive.blocks.compared_file import ComparedFile
from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.formats.log_batches import log_batch
from mirrorlake.archive.formats.name_check import Edge
from mirrorlake.archive.formats.record_order import check_order
from mirrorlake.archive.formats.summing_file import sum_of
from mirrorlake.archive.names import LAST_OFFSET_MAX
from mirrorlake.archive.seal import READ_BYTES
from mirrorlake.errors import ChainBrokenError, CorruptBatchError
from mirrorlake.kafka.records.batches import Batch, verify_crc, walk
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.kafka.records.decode import decode_parts
from mirrorlake.offsets import OffsetRange

PART_BYTES_MAX = 16 << 20
"""Record bytes handed out at once, to within one batch."""


class LogSegmentReader:
    """Reads one segment; see `SegmentReader`. The file is closed with it.

    Where its description has checksums of blocks, nothing is read of the file that was not compared with these.

    Args:
        file: seekable.
        footer: the segment's sidecar; None where it has been lost: the batches tell all that a reader needs.
        where: names the file in messages.

    Attributes:
        file: to be read from; see ``unit_bytes``.
        compares_blocks: whether what is read of it was compared.
        unit_bytes: it is read the cheapest from a multiple of these on, in multiples of these.
    """

    def __init__(self, file: BinaryIO, *, footer: SegmentFooter | None, where: str) -> None:
        blocks = footer.file.blocks if footer is not None and footer.file is not None else None
        if footer is not None and footer.file is not None and blocks is not None:
            compared = ComparedFile(file, file_bytes=footer.file.bytes, blocks=blocks, where=where)
            file = cast(BinaryIO, compared)
        self.file = file
        self.compares_blocks = blocks is not None
        self.unit_bytes = 1 if blocks is None else blocks.block_bytes
        self._where = where
        self.footer = footer
        self._start_offset = footer.offsets.start_offset if footer else 0
        self._end_offset = footer.end_offset if footer else LAST_OFFSET_MAX + 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self.file.close()

    def batches(self) -> Iterator[list[Batch]]:
        """Yields the batches in offset order, some megabytes at a time; their own checksums are not looked at.

        Raises:
            ChainBrokenError: not batches, or the last one is not whole.
        """
        self.file.seek(0)
        rest = b""
        while data := self.file.read(max(READ_BYTES, len(rest))):
            view = memoryview(rest + data)
            try:
                found = list(walk(view))
            except CorruptBatchError as error:
                raise self._damaged(error) from error
            rest = bytes(view[sum(len(batch.view) for batch in found) :])
            yield found
        if rest:
            raise self._broken("ends inside a record batch")

    def records(self, *, within: OffsetRange | None = None) -> Iterator[RecordColumns]:
        """Yields the records in offset order, in pieces of bounded size.

        Raises:
            ChainBrokenError: damaged, or offsets that do not grow or lie outside the segment's range.
        """
        position, end = self._start_offset, self._end_offset
        start_wanted = within.start_offset if within else 0
        end_wanted = within.end_offset if within else None
        for batches in self.batches():
            try:
                parts = decode_parts(
                    batches, start_offset=start_wanted, end_offset=end_wanted, part_bytes_max=PART_BYTES_MAX
                )
                for columns in parts:
                    position = check_order(columns, position, end, where=self._where)
                    yield columns
            except (CorruptBatchError, ValueError) as error:
                raise self._damaged(error) from error
            if within and batches and batches[-1].header.next_offset >= within.end_offset:
                return

    def decoded(self, batches: Sequence[Batch]) -> Iterator[RecordColumns]:
        """Yields the records of some of its batches, which follow one another, in pieces of bounded size.

        Raises:
            ChainBrokenError: damaged, or offsets that do not grow or lie outside the segment's range.
        """
        position = self._start_offset
        try:
            for columns in decode_parts(batches, start_offset=0, end_offset=None, part_bytes_max=PART_BYTES_MAX):
                position = check_order(columns, position, self._end_offset, where=self._where)
                yield columns
        except (CorruptBatchError, ValueError) as error:
            raise self._damaged(error) from error

    def edges(self) -> tuple[Edge, ...]:
        """Returns nothing: batches do not say whose they are, and who takes them for mirror-v3's is wrong."""
        return ()

    def sources(self) -> set[tuple[str, int]]:
        """Returns nothing: batches do not say whose they are."""
        return set()

    def check_bytes(self) -> None:
        """Compares all bytes with the sidecar; nothing where its blocks are compared as they are read.

        Raises:
            ChainBrokenError: see `check_content`.
        """
        if not self.compares_blocks:
            self.check_content()

    def check_content(self, *, each: Callable[[RecordColumns], None] | None = None) -> None:
        """Compares the file with the sidecar, if any, and every batch with its own checksum; nothing is decompressed.

        Args:
            each: never called.

        Raises:
            ChainBrokenError: damaged, or length, count, range or checksum differ from the sidecar's.
        """
        del each
        if self.footer is not None and (actual := sum_of(self.file)) != self.footer.file:
            raise self._broken(f"has {actual}, its description says {self.footer.file}")
        position, records = self._start_offset, 0
        for batches in self.batches():
            for batch in batches:
                try:
                    verify_crc(batch)
                    known = log_batch(batch)
                except CorruptBatchError as error:
                    raise self._damaged(error) from error
                if known.first_offset < position or known.next_offset > self._end_offset:
                    raise self._broken("has batches out of order, or outside its range")
                position = known.next_offset
                records += known.records
        if self.footer is not None and records != self.footer.records:
            raise self._broken(f"holds {records} records, its description says {self.footer.records}")

    def _damaged(self, error: Exception) -> ChainBrokenError:
        return self._broken(f"cannot be read as record batches: {error}")

    def _broken(self, what: str) -> ChainBrokenError:
        return ChainBrokenError(
            f"{self._where} {what}",
            hint="the file is damaged or not ours: put it back from a copy, with its description in `_meta`, or "
            "archive the range again",
        )
