"""What the bytes of a source say, as facts: record batches, classified, and how far they reach. Pure."""

from mirrorlake.destinations.interface import ClassifiedBatch
from mirrorlake.errors import PermanentError
from mirrorlake.kafka.records.batches import BEHIND, AbortedTransactions, Batch, BatchHeader, classify, verify_crc, walk


def classified(
    records: memoryview, aborted: AbortedTransactions, position: int, *, end_offset: int
) -> tuple[list[ClassifiedBatch], int]:
    """Returns the record batches from ``position`` up to ``end_offset``, and the position after them.

    Step by step for all of them, not batch by batch: reading 128 KiB for a checksum leaves little of what the
    steps before and after it had in the processor's cache.

    Raises:
        MirrorlakeError: the first batch is not right. Those before one that is not are right: they are returned,
            and the next fetch begins with it.
    """
    walked, trouble = _walk_and_verify(records, end_offset)
    batches: list[ClassifiedBatch] = []
    try:
        for batch in walked:
            header = batch.header
            start = header.base_offset if header.magic >= 2 else _starts_at(header, position)
            if start >= end_offset:
                return batches, end_offset  # nothing is left of the offsets between
            found = classify(batch, position=position, aborted=aborted)
            if found is BEHIND:
                continue
            # By position: one is made for every batch.
            batches.append(ClassifiedBatch(batch, found.path, found.reason))
            position = header.base_offset + header.last_offset_delta + 1
    except PermanentError as error:
        trouble = error
    if trouble is not None and not batches:
        raise trouble
    return batches, position


def _starts_at(header: BatchHeader, position: int) -> int:
    """Returns the first offset a batch may have a record at, as far as its header tells."""
    return position if header.is_old_wrapper else header.base_offset


def _walk_and_verify(records: memoryview, end_offset: int) -> tuple[list[Batch], PermanentError | None]:
    """Returns the whole batches before the first that is not right, and what is wrong with that one.

    The first that begins at ``end_offset`` or above is returned with its checksum not looked at; none after it.
    """
    walked: list[Batch] = []
    behind: list[Batch] = []
    trouble: PermanentError | None = None
    try:
        for batch in walk(records):
            header = batch.header
            if (header.base_offset if header.magic >= 2 else _starts_at(header, 0)) >= end_offset:
                behind.append(batch)
                break
            walked.append(batch)
    except PermanentError as error:
        trouble = error
    for number, batch in enumerate(walked):
        try:
            verify_crc(batch)
        except PermanentError as error:
            return walked[:number], error
    return walked + behind, trouble
