"""A source held in memory: real record batches at offsets, of which some may be missing, and an end that stays.

It has no leader, no epochs and no transactions, as an archive has none: whatever a mirror does with it, it does by the
protocol of a source alone.
"""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mirrorlake.destinations.connections import Clients
from mirrorlake.destinations.interface import Delivery
from mirrorlake.destinations.source_bounds import explain_out_of_range
from mirrorlake.destinations.tail import Tail
from mirrorlake.destinations.transactions.owner_states import OwnerState
from mirrorlake.errors import MirrorlakeError, SourceTruncatedError, TopicMissingError, TopicRecreatedError
from mirrorlake.kafka.control.descriptions import ConfigValue
from mirrorlake.kafka.records.batches import AbortedTransactions, Batch, walk
from mirrorlake.kafka.records.codec import RecordColumns, decode_batches
from mirrorlake.kafka.schema_ids.counting import all_counts
from mirrorlake.kafka.schema_ids.counts import SchemaIdCounts
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.sources.client import BatchFacts, Bounds, SourceTopic, SourceTopics
from mirrorlake.sources.facts import classified
from mirrorlake.sources.mark import SourceMark
from mirrorlake.sources.source import SourceContext, SourceWork, Taker

TOPIC_ID = "held-topic"
SOURCE_ID = "held-source"
BATCHES_AT_ONCE = 2


@dataclass
class HeldPartition:
    """What is held of a partition: batches in offset order, by their first offset."""

    start: int = 0
    end: int = 0
    batches: dict[int, bytes] = field(default_factory=dict)

    def add(self, base_offset: int, batch: bytes) -> None:
        """Adds a batch at an offset past all others."""
        placed = bytearray(batch)
        struct.pack_into(">q", placed, 0, base_offset)
        self.batches[base_offset] = bytes(placed)
        self.end = next(iter(walk(memoryview(placed)))).header.next_offset

    def from_offset(self, offset: int, *, batches_max: int | None = None) -> bytearray:
        """Returns a copy of the batches from the one that holds an offset on: bytes that a sink may write to."""
        found = bytearray()
        for taken, each in enumerate(b for b in self.batches.values() if _batch(b).header.next_offset > offset):
            if taken == batches_max:
                break
            found += each
        return found

    def records(self, offsets: OffsetRange) -> RecordColumns:
        """Returns the records of a range."""
        batches = list(walk(memoryview(self.from_offset(offsets.start_offset))))
        return decode_batches(batches, start_offset=offsets.start_offset, end_offset=offsets.end_offset)


def _batch(data: bytes) -> Batch:
    return next(iter(walk(memoryview(data))))


HELD: dict[str, dict[TopicPartition, HeldPartition]] = {}
"""What every source holds, by its name. A worker of the same process finds it there."""


def held(name: str, partition: TopicPartition) -> HeldPartition:
    """Returns a partition of a source, to be filled."""
    return HELD.setdefault(name, {}).setdefault(partition, HeldPartition())


class HeldFrame:
    """Bytes that live as long as somebody holds them; counts the pins."""

    def __init__(self) -> None:
        self.pins = 1

    def pin(self) -> None:
        self.pins += 1

    def unpin(self) -> None:
        self.pins -= 1


class HeldReads:
    """The reads of a lease from one source."""

    def __init__(self) -> None:
        self.readers: list[HeldReader] = []

    show_changes = False

    def prolong(self, seconds: float) -> None: ...

    def end_live(self) -> None:
        for reader in self.readers:
            if reader.is_live:
                reader.stop()

    async def stop(self) -> None:
        for reader in self.readers:
            reader.stop()
        for reader in self.readers:
            if reader.task is not None:
                with contextlib.suppress(asyncio.CancelledError):
                    await reader.task


