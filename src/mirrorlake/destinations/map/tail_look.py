"""Looks at the end of a destination with mapped offsets: is what the progress says there, and nothing else?"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum, auto

from mirrorlake.destinations.map.lost_tail import Trim, cut_short, overwritten, runs_of, trimmed
from mirrorlake.destinations.map.offset_map import MappedRun
from mirrorlake.destinations.map.progress import MapProgress, ProgressKey
from mirrorlake.destinations.map.progress_store import read_pages
from mirrorlake.destinations.transactions.written_records import find_committed_by
from mirrorlake.errors import LostProgressError, LostTailError, SourceTruncatedError
from mirrorlake.kafka.control.cluster import EARLIEST, ClusterClient
from mirrorlake.kafka.control.holes import check_empty
from mirrorlake.kafka.records.aborted import AbortedTransactions
from mirrorlake.kafka.records.batches import Batch, walk
from mirrorlake.kafka.wire.fetch import READ_COMMITTED
from mirrorlake.offsets import OffsetRange, TopicPartition

BEHIND_BYTES_MAX = 8 << 20
"""What is read behind our last record: a transaction's data comes soon after the one before, and the records of a
busy other producer must not be read whole at every start."""


class Holder(Enum):
    """What stands at an offset where a record of ours was written."""

    OURS = auto()
    """A committed batch of a producer id of ours."""
    NOT_TOLD = auto()
    """A committed transactional batch of another producer id: ours before that one expired, or somebody else's."""
    OTHERS = auto()
    """A marker, an aborted batch, one written outside of a transaction, or by another shard: none of ours."""
    NOTHING = auto()
    """No batch (deleted, or compacted away), or one that is not decided yet."""


