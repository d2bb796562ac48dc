"""What a reader in Spark is to read: the frozen value that its options become.

It travels to every task, so it loads neither the configuration's models nor anything else that makes one.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import TopicPartition
from mirrorlake.stores.settings import StoreSettings

EARLIEST = "earliest"
LATEST = "latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Where reading begins or ends: a word, offsets by partition, or a time in Unix milliseconds; one of them."""

    word: str | None = None
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    timestamp_ms: int | None = None


READ_SECONDS_MAX = 600.0
"""A megabyte takes a second where a store is slow, and a store of ours is asked again for two minutes at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What to read.

    Attributes:
        place: a store of archives, or a cluster.
        names: of topics; in an archive, of their folders.
        patterns: expressions that match a whole name, without slashes.
        columns: which, in order.
        starting: where each partition begins.
        ending: where it ends; for batches only.
        takes_filters: whether a query's filters leave files and ranges out; only for a DataFrame of a single query.
        are_snapshots: whether the archive holds views; None where its files say it.
        offsets_per_trigger_max: of one micro-batch of a stream; None for all there is.
        tasks: into how many tasks a read is divided, where there is enough to read.
        read_seconds_max: for which a task waits for what it reads next.
    """

    place: StoreSettings | ClusterSettings
    names: tuple[str, ...]
    patterns: tuple[str, ...]
    columns: tuple[str, ...]
    starting: Bound
    ending: Bound
    takes_filters: bool
    are_snapshots: bool | None
    offsets_per_trigger_max: int | None
    tasks: int
    read_seconds_max: float = READ_SECONDS_MAX

    @property
    def is_live(self) -> bool:
        """Whether this is of a cluster."""
        return isinstance(self.place, ClusterSettings)

    def selects(self, topic: str) -> bool:
        """Tells whether a topic, or an archive's folder, is one of those to be read."""
        return topic in self.names or any(re.fullmatch(pattern, topic) for pattern in self.patterns)

    @property
    def cluster(self) -> ClusterSettings:
        """The cluster; only where ``is_live``."""
        assert isinstance(self.place, ClusterSettings)
        return self.place

    @property
    def store(self) -> StoreSettings:
        """The store of the archive; only where not ``is_live``."""
        assert not isinstance(self.place, ClusterSettings)
        return self.place
