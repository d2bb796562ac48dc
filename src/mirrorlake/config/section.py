"""What the models of both forms are made of: their base, their fields, and the kinds of values."""

from dataclasses import dataclass
from datetime import time
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, InstanceOf, WithJsonSchema

from mirrorlake.config.process_settings import ListenAddress
from mirrorlake.config.reading import by, read_boolean, read_duration, read_integer, read_size, read_text, read_trigger
from mirrorlake.config.sources.source import Start
from mirrorlake.config.topics.policy import TopicRules
from mirrorlake.config.topics.reading import read_setting_entry, read_settings, read_topic_rules
from mirrorlake.config.units import parse_duration, parse_size
from mirrorlake.config.values.addresses import read_endpoint, read_listen, read_servers
from mirrorlake.config.values.condition import read_condition
from mirrorlake.config.values.files import read_path, read_prefix, read_root, read_secret
from mirrorlake.config.values.names import (
    read_group_entry,
    read_name,
    read_override,
    read_template,
    read_topic,
    read_topic_entry,
)
from mirrorlake.config.values.positions import PARTITION_MAX, read_moment, read_offsets, read_partitions, read_start
from mirrorlake.config.values.times import read_at_utc, read_cron, read_heartbeat, read_missing_segment, read_or_off
from mirrorlake.filters.condition import Filter
from mirrorlake.secret import Secret


@dataclass(frozen=True, slots=True)
class Shown:
    """How the reference names a kind of value."""

    text: str


NOTE = "x-default"
"""Keyword of the schema that says in words what happens without the field."""


def _kebab(name: str) -> str:
    return name.replace("_", "-")


class Section(BaseModel):
    """A mapping of the file: kebab-case keys, none but the known ones, frozen once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=_kebab, hide_input_in_errors=True)


def option(
    default: object, meaning: str, *, shown: str | None = None, note: str | None = None, key: str | None = None
) -> Any:
    """Returns a field with its default and its meaning, both of which the reference and the schema show.

    Args:
        default: the value as read; ``...`` where the field is required.
        meaning: one or two sentences.
        shown: the default as a user would write it, where that differs from the value read.
        note: words for the reference, where the default cannot be written down in the file.
        key: what the file calls it, where that is not the field's name in kebab-case.
    """
    if note is not None:
        return Field(default=default, alias=key, description=meaning, json_schema_extra={NOTE: note})
    if shown is not None:
        extra: dict[str, Any] = {"default": shown}
        return Field(default_factory=lambda: default, alias=key, description=meaning, json_schema_extra=extra)
    return Field(default=default, alias=key, description=meaning)


def lasting(default: str, meaning: str, *, key: str | None = None) -> Any:
    """Returns a field of seconds, whose default is written as a user would; see `option`."""
    return option(parse_duration(default), meaning, shown=default, key=key)


def sized(default: str, meaning: str, *, key: str | None = None) -> Any:
    """Returns a field of bytes, whose default is written as a user would; see `option`."""
    return option(parse_size(default), meaning, shown=default, key=key)


# A number or true/false may also stand as a reference to an environment variable, which is text to a schema.
_REFERENCE: dict[str, Any] = {"type": "string", "pattern": r"\$\{"}


def _text_schema(pattern: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": rf"{pattern}|\$\{{"})


def _any_of(*kinds: dict[str, Any]) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": list(kinds)})


def _number_schema(minimum: int, maximum: int | None = None) -> WithJsonSchema:
    bounds = {"minimum": minimum} if maximum is None else {"minimum": minimum, "maximum": maximum}
    return _any_of({"type": "integer", **bounds}, _REFERENCE)


def _only(key: str) -> dict[str, Any]:
    """Returns the schema of a mapping that has this one key, whose value is text."""
    properties = {key: {"type": "string"}}
    return {"type": "object", "properties": properties, "required": [key], "additionalProperties": False}


def _each(value: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of a mapping with any keys."""
    return {"type": "object", "additionalProperties": value}


