"""The configuration as the program uses it: both forms give these frozen values.

Those of sources, destinations and schemas lie in folders of their own. Everything can be pickled into a Spark task.
Sizes are bytes, times are seconds, null is spelled None and explained where it can stand. Where a value came from is
kept in ``place``, which equality ignores.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from mirrorlake.config.destinations.archive import ArchiveDestination
from mirrorlake.config.destinations.destination import Destination
from mirrorlake.config.destinations.kafka import KafkaDestination
from mirrorlake.config.problems import Place
from mirrorlake.config.process_settings import Engine, OnPark, Service
from mirrorlake.config.schemas.mirrored import MirroredSchemas, Registry, RegistryInArchive
from mirrorlake.config.sources.source import Source
from mirrorlake.config.systems.cluster import Cluster
from mirrorlake.config.systems.store import Store
from mirrorlake.filters.condition import Filter
from mirrorlake.filters.projection import Projection


class Form(StrEnum):
    """Which of the two forms a file was written in."""

    NATIVE = "native"
    MIRROR_V3 = "mirror-v3"


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

    @property
    def kafka_destinations(self) -> tuple[KafkaDestination, ...]:
        """Those of the destinations that are Kafka clusters, in the file's order."""
        return tuple(each for each in self.destinations if isinstance(each, KafkaDestination))

    @property
    def archive_destinations(self) -> tuple[ArchiveDestination, ...]:
        """Those of the destinations that are archives, of segments or of snapshots, in the file's order."""
        return tuple(each for each in self.destinations if isinstance(each, ArchiveDestination))

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
        archives = (destination for mirror in self.enabled_mirrors for destination in mirror.archive_destinations)
        return any(destination.schedules for destination in archives)

    @property
    def refusal_to_run(self) -> str | None:
        """Returns why there is nothing to run, or None where there is something."""
        if not self.mirrors:
            return "no mirrors configured"
        return None if self.enabled_mirrors else "every mirror is disabled"
