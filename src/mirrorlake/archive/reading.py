"""Reading an archived partition: a range of it, or all of it to check it."""

from collections.abc import Iterator

from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.inspection import check_segment, key_of
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.source_continuity import SourceContinuity
from mirrorlake.errors import ChainBrokenError
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.offsets import OffsetRange


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


def check_archived_content(archived: ArchivedPartition) -> int:
    """Reads every file of the partition and compares it with its own footer; returns how many were read.

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
    return count
