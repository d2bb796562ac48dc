"""What was read of another program's configuration, before it is written as one of ours."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field


class ImportRefusedError(Exception):
    """The input is not a configuration of the program named; the text has the line and the remedy."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One setting of the input: the number of its first line, from 1, its key and its value without escapes."""

    line: int
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Remark:
    """A line of the input that has no equal, or another meaning; ``line`` 0 is what the input does not say."""

    line: int
    key: str
    text: str


@dataclass(slots=True)
class ClusterDraft:
    """A cluster; values are as our file has them, so ``$`` stands doubled but for references to variables."""

    bootstrap_servers: str = ""
    properties: dict[str, str] = field(default_factory=dict)
    origins: dict[str, Entry] = field(default_factory=dict)
    """The setting each property came from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Former:
    """How the program that copied so far has stored where it stood, in a topic of Kafka Connect's.

    ``offsets_topic`` is at the destination cluster, empty where the file does not say; so is ``group``, that of
    Connect's workers. ``connector`` is the name in the topic's keys, None for any; ``cluster`` the source's alias
    there, None where keys have none. ``next_minus_stored`` leads from what is stored to the next offset that is needed.
    ``keeps_partitions`` says that records stay in the partition they have at the source, ``begins_latest`` that a
    partition of which nothing is stored begins at its end.
    """

    program: str
    offsets_topic: str
    group: str
    connector: str | None
    cluster: str | None
    next_minus_stored: int
    keeps_partitions: bool
    begins_latest: bool


@dataclass(slots=True)
class RegistryDraft:
    """A schema registry; values are as our file has them."""

    url: str


@dataclass(slots=True)
class MirrorDraft:
    """A mirror from one cluster to another; ``note`` is a remark written behind ``topic``.

    ``topic_rules`` is the value of ``create-topics`` in our notation, empty for the default.
    ``start_offsets`` are by topic and partition; where there are any they take the place of ``start``.
    """

    name: str
    source: str
    destination: str
    topics: list[str] = field(default_factory=list)
    exclude: list[str] = field(default_factory=list)
    is_enabled: bool = True
    start: str = ""
    start_offsets: dict[str, dict[int, int]] = field(default_factory=dict)
    former: Former | None = None
    topic: str = "{topic}"
    note: str = ""
    replication_factor: str = ""
    creates_topics: bool = True
    topic_rules: str = ""
    schemas: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Draft:
    """A configuration in the making; ``translated`` has line and key of the settings that became something of ours."""

    clusters: dict[str, ClusterDraft] = field(default_factory=dict)
    registries: dict[str, RegistryDraft] = field(default_factory=dict)
    mirrors: list[MirrorDraft] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    translated: set[tuple[int, str]] = field(default_factory=set)

    def remark(self, entry: Entry, text: str) -> None:
        """Notes that a line has no equal, or not quite, and why."""
        if (remark := Remark(entry.line, entry.key, text)) not in self.remarks:
            self.remarks.append(remark)

    def remark_the_rest(self, entries: Iterable[Entry]) -> None:
        """Notes every line that nothing was made of and nothing was said of: another one has its place."""
        said = self.translated | {(each.line, each.key) for each in self.remarks}
        for entry in entries:
            if (entry.line, entry.key) not in said:
                self.remark(entry, "has no effect: other lines say otherwise")

    def take(self, entry: Entry) -> str:
        """Returns the value of a line that becomes something of ours, and counts it."""
        self.translated.add((entry.line, entry.key))
        return entry.value


def literal(value: str) -> str:
    """Returns a text of the input as our file has it: no part of it is taken for a variable."""
    return value.replace("$", "$$")


def variable(*parts: str) -> str:
    """Returns a reference to an environment variable with a name made of these parts."""
    name = re.sub(r"[^A-Z0-9]+", "_", "_".join(parts).upper()).strip("_")
    return "${" + (name if not name[:1].isdigit() else f"CLUSTER_{name}") + "}"


_NAME = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_JAVA_ONLY = re.compile(r"\\[pPQEGRXhHzZ]|&&|\[[^\]]*\[")


def selection(draft: Draft, entry: Entry, *, as_expressions: bool) -> list[str]:
    """Returns the topics of a comma-separated list in our form; what cannot be said becomes a remark.

    Args:
        draft: takes the remarks.
        entry: the setting.
        as_expressions: each part is a Java expression for the whole name; else a name.
    """
    chosen: list[str] = []
    for part in filter(None, (each.strip() for each in entry.value.split(","))):
        if not as_expressions or _NAME.fullmatch(part):
            chosen.append(part)
        elif flaw := expression_flaw(part):
            draft.remark(entry, f"the expression `{part}` {flaw}: write it anew under `topics` or `exclude`")
        else:
            chosen.append(f"/{literal(part)}/")
    if chosen:
        draft.take(entry)
    return chosen


def expression_flaw(expression: str) -> str:
    """Returns why a Java expression cannot be taken as it is; "" where it can."""
    if _JAVA_ONLY.search(expression):
        return "uses syntax of Java's expressions that has no equal"
    try:
        re.compile(expression)
    except re.error as error:
        return f"cannot be read here ({error})"
    return ""
