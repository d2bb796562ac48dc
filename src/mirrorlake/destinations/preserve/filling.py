"""The gaps of one partition whose copy keeps offsets, in one lease: which of them may be filled, and that they are.

Fillers with which the destination's log begins are part of it: they are deleted, so that the log begins where the
source's does (``log_start``).
"""

import asyncio
from collections.abc import Iterator, Sequence

from mirrorlake.clock import Clock
from mirrorlake.destinations.interface import Progress
from mirrorlake.destinations.output_batches import OutputGap
from mirrorlake.destinations.preserve.log_start import LogStart
from mirrorlake.destinations.preserve.refusals import gap_refused, not_owner, too_long
from mirrorlake.destinations.preserve.send_queue import Fill
from mirrorlake.destinations.preserve.settings import PreserveSettings, Step
from mirrorlake.destinations.transactions.claim import PartitionClaim
from mirrorlake.destinations.transactions.gap_filler import GapFiller
from mirrorlake.destinations.transactions.waiting_gap import GapToFill
from mirrorlake.offsets import Gap, GapFill, GapKind, OffsetRange, gaps_of
from mirrorlake.stores.crash_points import CrashPoint, no_crash


class Filling:
    """Says which gaps of a partition may be filled, and has its shard's filler fill them.

    Args:
        settings: what goes where.
        filler: of the shard.
        log_start: the beginning of the destination partition.
        clock: the wall clock tells the time of fillers with no record before them.
        from_seconds: reading of ``clock.elapsed_seconds`` before which an owner before may still be at work, and no gap
            is filled.
        not_owner_because: why this process may fill no gap; empty where it may.
        crash_point: called before every step; for tests.
    """

    def __init__(
        self,
        settings: PreserveSettings,
        filler: GapFiller,
        log_start: LogStart,
        *,
        clock: Clock,
        from_seconds: float,
        not_owner_because: str,
        crash_point: CrashPoint = no_crash,
    ) -> None:
        self._settings = settings
        self._filler = filler
        self._log_start = log_start
        self._clock = clock
        self._from = from_seconds
        self._not_owner_because = not_owner_because
        self._crash_point = crash_point
        self._own_ids: frozenset[int] = frozenset()
        self._fillers_end = 0

    def take_own_ids(self, own_ids: frozenset[int]) -> None:
        """Takes every producer id that is ours, by which fillers are told from everything else."""
        self._own_ids = own_ids

    # --- the log's beginning ------------------------------------------------------------------------------

    async def look_at_start(self, end_offset: int) -> None:
        """Reads which fillers the log begins with: of an owner who died before it deleted them, or of a gap.

        Args:
            end_offset: of the log, exclusive.

        Raises:
            MirrorlakeError: the log could not be read.
        """
        self._fillers_end = await self._log_start.fillers_end(end_offset, self._own_ids)

    async def delete_found(self, log_start_offset: int) -> None:
        """Deletes the fillers that were found, as far as the source's log start; at once where there are none.

        Raises:
            DestinationForeignError: something else than fillers is there; nothing was deleted.
            MirrorlakeError: it was not done.
        """
        if self._fillers_end:
            await self._delete_fillers(min(self._fillers_end, log_start_offset))

    async def _delete_fillers(self, before: int) -> None:
        self._crash_point(Step.DELETE_FILLERS)
        await self._log_start.delete_all(before, self._own_ids)
        self._fillers_end = 0

    # --- which gaps ---------------------------------------------------------------------------------------

    def check_allowed(self, output: OutputGap) -> None:
        """Checks that gaps are not refused.

        Raises:
            SourceGapError: they are.
        """
        if self._settings.gap_fill is GapFill.REFUSE:
            raise gap_refused(output, self._settings)

    def gaps(self, offsets: OffsetRange, known: Sequence[Gap]) -> Iterator[Gap]:
        """Yields the gaps to fill in offsets without a record, in order.

        Args:
            offsets: they account for all of these.
            known: those of another kind than absent, in offset order.

        Raises:
            SourceGapError: a hole is longer than may be filled; those before it have been yielded.
        """
        for gap in gaps_of(offsets, known):
            if gap.kind is GapKind.MISSING and len(gap.offsets) > self._settings.gap_fill_offsets_max:
                raise too_long(gap.offsets, self._settings)
            yield gap

    async def fill_to(self, log_start: int, *, position: int, timestamp_ms: int | None) -> Fill | None:
        """Returns how ``[position, log_start)`` is filled, None where it may not be.

        It may where the copy is new, by fillers that are deleted at once, so that the destination's log begins where
        the source's does; later where the policy says so, as ``gap_fill`` says.

        Args:
            log_start: of the source.
            position: of the copy, below it.
            timestamp_ms: Unix milliseconds of the record before it, None where none is known.

        Raises:
            SourceGapError: that is more than may be filled.
            MirrorlakeError: the log could not be read.
        """
        if self._settings.gap_fill is GapFill.REFUSE:
            return None
        offsets = OffsetRange(start_offset=position, end_offset=log_start)
        is_new = position == 0 or await self._log_start.holds_only_fillers(position, self._own_ids)
        if not (is_new or self._settings.skips_truncated):
            return None
        if len(offsets) > self._settings.gap_fill_offsets_max:
            raise too_long(offsets, self._settings)
        self._fillers_end = 0
        return Fill(Gap(offsets=offsets, kind=GapKind.TRUNCATED), timestamp_ms, deletes=is_new)

    # --- filling ------------------------------------------------------------------------------------------

    async def fill(self, fill: Fill, progress: Progress, *, batch_bytes_max: int) -> PartitionClaim | None:
        """Fills a gap; returns the claim to go on with, None where the lease ends before it may be filled.

        The claim's ``end_offset`` is short of the gap's where time ran out. Nothing may be in flight meanwhile.

        Args:
            fill: the gap.
            progress: of the sink; it takes every offset that is filled.
            batch_bytes_max: the largest batch that the destination takes.

        Raises:
            NotOwnerError: this process could not take the mirror over.
            MirrorlakeError: it was not filled; the destination must be read again.
        """
        if not await self._may_fill(fill):
            return None
        self._crash_point(Step.FILL_GAP)
        claim = await self._filler.fill(self._gap_to_fill(fill, progress, batch_bytes_max))
        if fill.deletes and claim.end_offset == fill.gap.offsets.end_offset:
            await self._delete_fillers(claim.end_offset)
        return claim

    async def _may_fill(self, fill: Fill) -> bool:
        """Waits until no owner before can still be at work; False where this lease ends before that."""
        if self._not_owner_because:
            raise not_owner(fill.gap.offsets, self._settings, self._not_owner_because)
        if self._from >= self._filler.until_seconds:
            return False
        await asyncio.sleep(max(0.0, self._from - self._clock.elapsed_seconds()))
        return True

    def _gap_to_fill(self, fill: Fill, progress: Progress, batch_bytes_max: int) -> GapToFill:
        now_ms = int(self._clock.now_seconds() * 1000)

        def moved(end_offset: int) -> None:
            filled = OffsetRange(start_offset=progress.position, end_offset=end_offset)
            progress.add_gap(Gap(offsets=filled, kind=fill.gap.kind))
            progress.position = end_offset

        return GapToFill(
            partition=self._settings.destination,
            offsets=fill.gap.offsets,
            gap_fill=GapFill.FILLER if fill.deletes else self._settings.gap_fill,
            batch_bytes_max=batch_bytes_max,
            # No destination takes one that is far ahead of its clock.
            timestamp_ms=now_ms if fill.timestamp_ms is None else min(fill.timestamp_ms, now_ms),
            has_key=self._settings.destination_is_compacted,
            moved=moved,
            is_lettered=fill.gap.kind is GapKind.DEAD_LETTERED,
        )
