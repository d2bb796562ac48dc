"""The checksums of a Parquet file's blocks, from its own end: what is read of it is compared without the rest."""

from collections.abc import Callable
from os import SEEK_END
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from mirrorlake.archive.blocks.sums import BlockSums
from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.seal import Seals, filled_from, flaw_of_end
from mirrorlake.errors import ChainBrokenError

END_BYTES_MAX = 64 << 20
"""A file whose end is longer is compared as a whole: an end has some kilobytes for each row group."""


def block_sums_of(
    file: BinaryIO, footer: SegmentFooter, metadata: pq.FileMetaData, broken: Callable[[str], ChainBrokenError]
) -> BlockSums | None:
    """Returns the checksums of all blocks of a file, those of its end included.

    The footer has those of the blocks of pages. What lies behind the last whole block of these is read here, and
    compared with them, with the seal of the file's end, and with what was parsed of it.

    Args:
        file: seekable.
        footer: its own.
        metadata: as it was parsed when the file was opened.
        broken: makes the error of what is wrong with the file.

    Returns:
        None where the footer has none, as in files by earlier versions, or speaks of so long an end that the whole file
        is better compared.

    Raises:
        ChainBrokenError: the end differs.
        MirrorlakeError: the store's.
    """
    pages = footer.pages
    if pages is None or footer.seal is None:
        return None
    whole_blocks, rest_bytes = divmod(pages.bytes, pages.blocks.block_bytes)
    start = pages.bytes - rest_bytes
    size = file.seek(0, SEEK_END)
    if not metadata.serialized_size < size - pages.bytes <= END_BYTES_MAX:
        return None
    behind = memoryview(bytearray(size - start))
    if not filled_from(file, behind, at=start):
        raise broken("is shorter than it was when it was opened")
    if rest_bytes and not pages.blocks.holds(whole_blocks, behind[:rest_bytes]):
        raise broken(f"has other bytes from {start} to {pages.bytes - 1} than its footer says")
    end = behind[rest_bytes:]
    if flaw := flaw_of_end(bytes(end), Seals(end=pages.end_seal, whole=footer.seal)):
        raise broken(flaw)
    found = pq.read_metadata(pa.BufferReader(end))
    if not (found.equals(metadata) and found.metadata == metadata.metadata):
        raise broken("has another footer than when it was opened")
    return pages.blocks.continued(whole_blocks, behind)
