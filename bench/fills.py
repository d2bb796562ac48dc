"""How fast gaps of the source are filled at the destination: one marker a transaction, or many offsets a batch."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.brokers import BenchKafka
from mirrorlake.clock import SystemClock
from mirrorlake.destinations.transactions.gap_filler import GapFiller
from mirrorlake.destinations.transactions.waiting_gap import GapToFill
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import GapFill, OffsetRange, TopicPartition

TOPIC = "fills"
PARTITIONS_AT_ONCE = 20
MARKERS = 1000
FILLER_OFFSETS = 1_000_000
_BATCH_BYTES_MAX = 1_048_588  # Kafka's default of max.message.bytes
_PATIENCE_SECONDS = 300.0
# One to warm up, one alone, those at once, two for fillers.
PARTITIONS = 1 + 1 + PARTITIONS_AT_ONCE + 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Fill:
    """One gap of ``offsets`` in each of ``partitions`` partitions, all begun at once."""

    gap_fill: str
    partitions: int
    offsets: int
    wall_seconds: float
    cpu_seconds: float

    @property
    def offsets_per_second(self) -> float:
        """Offsets of one partition per second."""
        return self.offsets / self.wall_seconds


async def measure_fills(destination: BenchKafka) -> list[Fill]:
    """Fills gaps at the ends of empty partitions of ``TOPIC``, which has ``PARTITIONS`` of them."""
    settings = ClusterSettings(name="destination", bootstrap_servers=(destination.bootstrap_servers,))
    async with ClusterClient(settings) as client:
        # The first transaction of a broker loads its coordinator, the first filler compiles its kernel.
        await _fill(client, [0], 20, GapFill.MARKERS)
        await _fill(client, [0], 1000, GapFill.FILLER)
        return [
            await _fill(client, [1], MARKERS, GapFill.MARKERS),
            await _fill(client, range(2, 2 + PARTITIONS_AT_ONCE), MARKERS, GapFill.MARKERS),
            await _fill(client, [2 + PARTITIONS_AT_ONCE], FILLER_OFFSETS, GapFill.FILLER),
            await _fill(client, [3 + PARTITIONS_AT_ONCE], FILLER_OFFSETS, GapFill.FILLER),
        ]


async def _fill(client: ClusterClient, numbers: Sequence[int], offsets: int, gap_fill: GapFill) -> Fill:
    clock = SystemClock()
    filler = GapFiller(
        client,
        f"bench.{gap_fill.value}.{numbers[0]}",
        hand_off=None,
        clock=clock,
        fill_until_seconds=clock.elapsed_seconds() + _PATIENCE_SECONDS,
    )
    wheres = [TopicPartition(TOPIC, number) for number in numbers]
    ends = await client.log_ends(wheres)
    gaps = []
    for where in wheres:
        end = ends[where]
        if isinstance(end, Exception):
            raise end
        gaps.append(
            GapToFill(
                partition=where,
                offsets=OffsetRange(start_offset=end.end_offset, end_offset=end.end_offset + offsets),
                gap_fill=gap_fill,
                batch_bytes_max=_BATCH_BYTES_MAX,
                timestamp_ms=int(time.time() * 1000),
                has_key=False,
                moved=lambda _: None,
            )
        )
    began_seconds, began_cpu_seconds = time.perf_counter(), time.process_time()
    await asyncio.gather(*(filler.fill(gap) for gap in gaps))
    return Fill(
        gap_fill=gap_fill.value,
        partitions=len(numbers),
        offsets=offsets,
        wall_seconds=time.perf_counter() - began_seconds,
        cpu_seconds=time.process_time() - began_cpu_seconds,
    )
