"""What is wrong with what a source cluster has answered. Pure."""

from mirrorlake.errors import BatchTooLargeError, BrokerNotReadyError, CorruptBatchError, MirrorlakeError
from mirrorlake.kafka.wire.error_codes import error_for
from mirrorlake.kafka.wire.fetch import FetchedPartition
from mirrorlake.offsets import TopicPartition

OTHER_TOPIC = frozenset({100, 103})
"""Nobody knows a topic of that id any more, or what has its name has another one."""


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
