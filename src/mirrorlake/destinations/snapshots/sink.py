"""Destination of `compaction: log`: cuts snapshots of one partition inside one lease and publishes them.

Order of effects for one snapshot: read the position from the listing, take the records from there on, and once the end
is known write the view, claim it, publish, delete the claim (``archive.publish``). Nothing unpublished is worth
anything: at any trouble everything is dropped and the position is read again.

Where a tombstone may be gone (``archive.snapshots.tombstones``) the log is read on all the same, as long as every
offset has its record. At the first that has none the log is read from its start, not from the position, and the view
built anew; everything else is the same.
"""

from collections.abc import Awaitable, Callable
from concurrent.futures import Executor

import numpy as np

from mirrorlake.archive.chain import Chain, Segment
from mirrorlake.archive.claims import SEGMENT_RAW_BYTES_MAX, RangeClaim
from mirrorlake.archive.ends.lost_end import check_end_stands
from mirrorlake.archive.envelope import SegmentFooter, SnapshotState
from mirrorlake.archive.newest import Newest, check_newest
from mirrorlake.archive.origin import Origin
from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.archive.snapshots.tombstones import (
    SnapshotRule,
    first_missing_offset,
    is_read_in_time,
    may_miss_tombstones,
)
from mirrorlake.archive.snapshots.view import read_snapshot_footer
from mirrorlake.clock import Clock
from mirrorlake.destinations.archive.cut import Cut, CutRule, find_cut
from mirrorlake.destinations.archive.cutting_sink import CuttingSink
from mirrorlake.destinations.archive.segment_encoding import decoded
from mirrorlake.destinations.archive.sink import ArchiveSettings
from mirrorlake.destinations.archive.triggers import Trigger
from mirrorlake.destinations.interface import Delivery
from mirrorlake.destinations.orders import Orders
from mirrorlake.destinations.route import with_records
from mirrorlake.destinations.schema_batches import check_ids
from mirrorlake.destinations.snapshots.view import Base, OpenSnapshot
from mirrorlake.errors import PositionMovedError
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.offsets import OffsetRange
from mirrorlake.stores.crash_points import CrashPoint, no_crash

NO_BOUND = 1 << 62

UNKNOWN_EPOCH = -1


