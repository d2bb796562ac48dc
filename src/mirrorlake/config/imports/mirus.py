"""Mirus's connector (the JSON that Connect's REST takes, or properties) and worker files (salesforce/mirus, 0.6)."""

import json
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
    expression_flaw,
    literal,
    selection,
    variable,
)
from mirrorlake.config.imports.java_properties import read_properties_text
from mirrorlake.config.imports.known_keys import KnownKeys

PROGRAM = "Mirus"
TAKEN: Mapping[str, str] = {
    "name": "`mirrors[].name`",
    "connector.class": "nothing: every mirror reads a cluster",
    "topics.whitelist": "names in `mirrors[].source.topics`",
    "topics.regex": "an expression in `mirrors[].source.topics`",
    "topics.regex.list": "expressions in `mirrors[].source.topics`",
    "destination.topic.name.prefix": "in front of `{topic}` in `topic` of the destination",
    "destination.topic.name.suffix": "behind `{topic}` in `topic` of the destination",
    "enable.destination.topic.checking": "`create-topics: false`, which is there where it is not `false`",
    "consumer.auto.offset.reset": "`start` of the source, where it is `latest`",
    "destination.bootstrap.servers": "`bootstrap-servers` of the destination's cluster",
    "bootstrap.servers": "`bootstrap-servers` of the destination's cluster (of a worker's file)",
}
"""Keys with what they become; ``consumer.``, ``destination.consumer.`` and ``producer.`` are client properties."""
NO_EQUAL: Mapping[str, str] = {
    "tasks.max": "use `engine.lanes`, for all mirrors together",
    "monitor.poll.wait.ms": "use `engine.discovery` (30s)",
    "poll.timeout.ms": "reading does not wait by this setting",
    "enable.partition.matching": "records always keep their partition number; `false` has no equal",
    "source.key.converter": "keys, values and headers are copied as bytes",
    "source.value.converter": "keys, values and headers are copied as bytes",
    "source.header.converter": "keys, values and headers are copied as bytes",
    "commit.failure.restart.ms": "data and progress are one transaction, which is tried again by itself",
    "replay.policy": "nothing is copied twice",
    "replay.window.records": "nothing is copied twice",
    "mirus.task.monitor.polling.interval.ms": "there are no Connect tasks to watch",
    "mirus.task.auto.restart.enabled": "lanes begin again by themselves",
    "mirus.connector.auto.restart.enabled": "mirrors begin again by themselves",
    "group.id": "positions come from the destination, there is no group",
    "client.id": "write it under `properties` of a cluster",
}
"""Keys known to have no equal, with why, or what to use instead."""
_PREFIXES: Mapping[str, str] = {
    "transforms": "records are copied as they are; a router's names are said by `topic` of the destination",
    "key.converter": "keys, values and headers are copied as bytes",
    "value.converter": "keys, values and headers are copied as bytes",
    "header.converter": "keys, values and headers are copied as bytes",
    "internal.": "Connect's own topics are not used",
    "offset": "Connect's own topics are not used; `--take-offsets` reads the positions in them",
    "config.": "Connect's own topics are not used",
    "status.": "Connect's own topics are not used",
    "rest.": "use `service.control`",
    "plugin.": "there are no plugins of Connect",
}
_KEYS = KnownKeys(program=PROGRAM, taken=TAKEN, no_equal=NO_EQUAL, prefixes=_PREFIXES)
_CLIENTS = (("destination.consumer.", "destination"), ("consumer.", "source"), ("producer.override.", "destination"))
_PLACES = (*_CLIENTS, ("producer.", "destination"), ("admin.", "destination"))


