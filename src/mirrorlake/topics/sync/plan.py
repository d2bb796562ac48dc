"""What would be done to destination topics so that they are as they should be."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mirrorlake.config.resolved import Configuration, Mirror
from mirrorlake.config.topics.policy import SyncMode
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import BrokerNotReadyError, CollisionError, MirrorlakeError
from mirrorlake.topics.acls.plan import AclRow, as_shown, plan_acls
from mirrorlake.topics.sync.differences import ACTS, REPLICAS, TOPIC, Act, Difference, TopicFacts, differences_of
from mirrorlake.topics.sync.reading import read_facts
from mirrorlake.topics.sync.trying import try_settings

DONE = "done"
FAILED = "failed"
UNREAD = "unknown"
Value = str | int | None
_ONE_SETTING_HINT = "several mirrors write this topic: give all the same `override`, or `exclude` it in all but one"
_ONE_TOPIC_HINT = "several mirrors write this topic: make it yourself, or give all the same rules and `override`"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """One difference, of which topic and copy it is, and what became of it.

    ``result`` is empty before anything was done.
    """

    facts: TopicFacts
    difference: Difference
    result: str = ""

    @property
    def cluster(self) -> str:
        """Name of the destination cluster."""
        return self.facts.destination.cluster.name

    @property
    def is_act(self) -> bool:
        """True where something is to be changed."""
        return self.difference.act in ACTS

    @property
    def is_open(self) -> bool:
        """True where it is refused, not known, or could not be done."""
        return self.difference.act in (Act.REFUSE, Act.UNKNOWN) or self.difference.error is not None

    @property
    def key(self) -> tuple[str, str, str, str | None, Act]:
        """What is to be done: two rows of one key do the same."""
        difference = self.difference
        return self.cluster, self.facts.name, difference.what, difference.wanted, difference.act

    def as_json(self) -> dict[str, Value]:
        """Returns the row of a table, and of ``--format json``; ``error`` is present exactly when it has one."""
        difference = self.difference
        row: dict[str, Value] = {
            "name": self.facts.mirror.name,
            "topic": self.facts.topic,
            "destination": self.facts.destination.label,
            "to": self.facts.name,
            "what": difference.what,
            "source": difference.source,
            "found": difference.found,
            "wanted": difference.wanted,
            "action": difference.act.value,
            **({"result": self.result} if self.result else {}),
            "note": difference.note or None,
        }
        return row if difference.error is None else {**row, "error": str(difference.error)}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """All differences, and how many copies of topics were looked at.

    ``unseen`` is how many acts are left out because nobody was shown them. ``acls`` are differences between ACLs.
    """

    rows: Sequence[TopicRow]
    topics: int
    unseen: int = 0
    acls: Sequence[AclRow] = ()

    @property
    def all_rows(self) -> list[TopicRow | AclRow]:
        """Every row, those of topics first."""
        return [*self.rows, *self.acls]

    @property
    def all_acts(self) -> list[TopicRow | AclRow]:
        """Every row that changes something."""
        return [row for row in self.all_rows if row.is_act]

    @property
    def acts(self) -> list[TopicRow]:
        """Rows of topics that change something."""
        return [row for row in self.rows if row.is_act]

    @property
    def undone(self) -> list[TopicRow | AclRow]:
        """Acts that were not done, or could not be."""
        return [row for row in self.all_acts if row.result != DONE]

    @property
    def are_only_reported(self) -> bool:
        """True where some difference could be done away with, and the file does not say so."""
        refused = {row.facts.name for row in self.rows if row.is_open}
        reports = (r for r in self.rows if r.difference.act is Act.REPORT and r.facts.name not in refused)
        if any(row.difference.wanted is not None and row.difference.what != REPLICAS for row in reports):
            return True
        return any(row.destination.sync.acls is SyncMode.REPORT and row.difference.wanted for row in self.acls)

    def as_shown(self, shown: "TopicPlan") -> "TopicPlan":
        """Returns the plan without what would be done beyond what another one shows."""
        keys, acl_keys = {row.key for row in shown.acts}, {row.key for row in shown.acls if row.is_act}
        rows = [row for row in self.rows if not row.is_act or row.key in keys]
        acls = as_shown(self.acls, acl_keys)
        unseen = len(self.rows) - len(rows) + len(self.acls) - len(acls)
        return replace(self, rows=rows, acls=acls, unseen=unseen)


async def plan_topics(config: Configuration, clients: WorkerCache, mirrors: Sequence[str] | None = None) -> TopicPlan:
    """Returns everything that differs and what would be done about it; changes nothing.

    Args:
        config: says which topics and destinations.
        clients: of the clusters.
        mirrors: their names; None for all.
    """
    facts = await read_facts(config, clients, beside(config, mirrors))
    asked = [each for each in facts if mirrors is None or each.mirror.name in mirrors]
    rows = [TopicRow(facts=each, difference=difference) for each in asked for difference in differences_of(each)]
    acls = await plan_acls(facts, clients, mirrors)
    rows = await _without_refused(without_contradictions(rows, facts), clients)
    return TopicPlan(rows=rows, topics=len(asked), acls=acls)


async def _without_refused(rows: Sequence[TopicRow], clients: WorkerCache) -> list[TopicRow]:
    """Returns the rows; refused are settings that the brokers say they would not take."""
    places: dict[tuple[str, str], list[TopicRow]] = {}
    for row in rows:
        if row.difference.act is Act.SET:
            places.setdefault((row.cluster, row.facts.name), []).append(row)
    trials = [
        (
            clients.client(acts[0].facts.destination.cluster.settings),
            name,
            {row.difference.what: row.difference.wanted or "" for row in acts},
        )
        for (_, name), acts in places.items()
    ]
    refusals = dict(zip(places, await try_settings(trials), strict=True))

    def judged(row: TopicRow) -> TopicRow:
        error = refusals.get((row.cluster, row.facts.name), {}).get(row.difference.what)
        if error is None or row.difference.act is not Act.SET:
            return row
        return replace(row, difference=replace(row.difference, act=Act.REFUSE, error=error))

    return [judged(row) for row in rows]


def beside(config: Configuration, mirrors: Sequence[str] | None) -> list[str] | None:
    """Returns these mirrors and all that write to the same clusters, as they may want other things of one topic."""
    if mirrors is None:
        return None
    clusters = {mirror.name: set(_clusters_of(mirror)) for mirror in config.enabled_mirrors}
    asked = {cluster for name in mirrors for cluster in clusters.get(name, ())}
    return [name for name, own in clusters.items() if name in mirrors or own & asked]


def _clusters_of(mirror: Mirror) -> list[str]:
    return [each.cluster.name for each in mirror.kafka_destinations]


def without_contradictions(rows: Sequence[TopicRow], facts: Sequence[TopicFacts]) -> list[TopicRow]:
    """Returns the rows; refused are those that another mirror's next act would undo, in the same topic. Pure.

    Where it cannot be told what another mirror wants there, what would be done is unknown, and not done.
    """
    wanted: dict[tuple[str, str, str], set[str]] = {}
    unread: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for each in facts:
        place = each.destination.cluster.name, each.name
        if each.is_silent:
            unread.setdefault(place, set()).add((each.mirror.name, each.topic))
        if each.creation is not None and each.held is None:
            made = each.creation
            wanted.setdefault((*place, TOPIC), set()).add(f"{made.partitions} partition(s), {dict(made.configs)}")
        if each.destination.sync.configs is SyncMode.APPLY:
            for key, value in each.wanted.items():
                wanted.setdefault((*place, key), set()).add(value)

    def judged(row: TopicRow) -> TopicRow:
        values = wanted.get((row.cluster, row.facts.name, row.difference.what), set())
        own = row.facts.mirror.name, row.facts.topic
        silent = sorted({name for name, _ in unread.get((row.cluster, row.facts.name), set()) - {own}})
        if row.difference.act is Act.SET and silent:
            error: MirrorlakeError = BrokerNotReadyError(
                f"what mirror {' and '.join(silent)} wants of topic {row.facts.name} on cluster {row.cluster} is not "
                "known, as its source could not be read",
                hint="look again once it can",
            )
            return replace(row, difference=replace(row.difference, act=Act.UNKNOWN, error=error))
        if not row.is_act or len(values) < 2:
            return row
        what = TOPIC if row.difference.what == TOPIC else f"{row.difference.what} of topic"
        error = CollisionError(
            f"{what} {row.facts.name} on cluster {row.cluster} is wanted as " + " and as ".join(sorted(values)),
            hint=_ONE_TOPIC_HINT if what == TOPIC else _ONE_SETTING_HINT,
        )
        return replace(row, difference=replace(row.difference, act=Act.REFUSE, error=error))

    return [judged(row) for row in rows]