class SnapshotSink(CuttingSink):
    """Turns the batches of one source partition into published snapshots.

    ``next_offset`` is below the position while a view is built anew.

    Args:
        settings: what and how; with a ``SnapshotRule``.
        orders: of this lease.
        folder: the partition's snapshots.
        read_end: lists the newest and returns it checked; called in the executor's thread.
        read_source_end: asks the source for its last stable offset.
        executor: one thread, where the lease's encoding happens.
        clock: dates and times snapshots.
        may_begin: False once the lease should begin no further snapshot.
        changed: called when room, failure or the end changed.
        crash_point: called before every step of a publication; for tests.
    """

    reads_alone = True
    """Nobody waits until its view is written."""

    _written = "snapshot"

    def __init__(
        self,
        settings: ArchiveSettings,
        orders: Orders,
        *,
        folder: SnapshotPartition,
        read_end: Callable[[], Chain],
        read_source_end: Callable[[], Awaitable[int]],
        executor: Executor,
        clock: Clock,
        may_begin: Callable[[], bool],
        changed: Callable[[], None],
        crash_point: CrashPoint = no_crash,
    ) -> None:
        super().__init__(executor=executor, may_begin=may_begin, changed=changed)
        self._settings = settings
        self._orders = orders
        self._folder = folder
        self._read_end = read_end
        self._read_source_end = read_source_end
        self._clock = clock
        self._crash_point = crash_point
        self._snapshot: OpenSnapshot | None = None
        self._newest: Segment | None = None
        self._behind: Segment | None = None
        self._state: SnapshotState | None = None  # of the newest; None where it does not say
        self._opened_ms = 0
        self._opened_seconds = 0.0
        self._is_rebuilding = False
        self._needs_every_offset = False
        self._lost_after: int | None = None  # the position past which an offset had lost its record
        self._unknown_after: int | None = None  # the position past which another leader may have removed tombstones
        self._leader_epoch_read = UNKNOWN_EPOCH
        self._log_start = 0
        self._source_end: int | None = None

    async def open(self) -> None:
        """Reads the position from the listing, the claim another writer may have left on it, and the newest snapshot.

        Raises:
            ChainBrokenError: the folder's files overlap, or are no snapshots.
            OtherSourceError, TopicRecreatedError: the newest, or the claim, is of another source.
            ClaimAheadError: the claim lies past the source's end; `ChainBrokenError` where it stays there.
            MirrorlakeError: the store could not be read.
        """
        await self._in_thread(self._drop)
        self._opened_ms, self._opened_seconds = self._now_ms(), self._clock.elapsed_seconds()
        position, claim = await self._in_thread(self._read_newest)
        self.progress.position = position
        self._claimed_end = None
        if claim is not None:
            await self._adopt(claim, self._settings.source, self._orders, self._read_source_end)
        may_miss = self._unknown_after == position or self._may_miss_tombstones()
        is_late = self._newest is not None and may_miss
        self._needs_every_offset = is_late and self._is_exact and self._lost_after != position
        self._is_rebuilding = is_late and not self._needs_every_offset
        self._next_offset = 0 if self._is_rebuilding else position
        self.failure = None
        if not self.progress.claims:
            self.progress.start_offset = position
        self.progress.claims += 1
        self._is_done = not self._may_begin() or position >= self.wanted_end

    async def starts_at(self, log_start: int) -> bool:
        """Deals with a source's log that begins above the offset to be read next.

        A new view begins where the log does, and so does one that is built anew below the position. What the source
        has deleted past the position is for ``skips_truncated`` to allow: it becomes a gap, and with it tombstones may
        have gone, so that the view is built anew where the source is compacted.

        Raises:
            PositionMovedError: the log lost what was being read while a view was being built from it; read again.
            ChainBrokenError: the newest snapshot ends below where one once did, or there were some and none is left.
            MirrorlakeError: the store refused.
        """
        is_new = self._newest is None
        skips = self._settings.skips_truncated
        if log_start > self.progress.position and not (is_new or skips):
            return False
        if log_start > self.progress.position:
            # What newer snapshots held, and the archive has lost, would be called never archived.
            await self._in_thread(self._check_end)
        loses_tombstones = self._rule.tombstones_kept_seconds is not None
        if self._snapshot is not None and (self._is_rebuilding or loses_tombstones or not skips):
            raise PositionMovedError(
                f"source {self._settings.source} deleted records up to offset {log_start} while its view was being "
                "built from them"
            )
        self._log_start = log_start
        if not is_new and loses_tombstones:
            self._is_rebuilding, self._needs_every_offset = True, False
        await self._in_thread(lambda: self._pass_over(log_start))
        return True

    @property
    def _rule(self) -> SnapshotRule:
        assert self._settings.snapshots is not None, "a sink of snapshots has their rule"
        return self._settings.snapshots

    def _now_ms(self) -> int:
        return int(self._clock.now_seconds() * 1000)

    def _may_miss_tombstones(self) -> bool:
        since_ms = self._state.complete_since_ms if self._state is not None else None
        return may_miss_tombstones(self._rule, complete_since_ms=since_ms, now_ms=self._now_ms())

    @property
    def _is_exact(self) -> bool:
        return self._state is not None and self._state.is_exact

    @property
    def wanted_end(self) -> int:
        """The end of what is due, or of another writer's claim."""
        return max(self._orders.read_end_offset, self._claimed_end or 0)

    # --- in the thread ------------------------------------------------------------------------------------

    def _check_end(self) -> None:
        seen = max(self.progress.position, self._orders.last_position or 0)
        check_end_stands(self._folder, self._read_end, seen=seen)

    def _read_newest(self) -> tuple[int, RangeClaim | None]:
        chain = self._read_end()
        self._newest, self._state = chain.tail, None
        self._behind = chain.tail
        if chain.tail is not None:
            footer = read_snapshot_footer(self._folder.store, self._folder.prefix, chain.tail)
            self._check_origin(chain, chain.tail, footer)
            self._state = footer.snapshot if footer is not None else None
        return chain.position, self._folder.pending_claim(chain, origin=self._settings.origin)

    def _check_origin(self, chain: Chain, newest: Segment, footer: SegmentFooter | None) -> None:
        settings = self._settings
        if footer is None and settings.knows(chain, self._orders.known_tail):
            return
        said = Newest(origin=Origin.of(footer) if footer is not None else None, is_snapshot=True)
        check_newest(
            self._folder, newest, said, origin=settings.origin, is_snapshot=True, known=self._orders.known_tail
        )

    def _take(self, delivery: Delivery) -> None:
        self._check_leader(delivery)
        if self._needs_every_offset:
            self._check_dense(delivery)
        check_ids(delivery.batches, self._settings.known_ids(self._orders))
        data = with_records(delivery.batches)
        parts = decoded(data, start_offset=self._next_offset, covered_end=delivery.covered.end_offset)
        for number, (columns, end) in enumerate(parts):
            self._check_wanted()
            if number == 0:
                self._note_batches(delivery)
                self._log_start, self._source_end = delivery.log_start_offset, delivery.end_offset
            rest = self._take_again(columns, end)
            if end > self.progress.position:
                self._cut(rest, end)
            if self._is_done:
                break

    def _check_leader(self, delivery: Delivery) -> None:
        """Checks that what is known of tombstones is known of the replica that is read.

        Raises:
            PositionMovedError: it is known of another one; who is late is to be told from it as if time had passed.
        """
        self._leader_epoch_read = delivery.leader_epoch
        if self._is_rebuilding or self._needs_every_offset or self._state is None or not self._rule.removes_by_key:
            return
        known_of = self._state.leader_epoch
        if known_of is not None and (known_of != delivery.leader_epoch or known_of == UNKNOWN_EPOCH):
            self._unknown_after = self.progress.position
            raise PositionMovedError(
                f"source {self._settings.source} is led in epoch {delivery.leader_epoch}, and what its view has missed "
                f"is known of epoch {known_of} alone"
            )

    def _check_dense(self, delivery: Delivery) -> None:
        """Checks that nothing is gone of what is read.

        Raises:
            PositionMovedError: an offset has no record; the log is to be read from its start.
        """
        missing = first_missing_offset(
            (item.batch.header for item in delivery.batches),
            start_offset=self._next_offset,
            end_offset=delivery.covered.end_offset,
        )
        if missing is not None:
            self._lost_after = self.progress.position
            raise PositionMovedError(
                f"source {self._settings.source} may have lost a tombstone at offset {missing}: its view is to be "
                "built anew"
            )

    def _take_again(self, columns: RecordColumns, covered_end: int) -> RecordColumns:
        """Takes what lies below the position, and returns the rest."""
        position = self.progress.position
        if self._next_offset >= position:
            return columns
        row = int(np.searchsorted(columns.offsets, position))
        (self._snapshot or self._begin()).write_again(columns.slice(0, row))
        self._next_offset = min(position, covered_end)
        return columns.slice(row, len(columns))

    def _cut(self, columns: RecordColumns, covered_end: int) -> None:
        while True:
            snapshot = self._snapshot or self._begin()
            cut = find_cut(
                self._cut_rule(),
                records=snapshot.records,
                raw_bytes=snapshot.held_bytes,
                offsets=columns.offsets,
                sizes=columns.weights(),
                covered_end=covered_end,
            )
            if cut is None:
                snapshot.write(columns)
                self._next_offset = covered_end
                break
            snapshot.write(columns.slice(0, cut.stop_row))
            self._publish(snapshot, cut)
            columns = columns.slice(cut.stop_row, len(columns))
            if self._next_offset >= self.wanted_end or not self._may_begin() or not self._may_go_on():
                self._is_done = True
                break
            if self._next_offset >= covered_end:
                break
        if self._next_offset >= self.wanted_end:
            self._is_done = True

    def _may_go_on(self) -> bool:
        """True where the next snapshot may be begun with what is read already."""
        is_late = self._may_miss_tombstones()
        # Behind a view that another one has published only a look tells what lies there now.
        goes_on = self._behind is not None and (not is_late or (self._needs_every_offset and self._is_exact))
        self._needs_every_offset = is_late and goes_on
        return goes_on

    def _cut_rule(self) -> CutRule:
        settings, orders = self._settings, self._orders
        if self._claimed_end is not None:
            return _at(self._claimed_end, Trigger.ADOPTED.value)
        if self._is_rebuilding:
            # One snapshot, however much it is: reading the log from its start for each would never end.
            return _at(orders.read_end_offset, Trigger.REBUILT.value)
        return CutRule(
            records_max=settings.records_max,
            bytes_max=min(settings.bytes_max, SEGMENT_RAW_BYTES_MAX),
            end_offset=orders.read_end_offset if orders.flushes_rest else None,
            end_trigger=orders.rest_trigger,
        )

    def _begin(self) -> OpenSnapshot:
        self._snapshot = OpenSnapshot(
            self._folder,
            self._settings,
            base=self._base(),
            start_offset=self.progress.position,
            clock=self._clock,
            check_wanted=self._check_wanted,
            crash_point=self._crash_point,
        )
        return self._snapshot

    def _base(self) -> Base | None:
        if self._newest is None or not self._is_rebuilding:
            return None if self._newest is None else Base(snapshot=self._newest)
        below = self._log_start if self._rule.keeps_what_retention_took else 0
        if not below and self._state is not None:
            return None  # nothing of it stays; one by mirror-v3 is read all the same, to see that it is a snapshot
        return Base(snapshot=self._newest, below=below)

    def _pass_over(self, log_start: int) -> None:
        """Goes on at the log's start; where that is all there is to what was due, publishes it."""
        position = self.progress.position
        lost_from = max(position, self._next_offset)
        end = log_start if self._claimed_end is None else min(log_start, self._claimed_end)
        self._next_offset = log_start
        if end > lost_from:
            snapshot = self._snapshot or self._begin()
            snapshot.add_truncated(OffsetRange(start_offset=lost_from, end_offset=end))
            self._next_offset = end
        if self._next_offset < self.wanted_end and self._next_offset != self._claimed_end:
            return
        if self._snapshot is not None and (self._claimed_end is not None or self._orders.flushes_rest):
            self._publish(self._snapshot, Cut(stop_row=0, end_offset=end, trigger=self._cut_rule().end_trigger))
        self._is_done = True

    def _publish(self, snapshot: OpenSnapshot, cut: Cut) -> None:
        self._check_wanted()
        snapshot.leader_epoch = self._leader_epoch
        snapshot.behind = self._behind
        state = self._state_at(cut.end_offset)
        published = snapshot.publish(end_offset=cut.end_offset, trigger=cut.trigger, state=state)
        self._drop()
        self._claimed_end = None
        self._is_rebuilding = False
        self._state = state
        self._newest = snapshot.segment
        # Of an equal one that was there already, the size is not known here.
        self._behind = snapshot.segment if published.is_ours else None
        self._next_offset = self.progress.position = cut.end_offset
        self._note_segment(published, snapshot.footer)
        # A view holds records of any age; the newest one is of those that came with this snapshot.
        if published.is_ours and snapshot.footer is not None and snapshot.footer.timestamp_ms_max is not None:
            self.progress.saw_latency(snapshot.footer.timestamp_ms_max, self._clock.now_seconds())

    def _state_at(self, end_offset: int) -> SnapshotState:
        """Returns what is known of the view that ends there."""
        reaches_end = self._source_end is not None and self._source_end <= end_offset
        is_from_start = self._newest is None or self._is_rebuilding
        before_ms = self._state.complete_since_ms if self._state is not None else 0
        known_of = self._state.leader_epoch if self._state is not None else None
        elapsed = self._clock.elapsed_seconds() - self._opened_seconds
        is_in_time = is_read_in_time(self._rule, elapsed_seconds=elapsed)
        return SnapshotState(
            complete_since_ms=self._opened_ms if reaches_end or is_from_start else before_ms,
            leader_epoch=None if reaches_end else self._leader_epoch_read if is_from_start else known_of,
            is_exact=is_in_time if is_from_start else self._is_exact and (is_in_time or self._needs_every_offset),
        )

    def _drop(self) -> None:
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is not None:
            snapshot.discard()


def _at(end_offset: int, trigger: str) -> CutRule:
    return CutRule(records_max=NO_BOUND, bytes_max=NO_BOUND, end_offset=end_offset, end_trigger=trigger)
