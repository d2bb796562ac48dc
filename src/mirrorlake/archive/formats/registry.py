"""The formats of segments, by the names of the configuration."""

from mirrorlake.errors import UnsupportedError

PARQUET = "parquet"


def extension_of(format_name: str) -> str:
    """Returns the file extension of a format.

    Raises:
        UnsupportedError: this version does not write it.
    """
    if format_name != PARQUET:
        raise UnsupportedError(f"archive format {format_name} is not written by this version", hint="use parquet")
    return PARQUET
