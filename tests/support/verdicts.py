"""What ``verify`` says of a copy, asked in this process."""

import asyncio

from mirrorlake.config.resolved import Configuration
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.service.status import read_rows
from mirrorlake.topics.discovery import find_targets
from mirrorlake.verify.verdict import Verdict
from mirrorlake.verify.verification import RecordVerification
from mirrorlake.verify.worker import work
from support.mirrors import copying


def verdict_of(source: str, destination: str, topic: str) -> Verdict:
    """What ``verify`` says of the only partition of a topic that is mirrored with equal offsets."""
    (verdict,) = verdicts_of(copying(source, destination, topic))
    return verdict


def verdicts_of(config: Configuration) -> list[Verdict]:
    """What ``verify`` says of all that a configuration copies."""

    async def ask() -> list[Verdict]:
        clients = WorkerCache()
        try:
            rows = await read_rows(await find_targets(config, clients), clients)
        finally:
            await clients.close()
        run = RecordVerification(rows, run_task=lambda task: work(task.plan), tasks_at_once=1).run
        return await asyncio.to_thread(run)

    return asyncio.run(ask())
