"""Proving a segment that was made of others, before it is published: read back, it must hold what they hold.

One is decoded as any segment is (`proof.py`), unless it was put together from row groups of others and from records.
What was copied is compared as bytes: each run of them, as the store gives it back, with the checksum that was made as
it was read from a segment whose seal it had. Where it lies in the new file is proven apart from how that was written:
Arrow reads the footer, must find in it what it found in the segment's own, and reads the offsets of all records by it.
What was encoded is decoded again, and compared with what its segments say they held.
"""

import contextlib
from collections.abc import Sequence
from typing import BinaryIO

import xxhash

from mirrorlake.archive.checksum import ContentChecksum
from mirrorlake.archive.envelope import FileSum, SegmentFooter
from mirrorlake.archive.formats.interface import SegmentReader
from mirrorlake.archive.formats.log_reader import LogSegmentReader
from mirrorlake.archive.formats.parquet_joining import CopiedGroups, EncodedGroups
from mirrorlake.archive.formats.parquet_reader import ParquetSegmentReader
from mirrorlake.archive.formats.registry import LOG, PARQUET
from mirrorlake.archive.formats.summing_file import sum_of
from mirrorlake.archive.maintenance.making import Written
from mirrorlake.archive.maintenance.proof import Content, HeldSum, check_held, prove_holds, unproven
from mirrorlake.archive.maintenance.range_sweep import RangeSweep
from mirrorlake.archive.seal import READ_BYTES, flaw_behind
from mirrorlake.errors import ChainBrokenError
from mirrorlake.stores.object_store import StagedObject


def prove_written(
    staged: StagedObject, written: Written, parts: Sequence[Content], *, extension: str, where: str
) -> FileSum:
    """Reads a hidden segment back, compares it with what its inputs hold, and returns the sum of its bytes.

    Args:
        staged: holds it.
        written: as it was returned when it was written.
        parts: what it has to hold.
        extension: of its format.
        where: names it in messages.

    Raises:
        ChainBrokenError: it is damaged, or does not hold a part.
        MirrorlakeError: it could not be read.
    """
    footer = written.footer
    if any(isinstance(section, CopiedGroups) for section in written.sections):
        return prove_joined(staged, footer, written.sections, parts, where=where)
    with contextlib.ExitStack() as opened:
        reader = opened.enter_context(reread_segment(staged, extension, footer, where=where))
        prove_holds(reader, where=where, parts=parts)
        told = reader.footer
        assert told is not None, "a segment that says nothing of itself was proven"
        if (told.records, told.first_offset, told.last_offset, told.gap_offsets, told.schema_ids) != (
            footer.records,
            footer.first_offset,
            footer.last_offset,
            footer.gap_offsets,
            footer.schema_ids,
        ):
            raise ChainBrokenError(f"{where} says of itself what was not written")
    with staged.reread() as file:
        return sum_of(file)


def reread_segment(staged: StagedObject, extension: str, footer: SegmentFooter, *, where: str) -> SegmentReader:
    """Returns a reader of a segment that was written and not published yet; ``footer`` is what was returned for it."""
    file = staged.reread()
    if extension == PARQUET:
        return ParquetSegmentReader(file, where=where)
    if extension == LOG:
        return LogSegmentReader(file, footer=footer, where=where)
    from mirrorlake.archive.formats.ndjson_reader import NdjsonSegmentReader

    return NdjsonSegmentReader(file, footer=footer, where=where)


