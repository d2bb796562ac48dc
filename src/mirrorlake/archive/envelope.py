"""What a segment says about itself: whose records they are, which range, how many, and their checksum."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace

from mirrorlake.archive.blocks.sums import (
    BlockSums,
    PageSums,
    block_fields,
    block_sums_in,
    page_fields,
    page_sums_in,
)
from mirrorlake.archive.checksum import ALGORITHM, CHECKSUM_DIGITS, PARTS_ALGORITHM, RecordPart, checksum_of_parts
from mirrorlake.archive.schemas.id_counts import counts_in, fields_of
from mirrorlake.archive.seal import SEAL_ALGORITHM, Seals
from mirrorlake.errors import ChainBrokenError, UnsupportedError
from mirrorlake.kafka.schema_ids.counts import SchemaIdCounts
from mirrorlake.offsets import Gap, GapKind, OffsetRange

FORMAT_VERSION = 1
"""Version of the segment format this package writes, and the newest it reads."""

SELECTS_DIFFER = "several"
"""In the place of a fingerprint: records of the segment were made by more than one `select`, or some by none."""

METADATA_KEY = b"mirrorlake"

FILE_ALGORITHM = "xxh3-128"
"""The checksum of a file's bytes, which formats without a footer of their own are told by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSum:
    """How long a file is, and the XXH3 128-bit hash of its bytes; of a log, of each block of them too, else None."""

    bytes: int
    checksum: str
    # They follow from the bytes, which the checksum tells apart.
    blocks: BlockSums | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        """``27 bytes with checksum 99aa…``, as messages have it."""
        return f"{self.bytes} bytes with checksum {self.checksum}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentEnvelope:
    """What is known of a segment before its first record.

    ``topic_id`` is None where the source's broker knows no topic ids. ``created_at`` is RFC 3339 in UTC.
    ``follows_mirror_v3`` says that mirror-v3 wrote the segment before it. ``select`` is the fingerprint of the mirror's
    `select` that made its records, empty where they are as they were, and ``SELECTS_DIFFER`` where several did.
    """

    cluster_id: str
    topic_id: str | None
    topic: str
    partition: int
    start_offset: int
    writer: str
    created_at: str
    follows_mirror_v3: bool = False
    select: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotState:
    """What a snapshot says more than another segment: it holds a view, the latest record of every key.

    ``complete_since_ms`` is in Unix milliseconds of the writer's clock: no tombstone at or past the snapshot's end can
    have been removed at the source before ``delete.retention.ms`` had passed since then. ``is_exact`` says that every
    record below the end that matters to the view was read before it could be removed: with all records from the end
    on, it makes the right view. ``leader_epoch`` is set where ``complete_since_ms`` is true of the source's leader of
    that epoch alone, and None where it is of every replica, as each is cleaned for itself. ``holds_tombstones`` says
    that a key whose latest record is a tombstone is there with it, and not left out. ``erased`` is how many records
    erasers have taken out of this very view: above 0 only in one that counts in the place of another.
    """

    complete_since_ms: int
    is_exact: bool = False
    leader_epoch: int | None = None
    holds_tombstones: bool = False
    erased: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFooter:
    """What is known of a segment once it is complete.

    Attributes:
        envelope: what was known before.
        end_offset: exclusive.
        records: how many.
        raw_bytes: bytes of keys, values and headers.
        first_offset: of the first record; None where there is none. Likewise ``last_offset``.
        timestamp_ms_min: lowest timestamp of a record that has one; None where none has. Likewise the max.
        gap_offsets: offsets without record, by kind; complete.
        gaps: those gaps in offset order; at most ``GAPS_LISTED_MAX``.
        gaps_complete: False where ``gaps`` leaves absent ones out; they follow from the offsets.
        checksum: see `ContentChecksum`.
        leader_epoch: the latest source leader epoch of what was read for it; None where it is not known.
        snapshot: for a snapshot, None for any other segment. Of a snapshot ``records``, ``raw_bytes``, timestamps and
            ``checksum`` are the view's, first and last offset the lowest and highest in it; the gaps are those of the
            range, as in any segment.
        algorithm: what ``checksum`` is: of the records, of ``parts``, or, where they were never decoded, of the file.
        parts: runs of records with a checksum each, up to ``end_offset``, where ``checksum`` is of those; else none.
        schema_ids: what its records have where a schema is named, of the sides that were counted; None where none was,
            and nothing is known.
        compression: of a Parquet segment's pages, as it was asked for; empty where it does not say.
        file: the file's own length and checksum, where this stands beside it; None where it is part of the file.
        pages: of a Parquet segment's bytes, so that a part of them can be compared without the rest; None in files by
            earlier versions, and of other formats.
        seal: of the bytes that hold this: see `mirrorlake.archive.seal`. None where they were written without one.
    """

    envelope: SegmentEnvelope
    end_offset: int
    records: int
    raw_bytes: int
    first_offset: int | None
    last_offset: int | None
    timestamp_ms_min: int | None
    timestamp_ms_max: int | None
    gap_offsets: dict[GapKind, int]
    gaps: tuple[Gap, ...]
    gaps_complete: bool
    checksum: str
    leader_epoch: int | None = None
    snapshot: SnapshotState | None = None
    algorithm: str = ALGORITHM
    parts: tuple[RecordPart, ...] = ()
    file: FileSum | None = None
    schema_ids: SchemaIdCounts | None = None
    # Of the bytes, not of what they say: two that say the same are equal.
    compression: str = field(default="", compare=False)
    pages: PageSums | None = field(default=None, compare=False, repr=False)
    seal: str | None = field(default=None, compare=False)

    @property
    def offsets(self) -> OffsetRange:
        """The range the segment covers."""
        return OffsetRange(start_offset=self.envelope.start_offset, end_offset=self.end_offset)


