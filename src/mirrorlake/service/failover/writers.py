"""Producers that wrote to one side while nothing was copied to it: accepted once all they wrote is known to be equal.

A mirror refuses a partition whose leader remembers a producer that is not its own. After a failover such producers are
what it is all about: those of the old source before, and those of the copy since. So where a failback has compared
every record of both sides, whoever had written until then becomes known to the mirror that copies to that side, as
producers of mirrors whose copies go on under another one are (``former_ids``); and so does the topic that the failback
has made.
Of a producer that goes on writing there the tail check tells, by what it writes.

Read before anything is compared: what is written after that is not accepted.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from mirrorlake.clock import Clock
from mirrorlake.config.sources.source import KafkaSource
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.transactions.owner_states import OwnerState, read_states
from mirrorlake.destinations.transactions.ownership import Ownership
from mirrorlake.errors import CommandRefusedError, MirrorlakeError
from mirrorlake.kafka.control.descriptions import AppendState
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.states import writer_name
from mirrorlake.service.status import StatusRow
from mirrorlake.together import all_of
from mirrorlake.topics.targets import SHARDS_PER_MIRROR

_log = structlog.get_logger("mirrorlake")

Appended = Mapping[int, AppendState]
"""What a partition's leader knew, by the number of the row it is about; without those that could not be asked."""


@dataclass(slots=True)
class Accepted:
    """What a mirror is told of one cluster: producer ids by partition there, and ids of source topics by name."""

    cluster: ClusterSettings
    source_cluster_id: str
    producer_ids: dict[TopicPartition, frozenset[int]] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)


async def appended_at_destinations(rows: Mapping[int, StatusRow], clients: WorkerCache) -> Appended:
    """Returns what the leaders of destination partitions know of their writers."""
    places = {n: (row.target.destination_cluster, row.target.destination_partition) for n, row in rows.items()}
    return await _appended(places, clients)


async def appended_at_sources(rows: Mapping[int, StatusRow], clients: WorkerCache) -> Appended:
    """Returns what the leaders of source partitions know of their writers."""
    places = {n: (_source_of(row).cluster.settings, row.target.source) for n, row in rows.items()}
    return await _appended(places, clients)


async def _appended(
    places: Mapping[int, tuple[ClusterSettings, TopicPartition]], clients: WorkerCache
) -> dict[int, AppendState]:
    by_cluster: dict[str, list[int]] = defaultdict(list)
    for number, (settings, _) in places.items():
        by_cluster[settings.name].append(number)
    found: dict[int, AppendState] = {}
    for numbers in by_cluster.values():
        client = clients.client(places[numbers[0]][0])
        states = await client.append_states({places[number][1] for number in numbers})
        for number in numbers:
            state = states[places[number][1]]
            if isinstance(state, AppendState):
                found[number] = state
    return found


def _source_of(row: StatusRow) -> KafkaSource:
    source = row.target.mirror.source
    assert isinstance(source, KafkaSource), "a failback is between clusters"
    return source


def writers_before(state: AppendState, end_offset: int | None) -> frozenset[int] | None:
    """Returns who had written to a log that ends where it was compared up to; None where it had gone on. Pure."""
    if end_offset is None or state.log_end.end_offset > end_offset:
        return None
    return frozenset(each.producer_id for each in state.producers)


def of_destinations(rows: Mapping[int, StatusRow], appended: Appended) -> dict[str, Accepted]:
    """Returns by mirror what its destinations have of writers, given rows all of whose records are equal. Pure."""
    found: dict[str, Accepted] = {}
    for number, row in rows.items():
        target = row.target
        ids = writers_before(appended[number], row.position) if number in appended else None
        if ids is not None:
            accepted = found.setdefault(
                target.mirror.name, Accepted(target.destination_cluster, target.source_cluster_id)
            )
            accepted.producer_ids[target.destination_partition] = ids
    return found


