"""What ``verify`` says of a copy, asked in this process."""

import asyncio

from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.service.status import read_rows
from mirrorlake.topics.discovery import find_targets
from mirrorlake.verify.verdict import Verdict
from mirrorlake.verify.verification import RecordVerification
from mirrorlake.verify.worker import work
from support.mirrors import copying


def verdict_of(source: str, destination: str, topic: str) -> Verdict:
    """What ``verify`` says of the only partition of a topic that is mirrored with equal offsets."""
    config = copying(source, destination, topic)

    async def ask() -> Verdict:
        clients = WorkerCache()
        try:
            rows = await read_rows(await find_targets(config, clients), clients)
        finally:
            await clients.close()
        run = RecordVerification(rows, run_task=lambda task: work(task.plan), tasks_at_once=1).run
        (verdict,) = await asyncio.to_thread(run)
        return verdict

    return asyncio.run(ask())
