"""The tail check: at every take-over, what lies below the position must be what the source has there.

One mechanism notices a resumed copy of another topic, a foreign write, a duplicate that displaced the rest, a marker
that was written twice, and a destination topic that was not empty. It costs one read on each side.

An offset holds, on either side, one of three things: a record; a batch that no consumer is shown (a transaction
marker, aborted data); or nothing, because the cleaner took it. Record stands against the same record, a marker or
aborted data never against a record, and nothing is right only where a topic is compacted.

Both sides are read as a consumer of committed data sees them, so what was written in a transaction counts as what it
is: a record where it was committed, nothing where it was aborted, whoever wrote it. Why somebody's aborted data is
let stand where the source has no record either: ``docs/decisions/0124-whose-fillers.md``.
"""

from collections.abc import Awaitable, Callable, Collection
from functools import partial

import numpy as np
import numpy.typing as npt

from mirrorlake.destinations.interface import NOTHING_HELD
from mirrorlake.destinations.record_clock import times_replaced
from mirrorlake.destinations.source_bounds import destination_ahead
from mirrorlake.destinations.source_log import SourceLog
from mirrorlake.destinations.tail import TAIL_OFFSETS, Tail, newest_ms, read_tail
from mirrorlake.destinations.transform import AS_IT_IS, Times, Transform
from mirrorlake.errors import DestinationForeignError, MirrorlakeError, MisalignedError
from mirrorlake.kafka.control.cluster import EARLIEST, ClusterClient
from mirrorlake.kafka.records.codec import RecordColumns, record_hashes
from mirrorlake.kafka.records.columns import LOG_APPEND_TIME
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.together import both

REMEDY = (
    "delete and re-create the destination topic to copy it afresh, or mirror to another topic; nothing was appended"
)
MOVED_THERE = "if producers were moved there, keep the topic: `mirrorlake failback plan` says what goes back"
"""What comes before any remedy that deletes what somebody else has written to a copy."""


AskLettered = Callable[[], Awaitable[npt.NDArray[np.int64]]]
"""Asks which source offsets have a dead letter, and so no record in the copy."""


def first_difference(
    source: Tail,
    destination: Tail,
    *,
    lettered: Collection[int] = (),
    source_is_compacted: bool = False,
    destination_is_compacted: bool = False,
    transform: Transform = AS_IT_IS,
) -> int | None:
    """Returns the first offset at which the two differ, or None where both hold the same. Pure.

    Offset, timestamp, key, value and headers of a record count, as far as ``transform``, what the copy changes, leaves
    them comparable. Both must be decoded from the same range of offsets. ``…_is_compacted`` says that a record may be
    missing on that side; where its log shows that it was cleaned one may be in any case, as a policy may have been
    another one before. ``lettered`` says at which offsets the copy holds none, as they have a dead letter.
    """
    expected = _hashes(transform.source_side(source.records))
    held = _hashes(transform.copy_side(destination.records))
    for offset in sorted(expected.keys() | held.keys()):
        if offset in expected and offset in held:
            is_equal = expected[offset] == held[offset]
        elif source.is_unknown(offset):
            is_equal = True
        elif offset in expected and source.skips_late and destination.is_unseen(offset):
            is_equal = True  # a gap was filled there before the record came
        elif offset in expected and offset in lettered:
            is_equal = True
        elif offset in expected:
            is_missing_well = destination_is_compacted or destination.is_cleaned(offset)
            is_equal = is_missing_well and not destination.is_unseen(offset)
        else:
            is_missing_well = source_is_compacted or source.is_cleaned(offset)
            is_equal = is_missing_well and not source.is_unseen(offset)
        if not is_equal:
            return offset
    return None


def _hashes(records: RecordColumns) -> dict[int, int]:
    hashes: npt.NDArray[np.uint64] = record_hashes(records)
    return dict(zip(records.offsets.tolist(), hashes.tolist(), strict=True))


def has_only_other_time(source: Tail, destination: Tail, offset: int) -> bool:
    """Tells whether the destination's brokers have given the record at an offset their own time, and no more. Pure."""
    stamped = destination.records.timestamp_types[destination.records.offsets == offset]
    if not (len(stamped) and stamped[0] == LOG_APPEND_TIME):
        return False
    expected, held = (_hashes(tail.records.without_timestamps()) for tail in (source, destination))
    return expected.get(offset) == held[offset]


