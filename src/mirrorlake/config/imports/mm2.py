"""MirrorMaker 2's own file, as ``connect-mirror-maker.sh`` takes it (Kafka's ``MirrorMakerConfig.java``, 4.x)."""

import re
from collections.abc import Mapping

from mirrorlake.config.imports.client_keys import take_property
from mirrorlake.config.imports.draft import (
    ClusterDraft,
    Draft,
    Entry,
    Former,
    ImportRefusedError,
    MirrorDraft,
    selection,
)
from mirrorlake.config.imports.java_properties import read_properties_text
from mirrorlake.config.imports.known_keys import KnownKeys

PROGRAM = "MirrorMaker 2 (Kafka 4)"
_IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
_DEFAULT = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"
_EXCLUDED = r"mm2.*\.internal,.*\.replica,__.*"
_GROUPS = "`mirrorlake groups sync` takes consumer groups along; nothing does by itself"
_ACLS = "`mirrorlake topics apply` carries ACLs over where `sync` of the destination says `acls: apply`"
_SETTINGS = "`mirrorlake topics plan` shows settings that differ; see `sync` of the destination"
TAKEN: Mapping[str, str] = {
    "clusters": "`clusters`",
    "enabled": "`mirrors[].enabled`; flows that are not named are none",
    "topics": "`mirrors[].source.topics`",
    "topics.exclude": "`mirrors[].source.exclude`",
    "topics.blacklist": "`mirrors[].source.exclude`",
    "replication.factor": "`replication-factor` of the destination",
    "replication.policy.class": "`topic` of the destination: `{topic}` with the alias in front, or alone (identity)",
    "replication.policy.separator": "part of `topic` of the destination",
}
"""Keys of a flow, or of the whole file, with what they become."""
NO_EQUAL: Mapping[str, str] = {
    "groups": _GROUPS,
    "groups.exclude": _GROUPS,
    "groups.blacklist": _GROUPS,
    "sync.group.offsets.enabled": _GROUPS,
    "sync.group.offsets.interval.seconds": _GROUPS,
    "sync.topic.configs.enabled": _SETTINGS,
    "sync.topic.configs.interval.seconds": _SETTINGS,
    "config.properties.exclude": _SETTINGS,
    "config.properties.blacklist": _SETTINGS,
    "sync.topic.acls.enabled": _ACLS,
    "sync.topic.acls.interval.seconds": _ACLS,
    "emit.heartbeats.enabled": "`heartbeats: {}` of a mirror has them written to its source; off where nobody asks",
    "emit.heartbeats.interval.seconds": "`interval` in `heartbeats` of a mirror",
    "heartbeats.topic.replication.factor": "`replication-factor` in `heartbeats` of a mirror",
    "heartbeats.replication.enabled": "a mirror copies its own heartbeats; topics of others as it copies all topics",
    "emit.checkpoints.enabled": "no checkpoints topic is written: the offset map is exact and kept with the data",
    "emit.checkpoints.interval.seconds": "no checkpoints topic is written: the offset map is kept with the data",
    "checkpoints.topic.replication.factor": "no checkpoints topic is written",
    "emit.offset-syncs.enabled": "the offset map is always written, in the transaction of the data",
    "offset-syncs.topic.replication.factor": "the offset map's topic follows the destination cluster",
    "offset-syncs.topic.location": "the offset map lies in the destination cluster",
    "offset.lag.max": "the offset map is exact",
    "refresh.topics.enabled": "new topics are always looked for",
    "refresh.topics.interval.seconds": "use `engine.discovery`, for all mirrors together (30s)",
    "refresh.groups.enabled": _GROUPS,
    "refresh.groups.interval.seconds": _GROUPS,
    "tasks.max": "use `engine.lanes`, for all mirrors together",
    "topic.filter.class": "topics are selected by `topics` and `exclude` alone",
    "group.filter.class": _GROUPS,
    "config.property.filter.class": _SETTINGS,
    "use.incremental.alter.configs": _SETTINGS,
    "add.source.alias.to.metrics": "metrics always name mirror and topic",
    "consumer.poll.timeout.ms": "reading does not wait by this setting",
    "admin.timeout.ms": "use `request.timeout.ms` of the cluster",
    "exactly.once.source.support": "copies are always exactly once",
    "dedicated.mode.enable.internal.rest": "there are no workers to find one another",
    "config.providers": "variables are written `${NAME}`, files `{file: /path}`",
}
"""Keys known to have no equal, with why, or what to use instead."""
_OFFSETS_TOPIC = "Connect's own topics are not used; `--take-offsets` reads the positions in them"
_OF_CLUSTERS = "client properties belong to a cluster: write it under `clusters`"
_PREFIXES: Mapping[str, str] = {
    "offset.storage.": _OFFSETS_TOPIC,
    "config.storage.": "Connect's own topics are not used",
    "status.storage.": "Connect's own topics are not used",
    "config.providers.": "variables are written `${NAME}`, files `{file: /path}`",
    "key.converter": "keys, values and headers are copied as bytes",
    "value.converter": "keys, values and headers are copied as bytes",
    "header.converter": "keys, values and headers are copied as bytes",
    "consumer.": _OF_CLUSTERS,
    "producer.": _OF_CLUSTERS,
    "admin.": _OF_CLUSTERS,
    "transforms": "records are copied as they are: there are no transforms",
    "predicates": "records are copied as they are: there are no transforms",
    "listeners": "use `service.control`",
    "rest.": "use `service.control`",
    "task.": "Connect's tasks have no equal",
    "worker.": "Connect's workers have no equal",
}
_KEYS = KnownKeys(program=PROGRAM, taken=TAKEN, no_equal=NO_EQUAL, prefixes=_PREFIXES)
_CLIENT = re.compile(r"(?:(?:source|target)\.)?(?:cluster\.|consumer\.|producer\.|admin\.)(.+)")
_SHARED = ("bootstrap.servers", "security.", "sasl.", "ssl.", "metadata.", "client.", "request.timeout.ms")


