"""What a reader in Spark is told: options in, one frozen value out, or an error that names the option.

Clusters and stores are read by the rules of configuration files, secrets included: none of them may stand in an option,
as Spark shows options in plans, in its page and in event logs.
"""

import json
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml

from mirrorlake.config.client_properties import SECRET
from mirrorlake.config.loading import load_configuration, parse_places
from mirrorlake.config.problems import ConfigurationErrors
from mirrorlake.config.reading import suggestion
from mirrorlake.config.resolved import Configuration
from mirrorlake.config.units import parse_duration
from mirrorlake.errors import ConfigurationError
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import TopicPartition
from mirrorlake.spark_source.columns import SPARK_TYPES, schema_of
from mirrorlake.spark_source.request import EARLIEST, LATEST, READ_SECONDS_MAX, Bound, ReadOptions
from mirrorlake.stores.settings import StoreSettings

KAFKA_PREFIX = "kafka."
STORE_PREFIX = "store."
_SERVERS = f"{KAFKA_PREFIX}bootstrap.servers"
_PLAIN = {
    "config": "config",
    "store": "store",
    "cluster": "cluster",
    "topics": "topics",
    "columns": "columns",
    "snapshots": "snapshots",
    "pushdown": "pushdown",
    "startingoffsets": "startingOffsets",
    "endingoffsets": "endingOffsets",
    "startingtimestamp": "startingTimestamp",
    "endingtimestamp": "endingTimestamp",
    "maxoffsetspertrigger": "maxOffsetsPerTrigger",
    "minpartitions": "minPartitions",
    "readtimeout": "readTimeout",
}
"""Options without a prefix, by their lower case: Spark does not tell cases apart."""

_STORE_SECRETS = frozenset(
    ["access-key-id", "secret-access-key", "session-token", "service-account-key", "account-key", "sas-token"]
)
_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_FILE = "file:"
_NAME = "live"


def read_options(
    given: Mapping[str, str],
    environ: Mapping[str, str] | None = None,
    *,
    place: StoreSettings | ClusterSettings | None = None,
    slots: int | None = None,
) -> ReadOptions:
    """Returns what the options of a read say. Touches nothing but the configuration file and secrets' variables.

    Args:
        given: as Spark hands them over.
        environ: the environment variables; None for those of this process.
        place: what the options name, where the caller has it already.
        slots: of the session, into as many tasks a read is divided unless told; None for this process's cores.

    Raises:
        ConfigurationError: an option is unknown, missing, or not what it should be.
    """
    environ = os.environ if environ is None else environ
    options = {name.lower(): value for name, value in given.items()}
    _refuse_unknown(options)
    place = place or _place(options, environ)
    names, patterns = _topics(options)
    read = ReadOptions(
        place=place,
        names=names,
        patterns=patterns,
        columns=_columns(options),
        starting=_bound(options, "starting", EARLIEST),
        ending=_bound(options, "ending", LATEST),
        takes_filters=_yes_or_no(options, "pushdown") or False,
        are_snapshots=_yes_or_no(options, "snapshots"),
        offsets_per_trigger_max=_count(options, "maxoffsetspertrigger"),
        tasks=_count(options, "minpartitions") or slots or _cores(),
        read_seconds_max=_seconds(options, "readtimeout") or READ_SECONDS_MAX,
    )
    _check_bounds(read)
    return read


def _refuse_unknown(options: Mapping[str, str]) -> None:
    for name in options:
        if name not in _PLAIN and not name.startswith((KAFKA_PREFIX, STORE_PREFIX)):
            known = [*_PLAIN.values(), _SERVERS]
            raise ConfigurationError(f"there is no option {name!r}", hint=suggestion(name, known), option=name)


# -- places ---------------------------------------------------------------------------------------------------


def _place(options: Mapping[str, str], environ: Mapping[str, str]) -> StoreSettings | ClusterSettings:
    ways = [name for name in ("store", "cluster", _SERVERS) if name in options]
    if len(ways) != 1:
        raise ConfigurationError(
            f"where to read is told {'twice' if ways else 'nowhere'}{': ' if ways else ''}{', '.join(ways)}",
            hint=f"set one of the options store, cluster and {_SERVERS}",
        )
    (way,) = ways
    if way == _SERVERS or (way == "store" and "://" in options["store"]):
        if "config" in options:
            raise ConfigurationError(f"the option config says nothing beside {way}", hint="leave one of them out")
        return _described(options, environ, is_store=way == "store")
    if (prefix := next((name for name in options if name.startswith((KAFKA_PREFIX, STORE_PREFIX))), None)) is not None:
        raise ConfigurationError(f"the option {prefix} says nothing beside {way}: {options[way]} is in a file")
    return _named(options, environ, way)


