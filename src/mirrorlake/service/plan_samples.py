"""What ``plan`` reads of the source before the first byte: the first and the last batch of each partition."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.batches import BatchHeader, walk
from mirrorlake.kafka.cluster import ClusterClient
from mirrorlake.kafka.fetch import READ_UNCOMMITTED
from mirrorlake.mirror.connections import WorkerCache
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.status import StatusRow

SAMPLES_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What two batches of a source partition say of all of it.

    ``oldest_ms`` is the lowest timestamp of the first batch, None where there is none. ``is_transactional`` is True
    where one of the two was written in a transaction, or is a marker: the partition's offsets have gaps then.
    """

    oldest_ms: int | None = None
    is_transactional: bool = False


async def read_samples(rows: Sequence[StatusRow], clients: WorkerCache) -> list[Sample]:
    """Returns a sample for each row, an empty one where nothing is to be copied or it could not be read."""
    limit = asyncio.Semaphore(SAMPLES_AT_ONCE)
    asked: dict[tuple[str, TopicPartition], asyncio.Task[Sample]] = {}

    async def read(row: StatusRow) -> Sample:
        async with limit:
            try:
                return await _sample(clients.client(row.target.source_cluster), row)
            except MirrorlakeError:
                return Sample()  # what is wrong is said where it is copied

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
    return not row.target.is_archive and row.source_start < row.source_end and row.position < row.source_end


async def _sample(client: ClusterClient, row: StatusRow) -> Sample:
    assert row.source_start is not None
    assert row.source_end is not None
    first = await _batch_at(client, row.target.source, row.source_start)
    last = await _batch_at(client, row.target.source, row.source_end - 1)
    headers = [header for header in (first, last) if header is not None]
    return Sample(
        oldest_ms=first.base_timestamp if first is not None and first.base_timestamp >= 0 else None,
        is_transactional=any(header.is_transactional or header.is_control for header in headers),
    )


async def _batch_at(client: ClusterClient, source: TopicPartition, offset: int) -> BatchHeader | None:
    frame, answer = await client.fetch_once(source, offset, max_bytes=1, isolation_level=READ_UNCOMMITTED)
    with frame:
        return next((batch.header for batch in walk(answer.records)), None)