def encode_footer(footer: SegmentFooter) -> bytes:
    """Returns the footer as one JSON object in UTF-8; field by field in ``docs/archive-format.md``."""
    envelope = footer.envelope
    fields = {
        "format_version": FORMAT_VERSION,
        "cluster_id": envelope.cluster_id,
        "topic_id": envelope.topic_id,
        "topic": envelope.topic,
        "partition": envelope.partition,
        "start_offset": envelope.start_offset,
        "end_offset": footer.end_offset,
        "records": footer.records,
        "raw_bytes": footer.raw_bytes,
        "first_offset": footer.first_offset,
        "last_offset": footer.last_offset,
        "timestamp_ms_min": footer.timestamp_ms_min,
        "timestamp_ms_max": footer.timestamp_ms_max,
        "gap_offsets": {kind.value: count for kind, count in footer.gap_offsets.items()},
        "gaps": [[gap.offsets.start_offset, gap.offsets.end_offset, gap.kind.value] for gap in footer.gaps],
        "gaps_complete": footer.gaps_complete,
        "checksum": {"algorithm": footer.algorithm, "value": footer.checksum},
        **({"parts": [[part.end_offset, part.checksum] for part in footer.parts]} if footer.parts else {}),
        **({} if footer.leader_epoch is None else {"leader_epoch": footer.leader_epoch}),
        **({} if footer.snapshot is None else {"snapshot": _snapshot_fields(footer.snapshot)}),
        "writer": envelope.writer,
        "created_at": envelope.created_at,
        **({"follows_mirror_v3": True} if envelope.follows_mirror_v3 else {}),
        **({"select": envelope.select} if envelope.select else {}),
        **({} if footer.schema_ids is None else {"schema_ids": fields_of(footer.schema_ids)}),
        **({"compression": footer.compression} if footer.compression else {}),
        **({} if footer.file is None else {"file": _file_fields(footer.file)}),
        # Behind all that is said, and right before the seal: both are written in the place of zeros.
        **({} if footer.pages is None else {"pages": page_fields(footer.pages)}),
        # Two fields, so that no damage to one name makes the bytes look as if they had never been sealed.
        **({} if footer.seal is None else {"sealed_by": SEAL_ALGORITHM, "seal": footer.seal}),
    }
    return json.dumps(fields).encode()


def with_seals(footer: SegmentFooter, seals: Seals) -> SegmentFooter:
    """Returns the footer of a Parquet file as it was sealed."""
    assert footer.pages is not None, "no end to be sealed"
    return replace(footer, pages=replace(footer.pages, end_seal=seals.end), seal=seals.whole)


def _snapshot_fields(snapshot: SnapshotState) -> dict[str, object]:
    fields = {name: value for name, value in asdict(snapshot).items() if value is not None}
    for name in ("holds_tombstones", "erased"):
        if not fields[name]:
            del fields[name]
    return fields


def _file_fields(file: FileSum) -> dict[str, object]:
    fields = {"bytes": file.bytes, "checksum": {"algorithm": FILE_ALGORITHM, "value": file.checksum}}
    return fields if file.blocks is None else {**fields, "blocks": block_fields(file.blocks)}


def decode_footer(data: bytes, *, where: str) -> SegmentFooter:
    """Returns what `encode_footer` wrote; fields this version does not know are passed over.

    Raises:
        UnsupportedError: a later version wrote it.
        ChainBrokenError: it is not a footer of ours.
    """
    try:
        fields = json.loads(data)
        version = fields["format_version"]
        if isinstance(version, int) and version > FORMAT_VERSION:
            raise UnsupportedError(
                f"{where}: segment format {version}, and this version of mirrorlake reads up to {FORMAT_VERSION}",
                hint="read it with a newer mirrorlake",
                format_version=version,
            )
        return _footer(fields)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ChainBrokenError(
            f"{where}: its footer is not one of mirrorlake's, or was damaged",
            hint="put it back from a copy, or archive the range again",
        ) from error


