"""The kinds of values that belong to Kafka and to archives: names, topics, addresses, templates, times."""

import re
import warnings
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, time, timedelta
from pathlib import Path, PurePosixPath
from typing import TypeVar

from mirrorlake.config.expansion import ExpandedText
from mirrorlake.config.process_settings import ListenAddress
from mirrorlake.config.reading import (
    INTEGER_MAX,
    found,
    read_any_text,
    read_duration,
    read_integer,
    read_text,
    refuse,
    suggestion,
)
from mirrorlake.config.resolved import Start
from mirrorlake.errors import UnsupportedError
from mirrorlake.filters.condition import Filter
from mirrorlake.filters.parsing import parse_filter
from mirrorlake.offsets import StartKind
from mirrorlake.own_topics import is_own_topic
from mirrorlake.schedule import Schedule
from mirrorlake.secret import Secret

T = TypeVar("T")

NAME_LENGTH_MAX = 120
"""Leaves room for ``mirrorlake.`` and a shard's number in a transactional id."""
TOPIC_LENGTH_MAX = 249
"""Kafka's limit (org.apache.kafka.common.internals.Topic); a file name's limit of 255 bytes is near it."""
PLACEHOLDERS = ("topic", "mirror", "cluster")
PARTITION_MAX = 2**31 - 1

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*", re.ASCII)
_TOPIC = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)
_BRACES = re.compile(r"\{([^{}]*)\}|[{}]")
_AT_UTC = re.compile(r"(\d\d):(\d\d)(?::(\d\d))?", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%A-Za-z]+\]", re.ASCII)
_OF_EXPRESSIONS = set("*+?|()[]^$\\")
_MILLISECOND = timedelta(milliseconds=1)
_SCHEME = re.compile(r"[A-Za-z_]+://")


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


def read_root(value: object) -> Path:
    """Reads the absolute path of an archive's folder; nothing is looked at on disk."""
    path = read_path("/var/lib/archive", rule="an archive's root is absolute")(value)
    if ".." in path.parts:
        refuse(f"{found(value)} goes through `..`", "write the folder itself")
    return path


def read_path(example: str, *, rule: str = "write it from the root on") -> Callable[[object], Path]:
    """Returns a reader of absolute paths; nothing is looked at on disk. A relative one is told rule and example."""

    def read(value: object) -> Path:
        path = read_text(value)
        if not PurePosixPath(path).is_absolute():
            refuse(f"{found(value)} is a relative path", f"{rule}, for example {example}")
        return Path(path)

    return read


def read_or_off(reader: Callable[[object], T]) -> Callable[[object], T | None]:
    """Returns a reader that takes ``off``, too, as None."""
    return lambda value: None if isinstance(value, str) and value == "off" else reader(value)


def read_prefix(value: object) -> str:
    """Reads an object store's key prefix; slashes at both ends do not matter."""
    prefix = read_any_text(value).strip("/")
    if any(part in ("", ".", "..") for part in prefix.split("/")) and prefix:
        refuse(f"{found(value)} cannot be a prefix", "no part between slashes may be empty, `.` or `..`")
    return prefix


def read_endpoint(value: object) -> str:
    """Reads an http or https address."""
    endpoint = read_text(value)
    if not re.fullmatch(r"https?://[^/\s@]+(/[^\s]*)?", endpoint):
        refuse(
            f"{found(value)} is not an http or https address",
            "write http:// or https:// before the host, and no credentials",
        )
    return endpoint


def read_secret(value: object) -> Secret:
    """Reads a secret: text from the environment, or a file; what stands in clear is refused and not repeated.

    A default stands in clear as well. A variable that is empty is refused even where there is more to the text: nobody
    wants an empty password, and a service would learn of it from a broker only.
    """
    if isinstance(value, ExpandedText):
        if value.defaulted:
            name = value.defaulted[0]
            refuse("a secret may have no default: it would be in the file", f"write ${{{name}}}, and set {name}")
        if value.empty:
            refuse(f"the value of ${{{value.empty[0]}}} is empty", "a secret may not be empty")
        return Secret("".join(value), variable=value.whole)
    if not (isinstance(value, dict) and set(value) == {"file"} and isinstance(value["file"], str)):
        refuse("a secret may not be in the file", "write ${NAME} or {file: /path/of/it}")
    path = Path("".join(value["file"]))
    if not path.is_absolute():
        refuse("the file of a secret must be an absolute path")
    return Secret(file=path)


