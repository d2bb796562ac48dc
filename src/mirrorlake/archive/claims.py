"""Claims: small objects, one per start offset, that say where the segment from there will end, and whose it is.

The name of a segment does not keep two writers apart: 100–149 and 100–199 differ. The name of a claim holds
``from`` alone, so create-if-absent lets one end win, and whoever comes later reads it and cuts there too.

What cannot be read as a claim at all is void: no writer of any version believes it. What can be read is never void,
however odd it is: its writer may live and count on it. It stops whoever cannot do as it says; see `check_claim`.
"""

import json
from dataclasses import dataclass, field

from mirrorlake.archive.names import LAST_OFFSET_MAX, ClaimName
from mirrorlake.archive.origin import Origin, check_origin
from mirrorlake.archive.seal import OPEN_SEAL, SEAL_ALGORITHM, flaw_of, sealed
from mirrorlake.errors import ChainBrokenError

CLAIM_VERSION = 1

CLAIM_BYTES_MAX = 4096
"""More than any claim needs; longer content is not a claim."""

SEGMENT_RAW_BYTES_MAX = 1 << 30
"""Record bytes (keys, values, headers) at which a claimed range ends: the record that reaches them is its last.

Whoever adopts a claim must be able to write its segment, however small its own limits are, so every writer
cuts at this size at the latest and every writer can write this much.
"""

RECORD_BYTES_MAX = (1 << 31) - 1
"""What one record can be at most, as its length is a signed 32-bit number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeClaim:
    """What a claim says; its start offset is in its name.

    Raises:
        ValueError: an offset out of range.
    """

    to_offset: int
    """Last offset of the segment, inclusive."""
    extension: str
    """The format the segment will have; of a later version's claim it may be one this version does not know."""
    raw_bytes: int
    """Record bytes its writer found in the range; for whoever adopts it."""
    writer: str
    """Who made it; for people, and to tell one's own."""
    origin: Origin | None = None
    """Whose records they are; None where its writer did not say, as early versions did not."""
    flaw: str = ""
    """What is wrong with its bytes, in words, though they can be read; empty where nothing is."""

    key: str = field(default="", compare=False)
    """Where it was read; empty where it was not."""

    def __post_init__(self) -> None:
        if not 0 <= self.to_offset <= LAST_OFFSET_MAX or self.raw_bytes < 0:
            raise ValueError(f"not a claim: to {self.to_offset}, {self.raw_bytes} bytes")

    @property
    def end_offset(self) -> int:
        """The position after the segment: ``to_offset + 1``."""
        return self.to_offset + 1


def encode_claim(claim: RangeClaim, name: ClaimName) -> bytes:
    """Returns the object's content: one JSON object, keys in this order, UTF-8, a line end.

    Args:
        claim: what it says.
        name: what it will be called: a copy under another name is told by it.
    """
    fields: dict[str, object] = {
        "version": CLAIM_VERSION,
        "to_offset": claim.to_offset,
        "extension": claim.extension,
        "raw_bytes": claim.raw_bytes,
        "writer": claim.writer,
        **_origin_fields(claim.origin),
        "from_offset": name.from_offset,
        "generation": name.revision,
        # Two fields, so that no damage to one name makes the bytes look as if they had never been sealed.
        "sealed_by": SEAL_ALGORITHM,
        "seal": OPEN_SEAL,
    }
    return sealed((json.dumps(fields) + "\n").encode())


def decode_claim(data: bytes, name: ClaimName) -> RangeClaim | None:
    """Returns what a claim says, or None where the bytes are none: such a claim is void.

    Fields this version does not know are passed over, and those here keep their meaning in every version. Early
    versions said neither whose records they are nor their name, and sealed nothing.

    Args:
        data: the object's content.
        name: what it is called.
    """
    try:
        fields = json.loads(data) if len(data) <= CLAIM_BYTES_MAX else None
        if not isinstance(fields, dict) or not _has_types(fields, _TYPES) or fields["to_offset"] < name.from_offset:
            return None
        return RangeClaim(
            **{field: fields[field] for field in _TYPES}, origin=_origin(fields), flaw=_flaw(data, fields, name)
        )
    except (ValueError, RecursionError):
        return None


def check_claim(claim: RangeClaim, key: str, *, extension: str, origin: Origin) -> None:
    """Checks that a writer may do as a claim says.

    Args:
        claim: the one that decides.
        key: where it is, for messages.
        extension: what the writer writes.
        origin: whose records it writes.

    Raises:
        ChainBrokenError: its bytes are damaged, or it is for a segment of another format.
        OtherSourceError, TopicRecreatedError: it is for a segment of another source.
    """
    if claim.flaw:
        raise ChainBrokenError(
            f"{key}, the claim of {claim.writer}, {claim.flaw}",
            hint=f"it was changed: stop every writer of this archive, then delete {key}",
            key=key,
        )
    if claim.extension != extension:
        raise ChainBrokenError(
            f"{key} claims a {claim.extension} segment for {claim.writer}, and this mirror writes {extension}",
            hint="archive each format under a destination name of its own; or, where no writer of the other "
            f"one runs any more, delete {key}",
            expected=extension,
            found=claim.extension,
            key=key,
        )
    if claim.origin is not None:
        check_origin(
            claim.origin,
            origin,
            what=f"{key} was claimed by {claim.writer} for a segment",
            remedy=f"; where no writer of the other one runs any more, delete {key}",
        )


_TYPES: dict[str, type] = {"to_offset": int, "extension": str, "raw_bytes": int, "writer": str}


def _has_types(fields: dict[str, object], types: dict[str, type]) -> bool:
    # A bool is an int to isinstance, and not an offset to anybody.
    return all(type(fields.get(name)) is kind for name, kind in types.items())


def _origin_fields(origin: Origin | None) -> dict[str, object]:
    if origin is None:
        return {}
    return {
        "cluster_id": origin.cluster_id,
        "topic_id": origin.topic_id,
        "topic": origin.topic,
        "partition": origin.partition,
    }


def _origin(fields: dict[str, object]) -> Origin | None:
    cluster_id, topic, partition = fields.get("cluster_id"), fields.get("topic"), fields.get("partition")
    if not isinstance(cluster_id, str) or not isinstance(topic, str) or type(partition) is not int:
        return None
    topic_id = fields.get("topic_id")
    return Origin(
        cluster_id=cluster_id,
        topic=topic,
        topic_id=topic_id if isinstance(topic_id, str) else None,
        partition=partition,
    )


def _flaw(data: bytes, fields: dict[str, object], name: ClaimName) -> str:
    """Returns what is wrong with bytes that can be read, in words."""
    if "seal" in fields or "sealed_by" in fields:
        seal = fields.get("seal")
        if fields.get("sealed_by") != SEAL_ALGORITHM or not isinstance(seal, str):
            return f"does not name its seal's algorithm ({SEAL_ALGORITHM} was expected)"
        if flaw := flaw_of(data, seal):
            return flaw
    named = (fields.get("from_offset", name.from_offset), fields.get("generation", name.revision))
    if named != (name.from_offset, name.revision):
        return f"says of itself that it is of offset {named[0]}, revision {named[1]}: it was renamed or copied"
    return ""
