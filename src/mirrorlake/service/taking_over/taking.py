"""Takes over where other programs stood: reads their offsets topics and compares what they copied. Reads only.

Order: that the program has ended; what it has stored; each partition; then what it has stored and that it has ended
once more, and where its copies end. What has moved on between was written by somebody, and nothing is taken.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mirrorlake.config.destinations.kafka import KafkaDestination
from mirrorlake.config.imports.draft import Former
from mirrorlake.config.resolved import Configuration, Mirror
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import CommandRefusedError
from mirrorlake.kafka.control.cluster import LATEST, ClusterClient
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.taking_over.connect_offsets import Stored
from mirrorlake.service.taking_over.judging import Verdict, judge
from mirrorlake.service.taking_over.stored import check_ended, read_stored
from mirrorlake.together import all_of
from mirrorlake.topics.discovery import find_targets
from mirrorlake.topics.targets import Target

PARTITIONS_AT_ONCE = 4
"""How many are compared at a time: each may hold records of four million offsets, at some 24 bytes."""

LOOKS_APART_SECONDS = 2.0
"""Between the first look at what may still grow, and the last."""


@dataclass(slots=True)
class Taken:
    """What was found of one mirror.

    Attributes:
        offsets: from which it goes on, by topic and partition.
        remarks: what is to be read, each with the partition or topic it is about.
        problems: what must be mended before the configuration is used.
    """

    offsets: dict[str, dict[int, int]] = field(default_factory=dict)
    remarks: list[tuple[str, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


async def take_over(config: Configuration, formers: Mapping[str, Former]) -> dict[str, Taken]:
    """Returns for each enabled mirror where it goes on.

    Args:
        config: made of the other program's configuration.
        formers: the program that copied, by the mirror's name.

    Raises:
        CommandRefusedError: it still runs, or where it stood is not known at all.
        MirrorlakeError: a cluster could not be read.
    """
    clients = WorkerCache()
    try:
        targets = await find_targets(config, clients)
        taken = {}
        for mirror in config.enabled_mirrors:
            if mirror.name in formers:
                theirs = [target for target in targets if target.mirror.name == mirror.name]
                taken[mirror.name] = await _take(mirror, theirs, formers[mirror.name], clients)
        return taken
    finally:
        await clients.close()


async def _take(mirror: Mirror, targets: Sequence[Target], former: Former, clients: WorkerCache) -> Taken:
    destination = mirror.destinations[0]
    if not isinstance(destination, KafkaDestination):
        raise TypeError(f"mirror {mirror.name} was made of {former.program}'s, and is copied to {destination.label}")
    client = clients.client(destination.cluster.settings)
    workers = await check_ended(client, former)
    stored = await read_stored(client, former)
    looked_at = asyncio.get_running_loop().time()
    slots = asyncio.Semaphore(PARTITIONS_AT_ONCE)

    async def judged(target: Target) -> Verdict:
        async with slots:
            return await judge(target, stored.get(target.source), former, clients)

    verdicts = await all_of(map(judged, targets))
    await asyncio.sleep(max(0.0, looked_at + LOOKS_APART_SECONDS - asyncio.get_running_loop().time()))
    await _check_still(client, former, stored, targets, verdicts)
    return _taken(former, workers, stored, verdicts)


async def _check_still(
    client: ClusterClient,
    former: Former,
    stored: Mapping[TopicPartition, Stored],
    targets: Sequence[Target],
    verdicts: Sequence[Verdict],
) -> None:
    """Checks that nothing has moved on since it was looked at.

    Raises:
        CommandRefusedError: something has: the program runs, or somebody else writes to its topics.
        MirrorlakeError: that could not be found out.
    """
    await check_ended(client, former)
    again = await read_stored(client, former)
    if again != stored:
        moved = min(each for each in again.keys() | stored.keys() if again.get(each) != stored.get(each))
        raise CommandRefusedError(
            f"{former.program} runs: its position of {moved} has moved on in {former.offsets_topic}",
            hint="end it first; nothing was written",
        )
    for target, verdict in zip(targets, verdicts, strict=True):
        copy = target.destination_partition
        if verdict.copy_end is not None and await client.offset_at(copy, LATEST) != verdict.copy_end:
            raise CommandRefusedError(
                f"{copy} grew while it was looked at: {former.program} runs, or somebody else writes there",
                hint="end them for the moment of the take-over; nothing was written",
            )


def _taken(
    former: Former, workers: Sequence[str], stored: Mapping[TopicPartition, Stored], verdicts: Sequence[Verdict]
) -> Taken:
    taken = Taken()
    if workers:
        names = ", ".join(workers)
        taken.remarks.append(("groups", f"workers of Connect are alive ({names}): none of them may still copy"))
    for verdict in verdicts:
        if verdict.offset is not None:
            taken.offsets.setdefault(verdict.source.topic, {})[verdict.source.partition] = verdict.offset
        taken.remarks += [(str(verdict.source), text) for text in verdict.remarks]
        if verdict.problem:
            taken.problems.append(f"{verdict.source}: {verdict.problem}")
    for partition in sorted(stored.keys() - {verdict.source for verdict in verdicts}):
        taken.remarks.append((str(partition), f"{former.program} has copied it, and this mirror does not"))
    return taken
