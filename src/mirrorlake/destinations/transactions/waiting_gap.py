"""A gap that waits to be filled, and what its partition is told in the end."""

import asyncio
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass

from mirrorlake.destinations.transactions.claim import PartitionClaim
from mirrorlake.destinations.transactions.gap_cost import filler_records
from mirrorlake.errors import MirrorlakeError, PositionMovedError
from mirrorlake.kafka.control.descriptions import AppendState
from mirrorlake.offsets import GapFill, OffsetRange, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class GapToFill:
    """A gap at one destination partition, whose log ends where ``offsets`` begins.

    ``timestamp_ms`` and ``has_key`` are for fillers: a neighbour's time, and whether the topic needs keys.
    ``moved`` is called with every new log end on the way. ``is_lettered`` where its records have dead letters: what
    lies inside it before its first round is looked at anew then, and not taken for a marker.
    """

    partition: TopicPartition
    offsets: OffsetRange
    gap_fill: GapFill
    batch_bytes_max: int
    timestamp_ms: int
    has_key: bool
    moved: Callable[[int], None]
    is_lettered: bool = False


@dataclass(slots=True)
class WaitingGap:
    """A gap being filled, who waits for it, and its partition's state where the round before has just read it."""

    gap: GapToFill
    done: asyncio.Future[PartitionClaim]
    state: AppendState | None = None

    @property
    def start(self) -> int:
        """Where the gap begins."""
        return self.gap.offsets.start_offset

    @property
    def next_end(self) -> int:
        """Where the log ends after the next round."""
        return self.start + self.records + 1

    @property
    def records(self) -> int:
        """Filler records of the next round."""
        if self.gap.gap_fill is not GapFill.FILLER:
            return 0
        return filler_records(len(self.gap.offsets), batch_bytes_max=self.gap.batch_bytes_max)

    def may_begin_at(self, end: int) -> bool:
        """Returns whether a round may begin where the log ends there: inside the gap, or at its very start."""
        return self.start <= end <= (self.start if self.gap.is_lettered else self.gap.offsets.end_offset)

    def answer(self, claim: PartitionClaim | MirrorlakeError) -> None:
        """Tells who waits what to go on with, or why it cannot."""
        if isinstance(claim, MirrorlakeError):
            self.fail(claim)
        elif not self.done.done():
            self.done.set_result(claim)

    def fail(self, error: MirrorlakeError) -> None:
        """Tells who waits that the gap was not filled."""
        if not self.done.done():
            self.done.set_exception(copy(error))

    def moved_error(self, end: int) -> MirrorlakeError:
        """Returns what it means that the log ends outside the gap, or inside where its records have dead letters."""
        if self.gap.is_lettered and self.start < end <= self.gap.offsets.end_offset:
            return PositionMovedError(
                f"destination {self.gap.partition} ends at offset {end}, and not at {self.start}, from where on "
                f"the records up to {self.gap.offsets.end_offset} have dead letters: a batch of another writer of this "
                f"mirror came late, and those below {end} may be in the copy too",
                hint="verify says how many are; one of the two has to be left out by who reads both",
                expected_offset=self.start,
                found_offset=end,
            )
        return PositionMovedError(
            f"destination {self.gap.partition} ends at offset {end}, outside the gap {self.gap.offsets} that was to be "
            "filled: another writer of this mirror was there, or a marker came twice",
            expected_offset=self.start,
            found_offset=end,
        )
