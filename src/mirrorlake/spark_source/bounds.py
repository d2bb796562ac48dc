"""Where the reading of each partition begins and ends. Pure."""

from collections.abc import Iterable, Mapping

from mirrorlake.errors import ConfigurationError, SourceTruncatedError
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.spark_source.request import EARLIEST, Bound

_EARLIEST_NUMBER, _LATEST_NUMBER = -2, -1


def check_named(bounds: Iterable[Bound], known: Iterable[TopicPartition]) -> None:
    """Checks that every partition whose offset is given is one that is read.

    Raises:
        ConfigurationError: one is not.
    """
    there = set(known)
    for bound in bounds:
        if strange := sorted(set(bound.offsets) - there):
            raise ConfigurationError(
                f"an offset is given for {strange[0]}, and no such partition is read",
                hint=f"read are {', '.join(map(str, sorted(there)[:8])) or 'none'}{' …' if len(there) > 8 else ''}",
            )


def offset_of(
    bound: Bound, partition: TopicPartition, held: OffsetRange, *, otherwise: int, at_time: int | None
) -> int:
    """Returns the offset that a bound stands for in a partition.

    Args:
        bound: as the options give it.
        partition: which.
        held: what it holds now.
        otherwise: for a partition of which offsets by partition say nothing.
        at_time: of the first record at or after the bound's time, None where none is, or no time is asked for.
    """
    if bound.timestamp_ms is not None:
        return held.end_offset if at_time is None else at_time
    if bound.word is not None:
        return held.start_offset if bound.word == EARLIEST else held.end_offset
    given = bound.offsets.get(partition, otherwise)
    return {_EARLIEST_NUMBER: held.start_offset, _LATEST_NUMBER: held.end_offset}.get(given, given)


def wanted_range(
    partition: TopicPartition,
    held: OffsetRange,
    *,
    starting: Bound,
    ending: Bound,
    times: Mapping[str, int | None] | None = None,
) -> OffsetRange:
    """Returns what is to be read of a partition; empty where the end is not behind the start.

    Args:
        partition: which.
        held: what it holds now.
        starting: where to begin.
        ending: where to end.
        times: offsets of the times they name, by ``starting`` and ``ending``; None where no record is so late.

    Raises:
        SourceTruncatedError: an offset that is given is not there any more, or not yet.
    """
    times = times or {}
    start = offset_of(starting, partition, held, otherwise=held.start_offset, at_time=times.get("starting"))
    end = offset_of(ending, partition, held, otherwise=held.end_offset, at_time=times.get("ending"))
    for name, offset, bound in (("starting", start, starting), ("ending", end, ending)):
        if bound.offsets and not held.start_offset <= offset <= held.end_offset:
            raise SourceTruncatedError(
                f"{partition} holds offsets {held}, and {name}Offsets says {offset}",
                hint="say -2 for the earliest and -1 for the latest, or another offset",
                position=offset,
            )
    start = max(start, held.start_offset)
    return OffsetRange(start_offset=start, end_offset=max(start, min(end, held.end_offset)))
