"""Whose time the records of a Kafka destination have: the source's, or that of the destination's brokers.

A topic's ``message.timestamp.type`` may be set while a mirror runs. The broker says what it did in every answer to
Produce, and writes it into the attributes of every batch.
"""

from mirrorlake.errors import WrongTimestampsError
from mirrorlake.offsets import TopicPartition

TIMESTAMP_TYPE = "message.timestamp.type"
CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"


def is_expected(log_append_time_ms: int, *, keeps_source_time: bool | None) -> bool:
    """Tells whether the answer to an append is what ``timestamp-mode`` asks for. Pure.

    Args:
        log_append_time_ms: of the answer; -1 where the topic keeps the times of its records. A batch the broker knew
            already is answered with its time whatever the topic's clock is.
        keeps_source_time: ``timestamp-mode`` is ``source``; None where the copy stamps the records itself, so that the
            time is the destination's either way.
    """
    return keeps_source_time is None or (log_append_time_ms < 0) == keeps_source_time


def times_replaced(destination: TopicPartition, offset: int, *, is_seen: bool) -> WrongTimestampsError:
    """Returns the error for records that got the brokers' time where ``timestamp-mode`` is ``source``.

    Args:
        destination: the partition.
        offset: of the first such record that was looked at, or where it would have been.
        is_seen: False where the transaction they are in is aborted.
    """
    stays = (
        f"the records that have the wrong times stay: delete {destination.topic} to have it copied afresh"
        if is_seen
        else "no consumer has seen them, as they were not committed; restart then"
    )
    return WrongTimestampsError(
        f"destination {destination} has given the record at offset {offset} its own time: {TIMESTAMP_TYPE} of "
        f"{destination.topic} is {LOG_APPEND_TIME}, or was, and `timestamp-mode` is `source`",
        hint=f"set {TIMESTAMP_TYPE}={CREATE_TIME} on {destination.topic}; {stays}. Or keep {LOG_APPEND_TIME}, with "
        "`timestamp-mode: destination`",
        differing_offset=offset,
    )


def times_kept(destination: TopicPartition, offset: int) -> WrongTimestampsError:
    """Returns the error for records that kept the source's time where ``timestamp-mode`` is ``destination``.

    Args:
        destination: the partition.
        offset: the first one's, at the destination.
    """
    return WrongTimestampsError(
        f"destination {destination} has kept the source's time of the record at offset {offset}: {TIMESTAMP_TYPE} of "
        f"{destination.topic} is {CREATE_TIME}, and `timestamp-mode` is `destination`",
        hint=f"set {TIMESTAMP_TYPE}={LOG_APPEND_TIME} on {destination.topic} and restart, or restart as it is: the "
        "copy stamps records itself then; records copied meanwhile keep the source's times. Or keep all of them, with "
        "`timestamp-mode: source`",
        differing_offset=offset,
    )
