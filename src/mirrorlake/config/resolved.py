"""The configuration as the program uses it: both forms give these frozen values.

Everything here can be pickled into a Spark task. Sizes are bytes, times are seconds, null is spelled None and
explained where it can stand. Where a value came from is kept in ``place``, which equality ignores.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import time
from enum import StrEnum
from pathlib import Path

from mirrorlake.config.problems import Place
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import GAP_FILL_OFFSETS_MAX, GapFill, StartKind
from mirrorlake.own_topics import is_own_topic
from mirrorlake.page_compression import Compression
from mirrorlake.secret import Secret
from mirrorlake.stores.settings import AzureSettings, FilesystemSettings, GcsSettings, S3Settings, StoreSettings


class Form(StrEnum):
    """Which of the two forms a file was written in."""

    NATIVE = "native"
    MIRROR_V3 = "mirror-v3"


class OnPark(StrEnum):
    """What the process does when a partition is parked."""

    CONTINUE = "continue"
    EXIT = "exit"


class OffsetMode(StrEnum):
    """How offsets at a Kafka destination relate to those of the source."""

    PRESERVE = "preserve"
    MAP = "map"


class TimestampMode(StrEnum):
    """Whose timestamp a record carries at a Kafka destination."""

    SOURCE = "source"
    DESTINATION = "destination"


class ArchiveFormat(StrEnum):
    """What a segment file holds."""

    PARQUET = "parquet"
    NDJSON = "ndjson"
    LOG = "log"


class Compaction(StrEnum):
    """Whether segments are every record, or snapshots of the latest record per key."""

    NONE = "none"
    LOG = "log"


class TruncationPolicy(StrEnum):
    """What happens when the source's log start has moved past a position."""

    PARK = "park"
    SKIP = "skip"


class RecreationPolicy(StrEnum):
    """What happens when a source topic was deleted and recreated."""

    PARK = "park"
    RESTART = "restart"
    """What was copied is deleted, and the new topic is copied in its place; mapped copies go on behind it."""
    NEW_TOPIC = "new-topic"
    """What was copied stays; the new topic goes to another topic or folder, the name with a number."""


class LostTailPolicy(StrEnum):
    """What happens when a destination with mapped offsets has lost its newest records."""

    PARK = "park"
    COPY_AGAIN = "copy-again"
    """They are copied once more, behind what is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A Kafka cluster: how to talk to it, and where the file says so."""

    settings: ClusterSettings
    place: Place = field(compare=False)

    @property
    def name(self) -> str:
        """Returns what the configuration calls it."""
        return self.settings.name

    def is_same_as(self, other: "Cluster") -> bool:
        """Tells whether both definitions share a bootstrap server, so that they reach the same cluster."""
        return not set(self.settings.bootstrap_servers).isdisjoint(other.settings.bootstrap_servers)