class TailCheck:
    """Compares one source partition with its copy.

    Args:
        source_log: the source partition.
        destination_client: of the destination cluster.
        destination: its copy.
        source_is_compacted: the source topic may lose records to the cleaner.
        destination_is_compacted: the same of the destination topic.
        transform: what the copy changes of records.
        lettered: asked where a record is not in the copy; None where no record ever became a dead letter.
    """

    def __init__(
        self,
        source_log: SourceLog,
        destination_client: ClusterClient,
        destination: TopicPartition,
        *,
        source_is_compacted: bool = False,
        destination_is_compacted: bool = False,
        transform: Transform = AS_IT_IS,
        lettered: AskLettered | None = None,
    ) -> None:
        self._source_log = source_log
        self._source = source_log.partition
        self._destination_client = destination_client
        self._destination = destination
        self._source_is_compacted = source_is_compacted
        self._destination_is_compacted = destination_is_compacted
        self._transform = transform
        self._lettered = lettered

    async def check(self, position: int, own: frozenset[int] | None) -> int | None:
        """Compares the last records below ``position`` on both sides; returns where they are equal. Reads only.

        Where either side has deleted all of them there is nothing to compare, and that is no refusal: retention at
        the destination is its owner's business. But what the destination still holds must have been written by us
        then: outside of transactions, under a producer id of ours.

        Args:
            position: the destination's log end, or where a transaction of ours begins there.
            own: every producer id that is ours, None where that is not known.

        Returns:
            The time of the newest record there as it was at the source, in Unix milliseconds; ``NOTHING_HELD`` where
            the copy has none, None where that is not known.

        Raises:
            DestinationForeignError: they differ, or somebody else wrote past the source's end; the text names the first
                such offset.
            MisalignedError: they differ, and the destination has a transaction marker where the source has a record.
            WrongTimestampsError: they differ in a time that the destination's brokers have set.
            DestinationAheadError: the source's log ends below ``position``.
            MirrorlakeError: a side could not be read.
        """
        if position == 0:
            return NOTHING_HELD
        keeps_times = self._transform.times is Times.SOURCE
        end = await self._source_log.written_end()
        if end is not None and end < position:
            raise await self._past_the_end(position, end, own)
        source_start, destination_start = await both(
            self._source_log.start(),
            self._destination_client.offset_at(self._destination, EARLIEST),
        )
        start = max(position - TAIL_OFFSETS, destination_start)
        if start >= position:
            return NOTHING_HELD
        held_offsets = OffsetRange(start_offset=start, end_offset=position)
        if source_start >= position:
            # Nothing to compare with. But who wrote it says something too.
            held = await read_tail(self._destination_client, self._destination, held_offsets, whose="destination")
            if strange := next((each for each in held.written if not each.may_be_ours(own)), None):
                raise self._of_nobody(position, strange.offset, source_start)
            return newest_ms(held.records) if keeps_times else None
        offsets = OffsetRange(start_offset=max(start, source_start), end_offset=position)
        expected, held = await both(
            self._source_log.read_tail(offsets),
            read_tail(self._destination_client, self._destination, offsets, whose="destination"),
        )
        compare = partial(
            first_difference,
            expected,
            held,
            source_is_compacted=self._source_is_compacted,
            destination_is_compacted=self._destination_is_compacted,
            transform=self._transform,
        )
        difference = compare()
        if difference is not None and self._lettered is not None:
            difference = compare(lettered=frozenset((await self._lettered()).tolist()))
        if difference is not None and keeps_times and has_only_other_time(expected, held, difference):
            raise times_replaced(self._destination, difference, is_seen=True)
        if difference is not None and held.is_marker(difference):
            raise self._misaligned(position, difference)
        if difference is not None:
            raise self._foreign(position, difference)
        return newest_ms(expected.records, *([held.records] if keeps_times else []))

    async def _past_the_end(self, position: int, source_end: int, own: frozenset[int] | None) -> MirrorlakeError:
        """Returns what is known of records past the source's end: who wrote them says more than that they are there."""
        ahead = destination_ahead(self._source, position, source_end)
        try:
            destination_start = await self._destination_client.offset_at(self._destination, EARLIEST)
            start = max(source_end, position - TAIL_OFFSETS, destination_start)
            if start >= position:
                return ahead
            offsets = OffsetRange(start_offset=start, end_offset=position)
            held = await read_tail(self._destination_client, self._destination, offsets, whose="destination")
        except MirrorlakeError:
            return ahead  # that much is known already
        strange = next((each for each in held.written if not each.may_be_ours(own)), None)
        if strange is None:
            return ahead
        return DestinationForeignError(
            f"destination {self._destination} is at position {position}, past the end {source_end} of source "
            f"{self._source}, and its record at offset {strange.offset} was not written by this mirror",
            hint=f"{MOVED_THERE}; else stop that producer, and {REMEDY}",
            position=position,
            differing_offset=strange.offset,
        )

    def _of_nobody(self, position: int, offset: int, source_start: int) -> DestinationForeignError:
        return DestinationForeignError(
            f"destination {self._destination} is at position {position}, and its record at offset {offset} was not "
            f"written by this mirror; the log of source {self._source} begins at offset {source_start}, so there is "
            "nothing to compare it with",
            hint=REMEDY,
            position=position,
            differing_offset=offset,
        )

    def _misaligned(self, position: int, offset: int) -> MisalignedError:
        return MisalignedError(
            f"destination {self._destination} is misaligned: it is at position {position}, and has a transaction "
            f"marker at offset {offset}, where source {self._source} has a record",
            hint="a coordinator that failed over wrote a marker twice, or another producer wrote there; " + REMEDY,
            position=position,
            differing_offset=offset,
        )

    def _foreign(self, position: int, offset: int) -> DestinationForeignError:
        return DestinationForeignError(
            f"destination {self._destination} is at position {position}, but its record at offset {offset} is not "
            f"that of source {self._source}",
            hint=REMEDY,
            position=position,
            differing_offset=offset,
        )
