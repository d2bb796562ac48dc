"""The tail check: at every take-over, what lies below the position must be what the source has there.

One mechanism notices a resumed copy of another topic, a foreign write, a duplicate that displaced the rest, a marker
that was written twice, and a destination topic that was not empty. It costs one read on each side.

An offset holds, on either side, one of three things: a record; a batch that no consumer is shown (a transaction
marker, aborted data, one of our fillers); or nothing, because the cleaner took it. Record stands against the same
record, a marker or filler never against a record, and nothing is right only where a topic is compacted.
"""

import asyncio
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mirrorlake.destinations.source_bounds import destination_ahead
from mirrorlake.errors import BrokerNotReadyError, DestinationForeignError
from mirrorlake.kafka.batches import AbortedTransactions, Batch, walk
from mirrorlake.kafka.cluster import EARLIEST, ClusterClient
from mirrorlake.kafka.codec import RecordColumns, decode_batches, record_hashes
from mirrorlake.kafka.descriptions import LogEnd
from mirrorlake.kafka.fetch import READ_COMMITTED, READ_UNCOMMITTED, FetchedPartition
from mirrorlake.offsets import OffsetRange, TopicPartition

TAIL_OFFSETS = 64
"""How far below the position the comparison begins: more than the five batches in flight of a small producer, so that
a write that displaced ours shows, and still one read."""

TAIL_BYTES = 1 << 20
"""What one read asks for; the first batch comes whole, however large."""

