"""Reading a source without a lease: what a lease opens sources with, and one who takes deliveries."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from mirrorlake.clock import SystemClock
from mirrorlake.destinations.connections import LeaseConnections, WorkerCache
from mirrorlake.destinations.interface import ENDLESS, Delivery
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.records.batches import Path as BatchPath
from mirrorlake.kafka.records.codec import RecordColumns, decode_batches
from mirrorlake.mirror.lease_worker import RECEIVE_BUFFER_BYTES
from mirrorlake.sources.source import PartitionReader, SourceContext

LEASE_SECONDS = 20.0


@dataclass
class Time:
    """Until when a lease reads."""

    live_until: float
    hard_until: float


@asynccontextmanager
async def source_context(
    cache: WorkerCache | None = None, *, seconds: float = LEASE_SECONDS, memory_bytes_max: int = 64 << 20
) -> AsyncIterator[SourceContext]:
    """What a lease opens sources with; of a worker of its own unless told."""
    own, clock = WorkerCache(), SystemClock()
    now = clock.elapsed_seconds()
    connections = LeaseConnections(
        cache or own,
        clock=clock,
        live_until_seconds=now + seconds,
        send_until_seconds=now + seconds,
        memory_bytes_max=memory_bytes_max,
        receive_buffer_bytes=RECEIVE_BUFFER_BYTES,
    )
    time = Time(live_until=now + seconds, hard_until=now + 2 * seconds)
    try:
        yield SourceContext(connections=connections, clock=clock, time=time)
    finally:
        await connections.end_lease()
        await own.close()


class Taking:
    """Takes up to an offset, and keeps what it was given."""

    def __init__(self, start: int, *, enough: int, end: int | None = None, wants_more: bool = True) -> None:
        self.next_offset = start
        self.end_offset = ENDLESS if end is None else end
        self.enough = enough if end is None else end
        self.is_willing = wants_more
        self.taken: list[Delivery] = []
        self.refused = False
        self.errors: list[MirrorlakeError] = []
        self.something = asyncio.Event()

    @property
    def wants_more(self) -> bool:
        return self.is_willing and not self.is_over and not self.refused

    @property
    def is_over(self) -> bool:
        return self.next_offset >= self.enough or bool(self.errors)

    @property
    def is_steady(self) -> bool:
        return True

    def take(self, delivery: Delivery) -> None:
        assert delivery.covered.start_offset == self.next_offset
        assert delivery.covered
        self.taken.append(delivery)
        self.next_offset = delivery.covered.end_offset
        self.something.set()

    def cannot_read_on(self, error: MirrorlakeError) -> None:
        self.errors.append(error)
        self.something.set()

    source_failed = cannot_read_on

    def out_of_range(self) -> None:
        self.refused = True
        self.something.set()

    def look_again(self) -> None:
        self.something.set()

    def ends_at(self, offset: int) -> None:
        self.enough = min(self.enough, offset)
        self.something.set()

    async def until_over(self, reader: PartitionReader) -> None:
        """Waits until all was taken, and asks what the reader wants asked meanwhile."""
        reader.begin(self)
        while not self.is_over and not self.refused:
            self.something.clear()
            if reader.has_question:
                await reader.ask()
            reader.changed()
            await self.something.wait()
        assert self.errors == []

    def records(self) -> RecordColumns:
        """What a consumer is shown of all that was taken."""
        parts = [
            decode_batches(
                [item.batch for item in each.batches if item.path != BatchPath.SKIP],
                start_offset=each.covered.start_offset,
                end_offset=each.covered.end_offset,
            )
            for each in self.taken
        ]
        return RecordColumns.concat(parts)
