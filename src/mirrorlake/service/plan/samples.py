"""What ``plan`` reads of the source before the first byte: the first and the last batch of each partition."""

import asyncio
from collections.abc import Sequence

from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.holes import check_empty
from mirrorlake.kafka.control.known_offsets import fetch_known
from mirrorlake.kafka.records.batches import BatchHeader, walk
from mirrorlake.kafka.wire.fetch import READ_UNCOMMITTED
from mirrorlake.kinds.registry import kind_of
from mirrorlake.kinds.standing import Sample
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.status import StatusRow

SAMPLES_AT_ONCE = 8


async def read_samples(rows: Sequence[StatusRow], clients: WorkerCache) -> list[Sample]:
    """Returns a sample for each row, an empty one where nothing is to be copied."""
    limit = asyncio.Semaphore(SAMPLES_AT_ONCE)
    asked: dict[tuple[str, TopicPartition], asyncio.Task[Sample]] = {}

    async def read(row: StatusRow) -> Sample:
        async with limit:
            try:
                return await _sample(clients.client(row.target.source_cluster), row)
            except MirrorlakeError as error:
                return Sample(error=error)

    for row in rows:
        key = (row.target.source_cluster.name, row.target.source)
        if _is_wanted(row) and key not in asked:
            asked[key] = asyncio.create_task(read(row))
    nothing = Sample()
    return [
        await asked[key] if (key := (row.target.source_cluster.name, row.target.source)) in asked else nothing
        for row in rows
    ]


def _is_wanted(row: StatusRow) -> bool:
    if row.error is not None or row.source_start is None or row.source_end is None or row.position is None:
        return False
    wanted = kind_of(row.target.destination).wants_sample()
    return wanted and row.source_start < row.source_end and row.position < row.source_end


async def _sample(client: ClusterClient, row: StatusRow) -> Sample:
    assert row.source_start is not None
    assert row.source_end is not None
    first = await _batch_at(client, row.target.source, row.source_start)
    last = await _batch_at(client, row.target.source, row.source_end - 1)
    headers = [header for header in (first, last) if header is not None]
    return Sample(
        oldest_ms=_oldest(first) if first is not None else None,
        is_transactional=any(header.is_transactional or header.is_control for header in headers),
    )


def _oldest(header: BatchHeader) -> int | None:
    """Returns the first timestamp of a batch, or where it does not say that, the highest."""
    first = header.first_timestamp
    found = header.max_timestamp if first is None else first
    return found if found >= 0 else None


async def _batch_at(client: ClusterClient, source: TopicPartition, offset: int) -> BatchHeader | None:
    frame, answer = await fetch_known(client, source, offset, max_bytes=1, isolation_level=READ_UNCOMMITTED)
    with frame:
        first = next((batch.header for batch in walk(answer.records)), None)
    if first is None:
        await check_empty(client, source, offset, readable_end=answer.high_watermark, whose="source")
    return first
