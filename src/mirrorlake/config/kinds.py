"""The kinds of values that belong to Kafka and to archives: names, topics, addresses, templates, times."""

import re
import warnings
from datetime import UTC, datetime, time
from pathlib import Path, PurePosixPath

from mirrorlake.config.expansion import ExpandedText
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
from mirrorlake.config.resolved import ListenAddress, Start
from mirrorlake.offsets import StartKind
from mirrorlake.own_topics import is_own_topic
from mirrorlake.secret import Secret

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
    if len(entry) < 3 or not entry.endswith("/"):
        refuse(f"{found(value)} is neither a topic nor an expression", "write an expression as /…/")
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
    root = read_text(value)
    path = PurePosixPath(root)
    if not path.is_absolute():
        refuse(
            f"{found(value)} is a relative path",
            "an archive's root is absolute, for example /var/lib/archive",
        )
    if ".." in path.parts:
        refuse(f"{found(value)} goes through `..`", "write the folder itself")
    return Path(path)


def read_ca_file(value: object) -> Path:
    """Reads the absolute path of a file of certificates; nothing is looked at on disk."""
    path = read_text(value)
    if not PurePosixPath(path).is_absolute():
        refuse(f"{found(value)} is a relative path", "write it from the root on, for example /etc/ssl/own-ca.pem")
    return Path(path)


def read_folder(value: object) -> Path:
    """Reads the absolute path of a folder; nothing is looked at on disk."""
    path = read_text(value)
    if not PurePosixPath(path).is_absolute():
        refuse(f"{found(value)} is a relative path", "write it from the root on, for example /var/log/spark")
    return Path(path)


def read_ui_port(value: object) -> int | None:
    """Reads a port, or ``off``."""
    return None if isinstance(value, str) and value == "off" else read_integer(1, 65535)(value)


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
    """Reads a secret: text from the environment, or a file; what stands in clear is refused and not repeated."""
    if isinstance(value, ExpandedText):
        if not value.strip():
            refuse(f"{found(value)} is empty")
        return Secret("".join(value), variable=value.whole)
    if not (isinstance(value, dict) and set(value) == {"file"} and isinstance(value["file"], str)):
        refuse("a secret may not be in the file", "write ${NAME} or {file: /path/of/it}")
    path = Path("".join(value["file"]))
    if not path.is_absolute():
        refuse("the file of a secret must be an absolute path")
    return Secret(file=path)


def read_servers(value: object) -> tuple[str, ...]:
    """Reads bootstrap servers: ``host:port``, several parted by commas or as a list."""
    return _servers(value, default_port=None)


def read_servers_or_hosts(value: object) -> tuple[str, ...]:
    """Reads bootstrap servers as mirror-v3's client does: port 9092 where none is written (librdkafka)."""
    return _servers(value, default_port=9092)


def _servers(value: object, default_port: int | None) -> tuple[str, ...]:
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
    text = read_text(value)
    if text == "off":
        return None
    host, _, port = text.rpartition(":")
    if not _HOST.fullmatch(host) or not port.isascii() or not port.isdigit() or int(port) > 65535:
        refuse(f"expected host:port or off, found {found(value)}", "for example 127.0.0.1:9090")
    return ListenAddress(host=host.strip("[]"), port=int(port))


def read_heartbeat(value: object) -> float | None:
    """Reads seconds between heartbeats, or ``off``."""
    return None if isinstance(value, str) and value == "off" else read_duration(1, 86400)(value)


def read_at_utc(value: object) -> time:
    """Reads a time of day in UTC: ``HH:MM`` or ``HH:MM:SS``."""
    match = _AT_UTC.fullmatch(read_any_text(value))
    if match is None:
        refuse(f"at-utc must be HH:MM or HH:MM:SS, got {found(value)}")
    hour, minute, second = (int(part or 0) for part in match.groups())
    if hour > 23 or minute > 59 or second > 59:
        refuse(f"at-utc out of range (HH 0-23, MM 0-59, SS 0-59), got {found(value)}")
    return time(hour, minute, second)


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
    """Reads where to begin: a word, ``{timestamp: …}`` or ``{offsets: {topic: {partition: offset}}}``."""
    if isinstance(value, str) and value in ("earliest", "latest"):
        return Start(kind=StartKind("".join(value)))
    if not isinstance(value, dict) or len(value) != 1 or not {"timestamp", "offsets"} & set(value):
        hint = "or {timestamp: 2026-01-31T00:00:00Z}, or {offsets: {topic: {partition: offset}}}"
        refuse(f"expected earliest or latest, found {found(value)}", hint)
    if "timestamp" in value:
        return Start(kind=StartKind.TIMESTAMP, timestamp_ms=_timestamp_ms(value["timestamp"]))
    return Start(kind=StartKind.OFFSETS, offsets=_offsets(value["offsets"]))


def _timestamp_ms(value: object) -> int:
    if isinstance(value, int):
        return read_integer(0)(value)
    try:
        moment = datetime.fromisoformat(read_text(value))
    except ValueError:
        refuse(f"{found(value)} is not a time", "write 2026-01-31T00:00:00Z, or milliseconds since 1970")
    if moment.tzinfo is None:
        refuse(f"{found(value)} has no time zone", "end it with Z for UTC")
    return round((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)


def _offsets(value: object) -> dict[str, dict[int, int]]:
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
