"""Where a partition without progress begins; asked of the source once, then written down."""

from mirrorlake.destinations.map.settings import MapStart
from mirrorlake.destinations.source_log import SourceLog
from mirrorlake.offsets import StartKind


async def find_start(source: SourceLog, start: MapStart, *, now_seconds: float) -> int:
    """Returns the first source offset to copy.

    ``latest`` is the last stable offset: what was not decided then is still copied. A timestamp gives the first record
    of that time or later, and the last stable offset where there is none; an age is the time that lies so far back. An
    offset is taken as it is, whatever the log
    holds; a partition without one begins at the log start.

    Args:
        source: the source partition.
        start: what the configuration says.
        now_seconds: the time it is, in Unix seconds, from which an age counts.

    Raises:
        MirrorlakeError: the source could not be asked.
    """
    if start.kind is StartKind.OFFSETS and start.offset is not None:
        return start.offset
    if start.kind is StartKind.LATEST:
        return await source.end()
    oldest_ms = start.timestamp_ms
    if start.max_age_seconds is not None:
        oldest_ms = max(0, round((now_seconds - start.max_age_seconds) * 1000))
    if oldest_ms is not None:
        found = await source.offset_at(oldest_ms)
        return found if found is not None else await source.end()
    return await source.start()
