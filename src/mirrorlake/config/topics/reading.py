"""Reads how topics are made and kept: rules for counts, names of settings, and their values."""

import re
from collections.abc import Callable

from mirrorlake.config.expansion import ExpandedText
from mirrorlake.config.reading import found, read_any_text, read_integer, read_text, refuse, suggestion
from mirrorlake.config.topics.policy import CountRule, TopicRules
from mirrorlake.config.values.names import read_expression

PARTITIONS_MAX = 2**31 - 1
REPLICAS_MAX = 32767
TIMESTAMP_TYPE = "message.timestamp.type"

_SETTING = re.compile(r"[a-z][a-z0-9.]*", re.ASCII)
_LIKE_SOURCE = TopicRules()
_RULE_HINT = "for example {fixed: 3}, or {mirror-source: {min: 3, max: 12}}"


def read_topic_rules(value: object) -> TopicRules | None:
    """Reads how a missing topic is made: a word, or rules; None for never.

    ``true`` is ``like-source`` and ``false`` is ``never``.
    """
    words = {"true": _LIKE_SOURCE, "like-source": _LIKE_SOURCE, "false": None, "never": None}
    if isinstance(value, bool):
        return words[str(value).lower()]
    if isinstance(value, str):
        word = "".join(value)
        # From the environment `true` comes as text.
        if word in words and (isinstance(value, ExpandedText) or word not in ("true", "false")):
            return words[word]
        refuse(
            f"expected never, like-source or rules, found {found(value)}", suggestion(word, ("never", "like-source"))
        )
    if not isinstance(value, dict) or not value:
        hint = "rules are {partitions: …, replication: …}"
        refuse(f"expected never, like-source or rules, found {found(value)}", hint)
    _only(value, "create-topics", ("partitions", "replication"))
    rules = TopicRules()
    if "partitions" in value:
        rules = TopicRules(partitions=_count_rule("partitions", value["partitions"], PARTITIONS_MAX))
    if "replication" in value:
        replication = _count_rule("replication", value["replication"], REPLICAS_MAX)
        rules = TopicRules(partitions=rules.partitions, replication=replication)
    return rules


def _count_rule(where: str, value: object, maximum: int) -> CountRule:
    if isinstance(value, str) and value == "mirror-source":
        return CountRule()
    if not isinstance(value, dict) or len(value) != 1 or not {"fixed", "mirror-source"} & set(value):
        refuse(f"`{where}`: expected fixed or mirror-source, found {found(value)}", _RULE_HINT)
    read = read_integer(1, maximum)
    if "fixed" in value:
        return CountRule(fixed=_within(f"{where}.fixed", read, value["fixed"]))
    bounds = value["mirror-source"]
    if not isinstance(bounds, dict):
        refuse(f"`{where}`: expected bounds, found {found(bounds)}", _RULE_HINT)
    _only(bounds, f"{where}.mirror-source", ("min", "max"))
    low, high = (
        _within(f"{where}.mirror-source.{key}", read, bounds[key]) if key in bounds else None for key in ("min", "max")
    )
    if low is not None and high is not None and low > high:
        refuse(f"`{where}.mirror-source`: `min` is above `max`", "swap them")
    return CountRule(minimum=low, maximum=high)


def _within(where: str, read: Callable[[object], int], value: object) -> int:
    if value is None:
        refuse(f"`{where}`: expected a whole number, found nothing", "write a value behind the colon")
    return read(value)


def _only(value: dict[str, object], where: str, known: tuple[str, ...]) -> None:
    for key in value:
        if key not in known:
            refuse(f"`{key}` is not a known field of `{where}`", suggestion(str(key), known))


def read_setting(value: object) -> str:
    """Reads the name of a topic's setting."""
    name = read_text(value)
    if not _SETTING.fullmatch(name):
        refuse(f"{found(value)} is not the name of a topic's setting", "for example retention.ms")
    return name


def read_setting_entry(value: object) -> str:
    """Reads a setting's name or a ``/regular expression/``; returned as written."""
    if read_text(value).startswith("/"):
        return read_expression(read_text(value), value, what="a setting")
    return read_setting(value)


def read_settings(value: object) -> dict[str, str]:
    """Reads settings of a topic by name, each as the text Kafka takes."""
    if not isinstance(value, dict):
        refuse(f"expected settings by name, found {found(value)}", "for example {retention.ms: -1}")
    return {read_setting(name): _setting_value(name, setting) for name, setting in value.items()}


def _setting_value(name: str, value: object) -> str:
    if name == TIMESTAMP_TYPE:
        refuse(f"`{TIMESTAMP_TYPE}` cannot be set here", "`timestamp-mode` says whose time a record has")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if not isinstance(value, str):
        refuse(f"`{name}`: expected text or a number, found {found(value)}")
    return read_any_text(value)
