"""By which route a topic took the records of a source partition, kept as a header of its progress record. Pure.

Versions before write none and pass it over: of a copy without one it is not known by which route it was made. Format,
numbers big-endian: int8 version 1, int64 source offset, then fingerprint and former fingerprint in ASCII, a space
between them.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

ROUTE_HEADER = b"route"

_VERSION = 1
_SHAPE = struct.Struct(">bq")


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteMark:
    """Records from ``start_offset`` of the source on were taken by one route.

    ``fingerprint`` is its own (`Branch.fingerprint`), empty where it is not known, or there was none. ``former`` is
    that of the route before, empty where the copy began by this one, or its position was moved by hand since.
    """

    fingerprint: str = ""
    start_offset: int = 0
    former: str = ""

    def followed_by(self, fingerprint: str, position: int) -> "RouteMark":
        """Returns the mark of a copy that goes on by a route from a source offset on."""
        if fingerprint == self.fingerprint:
            return self
        return RouteMark(fingerprint=fingerprint, start_offset=position, former=self.fingerprint)


UNMARKED = RouteMark()


def encode_route_mark(mark: RouteMark) -> bytes | None:
    """Returns the value of the header; None where there is none to write."""
    if not mark.fingerprint:
        return None
    return _SHAPE.pack(_VERSION, mark.start_offset) + f"{mark.fingerprint} {mark.former}".encode()


def decode_route_mark(headers: Iterable[Mapping[str, bytes | None]]) -> RouteMark:
    """Returns what the headers of a progress record say, of which others are passed over.

    A mark that is not understood, such as a later version's, says as little as none.
    """
    found = next((each["value"] for each in headers if each["key"] == ROUTE_HEADER), None)
    if found is None:
        return UNMARKED
    try:
        version, start_offset = _SHAPE.unpack_from(found)
        fingerprint, _, former = found[_SHAPE.size :].decode("ascii").partition(" ")
    except (struct.error, UnicodeDecodeError):
        return UNMARKED
    if version != _VERSION or start_offset < 0:
        return UNMARKED
    return RouteMark(fingerprint=fingerprint, start_offset=start_offset, former=former)
