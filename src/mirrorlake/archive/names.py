"""Names of an archive: reversible, and canonical, so that one range has one name and one name one range."""

import re
from dataclasses import dataclass

from mirrorlake.errors import ChainBrokenError, ConfigurationError
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

MERGE_PREFIX = f"{RESERVED_MARK}merge-"
"""Begins the names of what mergers intend to publish; see `MergeName`."""

RETIRE_PREFIX = f"{RESERVED_MARK}retire-"
"""Begins the names of what retention is about to retire; see `RetireName`."""

HOLD_PREFIX = f"{RESERVED_MARK}hold-"
"""Begins the names of holds, which lie in the topic's folder; see `HoldName`."""

ERASE_PREFIX = f"{RESERVED_MARK}erase-"
"""Begins the names of what erasers intend to publish; they sort before floors and what mergers intend."""

PARTITION_MAX = 2**31 - 1

NESTED_MAX = 8
"""Folders of a destination's name that are looked into."""

_SEGMENT = re.compile(r"([0-9]{20})-([0-9]{20})\.([a-z]+)", re.ASCII)
_CLAIM = re.compile(r"_claim-([0-9]{20})(?:\.([1-9]))?", re.ASCII)
_FLOOR = re.compile(r"_floor-([0-9]{20})", re.ASCII)
_MERGE = re.compile(r"_(merge|erase)-([0-9]{20})-([0-9]{20})-([0-9a-z]{1,32})", re.ASCII)
_RETIRE = re.compile(r"_retire-([0-9]{20})-([0-9a-z]{1,32})", re.ASCII)
_LABEL = re.compile(r"[a-z0-9][a-z0-9-]{0,63}", re.ASCII)
_HOLD = re.compile(rf"_hold-({_LABEL.pattern})(?:\.(0|[1-9][0-9]{{0,9}})(?:\.([0-9]{{20}})-([0-9]{{20}}))?)?", re.ASCII)
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


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class MergeName:
    """The name of what one merger is about to publish: one segment of this range, both offsets inclusive.

    ``token`` is of one merger and one attempt, so that no two ever make the same name: lower-case letters and digits.
    With ``erases`` it is an eraser's, whose segment does not hold all that its inputs held.

    Raises:
        ValueError: not ``0 <= from_offset <= to_offset <= LAST_OFFSET_MAX``, or not a token.
    """

    from_offset: int
    to_offset: int
    token: str
    erases: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.from_offset <= self.to_offset <= LAST_OFFSET_MAX:
            raise ValueError(f"not the offsets of a segment: {self.from_offset} to {self.to_offset}")
        if not _MERGE.fullmatch(str(self)):
            raise ValueError(f"not a token: {self.token!r}")

    def __str__(self) -> str:
        prefix = ERASE_PREFIX if self.erases else MERGE_PREFIX
        return f"{prefix}{padded(self.from_offset)}-{padded(self.to_offset)}-{self.token}"

    @property
    def offsets(self) -> OffsetRange:
        """The same range half-open."""
        return OffsetRange(start_offset=self.from_offset, end_offset=self.to_offset + 1)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class RetireName:
    """The name of what one run of retention is about to do: to write the floor ``offset``, or a lower one.

    ``token`` is of one run alone: lower-case letters and digits.

    Raises:
        ValueError: offset out of range, or not a token.
    """

    offset: int
    token: str

    def __post_init__(self) -> None:
        if not 0 <= self.offset <= LAST_OFFSET_MAX + 1 or not _RETIRE.fullmatch(str(self)):
            raise ValueError(f"not an announcement of retention: {self.offset}, {self.token!r}")

    def __str__(self) -> str:
        return f"{RETIRE_PREFIX}{padded(self.offset)}-{self.token}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldName:
    """The name of a hold: what it is of, so that nobody needs to read it to keep it.

    ``partition`` None is the whole topic, of whatever partitions it gets; ``first`` and ``last`` (both inclusive) are
    given together, and only with a partition; without them it is the whole partition, whatever is to come.

    Raises:
        ValueError: not a label of lower-case letters, digits and dashes, or not such a partition or range.
    """

    label: str
    partition: int | None = None
    first: int | None = None
    last: int | None = None

    def __post_init__(self) -> None:
        is_whole = self.first is None and self.last is None
        if not is_whole and (
            self.partition is None
            or self.first is None
            or self.last is None
            or not 0 <= self.first <= self.last <= LAST_OFFSET_MAX
        ):
            raise ValueError(f"not the offsets of a hold: {self.first} to {self.last}")
        if self.partition is not None and not 0 <= self.partition <= PARTITION_MAX:
            raise ValueError(f"not the partition of a hold: {self.partition}")
        # Not the whole name: `a.1` would be read as partition 1 of `a`.
        if not _LABEL.fullmatch(self.label):
            raise ValueError(f"not the label of a hold: {self.label!r}")

    def __str__(self) -> str:
        where = "" if self.partition is None else f".{self.partition}"
        if self.first is not None and self.last is not None:
            where += f".{padded(self.first)}-{padded(self.last)}"
        return f"{HOLD_PREFIX}{self.label}{where}"

    @property
    def offsets(self) -> OffsetRange:
        """What it holds of a partition that it concerns, half-open."""
        last = LAST_OFFSET_MAX if self.last is None else self.last
        return OffsetRange(start_offset=self.first or 0, end_offset=last + 1)

    def concerns(self, partition: int) -> bool:
        """Tells whether it holds anything of a partition."""
        return self.partition in (None, partition)


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


