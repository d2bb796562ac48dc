"""By which `select` the records of a copy were made, kept as a header of its progress record. Pure.

Versions before `select` write none and pass it over, and copy records as they are: none means that. Format, numbers
big-endian: int8 version 1, int64 source offset, then the fingerprint in ASCII.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

SELECT_HEADER = b"select"

_VERSION = 1
_SHAPE = struct.Struct(">bq")


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectMark:
    """Records of the offset map's newest runs from ``start_offset`` of the source on were made by one `select`.

    ``fingerprint`` is its own, empty where records were copied as they are. By which one those before were made is not
    known.
    """

    fingerprint: str = ""
    start_offset: int = 0

    def followed_by(self, fingerprint: str, start_offset: int) -> "SelectMark":
        """Returns the mark of a copy that goes on by a `select`, behind what its offset map names."""
        if fingerprint == self.fingerprint:
            return self
        return SelectMark(fingerprint=fingerprint, start_offset=start_offset)


AS_IT_IS_MARK = SelectMark()


def encode_mark(mark: SelectMark) -> bytes | None:
    """Returns the value of the header; None where there is none to write."""
    if mark == AS_IT_IS_MARK:
        return None
    return _SHAPE.pack(_VERSION, mark.start_offset) + mark.fingerprint.encode()


def decode_mark(headers: Iterable[Mapping[str, bytes | None]]) -> SelectMark:
    """Returns what the headers of a progress record say, of which others are passed over.

    A mark that is not understood, such as a later version's, is of a `select` that no mirror has.
    """
    found = next((each["value"] for each in headers if each["key"] == SELECT_HEADER), None)
    if found is None:
        return AS_IT_IS_MARK
    try:
        version, start_offset = _SHAPE.unpack_from(found)
        fingerprint = found[_SHAPE.size :].decode("ascii")
    except (struct.error, UnicodeDecodeError):
        version, start_offset, fingerprint = 0, 0, ""
    if version != _VERSION or start_offset < 0:
        return SelectMark(fingerprint="unknown", start_offset=0)
    return SelectMark(fingerprint=fingerprint, start_offset=start_offset)
