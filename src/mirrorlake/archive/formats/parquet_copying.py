"""Which segments may go into another one byte by byte: their row groups are copied and nothing of them is decoded.

Copying must leave nothing behind that decoding would not. So the columns are the very ones that are written now, the
pages are compressed as it is asked for, the file is sealed, which proves its bytes, and what it says of its records
goes along. Whatever is not understood is decoded.
"""

from dataclasses import dataclass

from mirrorlake.archive.envelope import METADATA_KEY, SegmentEnvelope, SegmentFooter, decode_footer
from mirrorlake.archive.formats.parquet_layout import (
    FileEnd,
    MovedGroup,
    UnfamiliarLayoutError,
    check_familiar,
    moved_groups,
    read_end,
)
from mirrorlake.archive.formats.parquet_reader import ParquetSegmentReader
from mirrorlake.archive.formats.parquet_schema import ARROW_METADATA
from mirrorlake.errors import MirrorlakeError
from mirrorlake.page_compression import Compression

COPIED_GROUP_BYTES_MIN = 4 << 20
"""From this size on, on average and uncompressed, row groups are copied: a quarter of what a writer puts into one.

So a file has at most some four times as many as if all had been written anew: see decision 0277.
"""

_CODECS = {
    Compression.ZSTD_1: 6,
    Compression.ZSTD_3: 6,
    Compression.SNAPPY: 1,
    Compression.LZ4: 7,
    Compression.UNCOMPRESSED: 0,
}
"""By the numbers of ``parquet.thrift``; LZ4 is the one without Hadoop's frames."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyableSegment:
    """A segment whose row groups may be copied, opened."""

    reader: ParquetSegmentReader
    footer: SegmentFooter
    seal: str
    end: FileEnd
    where: str

    def groups(self, shift: int) -> list[MovedGroup]:
        """Returns its row groups as they are described once they lie ``shift`` bytes further behind."""
        return moved_groups(self.end, shift)


def copyable(
    reader: ParquetSegmentReader, envelope: SegmentEnvelope, *, compression: Compression, bytes_min: int, where: str
) -> CopyableSegment | None:
    """Returns the segment if its row groups may be copied into one of this envelope; None where it is to be decoded.

    Args:
        reader: of the segment.
        envelope: of the segment that is made of it.
        compression: what is asked for.
        bytes_min: what a row group must have at least, on average and uncompressed.
        where: names it in messages.

    Raises:
        MirrorlakeError: the store could not be read.
    """
    footer = reader.footer
    if footer is None or footer.seal is None or footer.snapshot is not None or not footer.records:
        return None
    if (footer.envelope.topic, footer.envelope.partition) != (envelope.topic, envelope.partition):
        return None
    try:
        end = read_end(reader.file)
        check_familiar(end)
        moved_groups(end, 0)
        _check_said(end, footer, where)
        is_large = end.uncompressed_bytes >= bytes_min * len(end.groups)
        if not (is_large and _is_compressed(end, footer, compression)):
            return None
    except UnfamiliarLayoutError:
        return None  # of another version, or damaged: its seal says which
    return CopyableSegment(reader=reader, footer=footer, seal=footer.seal, end=end, where=where)


def _check_said(end: FileEnd, footer: SegmentFooter, where: str) -> None:
    """Checks that these bytes say what the segment's reader, another one, has read in them.

    Raises:
        UnfamiliarLayoutError: they say more, or something else.
    """
    if not _says(end, footer, where):
        raise UnfamiliarLayoutError("it says more, or something else, than its reader has found in it")


def _says(end: FileEnd, footer: SegmentFooter, where: str) -> bool:
    key_values = end.key_values
    if set(key_values) != {*ARROW_METADATA, METADATA_KEY} or end.records != footer.records:
        return False
    if any(key_values[key] != value for key, value in ARROW_METADATA.items()):
        return False
    try:
        return decode_footer(key_values[METADATA_KEY], where=where) == footer
    except MirrorlakeError:
        return False


def _is_compressed(end: FileEnd, footer: SegmentFooter, compression: Compression) -> bool:
    """Tells whether pages are compressed as it is asked for. Those of zstd do not say their level: the segment does."""
    if end.codecs() != {_CODECS[compression]}:
        return False
    return compression is not Compression.ZSTD_3 or footer.compression == Compression.ZSTD_3