def read_mirus(text: str) -> Draft:
    """Returns what a file of Mirus says; one mirror with the clusters ``source`` and ``destination``.

    Raises:
        ImportRefusedError: it is neither JSON nor properties, or has no key of Mirus's.
    """
    entries = _json_entries(text) if text.lstrip().startswith("{") else read_properties_text(text)
    if not any(each.key in TAKEN or each.key in NO_EQUAL for each in entries):
        raise ImportRefusedError("it has no key of Mirus's: is it a connector's JSON or a worker's properties?")
    draft = Draft(clusters={"source": ClusterDraft(), "destination": ClusterDraft()})
    mirror = MirrorDraft(name="mirus", source="source", destination="destination", creates_topics=False)
    prefix = suffix = ""
    for entry in entries:
        match entry.key:
            case "name":
                mirror.name = re.sub(r"[^A-Za-z0-9._-]", "-", draft.take(entry)) or mirror.name
            case "connector.class":
                draft.take(entry)
            case "enable.destination.topic.checking":
                mirror.creates_topics = draft.take(entry).strip().lower() == "false"
            case "consumer.auto.offset.reset":
                mirror.start = "latest" if draft.take(entry).strip().lower() == "latest" else ""
            case "topics.whitelist":
                mirror.topics += selection(draft, entry, as_expressions=False)
            case "topics.regex":
                mirror.topics += _expression(draft, entry)
            case "topics.regex.list":
                mirror.topics += selection(draft, entry, as_expressions=True)
            case "destination.topic.name.prefix":
                prefix = literal(draft.take(entry))
            case "destination.topic.name.suffix":
                suffix = literal(draft.take(entry))
            case _:
                _take_other(draft, entry, any(each.key == "destination.consumer.bootstrap.servers" for each in entries))
    mirror.topic = f"{prefix}{{topic}}{suffix}"
    for name, place in draft.clusters.items():
        if not place.bootstrap_servers:
            place.bootstrap_servers = variable(name, "bootstrap.servers")
            reason = f"the file does not name its brokers: set {place.bootstrap_servers[2:-1]} or write them here"
            draft.remark(Entry(0, f"clusters.{name}", ""), reason)
    mirror.former = _former({each.key: each.value.strip() for each in entries})
    draft.mirrors = [mirror]
    if not any(each.key == "enable.partition.matching" for each in entries):
        draft.remark(Entry(0, "enable.partition.matching", ""), NO_EQUAL["enable.partition.matching"])
    draft.remark_the_rest(entries)
    return draft


def _former(values: Mapping[str, str]) -> Former:
    """Returns where a connector's positions are stored; the worker's file names topic and group, if it was read."""
    return Former(
        program=PROGRAM,
        offsets_topic=values.get("offsets.storage.topic", values.get("offset.storage.topic", "")),
        group=values.get("group.id", ""),
        connector=values.get("name"),
        cluster=None,
        next_minus_stored=0,
        keeps_partitions=values.get("enable.partition.matching", "").lower() == "true",
        begins_latest=values.get("consumer.auto.offset.reset", "").lower() == "latest",
    )


def _expression(draft: Draft, entry: Entry) -> list[str]:
    """Returns the one expression of ``topics.regex``, in which a comma is part of it."""
    if "," not in entry.value:
        return selection(draft, entry, as_expressions=True)
    if flaw := expression_flaw(entry.value):
        draft.remark(entry, f"the expression {flaw}: write it anew under `topics`")
        return []
    return [f"/{literal(draft.take(entry))}/"]


def _take_other(draft: Draft, entry: Entry, is_destination_named: bool) -> None:
    for prefix, cluster in _PLACES:
        if entry.key.startswith(prefix):
            take_property(draft, cluster, entry.key.removeprefix(prefix), entry)
            return
    if entry.key in ("destination.bootstrap.servers", "bootstrap.servers"):
        if is_destination_named:
            draft.remark(entry, "`destination.consumer.bootstrap.servers` names the destination's brokers")
        else:
            take_property(draft, "destination", "bootstrap.servers", entry)
    else:
        draft.remark(entry, _KEYS.reason_without_equal(entry.key))


def _json_entries(text: str) -> list[Entry]:
    """Returns the settings of a connector's JSON, with or without ``config`` around them."""

    def refuse_doubles(pairs: list[tuple[str, object]]) -> dict[str, object]:
        names = [name for name, _ in pairs]
        if double := next((each for each in names if names.count(each) > 1), ""):
            raise ImportRefusedError(f"`{double}` is there twice, near line {_line(text, double)}: remove one of them")
        return dict(pairs)

    try:
        tree = json.loads(text, object_pairs_hook=refuse_doubles)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ImportRefusedError(f"it begins as JSON, and is none ({error}): is the file whole?") from None
    if isinstance(tree.get("config"), dict):
        tree = {key: value for key, value in tree.items() if key == "name"} | tree["config"]
    return [Entry(_line(text, key), key, _plain(value)) for key, value in tree.items()]


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _line(text: str, key: str) -> int:
    """Returns the line of a key's first appearance as a key; 0 where it is written with escapes."""
    found = re.search(re.escape(json.dumps(key)) + r"\s*:", text)
    return text.count("\n", 0, found.start()) + 1 if found else 0