async def of_sources(
    rows: Mapping[int, StatusRow], equal: Mapping[int, StatusRow], appended: Appended, clients: WorkerCache
) -> dict[str, Accepted]:
    """Returns by mirror of the way back what its sources, the copies, have of writers; and which topics it filled.

    Args:
        rows: of all partitions that went back.
        equal: those of them that were compared, and are equal.
        appended: what the leaders of the sources knew before.
        clients: of the clusters.

    Raises:
        MirrorlakeError: a cluster could not be asked.
    """
    found: dict[str, Accepted] = {}
    whole: dict[tuple[str, str], bool] = {}
    for number, row in rows.items():
        target = row.target
        ids = writers_before(appended[number], row.source_end) if number in equal and number in appended else None
        key = (target.mirror.name, target.source.topic)
        whole[key] = whole.get(key, True) and number in equal
        accepted = found.setdefault(target.mirror.name, Accepted(_source_of(row).cluster.settings, ""))
        if ids is not None:
            accepted.producer_ids[target.source] = ids
    for row in rows.values():
        target = row.target
        if whole[target.mirror.name, target.source.topic]:
            topics = (await clients.client(target.destination_cluster).metadata([target.destination_topic])).topics
            made = topics.get(target.destination_topic)
            if made is not None and made.topic_id:
                found[target.mirror.name].topic_ids[target.destination_topic] = made.topic_id
    return found


async def accept(mirror: str, accepted: Accepted, clients: WorkerCache, *, clock: Clock, is_begun: bool) -> bool:
    """Writes what a mirror accepts to its state record; returns whether anything was written.

    Order of effects: the record is read, the ownership of the mirror is taken, the record is written anew, as let go
    of as it was. A death before the last leaves it as it was, and the same call does it again.

    Args:
        mirror: the one that copies to that cluster.
        accepted: what.
        clients: of the clusters.
        clock: dates the record.
        is_begun: whether a mirror without a record is left without one: it has never copied there.

    Raises:
        CommandRefusedError: another process has the mirror.
        MirrorlakeError: the cluster could not be asked, or does not take it.
    """
    client = clients.client(accepted.cluster)
    before = (await read_states(client)).get(mirror)
    if before is None and is_begun:
        return False
    known = before or OwnerState(
        mirror=mirror, source_cluster_id=accepted.source_cluster_id, shards=SHARDS_PER_MIRROR, is_released=True
    )
    after = with_accepted(known, accepted)
    if after == known:
        return False
    if before is not None and before.owner and not before.is_released:
        raise CommandRefusedError(
            f"mirror {mirror} is served by {before.owner}, so it was not told which producers are accepted",
            hint="end that process, and run this again",
        )
    await Ownership(client, mirror=mirror, owner=writer_name(), clock=clock).take(after)
    partitions = {where for where, ids in accepted.producer_ids.items() if ids}
    _log.info("producers accepted", mirror=mirror, cluster=accepted.cluster.name, partitions=len(partitions))
    return True


def with_accepted(state: OwnerState, accepted: Accepted) -> OwnerState:
    """Returns a state record that knows these producers and topics, and is else as it was. Pure."""
    former = {topic: dict(held) for topic, held in state.former_ids.items()}
    own = {each for ids in state.producer_ids.values() for each in ids}
    for where, ids in accepted.producer_ids.items():
        more = ids - own - set(former.get(where.topic, {}).get(where.partition, ()))
        if more:
            held = former.setdefault(where.topic, {})
            held[where.partition] = tuple(sorted({*held.get(where.partition, ()), *more}))
    changed = {name: each for name, each in accepted.topic_ids.items() if name in state.topic_ids}
    return replace(state, former_ids=former, topic_ids={**state.topic_ids, **changed})


async def accept_all(
    found: Mapping[str, Accepted], clients: WorkerCache, *, clock: Clock, is_begun: bool
) -> list[MirrorlakeError]:
    """Does what `accept` does for each mirror; returns what failed."""

    async def one(mirror: str, accepted: Accepted) -> MirrorlakeError | None:
        try:
            await accept(mirror, accepted, clients, clock=clock, is_begun=is_begun)
        except MirrorlakeError as error:
            return error
        return None

    errors: Sequence[MirrorlakeError | None] = await all_of(one(*each) for each in found.items())
    return [error for error in errors if error is not None]
