"""What a copy changes of records on purpose: the one hook for it, as bytes change only where a feature says so (law 5).

A destination's route applies it to what is copied (`route.py`), the tail check and `verify` to what they compare. A
further change is a further field of ``Transform``, and holds for all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from mirrorlake.destinations.interface import ClassifiedBatch
from mirrorlake.destinations.stamping import stamped
from mirrorlake.kafka.records.columns import RecordColumns


class Times(StrEnum):
    """Whose time a record has at the destination."""

    SOURCE = "source"
    """The source's, whoever set it there."""
    BROKERS = "brokers"
    """The destination's brokers give every record their own."""
    COPY = "copy"
    """That of the copying, as the destination's brokers keep what a producer gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """What a copy does to records beside moving them. A value that travels in plans; pure."""

    times: Times = Times.SOURCE

    @property
    def sets_times(self) -> bool:
        """True where the batches that are sent must say the records' times, as no broker of the destination will."""
        return self.times is not Times.BROKERS

    @property
    def changes_batches(self) -> bool:
        """True where ``batches`` does anything at all."""
        return self.times is Times.COPY

    def batches(self, items: Sequence[ClassifiedBatch], *, now_ms: int) -> Sequence[ClassifiedBatch]:
        """Returns the items of a delivery in order, those with records as they are to be copied.

        There are two ways to change a batch. It may be patched: another of the same length and the same offsets, its
        checksum right, ``raw`` as it was, goes on as it is. Or it is called ``records``: then its records go on in new
        batches, as its header and bytes have them now. No item goes, and none comes: what a batch loses is a hole in
        it. The bytes that were given stay as they are, as another destination may be given the same.

        Args:
            items: as they were classified.
            now_ms: Unix milliseconds.
        """
        return stamped(items, now_ms) if self.times is Times.COPY else items

    def source_side(self, records: RecordColumns) -> RecordColumns:
        """Returns records of the source as they must be found in the copy, without what cannot be compared."""
        return records if self.times is Times.SOURCE else records.without_timestamps()

    def copy_side(self, records: RecordColumns) -> RecordColumns:
        """Returns records of the copy without what cannot be compared."""
        return records if self.times is Times.SOURCE else records.without_timestamps()


AS_IT_IS = Transform()
"""Nothing changes."""


def transform_of(*, keeps_log_append_time: bool, stamps_times: bool) -> Transform:
    """Returns the transform of a Kafka destination's settings, see ``PreserveSettings`` for what they mean."""
    if stamps_times:
        return Transform(times=Times.COPY)
    return Transform(times=Times.SOURCE if keeps_log_append_time else Times.BROKERS)