def parse_merge_name(name: str) -> MergeName | None:
    """Returns what ``name`` says, or None where it is not exactly what `MergeName` writes."""
    if not (match := _MERGE.fullmatch(name)):
        return None
    try:
        return MergeName(from_offset=int(match[2]), to_offset=int(match[3]), token=match[4], erases=match[1] == "erase")
    except ValueError:
        return None


def parse_retire_name(name: str) -> RetireName | None:
    """Returns what ``name`` says, or None where it is not exactly what `RetireName` writes."""
    if not (match := _RETIRE.fullmatch(name)):
        return None
    try:
        return RetireName(offset=int(match[1]), token=match[2])
    except ValueError:
        return None


def parse_hold_name(name: str) -> HoldName | None:
    """Returns what ``name`` says, or None where it is not exactly what `HoldName` writes."""
    if not (match := _HOLD.fullmatch(name)):
        return None
    partition, first, last = (None if part is None else int(part) for part in match.groups()[1:])
    try:
        return HoldName(label=match[1], partition=partition, first=first, last=last)
    except ValueError:
        return None


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


def foreign_name(name: str, where: str) -> ChainBrokenError:
    """Returns the error of a name that is none of ours."""
    example = SegmentName(from_offset=0, to_offset=99, extension="parquet")
    return ChainBrokenError(
        f"{where}: {name!r} is not a name mirrorlake writes (its segments are named like {example})",
        hint="move it out of the folder",
        name=name,
    )


def dangling_name(name: str, where: str) -> ChainBrokenError:
    """Returns the error of a link whose file is not there."""
    return ChainBrokenError(
        f"{where}: {name} is a link that leads nowhere",
        hint="mount the file system it leads to, or put the file back; then restart",
        name=name,
    )


def special_name(name: str, where: str) -> ChainBrokenError:
    """Returns the error of a name that is no file's."""
    return ChainBrokenError(
        f"{where}: {name} is no file, but a pipe, a socket or a device",
        hint="move it out of the folder",
        name=name,
    )


def other_format(name: SegmentName, extension: str, where: str) -> ChainBrokenError:
    """Returns the error of a segment of another format than is written there."""
    return ChainBrokenError(
        f"{where}: {name} is {name.extension}, and this mirror writes {extension}",
        hint=f"set `format: {name.extension}`, or choose another destination name for {extension}",
        name=str(name),
        expected=extension,
        found=name.extension,
    )
