"""What differs between a topic and its copy, and what is to be done about it. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from enum import StrEnum

from mirrorlake.config.destinations.kafka import KafkaDestination, OffsetMode, TimestampMode
from mirrorlake.config.resolved import Mirror
from mirrorlake.config.topics.policy import SyncMode
from mirrorlake.destinations.record_clock import CREATE_TIME, TIMESTAMP_TYPE
from mirrorlake.errors import (
    MirrorlakeError,
    PartitionCountError,
    PermissionDeniedError,
    TransientError,
)
from mirrorlake.kafka.control.descriptions import ConfigValue, TopicMetadata
from mirrorlake.sources.client import SourceTopic
from mirrorlake.topics.destination_topics import (
    KEEPING_CONFIGS,
    clock_error,
    count_error,
    is_copied,
    partitions_needed,
    replication_of,
    rule_error,
    wanted_configs,
)
from mirrorlake.topics.targets import TopicCreation, is_compacted, limit_of

Configs = Mapping[str, ConfigValue]
TOPIC = "topic"
PARTITIONS = "partitions"
REPLICAS = "replicas"
SETTINGS = "settings"


class Act(StrEnum):
    """What becomes of a difference."""

    CREATE = "create"
    GROW = "add partitions"
    SET = "set"
    ADD_ACL = "add ACL"
    REMOVE_ACL = "remove ACL"
    REPORT = "report"
    REFUSE = "refused"
    UNKNOWN = "unknown"


ACTS = frozenset({Act.CREATE, Act.GROW, Act.SET, Act.ADD_ACL, Act.REMOVE_ACL})
"""Those that change something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One difference between a topic and its copy.

    Attributes:
        what: ``topic``, ``partitions``, ``replicas``, ``settings``, ``acl``, or the name of one setting.
        act: what becomes of it.
        source: what the source has; None where that is not known or does not matter.
        found: what the destination has; None for nothing, or where it is not known.
        wanted: what it would have afterwards; None where nothing is to be done.
        note: for people.
        error: why it is refused or not known.
    """

    what: str
    act: Act
    source: str | None = None
    found: str | None = None
    wanted: str | None = None
    note: str = ""
    error: MirrorlakeError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """One source topic and its copy at one destination, as they were read; an error stands where that failed.

    Attributes:
        mirror: whose.
        destination: one of the mirror's.
        name: of the destination topic.
        source: None where it was not found.
        source_configs: of the source topic; empty where the source does not say.
        held: the destination topic; None where it is not there, or not known.
        held_configs: its settings.
        creation: how it is made where it is not there; None where it is not to be made.
        is_replaced: whether `run` would delete the copy first.
        rights: what this user may do with the destination topic; None where that is not known.
        error: why nothing can be copied.
    """

    mirror: Mirror
    destination: KafkaDestination
    topic: str
    name: str
    source: SourceTopic | None = None
    source_configs: Configs | MirrorlakeError
    held: TopicMetadata | None = None
    held_configs: Configs | MirrorlakeError
    creation: TopicCreation | None = None
    is_replaced: bool = False
    rights: frozenset[str] | None = None
    error: MirrorlakeError | None = None

    @property
    def is_blocked(self) -> bool:
        """True where what stands against the copy is no difference of the topics' that is looked at here."""
        if self.error is None:
            return False
        if self.held is None or isinstance(self.held_configs, MirrorlakeError):
            return True
        if isinstance(self.error, PartitionCountError):
            return False
        values = {key: each.value for key, each in self.held_configs.items()}
        return str(self.error) != str(clock_error(self.destination, self.name, values))

    @property
    def is_unread(self) -> bool:
        """True where what stands against the copy is that something could not be read."""
        is_hidden = isinstance(self.error, PermissionDeniedError) and self.creation is None
        return is_hidden or isinstance(self.error, TransientError)

    @property
    def is_silent(self) -> bool:
        """True where the copy is to have the source's settings, and what these are is not known."""
        if self.destination.sync.configs is not SyncMode.APPLY:
            return False
        return self.source is None or isinstance(self.source_configs, MirrorlakeError)

    @property
    def wanted(self) -> dict[str, str]:
        """The settings that the copy is to have, as far as is known."""
        source = {} if isinstance(self.source_configs, MirrorlakeError) else self.source_configs
        found = wanted_configs(self.destination, source)
        if self.destination.timestamp_mode is TimestampMode.SOURCE:
            found[TIMESTAMP_TYPE] = CREATE_TIME
        return found


