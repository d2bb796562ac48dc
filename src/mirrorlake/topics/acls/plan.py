"""What would be done to the ACLs of a destination so that they are as those of the sources say."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mirrorlake.config.destinations.kafka import KafkaDestination
from mirrorlake.config.resolved import Mirror
from mirrorlake.config.sources.source import KafkaSource
from mirrorlake.config.topics.policy import SyncMode
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import MirrorlakeError, PermissionDeniedError
from mirrorlake.kafka.control.acls import Acl
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.together import all_of
from mirrorlake.topics.acls.differences import ACL, AclDifference, AclFacts, acl_differences_of
from mirrorlake.topics.acls.rules import ALLOW, DENY, GROUP, TOPIC, may_meet, opposes
from mirrorlake.topics.sync.differences import ACTS, Act, Difference, TopicFacts

Rules = Mapping[tuple[str, str], frozenset[Acl] | MirrorlakeError]
"""Rules by cluster and type of resource, or why they could not be read."""

Key = tuple[str, Acl | str, Act]


@dataclass(frozen=True, slots=True, kw_only=True)
class AclRow:
    """One difference between ACLs, and what became of it; ``result`` is empty before anything was done.

    Attributes:
        mirror: its name.
        destination: one of the mirror's.
        topic: of the source; None where this is about groups, or about all that could not be read.
        to: the copy's name, or the group's.
        difference: from what it should be.
        acl: the rule; None where nothing could be read.
    """

    mirror: str
    destination: KafkaDestination
    topic: str | None
    to: str
    difference: Difference
    acl: Acl | None = None
    result: str = ""

    @property
    def cluster(self) -> str:
        """Name of the destination cluster."""
        return self.destination.cluster.name

    @property
    def is_act(self) -> bool:
        """True where something is to be changed."""
        return self.difference.act in ACTS

    @property
    def is_open(self) -> bool:
        """True where it is refused, not known, or could not be done."""
        return self.difference.act in (Act.REFUSE, Act.UNKNOWN) or self.difference.error is not None

    @property
    def key(self) -> Key:
        """What is to be done: two rows of one key do the same."""
        return self.cluster, self.acl or self.mirror, self.difference.act

    def as_json(self) -> dict[str, str | int | None]:
        """Returns the row of a table, and of ``--format json``; ``error`` is present exactly when it has one."""
        difference = self.difference
        row: dict[str, str | int | None] = {
            "name": self.mirror,
            "topic": self.topic,
            "destination": self.destination.label,
            "to": self.to,
            "what": difference.what,
            "source": difference.source,
            "found": difference.found,
            "wanted": difference.wanted,
            "action": difference.act.value,
            **({"result": self.result} if self.result else {}),
            "note": difference.note or None,
        }
        return row if difference.error is None else {**row, "error": str(difference.error)}


def as_shown(rows: Sequence[AclRow], shown: Collection[Key]) -> list[AclRow]:
    """Returns the rows without acts of other keys, and without an ALLOW that opposes a DENY left out so. Pure."""
    unseen = [row for row in rows if row.is_act and row.key not in shown]
    denies = [row for row in unseen if row.acl is not None and row.acl.permission == DENY]
    return [
        row
        for row in rows
        if not row.is_act or (row.key in shown and not any(is_opposed(deny, row) for deny in denies))
    ]


def is_opposed(deny: AclRow, row: AclRow) -> bool:
    """Tells whether a row adds an ALLOW of which another row denies something, on the same cluster."""
    if deny.acl is None or row.acl is None or row.difference.act is not Act.ADD_ACL:
        return False
    is_beside = deny.cluster == row.cluster and may_meet(deny.acl, row.acl)
    return is_beside and row.acl.permission == ALLOW and opposes(deny.acl, row.acl)


async def plan_acls(
    facts: Sequence[TopicFacts], clients: WorkerCache, mirrors: Sequence[str] | None = None
) -> list[AclRow]:
    """Returns all differences between the ACLs of sources and copies, and what would be done; changes nothing.

    Args:
        facts: of topics, those of other mirrors that write to the same clusters too.
        clients: of the clusters.
        mirrors: which of them are asked about; None for all.
    """
    asked = [
        each
        for each in facts
        if (mirrors is None or each.mirror.name in mirrors)
        and each.destination.sync.acls is not SyncMode.OFF
        and isinstance(each.mirror.source, KafkaSource)
    ]
    rows = acl_rows(asked, facts, await _read_rules(asked, clients))
    acting = {row.cluster: row.destination.cluster.settings for row in rows if row.is_act}
    return without_rights(rows, await _clusters_without_right(acting, clients))


def without_rights(rows: Sequence[AclRow], clusters: Collection[str]) -> list[AclRow]:
    """Returns the rows; refused is what would be done at clusters where this user may not change ACLs. Pure."""

    def judged(row: AclRow) -> AclRow:
        if not row.is_act or row.cluster not in clusters:
            return row
        error = PermissionDeniedError(
            f"mirrorlake's user may not change ACLs of cluster {row.cluster}",
            hint="grant it ALTER on the cluster (kafka-acls.sh --add --cluster --operation Alter), or set acls: report",
        )
        return replace(row, difference=replace(row.difference, act=Act.REFUSE, error=error))

    return [judged(row) for row in rows]


async def _clusters_without_right(clusters: Mapping[str, ClusterSettings], clients: WorkerCache) -> set[str]:
    """Returns the clusters that say so; one that says nothing, or does not answer, is left to the act itself."""

    async def may_change(settings: ClusterSettings) -> bool | None:
        try:
            return await clients.client(settings).acls.may_change()
        except MirrorlakeError:
            return None

    told = await all_of(map(may_change, clusters.values()))
    return {name for name, may in zip(clusters, told, strict=True) if may is False}


def acl_rows(asked: Sequence[TopicFacts], facts: Sequence[TopicFacts], rules: Rules) -> list[AclRow]:
    """Returns the rows of topics, and of the groups of their clusters, given all rules. Pure."""
    sources: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for each in facts:
        sources.setdefault((each.destination.cluster.name, each.name), set()).add((each.mirror.name, each.topic))
    rows: list[AclRow] = []
    for mirror, destination, topics in _ways(asked):
        source, held = _sides(rules, mirror, destination, TOPIC)
        if isinstance(source, MirrorlakeError) or isinstance(held, MirrorlakeError):
            rows.extend(_unread(mirror, destination, (source, held)))
        else:
            for each in topics:
                if each.source is None:
                    continue  # what is said of the topic says why
                found = AclFacts(
                    source=source,
                    held=held,
                    sync=destination.sync,
                    topic=each.topic,
                    name=each.name,
                    own=own_principals(destination.cluster.settings),
                    is_shared=len(sources[destination.cluster.name, each.name]) > 1,
                    is_blocked=each.is_blocked,
                )
                rows.extend(_row(mirror, destination, each.topic, one) for one in acl_differences_of(found))
        if destination.sync.acl_groups:
            rows.extend(_of_groups(mirror, destination, rules))
    return rows


def _of_groups(mirror: Mirror, destination: KafkaDestination, rules: Rules) -> Iterator[AclRow]:
    source, held = _sides(rules, mirror, destination, GROUP)
    if isinstance(source, MirrorlakeError) or isinstance(held, MirrorlakeError):
        yield from _unread(mirror, destination, (source, held))
        return
    own = own_principals(destination.cluster.settings)
    for one in acl_differences_of(AclFacts(source=source, held=held, sync=destination.sync, own=own)):
        yield _row(mirror, destination, None, one)


def _row(mirror: Mirror, destination: KafkaDestination, topic: str | None, found: AclDifference) -> AclRow:
    return AclRow(
        mirror=mirror.name,
        destination=destination,
        topic=topic,
        to=found.acl.name,
        difference=found.difference,
        acl=found.acl,
    )


def _unread(
    mirror: Mirror, destination: KafkaDestination, sides: Iterable[frozenset[Acl] | MirrorlakeError]
) -> Iterator[AclRow]:
    errors = {str(side): side for side in sides if isinstance(side, MirrorlakeError)}
    for error in errors.values():
        difference = Difference(what=ACL, act=Act.UNKNOWN, error=error)
        yield AclRow(mirror=mirror.name, destination=destination, topic=None, to="", difference=difference)


def _ways(asked: Sequence[TopicFacts]) -> list[tuple[Mirror, KafkaDestination, list[TopicFacts]]]:
    ways: dict[tuple[str, str], tuple[Mirror, KafkaDestination, list[TopicFacts]]] = {}
    for each in asked:
        way = ways.setdefault((each.mirror.name, each.destination.label), (each.mirror, each.destination, []))
        way[2].append(each)
    return list(ways.values())


def _sides(
    rules: Rules, mirror: Mirror, destination: KafkaDestination, resource_type: str
) -> tuple[frozenset[Acl] | MirrorlakeError, frozenset[Acl] | MirrorlakeError]:
    return rules[mirror.source.name, resource_type], rules[destination.cluster.name, resource_type]


def own_principals(settings: ClusterSettings) -> frozenset[str]:
    """Returns the principals known to be mirrorlake's own: a user of SASL; none by token, certificate or JAAS text."""
    sasl = settings.security.sasl
    return frozenset() if sasl is None or sasl.username is None else frozenset({f"User:{sasl.username}"})


async def _read_rules(asked: Sequence[TopicFacts], clients: WorkerCache) -> Rules:
    wanted: dict[tuple[str, str], ClusterSettings] = {}
    for each in asked:
        if not isinstance(each.mirror.source, KafkaSource):
            continue
        types = (TOPIC, GROUP) if each.destination.sync.acl_groups else (TOPIC,)
        for settings in (each.mirror.source.cluster.settings, each.destination.cluster.settings):
            wanted.update({(settings.name, resource_type): settings for resource_type in types})

    async def read(settings: ClusterSettings, resource_type: str) -> frozenset[Acl] | MirrorlakeError:
        try:
            return await clients.client(settings).acls.describe(resource_type)
        except MirrorlakeError as error:
            return error

    found = await all_of(read(settings, kind) for (_, kind), settings in wanted.items())
    return dict(zip(wanted, found, strict=True))
