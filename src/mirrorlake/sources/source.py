"""What a source of a mirror is: one protocol for Kafka clusters, archives, and whatever holds records at offsets.

A source hands out record batches with facts about them (`destinations.interface.Delivery`), in offset order, each
delivery beginning where the one before ended. What it is asked besides is in terms that every source has:

- **place**: who or what holds a partition now (a leader, a folder), and that it still is the one the plan was made for;
- **bounds**: where the log begins, up to where everything in it is decided, and where it ends;
- **what is missing, and why**: a position outside of the bounds, offsets that come back empty, a log that was cut below
  a position;
- **records below a position**, to be compared with those of a copy (`destinations.source_log.SourceLog`).

Offsets may have holes. A source need not grow, know leader epochs or transactions: its end is then where all is
decided, and it leaves no marks.

In a lease: a `SourceWork` of the plan makes a `SourcePartition` in the worker, that makes a `PartitionReader` for each
position its destinations stand at, and that delivers to a `Taker` as long as the taker wants more.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar, cast

from mirrorlake.clock import Clock
from mirrorlake.destinations.connections import Clients, LeaseConnections
from mirrorlake.destinations.interface import Delivery
from mirrorlake.destinations.source_log import SourceLog
from mirrorlake.errors import MirrorlakeError
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.client import SourceClient
from mirrorlake.sources.mark import SourceMark
from mirrorlake.together import all_to_the_end


class Taker(Protocol):
    """Who a reader delivers to. Called in the event loop only, and never while it runs itself."""

    @property
    def next_offset(self) -> int:
        """The offset the next delivery must begin at; it grows with each one that is taken."""
        ...

    @property
    def end_offset(self) -> int:
        """Where reading ends: no batch is delivered that begins there or behind it. One that holds it comes whole."""
        ...

    @property
    def wants_more(self) -> bool:
        """True where a delivery can be taken now."""
        ...

    @property
    def is_over(self) -> bool:
        """True where nothing more will be wanted."""
        ...

    @property
    def is_steady(self) -> bool:
        """True where ``wants_more`` and ``is_over`` change by deliveries only, or `PartitionReader.changed` is called.

        False where others decide it too: a pace that several partitions share, a segment that is cut.
        """
        ...

    def take(self, delivery: Delivery) -> None:
        """Takes a delivery that covers something, and its pin: its bytes stay until the taker lets go of them."""
        ...

    def cannot_read_on(self, error: MirrorlakeError) -> None:
        """Learns that what comes next cannot be read. All that was delivered before is right."""
        ...

    def source_failed(self, error: MirrorlakeError) -> None:
        """Learns that the source could not be read at all."""
        ...

    def out_of_range(self) -> None:
        """Learns that the source refuses `next_offset`; see `PartitionReader.explain_out_of_range`."""
        ...

    def look_again(self) -> None:
        """Learns that the reader has a question."""
        ...

    def ends_at(self, offset: int) -> None:
        """Learns that nothing will be delivered from an offset on, as what is read ends there."""
        ...


class PartitionReader(Protocol):
    """Reads one partition for one taker, for the length of a lease or less.

    Delivered bytes are the taker's until it lets go of them: they stay where they are, and sinks write headers into
    them.

    ``over`` is set once nothing more will be delivered. ``source_start`` and ``source_end`` are the log's start and the
    end of what is decided, as last seen, None where not seen. ``ended_at`` is where a record was met that is not to be
    read, nor any behind it; None where none was.
    """

    over: asyncio.Event
    source_start: int | None
    source_end: int | None
    ended_at: int | None

    @property
    def refusal(self) -> MirrorlakeError | None:
        """Why the source shows nothing at the position although it goes on; None where it does not come to that."""
        ...

    def begin(self, taker: Taker) -> None:
        """Begins to deliver; call once."""
        ...

    def changed(self) -> None:
        """Says that the taker may want more, or is over."""
        ...

    def restart(self) -> None:
        """Says that the taker's position is about to move: what is on its way is not delivered any more."""
        ...

    @property
    def has_question(self) -> bool:
        """True where the reader must ask its source something before it can read on; then call `ask`."""
        ...

    async def ask(self) -> None:
        """Asks what is to be asked: why nothing came, for one; what cannot be believed becomes the `refusal`."""
        ...

    async def explain_out_of_range(self, position: int) -> MirrorlakeError:
        """Returns what is wrong with a position that was refused.

        A `SourceTruncatedError` names the log's start as ``log_start``: a taker may go on there.
        """
        ...

    def placed(self, error: MirrorlakeError) -> MirrorlakeError:
        """Returns an error of delivered bytes, which know no more than their offset, with the place they came from."""
        ...

    def mark_after(self, before: SourceMark | None, *, next_offset: int) -> SourceMark | None:
        """Returns the mark for the next lease, after all below ``next_offset`` was delivered."""
        ...