def _named(options: Mapping[str, str], environ: Mapping[str, str], way: str) -> StoreSettings | ClusterSettings:
    if "config" not in options:
        raise ConfigurationError(
            f"the option {way} names {options[way]!r}, and no configuration says what that is",
            hint="set the option config to the path of the file"
            + (", or write the store as an address such as file:///var/lib/mirrorlake" if way == "store" else ""),
        )
    return place_named(load_configuration(Path(options["config"]), environ), way, options[way])


def place_named(config: Configuration, kind: str, name: str) -> StoreSettings | ClusterSettings:
    """Returns the ``store`` or ``cluster`` (the ``kind``) that a configuration calls ``name``.

    Raises:
        ConfigurationError: it has none of that name.
    """
    known: dict[str, StoreSettings | ClusterSettings] = (
        {each.name: each.settings for each in config.stores}
        if kind == "store"
        else {each.name: each.settings for each in config.clusters}
    )
    if name not in known:
        hint = suggestion(name, list(known)) if known else f"the file has no {kind}s"
        raise ConfigurationError(f"{config.file} has no {kind} {name!r}", hint=hint)
    return known[name]


def _described(
    options: Mapping[str, str], environ: Mapping[str, str], *, is_store: bool
) -> StoreSettings | ClusterSettings:
    """Returns a store or cluster that the options describe, read by the rules of configuration files."""
    section = {"stores": {_NAME: _store_tree(options)}} if is_store else {"clusters": {_NAME: _cluster_tree(options)}}
    try:
        places = parse_places(yaml.safe_dump(section).encode(), file="the options", environ=environ)
    except ConfigurationErrors as errors:
        first = errors.problems[0]
        what = first.place.field.removeprefix(f"stores.{_NAME}").removeprefix(f"clusters.{_NAME}").strip(".")
        raise ConfigurationError(f"in the options, {what or 'address'}: {first.message}", hint=first.hint) from None
    return places.stores[0].settings if is_store else places.clusters[0].settings


def _cluster_tree(options: Mapping[str, str]) -> dict[str, object]:
    properties = {
        name.removeprefix(KAFKA_PREFIX): value
        for name, value in options.items()
        if name.startswith(KAFKA_PREFIX) and name != _SERVERS
    }
    servers = [server.strip() for server in options[_SERVERS].split(",")]
    return {
        "bootstrap-servers": servers,
        "properties": {name: _value(name, value, is_secret=name in SECRET) for name, value in properties.items()},
    }


def _store_tree(options: Mapping[str, str]) -> dict[str, object]:
    given = {name.removeprefix(STORE_PREFIX): value for name, value in options.items() if name.startswith(STORE_PREFIX)}
    tree: dict[str, object] = {
        name: _value(name, value, is_secret=name in _STORE_SECRETS) for name, value in given.items()
    }
    address = urlsplit(options["store"])
    if address.username or address.password or address.query or address.fragment:
        raise ConfigurationError("the address in the option store holds more than a place", hint="leave it out of it")
    path = unquote(address.path)
    match address.scheme:
        case "file":
            return {"type": "filesystem", "root": path, **tree}
        case "s3" | "s3a":
            return {"type": "s3", "bucket": address.netloc, "prefix": path.strip("/"), **tree}
        case "gs":
            return {"type": "gcs", "bucket": address.netloc, "prefix": path.strip("/"), **tree}
        case "azure":
            container, _, prefix = path.strip("/").partition("/")
            return {"type": "azure", "account": address.netloc, "container": container, "prefix": prefix, **tree}
    raise ConfigurationError(
        f"the option store has an address of an unknown kind: {address.scheme}://",
        hint="stores are file:///folder, s3://bucket/prefix, gs://bucket/prefix and azure://account/container/prefix",
    )