def read_servers(default_port: int | None = None) -> Callable[[object], tuple[str, ...]]:
    """Returns a reader of bootstrap servers: ``host:port``, several parted by commas or as a list.

    Where there is a default port, a host alone will do.
    """

    def read(value: object) -> tuple[str, ...]:
        items = value if isinstance(value, list) else [value]
        servers = [
            # Of a variable's value nothing may be shown, not even a part of it.
            _server(part, item if isinstance(item, ExpandedText) else part, default_port)
            for item in items
            for part in _parts(item, is_list=isinstance(value, list))
            if part
        ]
        if not servers:
            refuse("names no server", "write host:port")
        return tuple(dict.fromkeys(servers))

    return read


def _parts(item: object, *, is_list: bool) -> list[str]:
    text = read_text(item)
    return [part.strip() for part in ([text] if is_list else text.split(","))]


def _server(text: str, shown: object, default_port: int | None) -> str:
    scheme = _SCHEME.match(text)
    if scheme and scheme[0].upper() != "PLAINTEXT://":
        refuse(f"{found(shown)} has a scheme", "write host:port; how to connect is said by security.protocol")
    host, colon, port = text[scheme.end() if scheme else 0 :].rpartition(":")
    if (not colon or port.endswith("]")) and default_port is not None:
        host, port = text[scheme.end() if scheme else 0 :], str(default_port)
    if not _HOST.fullmatch(host) or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        refuse(f"{found(shown)} is not host:port", "write host:port; several are parted by commas")
    return f"{host.lower()}:{int(port)}"


