"""Client properties of another program, put among those of one of our clusters."""

import re

from mirrorlake.config.client_properties import NOT_YET, OURS, SECRET, SECURITY, TEXTS, TUNING
from mirrorlake.config.imports.draft import ClusterDraft, Draft, Entry, literal, variable
from mirrorlake.config.reading import suggestion

_FROM_ENVIRONMENT = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}", re.ASCII)
_PROVIDER = re.compile(r"\$\{[^}:]+:[^}]*\}")
_SERIALIZERS = frozenset(["key.deserializer", "value.deserializer", "key.serializer", "value.serializer"])


def take_property(draft: Draft, cluster: str, name: str, entry: Entry) -> None:
    """Puts one client property into a cluster, or notes why it is not there. The first one that comes wins."""
    place = draft.clusters.setdefault(cluster, ClusterDraft())
    if name == "bootstrap.servers":
        _take_address(draft, place, cluster, entry)
    elif name in _SERIALIZERS:
        draft.remark(entry, "keys and values are copied as bytes: leave it out")
    elif name in OURS:
        draft.remark(entry, f"cannot be set here: {OURS[name]}")
    elif name in NOT_YET:
        draft.remark(entry, "this client property is not available in this version: leave it out")
    elif name not in TUNING and name not in TEXTS and name not in SECURITY:
        hint = suggestion(name, [*TUNING, *TEXTS, *SECURITY])
        draft.remark(entry, f"`{name}` is not a client property known here{f'; {hint}' if hint else ''}")
    else:
        _take_known(draft, place, cluster, name, entry)


def _take_address(draft: Draft, place: ClusterDraft, cluster: str, entry: Entry) -> None:
    value = _referenced(draft, entry, variable(cluster, "bootstrap.servers"))
    if place.bootstrap_servers and place.bootstrap_servers != value:
        draft.remark(entry, f"the cluster `{cluster}` has one list of brokers: another line gave it")
        return
    place.bootstrap_servers = value
    draft.take(entry)


def _take_known(draft: Draft, place: ClusterDraft, cluster: str, name: str, entry: Entry) -> None:
    if name in place.properties:
        if place.origins[name].value == entry.value:
            draft.take(entry)
        else:
            other = place.origins[name]
            reason = f"a cluster has one value of `{name}`, for reading and writing: that of line {other.line} is taken"
            draft.remark(entry, reason)
        return
    reference = variable(cluster, name)
    if name not in SECRET:
        place.properties[name] = _referenced(draft, entry, reference)
    elif known := _FROM_ENVIRONMENT.fullmatch(entry.value):
        place.properties[name] = "${" + known.group(1) + "}"
    else:
        place.properties[name] = reference
        draft.remark(entry, f"secrets are not copied: set the environment variable {reference[2:-1]}")
    place.origins[name] = entry
    draft.take(entry)


def _referenced(draft: Draft, entry: Entry, reference: str) -> str:
    """Returns a value as our file has it: variables stay variables, other providers become one to be set."""
    if _PROVIDER.search(_FROM_ENVIRONMENT.sub("", entry.value)):
        draft.remark(entry, f"its configuration provider has no equal: set the environment variable {reference[2:-1]}")
        return reference
    pieces = _FROM_ENVIRONMENT.split(entry.value)
    return "".join("${" + each + "}" if at % 2 else literal(each) for at, each in enumerate(pieces))
