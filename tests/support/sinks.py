"""Sinks as a lease makes them, without a source's reader: what one would deliver is made by the test."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from mirrorlake.clock import SystemClock
from mirrorlake.destinations.connections import LeaseConnections, WorkerCache
from mirrorlake.destinations.interface import ClassifiedBatch, Delivery, PartitionSink
from mirrorlake.destinations.work import DestinationWork
from mirrorlake.kafka.records.batches import DENSE, walk
from mirrorlake.mirror.lease import LeaseWork
from mirrorlake.mirror.lease_worker import RECEIVE_BUFFER_BYTES
from mirrorlake.offsets import Gap, OffsetRange, TopicPartition
from support.leases import lease_plan
from support.records import Record, build_batch
from unit.destinations.archive.test_sink import UnpinnedFrame

LEASE_SECONDS = 20.0

Body = Callable[[PartitionSink, LeaseConnections], Awaitable[None]]


async def with_sink(work: DestinationWork, where: TopicPartition, source: str, body: Body) -> None:
    """Runs ``body`` with a sink as a lease makes it, not opened, and the lease's connections; abandons the sink."""
    async with connections_of_a_lease() as connections:
        plan = lease_plan(source, [(where, [work])], end=None)
        lease = LeaseWork(plan, connections, SystemClock())
        sink = lease.make_sink(plan.partitions[0], work, lambda: None)
        try:
            await body(sink, connections)
        finally:
            sink.abandon()


@asynccontextmanager
async def connections_of_a_lease() -> AsyncIterator[LeaseConnections]:
    """Those of a lease of `LEASE_SECONDS`, closed at the end."""
    cache, clock = WorkerCache(), SystemClock()
    until = clock.elapsed_seconds() + LEASE_SECONDS
    connections = LeaseConnections(
        cache,
        clock=clock,
        live_until_seconds=until,
        send_until_seconds=until,
        memory_bytes_max=64 << 20,
        receive_buffer_bytes=RECEIVE_BUFFER_BYTES,
    )
    try:
        yield connections
    finally:
        await connections.end_lease()
        await cache.close()


def dense_batch(records: Sequence[Record], base_offset: int) -> ClassifiedBatch:
    """A batch as it lies at the source, its first record at an offset."""
    data = bytearray(build_batch(records))
    data[:8] = base_offset.to_bytes(8, "big")
    (batch,) = walk(memoryview(data))
    return ClassifiedBatch(batch=batch, path=DENSE.path, reason=DENSE.reason)


def delivery_of(
    batches: Sequence[ClassifiedBatch], covered: OffsetRange, *, end_offset: int, gaps: Sequence[Gap] = ()
) -> Delivery:
    """What a reader brings of a range, of a log that begins at 0."""
    return Delivery(
        covered=covered,
        batches=batches,
        frame=UnpinnedFrame(),
        log_start_offset=0,
        end_offset=end_offset,
        gaps=tuple(gaps),
    )
