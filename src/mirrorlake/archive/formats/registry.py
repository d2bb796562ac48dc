"""The formats of segments, by the names of the configuration and by the extensions of files."""

from mirrorlake.archive.formats.interface import SegmentReader
from mirrorlake.archive.formats.parquet_reader import ParquetSegmentReader
from mirrorlake.errors import UnsupportedError
from mirrorlake.stores.object_store import ObjectStore

PARQUET = "parquet"


def extension_of(format_name: str) -> str:
    """Returns the file extension of a format.

    Raises:
        UnsupportedError: this version does not write it.
    """
    if format_name != PARQUET:
        raise UnsupportedError(f"archive format {format_name} is not written by this version", hint="use parquet")
    return PARQUET


def open_segment(store: ObjectStore, key: str) -> SegmentReader:
    """Opens a segment of a store, in the format its extension names.

    Raises:
        ObjectMissingError: there is none.
        ChainBrokenError: not a whole segment.
        UnsupportedError: written by a later version.
    """
    return ParquetSegmentReader(store.open(key), where=key)
