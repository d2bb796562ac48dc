"""What a mirror reads: topics of a cluster, or folders of an archive."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mirrorlake.config.systems.cluster import Cluster
from mirrorlake.config.systems.store import Store
from mirrorlake.config.topics.selection import TopicSelection
from mirrorlake.foreign_layout import ForeignLayout
from mirrorlake.offsets import StartKind
from mirrorlake.window import Window


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
