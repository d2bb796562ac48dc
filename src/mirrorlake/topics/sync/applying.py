"""Does what a plan says to destination topics, one act after another, and reads back what they are like then.

Each act is done or not done as a whole, and none undoes another: whoever was stopped in between plans again.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

import structlog

from mirrorlake.config.resolved import Configuration
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import BrokerNotReadyError, MirrorlakeError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.topics.acls.applying import acl_results, add_acls, remove_acls
from mirrorlake.topics.acls.plan import Key as AclKey
from mirrorlake.topics.sync.differences import Act
from mirrorlake.topics.sync.plan import DONE, FAILED, UNREAD, TopicPlan, TopicRow, plan_topics
from mirrorlake.topics.targets import TopicGrowth
from mirrorlake.topics.topic_creation import grow_topic

_log = structlog.get_logger("mirrorlake")

READ_BACK_TRIES = 40
READ_BACK_PAUSE_SECONDS = 0.25

Key = tuple[str, str, str, str | None, Act]
_WORDS = (DONE, FAILED, UNREAD)


async def apply_topics(
    config: Configuration, clients: WorkerCache, planned: TopicPlan, mirrors: Sequence[str] | None = None
) -> TopicPlan:
    """Does all acts of a plan, in the order ACLs, topics, partitions, settings, ACLs to remove; returns what became.

    An act that fails keeps no other from being done. Rows that change nothing stay as they were; differences that
    are found only now, when all was read again, are added.
    """
    failed: dict[Key, MirrorlakeError] = {}
    failed_acls = await add_acls(planned.acls, clients)
    for acts in _grouped(planned.acts):
        try:
            await _act(acts, clients.client(acts[0].facts.destination.cluster.settings))
        except MirrorlakeError as error:
            failed.update((row.key, error) for row in acts)
    failed_acls |= await remove_acls(planned.acls, clients, failed=failed_acls)
    done = {row.key for row in planned.acts} - failed.keys()
    done_acls = {row.key for row in planned.acls if row.is_act} - failed_acls.keys()
    now = await _read_back(config, clients, done | done_acls, mirrors)
    return _result(planned, failed, failed_acls, now)


def _result(
    planned: TopicPlan,
    failed: Mapping[Key, MirrorlakeError],
    failed_acls: Mapping[AclKey, MirrorlakeError],
    now: TopicPlan,
) -> TopicPlan:
    rows, acls = results_of(planned, failed, now), acl_results(planned.acls, failed_acls, now.acls, _WORDS)
    known, known_acls = {row.key for row in planned.rows}, {row.key for row in planned.acls}
    return TopicPlan(
        rows=[*rows, *(row for row in now.rows if row.key not in known)],
        topics=now.topics,
        unseen=planned.unseen,
        acls=[*acls, *(row for row in now.acls if row.key not in known_acls)],
    )


def _grouped(acts: Sequence[TopicRow]) -> list[list[TopicRow]]:
    """Returns what is done by one request each; settings of one topic together. Each thing is done once."""
    order = [Act.CREATE, Act.GROW, Act.SET]
    groups: dict[tuple[int, str, str], dict[Key, TopicRow]] = {}
    for row in acts:
        place = (order.index(row.difference.act), row.cluster, row.facts.name)
        groups.setdefault(place, {}).setdefault(row.key, row)
    return [list(groups[place].values()) for place in sorted(groups)]


async def _act(acts: Sequence[TopicRow], client: ClusterClient) -> None:
    facts, difference = acts[0].facts, acts[0].difference
    if difference.act is Act.CREATE and facts.creation is not None:
        made = facts.creation
        await client.topics.create(
            made.topic,
            partitions=made.partitions,
            replication_factor=made.replication_factor,
            configs=dict(made.configs),
        )
        _log.info("destination topic made", topic=made.topic, partitions=made.partitions)
    elif difference.act is Act.GROW:
        before, wanted = int(difference.found or 0), int(difference.wanted or 0)
        await grow_topic(TopicGrowth(topic=facts.name, partitions_before=before, partitions=wanted), client)
    elif difference.act is Act.SET:
        settings = {row.difference.what: row.difference.wanted or "" for row in acts}
        await client.topics.set_configs(facts.name, settings)
        _log.info("destination topic's settings set", topic=facts.name, settings=settings)


async def _read_back(
    config: Configuration, clients: WorkerCache, done: set[Key | AclKey], mirrors: Sequence[str] | None
) -> TopicPlan:
    """Returns what differs now; waits a while for the brokers to show what their controller has accepted."""
    now = await plan_topics(config, clients, mirrors)
    for _ in range(READ_BACK_TRIES):
        if not done & {row.key for row in now.all_acts}:
            break
        await asyncio.sleep(READ_BACK_PAUSE_SECONDS)
        now = await plan_topics(config, clients, mirrors)
    return now


def results_of(planned: TopicPlan, failed: Mapping[Key, MirrorlakeError], now: TopicPlan) -> list[TopicRow]:
    """Returns the rows of a plan with what became of each act. Pure.

    Args:
        planned: what was to be done.
        failed: why an act was not done, by its key.
        now: what differs afterwards. What could not be read then says nothing of an act that was accepted.
    """
    left = {row.key for row in now.acts}
    unread = {(row.cluster, row.facts.name) for row in now.rows if row.difference.act is Act.UNKNOWN}

    def with_result(row: TopicRow) -> TopicRow:
        what = f"{row.difference.what} of topic {row.facts.name} on cluster {row.cluster}"
        error, result = failed.get(row.key), FAILED
        if error is None and (row.cluster, row.facts.name) in unread:
            error, result = (
                BrokerNotReadyError(f"{what} was accepted, and could not be read back", hint="look again"),
                UNREAD,
            )
        elif error is None and row.key in left:
            error = BrokerNotReadyError(
                f"{what} was changed and reads as before", hint="look again; another process may have changed it back"
            )
        return replace(row, result=result if error else DONE, difference=replace(row.difference, error=error))

    return [with_result(row) if row.is_act else row for row in planned.rows]
