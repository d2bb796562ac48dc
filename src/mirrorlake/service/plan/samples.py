"""What ``plan`` reads of the source before the first byte: the first and the last batch of each partition."""

import asyncio
from collections.abc import Sequence

from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kinds.registry import kind_of
from mirrorlake.kinds.standing import Sample
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.service.status import StatusRow
from mirrorlake.sources.client import SourceClient

SAMPLES_AT_ONCE = 8


async def read_samples(rows: Sequence[StatusRow], clients: WorkerCache) -> list[Sample]:
    """Returns a sample for each row, an empty one where nothing is to be copied."""
    limit = asyncio.Semaphore(SAMPLES_AT_ONCE)
    asked: dict[tuple[str, TopicPartition], asyncio.Task[Sample]] = {}

    async def read(row: StatusRow) -> Sample:
        async with limit:
            try:
                return await _sample(row.target.source_work.client(clients), row)
            except MirrorlakeError as error:
                return Sample(error=error)

    for row in rows:
        key = (row.target.source_work.name, row.target.source)
        if _is_wanted(row) and key not in asked:
            asked[key] = asyncio.create_task(read(row))
    nothing = Sample()
    return [
        await asked[key] if (key := (row.target.source_work.name, row.target.source)) in asked else nothing
        for row in rows
    ]


def _is_wanted(row: StatusRow) -> bool:
    if row.error is not None or row.source_start is None or row.source_end is None or row.position is None:
        return False
    wanted = kind_of(row.target.destination).wants_sample()
    return wanted and row.source_start < row.source_end and row.position < row.source_end


async def _sample(source: SourceClient, row: StatusRow) -> Sample:
    assert row.source_start is not None
    assert row.source_end is not None
    first = await source.batch_at(row.target.source, row.source_start)
    last = await source.batch_at(row.target.source, row.source_end - 1)
    offsets = OffsetRange(start_offset=row.source_start, end_offset=row.source_end)
    return Sample(
        oldest_ms=first.oldest_ms if first is not None else None,
        newest_ms=last.oldest_ms if last is not None else None,
        stored_bytes=await source.stored_bytes(row.target.source, offsets),
        is_transactional=any(batch.is_transactional for batch in (first, last) if batch is not None),
    )