_TEXT_OR_LIST = _any_of({"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1})
_SIZE = _any_of({"type": "integer"}, {"type": "string", "pattern": r"^[0-9]|\$\{"})
_DURATION = _text_schema(r"^[0-9.]+ ?(ms|s|m|h|d)$")
_PARTITIONS = _any_of(
    {"const": "all"},
    {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1, "uniqueItems": True},
)
_START = _any_of(
    {"enum": ["earliest", "latest"]},
    {
        "type": "object",
        "properties": {
            "timestamp": {"type": ["string", "integer"]},
            "max-age": {"type": "string"},
            "offsets": {"type": "object"},
        },
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
    },
)
_COUNT_RULE = {
    "anyOf": [
        {"const": "mirror-source"},
        {
            "type": "object",
            "properties": {
                "fixed": {"type": ["integer", "string"]},
                "mirror-source": {
                    "type": "object",
                    "properties": {"min": {"type": ["integer", "string"]}, "max": {"type": ["integer", "string"]}},
                    "additionalProperties": False,
                },
            },
            "minProperties": 1,
            "maxProperties": 1,
            "additionalProperties": False,
        },
    ]
}
_TOPIC_RULES = _any_of(
    {"type": "boolean"},
    {"enum": ["never", "like-source"]},
    _REFERENCE,
    {
        "type": "object",
        "properties": {"partitions": _COUNT_RULE, "replication": _COUNT_RULE},
        "minProperties": 1,
        "additionalProperties": False,
    },
)
_SETTINGS = WithJsonSchema(_each({"type": ["string", "number", "boolean"]}))
_MOMENT = _any_of({"type": "string", "format": "date-time"}, _REFERENCE)
_OFFSETS = WithJsonSchema(_each(_each({"type": ["integer", "string"]})))
_MISSING_SEGMENT = _any_of({"const": "wait"}, _only("skip-after"))
_PROPERTIES = WithJsonSchema(_each({"anyOf": [{"type": ["string", "integer", "boolean"]}, _only("file")]}))
_UI_PORT = _any_of({"const": "off"}, {"type": "integer", "minimum": 1, "maximum": 65535}, _REFERENCE)
_SECRET = _any_of(_REFERENCE, _only("file"))

Text = Annotated[str, by(read_text), Shown("text")]
Boolean = Annotated[bool, by(read_boolean), _any_of({"type": "boolean"}, _REFERENCE), Shown("`true` or `false`")]
Condition = Annotated[InstanceOf[Filter], by(read_condition), WithJsonSchema({"type": "string"}), Shown("Spark SQL")]
Name = Annotated[str, by(read_name), _text_schema(r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,119}$"), Shown("name")]
Topic = Annotated[str, by(read_topic), Shown("topic")]
TopicEntry = Annotated[str, by(read_topic_entry), Shown("topic or `/expression/`")]
GroupEntry = Annotated[str, by(read_group_entry), Shown("group or `/expression/`")]
Override = Annotated[str, by(read_override), Shown("name")]
Template = Annotated[str, by(read_template), Shown("template")]
Servers = Annotated[tuple[str, ...], by(read_servers()), _TEXT_OR_LIST, Shown("`host:port,…` or a list")]
ServersOrHosts = Annotated[
    tuple[str, ...], by(read_servers(9092)), WithJsonSchema({"type": "string"}), Shown("`host[:port],…`")
]
Properties = Annotated[dict[str, object], _PROPERTIES, Shown("client properties")]
SparkConf = Annotated[dict[str, object], _PROPERTIES, Shown("Spark settings")]
UiPort = Annotated[int | None, by(read_or_off(read_integer(1, 65535))), _UI_PORT, Shown("port or `off`")]
LogFolder = Annotated[InstanceOf[Path], by(read_path("/var/log/spark")), _text_schema("^/"), Shown("absolute path")]
Root = Annotated[InstanceOf[Path], by(read_root), _text_schema("^/"), Shown("absolute path")]
Prefix = Annotated[str, by(read_prefix), WithJsonSchema({"type": "string"}), Shown("text")]
SecretText = Annotated[InstanceOf[Secret], by(read_secret), _SECRET, Shown("`${NAME}` or `{file: /path}`")]
CaFile = Annotated[InstanceOf[Path], by(read_path("/etc/ssl/own-ca.pem")), _text_schema("^/"), Shown("absolute path")]
Endpoint = Annotated[str, by(read_endpoint), _text_schema("^https?://"), Shown("address")]
Listen = Annotated[
    ListenAddress | None, by(read_listen), WithJsonSchema({"type": "string"}), Shown("`host:port` or `off`")
]
AtUtc = Annotated[time, by(read_at_utc), _text_schema(r"^\d\d:\d\d(:\d\d)?$"), Shown("`HH:MM` or `HH:MM:SS`")]
Partitions = Annotated[tuple[int, ...] | None, by(read_partitions), _PARTITIONS, Shown("`all` or a list of numbers")]
Partition = Annotated[int, by(read_integer(0, PARTITION_MAX)), _number_schema(0, PARTITION_MAX), Shown("number")]
StartPoint = Annotated[
    Start,
    by(read_start),
    _START,
    Shown("`earliest`, `latest`, `{timestamp: …}`, `{max-age: …}` or `{offsets: …}`"),
]
Moment = Annotated[int, by(read_moment), _MOMENT, Shown("RFC 3339 time, to the millisecond")]
Offsets = Annotated[dict[str, dict[int, int]], by(read_offsets), _OFFSETS, Shown("`{topic: {partition: offset}}`")]
MissingSegment = Annotated[
    float | None, by(read_missing_segment), _MISSING_SEGMENT, Shown("`wait` or `{skip-after: duration}`")
]
Trigger = Annotated[int, by(read_trigger), _number_schema(1), Shown("number above 0")]
Count = Annotated[int, by(read_integer(1)), _number_schema(1), Shown("number above 0")]
SlotCount = Annotated[int, by(read_integer(0, 1024)), _number_schema(0, 1024), Shown("number")]
LaneCount = Annotated[int, by(read_integer(1, 1024)), _number_schema(1, 1024), Shown("number above 0")]
TopicCreation = Annotated[
    TopicRules | None, by(read_topic_rules), _TOPIC_RULES, Shown("`never`, `like-source` or rules")
]
SettingEntry = Annotated[str, by(read_setting_entry), Shown("setting or `/expression/`")]
MirrorSettings = Annotated[dict[str, object], WithJsonSchema({"type": "object"}), Shown("settings of a mirror")]
Overlays = Annotated[
    dict[str, object], WithJsonSchema(_each({"type": "object"})), Shown("settings of the root, by name")
]
Settings = Annotated[dict[str, str], by(read_settings), _SETTINGS, Shown("settings")]
Replication = Annotated[int, by(read_integer(1, 32767)), _number_schema(1, 32767), Shown("number above 0")]
SegmentSize = Annotated[int, by(read_size(1)), _SIZE, Shown("size")]
MemorySize = Annotated[int, by(read_size(256 * 1024**2)), _SIZE, Shown("size, at least 256MiB")]
BatchSize = Annotated[int, by(read_size(1024**2, 2 * 1024**3 - 1)), _SIZE, Shown("size, 1MiB to below 2GiB")]
FlushTime = Annotated[float, by(read_duration(0.1, 30 * 86400)), _DURATION, Shown("duration, 100ms to 30d")]
KeepTime = Annotated[float, by(read_duration(0, 36500 * 86400)), _DURATION, Shown("duration, 0s to 36500d")]
KeptAge = Annotated[float, by(read_duration(60, 36500 * 86400)), _DURATION, Shown("duration, 1m to 36500d")]
MergedSize = Annotated[int, by(read_size(1, 4 * 1024**3)), _SIZE, Shown("size, to 4GiB")]
AnySize = Annotated[int, by(read_size(0)), _SIZE, Shown("size")]
InputCount = Annotated[int, by(read_integer(2, 10_000)), _number_schema(2, 10_000), Shown("number, 2 to 10000")]
KeepingTime = Annotated[float, by(read_duration(1, 366 * 86400)), _DURATION, Shown("duration, 1s to 366d")]
CronMoments = Annotated[str, by(read_cron), WithJsonSchema({"type": "string"}), Shown("cron expression")]
LeaseTime = Annotated[float, by(read_duration(0.1, 600)), _DURATION, Shown("duration, 100ms to 10m")]
HeartbeatsTime = Annotated[float, by(read_duration(1, 3600)), _DURATION, Shown("duration, 1s to 1h")]
GroupsTime = Annotated[float, by(read_duration(1, 86400)), _DURATION, Shown("duration, 1s to 1d")]
DiscoveryTime = Annotated[float, by(read_duration(0.5, 86400)), _DURATION, Shown("duration, 500ms to 1d")]
TailCheckTime = Annotated[float, by(read_duration(1, 86400)), _DURATION, Shown("duration, 1s to 1d")]
StartTime = Annotated[float, by(read_duration(1, 3600)), _DURATION, Shown("duration, 1s to 1h")]
StopTime = Annotated[float, by(read_duration(1, 86400)), _DURATION, Shown("duration, 1s to 1d")]
Heartbeat = Annotated[float | None, by(read_heartbeat), WithJsonSchema({"type": "string"}), Shown("duration or `off`")]
