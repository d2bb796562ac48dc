"""Names of an archive: reversible, and canonical, so that one range has one name and one name one range."""

import re
from dataclasses import dataclass

from mirrorlake.errors import ConfigurationError
from mirrorlake.offsets import OffsetRange
from mirrorlake.stores.object_store import check_key_part

OFFSET_DIGITS = 20
"""Width of an offset in a name: mirror-v3's, for unsigned 64-bit numbers; names sort as offsets count."""

LAST_OFFSET_MAX = 2**63 - 2
"""The highest offset a name may hold: the position after it must still be a signed 64-bit number."""

EXTENSIONS = ("parquet", "ndjson", "log")
"""What the name of a segment may end in: one per format."""

RESERVED_MARK = "_"
"""Begins the names of all bookkeeping objects. Nothing that begins so is a segment; Spark skips it too."""

CLAIM_REVISION_MAX = 9
"""The highest revision of a claim that a name can hold; see `ClaimName`."""

FLOOR_PREFIX = f"{RESERVED_MARK}floor-"
"""Begins the names of floors; they sort after all segments and claims, so a listing shows them last."""

PARTITION_MAX = 2**31 - 1

NESTED_MAX = 8
"""Folders of a destination's name that are looked into."""

_SEGMENT = re.compile(r"([0-9]{20})-([0-9]{20})\.([a-z]+)", re.ASCII)
_CLAIM = re.compile(r"_claim-([0-9]{20})(?:\.([1-9]))?", re.ASCII)
_FLOOR = re.compile(r"_floor-([0-9]{20})", re.ASCII)
_PARTITION = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SegmentName:
    """The name of a segment; both offsets are inclusive, as in mirror-v3.

    Raises:
        ValueError: not ``0 <= from_offset <= to_offset <= LAST_OFFSET_MAX``, or an unknown extension.
    """

    from_offset: int
    to_offset: int
    extension: str

    def __post_init__(self) -> None:
        if not 0 <= self.from_offset <= self.to_offset <= LAST_OFFSET_MAX:
            raise ValueError(f"not the offsets of a segment: {self.from_offset} to {self.to_offset}")
        if self.extension not in EXTENSIONS:
            raise ValueError(f"not the extension of a segment: {self.extension!r}")

    def __str__(self) -> str:
        return f"{padded(self.from_offset)}-{padded(self.to_offset)}.{self.extension}"

    @property
    def end_offset(self) -> int:
        """The position after the segment: ``to_offset + 1``."""
        return self.to_offset + 1

    @property
    def offsets(self) -> OffsetRange:
        """The same range half-open."""
        return OffsetRange(start_offset=self.from_offset, end_offset=self.end_offset)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ClaimName:
    """The name of a claim to write the segment that begins at ``from_offset``.

    Generation 0 is the rule. A claim whose content cannot be read is void for everybody, and the claim is
    recreated under the next revision.

    Raises:
        ValueError: offset or revision out of range.
    """

    from_offset: int
    revision: int = 0

    def __post_init__(self) -> None:
        if not (0 <= self.from_offset <= LAST_OFFSET_MAX and 0 <= self.revision <= CLAIM_REVISION_MAX):
            raise ValueError(f"not a claim: offset {self.from_offset}, revision {self.revision}")

    def __str__(self) -> str:
        suffix = f".{self.revision}" if self.revision else ""
        return f"{RESERVED_MARK}claim-{padded(self.from_offset)}{suffix}"


def padded(offset: int) -> str:
    """Returns the offset as names hold it: 20 digits."""
    return f"{offset:0{OFFSET_DIGITS}d}"


def parse_segment_name(name: str) -> SegmentName | None:
    """Returns what ``name`` says, or None where it is not exactly what `SegmentName` writes."""
    if not (match := _SEGMENT.fullmatch(name)):
        return None
    try:
        return SegmentName(from_offset=int(match[1]), to_offset=int(match[2]), extension=match[3])
    except ValueError:
        return None


def parse_claim_name(name: str) -> ClaimName | None:
    """Returns what ``name`` says, or None where it is not exactly what `ClaimName` writes."""
    if not (match := _CLAIM.fullmatch(name)):
        return None
    try:
        return ClaimName(from_offset=int(match[1]), revision=int(match[2] or 0))
    except ValueError:
        return None


def floor_name(offset: int) -> str:
    """Returns the name of the marker that says: whatever ends at or below ``offset`` was retired."""
    return f"{FLOOR_PREFIX}{padded(offset)}"


def parse_floor_name(name: str) -> int | None:
    """Returns the offset of a floor, or None where ``name`` is not exactly what `floor_name` writes."""
    if not (match := _FLOOR.fullmatch(name)) or int(match[1]) > LAST_OFFSET_MAX:
        return None
    return int(match[1])


def partition_prefix(destination_name: str, partition: int) -> str:
    """Returns the folder of an archived partition: ``{destination_name}/{partition}``.

    Args:
        destination_name: a topic's name, or what the user put in its place; folders of it are parted by slashes.
        partition: the number of the source partition.

    Raises:
        ConfigurationError: a folder of the name is empty, ``.``, ``..``, holds a backslash or control character,
            or is longer than a file system takes; or the number is not that of a partition.
    """
    for part in destination_name.split("/"):
        check_key_part(part, what="destination name")
    if not 0 <= partition <= PARTITION_MAX:
        raise ConfigurationError(f"{partition} is not the number of a partition", partition=partition)
    return f"{destination_name}/{partition}"


def parse_partition_folder(name: str) -> int | None:
    """Returns the partition a folder of a topic stands for, or None where it is no plain decimal number."""
    if not _PARTITION.fullmatch(name) or int(name) > PARTITION_MAX:
        return None
    return int(name)