def differences_of(facts: TopicFacts) -> list[Difference]:
    """Returns everything that differs; empty where nothing does. What was not read is a difference: it is unknown."""
    found = list(_differences(facts))
    if facts.is_blocked or any(each.act is Act.REFUSE for each in found):
        # Such a topic is no copy, and what it is nobody here knows: its settings are its owner's.
        found = [replace(each, act=Act.REPORT) if each.act in ACTS else each for each in found]
    if facts.is_blocked:
        act = Act.UNKNOWN if facts.is_unread else Act.REFUSE
        found.insert(0, Difference(what=TOPIC, act=act, error=facts.error))
    return [_allowed(each, facts) for each in found]


def _differences(facts: TopicFacts) -> Iterator[Difference]:
    if facts.source is None:
        return
    if facts.is_replaced:
        note = "the source topic was recreated: `run` deletes this copy and makes it anew"
        yield Difference(what=TOPIC, act=Act.REPORT, note=note)
    elif facts.held is None:
        yield from _missing(facts)
    else:
        yield from _partitions(facts, facts.source, facts.held)
        yield from _replicas(facts, facts.source, facts.held)
        yield from _settings(facts)


def _missing(facts: TopicFacts) -> Iterator[Difference]:
    made = facts.creation
    if made is None or facts.error is not None:
        return  # the error says why
    copies = [f"replication factor {made.replication_factor}"] if made.replication_factor > 0 else []
    note = ", ".join([*copies, *(f"{key}={value}" for key, value in made.configs.items())])
    yield Difference(what=TOPIC, act=Act.CREATE, wanted=f"{made.partitions} partition(s)", note=note)


def _partitions(facts: TopicFacts, source: SourceTopic, held: TopicMetadata) -> Iterator[Difference]:
    destination, mode = facts.destination, facts.destination.partition_sync
    if mode is SyncMode.OFF:
        return
    is_mapped = destination.offsets is OffsetMode.MAP
    given = destination.partition_rule.count_for(source.partition_count)
    wanted, found = given if is_mapped else partitions_needed(facts.mirror, source), len(held.partitions)
    counts = {"source": str(source.partition_count), "found": str(found)}
    if found < wanted:
        refused = None if mode is SyncMode.REPORT else rule_error(facts.mirror, facts.name, source, destination)
        act = Act.REFUSE if refused else Act.GROW if mode is SyncMode.APPLY else Act.REPORT
        note = "new records of a key may go to another partition than its old ones" if is_mapped else ""
        yield Difference(what=PARTITIONS, act=act, wanted=str(wanted), note=note, error=refused, **counts)
    elif not is_mapped and (refused := count_error(facts.mirror, source, held, destination)):
        yield Difference(what=PARTITIONS, act=Act.REFUSE, error=refused, **counts)


def _replicas(facts: TopicFacts, source: SourceTopic, held: TopicMetadata) -> Iterator[Difference]:
    wanted = replication_of(facts.destination, source) or source.replicas
    found = min((len(each.replicas) for each in held.partitions.values()), default=None)
    if wanted is None or found is None or found >= wanted:
        return
    note = "replicas are not added here: kafka-reassign-partitions.sh does; `replication` says how many are meant"
    shown = None if source.replicas is None else str(source.replicas)
    yield Difference(what=REPLICAS, act=Act.REPORT, source=shown, found=str(found), wanted=str(wanted), note=note)


# --- settings -----------------------------------------------------------------------------------------------


