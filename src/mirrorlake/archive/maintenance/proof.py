"""Proving that a segment holds what the segments inside of it hold, before those may go.

Each of the smaller ones says its number of records and their checksum; the larger one is read once, and what it holds
of each range is counted and summed up on the way. So damage in either is found, and nothing is taken on trust from the
one that merged them.

Records that were erased are missing in one of the two by intention: where either says that offsets were erased, both
are read, and compared without these.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import xxhash

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.checksum import RecordChecksum, RecordPart, checksum_by
from mirrorlake.archive.envelope import FileSum, SegmentFooter
from mirrorlake.archive.folder import PartitionFolder
from mirrorlake.archive.formats.interface import SegmentReader
from mirrorlake.archive.formats.log_batches import log_batch
from mirrorlake.archive.formats.log_reader import LogSegmentReader
from mirrorlake.archive.formats.record_order import within_range
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.formats.summing_file import sum_of
from mirrorlake.archive.maintenance.offset_runs import OffsetRuns
from mirrorlake.archive.maintenance.range_sweep import RangeSweep
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.errors import ChainBrokenError, MirrorlakeError
from mirrorlake.kafka.records.batches import Batch
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.offsets import OffsetRange
from mirrorlake.stores.object_store import ObjectMissingError


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a segment holds: how many records, and a checksum of them, or of a log's bytes.

    With ``parts`` the checksum is that of runs of records. With ``without`` it is of the records, in every format, but
    for those of these offsets; None where it is of all.
    """

    offsets: OffsetRange
    records: int
    checksum: str
    parts: tuple[RecordPart, ...] = ()
    without: OffsetRuns | None = None


@dataclass(slots=True)
class HeldSum:
    """What a larger segment holds of one range, as it is read."""

    offsets: OffsetRange
    without: OffsetRuns | None = None
    parts: tuple[RecordPart, ...] = ()
    records: int = 0
    columns: RecordChecksum = field(init=False)
    bytes: "xxhash.xxh3_128" = field(default_factory=xxhash.xxh3_128)

    def __post_init__(self) -> None:
        self.columns = checksum_by(self.parts)

    @classmethod
    def of(cls, part: Content) -> "HeldSum":
        """Returns what is to be compared with a part."""
        return cls(offsets=part.offsets, without=part.without, parts=part.parts)

    def take(self, columns: RecordColumns) -> None:
        """Takes those of the records that lie in the range."""
        kept = within_range(columns, self.offsets)
        if self.without is not None and (erased := self.without.hold(kept.offsets)).any():
            rows = np.flatnonzero(~erased)
            kept = kept.relocated(rows, kept.offsets[rows])
        if len(kept):
            self.records += len(kept)
            self.columns.update(kept)


def content_of(archived: ArchivedPartition, segment: Segment) -> Content | None:
    """Returns what a segment says it holds; what mirror-v3 wrote says nothing, and is read. None where it is gone.

    Raises:
        ChainBrokenError: it is damaged, or holds another range than its name says.
        MirrorlakeError: it could not be read.
    """
    key = f"{archived.prefix}/{segment.name}"
    try:
        with open_segment(archived.store, key) as reader:
            if reader.footer is not None:
                return said_by(reader.footer, segment, key=key)
            return _read(reader, segment)
    except ObjectMissingError:
        return None


def content_without(archived: ArchivedPartition, segment: Segment, erased: OffsetRuns) -> Content | None:
    """Reads a segment, compares it with what it says of itself, and returns what it holds but for some offsets.

    Also left out are offsets that it says were erased from it. None where it is gone.

    Raises:
        ChainBrokenError: it is damaged, or holds another range than its name says.
        MirrorlakeError: it could not be read.
    """
    key = f"{archived.prefix}/{segment.name}"
    try:
        with open_segment(archived.store, key) as reader:
            if reader.footer is not None:
                said_by(reader.footer, segment, key=key)
            without = erased.joined(OffsetRuns.erased_by(reader.footer)).within(segment.name.offsets)
            reader.check_content()
            return _read(reader, segment, without=without)
    except ObjectMissingError:
        return None


def said_by(footer: SegmentFooter, segment: Segment, *, key: str) -> Content:
    """Returns what a segment's footer says it holds.

    Raises:
        ChainBrokenError: it is of another range than the name.
    """
    if footer.offsets != segment.name.offsets:
        raise ChainBrokenError(
            f"{key} says of itself that it covers {footer.offsets}",
            hint="the file was renamed or swapped: put the right one back",
            key=key,
        )
    return Content(offsets=footer.offsets, records=footer.records, checksum=footer.checksum, parts=footer.parts)


def _read(reader: SegmentReader, segment: Segment, *, without: OffsetRuns | None = None) -> Content:
    offsets = segment.name.offsets
    found = HeldSum(offsets=offsets, without=without)
    if isinstance(reader, LogSegmentReader) and without is None:
        _sum_up_log(reader, [found])
        return Content(offsets=offsets, records=found.records, checksum=found.bytes.hexdigest())
    for columns in reader.records():
        found.take(columns)
    return Content(offsets=offsets, records=found.records, checksum=found.columns.hexdigest(), without=without)