def read_listen(value: object) -> ListenAddress | None:
    """Reads an address to listen on, or ``off``."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 65535:
        refuse(f"expected host:port or off, found {found(value)}", f"for example 127.0.0.1:{value}")
    text = read_text(value)
    if text == "off":
        return None
    host, _, port = text.rpartition(":")
    is_number = port.isascii() and port.isdigit()
    if is_number and int(port) > 65535:
        refuse(f"{found(value)}: the port is above 65535", "for example 127.0.0.1:9090")
    if not host and is_number:
        refuse(f"{found(value)} has no host", f"127.0.0.1:{port} for this machine alone, 0.0.0.0:{port} for all")
    if not _HOST.fullmatch(host) or not is_number:
        refuse(f"expected host:port or off, found {found(value)}", "for example 127.0.0.1:9090")
    return ListenAddress(host=host.strip("[]"), port=int(port))


read_heartbeat = read_or_off(read_duration(1, 86400))
"""Reads seconds between heartbeats, or ``off``."""


def read_at_utc(value: object) -> time:
    """Reads a time of day in UTC: ``HH:MM`` or ``HH:MM:SS``."""
    match = _AT_UTC.fullmatch(read_any_text(value))
    if match is None:
        refuse(f"at-utc must be HH:MM or HH:MM:SS, got {found(value)}")
    hour, minute, second = (int(part or 0) for part in match.groups())
    if hour > 23 or minute > 59 or second > 59:
        refuse(f"at-utc out of range (HH 0-23, MM 0-59, SS 0-59), got {found(value)}")
    return time(hour, minute, second)


def read_condition(value: object) -> Filter:
    """Reads a condition in Spark SQL."""
    text = read_text(value)
    try:
        return parse_filter(text)
    except UnsupportedError as error:
        # What stands in a variable is not repeated.
        why = "" if isinstance(value, ExpandedText) else f": {error.message}"
        refuse(f"{found(value)} cannot be a filter{why}", error.hint)


def read_cron(value: object) -> str:
    """Reads moments in UTC as crontab(5) writes them: five fields, or six of which the first is the second."""
    text = read_text(value)
    try:
        Schedule(cron=text)
    except ValueError as error:
        hint = "minute, hour, day of the month, month, day of the week: `*/15 * * * *` is every quarter of an hour"
        refuse(f"{found(value)} is no cron expression: {error}", hint)
    return text


def read_partitions(value: object) -> tuple[int, ...] | None:
    """Reads ``all`` (None) or a list of partitions, each once."""
    if isinstance(value, str) and value == "all":
        return None
    if not isinstance(value, list) or not value:
        refuse(f"expected all or a list of partitions, found {found(value)}", "for example [0, 1]")
    partitions = [read_integer(0, PARTITION_MAX)(item) for item in value]
    if len(set(partitions)) < len(partitions):
        refuse("names a partition twice")
    return tuple(sorted(partitions))


def read_start(value: object) -> Start:
    """Reads where to begin: a word, or ``{timestamp: …}``, ``{max-age: …}``, ``{offsets: {topic: {partition: …}}}``."""
    if isinstance(value, str) and value in ("earliest", "latest"):
        return Start(kind=StartKind("".join(value)))
    if not isinstance(value, dict) or len(value) != 1 or not {"timestamp", "offsets", "max-age"} & set(value):
        hint = "or {timestamp: 2026-01-31T00:00:00Z}, {max-age: 7d}, or {offsets: {topic: {partition: offset}}}"
        refuse(f"expected earliest or latest, found {found(value)}", hint)
    if "timestamp" in value:
        return Start(kind=StartKind.TIMESTAMP, timestamp_ms=_timestamp_ms(value["timestamp"]))
    if "max-age" in value:
        return Start(kind=StartKind.MAX_AGE, max_age_seconds=read_duration(60, 36500 * 86400)(value["max-age"]))
    return Start(kind=StartKind.OFFSETS, offsets=read_offsets(value["offsets"]))


def _timestamp_ms(value: object) -> int:
    if isinstance(value, int):
        return read_integer(0)(value)
    return round(_since_1970(value, "write 2026-01-31T00:00:00Z, or milliseconds since 1970") / _MILLISECOND)


def _since_1970(value: object, hint: str) -> timedelta:
    try:
        moment = datetime.fromisoformat(read_text(value))
    except ValueError:
        refuse(f"{found(value)} is not a time", hint)
    if moment.tzinfo is None:
        refuse(f"{found(value)} has no time zone", "end it with Z for UTC")
    return moment - datetime(1970, 1, 1, tzinfo=UTC)


def read_moment(value: object) -> int:
    """Reads a time as records have it, to the millisecond (RFC 3339); returned as Unix milliseconds."""
    since = _since_1970(value, "write 2026-01-31T12:00:00.000Z")
    if since % _MILLISECOND:
        refuse(f"{found(value)} is finer than a millisecond, and records' times are not", "write three decimals")
    if since < timedelta():
        refuse(f"{found(value)} is before 1970, and no record is")
    return since // _MILLISECOND


def read_missing_segment(value: object) -> float | None:
    """Reads what is done about a missing segment: ``wait`` (None), or ``{skip-after: …}`` in seconds."""
    if isinstance(value, str) and value == "wait":
        return None
    if not isinstance(value, dict) or set(value) != {"skip-after"}:
        refuse(f"expected wait or skip-after, found {found(value)}", "for example {skip-after: 10m}")
    return read_duration(1, 30 * 86400)(value["skip-after"])


def read_offsets(value: object) -> dict[str, dict[int, int]]:
    """Reads offsets by topic and partition."""
    if not isinstance(value, dict) or not all(isinstance(item, dict) and item for item in value.values()):
        refuse("expected offsets by topic and partition", "for example {orders: {0: 100, 1: 250}}")
    offsets: dict[str, dict[int, int]] = {}
    for topic, by_partition in value.items():
        offsets[read_topic(topic)] = {
            _partition_key(key): read_integer(0, INTEGER_MAX)(offset) for key, offset in by_partition.items()
        }
    return offsets


def _partition_key(key: str) -> int:
    if not key.isascii() or not key.isdigit() or int(key) > PARTITION_MAX:
        refuse(f"{found(key)} is not a partition")
    return int(key)