class HeldReader:
    """Delivers a few batches at a time, each time the taker wants more."""

    refusal: MirrorlakeError | None = None
    has_question = False

    def __init__(self, source: TopicPartition, content: HeldPartition, *, is_live: bool) -> None:
        self.over = asyncio.Event()
        self.source_start: int | None = None
        self.source_end: int | None = None
        self.ended_at: int | None = None
        self.is_live = is_live
        self.task: asyncio.Task[None] | None = None
        self._source = source
        self._content = content
        self._changed = asyncio.Event()

    def begin(self, taker: Taker) -> None:
        self.task = asyncio.create_task(self._run(taker))

    def changed(self) -> None:
        self._changed.set()

    def restart(self) -> None:
        """Nothing is ever on its way: a delivery is made when it is taken."""

    async def ask(self) -> None:
        raise AssertionError("it has no question")

    async def explain_out_of_range(self, position: int) -> MirrorlakeError:
        return explain_out_of_range(self._source, position, self._content.start, self._content.end)

    def placed(self, error: MirrorlakeError) -> MirrorlakeError:
        return error

    def mark_after(self, before: SourceMark | None, *, next_offset: int) -> SourceMark | None:
        return None

    def stop(self) -> None:
        self.over.set()
        if self.task is not None:
            self.task.cancel()

    async def _run(self, taker: Taker) -> None:
        try:
            while not taker.is_over:
                self._changed.clear()
                if taker.wants_more and self._deliver(taker):
                    await asyncio.sleep(0)
                else:
                    await self._changed.wait()
        finally:
            self.over.set()

    def _deliver(self, taker: Taker) -> bool:
        """Returns whether something was delivered; at the end of what is held there is nothing more."""
        content, position = self._content, taker.next_offset
        self.source_start, self.source_end = content.start, content.end
        if not content.start <= position <= content.end:
            taker.out_of_range()
            return False
        if position == content.end:
            return False
        records = content.from_offset(position, batches_max=BATCHES_AT_ONCE)
        items, end = classified(memoryview(records), AbortedTransactions(()), position, end_offset=taker.end_offset)
        if not items:
            end = min(content.end, taker.end_offset)  # nothing is left of what lies behind
        taker.take(
            Delivery(
                covered=OffsetRange(start_offset=position, end_offset=end),
                batches=items,
                frame=HeldFrame(),
                log_start_offset=content.start,
                end_offset=content.end,
            )
        )
        return True


class HeldSourcePartition:
    """One partition, open for a lease."""

    def __init__(self, source: TopicPartition, topic_id: str, work: "HeldSourceWork", reads: HeldReads) -> None:
        self._source = source
        self._topic_id = topic_id
        self._work = work
        self._reads = reads

    async def find(self) -> None:
        if self._source not in HELD[self._work.name]:
            raise TopicMissingError(f"{self._work.label} holds no partition {self._source}")
        if self._topic_id and self._topic_id != TOPIC_ID:
            raise TopicRecreatedError(f"{self._work.label} holds another topic {self._source.topic}")

    async def look_at_marks(self, marks: Iterable[SourceMark]) -> None:
        """It leaves none."""

    def divergence(self, mark: SourceMark, position: int, *, destination: str) -> MirrorlakeError | None:
        return None

    async def reader(self, *, is_live: bool) -> HeldReader:
        await self.find()
        reader = HeldReader(self._source, HELD[self._work.name][self._source], is_live=is_live)
        self._reads.readers.append(reader)
        return reader


class HeldLog:
    """One partition, as destinations ask of it."""

    def __init__(self, partition: TopicPartition, content: HeldPartition) -> None:
        self.partition = partition
        self._content = content

    async def start(self) -> int:
        return self._content.start

    async def end(self) -> int:
        return self._content.end

    async def written_end(self) -> int | None:
        return self._content.end

    async def offset_at(self, timestamp_ms: int) -> int | None:
        return offset_at(self._content, timestamp_ms)

    async def read_tail(self, offsets: OffsetRange) -> Tail:
        return Tail(records=self._content.records(offsets))

    async def read_range(
        self, offsets: OffsetRange, *, cleaned: list[OffsetRange] | None = None
    ) -> AsyncIterator[RecordColumns]:
        del cleaned
        if offsets.start_offset < self._content.start:
            raise SourceTruncatedError(f"{self.partition} begins at offset {self._content.start}")
        yield self._content.records(offsets)

    async def schema_ids(self, offsets: OffsetRange, sides: int) -> AsyncIterator[SchemaIdCounts]:
        async for records in self.read_range(offsets):
            yield all_counts(records, sides)