def read_mm2(text: str) -> Draft:
    """Returns what a file of MirrorMaker 2 says.

    Raises:
        ImportRefusedError: it names no clusters, or is no properties file.
    """
    entries = {each.key: each for each in read_properties_text(text)}
    if "clusters" not in entries:
        raise ImportRefusedError("there is no `clusters` line: is it the file that connect-mirror-maker.sh takes?")
    draft = Draft()
    aliases = [each.strip() for each in draft.take(entries.pop("clusters")).split(",") if each.strip()]
    draft.clusters = {alias: ClusterDraft() for alias in aliases}
    flows: dict[tuple[str, str], dict[str, Entry]] = {}
    common: dict[str, Entry] = {}
    of_clusters: list[tuple[int, str, str, Entry]] = []
    for entry in entries.values():
        if pair := _pair(entry.key, aliases):
            flows.setdefault(pair[:2], {})[pair[2]] = entry
        elif alias := next((each for each in aliases if entry.key.startswith(f"{each}.")), ""):
            name = entry.key[len(alias) + 1 :]
            client = _CLIENT.fullmatch(name)
            of_clusters.append((1 if client else 0, alias, client.group(1) if client else name, entry))
        else:
            common[entry.key] = entry
    for _, alias, name, entry in sorted(of_clusters, key=lambda each: each[0]):
        take_property(draft, alias, name, entry)
    for (source, target), own in flows.items():
        mirror = _mirror(draft, source, target, own, common)
        mirror.former = _former(source, target, {each.key: each.value.strip() for each in entries.values()})
        draft.mirrors.append(mirror)
    _remark_common(draft, common, aliases)
    _remark_circles(draft)
    draft.remark_the_rest(entries.values())
    return draft


def _remark_circles(draft: Draft) -> None:
    """Notes flows in both directions with equal names, which bring every record back."""
    ways = {(each.source, each.destination) for each in draft.mirrors if each.topic == "{topic}" and each.is_enabled}
    for source, target in sorted(ways):
        if source < target and (target, source) in ways:
            text = "both directions with equal names carry every record round without end: write a prefix in `topic`"
            draft.remark(Entry(0, f"{source}->{target} and {target}->{source}", ""), text)


def _pair(key: str, aliases: list[str]) -> tuple[str, str, str] | None:
    """Returns source, target and the rest of a key of a flow; None where it is none of two known clusters."""
    for source in aliases:
        for target in aliases:
            if source != target and key.startswith(prefix := f"{source}->{target}."):
                return source, target, key[len(prefix) :]
    return None


