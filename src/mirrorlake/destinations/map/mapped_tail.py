"""The tail check of a copy with mapped offsets: its newest records must be what the source has where they came from.

As ``tail_check`` does for equal offsets, so that a source that was put back from a backup, or cut in a way that leader
epochs do not show, is not copied on behind records it has lost. The newest run of the offset map says which records
those are; where the source held no record behind them (``empty_mark``), it must hold none now. Times are not compared:
their topic may have a clock of its own. Neither is a filter asked: every record of a run was copied, by whichever
filter. What another `select` than that of now has made cannot be compared with what the source has: of it only the
offsets are (see ``select_mark``).
"""

from dataclasses import replace

from mirrorlake.destinations.map.offset_map import MappedRun, OffsetMap, decode_runs
from mirrorlake.destinations.map.progress import MapProgress, ProgressKey
from mirrorlake.destinations.source_log import SourceLog
from mirrorlake.destinations.tail import TAIL_OFFSETS, Tail, newest_ms, read_tail
from mirrorlake.destinations.tail_check import first_difference
from mirrorlake.destinations.transform import Times, Transform
from mirrorlake.errors import SourceDivergedError
from mirrorlake.kafka.control.cluster import EARLIEST, ClusterClient
from mirrorlake.offsets import OffsetRange, TopicPartition


def newest_run(progress: MapProgress) -> MappedRun | None:
    """Returns the newest records that the open page of an offset map knows of, at most ``TAIL_OFFSETS``. Pure.

    None where the page is empty, as right after one was full.
    """
    runs = list(decode_runs(progress.page.start_offset, progress.page.encoded))
    if not runs:
        return None
    last = runs[-1]
    skipped = max(0, last.length - TAIL_OFFSETS)
    return MappedRun(
        start_offset=last.start_offset + skipped,
        length=last.length - skipped,
        destination_offset=last.destination_offset + skipped,
    )


def ends_of(start: int, end: int) -> list[OffsetRange]:
    """Returns the oldest and the newest `TAIL_OFFSETS` of [start, end), as one range where they meet. Pure.

    A log that was cut and rewritten differs from where it was cut on, and at its end, or holds nothing in between.
    """
    if start >= end:
        return []
    if end - start <= 2 * TAIL_OFFSETS:
        return [OffsetRange(start_offset=start, end_offset=end)]
    return [
        OffsetRange(start_offset=start, end_offset=start + TAIL_OFFSETS),
        OffsetRange(start_offset=end - TAIL_OFFSETS, end_offset=end),
    ]


class MappedTailCheck:
    """Compares one source partition with its copy elsewhere.

    Args:
        source_log: the source partition.
        destination_client: of the destination cluster.
        source_is_compacted: the source topic may lose records to the cleaner.
        transform: what the copy changes of records.
    """

    def __init__(
        self,
        source_log: SourceLog,
        destination_client: ClusterClient,
        *,
        source_is_compacted: bool,
        transform: Transform,
    ) -> None:
        self._source_log = source_log
        self._destination_client = destination_client
        self._source_is_compacted = source_is_compacted
        self._keeps_times = transform.times is Times.SOURCE
        self._transform = replace(transform, times=Times.BROKERS, keeps=None, takes=None)

    async def check(self, key: ProgressKey, progress: MapProgress) -> int | None:
        """Compares the end of a copy with the source's; returns where they are equal. Reads only.

        Where either side has deleted them there is nothing to compare; a source that ends below them is told by who
        reads on.

        Returns:
            The time of the newest record there as it was at the source, in Unix milliseconds; None where that is not
            known.

        Raises:
            SourceDivergedError: they differ; the text names the first differing source offset.
            MirrorlakeError: a side could not be read; nothing is concluded.
        """
        run = newest_run(progress)
        if run is None and progress.empty_from is None:
            return None
        start, end = await self._source_log.start(), await self._source_log.written_end()
        held_until_ms = None
        if run is not None and (end is None or end >= run.end_offset):
            held_until_ms = await self._check_records(key, progress, run, start)
        if progress.empty_from is not None and (end is None or end >= progress.position):
            await self._check_empty(key, progress, max(progress.empty_from, start))
        return held_until_ms

    async def _check_empty(self, key: ProgressKey, progress: MapProgress, start: int) -> None:
        """Compares the end of a copy where the source held no record: it holds none there later either."""
        for offsets in ends_of(start, progress.position):
            found = (await self._source_log.read_tail(offsets)).records
            if len(found):
                where = TopicPartition(key.destination_topic, progress.destination_partition)
                raise self._diverged(key, where, progress, int(found.offsets[0]))

    async def _check_records(self, key: ProgressKey, progress: MapProgress, run: MappedRun, start: int) -> int | None:
        """Compares the records of a run from source offset ``start`` on; returns as ``check``."""
        where = TopicPartition(key.destination_topic, progress.destination_partition)
        start = max(run.start_offset, start)
        moved = run.destination_offset - run.start_offset
        start = max(start, await self._destination_client.offset_at(where, EARLIEST) - moved)
        transform = self._transform
        if progress.select.fingerprint == transform.fingerprint:
            start = max(start, progress.select.start_offset)
        else:
            transform = replace(transform, projects=None, sets_content_aside=True)
        if start >= run.end_offset:
            return None
        offsets = OffsetRange(start_offset=start, end_offset=run.end_offset)
        there = OffsetRange(start_offset=start + moved, end_offset=run.destination_end)
        expected = await self._source_log.read_tail(offsets)
        held = (await read_tail(self._destination_client, where, there, whose="destination")).records
        sources = OffsetMap(offsets, [run]).sources_of(held.offsets)
        rows = (sources >= 0).nonzero()[0]
        difference = first_difference(
            expected,
            Tail(records=held.relocated(rows, sources[rows])),
            source_is_compacted=self._source_is_compacted,
            destination_is_compacted=True,  # what is missing there is for `verify`, and for the look at its end
            transform=transform,
        )
        if difference is not None:
            raise self._diverged(key, where, progress, difference)
        return newest_ms(expected.records, *([held] if self._keeps_times else []))

    def _diverged(
        self, key: ProgressKey, where: TopicPartition, progress: MapProgress, offset: int
    ) -> SourceDivergedError:
        return SourceDivergedError(
            f"{where} and source {key.source} hold different records at source offset {offset}: the source's log was "
            "cut and rewritten after it was copied",
            hint="a source that was put back from a backup, or an unclean election, does this; to copy its "
            "records of now, copy under another mirror name to another topic. `verify` names the differences",
            position=progress.position,
            differing_offset=offset,
        )
