"""What `plan` reads of copies with the source's own offsets: what a lease looks at before it appends or deletes."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence

from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.preserve.look import Seen, look
from mirrorlake.destinations.preserve.work import PreserveWork
from mirrorlake.destinations.transactions.owner_states import find_states
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kinds.kind import Look
from mirrorlake.kinds.standing import Standing
from mirrorlake.topics.handover import States, predecessors, with_configured_partitions
from mirrorlake.topics.targets import Target, shard_of, transactional_id_of

Works = Mapping[int, tuple[Standing, PreserveWork]]
"""Rows and what their leases are told, by the rows' numbers."""


async def look_at_copies(works: Works, clients: WorkerCache, *, at_once: int) -> Mapping[int, Look]:
    """Returns what a lease would find at each copy, by number; what can be asked for a whole cluster is asked once."""
    by_cluster: dict[str, dict[int, tuple[Standing, PreserveWork]]] = defaultdict(dict)
    for number, (row, work) in works.items():
        by_cluster[work.cluster.name][number] = (row, work)
    limit = asyncio.Semaphore(at_once)
    parts = await asyncio.gather(*(_look_at_cluster(group, clients, limit) for group in by_cluster.values()))
    return {number: look for part in parts for number, look in part.items()}


async def _look_at_cluster(works: Works, clients: WorkerCache, limit: asyncio.Semaphore) -> Mapping[int, Look]:
    client = clients.client(next(iter(works.values()))[1].cluster)
    try:
        states = await _states(client, [row for row, _ in works.values()])
        writers = {number: known_writers(row.target, states) for number, (row, _) in works.items()}
        names = {work.settings.transactional_id for _, work in works.values()}
        names |= {name for _, former in writers.values() for name in former}
        described = await client.describe_transactions(sorted(names))
        ends = await client.append_states([work.settings.destination for _, work in works.values()])
    except MirrorlakeError as error:
        return dict.fromkeys(works, Look(error=error))

    async def read(number: int) -> Look:
        (row, work), (ids, former) = works[number], writers[number]
        settings = work.settings
        async with limit:
            try:
                is_new = await look(
                    settings,
                    Seen(
                        shard=described.get(settings.transactional_id),
                        former=tuple(described.get(name) for name in former),
                        state=ends[settings.destination],
                    ),
                    source_log=row.target.source_work.log(row.target.source, clients),
                    destination_client=client,
                    own_producer_ids=ids,
                    asks_whether_new=(row.source_start or 0) > (row.position or 0),
                )
            except MirrorlakeError as error:
                return Look(error=error)
        return Look(is_new=is_new)

    return dict(zip(works, await asyncio.gather(*(read(number) for number in works)), strict=True))


async def _states(client: ClusterClient, rows: Sequence[Standing]) -> States:
    mirrors = {row.target.mirror.name: row.target.mirror for row in rows}
    return with_configured_partitions(await find_states(client), mirrors.values())


def known_writers(target: Target, states: States) -> tuple[frozenset[int], tuple[str, ...]]:
    """Returns who wrote to a target's destination before, as the state records say it. Pure.

    Returns:
        The producer ids of the mirror's shard, and of mirrors whose copy goes on under it; and the transactional ids of
        the latter, which may stand for further ones by now.
    """
    shard, where = shard_of(target.source), target.destination_partition
    own = states.get(target.mirror.name)
    before = predecessors(target, states)
    ids: set[int] = set()
    for state in [*([own] if own else []), *before]:
        ids.update(state.producer_ids.get(shard, ()), state.former_ids.get(where.topic, {}).get(where.partition, ()))
    return frozenset(ids), tuple(transactional_id_of(state.mirror, shard) for state in before)
