"""What the models of both forms are made of: their base, their fields, and the kinds of values."""

from dataclasses import dataclass
from datetime import time
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, InstanceOf, WithJsonSchema

from mirrorlake.config.kinds import (
    PARTITION_MAX,
    read_at_utc,
    read_ca_file,
    read_endpoint,
    read_folder,
    read_heartbeat,
    read_listen,
    read_name,
    read_override,
    read_partitions,
    read_prefix,
    read_root,
    read_secret,
    read_servers,
    read_servers_or_hosts,
    read_start,
    read_template,
    read_topic,
    read_topic_entry,
    read_ui_port,
)
from mirrorlake.config.reading import (
    by,
    read_boolean,
    read_duration,
    read_integer,
    read_size,
    read_text,
    read_trigger,
)
from mirrorlake.config.resolved import ListenAddress, Start
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


def option(default: object, meaning: str, *, shown: str | None = None, note: str | None = None) -> Any:
    """Returns a field with its default and its meaning, both of which the reference and the schema show.

    Args:
        default: the value as read; ``...`` where the field is required.
        meaning: one or two sentences.
        shown: the default as a user would write it, where that differs from the value read.
        note: words for the reference, where the default cannot be written down in the file.
    """
    if note is not None:
        return Field(default=default, description=meaning, json_schema_extra={NOTE: note})
    if shown is not None:
        return Field(default_factory=lambda: default, description=meaning, json_schema_extra={"default": shown})
    return Field(default=default, description=meaning)


# A number or true/false may also stand as a reference to an environment variable, which is text to a schema.
_REFERENCE: dict[str, Any] = {"type": "string", "pattern": r"\$\{"}