def _settings(facts: TopicFacts) -> Iterator[Difference]:
    destination, source, held = facts.destination, facts.source_configs, facts.held_configs
    if destination.sync.configs is SyncMode.OFF:
        return
    if isinstance(held, MirrorlakeError):
        yield Difference(what=SETTINGS, act=Act.UNKNOWN, error=held)
        return
    if isinstance(source, MirrorlakeError):
        yield Difference(what=SETTINGS, act=Act.UNKNOWN, error=source)
    elif not source:
        note = "the source does not say what settings its topic has"
        yield Difference(what=SETTINGS, act=Act.UNKNOWN, note=note)
    known = {} if isinstance(source, MirrorlakeError) else source
    wanted, mode = facts.wanted, destination.sync.configs
    for key, value in wanted.items():
        yield from _setting(key, value, known.get(key), held.get(key), mode)
    for key, there in sorted(held.items()):
        if known and key not in wanted and is_copied(destination, key):
            yield from _of_destination_alone(key, known.get(key), there)


def _setting(
    key: str, wanted: str, source: ConfigValue | None, there: ConfigValue | None, mode: SyncMode
) -> Iterator[Difference]:
    shown = source.value if source is not None else None
    if there is None:
        note = "the destination's brokers do not know this setting"
        yield Difference(what=key, act=Act.REPORT, source=shown, wanted=wanted, note=note)
    elif there.is_sensitive or (source is not None and source.is_sensitive):
        yield Difference(what=key, act=Act.UNKNOWN, note="the brokers keep its value secret")
    elif not are_same(key, there.value, wanted):
        act = Act.SET if mode is SyncMode.APPLY and not there.is_read_only else Act.REPORT
        yield Difference(what=key, act=act, source=shown, found=there.value, wanted=wanted)


def _of_destination_alone(key: str, source: ConfigValue | None, there: ConfigValue) -> Iterator[Difference]:
    shown = source.value if source is not None else None
    if there.is_sensitive or (source is not None and source.is_sensitive):
        yield Difference(what=key, act=Act.UNKNOWN, note="the brokers keep its value secret")
        return
    if source is not None and are_same(key, there.value, source.value):
        return
    if not there.is_default:
        note = "set at the destination, not at the source"
    elif source is not None and is_tighter(key, source.value, there.value):
        note = "of the destination's brokers, who keep or take less than the source's"
    else:
        return
    yield Difference(what=key, act=Act.REPORT, source=shown, found=there.value, note=note)


def are_same(key: str, one: str | None, other: str | None) -> bool:
    """Tells whether two texts are the same value of a setting to Kafka."""
    if one is None or other is None or one == other:
        return one == other
    if key == "cleanup.policy":
        return {part.strip() for part in one.split(",")} == {part.strip() for part in other.split(",")}
    try:
        return Decimal(one) == Decimal(other)
    except InvalidOperation:
        return one.lower() == other.lower() and one.lower() in ("true", "false")


def is_tighter(key: str, source: str | None, destination: str | None) -> bool:
    """Tells whether the destination deletes or refuses what the source keeps, or takes, by one setting."""
    if key not in KEEPING_CONFIGS:
        return False
    if key == "cleanup.policy":
        return is_compacted({key: destination}) and not is_compacted({key: source})
    limit, other = limit_of({key: destination}, key), limit_of({key: source}, key)
    return limit is not None and (other is None or limit < other)


# --- rights -------------------------------------------------------------------------------------------------

_NEEDED = {Act.GROW: "ALTER", Act.SET: "ALTER_CONFIGS"}


def _allowed(difference: Difference, facts: TopicFacts) -> Difference:
    needed = _NEEDED.get(difference.act)
    if needed is None or facts.rights is None or needed in facts.rights:
        return difference
    error = PermissionDeniedError(
        f"this user may not {needed} topic {facts.name} on cluster {facts.destination.cluster.name}",
        hint=f"grant {needed} on topic {facts.name} to this user",
        topic=facts.name,
    )
    return replace(difference, act=Act.REFUSE, error=error)
