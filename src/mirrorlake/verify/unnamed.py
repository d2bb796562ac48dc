"""Records of a mirror's own producers that its offset maps do not name: what was copied twice, or is not known of.

A comparison through an offset map looks only where the map points. What else a mirror has written to the destination
is told from other writers' records by its producer ids.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mirrorlake.destinations.map.offset_map import MappedRun, decode_runs, first_copies
from mirrorlake.destinations.map.progress import MapPage, PageKey, ProgressKey, decode_page, decode_page_key
from mirrorlake.destinations.map.progress_store import ProgressTopics, read_progress
from mirrorlake.destinations.map.settings import map_transactional_id
from mirrorlake.errors import OutcomeUnknownError, SourceTruncatedError
from mirrorlake.kafka.control.cluster import EARLIEST, LATEST, ClusterClient
from mirrorlake.kafka.control.descriptions import TransactionState
from mirrorlake.kafka.control.holes import why_no_hole
from mirrorlake.kafka.control.range_reader import read_range
from mirrorlake.kafka.records.aborted import AbortedTransactions
from mirrorlake.kafka.records.batches import Batch, walk
from mirrorlake.kafka.records.codec import decode_batches
from mirrorlake.kafka.records.scratch import DECOMPRESSED_BYTES_MAX
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import OffsetRange, TopicPartition

_READ_BYTES = 4 << 20

EMPTY_ANSWERS_MAX = 20
"""In a row below the end: a remote tier that is slow; nothing is concluded from them."""

_PAUSE_SECONDS = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class UnnamedTask:
    """A destination partition of one mirror. ``own_producer_ids`` are those its state record remembers.

    ``largest_batch_bytes`` is what one record batch may decompress to.
    """

    cluster: ClusterSettings
    partition: TopicPartition
    topics: ProgressTopics
    own_producer_ids: frozenset[int]
    largest_batch_bytes: int = DECOMPRESSED_BYTES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Unnamed:
    """How many records no map names; ``first_offset`` is the first one's at the destination, None without any.

    ``repeated`` are those that a map names as copied once more, after a position was moved back by hand.
    """

    records: int
    first_offset: int | None
    repeated: int


async def find_unnamed(task: UnnamedTask) -> Unnamed:
    """Counts committed records of the mirror's own producers that none of its offset maps names.

    What is committed meanwhile does not count: the end is read before the maps.

    Raises:
        MirrorlakeError: the partition or the maps could not be read.
    """
    async with ClusterClient(task.cluster) as client:
        own_ids = task.own_producer_ids | await _ids_now(client, task.topics)
        start = await client.offset_at(task.partition, EARLIEST)
        end = await client.offset_at(task.partition, LATEST)
        first_runs, later_runs = await _runs_at(client, task.topics, task.partition)
        named, firsts = _Named([*first_runs, *later_runs]), _Named(first_runs)
        records, repeated, first, empty_answers = 0, 0, None, 0
        while start < end:
            try:
                frame, answer = await client.fetch_once(task.partition, start, max_bytes=_READ_BYTES)
            except SourceTruncatedError:
                start = await client.offset_at(task.partition, EARLIEST)
                continue
            with frame:
                aborted = AbortedTransactions(answer.aborted)
                batches = [(batch, aborted.is_aborted(batch)) for batch in walk(answer.records)]
                if not batches:
                    if await _is_cleaned(client, task.partition, start, answer.last_stable_offset):
                        start = answer.last_stable_offset  # the cleaner took the last records and left no batch
                        continue
                    empty_answers += 1
                    if empty_answers == EMPTY_ANSWERS_MAX:
                        raise _unread(task.partition, start, end)
                    await asyncio.sleep(_PAUSE_SECONDS)
                    continue
                empty_answers = 0
                for batch, is_aborted in batches:
                    header = batch.header
                    if is_aborted or header.is_control or header.producer_id not in own_ids:
                        continue
                    within = OffsetRange(start_offset=start, end_offset=end)
                    unnamed = named.without(batch, within)
                    records += len(unnamed)
                    repeated += len(firsts.without(batch, within)) - len(unnamed)
                    if first is None and unnamed:
                        first = unnamed[0]
                start = max(start, batches[-1][0].header.next_offset)
    return Unnamed(records=records, first_offset=first, repeated=repeated)


async def _is_cleaned(client: ClusterClient, partition: TopicPartition, offset: int, stable_end: int) -> bool:
    if stable_end <= offset:
        return False
    hidden = OffsetRange(start_offset=offset, end_offset=stable_end)
    return await why_no_hole(client, partition, hidden, whose="destination") is None


def _unread(partition: TopicPartition, start: int, end: int) -> OutcomeUnknownError:
    return OutcomeUnknownError(
        f"offsets [{start}, {end}) of destination {partition} were not given out, so it is not known whether records "
        "of this mirror are there that no offset map names"
    )


async def _ids_now(client: ClusterClient, topics: ProgressTopics) -> frozenset[int]:
    names = [map_transactional_id(topics.mirror, shard) for shard in range(topics.shards)]
    found = (await client.describe_transactions(names)).values()
    return frozenset(state.producer_id for state in found if isinstance(state, TransactionState))


async def _runs_at(
    client: ClusterClient, topics: ProgressTopics, partition: TopicPartition
) -> tuple[list[MappedRun], list[MappedRun]]:
    """Returns every run of every map of the mirror that lies in a destination partition, of earlier topics too.

    First those that name the first copy of a record, then those of the later pages, which may name others too.
    """
    runs: list[MappedRun] = []
    later_runs: list[MappedRun] = []
    for shard in range(topics.shards):
        progress = await read_progress(client, topics.progress_of(shard))
        maps: dict[tuple[ProgressKey, str], list[MappedRun]] = defaultdict(list)
        later: dict[tuple[ProgressKey, str], dict[int, list[MappedRun]]] = defaultdict(dict)
        for key, each in progress.items():
            if TopicPartition(key.destination_topic, each.destination_partition) == partition:
                maps[key, each.source_topic_id] += decode_runs(each.page.start_offset, each.page.encoded)
        for page_key, page in await _pages_at(client, topics.pages_of(shard), partition):
            whose = page_key.progress, page_key.source_topic_id
            if page_key.later_at is None:
                maps[whose] += page.runs
            else:
                later[whose][page_key.later_at] = page.runs
        for whose in maps.keys() | later.keys():
            ordered = sorted(maps[whose], key=lambda run: run.start_offset)
            pages = [later[whose][at] for at in sorted(later[whose])]
            runs += first_copies(ordered, pages)
            later_runs += [run for page in pages for run in page]
    return runs, later_runs


async def _pages_at(
    client: ClusterClient, where: TopicPartition, partition: TopicPartition
) -> list[tuple[PageKey, MapPage]]:
    """Returns the pages of a shard that speak of a destination partition."""
    offsets = OffsetRange(
        start_offset=await client.offset_at(where, EARLIEST), end_offset=await client.offset_at(where, LATEST)
    )
    pages: dict[bytes, bytes | None] = {}
    async for columns in read_range(client, where, offsets, whose="destination"):
        pages |= dict(zip(columns.keys.to_pylist(), columns.values.to_pylist(), strict=True))
    found = []
    for key_bytes, value in pages.items():
        key = decode_page_key(key_bytes)
        if value is not None and key.progress.destination_topic == partition.topic:
            page = decode_page(key, value)
            found += [(key, page)] if page.destination_partition == partition.partition else []
    return found


class _Named:
    """The destination offsets that maps name."""

    def __init__(self, runs: Iterable[MappedRun]) -> None:
        ordered = sorted((run.destination_offset, run.destination_end) for run in runs)
        self._starts = np.array([start for start, _ in ordered], np.int64)
        # Runs of different maps do not overlap; where they were made to, the longer one counts.
        self._ends = np.maximum.accumulate(np.array([end for _, end in ordered], np.int64))

    def without(self, batch: Batch, within: OffsetRange) -> list[int]:
        """Returns the offsets of a batch's records, within a range, that no map names; ascending."""
        header = batch.header
        if not header.record_count or self._covers(header.base_offset, header.next_offset):
            return []
        columns = decode_batches([batch], start_offset=within.start_offset, end_offset=within.end_offset)
        return [offset for offset in columns.offsets.tolist() if not self._covers(offset, offset + 1)]

    def _covers(self, start: int, end: int) -> bool:
        row = int(np.searchsorted(self._starts, start, "right")) - 1
        return row >= 0 and end <= int(self._ends[row])
