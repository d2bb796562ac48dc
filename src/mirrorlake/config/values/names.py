"""Reads names: of mirrors, topics, groups and folders, by themselves, as expressions and with placeholders."""

import re
import warnings
from collections.abc import Sequence

from mirrorlake.config.reading import found, read_text, refuse, suggestion
from mirrorlake.own_topics import is_own_topic

NAME_LENGTH_MAX = 120
"""Leaves room for ``mirrorlake.`` and a shard's number in a transactional id."""

TOPIC_LENGTH_MAX = 249
"""Kafka's limit (org.apache.kafka.common.internals.Topic); a file name's limit of 255 bytes is near it."""

PLACEHOLDERS = ("topic", "mirror", "cluster")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*", re.ASCII)
_TOPIC = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)
_BRACES = re.compile(r"\{([^{}]*)\}|[{}]")
_OF_EXPRESSIONS = set("*+?|()[]^$\\")


def read_name(value: object) -> str:
    """Reads the name of a mirror, cluster or store; part of a transactional id and of metrics."""
    name = read_text(value)
    if not _NAME.fullmatch(name) or len(name) > NAME_LENGTH_MAX:
        refuse(
            f"{found(value)} cannot be a name",
            f"up to {NAME_LENGTH_MAX} letters, digits, `.`, `_` and `-`, the first no `.` and no `-`",
        )
    return name


def topic_flaw(topic: str) -> str:
    """Returns why Kafka, or we, would not take a topic's name; "" where nothing is wrong with it."""
    if topic in (".", "..") or not _TOPIC.fullmatch(topic):
        return "a topic's name is letters, digits, `.`, `_` and `-`, and neither `.` nor `..`"
    if len(topic) > TOPIC_LENGTH_MAX:
        return f"a topic's name has at most {TOPIC_LENGTH_MAX} characters"
    if topic.startswith("__"):
        return "internal topics (`__…`) are not mirrored"
    return "mirrorlake's own topics are about one cluster, and are not mirrored" if is_own_topic(topic) else ""


def folder_flaw(name: str) -> str:
    """Returns why a name cannot be one folder below an archive's root; "" where it can."""
    if name in (".", "..") or "/" in name or "\\" in name:
        return "it must be one folder name, without `/` and not `..`, so that it stays below the root"
    if len(name.encode("utf-8")) > TOPIC_LENGTH_MAX:
        return f"a folder's name has at most {TOPIC_LENGTH_MAX} bytes"
    return ""


def path_flaw(name: str) -> str:
    """Returns why a name cannot be a folder below an archive's root, or one below others there; "" where it can."""
    outer, *inner = name.split("/")
    if flaw := next(filter(None, map(folder_flaw, (outer, *inner))), ""):
        return flaw
    if "" in (outer, *inner):
        return "a folder of it has no name: write it without a `/` at its ends, and never two of them"
    # `a/0` would be partition 0 of `a`, and what begins with `_` is not looked at.
    if any(part.isdigit() for part in inner) or (inner and any(part.startswith("_") for part in (outer, *inner))):
        return "below another folder none may be a number, and none may begin with `_`"
    return ""


def read_topic(value: object) -> str:
    """Reads the name of one topic."""
    topic = read_text(value)
    if flaw := topic_flaw(topic):
        refuse(f"{found(value)} cannot be mirrored", flaw)
    return topic


def read_topic_entry(value: object) -> str:
    """Reads a topic's name or a ``/regular expression/``; returned as written."""
    entry = read_text(value)
    if not entry.startswith("/"):
        if flaw := topic_flaw(entry):
            refuse(f"{found(value)} cannot be mirrored", flaw + _habit_hint(entry))
        return entry
    return read_expression(entry, value, what="a topic")


def selected(included: Sequence[str], excluded: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Returns the fields of a selection, of names and expressions as they are written."""
    (names, patterns), (excluded_names, excluded_patterns) = map(parted, (included, excluded))
    excludes = {"excluded_names": excluded_names, "excluded_patterns": excluded_patterns}
    return {"names": names, "patterns": patterns, **excludes}


def parted(entries: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns names and expressions, the latter without their slashes."""
    names = tuple(entry for entry in entries if not entry.startswith("/"))
    return names, tuple(entry[1:-1] for entry in entries if entry.startswith("/"))


def read_group_entry(value: object) -> str:
    """Reads a consumer group's name or a ``/regular expression/``; returned as written."""
    entry = read_text(value)
    return read_expression(entry, value, what="a group") if entry.startswith("/") else entry


def read_expression(entry: str, value: object, *, what: str) -> str:
    """Reads a regular expression between slashes, of ``what`` such as ``a topic``; returned as written."""
    if len(entry) < 3 or not entry.endswith("/"):
        refuse(f"{found(value)} is neither {what} nor an expression", "write an expression as /…/")
    try:
        with warnings.catch_warnings():
            # Python warns of expressions that will mean something else in a later version.
            warnings.simplefilter("error", FutureWarning)
            re.compile(entry[1:-1])
    except (re.error, OverflowError, RecursionError, FutureWarning) as error:
        refuse(f"{found(value)} is not a regular expression", str(error))
    return entry


def _habit_hint(entry: str) -> str:
    """Returns what else may have been meant by an entry that is no topic's name, as MirrorMaker takes it."""
    if "," in entry:
        return "; several are several items of the list"
    return "; an expression is written between slashes: /orders-.*/" if _OF_EXPRESSIONS & set(entry) else ""


def read_override(value: object) -> str:
    """Reads the mirror-v3 form's destination name; what else is allowed is known with the type."""
    name = read_text(value)
    if flaw := path_flaw(name):
        refuse(f"{found(value)} cannot be a destination's name", flaw)
    return name


def read_template(value: object) -> str:
    """Reads a name with placeholders; whether the names it makes are legal is looked at per topic."""
    template = read_text(value)
    for match in _BRACES.finditer(template):
        if match[1] is None:
            refuse(f"{found(value)} has a brace without its partner")
        if match[1] not in PLACEHOLDERS:
            refuse(f"the placeholder {match[0]} is not known", suggestion(match[1], PLACEHOLDERS))
    if flaw := folder_flaw(_BRACES.sub("x", template)):
        refuse(f"{found(value)} cannot be a destination's name", flaw)
    return template
