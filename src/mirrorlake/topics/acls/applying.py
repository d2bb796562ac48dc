"""Does what a plan says to ACLs.

A DENY is added before any ALLOW, and an ALLOW only where the DENY of its resource is there; so whatever was done when a
process dies, nobody may do more than the source allows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import structlog

from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import BrokerNotReadyError, MirrorlakeError
from mirrorlake.kafka.control.acls import Acl
from mirrorlake.topics.acls.plan import AclRow, Key, is_opposed
from mirrorlake.topics.acls.rules import ALLOW, text_of
from mirrorlake.topics.sync.differences import Act

_log = structlog.get_logger("mirrorlake")

ACLS_AT_ONCE = 500
"""In one request: a controller takes no more than 10 000 records of one (``QuorumController`` of Kafka 4.3.0)."""

Failed = dict[Key, MirrorlakeError]


async def add_acls(rows: Sequence[AclRow], clients: WorkerCache) -> Failed:
    """Adds the rules that a plan adds, DENY first; returns why some were not added."""
    adds = {row.key: row for row in rows if row.difference.act is Act.ADD_ACL}
    denies = {key: row for key, row in adds.items() if row.acl is not None and row.acl.permission != ALLOW}
    failed = await _send(list(denies.values()), clients)
    allows = []
    for key, row in adds.items():
        if key in denies:
            continue
        without = [denies[each] for each in failed if is_opposed(denies[each], row)]
        if without:
            failed_deny = text_of(without[0].acl) if without[0].acl is not None else ""
            failed[key] = BrokerNotReadyError(
                f"it was not added, as what the source denies of it was not: {failed_deny}", hint="see to that first"
            )
        else:
            allows.append(row)
    return {**failed, **await _send(allows, clients)}


async def remove_acls(rows: Sequence[AclRow], clients: WorkerCache, *, failed: Failed) -> Failed:
    """Removes the rules that a plan removes; returns why some were not.

    Args:
        rows: the plan.
        clients: of the clusters.
        failed: of `add_acls`. Nothing is removed from a topic that lacks a rule for it: that may be the one that was to
            hold instead, and a topic for which none holds may be open to everybody.
    """
    without = {(row.cluster, row.to) for row in rows if row.difference.act is Act.ADD_ACL and row.key in failed}
    removals = {row.key: row for row in rows if row.difference.act is Act.REMOVE_ACL}
    kept = {key: _NOT_REMOVED for key, row in removals.items() if (row.cluster, row.to) in without}
    return {**kept, **await _send([row for key, row in removals.items() if key not in kept], clients)}


_NOT_REMOVED = BrokerNotReadyError(
    "it was not removed, as a rule that is to hold for the topic was not added", hint="see to that first"
)


async def _send(rows: Sequence[AclRow], clients: WorkerCache) -> Failed:
    """Sends rows of one act, cluster by cluster; what was not answered counts as not done."""
    failed: Failed = {}
    clusters: dict[str, list[AclRow]] = {}
    for row in rows:
        clusters.setdefault(row.cluster, []).append(row)
    for own in clusters.values():
        for start in range(0, len(own), ACLS_AT_ONCE):
            some = own[start : start + ACLS_AT_ONCE]
            results = await _ask(some, clients)
            found = ((row.key, results[row.acl]) for row in some if row.acl is not None)
            failed.update((key, why) for key, why in found if why is not None)
    return failed


async def _ask(rows: Sequence[AclRow], clients: WorkerCache) -> Mapping[Acl, MirrorlakeError | None]:
    acls = [row.acl for row in rows if row.acl is not None]
    client = clients.client(rows[0].destination.cluster.settings).acls
    is_added = rows[0].difference.act is Act.ADD_ACL
    try:
        results = await (client.create(acls) if is_added else client.delete(acls))
    except MirrorlakeError as refusal:
        return dict.fromkeys(acls, refusal)
    said = "ACL added" if is_added else "ACL removed"
    for acl, error in results.items():
        if error is None:
            _log.info(said, acl=text_of(acl), cluster=rows[0].cluster)
    return results


def acl_results(
    planned: Sequence[AclRow], failed: Mapping[Key, MirrorlakeError], now: Sequence[AclRow], words: tuple[str, str, str]
) -> list[AclRow]:
    """Returns the rows of a plan with what became of each act. Pure.

    Args:
        planned: what was to be done.
        failed: why an act was not done, by its key.
        now: what differs afterwards.
        words: for what is done, has failed, and could not be read back.
    """
    done, bad, unread = words
    left = {row.key for row in now if row.is_act}
    silent = {(row.mirror, row.cluster) for row in now if row.difference.act is Act.UNKNOWN}

    def with_result(row: AclRow) -> AclRow:
        error, result = failed.get(row.key), bad
        if error is None and (row.mirror, row.cluster) in silent:
            error, result = (
                BrokerNotReadyError("it was accepted, and could not be read back", hint="look again"),
                unread,
            )
        elif error is None and row.key in left:
            error = BrokerNotReadyError(
                "it was accepted, and reads as before", hint="look again; another process may have changed it back"
            )
        return replace(row, result=result if error else done, difference=replace(row.difference, error=error))

    return [with_result(row) if row.is_act else row for row in planned]