def _mirror(draft: Draft, source: str, target: str, own: dict[str, Entry], common: Mapping[str, Entry]) -> MirrorDraft:
    """Returns the mirror of one flow. Its own keys win over those of the whole file, as in MirrorMaker 2."""
    given = {name: each for name, each in common.items() if name in TAKEN} | own
    mirror = MirrorDraft(name=f"{source}-to-{target}", source=source, destination=target)
    enabled = own.get("enabled")
    mirror.is_enabled = enabled is not None and draft.take(enabled).strip().lower() == "true"
    mirror.topics = selection(draft, given["topics"], as_expressions=True) if "topics" in given else ["/.*/"]
    exclude = given.get("topics.exclude", given.get("topics.blacklist"))
    default = Entry(0, "topics.exclude", _EXCLUDED)
    mirror.exclude = selection(draft, exclude or default, as_expressions=True)
    draft.translated.discard((default.line, default.key))
    # No part of a topic's name but the last may be the target: ReplicationPolicy's chain of sources.
    separator = _name(draft, mirror, given)
    if separator:
        mirror.exclude.append(f"/(?:.*{re.escape(separator)})?{re.escape(target)}{re.escape(separator)}.*/")
    factor = given.get("replication.factor")
    mirror.replication_factor = "2" if factor is None else draft.take(factor).strip()
    if mirror.replication_factor == "-1":
        mirror.replication_factor = ""
    for name, entry in own.items():
        if name not in TAKEN:
            _remark_of_flow(draft, name, entry)
    return mirror


def _former(source: str, target: str, values: Mapping[str, str]) -> Former:
    """Returns where a flow's positions are stored: at the target, in its dedicated mode (``MirrorMakerConfig``)."""

    def value(*keys: str, default: str) -> str:
        found = next((values[each] for each in keys if each in values), default)
        return "" if "${" in found else found  # of a configuration provider that only it can ask

    flow, reset = f"{source}->{target}.", "consumer.auto.offset.reset"
    resets = (f"{flow}source.{reset}", f"{flow}{reset}", f"{source}.{reset}", f"{source}.auto.offset.reset", reset)
    return Former(
        program="MirrorMaker 2",
        offsets_topic=value(
            *(f"{flow}offsets.storage.topic", "offset.storage.topic", f"{target}.offset.storage.topic"),
            default=f"mm2-offsets.{source}.internal",
        ),
        group=value(f"{target}.group.id", default=f"{source}-mm2"),
        connector=None,
        cluster=source,
        next_minus_stored=1,
        keeps_partitions=True,
        begins_latest=any(values.get(each, "").lower() == "latest" for each in resets),
    )


def _name(draft: Draft, mirror: MirrorDraft, given: Mapping[str, Entry]) -> str:
    """Sets the destination's topic, and returns the separator; "" where names stay equal."""
    policy, separator = given.get("replication.policy.class"), given.get("replication.policy.separator")
    if policy is not None and policy.value.strip() == _IDENTITY:
        draft.take(policy)
        if separator is not None:
            draft.remark(separator, "names stay equal: the separator means nothing")
        return ""
    if policy is not None and policy.value.strip() != _DEFAULT:
        draft.remark(policy, "a policy of your own has no equal: MirrorMaker 2's default was written, change `topic`")
    elif policy is not None:
        draft.take(policy)
    text = "." if separator is None else draft.take(separator)
    mirror.topic = f"{mirror.source}{text}{{topic}}".replace("$", "$$")
    return text


def _remark_of_flow(draft: Draft, name: str, entry: Entry) -> None:
    if name not in NO_EQUAL and _CLIENT.fullmatch(name):
        draft.remark(entry, _OF_CLUSTERS)
    else:
        draft.remark(entry, _KEYS.reason_without_equal(name))


def _remark_common(draft: Draft, common: Mapping[str, Entry], aliases: list[str]) -> None:
    for name, entry in common.items():
        if name == "enabled":
            draft.remark(entry, "a flow is enabled by a line of its own: `A->B.enabled`")
        elif name in TAKEN:
            if not draft.mirrors:
                draft.remark(entry, "the file has no flow that it could hold for")
        elif name.startswith(_SHARED) and name != "client.id":
            for alias in aliases:
                if name not in draft.clusters[alias].properties:
                    take_property(draft, alias, name, entry)
        elif "->" in name:
            draft.remark(entry, f"it is no flow between two of the clusters {', '.join(aliases)}")
        else:
            draft.remark(entry, _KEYS.reason_without_equal(name))
