"""The records below a position, as a consumer of committed records sees them, to be compared with another's."""

from collections.abc import Sequence
from dataclasses import dataclass

from mirrorlake.errors import BrokerNotReadyError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.holes import check_empty
from mirrorlake.kafka.control.known_offsets import fetch_known
from mirrorlake.kafka.records.batches import AbortedTransactions, Batch, cleaned_ranges, walk
from mirrorlake.kafka.records.codec import RecordColumns, decode_batches
from mirrorlake.kafka.wire.fetch import READ_COMMITTED, FetchedPartition
from mirrorlake.offsets import OffsetRange, TopicPartition

TAIL_OFFSETS = 64
"""How far below the position the comparison begins: more than twenty batches of a record each, as may be in flight, so
that a write that displaced ours shows, and still one read."""

TAIL_BYTES = 1 << 20
"""What one read asks for; the first batch comes whole, however large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """What a range of a log holds: its records, and the ranges of batches that no consumer is shown.

    ``markers`` are those of ``unseen`` that end transactions. ``written`` are the batches the records are in.
    ``cleaned`` are ranges that have lost records to a cleaner, as a batch is missing there or holds fewer records than
    offsets: whatever the topic's policy is now.
    ``unknown`` are ranges of which nobody can say what they held. ``skips_late`` says that a copy may have passed over
    records that were not there when it came by.
    """

    records: RecordColumns
    unseen: tuple[OffsetRange, ...] = ()
    markers: tuple[OffsetRange, ...] = ()
    written: tuple["Written", ...] = ()
    cleaned: tuple[OffsetRange, ...] = ()
    unknown: tuple[OffsetRange, ...] = ()
    skips_late: bool = False

    def is_unknown(self, offset: int) -> bool:
        """True where nobody can say what lay at ``offset``."""
        return _is_in(offset, self.unknown)

    def is_unseen(self, offset: int) -> bool:
        """True where a marker, aborted data or a filler lies at ``offset``."""
        return _is_in(offset, self.unseen)

    def is_cleaned(self, offset: int) -> bool:
        """True where the log shows that a cleaner may have taken what lay at ``offset``."""
        return _is_in(offset, self.cleaned)

    def is_marker(self, offset: int) -> bool:
        """True where a transaction marker lies at ``offset``."""
        return _is_in(offset, self.markers)


def _is_in(offset: int, ranges: Sequence[OffsetRange]) -> bool:
    return any(each.start_offset <= offset < each.end_offset for each in ranges)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A batch of records: the first of its offsets that was looked at, and how it was written.

    ``producer_id`` is −1 where its writer had none.
    """

    offset: int
    producer_id: int
    is_transactional: bool

    def may_be_ours(self, own: frozenset[int] | None) -> bool:
        """True where a mirror with these producer ids may have written it; None where they are not known."""
        return not self.is_transactional and (own is None or (self.producer_id >= 0 and self.producer_id in own))


def newest_ms(*parts: RecordColumns) -> int | None:
    """Returns the newest time of records, in Unix milliseconds; None where there are none, or none says it. Pure."""
    return max((int(each.timestamps.max()) for each in parts if len(each) and each.timestamps.max() >= 0), default=None)


async def read_tail(client: ClusterClient, partition: TopicPartition, offsets: OffsetRange, *, whose: str) -> Tail:
    """Reads a range as a consumer of committed records sees it, as far as the log holds it.

    Raises:
        BrokerNotReadyError: the log does not show all of it yet.
        RemoteTierError: its remote tier does not give out what it holds.
        MirrorlakeError: it could not be read.
    """
    parts: list[RecordColumns] = []
    unseen: list[OffsetRange] = []
    markers: list[OffsetRange] = []
    written: list[Written] = []
    cleaned: list[OffsetRange] = []
    position = offsets.start_offset
    while position < offsets.end_offset:
        frame, answer = await fetch_known(
            client, partition, position, max_bytes=TAIL_BYTES, isolation_level=READ_COMMITTED
        )
        with frame:
            aborted = AbortedTransactions(answer.aborted)
            found = list(walk(answer.records))
            data: list[Batch] = []
            cleaned += cleaned_ranges(found, start_offset=position)
            for batch in found:
                header = batch.header
                is_aborted = aborted.is_aborted(batch)
                if header.last_offset < position:
                    continue
                covered = OffsetRange(start_offset=max(header.base_offset, position), end_offset=header.next_offset)
                if is_aborted or header.is_control:
                    unseen.append(covered)
                    if header.is_control:
                        markers.append(covered)
                elif header.record_count:
                    data.append(batch)
                    written.append(
                        Written(
                            offset=covered.start_offset,
                            producer_id=header.producer_id,
                            is_transactional=header.is_transactional,
                        )
                    )
            parts.append(decode_batches(data, start_offset=position, end_offset=offsets.end_offset))
            if not found or found[-1].header.next_offset <= position:
                readable = check_is_readable(partition, offsets.end_offset, answer)
                await check_empty(client, partition, position, readable_end=readable, whose=whose)
                cleaned.append(OffsetRange(start_offset=position, end_offset=offsets.end_offset))
                break
            position = found[-1].header.next_offset
    return Tail(
        records=RecordColumns.concat(parts),
        unseen=tuple(unseen),
        markers=tuple(markers),
        written=tuple(written),
        cleaned=tuple(cleaned),
    )


def check_is_readable(partition: TopicPartition, end_offset: int, answer: FetchedPartition) -> int:
    """Returns the end of what a log shows: a follower may lag, or a transaction be open.

    Raises:
        BrokerNotReadyError: it does not show all below ``end_offset`` (exclusive) yet.
    """
    readable = answer.last_stable_offset
    if 0 <= readable < end_offset:
        raise BrokerNotReadyError(
            f"{partition} shows records up to offset {readable} only, and those up to {end_offset} must be compared "
            "before anything is appended",
            hint="its replicas lag behind, or a transaction is open; it is tried again",
            position=end_offset,
            readable_offset=readable,
        )
    return max(readable, end_offset)