STORE_TYPES: Mapping[type[StoreSettings], str] = {
    FilesystemSettings: "filesystem",
    S3Settings: "s3",
    GcsSettings: "gcs",
    AzureSettings: "azure",
}
"""The types of stores as users name them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A store of archives; nothing of it is looked at while loading."""

    name: str
    settings: StoreSettings
    place: Place = field(compare=False)

    @property
    def type_name(self) -> str:
        """Returns the type as users name it."""
        return STORE_TYPES[type(self.settings)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSelection:
    """Which topics of the source a mirror copies: names, and expressions that match a whole name."""

    names: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    excluded_names: tuple[str, ...] = ()
    excluded_patterns: tuple[str, ...] = ()

    @property
    def needs_discovery(self) -> bool:
        """Tells whether the cluster must be asked for its topics to know the selection."""
        return bool(self.patterns)

    def selects(self, topic: str) -> bool:
        """Tells whether a topic is selected; internal topics (``__…``) and our own never are, exclusion wins."""
        if topic.startswith("__") or is_own_topic(topic) or self.excludes(topic):
            return False
        return topic in self.names or any(re.fullmatch(pattern, topic) for pattern in self.patterns)

    def excludes(self, topic: str) -> bool:
        """Tells whether a topic is excluded by name or by pattern."""
        return topic in self.excluded_names or any(re.fullmatch(p, topic) for p in self.excluded_patterns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where a partition without a position begins.

    ``timestamp_ms`` is set for ``TIMESTAMP`` only; ``offsets``, by topic and partition, for ``OFFSETS`` only.
    """

    kind: StartKind = StartKind.EARLIEST
    timestamp_ms: int | None = None
    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a mirror reads. ``partitions`` None means all; ``group_id`` is informational, nothing commits."""

    cluster: Cluster
    topics: TopicSelection
    partitions: tuple[int, ...] | None = None
    start: Start = Start()
    group_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Flush:
    """When an archive's segment is cut: whichever comes first. All bounds are above zero."""

    bytes_max: int
    records_max: int
    time_seconds_max: float
    daily_at_utc: time | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaDestination:
    """A Kafka cluster as destination. ``label`` is unique within its mirror.

    ``replication_factor`` None leaves it to the destination cluster; ``topic_template`` has no
    placeholder but ``{topic}`` left. ``gap_fill_offsets_max`` bounds what is filled for one log start.
    """

    label: str
    cluster: Cluster
    topic_template: str = "{topic}"
    offsets: OffsetMode = OffsetMode.PRESERVE
    gap_fill: GapFill = GapFill.MARKERS
    gap_fill_offsets_max: int = GAP_FILL_OFFSETS_MAX
    timestamp_mode: TimestampMode = TimestampMode.SOURCE
    creates_topics: bool = True
    replication_factor: int | None = None
    place: Place = field(compare=False)

    @property
    def type_name(self) -> str:
        """Returns the type as users name it."""
        return "kafka"

    def name_for(self, topic: str) -> str:
        """Returns the destination topic of a source topic."""
        return self.topic_template.replace("{topic}", topic)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveDestination:
    """An archive as destination. ``label`` is unique within its mirror.

    ``name_template`` gives the folder below the store's root; of the placeholders only ``{topic}`` is left.
    ``snapshots_kept`` is how many snapshots of a partition stay, the newest among them; None for all.
    """

    label: str
    store: Store
    name_template: str = "{topic}"
    format: ArchiveFormat = ArchiveFormat.PARQUET
    compression: Compression = Compression.ZSTD_1
    compaction: Compaction = Compaction.NONE
    snapshots_kept: int | None = None
    flush: Flush
    place: Place = field(compare=False)

    @property
    def type_name(self) -> str:
        """Returns the type as users name it: that of the store."""
        return self.store.type_name

    def name_for(self, topic: str) -> str:
        """Returns the folder name of a source topic; one path segment."""
        return self.name_template.replace("{topic}", topic)


Destination = KafkaDestination | ArchiveDestination


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """Source topics, their destinations (at least one, in the file's order), and policies."""

    name: str
    source: Source
    destinations: tuple[Destination, ...]
    on_truncation: TruncationPolicy = TruncationPolicy.PARK
    on_recreate: RecreationPolicy = RecreationPolicy.PARK
    on_lost_tail: LostTailPolicy = LostTailPolicy.PARK
    is_enabled: bool = True
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """How much of the machine, or of a cluster, the engine uses. ``master`` None is one machine.

    ``largest_batch_bytes`` is what one record batch of a source may decompress to. ``spark_secrets`` are those of
    Spark's settings that must never be shown; ``ui_port`` is on loopback.
    """

    lanes: int
    lease_seconds: float = 5.0
    discovery_seconds: float = 30.0
    tail_check_seconds: float = 60.0
    stop_seconds: float = 60.0
    memory_bytes: int = 2 * 1024**3
    largest_batch_bytes: int = 512 * 1024**2
    batch_slots: int = 1
    master: str | None = None
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    spark_secrets: Mapping[str, Secret] = field(default_factory=dict)
    start_timeout_seconds: float = 60.0
    ui_port: int | None = None
    event_log: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenAddress:
    """A local address to listen on. ``host`` without brackets, ``port`` 0 takes any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The listeners of ``run`` and the seconds between heartbeats in the log; None where switched off."""

    metrics: ListenAddress | None = None
    control: ListenAddress | None = None
    heartbeat_seconds: float | None = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """Everything one process is told. ``destination_types`` in order of appearance, each once.

    In the mirror-v3 form ``mirrors`` may be empty; ``refusal_to_run`` says why ``run`` must decline then.
    """

    file: str
    form: Form
    clusters: tuple[Cluster, ...]
    stores: tuple[Store, ...]
    mirrors: tuple[Mirror, ...]
    destination_types: tuple[str, ...]
    engine: Engine
    service: Service
    on_park: OnPark

    @property
    def enabled_mirrors(self) -> tuple[Mirror, ...]:
        """Returns the mirrors that are to run."""
        return tuple(mirror for mirror in self.mirrors if mirror.is_enabled)

    @property
    def refusal_to_run(self) -> str | None:
        """Returns why there is nothing to run, or None where there is something."""
        if not self.mirrors:
            return "no mirrors configured"
        return None if self.enabled_mirrors else "every mirror is disabled"