def offset_at(content: HeldPartition, timestamp_ms: int) -> int | None:
    """The first offset of that time or later."""
    columns = content.records(OffsetRange(start_offset=content.start, end_offset=content.end))
    later = columns.offsets[columns.timestamps >= timestamp_ms]
    return int(later[0]) if len(later) else None


class HeldClient:
    """A source, as the driver asks of it."""

    def __init__(self, content: Mapping[TopicPartition, HeldPartition]) -> None:
        self._content = content

    @property
    def connections_made(self) -> int:
        return 0

    async def topics(self, names: Sequence[str] | None) -> SourceTopics:
        partitions: dict[str, set[int]] = {}
        for each in self._content:
            if names is None or each.topic in names:
                partitions.setdefault(each.topic, set()).add(each.partition)
        return SourceTopics(
            source_id=SOURCE_ID,
            topics={
                name: SourceTopic(name=name, topic_id=TOPIC_ID, is_internal=False, partitions=frozenset(numbers))
                for name, numbers in partitions.items()
            },
        )

    async def topic_configs(self, names: Sequence[str]) -> Mapping[str, Mapping[str, ConfigValue]]:
        retention = ConfigValue(value="-1", source="DYNAMIC_TOPIC_CONFIG", is_read_only=True, is_sensitive=False)
        return {name: {"retention.ms": retention} for name in names}

    async def owner_states(self) -> Mapping[str, OwnerState]:
        return {}

    async def bounds(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Bounds | MirrorlakeError]:
        return {
            each: Bounds(start=self._content[each].start, end=self._content[each].end)
            if each in self._content
            else TopicMissingError(f"no partition {each} is held")
            for each in partitions
        }

    async def written_ends(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {each: self._content[each].end for each in partitions if each in self._content}

    async def offsets_at(
        self, partitions: Iterable[TopicPartition], timestamp_ms: int
    ) -> Mapping[TopicPartition, int | MirrorlakeError | None]:
        return {each: offset_at(self._content[each], timestamp_ms) for each in partitions}

    async def batch_at(self, partition: TopicPartition, offset: int) -> BatchFacts | None:
        found = self._content[partition].from_offset(offset, batches_max=1)
        if not found:
            return None
        header = _batch(bytes(found)).header
        return BatchFacts(oldest_ms=header.first_timestamp, is_transactional=header.is_transactional)

    async def stored_bytes(self, partition: TopicPartition, offsets: OffsetRange) -> int | None:
        del partition, offsets
        return None

    async def missing(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, MirrorlakeError]:
        del partitions
        return {}

    async def try_reading(self, partition: TopicPartition, end: int) -> MirrorlakeError | None:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldSourceWork(SourceWork):
    """A source in memory, by its name."""

    key: str

    @property
    def name(self) -> str:
        return self.key

    @property
    def place(self) -> str:
        return "memory"

    @property
    def label(self) -> str:
        return f"held source {self.key}"

    def open(self, partition: TopicPartition, topic_id: str, context: SourceContext) -> HeldSourcePartition:
        return HeldSourcePartition(partition, topic_id, self, context.shared(("held", self.key), HeldReads))

    def log(self, partition: TopicPartition, clients: Clients) -> HeldLog:
        return HeldLog(partition, HELD[self.key][partition])

    def client(self, clients: Clients) -> HeldClient:
        return HeldClient(HELD[self.key])