def _value(name: str, value: str, *, is_secret: bool) -> object:
    if not is_secret or _VARIABLE.fullmatch(value):
        return value
    if value.startswith(_FILE):
        return {"file": value.removeprefix(_FILE).replace("///", "/", 1)}
    raise ConfigurationError(
        f"the option {name} holds a secret, and Spark shows options in plans and logs",
        hint="write ${NAME} of an environment variable, or file:/path of it; or name a configuration file in the "
        "option config",
        option=name,
    )


# -- what of it -----------------------------------------------------------------------------------------------


def _topics(options: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    given = [each.strip() for each in _listed(options.get("topics", "")) if each.strip()]
    if not given:
        raise ConfigurationError(
            "the option topics is missing", hint="names with commas between them, expressions between slashes: /o.*/"
        )
    patterns = tuple(each[1:-1] for each in given if len(each) > 1 and each[0] == each[-1] == "/")
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigurationError(f"the option topics has no expression in /{pattern}/: {error}") from None
    names = tuple(dict.fromkeys(each for each in given if each[0] != "/" or each[-1] != "/"))
    return names, patterns


def _listed(text: str) -> list[str]:
    """Returns what commas part, but for those inside an expression between slashes."""
    return re.findall(r"\s*/(?:[^/]|/(?!\s*(?:,|$)))*/(?=\s*(?:,|$))|[^,]+", text)


def _columns(options: Mapping[str, str]) -> tuple[str, ...]:
    if "columns" not in options:
        return tuple(SPARK_TYPES)
    names = tuple(name.strip() for name in options["columns"].split(",") if name.strip())
    schema_of(names)
    return names


def _bound(options: Mapping[str, str], side: str, default: str) -> Bound:
    offsets, timestamp = options.get(f"{side}offsets"), options.get(f"{side}timestamp")
    if offsets is not None and timestamp is not None:
        raise ConfigurationError(f"{side}Offsets and {side}Timestamp are set", hint="leave one of them out")
    if timestamp is not None:
        return Bound(timestamp_ms=_milliseconds(timestamp, f"{side}Timestamp"))
    text = (offsets or default).strip()
    if text.lower() in (EARLIEST, LATEST):
        return Bound(word=text.lower())
    return Bound(offsets=offsets_of(text, what=f"the option {side}Offsets"))


def _milliseconds(text: str, option: str) -> int:
    if re.fullmatch(r"[0-9]{1,18}", text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(
            f"the option {option} is no time: {text[:60]!r}",
            hint="write milliseconds since 1970, or a time such as 2026-01-31T12:00:00Z",
        ) from None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return int(moment.timestamp() * 1000)


def offsets_of(text: str, *, what: str) -> dict[TopicPartition, int]:
    """Returns offsets by partition, of Spark's JSON: ``{"orders": {"0": 12}}``; -2 is the earliest, -1 the latest.

    Raises:
        ConfigurationError: it is not such a text; ``what`` begins the message.
    """
    try:
        found = {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partitions in json.loads(text).items()
            for partition, offset in partitions.items()
        }
    except (ValueError, AttributeError, TypeError):
        found = {}
    if not found or any(offset < -2 for offset in found.values()):
        raise ConfigurationError(
            f"{what} is not earliest, latest, or offsets by partition: {text[:60]!r}",
            hint='offsets are written {"orders": {"0": 12, "1": -2}}, with -2 for the earliest and -1 for the latest',
        )
    return found


def _yes_or_no(options: Mapping[str, str], name: str) -> bool | None:
    text = options.get(name)
    if text is None:
        return None
    if text.lower() not in ("true", "false"):
        raise ConfigurationError(f"the option {_PLAIN[name]} is not true or false: {text[:60]!r}")
    return text.lower() == "true"


def _count(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,15}", text) or not int(text):
        raise ConfigurationError(f"the option {_PLAIN[name]} is not a number above zero: {text[:60]!r}")
    return int(text)


def _seconds(options: Mapping[str, str], name: str) -> float | None:
    text = options.get(name)
    if text is None:
        return None
    try:
        seconds = parse_duration(text)
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise ConfigurationError(f"the option {_PLAIN[name]} is not a time above zero such as 10m: {text[:60]!r}")
    return seconds


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _check_bounds(read: ReadOptions) -> None:
    if not read.is_live and (read.starting.timestamp_ms is not None or read.ending.timestamp_ms is not None):
        raise ConfigurationError(
            "startingTimestamp and endingTimestamp are of live Kafka, whose brokers look times up",
            hint="filter an archive by its column timestamp: files and row groups outside are not read",
        )
