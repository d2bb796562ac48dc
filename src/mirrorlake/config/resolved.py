"""The configuration as the program uses it: both forms give these frozen values.

Everything here can be pickled into a Spark task. Sizes are bytes, times are seconds, null is spelled None and
explained where it can stand. Where a value came from is kept in ``place``, which equality ignores.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import time
from enum import StrEnum

from mirrorlake.config.problems import Place
from mirrorlake.config.process_settings import Engine, OnPark, Service
from mirrorlake.config.topics.policy import AS_THE_SOURCE, USUAL_SYNC, CountRule, SyncMode, TopicSync
from mirrorlake.filters.condition import Filter
from mirrorlake.filters.projection import Projection
from mirrorlake.foreign_layout import ForeignLayout
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import GAP_FILL_OFFSETS_MAX, GapFill, StartKind
from mirrorlake.own_topics import is_own_topic
from mirrorlake.page_compression import Compression
from mirrorlake.schedule import Schedule
from mirrorlake.schemas.naming import SubjectStrategy
from mirrorlake.schemas.rules import SubjectRules
from mirrorlake.schemas.settings import RegistrySettings
from mirrorlake.stores.settings import AzureSettings, FilesystemSettings, GcsSettings, S3Settings, StoreSettings
from mirrorlake.window import Window


class Form(StrEnum):
    """Which of the two forms a file was written in."""

    NATIVE = "native"
    MIRROR_V3 = "mirror-v3"


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
class Registry:
    """A schema registry; nothing of it is looked at while loading."""

    settings: RegistrySettings
    place: Place = field(compare=False)

    @property
    def name(self) -> str:
        """Returns what the configuration calls it."""
        return self.settings.name


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryInArchive:
    """What an archive holds of a schema registry; subjects are restored from it.

    ``name`` is what the configuration calls it, ``registry`` what the configuration called it that archived it.
    """

    name: str
    store: StoreSettings
    registry: str
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredSchemas:
    """How the subjects of a mirror's topics come from one registry to another; ``key`` and ``value``: their names.

    ``destination`` is None where all destinations are archives: those hold the source's schemas themselves.

    ``passes_keys`` and ``passes_values`` say whether what names no schema is copied as it is, ``letters_of_keys`` and
    ``letters_of_values`` whether its record becomes a dead letter, instead of parking its partition. Dead letters go to
    ``letters_template``, with no placeholder but ``{topic}`` left; empty where there are none. A service looks at the
    registries every ``interval_seconds``.
    """

    source: Registry | RegistryInArchive
    destination: Registry | None
    rules: SubjectRules
    key: SubjectStrategy
    value: SubjectStrategy
    passes_keys: bool = False
    passes_values: bool = False
    letters_of_keys: bool = False
    letters_of_values: bool = False
    letters_template: str = ""
    interval_seconds: float = 30.0
    place: Place = field(compare=False)

    @property
    def there(self) -> Registry:
        """The destination's registry, for who is asked about a Kafka destination: those have one."""
        assert self.destination is not None, "a Kafka destination of a mirror with schemas has a registry"
        return self.destination

    @property
    def has_keys(self) -> bool:
        """True where keys have schemas."""
        return self.key is not SubjectStrategy.NONE

    @property
    def has_values(self) -> bool:
        """True where values have schemas."""
        return self.value is not SubjectStrategy.NONE

    def letters_topic(self, topic: str) -> str:
        """Returns where dead letters of a source topic go; empty where there are none."""
        return self.letters_template.replace("{topic}", topic)


