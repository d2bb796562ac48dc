"""Whether this user may do what ``run`` will do, found out before it does it, and without changing anything.

Reading is tried, as nothing else proves it. What is needed at a destination is asked for.
Rights on transactional ids cannot be asked for without becoming a writer; a run finds them out.
"""

import asyncio
from collections.abc import Mapping, Sequence

from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import MirrorlakeError, PermissionDeniedError
from mirrorlake.kafka.control.rights import Rights
from mirrorlake.kinds.registry import kind_of
from mirrorlake.service.status import StatusRow
from mirrorlake.together import all_of, both

PROBES_AT_ONCE = 8


async def missing_rights(rows: Sequence[StatusRow], clients: WorkerCache) -> list[MirrorlakeError | None]:
    """Returns for each row what its source or destination will refuse, or why that could not be found out; or None.

    Rows with an error have one already, and get none here.
    """
    unread, rights = await both(_unreadable_sources(rows, clients), _rights(rows, clients))

    def refused(row: StatusRow) -> MirrorlakeError | None:
        if row.error is not None:
            return None
        denied_by_kafka = unread.get(_source_topic(row)) or _missing(row, rights)
        return denied_by_kafka or kind_of(row.target.destination).why_not_writable(row.target)

    # A file system may take its time with the answer.
    return await asyncio.to_thread(lambda: [refused(row) for row in rows])


# --- sources ----------------------------------------------------------------------------------------------


def _source_topic(row: StatusRow) -> tuple[str, str]:
    return row.target.source_work.name, row.target.source.topic


async def _unreadable_sources(
    rows: Sequence[StatusRow], clients: WorkerCache
) -> Mapping[tuple[str, str], MirrorlakeError]:
    """Tries to read each source topic, at the end of its first partition, and returns those that refuse."""
    limit = asyncio.Semaphore(PROBES_AT_ONCE)
    chosen = {_source_topic(row): row for row in reversed(rows) if _is_readable(row)}

    async def probe(row: StatusRow) -> MirrorlakeError | None:
        async with limit:
            source = row.target.source_work.client(clients)
            return await source.try_reading(row.target.source, row.source_end or 0)

    errors = await all_of(probe(row) for row in chosen.values())
    return {topic: error for topic, error in zip(chosen, errors, strict=True) if error is not None}


def _is_readable(row: StatusRow) -> bool:
    return row.error is None and row.source_end is not None and row.target.is_due


# --- destinations -----------------------------------------------------------------------------------------


async def _rights(rows: Sequence[StatusRow], clients: WorkerCache) -> Mapping[str, Rights | MirrorlakeError]:
    """Asks each destination cluster for the rights on all topics that would be written."""
    topics: dict[str, set[str]] = {}
    settings = {}
    for row in rows:
        if row.error is None and (needed := _needed(row)):
            cluster = row.target.destination_cluster
            settings[cluster.name] = cluster
            topics.setdefault(cluster.name, set()).update(needed)

    async def ask(cluster: str) -> Rights | MirrorlakeError:
        try:
            return await clients.client(settings[cluster]).topics.rights(sorted(topics[cluster]))
        except MirrorlakeError as error:
            return error

    return dict(zip(topics, await all_of(ask(cluster) for cluster in topics), strict=True))


def _needed(row: StatusRow) -> Mapping[str, tuple[str, ...]]:
    """Returns the operations that will be needed at the destination, by topic."""
    return kind_of(row.target.destination).needed_rights(row)


def _missing(row: StatusRow, rights: Mapping[str, Rights | MirrorlakeError]) -> MirrorlakeError | None:
    needed = _needed(row)
    if not needed:
        return None
    cluster = row.target.destination_cluster.name
    found = rights.get(cluster, {})
    if isinstance(found, MirrorlakeError):
        return found
    for topic, operations in needed.items():
        # A topic that is not there has no rights; whether it may be made is asked with its settings.
        lacking = [operation for operation in operations if topic in found and operation not in found[topic]]
        if lacking:
            return denied(cluster, topic, lacking[0])
    return None


def denied(cluster: str, topic: str, operation: str) -> PermissionDeniedError:
    """Returns the error for an operation that brokers would not let this user do with a topic."""
    return PermissionDeniedError(
        f"this user may not {operation} topic {topic} on cluster {cluster}",
        hint=f"grant {operation} on topic {topic} to this user",
        topic=topic,
    )
