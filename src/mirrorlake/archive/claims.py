"""Claims: small objects, one per start offset, that say where the segment from there will end.

The name of a segment does not keep two writers apart: 100–149 and 100–199 differ. The name of a claim holds
``from`` alone, so create-if-absent lets one end win, and whoever comes later reads it and cuts there too.
"""

import json
from dataclasses import asdict, dataclass

from mirrorlake.archive.names import EXTENSIONS, LAST_OFFSET_MAX

CLAIM_VERSION = 1

CLAIM_BYTES_MAX = 4096
"""More than any claim needs; longer content is not a claim."""

SEGMENT_RAW_BYTES_MAX = 1 << 30
"""Record bytes (keys, values, headers) no claimed range may exceed, unless it holds one record only.

Whoever adopts a claim must be able to write its segment, however small its own limits are, so every writer
cuts at this size at the latest and every writer can write this much.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a claim says; its start offset is in its name.

    Raises:
        ValueError: an offset out of range, or an unknown extension.
    """

    to_offset: int
    """Last offset of the segment, inclusive."""
    extension: str
    raw_bytes: int
    """Record bytes its writer found in the range; for whoever adopts it."""
    writer: str
    """Who made it; for people, and to tell one's own."""

    def __post_init__(self) -> None:
        if not 0 <= self.to_offset <= LAST_OFFSET_MAX or self.raw_bytes < 0:
            raise ValueError(f"not a claim: to {self.to_offset}, {self.raw_bytes} bytes")
        if self.extension not in EXTENSIONS:
            raise ValueError(f"not a format: {self.extension!r}")


def encode_claim(claim: Claim) -> bytes:
    """Returns the object's content: one JSON object, keys in this order, UTF-8, a line end."""
    return (json.dumps({"version": CLAIM_VERSION, **asdict(claim)}) + "\n").encode()


def decode_claim(data: bytes, *, from_offset: int) -> Claim | None:
    """Returns the claim for ``from_offset``, or None where the bytes are none: such a claim is void.

    Fields this version does not know are passed over, and those here keep their meaning in every version.
    """
    try:
        fields = json.loads(data) if len(data) <= CLAIM_BYTES_MAX else None
        if not isinstance(fields, dict) or not _has_types(fields) or fields["to_offset"] < from_offset:
            return None
        return Claim(**{name: fields[name] for name in _TYPES})
    except (ValueError, RecursionError):
        return None


_TYPES: dict[str, type] = {"to_offset": int, "extension": str, "raw_bytes": int, "writer": str}


def _has_types(fields: dict[str, object]) -> bool:
    # A bool is an int to isinstance, and not an offset to anybody.
    return all(type(fields.get(name)) is kind for name, kind in _TYPES.items())