def _footer(fields: dict[str, object]) -> SegmentFooter:
    algorithm, checksum = _checksum(fields["checksum"])
    if fields["format_version"] != FORMAT_VERSION or algorithm not in (ALGORITHM, PARTS_ALGORITHM, FILE_ALGORITHM):
        raise ValueError(f"version {fields['format_version']} with checksum {algorithm}")
    footer = SegmentFooter(
        envelope=SegmentEnvelope(
            cluster_id=_text(fields["cluster_id"]),
            topic_id=None if fields["topic_id"] is None else _text(fields["topic_id"]),
            topic=_text(fields["topic"]),
            partition=_number(fields["partition"]),
            start_offset=_number(fields["start_offset"]),
            writer=_text(fields["writer"]),
            created_at=_text(fields["created_at"]),
            follows_mirror_v3=fields.get("follows_mirror_v3") is True,
            select=_text(fields.get("select", "")),
        ),
        end_offset=_number(fields["end_offset"]),
        records=_number(fields["records"]),
        raw_bytes=_number(fields["raw_bytes"]),
        first_offset=_number_or_none(fields["first_offset"]),
        last_offset=_number_or_none(fields["last_offset"]),
        timestamp_ms_min=_number_or_none(fields["timestamp_ms_min"]),
        timestamp_ms_max=_number_or_none(fields["timestamp_ms_max"]),
        gap_offsets={GapKind(kind): _number(count) for kind, count in _pairs(fields["gap_offsets"])},
        gaps=tuple(_gap(gap) for gap in _items(fields["gaps"])),
        gaps_complete=fields["gaps_complete"] is True,
        checksum=checksum,
        leader_epoch=_number_or_none(fields.get("leader_epoch")),
        snapshot=None if fields.get("snapshot") is None else _snapshot(fields["snapshot"]),
        algorithm=algorithm,
        parts=tuple(_part(part) for part in _items(fields.get("parts", []))),
        compression=_text(fields.get("compression", "")),
        file=_file(fields["file"]) if "file" in fields else None,
        pages=page_sums_in(fields["pages"]) if "pages" in fields else None,
        seal=_seal(fields) if "seal" in fields or "sealed_by" in fields else None,
    )
    _ = footer.offsets  # a range, or ValueError
    _check_parts(footer)
    return replace(footer, schema_ids=_schema_ids(fields, footer)) if "schema_ids" in fields else footer


def _schema_ids(fields: dict[str, object], footer: SegmentFooter) -> SchemaIdCounts | None:
    first, last = footer.first_offset, footer.last_offset
    return counts_in(fields["schema_ids"], records=footer.records, first_offset=first, last_offset=last)


def _check_parts(footer: SegmentFooter) -> None:
    if (footer.algorithm == PARTS_ALGORITHM) != bool(footer.parts):
        raise ValueError(f"{len(footer.parts)} parts with checksum {footer.algorithm}")
    if not footer.parts:
        return
    ends = [footer.envelope.start_offset, *(part.end_offset for part in footer.parts)]
    if footer.snapshot is not None or any(end <= start for start, end in itertools.pairwise(ends)):
        raise ValueError(f"parts that end at {ends[1:]}")
    if ends[-1] != footer.end_offset or checksum_of_parts(footer.parts) != footer.checksum:
        raise ValueError("parts that are not those of its checksum")


def _part(value: object) -> RecordPart:
    end, checksum = _items(value)
    text = _text(checksum)
    if len(text) != CHECKSUM_DIGITS:
        raise ValueError(f"a checksum of {len(text)} digits")
    bytes.fromhex(text)
    return RecordPart(end_offset=_number(end), checksum=text)


def _snapshot(value: object) -> SnapshotState:
    fields = dict(_pairs(value))
    return SnapshotState(
        complete_since_ms=_number(fields["complete_since_ms"]),
        is_exact=fields.get("is_exact", False) is True,
        leader_epoch=_number_or_none(fields.get("leader_epoch")),
        holds_tombstones=fields.get("holds_tombstones", False) is True,
        erased=_number(fields.get("erased", 0)),
    )


def _gap(value: object) -> Gap:
    start, end, kind = _items(value)
    return Gap(offsets=OffsetRange(start_offset=_number(start), end_offset=_number(end)), kind=GapKind(_text(kind)))


def _file(value: object) -> FileSum:
    fields = dict(_pairs(value))
    algorithm, checksum = _checksum(fields["checksum"])
    if algorithm != FILE_ALGORITHM:
        raise ValueError(f"file checksum {algorithm}")
    size = _number(fields["bytes"])
    blocks = block_sums_in(fields["blocks"], file_bytes=size) if "blocks" in fields else None
    return FileSum(bytes=size, checksum=checksum, blocks=blocks)


def _seal(fields: dict[str, object]) -> str:
    if fields["sealed_by"] != SEAL_ALGORITHM:
        raise ValueError(f"sealed by {fields['sealed_by']}")
    return _text(fields["seal"])


def _checksum(value: object) -> tuple[str, str]:
    fields = dict(_pairs(value))
    return _text(fields["algorithm"]), _text(fields["value"])


def _pairs(value: object) -> Sequence[tuple[str, object]]:
    if not isinstance(value, dict):
        raise TypeError(f"not an object: {value!r}")
    return list(value.items())


def _items(value: object) -> Sequence[object]:
    if not isinstance(value, list):
        raise TypeError(f"not a list: {value!r}")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"not a whole number: {value!r}")
    return value


def _number_or_none(value: object) -> int | None:
    return None if value is None else _number(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"not a text: {value!r}")
    return value