def proven_content(archived: ArchivedPartition, segment: Segment, erased: OffsetRuns) -> Content | None:
    """Returns what a larger segment has to hold of a smaller one, where the larger says what was erased from it.

    Raises:
        ChainBrokenError: the smaller one is damaged, or holds another range than its name says.
        MirrorlakeError: it could not be read.
    """
    if len(erased.within(segment.name.offsets)) or _says_erased(archived, segment):
        return content_without(archived, segment, erased)
    return content_of(archived, segment)


def _says_erased(archived: ArchivedPartition, segment: Segment) -> bool:
    try:
        with open_segment(archived.store, f"{archived.prefix}/{segment.name}") as reader:
            return bool(len(OffsetRuns.erased_by(reader.footer)))
    except ObjectMissingError:
        return False


def prove_holds(cover: SegmentReader, *, where: str, parts: Sequence[Content]) -> None:
    """Reads a segment whole, compares it with what it says of itself, and each part of it with what that held.

    Memory: a row group, or some megabytes of batches, and a few kilobytes for each part. A published log is read twice,
    for its own sum and for those of its parts, however many there are.

    Args:
        cover: the larger segment, published or not.
        where: names it in messages.
        parts: what lies inside of it; ranges may hold one another.

    Raises:
        ChainBrokenError: it is damaged, says nothing of itself, or does not hold a part: nothing may be deleted.
    """
    footer = cover.footer
    if footer is None:
        raise unproven(where, "says nothing of itself")
    sums = [HeldSum.of(part) for part in parts]
    sweep = RangeSweep(sums)

    def take(columns: RecordColumns) -> None:
        for each in sweep.touched_by(int(columns.offsets[0]), int(columns.offsets[-1]) + 1):
            each.take(columns)

    cover.check_content(each=take)
    if isinstance(cover, LogSegmentReader):
        _sum_up_log(cover, sums)
        found = [(each.bytes if each.without is None else each.columns).hexdigest() for each in sums]
    else:
        found = [each.columns.hexdigest() for each in sums]
    check_held(parts, sums, found, where=where)


def check_held(parts: Sequence[Content], sums: Sequence[HeldSum], checksums: Sequence[str], *, where: str) -> None:
    """Compares what was read of each part with what it held.

    Raises:
        ChainBrokenError: they differ.
    """
    for part, each, checksum in zip(parts, sums, checksums, strict=True):
        if (part.records, part.checksum) != (each.records, checksum):
            held = f"{each.records} records of {part.offsets} with checksum {checksum}"
            raise unproven(where, f"holds {held}, and the segment inside of it {part.records} with {part.checksum}")


def _sum_up_log(cover: LogSegmentReader, sums: Sequence[HeldSum]) -> None:
    """Reads a log once: its batches count for those of whole batches, and only what others touch is decoded."""
    by_bytes = RangeSweep([each for each in sums if each.without is None])
    decoded = [each for each in sums if each.without is not None]
    wanted, by_records = RangeSweep(decoded), RangeSweep(decoded)
    for batches in cover.batches():
        to_decode: list[Batch] = []
        for batch in batches:
            known = log_batch(batch)
            for each in by_bytes.touched_by(known.first_offset, known.next_offset):
                if each.offsets.start_offset <= known.first_offset and known.next_offset <= each.offsets.end_offset:
                    each.records += known.records
                    each.bytes.update(batch.view)
            if wanted.touched_by(known.first_offset, known.next_offset):
                to_decode.append(batch)
        for columns in cover.decoded(to_decode):
            for each in by_records.touched_by(int(columns.offsets[0]), int(columns.offsets[-1]) + 1):
                each.take(columns)


def prove_same_file(archived: PartitionFolder, key: str, expected: FileSum) -> None:
    """Checks that a published segment is, byte for byte, what was read back before it was published.

    Raises:
        ChainBrokenError: it is not.
        MirrorlakeError: it could not be read.
    """
    with archived.store.open(key) as file:
        actual = sum_of(file)
    if actual != expected:
        raise unproven(key, f"has {actual}, and {expected} was written")


@contextlib.contextmanager
def naming_damaged_input(archived: ArchivedPartition, inputs: Sequence[Segment]) -> Iterator[None]:
    """Names the input that is damaged, where something was made of inputs and is not what they say they hold.

    Nobody can put back from a copy what was never published. Inputs that are compared as they are read, logs with
    checksums of blocks, name themselves; the others are read once more, and only here.

    Raises:
        ChainBrokenError: of the first input that is damaged; where none is, the one that was raised inside.
    """
    try:
        yield
    except ChainBrokenError as error:
        if (damaged := _damaged_among(archived, inputs)) is not None:
            raise damaged from error
        raise


def _damaged_among(archived: ArchivedPartition, segments: Sequence[Segment]) -> ChainBrokenError | None:
    for segment in segments:
        try:
            with open_segment(archived.store, f"{archived.prefix}/{segment.name}") as reader:
                reader.check_content()
        except ChainBrokenError as error:
            return error
        except MirrorlakeError:
            # It is gone, or cannot be read now: that says nothing of damage.
            continue
    return None


def unproven(where: str, what: str) -> ChainBrokenError:
    """Returns the error of a larger segment that does not hold what lies inside of it."""
    return ChainBrokenError(
        f"{where} {what}",
        hint="nothing inside of it was deleted. `mirrorlake archive check --level checksums` says which file is "
        "damaged: move that one away. Where both are sound, a writer that was held up published the smaller one late: "
        "move the smaller one away",
        key=where,
    )