REMEDY = (
    "delete and re-create the destination topic to copy it afresh, or mirror to another topic; nothing was appended"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """What a range of a log holds: its records, and the ranges of batches that no consumer is shown."""

    records: RecordColumns
    unseen: tuple[OffsetRange, ...] = ()

    def is_unseen(self, offset: int) -> bool:
        """True where a marker, aborted data or a filler lies at ``offset``."""
        return any(each.start_offset <= offset < each.end_offset for each in self.unseen)


def first_difference(
    source: Tail,
    destination: Tail,
    *,
    source_is_compacted: bool = False,
    destination_is_compacted: bool = False,
    compares_timestamps: bool = True,
) -> int | None:
    """Returns the first offset at which the two differ, or None where both hold the same. Pure.

    Offset, timestamp, key, value and headers of a record count. Both must be decoded from the same range of offsets.
    ``…_is_compacted`` says that a record may be missing on that side. Without ``compares_timestamps`` times do not
    count.
    """
    expected = _hashes(source.records, compares_timestamps=compares_timestamps)
    held = _hashes(destination.records, compares_timestamps=compares_timestamps)
    for offset in sorted(expected.keys() | held.keys()):
        if offset in expected and offset in held:
            is_equal = expected[offset] == held[offset]
        elif offset in expected:
            is_equal = destination_is_compacted and not destination.is_unseen(offset)
        else:
            is_equal = source_is_compacted and not source.is_unseen(offset)
        if not is_equal:
            return offset
    return None


def _hashes(records: RecordColumns, *, compares_timestamps: bool) -> dict[int, int]:
    if not compares_timestamps:
        records = records.without_timestamps()
    hashes: npt.NDArray[np.uint64] = record_hashes(records)
    return dict(zip(records.offsets.tolist(), hashes.tolist(), strict=True))


class TailCheck:
    """Compares one source partition with its copy.

    Args:
        source_client: of the source cluster.
        source: the source partition.
        destination_client: of the destination cluster.
        destination: its copy.
        source_is_compacted: the source topic may lose records to the cleaner.
        destination_is_compacted: the same of the destination topic.
        compares_timestamps: False where the destination's brokers give records their own time.
    """

    def __init__(
        self,
        source_client: ClusterClient,
        source: TopicPartition,
        destination_client: ClusterClient,
        destination: TopicPartition,
        *,
        source_is_compacted: bool = False,
        destination_is_compacted: bool = False,
        compares_timestamps: bool = True,
    ) -> None:
        self._source_client = source_client
        self._source = source
        self._destination_client = destination_client
        self._destination = destination
        self._source_is_compacted = source_is_compacted
        self._destination_is_compacted = destination_is_compacted
        self._compares_timestamps = compares_timestamps

    async def check(self, position: int) -> None:
        """Compares the last records below ``position`` on both sides; returns where they are equal. Reads only.

        Where either side has deleted all of them there is nothing to compare, and that is no refusal: retention at
        the destination is its owner's business.

        Raises:
            DestinationForeignError: they differ; the text names the first differing offset.
            DestinationAheadError: the source's log ends below ``position``.
            MirrorlakeError: a side could not be read.
        """
        if position == 0:
            return
        # The leader's own end: after an election the others may lag for a moment, a truncated log never gets it back.
        ends = await self._source_client.log_ends([self._source])
        if isinstance(end := ends[self._source], LogEnd) and end.end_offset < position:
            raise destination_ahead(self._source, position, end.end_offset)
        starts = await asyncio.gather(
            self._source_client.offset_at(self._source, EARLIEST),
            self._destination_client.offset_at(self._destination, EARLIEST),
        )
        start = max(position - TAIL_OFFSETS, *starts)
        if start >= position:
            return
        offsets = OffsetRange(start_offset=start, end_offset=position)
        expected, held = await asyncio.gather(
            _tail(self._source_client, self._source, offsets, isolation_level=READ_COMMITTED),
            # The destination's last stable offset may lag behind; what is in a transaction there is a filler anyway.
            _tail(self._destination_client, self._destination, offsets, isolation_level=READ_UNCOMMITTED),
        )
        difference = first_difference(
            expected,
            held,
            source_is_compacted=self._source_is_compacted,
            destination_is_compacted=self._destination_is_compacted,
            compares_timestamps=self._compares_timestamps,
        )
        if difference is not None:
            raise DestinationForeignError(
                f"destination {self._destination} is at position {position}, but what it holds at offset "
                f"{difference} is not what source {self._source} has there",
                hint=REMEDY,
                position=position,
                differing_offset=difference,
            )


async def _tail(
    client: ClusterClient, partition: TopicPartition, offsets: OffsetRange, *, isolation_level: int
) -> Tail:
    """Reads a range, as far as the log holds it. Without ``READ_COMMITTED``, all that is transactional is a filler."""
    parts: list[RecordColumns] = []
    unseen: list[OffsetRange] = []
    position = offsets.start_offset
    while position < offsets.end_offset:
        frame, answer = await client.fetch_once(
            partition, position, max_bytes=TAIL_BYTES, isolation_level=isolation_level
        )
        with frame:
            aborted = AbortedTransactions(answer.aborted)
            found = list(walk(answer.records))
            data: list[Batch] = []
            for batch in found:
                header = batch.header
                is_aborted = aborted.is_aborted(batch)
                is_filler = isolation_level == READ_UNCOMMITTED and header.is_transactional
                if header.is_control or is_aborted or is_filler:
                    unseen.append(OffsetRange(start_offset=header.base_offset, end_offset=header.next_offset))
                elif header.record_count and header.last_offset >= position:
                    data.append(batch)
            parts.append(decode_batches(data, start_offset=position, end_offset=offsets.end_offset))
            if not found or found[-1].header.next_offset <= position:
                _check_is_readable(partition, offsets, answer, isolation_level=isolation_level)
                break
            position = found[-1].header.next_offset
    return Tail(records=RecordColumns.concat(parts), unseen=tuple(unseen))


def _check_is_readable(
    partition: TopicPartition, offsets: OffsetRange, answer: FetchedPartition, *, isolation_level: int
) -> None:
    """Tells a log that holds no more from one that does not show it yet: a follower lags, or a transaction is open.

    Raises:
        BrokerNotReadyError: it does not show all of ``offsets`` yet.
    """
    readable = answer.last_stable_offset if isolation_level == READ_COMMITTED else answer.high_watermark
    if 0 <= readable < offsets.end_offset:
        raise BrokerNotReadyError(
            f"{partition} shows records up to offset {readable} only, and those up to {offsets.end_offset} must be "
            "compared before anything is appended",
            hint="its replicas lag behind, or a transaction stands open; it is tried again",
            position=offsets.end_offset,
            readable_offset=readable,
        )
