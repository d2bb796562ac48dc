"""What an answer of a source says of its partition, as facts: its batches, classified, and how far they reach. Pure."""

from mirrorlake.destinations.interface import ClassifiedBatch
from mirrorlake.errors import (
    BatchTooLargeError,
    BrokerNotReadyError,
    CorruptBatchError,
    MirrorlakeError,
    PermanentError,
)
from mirrorlake.kafka.records.batches import AbortedTransactions, Batch, BatchHeader, classify, verify_crc, walk
from mirrorlake.kafka.wire.error_codes import error_for
from mirrorlake.kafka.wire.fetch import FetchedPartition
from mirrorlake.offsets import TopicPartition

OTHER_TOPIC = frozenset({100, 103})
"""Nobody knows a topic of that id any more, or what has its name has another one."""

NO_LIMIT = 1 << 62


def check_answer(answer: FetchedPartition, source: TopicPartition, *, position: int, topic_id: str) -> None:
    """Checks that the source has answered with records and not with an error.

    Args:
        answer: the partition's part of a fetch answer.
        source: the partition.
        position: the offset that was asked for.
        topic_id: the id that was asked for.

    Raises:
        MirrorlakeError: it has not.
    """
    if not answer.error_code:
        return
    what = f"fetch of source {source} at offset {position}"
    if answer.error_code in OTHER_TOPIC:
        raise BrokerNotReadyError(
            f"{what} was refused: the topic of id {topic_id} is gone, deleted or recreated under its name",
            hint="which of them is looked at before the next fetch; nothing of another topic was taken",
            topic=source.topic,
            partition=source.partition,
            code=answer.error_code,
        )
    raise error_for(answer.error_code, what=what, topic=source.topic, partition=source.partition)


def classified(answer: FetchedPartition, position: int, *, end_offset: int) -> tuple[list[ClassifiedBatch], int]:
    """Returns the batches of an answer from ``position`` up to ``end_offset``, and the position after them.

    Step by step for all of them, not batch by batch: reading 128 KiB for a checksum leaves little of what the
    steps before and after it had in the processor's cache.

    Raises:
        MirrorlakeError: the first batch is not right. Those before one that is not are right: they are returned,
            and the next fetch begins with it.
    """
    walked, trouble = _walk_and_verify(answer.records, end_offset)
    aborted = AbortedTransactions(answer.aborted)
    batches: list[ClassifiedBatch] = []
    try:
        for batch in walked:
            header = batch.header
            if _starts_at(header, position) >= end_offset:
                return batches, end_offset  # nothing is left of the offsets between
            found = classify(batch, position=position, batch_bytes_max=NO_LIMIT, aborted=aborted)
            if header.last_offset < position:
                continue
            batches.append(ClassifiedBatch(batch=batch, path=found.path, reason=found.reason))
            position = header.next_offset
    except PermanentError as error:
        trouble = error
    if trouble is not None and not batches:
        raise trouble
    return batches, position


def placed(error: MirrorlakeError, source: TopicPartition) -> MirrorlakeError:
    """Names the source in an error of its bytes, which know no more than their offset."""
    if isinstance(error, BatchTooLargeError):
        message = f"source {source}: {error.message}"
        return BatchTooLargeError(message, hint=error.hint, **{"source": str(source), **error.facts})
    if not isinstance(error, CorruptBatchError) or "code" in error.facts:
        return error
    return CorruptBatchError(
        f"source {source}: {error.message}",
        hint="nothing was copied from there on; let kafka-dump-log.sh show the segment, then bring the batch back "
        "from another replica, or delete the records up to it (kafka-delete-records.sh)",
        **{"topic": source.topic, "partition": source.partition, **error.facts},
    )


def _starts_at(header: BatchHeader, position: int) -> int:
    """Returns the first offset a batch may have a record at, as far as its header tells."""
    return position if header.is_old_wrapper else header.base_offset


def _walk_and_verify(records: memoryview, end_offset: int) -> tuple[list[Batch], PermanentError | None]:
    """Returns the whole batches before the first that is not right, and what is wrong with that one.

    The first that begins at ``end_offset`` or above is returned with its checksum not looked at; none after it.
    """
    walked: list[Batch] = []
    trouble: PermanentError | None = None
    try:
        for batch in walk(records):
            walked.append(batch)
            if _starts_at(batch.header, 0) >= end_offset:
                break
    except PermanentError as error:
        trouble = error
    for number, batch in enumerate(walked):
        if _starts_at(batch.header, 0) >= end_offset:
            break
        try:
            verify_crc(batch)
        except PermanentError as error:
            return walked[:number], error
    return walked, trouble
