"""From which source offset on a copy has found no record, kept as a header of its progress record. Pure.

The offset map names the offsets of records that were copied. All others look alike in it: an aborted transaction, what
a filter left out, what the source had deleted. The mark tells the first kind at the end of a copy, where a record that
is there now says that the source's log was cut and rewritten. Versions before write none and pass it over. Format,
numbers big-endian: int8 version 1, int64 source offset.
"""

import struct
from collections.abc import Iterable, Mapping

EMPTY_HEADER = b"empty-from"

_VERSION = 1
_SHAPE = struct.Struct(">bq")


def encode_empty_mark(empty_from: int | None) -> bytes | None:
    """Returns the value of the header; None where there is none to write."""
    return None if empty_from is None else _SHAPE.pack(_VERSION, empty_from)


def decode_empty_mark(headers: Iterable[Mapping[str, bytes | None]]) -> int | None:
    """Returns what the headers of a progress record say, of which others are passed over.

    A mark that is not understood, such as a later version's, says as little as none.
    """
    found = next((each["value"] for each in headers if each["key"] == EMPTY_HEADER), None)
    if found is None or len(found) != _SHAPE.size:
        return None
    version, empty_from = _SHAPE.unpack(found)
    return empty_from if version == _VERSION and empty_from >= 0 else None
