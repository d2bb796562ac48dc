"""Which part of a source a mirror reads: offsets and times that bound each partition."""

from collections.abc import Mapping
from dataclasses import dataclass, field

OffsetsByTopic = Mapping[str, Mapping[int, int]]
"""An offset for some partitions of some topics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Bounds of every partition; the empty window holds everything.

    A partition begins at its first record at or past ``from_ms``, and ends before its first record later than
    ``until_ms``, whatever lies behind; both are Unix milliseconds, None where no time bounds it. ``from_offsets``
    (inclusive) and ``until_offsets`` (exclusive) bound single partitions; where a time is given too, the narrower of
    the two counts.
    """

    from_ms: int | None = None
    until_ms: int | None = None
    from_offsets: OffsetsByTopic = field(default_factory=dict, hash=False)
    until_offsets: OffsetsByTopic = field(default_factory=dict, hash=False)

    @property
    def is_of_times(self) -> bool:
        """True where records have to be looked at to know where a partition begins or ends."""
        return self.from_ms is not None or self.until_ms is not None

    def from_offset(self, topic: str, partition: int) -> int:
        """Returns the lowest offset that may be read of a partition."""
        return self.from_offsets.get(topic, {}).get(partition, 0)

    def until_offset(self, topic: str, partition: int) -> int | None:
        """Returns the offset before which a partition ends; None where none is given."""
        return self.until_offsets.get(topic, {}).get(partition)