def prove_joined(
    staged: StagedObject,
    footer: SegmentFooter,
    sections: Sequence[CopiedGroups | EncodedGroups],
    parts: Sequence[Content],
    *,
    where: str,
) -> FileSum:
    """Reads a hidden segment back, compares it with what it was made of, and returns the sum of its bytes.

    Memory: a row group, and a few kilobytes for each part.

    Args:
        staged: holds it.
        footer: as it was returned when it was written.
        sections: what was written, in order.
        parts: what each of its inputs held, in order.
        where: names it in messages.

    Raises:
        ChainBrokenError: it is damaged, or does not hold a part.
        MirrorlakeError: it could not be read.
    """
    with ParquetSegmentReader(staged.reread(), where=where) as reader:
        if reader.footer != footer or (reader.footer.seal, reader.footer.pages) != (footer.seal, footer.pages):
            raise unproven(where, "says of itself what was not written")
        groups = [number for section in sections for number in section.groups]
        if groups != list(range(reader.group_count)) or reader.row_count != footer.records:
            raise unproven(where, f"has {reader.row_count} records in {reader.group_count} row groups")
        copied = [section for section in sections if isinstance(section, CopiedGroups)]
        others = {part.offsets: part for part in parts}
        for section in copied:
            _prove_copied(reader, section, others.pop(section.footer.offsets, None), where=where)
        encoded = [section for section in sections if isinstance(section, EncodedGroups)]
        _prove_encoded(reader, encoded, list(others.values()), where=where)
        return _prove_bytes(reader.file, footer, copied, end_bytes=reader.footer_bytes, where=where)


def _prove_copied(reader: ParquetSegmentReader, section: CopiedGroups, part: Content | None, *, where: str) -> None:
    """Compares where the row groups lie, and the offsets of their records, with the segment they come from."""
    said = section.footer
    if part is None or (part.records, part.checksum) != (said.records, said.checksum):
        raise unproven(where, f"holds another segment of {said.offsets} than the one that was looked at")
    if reader.description_of(section.groups, section.start_byte) != section.description:
        raise unproven(where, f"describes the row groups of {said.offsets} in another way than their own file")
    count, first, last = 0, None, None
    for offsets in reader.offsets_of(section.groups, said.offsets):
        count += len(offsets)
        first = int(offsets[0]) if first is None else first
        last = int(offsets[-1])
    if (count, first, last) != (said.records, said.first_offset, said.last_offset):
        raise unproven(where, f"has {count} records from {first} to {last} in {said.offsets}")


def _prove_encoded(
    reader: ParquetSegmentReader, sections: Sequence[EncodedGroups], parts: Sequence[Content], *, where: str
) -> None:
    """Decodes what was encoded, and compares it with the parts that it was made of and with its own checksums."""
    sums = [HeldSum.of(part) for part in parts]
    sweep = RangeSweep(sums)
    for section in sections:
        reader.check_source_columns(section.groups)
        checksum, records = ContentChecksum(), 0
        for columns in reader.records_of(section.groups, section.offsets):
            records += len(columns)
            checksum.update(columns)
            for each in sweep.touched_by(int(columns.offsets[0]), int(columns.offsets[-1]) + 1):
                each.take(columns)
        if (records, checksum.hexdigest()) != (section.records, section.checksum):
            raise unproven(where, f"holds {records} records of {section.offsets} that are not those written")
    check_held(parts, sums, [each.columns.hexdigest() for each in sums], where=where)


def _prove_bytes(
    file: BinaryIO, footer: SegmentFooter, sections: Sequence[CopiedGroups], *, end_bytes: int, where: str
) -> FileSum:
    """Reads all bytes once: those that were copied are compared, and all of them with the seal."""
    size = file.seek(0, 2)
    file.seek(0)
    whole = xxhash.xxh3_128()
    position = 0
    for section in sections:
        _take(file, section.start_byte - position, whole)
        found = xxhash.xxh3_128()
        _take(file, section.bytes, whole, found)
        if found.hexdigest() != section.checksum:
            raise unproven(where, f"has other bytes for {section.footer.offsets} than were copied")
        position = section.start_byte + section.bytes
    _take(file, size - end_bytes - position, whole)
    end = file.read()
    assert footer.seal is not None, "written without a seal"
    if flaw := flaw_behind(whole, end, footer.seal):
        raise unproven(where, flaw)
    whole.update(end)
    return FileSum(bytes=size, checksum=whole.hexdigest())


def _take(file: BinaryIO, count: int, *sums: "xxhash.xxh3_128") -> None:
    """Reads so many bytes into the sums; fewer where the file ends, which the seal then tells."""
    while count > 0 and (data := file.read(min(READ_BYTES, count))):
        for each in sums:
            each.update(data)
        count -= len(data)
