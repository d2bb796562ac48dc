"""What of an archive a mirror reads: folders of topics, and ranges of partitions. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedRange:
    """What of an archived partition is read: offsets from ``start_offset`` on, and below ``end_offset``, None for all.

    A source looks as if its log began and ended there. What the archive does not hold is not made by it: the log begins
    where the chain does where that is later, and ends where the chain does where that is earlier.

    ``passed`` are offsets that no segment had for so long that the partition goes on behind them; what of them has come
    since is read all the same by whoever stands before it.

    ``snapshot`` is the file's name of the one snapshot that is read; None where there are no snapshots, or any will do.

    Raises:
        ValueError: it begins below 0 or ends before it begins.
    """

    start_offset: int = 0
    end_offset: int | None = None
    passed: tuple[OffsetRange, ...] = ()
    snapshot: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.start_offset <= (self.start_offset if self.end_offset is None else self.end_offset):
            raise ValueError(f"not a range of offsets: [{self.start_offset}, {self.end_offset})")

    def passes(self, hole: OffsetRange) -> bool:
        """Tells whether the partition goes on behind these offsets, which no segment has."""
        return any(
            each.start_offset <= hole.start_offset and hole.end_offset <= each.end_offset for each in self.passed
        )

    def start(self, chain_start: int) -> int:
        """Returns where a log begins of which the archive holds all from ``chain_start`` on."""
        return max(self.start_offset, chain_start)

    def end(self, chain_end: int) -> int:
        """Returns where a log ends (exclusive) of which the archive holds all below ``chain_end``."""
        return chain_end if self.end_offset is None else min(self.end_offset, chain_end)


ALL = ArchivedRange()
"""Whatever the archive holds of a partition."""


def ranges_of(window: Window) -> Mapping[TopicPartition, ArchivedRange]:
    """Returns what the offsets of a window leave of the partitions that it names."""
    bounded = {
        TopicPartition(topic, partition)
        for offsets in (window.from_offsets, window.until_offsets)
        for topic, by_partition in offsets.items()
        for partition in by_partition
    }
    return {
        each: ArchivedRange(
            start_offset=window.from_offset(each.topic, each.partition),
            end_offset=window.until_offset(each.topic, each.partition),
        )
        for each in bounded
    }
