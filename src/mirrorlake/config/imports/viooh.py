"""viooh-mirror's configuration: EDN, as 1config keeps it (VIOOH/viooh-mirror 0.11, ``main.clj``).

Its defaults, group and mirror are merged as there; every mirror is written out with all that holds for it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mirrorlake.config.imports.client_keys import take_property
from mirrorlake.config.imports.draft import (
    ClusterDraft,
    Draft,
    Entry,
    ImportRefusedError,
    MirrorDraft,
    RegistryDraft,
    literal,
    variable,
)
from mirrorlake.config.imports.edn import Node, read_edn
from mirrorlake.config.imports.known_keys import KnownKeys

PROGRAM = "viooh-mirror"
TAKEN: Mapping[str, str] = {
    "groups": "mirrors, each with all that holds for it",
    "enabled": "`mirrors[].enabled`",
    "group-id-prefix": "in front of `mirrors[].name`",
    "name": "`mirrors[].name`",
    "mirror-mode": "`schemas.mode`",
    "source.kafka.*": "`clusters`",
    "destination.kafka.*": "`clusters`",
    "source.schema-registry-url": "`registries`",
    "destination.schema-registry-url": "`registries`",
    "source.topic.topic-name": "`mirrors[].source.topics`",
    "destination.topic.topic-name": "`topic` of the destination",
    "destination.topic.partition-count": "`create-topics` of the destination",
    "destination.topic.replication-factor": "`create-topics` of the destination",
    "destination.force-subject-compatibility-level": "`schemas.compatibility`",
    "serdes": "`schemas.key` and `schemas.value`",
    "key-subject-name-strategy": "`schemas.key`",
    "value-subject-name-strategy": "`schemas.value`",
    "topics-mirroring.auto-create-topics": "`create-topics` of the destination",
    "topics-mirroring.replication-factor": "`create-topics` of the destination",
    "topics-mirroring.partition-count": "`create-topics` of the destination",
}
"""Keys, by where they stand, with what they become."""
_PEM = "texts of certificates and keys are not copied: write `ssl.truststore.*` and `ssl.keystore.*` of the cluster"
NO_EQUAL: Mapping[str, str] = {
    "poll-interval": "reading does not wait by this setting",
    "consumer-group-id": "positions come from the destination: begin where it stood with `start: {offsets: …}`",
    "subject-naming-strategy": "it has no effect there either: `key-subject-name-strategy` and the one for values have",
    "source.kafka.cert-pem": _PEM,
    "source.kafka.ca-cert-pem": _PEM,
    "source.kafka.private-key": _PEM,
    "destination.kafka.cert-pem": _PEM,
    "destination.kafka.ca-cert-pem": _PEM,
    "destination.kafka.private-key": _PEM,
}
"""Keys known to have no equal, with why, or what to use instead."""
_REGISTRY = "set it at the registry: `username` and `password`, `token`, or `ca-file`, `certificate` and `key`"
_PREFIXES: Mapping[str, str] = {
    "destination.topic.topic-config": "write it as `sync.override` of the destination",
    "server": "use `service.metrics`, which serves `/healthz` too",
    "metrics": "use `service.metrics`",
    "mulog": "events are lines of the log on stderr",
    "source.schema-registry-configs": _REGISTRY,
    "destination.schema-registry-configs": _REGISTRY,
}
_KEYS = KnownKeys(program=PROGRAM, taken=TAKEN, no_equal=NO_EQUAL, prefixes=_PREFIXES)

_STRATEGIES = {"TopicNameStrategy": "topic-name", "RecordNameStrategy": "record-name"}
_DEFAULT_STRATEGY = "TopicNameStrategy"
_RULES = {"partition-count": "partitions", "replication-factor": "replication"}
_DEFAULT_RULES = {"partitions": "{mirror-source: {min: 3, max: 12}}", "replication": "{fixed: 3}"}
_SIDES = ("source", "destination")

Settings = dict[str, Entry]
"""By where they stand in a mirror: ``source.topic.topic-name``."""


def read_viooh(text: str) -> Draft:
    """Returns what a configuration of viooh-mirror says.

    Raises:
        ImportRefusedError: it is no EDN, or has no groups.
    """
    root = read_edn(text)
    if not isinstance(root.value, dict) or "groups" not in root.value:
        raise ImportRefusedError("there is no list `:groups`: is it the configuration of viooh-mirror?")
    groups = _list(root.value["groups"], ":groups")
    draft = Draft()
    given: dict[str, dict[str, str]] = {}
    common = {key: value for key, value in root.value.items() if key == "topics-mirroring"}
    shared = _settings(common, "")
    entries = [*_settings({k: v for k, v in root.value.items() if k not in ("groups", *common)}, "").values()]
    entries += shared.values()
    for number, group in enumerate(groups):
        where = f"groups[{number}]"
        if not isinstance(group.value, dict):
            raise ImportRefusedError(f"line {group.line}: {where} is no mapping")
        own = {key: value for key, value in group.value.items() if key != "mirrors"}
        of_group = shared | _settings(own, where)
        entries += of_group.values()
        for at, mirror in enumerate(_list(group.value.get("mirrors"), f"{where} :mirrors")):
            if not isinstance(mirror.value, dict):
                raise ImportRefusedError(f"line {mirror.line}: a mirror is no mapping")
            of_mirror = _settings(mirror.value, f"{where}.mirrors[{at}]")
            entries += of_mirror.values()
            _Reading(draft, of_group | of_mirror, given).mirror()
    for entry in entries:
        known = _place(entry.key)
        if not _is_taken(known):
            draft.remark(entry, _KEYS.reason_without_equal(known))
    draft.remark_the_rest(entries)
    return draft


def _list(node: Node | None, what: str) -> list[Node]:
    if node is None or not isinstance(node.value, list):
        raise ImportRefusedError(f"line {node.line if node else 0}: {what} is no list")
    return node.value


def _settings(tree: Mapping[str, Node], where: str) -> Settings:
    """Returns the leaves of a mapping by their place in it. Rules and lists are leaves."""
    return {key: Entry(line, f"{where}.{key}".strip("."), text) for key, line, text in _leaves(tree, "")}


def _leaves(tree: Mapping[str, Node], path: str) -> Iterator[tuple[str, int, str]]:
    for key, node in tree.items():
        place = f"{path}.{key}".strip(".")
        if isinstance(node.value, dict) and "type" not in node.value:
            yield from _leaves(node.value, place)
        else:
            yield place, node.line, _text(node)


def _text(node: Node) -> str:
    """Returns a leaf as text: words as they are, lists parted by blanks, rules in our notation; nil is empty."""
    match node.value:
        case None:
            return ""
        case bool():
            return str(node.value).lower()
        case list():
            return " ".join(map(_text, node.value))
        case dict():
            return _rule(node.value)
        case _:
            return str(node.value)


def _rule(tree: Mapping[str, Node]) -> str:
    """Returns ``{:type :fix :value 3}`` and ``{:type :mirror-source :min 3 :max 12}`` as we write them; else empty."""
    kind = tree["type"].value
    if kind == "fix" and isinstance(value := tree.get("value", Node(0, None)).value, int):
        return f"{{fixed: {value}}}"
    bounds = [tree.get(name, Node(0, None)).value for name in ("min", "max")]
    if kind == "mirror-source" and all(isinstance(bound, int) for bound in bounds):
        return f"{{mirror-source: {{min: {bounds[0]}, max: {bounds[1]}}}}}"
    return ""


def _place(key: str) -> str:
    """Returns where a setting stands in a mirror, without its group and number."""
    return re.sub(r"^groups\[\d+\]\.(mirrors\[\d+\]\.)?", "", key)


def _is_taken(place: str) -> bool:
    sides = re.fullmatch(r"(source|destination)\.kafka\.(.+)", place)
    return place in TAKEN or (sides is not None and place not in NO_EQUAL)


@dataclass(frozen=True, slots=True)
class _Reading:
    """One mirror: where it goes in the draft, all settings that hold for it, and what each cluster was made of."""

    draft: Draft
    settings: Settings
    _given: dict[str, dict[str, str]]

    def mirror(self) -> None:
        """Adds the mirror to the draft."""
        topics = [self._value(f"{side}.topic.topic-name") for side in _SIDES]
        prefix, name = self._value("group-id-prefix"), self._value("name") or "__".join(filter(None, topics))
        source, destination = (self._cluster(side) for side in _SIDES)
        mirror = MirrorDraft(
            name=re.sub(r"[^A-Za-z0-9._-]", "-", f"{prefix}__{name}" if prefix else name) or "mirror",
            source=source,
            destination=destination,
            topics=[topics[0]] if topics[0] else [],
            topic=literal(topics[1]) or "{topic}",
            is_enabled=self._value("enabled") != "false",
            start="latest" if self._value("source.kafka.auto.offset.reset") == "latest" else "",
            topic_rules=self._topic_rules(),
        )
        self._read_schemas(mirror)
        self.draft.mirrors.append(mirror)

    def _value(self, key: str) -> str:
        entry = self.settings.get(key)
        return "" if entry is None else self.draft.take(entry).strip()

    def _topic_rules(self) -> str:
        if self._value("topics-mirroring.auto-create-topics") == "false":
            return "false"
        rules = dict(_DEFAULT_RULES)
        for key, ours in _RULES.items():
            entry = self.settings.get(f"topics-mirroring.{key}")
            if entry is not None and entry.value.startswith("{"):
                rules[ours] = self.draft.take(entry)
            elif entry is not None:
                self.draft.remark(entry, f"is no rule of the program: its default was written, {rules[ours]}")
            if fixed := self._value(f"destination.topic.{key}"):
                rules[ours] = f"{{fixed: {fixed}}}"
        return f"{{partitions: {rules['partitions']}, replication: {rules['replication']}}}"

    def _cluster(self, side: str) -> str:
        """Returns the name of the cluster that a mirror names by its properties; the first two get the sides' names."""
        prefix = f"{side}.kafka."
        given = {key.removeprefix(prefix): entry for key, entry in self.settings.items() if key.startswith(prefix)}
        given = {
            name: entry
            for name, entry in given.items()
            if f"{prefix}{name}" not in NO_EQUAL and name not in ("auto.offset.reset", "group.id")
        }
        values = {name: entry.value for name, entry in given.items()}
        for name in self._names_of(side, self.draft.clusters):
            if self._given[name] == values:
                for key, entry in given.items():
                    take_property(self.draft, name, key, entry)
                return name
        count = len(list(self._names_of(side, self.draft.clusters)))
        name = side if not count else f"{side}-{count + 1}"
        self.draft.clusters[name], self._given[name] = ClusterDraft(), values
        for key, entry in given.items():
            take_property(self.draft, name, key, entry)
        if not self.draft.clusters[name].bootstrap_servers:
            self.draft.clusters[name].bootstrap_servers = variable(name, "bootstrap.servers")
            self.draft.remark(Entry(0, f"clusters.{name}", ""), "the file does not name its brokers: write them here")
        return name

    @staticmethod
    def _names_of(side: str, named: Mapping[str, object]) -> Iterator[str]:
        return (name for name in named if re.fullmatch(rf"{side}(-\d+)?", name))

    def _read_schemas(self, mirror: MirrorDraft) -> None:
        """Sets what the mirror says of schemas; none where neither keys nor values have one."""
        serdes = self._value("serdes").split()
        sides = dict(zip(("key", "value"), [*serdes, "", ""], strict=False))
        strategies = {side: self._strategy(side) for side in sides}
        urls = [self._value(f"{side}.schema-registry-url") for side in _SIDES]
        mode = self._value("mirror-mode") or "strict"
        level = self._value("destination.force-subject-compatibility-level")
        if "avro" not in sides.values():
            return  # nothing of this holds for records without schemas
        registries = [self._registry(side, url) for side, url in zip(_SIDES, urls, strict=True)]
        mirror.schemas = {"from": registries[0], "to": registries[1], "mode": mode}
        if level:
            mirror.schemas["compatibility"] = level
        for side, serde in sides.items():
            mirror.schemas[side] = strategies[side] if serde == "avro" else "none"
        if sides["key"] == "avro":
            text = "schemas of keys were put under the subject of values there; here each has its own subject"
            self.draft.remark(self.settings["serdes"], text)

    def _strategy(self, side: str) -> str:
        key = f"{side}-subject-name-strategy"
        entry = self.settings.get(key)
        name = (entry.value if entry else _DEFAULT_STRATEGY).rpartition(".")[2]
        if name in _STRATEGIES:
            if entry:
                self.draft.take(entry)
            return _STRATEGIES[name]
        assert entry is not None
        self.draft.remark(entry, "a strategy that is none of the program's: `topic-name` was written")
        return _STRATEGIES[_DEFAULT_STRATEGY]

    def _registry(self, side: str, url: str) -> str:
        """Returns the name of the registry at a URL."""
        registries = self.draft.registries
        for name in self._names_of(side, registries):
            if registries[name].url == literal(url):
                return name
        count = len(list(self._names_of(side, registries)))
        name = side if not count else f"{side}-{count + 1}"
        if not url:
            text = "the file does not name this registry: write its address here"
            self.draft.remark(Entry(0, f"registries.{name}", ""), text)
        registries[name] = RegistryDraft(url=literal(url) or variable(name, "registry.url"))
        return name