def _text_schema(pattern: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": rf"{pattern}|\$\{{"})


def _number_schema(minimum: int, maximum: int | None = None) -> WithJsonSchema:
    bounds = {"minimum": minimum} if maximum is None else {"minimum": minimum, "maximum": maximum}
    return WithJsonSchema({"anyOf": [{"type": "integer", **bounds}, _REFERENCE]})


_TEXT_OR_LIST = WithJsonSchema(
    {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}
)
_SIZE = WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string", "pattern": r"^[0-9]|\$\{"}]})
_DURATION = _text_schema(r"^[0-9.]+ ?(ms|s|m|h|d)$")
_PARTITIONS = WithJsonSchema(
    {
        "anyOf": [
            {"const": "all"},
            {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1, "uniqueItems": True},
        ]
    }
)
_START = WithJsonSchema(
    {
        "anyOf": [
            {"enum": ["earliest", "latest"]},
            {
                "type": "object",
                "properties": {"timestamp": {"type": ["string", "integer"]}, "offsets": {"type": "object"}},
                "minProperties": 1,
                "maxProperties": 1,
                "additionalProperties": False,
            },
        ]
    }
)
_IN_A_FILE: dict[str, Any] = {
    "type": "object",
    "properties": {"file": {"type": "string"}},
    "required": ["file"],
    "additionalProperties": False,
}
_PROPERTIES = WithJsonSchema(
    {
        "type": "object",
        "additionalProperties": {"anyOf": [{"type": ["string", "integer", "boolean"]}, _IN_A_FILE]},
    }
)
_UI_PORT = WithJsonSchema(
    {"anyOf": [{"const": "off"}, {"type": "integer", "minimum": 1, "maximum": 65535}, _REFERENCE]}
)
_SECRET = WithJsonSchema({"anyOf": [_REFERENCE, _IN_A_FILE]})

Text = Annotated[str, by(read_text), Shown("text")]
Boolean = Annotated[
    bool,
    by(read_boolean),
    WithJsonSchema({"anyOf": [{"type": "boolean"}, _REFERENCE]}),
    Shown("`true` or `false`"),
]
Name = Annotated[str, by(read_name), _text_schema(r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,119}$"), Shown("name")]
Topic = Annotated[str, by(read_topic), Shown("topic")]
TopicEntry = Annotated[str, by(read_topic_entry), Shown("topic or `/expression/`")]
Override = Annotated[str, by(read_override), Shown("name")]
Template = Annotated[str, by(read_template), Shown("template")]
Servers = Annotated[tuple[str, ...], by(read_servers), _TEXT_OR_LIST, Shown("`host:port,…` or a list")]
ServersOrHosts = Annotated[
    tuple[str, ...], by(read_servers_or_hosts), WithJsonSchema({"type": "string"}), Shown("`host[:port],…`")
]
Properties = Annotated[dict[str, object], _PROPERTIES, Shown("client properties")]
SparkConf = Annotated[dict[str, object], _PROPERTIES, Shown("Spark settings")]
UiPort = Annotated[int | None, by(read_ui_port), _UI_PORT, Shown("port or `off`")]
LogFolder = Annotated[InstanceOf[Path], by(read_folder), _text_schema("^/"), Shown("absolute path")]
Root = Annotated[InstanceOf[Path], by(read_root), _text_schema("^/"), Shown("absolute path")]
Prefix = Annotated[str, by(read_prefix), WithJsonSchema({"type": "string"}), Shown("text")]
SecretText = Annotated[InstanceOf[Secret], by(read_secret), _SECRET, Shown("`${NAME}` or `{file: /path}`")]
CaFile = Annotated[InstanceOf[Path], by(read_ca_file), _text_schema("^/"), Shown("absolute path")]
Endpoint = Annotated[str, by(read_endpoint), _text_schema("^https?://"), Shown("address")]
Listen = Annotated[
    ListenAddress | None, by(read_listen), WithJsonSchema({"type": "string"}), Shown("`host:port` or `off`")
]
AtUtc = Annotated[time, by(read_at_utc), _text_schema(r"^\d\d:\d\d(:\d\d)?$"), Shown("`HH:MM` or `HH:MM:SS`")]
Partitions = Annotated[tuple[int, ...] | None, by(read_partitions), _PARTITIONS, Shown("`all` or a list of numbers")]
Partition = Annotated[int, by(read_integer(0, PARTITION_MAX)), _number_schema(0, PARTITION_MAX), Shown("number")]
StartPoint = Annotated[Start, by(read_start), _START, Shown("`earliest`, `latest`, `{timestamp: …}` or `{offsets: …}`")]
Trigger = Annotated[int, by(read_trigger), _number_schema(1), Shown("number above 0")]
Count = Annotated[int, by(read_integer(1)), _number_schema(1), Shown("number above 0")]
SlotCount = Annotated[int, by(read_integer(0, 1024)), _number_schema(0, 1024), Shown("number")]
LaneCount = Annotated[int, by(read_integer(1, 1024)), _number_schema(1, 1024), Shown("number above 0")]
Replication = Annotated[int, by(read_integer(1, 32767)), _number_schema(1, 32767), Shown("number above 0")]
SegmentSize = Annotated[int, by(read_size(1)), _SIZE, Shown("size")]
MemorySize = Annotated[int, by(read_size(256 * 1024**2)), _SIZE, Shown("size, at least 256MiB")]
BatchSize = Annotated[int, by(read_size(1024**2, 2 * 1024**3 - 1)), _SIZE, Shown("size, 1MiB to below 2GiB")]
FlushTime = Annotated[float, by(read_duration(0.1, 30 * 86400)), _DURATION, Shown("duration, 100ms to 30d")]
LeaseTime = Annotated[float, by(read_duration(0.1, 600)), _DURATION, Shown("duration, 100ms to 10m")]
DiscoveryTime = Annotated[float, by(read_duration(0.5, 86400)), _DURATION, Shown("duration, 500ms to 1d")]
TailCheckTime = Annotated[float, by(read_duration(1, 86400)), _DURATION, Shown("duration, 1s to 1d")]
StartTime = Annotated[float, by(read_duration(1, 3600)), _DURATION, Shown("duration, 1s to 1h")]
StopTime = Annotated[float, by(read_duration(1, 86400)), _DURATION, Shown("duration, 1s to 1d")]
Heartbeat = Annotated[float | None, by(read_heartbeat), WithJsonSchema({"type": "string"}), Shown("duration or `off`")]
