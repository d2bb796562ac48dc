"""Reading an archived partition: a range of it, or all of it to check it, with what lies beside its chain.

Readers of a chain pass over segments that lie wholly inside a larger one, and plain readers of the folder do not. So
one that only looks covered, as it has another one's name, has offsets read twice for as long as nobody looks at it.
"""

import contextlib
from collections.abc import Iterable, Iterator

from mirrorlake.archive.chain import Segment, floor_of, segments_of
from mirrorlake.archive.formats.named_segment import read_named_footer
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.inspection import check_segment, key_of
from mirrorlake.archive.names import FLOOR_PREFIX
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.source_continuity import SourceContinuity
from mirrorlake.errors import ChainBrokenError
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.offsets import GapKind, OffsetRange
from mirrorlake.stores.object_store import ObjectMissingError


def read_archived_range(archived: ArchivedPartition, offsets: OffsetRange) -> Iterator[RecordColumns]:
    """Yields the archived records of ``offsets`` in order; gaps simply yield nothing.

    Raises:
        ChainBrokenError: the chain or a file is not what it should be, or ends before the range.
        MirrorlakeError: the store could not be read.
    """
    chain = archived.read_chain()
    if chain.position < offsets.end_offset:
        raise ChainBrokenError(
            f"{archived.prefix}: the archive ends at offset {chain.position}, the range asked for at "
            f"{offsets.end_offset}",
            position=chain.position,
        )
    if offsets and offsets.start_offset < chain.start_offset:
        raise ChainBrokenError(
            f"{archived.prefix}: the archive begins at offset {chain.start_offset}, the range asked for at "
            f"{offsets.start_offset}: retention deleted the segments before",
            start_offset=chain.start_offset,
        )
    for segment in archived.segments(chain):
        held = segment.name.offsets
        if held.end_offset <= offsets.start_offset or held.start_offset >= offsets.end_offset:
            continue
        with open_segment(archived.store, key_of(archived, segment)) as reader:
            yield from reader.records(within=offsets)


def erased_ranges(archived: ArchivedPartition, offsets: OffsetRange) -> list[OffsetRange]:
    """Returns the offsets of a range that the archive says were erased from it, in order.

    Raises:
        ChainBrokenError: the chain or a file is not what it should be.
        MirrorlakeError: the store could not be read.
    """
    found: list[OffsetRange] = []
    for segment in archived.segments(archived.read_chain()):
        if segment.name.from_offset < offsets.end_offset and offsets.start_offset < segment.name.end_offset:
            with open_segment(archived.store, key_of(archived, segment)) as reader:
                gaps = reader.footer.gaps if reader.footer is not None else ()
            found += [gap.offsets for gap in gaps if gap.kind is GapKind.ERASED]
    return found


def check_archived_content(archived: ArchivedPartition) -> int:
    """Reads every file of the partition and compares it with its own footer; returns how many were read.

    Covered ones are compared too, and not counted.

    Raises:
        ChainBrokenError: a file was changed, cut or swapped; the text names it.
        MirrorlakeError: the store could not be read.
    """
    count = 0
    continuity = SourceContinuity()
    for segment in archived.segments(archived.read_chain()):
        footer = check_segment(archived, segment)
        for flaw in continuity.follow(key_of(archived, segment), footer):
            raise flaw
        count += 1
    for flaw in continuity.end():
        raise flaw
    for segment in covered_segments(archived):
        with contextlib.suppress(ObjectMissingError):  # whoever merges deletes what is covered
            check_segment(archived, segment)
    return count


def covered_in(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Yields the segments that another one covers; holds one segment at a time, however many there are.

    Args:
        segments: in the order of their names: by start, then by end.
    """
    largest: Segment | None = None
    for segment in segments:
        if largest is not None and _covers(largest, segment):
            yield segment
            continue
        if largest is not None and _covers(segment, largest):
            yield largest
        largest = segment


def covered_segments(archived: ArchivedPartition) -> Iterator[Segment]:
    """Yields the segments of a folder that another one covers; those below the floor, and other names, are passed over.

    Raises:
        MirrorlakeError: the store could not be read.
    """
    floor = floor_of(archived.store.list(archived.prefix, start_after=FLOOR_PREFIX))
    objects = archived.store.list(archived.prefix)
    segments = segments_of(objects, [], extension=archived.extension, where=archived.prefix, refuse=_pass_over)
    return covered_in(segment for segment in segments if segment.name.end_offset > floor)


def check_covered(archived: ArchivedPartition) -> None:
    """Compares each covered segment's name with the range it says it holds; what is deleted meanwhile is passed over.

    Raises:
        ChainBrokenError: one cannot be read, or has another one's name.
        MirrorlakeError: the store could not be read.
    """
    for segment in covered_segments(archived):
        try:
            read_named_footer(archived.store, archived.prefix, segment, partition=archived.partition, is_snapshot=False)
        except ObjectMissingError:
            continue  # whoever merges deletes what is covered


def _covers(large: Segment, small: Segment) -> bool:
    return large.name.from_offset <= small.name.from_offset and small.name.to_offset <= large.name.to_offset


def _pass_over(error: ChainBrokenError) -> None:
    """Leaves what is wrong with names to who checks the chain."""
