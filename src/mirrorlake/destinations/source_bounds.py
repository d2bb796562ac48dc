"""What it means that a position lies outside the source's log."""

from mirrorlake.errors import BrokerNotReadyError, DestinationAheadError, MirrorlakeError, SourceTruncatedError
from mirrorlake.offsets import TopicPartition


def explain_out_of_range(
    source: TopicPartition,
    position: int,
    log_start: int | MirrorlakeError,
    log_end: int | MirrorlakeError,
) -> MirrorlakeError:
    """Returns the error for a ``position`` that the leader of ``source`` called out of range. Pure.

    Where an end could not be read, that error is returned. A leader may refuse for a moment what it holds, or its ends
    may have moved since: within ``[log_start, log_end]`` the error is transient.
    """
    if isinstance(log_start, MirrorlakeError):
        return log_start
    if isinstance(log_end, MirrorlakeError):
        return log_end
    if position < log_start:
        return SourceTruncatedError(
            f"source {source} starts at offset {log_start}, the destination needs {position} next",
            hint="the records between are gone at the source, nothing was appended; `on-truncation: skip` records the "
            "gap and continues, or copy afresh to a new destination",
            position=position,
            log_start=log_start,
        )
    if position <= log_end:
        return BrokerNotReadyError(
            f"the leader of source {source} refused offset {position}, and its log goes from {log_start} to {log_end}",
            hint="it is tried again",
            position=position,
        )
    return destination_ahead(source, position, log_end)


def destination_ahead(source: TopicPartition, position: int, source_end: int) -> DestinationAheadError:
    """Returns the error for a ``position`` past the end of ``source``. Pure."""
    return DestinationAheadError(
        f"the destination of source {source} is at position {position}, past the source's end {source_end}",
        hint="the cause is one of these: the source topic was truncated or re-created, something else wrote to the "
        "destination, or the destination belongs to another source; find out which, then re-create the destination, "
        "or mirror to a new one",
        position=position,
        source_end=source_end,
    )