@dataclass(frozen=True, slots=True, kw_only=True)
class NameSelection:
    """Names, and expressions that match a whole name; exclusion wins."""

    names: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    excluded_names: tuple[str, ...] = ()
    excluded_patterns: tuple[str, ...] = ()

    def selects(self, name: str) -> bool:
        """Tells whether a name is selected."""
        if self.excludes(name):
            return False
        return name in self.names or any(re.fullmatch(pattern, name) for pattern in self.patterns)

    def excludes(self, name: str) -> bool:
        """Tells whether a name is excluded, by itself or by a pattern."""
        return name in self.excluded_names or any(re.fullmatch(p, name) for p in self.excluded_patterns)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSelection(NameSelection):
    """Which topics of the source a mirror copies.

    ``heartbeats`` is the topic that the mirror's own heartbeats lie in, empty where it has none. It is copied wherever
    it is there, and nobody misses it where it is not.
    """

    heartbeats: str = ""

    @property
    def known_names(self) -> tuple[str, ...]:
        """Returns all topics whose names the file says, each once."""
        is_more = self.heartbeats and self.heartbeats not in self.names
        return (*self.names, self.heartbeats) if is_more else self.names

    @property
    def needs_discovery(self) -> bool:
        """Tells whether the cluster must be asked for its topics to know the selection."""
        return bool(self.patterns)

    def selects(self, name: str) -> bool:
        """Tells whether a topic is selected; internal topics (``__…``) and our own never are."""
        if name.startswith("__") or is_own_topic(name):
            return False
        return name == self.heartbeats != "" or NameSelection.selects(self, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where a partition without a position begins.

    ``timestamp_ms`` is set for ``TIMESTAMP`` only; ``offsets``, by topic and partition, for ``OFFSETS`` only;
    ``max_age_seconds`` for ``MAX_AGE`` only.
    """

    kind: StartKind = StartKind.EARLIEST
    timestamp_ms: int | None = None
    max_age_seconds: float | None = None
    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSource:
    """Topics of a cluster. ``partitions`` None means all; ``group_id`` is informational, nothing commits.

    ``window`` has ends only: where a partition begins is ``start``'s to say.
    """

    cluster: Cluster
    topics: TopicSelection
    partitions: tuple[int, ...] | None = None
    start: Start = Start()
    window: Window = field(default_factory=Window)
    group_id: str | None = None

    @property
    def name(self) -> str:
        """Returns the cluster's name."""
        return self.cluster.name

    @property
    def label(self) -> str:
        """Returns what messages call it."""
        return f"cluster {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSource:
    """Folders of an archive, each of them a topic. ``partitions`` None means all, ``layout`` None mirrorlake's own.

    ``generation`` is the one read of topics that were recreated, from 1; None for the newest. Where ``skip_after``
    seconds are given, a segment that is missing for that long is passed over, and recorded as a gap; None waits.
    """

    store: Store
    topics: TopicSelection
    layout: ForeignLayout | None = None
    partitions: tuple[int, ...] | None = None
    window: Window = field(default_factory=Window)
    generation: int | None = None
    skip_after_seconds: float | None = None

    @property
    def name(self) -> str:
        """Returns the store's name."""
        return self.store.name

    @property
    def label(self) -> str:
        """Returns what messages call it."""
        return f"archive {self.name}"

    @property
    def start(self) -> Start:
        """Returns where a partition without a position begins: where its window does."""
        return Start()


Source = KafkaSource | ArchiveSource
"""What a mirror reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flush:
    """When an archive's segment is cut: whichever comes first. All bounds are above zero."""

    bytes_max: int
    records_max: int
    time_seconds_max: float
    daily_at_utc: time | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Whose committed offsets are kept at a destination, and how often they are looked at."""

    selection: NameSelection
    interval_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaDestination:
    """A Kafka cluster as destination. ``label`` is unique within its mirror.

    ``replication_rule`` None leaves it to the destination cluster; ``topic_template`` has no
    placeholder but ``{topic}`` left. ``gap_fill_offsets_max`` bounds what is filled for one log start. Without
    ``groups`` a run takes no consumer groups along. With ``stamps_provenance`` records get headers that say where they
    came from, which only mapped offsets allow.
    """

    label: str
    cluster: Cluster
    topic_template: str = "{topic}"
    offsets: OffsetMode = OffsetMode.PRESERVE
    gap_fill: GapFill = GapFill.MARKERS
    gap_fill_offsets_max: int = GAP_FILL_OFFSETS_MAX
    timestamp_mode: TimestampMode = TimestampMode.SOURCE
    creates_topics: bool = True
    partition_rule: CountRule = AS_THE_SOURCE
    replication_rule: CountRule | None = None
    sync: TopicSync = USUAL_SYNC
    groups: GroupSettings | None = None
    stamps_provenance: bool = False
    place: Place = field(compare=False)

    @property
    def partition_sync(self) -> SyncMode:
        """What is done about partitions that a destination topic lacks."""
        if self.sync.partitions is not None:
            return self.sync.partitions
        is_grown = self.creates_topics and self.offsets is OffsetMode.PRESERVE
        return SyncMode.APPLY if is_grown else SyncMode.REPORT

    @property
    def type_name(self) -> str:
        """Returns the type as users name it."""
        return "kafka"

    def name_for(self, topic: str) -> str:
        """Returns the destination topic of a source topic."""
        return self.topic_template.replace("{topic}", topic)


DEFAULT_MERGE_STEPS = ((3600.0, 64 * 1024**2), (86400.0, 1024**3))
"""After an hour 64 MiB, after a day 1 GiB: files a query engine reads at one go, and few of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSettings:
    """How segments are merged. ``steps`` are pairs of a least age in seconds and a size in bytes.

    ``compression`` None is the destination's. ``parallelism`` None is as many at one time as the engine has slots.
    ``schedule`` is when `run` merges; None for never.
    """

    steps: tuple[tuple[float, int], ...]
    files_min: int
    files_max: int
    bytes_min: int
    keep_inputs_seconds: float
    parallelism: int | None
    compression: Compression | None = None
    schedule: Schedule | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetainSettings:
    """What stays of a topic; None is no bound, and one is given. ``schedule`` is when `run` retires; None for never."""

    age_seconds_max: float | None
    bytes_max: int | None
    schedule: Schedule | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveDestination:
    """An archive as destination. ``label`` is unique within its mirror.

    ``name_template`` gives the folder below the store's root; of the placeholders only ``{topic}`` is left.
    ``snapshots_kept`` is how many snapshots of a partition stay, the newest among them; None for all. Without ``merge``
    nothing is merged, without ``retain`` everything stays, without ``groups`` no consumer group's offsets are kept.
    """

    label: str
    store: Store
    name_template: str = "{topic}"
    format: ArchiveFormat = ArchiveFormat.PARQUET
    compression: Compression = Compression.ZSTD_1
    compaction: Compaction = Compaction.NONE
    snapshots_kept: int | None = None
    flush: Flush
    merge: MergeSettings | None = None
    retain: RetainSettings | None = None
    groups: GroupSettings | None = None
    place: Place = field(compare=False)

    @property
    def kept_compression(self) -> Compression:
        """Returns how what merges and erasures make is compressed."""
        own = self.merge.compression if self.merge is not None else None
        return self.compression if own is None else own

    @property
    def schedules(self) -> Mapping[str, Schedule]:
        """Returns when `run` does what to it, by ``retain`` and ``merge``; in this order where both are due."""
        wanted = {"retain": self.retain, "merge": self.merge}
        return {
            what: settings.schedule
            for what, settings in wanted.items()
            if settings is not None and settings.schedule is not None
        }

    @property
    def type_name(self) -> str:
        """Returns the type as users name it: that of the store."""
        return self.store.type_name

    def name_for(self, topic: str) -> str:
        """Returns the folder name of a source topic; one path segment."""
        return self.name_template.replace("{topic}", topic)


Destination = KafkaDestination | ArchiveDestination


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeats:
    """What a service writes to the source of a mirror, to see it arrive: a record every so often, to one topic.

    ``replication_factor`` is that of a topic yet to be made, None for the cluster's own.
    """

    topic: str
    interval_seconds: float
    replication_factor: int | None = None
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """Source topics, their destinations (at least one, in the file's order), and policies.

    ``read_bytes_per_second`` is how fast the source is read, None for as fast as can be.
    A copy further behind than ``stale_after_seconds`` is warned of; None where none is.
    Without ``schemas`` no schemas are taken along. Without a ``filter`` all records are copied, without ``select`` as
    they are. Without ``heartbeats`` nothing is ever written to the source.
    """

    name: str
    source: Source
    destinations: tuple[Destination, ...]
    on_truncation: TruncationPolicy = TruncationPolicy.PARK
    on_recreate: RecreationPolicy = RecreationPolicy.PARK
    on_lost_tail: LostTailPolicy = LostTailPolicy.PARK
    schemas: MirroredSchemas | None = None
    filter: Filter | None = None
    select: Projection | None = None
    heartbeats: Heartbeats | None = None
    is_enabled: bool = True
    read_bytes_per_second: int | None = None
    stale_after_seconds: float | None = None
    place: Place = field(compare=False)

    def has_heartbeats_in(self, topic: str) -> bool:
        """Tells whether a topic of the source is the one that the mirror's own heartbeats lie in."""
        return self.heartbeats is not None and self.heartbeats.topic == topic

    def filter_of(self, topic: str) -> Filter | None:
        """Returns which records of a topic are copied, None for all: a filter is not about heartbeats."""
        return None if self.has_heartbeats_in(topic) else self.filter

    def select_of(self, topic: str) -> Projection | None:
        """Returns what the records of a topic become, None where they stay as they are, as heartbeats do."""
        return None if self.has_heartbeats_in(topic) else self.select

    def schemas_of(self, topic: str) -> MirroredSchemas | None:
        """Returns how the schemas of a topic come along, None where it has none, as heartbeats do."""
        return None if self.has_heartbeats_in(topic) else self.schemas


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
    registries: tuple[Registry | RegistryInArchive, ...] = ()

    @property
    def enabled_mirrors(self) -> tuple[Mirror, ...]:
        """Returns the mirrors that are to run."""
        return tuple(mirror for mirror in self.mirrors if mirror.is_enabled)

    @property
    def keeps_schedules(self) -> bool:
        """Tells whether `run` has archives to merge or to retire by itself."""
        return any(
            isinstance(destination, ArchiveDestination) and destination.schedules
            for mirror in self.enabled_mirrors
            for destination in mirror.destinations
        )

    @property
    def refusal_to_run(self) -> str | None:
        """Returns why there is nothing to run, or None where there is something."""
        if not self.mirrors:
            return "no mirrors configured"
        return None if self.enabled_mirrors else "every mirror is disabled"
