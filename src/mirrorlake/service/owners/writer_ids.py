"""Under which producer ids a mirror's shards wrote, and those of mirrors whose copies it goes on with.

A partition remembers its writers by producer id only; one not remembered here is an unknown producer. Transactional ids
expire after a week without a transaction and stand for another producer id then, so what was known once is kept. A
shard that is about to write gets its producer id here, before it writes: whatever dies after that, it is remembered.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from mirrorlake.destinations.map.settings import map_transactional_id
from mirrorlake.destinations.transactions.claim import FILL_TRANSACTION_TIMEOUT_MS
from mirrorlake.destinations.transactions.owner_states import OwnerState
from mirrorlake.errors import MirrorlakeError, PermissionDeniedError, UnsupportedError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import AppendState, TransactionState
from mirrorlake.offsets import TopicPartition
from mirrorlake.together import all_of
from mirrorlake.topics.handover import States, predecessors
from mirrorlake.topics.targets import SHARDS_PER_MIRROR, Target, shard_of, transactional_id_of

Shard = tuple[str, int]
"""A mirror, and the number of one of its shards."""

GIVEN_AT_ONCE = 8


async def find_producer_ids(
    client: ClusterClient, mirror: str, known: OwnerState | None, *, to_write: Collection[int] = ()
) -> dict[int, tuple[int, ...]]:
    """Returns every producer id the mirror's shards wrote under: those known, and those they stand for now.

    Args:
        client: of the destination cluster.
        mirror: its name.
        known: its state record so far; None for none.
        to_write: shards that are about to write. Those that stand for no producer id are given one, so that it can be
            remembered before the first batch is appended under it.

    Raises:
        MirrorlakeError: the coordinators could not be asked.
    """
    shards = [(mirror, shard) for shard in range(SHARDS_PER_MIRROR)]
    found = await _ids_now(client, shards, to_write={(mirror, shard) for shard in to_write})
    return _with_ids(known.producer_ids if known else {}, found)


async def find_map_producer_ids(
    client: ClusterClient, mirror: str, known: OwnerState | None, *, shards: int, to_write: Collection[int] = ()
) -> dict[int, tuple[int, ...]]:
    """Returns the same of the mirror's shards with mapped offsets, of which there are ``shards``.

    Raises:
        MirrorlakeError: the coordinators could not be asked.
    """
    found = await _ids_now(
        client,
        [(mirror, shard) for shard in range(shards)],
        named=map_transactional_id,
        to_write={(mirror, shard) for shard in to_write},
    )
    return _with_ids(known.map_producer_ids if known else {}, found)


def shards_of(targets: Iterable[Target]) -> tuple[frozenset[int], frozenset[int]]:
    """Returns the shards under which targets are written, and, apart from them, those with mapped offsets. Pure."""
    sound = [target for target in targets if target.error is None]
    kept = frozenset(shard_of(target.source) for target in sound if not target.is_mapped)
    return kept, frozenset(target.map_shard for target in sound if target.is_mapped)


def _with_ids(known: Mapping[int, tuple[int, ...]], now: Mapping[Shard, int]) -> dict[int, tuple[int, ...]]:
    ids = {shard: set(held) for shard, held in known.items()}
    for (_, shard), producer_id in now.items():
        ids.setdefault(shard, set()).add(producer_id)
    return {shard: tuple(sorted(held)) for shard, held in sorted(ids.items())}


async def find_former_ids(
    client: ClusterClient, targets: Iterable[Target], states: States
) -> dict[TopicPartition, set[int]]:
    """Returns the producer ids of mirrors whose copies go on under other ones, by destination partition.

    Those that the records know, and those that the mirrors' shards stand for now, as a mirror may have ended before it
    remembered its last one.

    Raises:
        MirrorlakeError: the coordinators could not be asked.
    """
    before = [(target, state) for target in targets for state in predecessors(target, states)]
    wanted = sorted({(state.mirror, shard_of(target.source)) for target, state in before})
    try:
        now = await _ids_now(client, wanted)
    except PermissionDeniedError:  # rights may be for one mirror's name only; the records say what they knew
        now = {}
    former: dict[TopicPartition, set[int]] = {}
    for target, state in before:
        where, shard = target.destination_partition, shard_of(target.source)
        ids = former.setdefault(where, set())
        ids.update(state.producer_ids.get(shard, ()), state.former_ids.get(where.topic, {}).get(where.partition, ()))
        if (state.mirror, shard) in now:
            ids.add(now[state.mirror, shard])
    return former


async def as_of_now(client: ClusterClient, state: OwnerState, *, map_shards: int) -> OwnerState:
    """Returns a state record with the producer ids its shards stand for now, and without partitions they have proven.

    Args:
        client: of the destination cluster.
        state: the record.
        map_shards: how many shards its mapped copies have.

    Raises:
        MirrorlakeError: the coordinators or leaders could not be asked.
    """
    producer_ids = await find_producer_ids(client, state.mirror, state)
    return replace(
        state,
        producer_ids=producer_ids,
        map_producer_ids=await find_map_producer_ids(client, state.mirror, state, shards=map_shards),
        found_filled=await _still_unproven(client, state, producer_ids),
    )


async def _still_unproven(
    client: ClusterClient, state: OwnerState, producer_ids: Mapping[int, tuple[int, ...]]
) -> dict[str, tuple[int, ...]]:
    """Returns the `found_filled` partitions of a record to which none of the mirror's shards has appended.

    A lease appends once it has compared what is there with the source, so what it has appended to is the copy.
    A partition that cannot be asked stays.
    """
    marked = [TopicPartition(topic, number) for topic, held in state.found_filled.items() for number in held]
    if not marked:
        return {}
    own = {each for held in producer_ids.values() for each in held}
    found = await client.append_states(marked)
    kept: dict[str, tuple[int, ...]] = {}
    for where in marked:
        seen = found.get(where)
        is_ours = isinstance(seen, AppendState) and any(each.producer_id in own for each in seen.producers)
        if not is_ours:
            kept[where.topic] = (*kept.get(where.topic, ()), where.partition)
    return kept


async def _ids_now(
    client: ClusterClient,
    shards: Sequence[Shard],
    *,
    named: Callable[[str, int], str] = transactional_id_of,
    to_write: Collection[Shard] = (),
) -> dict[Shard, int]:
    """Returns the producer ids that shards' transactional ids stand for now, where they stand for one, or are to."""
    names = {named(mirror, shard): (mirror, shard) for mirror, shard in shards}
    found = await client.describe_transactions(list(names)) if names else {}
    ids: dict[Shard, int] = {}
    without: dict[str, Shard] = {}
    for name, where in names.items():
        state = found.get(name)
        if isinstance(state, UnsupportedError):
            continue  # before Kafka 3.0, where `offsets: preserve`, which needs them, is refused
        if isinstance(state, MirrorlakeError):
            raise state
        if isinstance(state, TransactionState):
            ids[where] = state.producer_id
        elif where in to_write:
            without[name] = where
    return ids | await _given(client, without)


async def _given(client: ClusterClient, without: Mapping[str, Shard]) -> dict[Shard, int]:
    """Returns the producer ids that transactional ids get which stand for none.

    A lease that began meanwhile may have got it first. It has the same producer id then, and a gap or a transaction of
    it that this fences is tried again.
    """
    limit = asyncio.Semaphore(GIVEN_AT_ONCE)

    async def give(name: str, where: Shard) -> tuple[Shard, int]:
        async with limit:
            # No transaction begins with this epoch: who begins one takes the id anew, with a time-out of its own.
            given = await client.init_producer_id(name, transaction_timeout_ms=FILL_TRANSACTION_TIMEOUT_MS)
            return where, given.producer_id

    return dict(await all_of(give(name, where) for name, where in without.items()))