class TailLook:
    """One destination partition at one take-over.

    Args:
        client: of the destination cluster.
        partition: of the destination.
        own_producer_ids: those our records may have.
        other_shards_ids: those that no record of ours has, as the mirror's other shards write under them.
        end_offset: of the partition's log, after the fence, and before a marker that closed what was open there.
    """

    def __init__(
        self,
        client: ClusterClient,
        partition: TopicPartition,
        own_producer_ids: Collection[int],
        *,
        end_offset: int,
        other_shards_ids: Collection[int] = (),
    ) -> None:
        self._client = client
        self.partition = partition
        self._own_producer_ids = own_producer_ids
        self._other_shards_ids = other_shards_ids
        self._end_offset = end_offset

    @property
    def has_former_ids(self) -> bool:
        """True where the shard wrote under further producer ids, of which the partition's leader was not asked."""
        return len({*self._own_producer_ids}) > 1

    async def find_lost(
        self, there: Mapping[ProgressKey, MapProgress], *, looks_at_records: bool
    ) -> dict[ProgressKey, LostTailError]:
        """Returns whose newest records are not in the log any more, and what that means.

        Args:
            there: the progress of every source that has records in the partition.
            looks_at_records: whether a log that is long enough is looked into: it may have grown again.

        Raises:
            MirrorlakeError: the partition could not be read.
        """
        lost: dict[ProgressKey, LostTailError] = {}
        for key, progress in there.items():
            error = cut_short(key, progress, self._end_offset)
            last = progress.destination_end - 1
            if error is None and looks_at_records and await self._holder_of(last) is Holder.OTHERS:
                error = overwritten(key, progress, self._end_offset)
            if error is not None:
                lost[key] = error
        return lost

    async def trim(
        self, key: ProgressKey, progress: MapProgress, pages_partition: TopicPartition, lost: LostTailError
    ) -> Trim:
        """Returns what the progress becomes without what is lost.

        Raises:
            LostTailError: ``lost``, where it cannot be told from which offset on.
            LostProgressError: the offset map is not whole.
            MirrorlakeError: the partition or the offset map could not be read.
        """
        pages = await read_pages(self._client, pages_partition, key, progress)
        runs = runs_of(progress, pages.full)
        if not runs or runs[-1].destination_end < progress.destination_end:
            raise lost  # the newest records were copied after a move back, and may be copied once more
        cut = await self._find_cut(runs)
        if cut is None:
            raise lost
        trim = trimmed(key, progress, pages.full, cut)
        if any(run.destination_end > trim.progress.destination_end for _, page in pages.later for run in page.runs):
            raise lost  # some of those may be lost too, and which was not looked for
        return trim

    async def check_behind(self, there: Mapping[ProgressKey, MapProgress], progress_partition: TopicPartition) -> None:
        """Checks that nothing of ours stands behind the last record the progress knows of.

        Data and progress are committed in one transaction, so such a record says that the progress was lost.

        Raises:
            LostProgressError: there is one.
            MirrorlakeError: the partition could not be read.
        """
        known_end = max((each.destination_end for each in there.values()), default=0)
        found = await self._find_behind(known_end)
        if found is None:
            return
        raise LostProgressError(
            f"destination {self.partition} holds records of this mirror at offset {found}, and its progress in "
            f"{progress_partition} knows of none from offset {known_end} on: the progress has lost its newest records, "
            "and to continue would copy them twice",
            hint="bring the progress back from another replica; or give the mirror another name, and as `start` the "
            "`offsets` to copy from; or delete the destination topic, and copy the source topics that go there, and no "
            "others, by a mirror of another name",
            destination_end=known_end,
            found=found,
        )

    # --- reading ------------------------------------------------------------------------------------------

    async def _holder_of(self, offset: int) -> Holder:
        """Returns what stands at an offset where a record of ours was written; past the end it is surely not ours."""
        if offset >= self._end_offset:
            return Holder.OTHERS
        try:
            frame, answer = await self._client.fetch_once(
                self.partition, offset, max_bytes=1, isolation_level=READ_COMMITTED
            )
        except SourceTruncatedError:  # deleted
            return Holder.NOTHING
        with frame:
            aborted = AbortedTransactions(answer.aborted)
            for batch in walk(answer.records):
                holder = self._holder(batch, is_aborted=aborted.is_aborted(batch))
                if batch.header.last_offset >= offset:
                    return holder if batch.header.base_offset <= offset else Holder.NOTHING
        await check_empty(self._client, self.partition, offset, readable_end=answer.last_stable_offset)
        return Holder.NOTHING

    def _holder(self, batch: Batch, *, is_aborted: bool) -> Holder:
        header = batch.header
        if header.is_control or is_aborted or not header.is_transactional:
            return Holder.OTHERS
        if header.producer_id in self._other_shards_ids:
            return Holder.OTHERS
        return Holder.OURS if header.producer_id in self._own_producer_ids else Holder.NOT_TOLD

    async def _find_cut(self, runs: Sequence[MappedRun]) -> int | None:
        """Returns the first mapped destination offset that does not hold our record any more; the last does not.

        A log loses its end: below the cut everything of ours is there, above it nothing. None where it cannot be told,
        because transactions of producer ids are met that may be ours or not.
        """
        offsets = [range(run.destination_offset, run.destination_end) for run in runs]
        below, at = 0, sum(map(len, offsets)) - 1
        while below < at:
            middle = (below + at) // 2
            holder = await self._holder_of(_nth(offsets, middle))
            if holder is Holder.NOT_TOLD:
                return None
            if holder is Holder.OTHERS:
                at = middle
            else:
                below = middle + 1
        return _nth(offsets, below)

    async def _find_behind(self, start_offset: int) -> int | None:
        """Returns the first offset from ``start_offset`` on with committed data of ours, None where there is none.

        Somebody else's open transaction, and a log start that has moved, hide none of it.
        """
        start = max(start_offset, await self._client.offset_at(self.partition, EARLIEST))
        return await find_committed_by(
            self._client,
            self.partition,
            self._own_producer_ids,
            OffsetRange(start_offset=start, end_offset=max(start, self._end_offset)),
            bytes_max=BEHIND_BYTES_MAX,
        )


def _nth(ranges: Iterable[range], index: int) -> int:
    for each in ranges:
        if index < len(each):
            return each[index]
        index -= len(each)
    raise IndexError(index)
