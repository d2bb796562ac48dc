"""The formats of segments, by the names of the configuration, which are the extensions of files too."""

from typing import BinaryIO

from mirrorlake.archive.envelope import SegmentEnvelope
from mirrorlake.archive.formats.interface import RecordWriter, SegmentReader
from mirrorlake.archive.formats.name_check import check_range_named
from mirrorlake.archive.formats.parquet import ParquetSegmentWriter
from mirrorlake.archive.formats.parquet_reader import ParquetSegmentReader
from mirrorlake.archive.layouts.foreign_store import ForeignStore
from mirrorlake.archive.sidecar import find_sidecar
from mirrorlake.errors import ChainBrokenError, UnsupportedError
from mirrorlake.page_compression import Compression
from mirrorlake.stores.object_store import ObjectStore

PARQUET = "parquet"
NDJSON = "ndjson"

LOG = "log"

WRITTEN = (PARQUET, NDJSON, LOG)


def extension_of(format_name: str) -> str:
    """Returns the file extension of a format.

    Raises:
        UnsupportedError: this version does not write it.
    """
    if format_name not in WRITTEN:
        raise UnsupportedError(
            f"archive format {format_name} is not written by this version", hint=f"use one of {', '.join(WRITTEN)}"
        )
    return format_name


def record_writer(extension: str, file: BinaryIO, envelope: SegmentEnvelope, *, compression: str) -> RecordWriter:
    """Returns the writer of a format that takes decoded records.

    Args:
        extension: the format's.
        file: takes the bytes in order; need not seek.
        envelope: whose records these are.
        compression: of the pages, by mirror-v3's names; only Parquet has any.
    """
    if extension == NDJSON:
        # Loads compiled code, which who only lists archives need not wait for.
        from mirrorlake.archive.formats.ndjson import NdjsonSegmentWriter

        return NdjsonSegmentWriter(file, envelope)
    assert extension == PARQUET, f"{extension} segments are not made of decoded records"
    return ParquetSegmentWriter(file, envelope, compression=Compression(compression))


def open_segment(store: ObjectStore, key: str, *, opened: BinaryIO | None = None) -> SegmentReader:
    """Opens a segment of a store, in the format its extension names, and compares its name with what it says it holds.

    Args:
        store: where it lies.
        key: which.
        opened: the same as a seekable file, where the caller has one already; it is the reader's from now on.

    Raises:
        ObjectMissingError: there is none.
        ChainBrokenError: not a whole segment, or not one; or it says that it holds another range than its name says.
        UnsupportedError: written by a later version.
    """
    reader = open_under_any_name(store, key, opened=opened)
    try:
        check_range_named(key, reader.footer)
    except BaseException:
        reader.close()
        raise
    return reader


def open_under_any_name(store: ObjectStore, key: str, *, opened: BinaryIO | None = None) -> SegmentReader:
    """Opens a segment that may have another range's name, to learn what kind of file it is.

    A description goes after its segment. Where none is found the segment is looked for once more: one that a merge has
    deleted since it was opened has none any more, and must not be taken for one that never had any.

    Args:
        store: where it lies.
        key: which.
        opened: see `open_segment`.

    Raises:
        ObjectMissingError, ChainBrokenError, UnsupportedError: see `open_segment`.
    """
    if isinstance(store, ForeignStore):
        return store.reader(key, opened)
    extension = key.rpartition(".")[2]
    if extension not in WRITTEN:
        raise ChainBrokenError(f"{key} is not the name of a segment this version reads", key=key)
    file = opened or store.open(key)
    if extension == PARQUET:
        return ParquetSegmentReader(file, where=key)
    try:
        footer = find_sidecar(store, key, file)
        if footer is None:
            store.open(key).close()
        if extension == LOG:
            from mirrorlake.archive.formats.log_reader import LogSegmentReader

            return LogSegmentReader(file, footer=footer, where=key)
        from mirrorlake.archive.formats.ndjson_reader import NdjsonSegmentReader

        return NdjsonSegmentReader(file, footer=footer, where=key)
    except BaseException:
        file.close()
        raise
