"""What a sink that keeps offsets refuses, or finds to be wrong, in the words of whoever has to put it right. Pure."""

from mirrorlake.destinations.append_channel import Append
from mirrorlake.destinations.output_batches import OutputGap
from mirrorlake.destinations.preserve.settings import PreserveSettings
from mirrorlake.destinations.record_clock import is_expected, times_kept
from mirrorlake.destinations.size_limit import refused
from mirrorlake.destinations.transactions.gap_cost import fill_seconds
from mirrorlake.errors import (
    MirrorlakeError,
    MisalignedError,
    NotOwnerError,
    OutcomeUnknownError,
    PositionMovedError,
    RecordTooLargeError,
    SourceGapError,
)
from mirrorlake.kafka.wire.produce import ProducedPartition
from mirrorlake.offsets import GapFill, OffsetRange


def answer_refused(answer: ProducedPartition, append: Append, settings: PreserveSettings) -> MirrorlakeError | None:
    """Returns what is wrong with a broker's answer to a batch; None where its records lie where, and as, they should.

    Args:
        answer: the broker's.
        append: the batch; its bytes may have been let go.
        settings: where it went.
    """
    expected = append.expected_offset
    if answer.error_code:
        return refused(
            answer.error_code,
            what=f" to destination {settings.destination} at offset {expected}",
            where=settings.destination,
            bytes_sent=append.size_bytes,
            records=append.records,
            said=answer.error_message or "",
        )
    if answer.base_offset < expected:
        return PositionMovedError(
            f"destination {settings.destination} answered offset {answer.base_offset} for {expected}: another writer "
            "of this mirror had sent the same sequence"
        )
    if answer.base_offset > expected:
        return MisalignedError(
            f"destination {settings.destination} is misaligned: the records of source offset {expected} landed at "
            f"{answer.base_offset}, so another producer wrote there",
            hint="stop the other writer, then delete and re-create the destination topic",
            expected_offset=expected,
            found_offset=answer.base_offset,
        )
    if not is_expected(answer.log_append_time_ms, keeps_source_time=settings.keeps_source_time):
        return _other_clock(expected, settings)
    return None


def _other_clock(offset: int, settings: PreserveSettings) -> MirrorlakeError:
    """Returns what it means that the answer speaks of another clock than ``timestamp-mode``."""
    if not settings.keeps_log_append_time:
        return times_kept(settings.destination, offset)
    # That may be the time of a batch the broker knew already: what was stored tells, and the tail check reads it.
    return OutcomeUnknownError(
        f"destination {settings.destination} may have given the record at offset {offset} its own time; it is looked at"
    )


def not_owner(offsets: OffsetRange, settings: PreserveSettings, because: str) -> NotOwnerError:
    """Returns that this process may not fill offsets without a record."""
    return NotOwnerError(
        f"source {settings.source} has no records at offsets {offsets}, and only the owner of the mirror may fill them "
        f"in {settings.destination}; this process could not become it: {because}",
        hint="remove the cause; copying continues by itself within seconds",
        position=offsets.start_offset,
    )


def not_owner_of_letters(position: int, settings: PreserveSettings, because: str) -> NotOwnerError:
    """Returns that this process may copy nothing of a mirror whose records may become dead letters."""
    return NotOwnerError(
        f"source {settings.source} has records from offset {position} on, which may become dead letters, and only the "
        f"owner of the mirror copies such to {settings.destination}; this process could not become it: {because}",
        hint="remove the cause; copying continues by itself within seconds",
        position=position,
    )


def gap_refused(output: OutputGap, settings: PreserveSettings) -> SourceGapError:
    """Returns that offsets hold no record where gaps are refused."""
    start, end = output.offsets.start_offset, output.offsets.end_offset
    return SourceGapError(
        f"source {settings.source} has no record at offsets {start}…{end - 1} ({output.reason}), so "
        f"destination {settings.destination} cannot get equal offsets past {start}",
        hint="use `gap-fill: markers`, `gap-fill: filler` or `offsets: map`, or send this topic to an archive "
        "destination, which records gaps",
        position=start,
        gap_end=end,
    )


def too_long(offsets: OffsetRange, settings: PreserveSettings) -> SourceGapError:
    """Returns that more offsets would have to be filled for one log start, or one hole, than may be."""
    minutes = fill_seconds(len(offsets), GapFill.FILLER) / 60
    return SourceGapError(
        f"source {settings.source} continues at offset {offsets.end_offset}: destination {settings.destination} would "
        f"have to be filled by {len(offsets)} offsets from {offsets.start_offset} on, about {minutes:.0f} minutes",
        hint="raise `gap-fill-max-offsets` of the destination, or use `offsets: map`",
        position=offsets.start_offset,
        log_start=offsets.end_offset,
    )


def too_large(error: RecordTooLargeError, settings: PreserveSettings) -> RecordTooLargeError:
    """Returns the error with its source, and what to do about its destination."""
    topic = settings.destination.topic
    return RecordTooLargeError(
        f"source {settings.source}: {error.message}; destination topic {topic} takes {error.facts['limit']} bytes",
        hint=f"raise max.message.bytes of {topic} to at least {error.facts['bytes']}, and segment.bytes where "
        "that is lower",
        **error.facts,
    )
