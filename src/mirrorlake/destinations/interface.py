"""The interface between the reader of a source partition and whatever takes its batches.

A sink belongs to one source partition and one lease. Its position is always read from the destination
(law 1), moves only with the data (law 2), and is never kept between leases.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple, Protocol

from mirrorlake.destinations.size_limit import SizeLimit
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.descriptions import ProducerIdentity
from mirrorlake.kafka.records.batches import Batch, BatchHeader
from mirrorlake.offsets import Gap, OffsetRange
from mirrorlake.travelling import travelling

LATENCY_BOUNDS_SECONDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0),
    *(300.0, 600.0, 1800.0, 3600.0, 43200.0, inf),
)
"""Upper bounds of the latency histogram, inclusive: from one round trip to a backlog; from 5 minutes on Mirus's."""


ENDLESS = 1 << 62
"""The ``wanted_end`` of a sink that takes whatever comes."""


class PinnedFrame(Protocol):
    """A fetch answer whose bytes stay put until everyone who holds a pin has let go."""

    def pin(self) -> None:
        """Asks for the bytes to stay."""
        ...

    def unpin(self) -> None:
        """Lets go; the last one gives the buffer back."""
        ...


class ClassifiedBatch(NamedTuple):
    """One record batch as the reader saw it.

    ``path`` is ``raw``, ``records`` or ``skip``; ``reason`` says why, and is what counters are named after.
    """

    batch: Batch
    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What one fetch brought for one partition: whole batches in offset order.

    ``covered`` are the consumer positions the delivery accounts for, without a hole: offsets in it that no
    batch holds are gaps. The last batch may reach past ``covered.end_offset`` only where the lease has an end.
    ``log_start_offset`` and ``end_offset`` (the last stable offset) are the source's, as of this fetch. It was led in
    ``leader_epoch`` when it answered, −1 where that is not known. ``gaps`` are those within ``covered`` of which the
    source knows that they are of another kind than ``absent``, in offset order. ``may_be_changed`` says that nobody but
    whoever takes it reads the bytes of its batches, now or later, so that they may be changed where they are.
    """

    covered: OffsetRange
    batches: Sequence[ClassifiedBatch]
    frame: PinnedFrame
    log_start_offset: int
    end_offset: int
    leader_epoch: int = -1
    gaps: Sequence[Gap] = ()
    may_be_changed: bool = False


@dataclass(slots=True)
class PublishedSegment:
    """One published segment, for the log line, the metrics and the tests.

    ``is_ours`` is False where a segment of this range stood there already; it may be of another size then. Snapshots
    count two things more: ``view_records``, the records of the view, and ``gap_records``, of those that were read, each
    that did not lie right behind the one before.
    """

    key: str
    offsets: OffsetRange
    records: int
    raw_bytes: int
    file_bytes: int
    trigger: str
    elapsed_ms: int
    is_ours: bool = True
    view_records: int | None = None
    gap_records: int = 0


@travelling
@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerHandOff:
    """The producer that a lease which ended cleanly leaves to the next one of its shard, which need not fence it then.

    A hint only: its user asks the coordinator first whether the identity still holds (law 1).

    ``identity`` is the producer the shard's transactions ran under. ``sequences`` are the next ones by destination
    topic and partition, empty where the partitions themselves are asked. ``leader_epochs`` are those in which the
    leaders of destination partitions were found to hold what the progress says; another leader's log is looked at.
    """

    identity: ProducerIdentity
    sequences: Mapping[tuple[str, int], int] = field(default_factory=dict)
    leader_epochs: Mapping[tuple[str, int], int] = field(default_factory=dict)


NOTHING_HELD = -1
"""Stands for the time of the newest record of a copy that holds none."""


@dataclass(slots=True)
class Progress:
    """What one sink did in one lease: counters only ever grow, ``position`` is what is safe at the destination.

    ``dead_letters`` counts those that are safe by ``side:reason``. ``size_limit`` is what a batch that was refused for
    its size has told, None where none was. ``held_until_ms`` is the time (Unix milliseconds) of the newest record that
    a look at the tails found below the position, ``NOTHING_HELD`` where the copy holds nothing yet, None where nobody
    looked or no record says.
    """

    start_offset: int = 0
    position: int = 0
    records: int = 0
    raw_bytes: int = 0
    batches: Counter[str] = field(default_factory=Counter)
    gap_offsets: Counter[str] = field(default_factory=Counter)
    dead_letters: Counter[str] = field(default_factory=Counter)
    first_timestamp_ms: int | None = None
    last_timestamp_ms: int | None = None
    flushes: list[PublishedSegment] = field(default_factory=list)
    latencies: Counter[float] = field(default_factory=Counter)
    latency_seconds_sum: float = 0.0
    claims: int = 0
    hand_off: ProducerHandOff | None = None
    size_limit: SizeLimit | None = None
    held_until_ms: int | None = None

    def add_gap(self, gap: Gap) -> None:
        """Counts the offsets of ``gap`` under its kind."""
        self.gap_offsets[gap.kind.value] += len(gap.offsets)

    def saw_latency(self, timestamp_ms: int, now_seconds: float) -> None:
        """Counts how old a record was when it became durable, under the bound that holds it.

        Of a batch it is the newest record, of a segment the oldest, of a snapshot the newest.

        Args:
            timestamp_ms: the record's time in Unix milliseconds; below zero it has none, and is not counted.
            now_seconds: the time it is, in Unix seconds; before the record's where clocks differ, which counts as 0.
        """
        if timestamp_ms < 0:
            return
        seconds = now_seconds - timestamp_ms / 1000
        self.latencies[LATENCY_BOUNDS_SECONDS[bisect_left(LATENCY_BOUNDS_SECONDS, seconds)]] += 1
        if seconds > 0:
            self.latency_seconds_sum += seconds

    def saw_timestamps(self, first_ms: int | None, last_ms: int) -> None:
        """Widens the span of record timestamps seen (Unix milliseconds); the first may not be known, the last is."""
        if self.first_timestamp_ms is None:
            self.first_timestamp_ms = last_ms if first_ms is None else first_ms
        self.last_timestamp_ms = max(last_ms, self.last_timestamp_ms or last_ms)

    def saw_batch(self, header: BatchHeader) -> None:
        """Widens the span of record timestamps seen by those of a batch."""
        last_ms = header.max_timestamp
        if self.first_timestamp_ms is None:
            self.saw_timestamps(header.first_timestamp, last_ms)
        elif self.last_timestamp_ms is None or last_ms > self.last_timestamp_ms:
            self.last_timestamp_ms = last_ms


class PartitionSink(Protocol):
    """Takes the batches of one source partition for one destination, for the length of one lease.

    Life: ``open`` once (and again after it asked for it), then ``deliver`` for consecutive deliveries starting
    at ``next_offset``, then ``finish``, and in any case ``abandon``. Errors are raised as errors of
    ``mirrorlake.errors``; the one place that decides what they mean is ``mirror.policy``.

    What a lease has to know of a sink it asks here, never what kind of destination it is. There are two ways to live.
    A sink that ``is_endless`` sends what comes, and what is on its way is waited for by ``finish``. One that has an end
    makes files: between two of them it may rest, with one on its way (not ``is_settled``), and is read for again from
    ``next_offset`` where ``settle`` finds that it was not published.
    """

    progress: Progress
    failure: MirrorlakeError | None
    """What went wrong with something already taken; ``open`` clears it."""

    @property
    def is_endless(self) -> bool:
        """True where the sink takes whatever comes, False where it is done at some point. Never changes."""
        ...

    @property
    def needs_encoder(self) -> bool:
        """True where the task's one encoder must be held while the sink is read for. Never changes."""
        ...

    @property
    def reads_alone(self) -> bool:
        """True where no other sink may share the sink's reads, which take long or begin elsewhere. Never changes."""
        ...

    @property
    def next_offset(self) -> int:
        """The source offset the next delivery must start at (at or past ``progress.position``)."""
        ...

    @property
    def has_room(self) -> bool:
        """False while the sink holds as many bytes as it may; the reader then leaves the partition out."""
        ...

    @property
    def wanted_end(self) -> int:
        """The source offset (exclusive) from which on nothing is wanted, as far as is known now.

        ``ENDLESS`` where the sink takes whatever comes. It may grow or shrink whenever the sink is opened, or cuts.
        """
        ...

    @property
    def is_done(self) -> bool:
        """True where nothing more is wanted in this lease; what was taken may still be on its way."""
        ...

    @property
    def is_settled(self) -> bool:
        """True where nothing is on its way: what became of everything that was sent or passed on is known.

        False whenever a destination may hold, or come to hold, what ``progress.position`` does not say (law 7).
        """
        ...

    async def open(self) -> None:
        """Claims the partition at the destination and reads the position there."""
        ...

    async def deliver(self, delivery: Delivery) -> None:
        """Takes one delivery; returns when the next may be given (not when it is safe at the destination)."""
        ...

    async def starts_at(self, log_start: int) -> bool:
        """Deals with a source that has nothing below ``log_start``, which is past ``next_offset``.

        Returns True where the sink can go on there (``next_offset`` has moved, the gap is recorded), False where
        it cannot and the partition must stop.
        """
        ...

    async def stands(self) -> bool:
        """Returns whether the destination is as the sink has left it, so that a lease may go on without opening it.

        What is on its way, or moves meanwhile, is told by its own answers. False where anything is different, could not
        be read, or is never asked.
        """
        ...

    def drop_unsent(self) -> None:
        """Forgets what was taken and not sent yet, where a sink can: the lease is over, the next one reads it again."""
        ...

    async def end_encoding(self) -> None:
        """Drops what was not cut: the sink holds nothing of the encoder any more. Without effect on what is settled."""
        ...

    async def settle(self) -> None:
        """Waits until it ``is_settled``; at once where it is.

        Raises:
            MirrorlakeError: what was on its way did not become safe; ``failure`` says so too.
        """
        ...

    async def finish(self) -> None:
        """Ends encoding, and waits until all that was taken or cut is safe, or raises what went wrong with it.

        Nothing else is delivered then, and the sink ``is_settled``.
        """
        ...

    def abandon(self) -> None:
        """Lets go of everything at once; what was outstanding is unknown. Never raises."""
        ...