class SourcePartition(Protocol):
    """One source partition, open for one lease."""

    async def find(self) -> None:
        """Finds where the partition is now, and that it is the one the plan was made for.

        Raises:
            TopicMissingError: the source has no such partition.
            TopicRecreatedError: it is another topic of the same name.
            BrokerNotReadyError: nobody can serve it at the moment.
            MirrorlakeError: the source could not be asked.
        """
        ...

    async def look_at_marks(self, marks: Iterable[SourceMark]) -> None:
        """Asks the source what `divergence` needs to know of these marks; nothing where it has no epochs.

        Raises:
            MirrorlakeError: the source could not be asked; nothing is copied then.
        """
        ...

    def divergence(self, mark: SourceMark, position: int, *, destination: str) -> MirrorlakeError | None:
        """Returns that the log was cut below what a destination has copied of it; None where it was not.

        Args:
            mark: one that `look_at_marks` was told.
            position: of the destination.
            destination: its label.
        """
        ...

    async def reader(self, *, is_live: bool) -> PartitionReader:
        """Returns a reader that was not begun yet.

        Args:
            is_live: True for reads that end with the lease's live time, False for those that may go on after it.

        Raises:
            MirrorlakeError: see `find`.
        """
        ...


class ReadTime(Protocol):
    """Until when a lease reads, in readings of its clock."""

    @property
    def live_until(self) -> float:
        """When live reads end."""
        ...

    @property
    def hard_until(self) -> float:
        """When everything is dropped."""
        ...


class SharedReads(Protocol):
    """What several partitions of a source share in one lease."""

    @property
    def show_changes(self) -> bool:
        """True where reading on shows whatever a lease finds out about its source when it begins."""
        ...

    def prolong(self, seconds: float) -> None:
        """Lets the live reads end so many seconds later; only called where ``show_changes``."""
        ...

    def end_live(self) -> None:
        """Ends the live reads now."""
        ...

    async def stop(self) -> None:
        """Ends every read and question at once; returns when nothing goes on any more."""
        ...


SharedT = TypeVar("SharedT", bound=SharedReads)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceContext:
    """What a source is opened with: what the lease has."""

    connections: LeaseConnections
    clock: Clock
    time: ReadTime
    _shared: dict[Hashable, SharedReads] = field(default_factory=dict)

    def shared(self, key: Hashable, make: Callable[[], SharedT]) -> SharedT:
        """Returns what the sources of the lease share under ``key``, made by the first of them that asks."""
        if key not in self._shared:
            self._shared[key] = make()
        return cast(SharedT, self._shared[key])

    @property
    def show_changes(self) -> bool:
        """True where reading on shows whatever a lease finds out about its sources when it begins."""
        return all(reads.show_changes for reads in self._shared.values())

    def prolong(self, seconds: float) -> None:
        """Lets the live reads of all sources end so many seconds later; only where they ``show_changes``."""
        for reads in self._shared.values():
            reads.prolong(seconds)

    def end_live(self) -> None:
        """Ends the live reads of all sources now; call when the live time was ended early."""
        for reads in self._shared.values():
            reads.end_live()

    async def stop(self) -> None:
        """Ends all that is read and asked; returns when nothing goes on any more."""
        await all_to_the_end(reads.stop() for reads in self._shared.values())


class SourceWork(ABC):
    """Where a mirror reads: a frozen value that a plan carries to the worker, and of which the driver asks."""

    __slots__ = ()

    @property
    @abstractmethod
    def name(self) -> str:
        """The source's name in the configuration."""

    @property
    @abstractmethod
    def place(self) -> str:
        """Where it is: addresses, or a folder."""

    @property
    @abstractmethod
    def label(self) -> str:
        """What messages call the source, as ``cluster east``."""

    @property
    def looks_apart_seconds(self) -> float:
        """How far apart a driver's looks at its bounds are, at least; 0 where many partitions are one request."""
        return 0.0

    @property
    def is_bounded(self) -> bool:
        """True where a copy may have an end that the bounds alone tell: nothing is read before they were looked at."""
        return False

    def seen_after(self, before: "SourceWork") -> "SourceWork":
        """Returns what is believed of the source once a look has found this, where another one had found ``before``.

        What a look could not tell of some partitions is as it was known before.
        """
        del before
        return self

    def forgetting(self, partitions: Iterable[TopicPartition]) -> "SourceWork":
        """Returns the source without what looks have told of some partitions, whose copies begin anew."""
        del partitions
        return self

    @abstractmethod
    def open(self, partition: TopicPartition, topic_id: str, context: SourceContext) -> SourcePartition:
        """Returns a partition of it, to be read in a lease; asks nobody yet.

        Args:
            partition: which one.
            topic_id: the id its topic must have; empty where the source gives none.
            context: what the lease has.
        """

    @abstractmethod
    def log(self, partition: TopicPartition, clients: Clients) -> SourceLog:
        """Returns a partition of it, to be asked about; in a lease, and in the driver too."""

    @abstractmethod
    def client(self, clients: Clients) -> SourceClient:
        """Returns the source, to be asked about many partitions at a time."""
