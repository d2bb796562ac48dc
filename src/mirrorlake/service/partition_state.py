"""What the driver knows of one source partition at one destination.

Nothing here is needed after a crash: every field is read again from the clusters and the destinations. States are
written by `StateTable` alone, which calls what changes one; everybody else reads.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.folder import PartitionFolder
from mirrorlake.archive.names import parse_segment_name
from mirrorlake.destinations.archive.work import ArchiveWork
from mirrorlake.destinations.interface import ProducerHandOff
from mirrorlake.destinations.size_limit import SizeLimit
from mirrorlake.destinations.work import DestinationWork
from mirrorlake.errors import (
    ClaimAheadError,
    ExecutorUncheckedError,
    LeaseLateError,
    MirrorlakeError,
    PartitionUnbegunError,
    SchemaUnknownError,
    TopicRecreatedError,
)
from mirrorlake.mirror.due import Due, FlushRule, Waiting, due
from mirrorlake.mirror.flush_clock import FlushClock
from mirrorlake.mirror.policy import Decision, back_off_seconds, between_leases
from mirrorlake.mirror.told_progress import ToldProgress
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.end_history import EndHistory
from mirrorlake.service.leases.missed_deletions import DeletionWatch
from mirrorlake.sources.client import Bounds, seen_from
from mirrorlake.sources.mark import SourceMark

AHEAD_SECONDS = 10.0
"""Elections may show an older end for a moment; nothing but a truncated or re-created source shows it for longer."""

SOURCE_UNSEEN_SECONDS = 15.0
"""A source is looked at every five seconds at least; one not seen for so long has an end, and a lag, nobody knows."""

MOVING_SECONDS = 5.0
"""What has grown within so long may be about to grow again, and is looked at as often as can be."""

ONCE_FAILURES_MAX = 6
"""Failures in a row after which a bounded run gives a partition up: about eight seconds of back-off."""

UNBEGUN_SECONDS_MAX = 120.0
"""For so long leases that did nothing, as Spark had no worker for them in time, are no failures of a bounded run: a
cluster that has lost an executor has another one by then. Batch work waits as long (`UNCHECKED_SECONDS_MAX`). Nor are
those that met a schema id which the registries are being asked about."""


class StateName(StrEnum):
    """What ``status`` says of a partition; ``behind`` where no service is known to be at work on it."""

    RUNNING = "running"
    BEHIND = "behind"
    CAUGHT_UP = "caught-up"
    ENDED = "ended"
    PARKED = "parked"
    PAUSED = "paused"
    UNKNOWN = "unknown"


@dataclass(slots=True, kw_only=True)
class PartitionState:
    """One source partition at one destination, as last seen.

    ``position`` is the next source offset the destination needs, None until it was read. ``source_end`` is the source's
    last stable offset, ``source_start`` its log start, both as of the clock reading ``source_seen_seconds`` and as seen
    from ``position``, None until they were read; ``source_moved_seconds`` is when that end was last seen to have grown.
    ``bounds`` is what the latest look at the source found, from wherever one stands. ``once_end`` is where a bounded
    run stops, None for a live one. ``is_bounded`` is True where the source may have an end for the mirror (`until`),
    ``ended_at`` is where a lease has met it, None where none has, and ``is_end_told`` is True once somebody was told of
    it. ``topic_id`` is the source topic's when it was found. ``ahead_since_seconds`` is the clock reading since which
    the position has been past the source's end, None where it is not. Until ``unknown_until_seconds`` a lease that
    brought nothing back may still be at work. ``was_refused`` is True where nothing was ever copied because of what a
    look at the clusters had found; another look may find it gone. ``is_ending`` is True while it only waits for its
    last lease, to be replaced. ``is_paused`` is True while somebody wants no lease of it, ``is_restart_asked`` until a
    look has told whether it can begin anew. ``tail`` is the newest segment of ``archived`` that is known by name and
    size. ``claim_looks`` counts the leases in a row that found a claim past the source's end. ``size_limit`` is how
    large a batch the destination takes, None where that is still as ``work`` says, and ``batch_bytes_max_seen`` what
    the latest look at the topic found, None where there was none. ``failures`` counts those in a row, and
    ``failures_unbegun`` the leases among them that did nothing, the first of them at the clock reading
    ``unbegun_since_seconds``; it is 0 again once that goes on for too long. ``view_records`` are the records of the
    newest snapshot at the start, None where it does not say or there are none. ``told`` is what a lease that runs has
    told of its progress, None where none runs or has: what is shown counts it, and nothing is decided by it.
    ``needs_tail_check`` is True until a lease has compared the newest records with the source's and ended well, and
    ``is_doubted_in_lease`` where that was asked for anew since the lease that runs began; ``is_source_away`` until a
    look finds the source again. ``deletions`` tells when the copy may have missed tombstones of a compacted source.
    """

    mirror: str
    source: TopicPartition
    shard: str
    work: DestinationWork
    topic_id: str
    rule: FlushRule | None
    archived: PartitionFolder | None = None
    tail: Segment | None = None
    flush_clock: FlushClock = field(default_factory=FlushClock)
    position: int | None = None
    first_position: int | None = None
    source_start: int | None = None
    source_end: int | None = None
    bounds: Bounds | None = None
    source_seen_seconds: float | None = None
    source_moved_seconds: float = -inf
    end_history: EndHistory = field(default_factory=EndHistory)
    deletions: DeletionWatch = field(default_factory=DeletionWatch)
    once_end: int | None = None
    is_bounded: bool = False
    ended_at: int | None = None
    is_end_told: bool = False
    waiting_since_seconds: float | None = None
    ahead_since_seconds: float | None = None
    bytes_per_record: float | None = None
    fruitless_offsets: int = 0
    claim_looks: int = 0
    needs_tail_check: bool = True
    is_doubted_in_lease: bool = False
    is_source_away: bool = False
    hand_off: ProducerHandOff | None = None
    source_mark: SourceMark | None = None
    size_limit: SizeLimit | None = None
    batch_bytes_max_seen: int | None = None
    view_records: int | None = None
    is_leased: bool = False
    is_parked: bool = False
    is_ending: bool = False
    is_paused: bool = False
    is_restart_asked: bool = False
    error: MirrorlakeError | None = None
    failures: int = 0
    failures_unbegun: int = 0
    unbegun_since_seconds: float | None = None
    retry_at_seconds: float = 0.0
    unknown_until_seconds: float = -inf
    was_refused: bool = False
    is_tried_at_stop: bool = False
    records: int = 0
    raw_bytes: int = 0
    told: ToldProgress | None = None

    @property
    def destination(self) -> str:
        """The destination's label."""
        return self.work.destination

    @property
    def archive_work(self) -> ArchiveWork | None:
        """The work, where it is an archive's, of records or of snapshots; for those who look after archives."""
        return self.work if isinstance(self.work, ArchiveWork) else None

    @property
    def is_live(self) -> bool:
        """True where every lease copies what the source has gained; False where it is cut when it is due."""
        return self.work.is_live

    @property
    def shown_position(self) -> int | None:
        """The position, as anybody is told it; None where it is none of the source topic that is there now."""
        return None if isinstance(self.error, TopicRecreatedError) else self.reached

    @property
    def reached(self) -> int | None:
        """The position, or where the lease that runs says it is; None where neither is known."""
        return self.position if self.told is None else self.told.position

    @property
    def shown_error(self) -> MirrorlakeError | None:
        """What is wrong, as anybody is told it; None where the lease that runs has got on from there."""
        if self.told is not None and not self.is_parked and self.told.position > (self.position or 0):
            return None
        return self.error

    @property
    def copied_records(self) -> int:
        """Records copied by this process, those of the lease that runs among them."""
        return self.records + (self.told.records if self.told is not None else 0)

    @property
    def copied_bytes(self) -> int:
        """Bytes of record batches, decompressed, as `copied_records`."""
        return self.raw_bytes + (self.told.raw_bytes if self.told is not None else 0)

    @property
    def lag(self) -> int | None:
        """Offsets the destination is behind the source's last stable offset as last seen, however long ago that was.

        For deciding what to do; what is shown to anybody is `lag_now`.
        """
        reached = self.reached
        if reached is None or self.source_end is None:
            return None
        return max(0, self.source_end - reached)

    @property
    def has_ended(self) -> bool:
        """True where the destination has all that the mirror is to copy, whatever the source gains."""
        return self.bounds is not None and self.bounds.has_ended(self.position)

    @property
    def waits_for_end(self) -> bool:
        """True where nothing may be copied yet, as no look has told where the source ends for the mirror."""
        return self.is_bounded and self.bounds is None

    @property
    def read_end(self) -> int | None:
        """Where a lease ends (exclusive): the end of a bounded run, or of the mirror; None where neither is known."""
        ends = [self.once_end, self.bounds.limit if self.bounds is not None else None]
        return min((end for end in ends if end is not None), default=None)

    def is_source_seen(self, now_seconds: float) -> bool:
        """True where the source has told its end of late, or has told all that it will be asked for."""
        if self.has_ended:
            return True
        seen = self.source_seen_seconds
        return seen is not None and now_seconds - seen < SOURCE_UNSEEN_SECONDS

    def is_at_rest(self, now_seconds: float) -> bool:
        """True where a live copy has all that its source had when it was last seen, and that has not moved of late.

        Not where anybody waits for where the source ends: a bounded run, an archive, a copy that has failed.
        """
        return (
            self.source_end is not None
            and self.reached == self.source_end
            and now_seconds - self.source_moved_seconds >= MOVING_SECONDS
            and self.is_live
            and not self.failures
            and self.once_end is None
            and not self.is_bounded
        )

    def lag_now(self, now_seconds: float) -> int | None:
        """Returns how many offsets the destination is behind; None where the source was not seen of late."""
        return self.lag if self.is_source_seen(now_seconds) and self.shown_position is not None else None

    def lag_seconds(self, now_seconds: float) -> float | None:
        """Returns how long the oldest offset not copied has been waiting, as far as this process has seen.

        None where it is not known whether one does.
        """
        lag = self.lag_now(now_seconds)
        if not lag or (reached := self.reached) is None:
            return None if lag is None else 0.0
        since = self.end_history.there_since(reached)
        return None if since is None else max(0.0, now_seconds - since)

    @property
    def state(self) -> StateName:
        """The name ``status`` shows."""
        return self._state_by(self.lag)

    def state_now(self, now_seconds: float) -> StateName:
        """Returns the name a running service shows; ``unknown`` where the source was not seen of late."""
        return self._state_by(self.lag_now(now_seconds))

    def _state_by(self, lag: int | None) -> StateName:
        if self.is_parked:
            return StateName.PARKED  # also of a paused one: somebody has to act
        if self.is_paused:
            return StateName.PAUSED
        if lag is None:
            return StateName.UNKNOWN
        if self.has_ended:
            return StateName.ENDED
        return StateName.CAUGHT_UP if lag == 0 else StateName.RUNNING

    @property
    def span(self) -> tuple[int, int] | None:
        """Offsets done and to do of a bounded run; None where it is not bounded, parked, or not yet known."""
        if self.once_end is None or self.is_parked:
            return None
        first = self.first_position or 0
        total = max(0, self.once_end - first)
        return min(total, max(0, (self.reached or 0) - first)), total

    @property
    def gave_up(self) -> bool:
        """True where a bounded run has tried often enough; leases that did nothing are no tries, for a while.

        Not where it is parked: that says more, and of failures before it some may still be counted.
        """
        return not self.is_parked and self.failures - self.failures_unbegun >= ONCE_FAILURES_MAX

    @property
    def is_finished(self) -> bool:
        """True where a bounded run has nothing more to do: the end is reached, or nothing will get it there."""
        if self.is_parked or self.gave_up:
            return True
        is_reached = self.once_end is not None and self.position is not None and self.position >= self.once_end
        return is_reached and not self.is_past_source_end and not self.is_to_be_compared

    @property
    def is_to_be_compared(self) -> bool:
        """True where an archive's newest records are to be compared with the source's before anything is due.

        Who begins to copy, or has lost sight of the source, says what differs at once, and not when something comes.
        Live copies are compared by every lease that is to; snapshots, and what is past the source's end, by none.
        """
        return (
            self.needs_tail_check
            and self.tail is not None
            and not (self.is_live or self.work.has_view or self.is_paused or self.has_ended or self.is_source_away)
            and self.source_end is not None
            and self.position is not None
            and self.position <= self.source_end
        )

    @property
    def is_past_source_end(self) -> bool:
        """True where the position is past the source's end as last seen, and so may be none of that source's.

        Not where the copy has all it is to have: it is not compared with the source any more.
        """
        if self.has_ended or self.position is None or self.source_end is None:
            return False
        return self.position > self.source_end

    @property
    def may_have_lost_its_end(self) -> bool:
        """True where the source's last stable offset is below the end that was fixed for it.

        A new leader's high watermark lags for a moment; only its log end tells whether records are gone.
        """
        if self.once_end is None or self.source_end is None or self.is_finished:
            return False
        return self.source_end < self.once_end

    @property
    def batch_bytes_max(self) -> int | None:
        """The largest record batch the destination takes, as far as this process knows; None where it takes any."""
        return self.work.batch_bytes_max if self.size_limit is None else self.size_limit.bytes_max

    def saw_batch_bytes_max(self, found: int) -> None:
        """Takes what a look has found the destination topic to take: it counts where it is another than before.

        Of one that is parked each counts: what parked it may have seen a limit that no look has.
        """
        before = self.work.batch_bytes_max if self.batch_bytes_max_seen is None else self.batch_bytes_max_seen
        if before is not None and (found != before or self.is_parked):
            self.size_limit = SizeLimit.of(found)
        self.batch_bytes_max_seen = found

    def saw_source(self, bounds: Bounds, now_seconds: float, wall_seconds: float) -> None:
        """Takes the source's ends; the clock of ``max-time`` starts when the end is first seen past the position."""
        self.is_source_away = False
        if self.bounds is not None and bounds.end < self.bounds.end:
            self.doubt_source()
        if bounds.limit is None and self.ended_at is not None:
            bounds = bounds._replace(limit=self.ended_at)  # a leader may not find what was read
        self.bounds = bounds
        self.deletions.saw_end(bounds.end, reached=self.reached, now_seconds=now_seconds)
        start, end = seen_from(bounds, self.position)
        self.flush_clock.saw_source(position=self.position, start=start, end=end, wall_seconds=wall_seconds)
        self.source_start = start
        self._saw_end(end, now_seconds)
        self._goes_no_further()
        self._keep_waiting_clock(now_seconds)
        if self.position is None or self.position <= end:
            self.ahead_since_seconds = None
        elif self.ahead_since_seconds is None:
            self.ahead_since_seconds = now_seconds

    def _sees_from_its_position(self, now_seconds: float) -> None:
        """Looks at the bounds again, once the position is known: a hole below it ends nothing, nor a bounded run."""
        if self.bounds is None or not (self.bounds.holes or self.bounds.limit is not None):
            return
        _, end = seen_from(self.bounds, self.position)
        if self.once_end is not None:
            self.once_end = max(self.once_end, end)
        self._saw_end(end, now_seconds)

    def _saw_end(self, end: int, now_seconds: float) -> None:
        if self.source_end is not None and end > self.source_end:
            self.source_moved_seconds = now_seconds
        self.source_end = end
        self.source_seen_seconds = now_seconds
        self.end_history.saw(end, position=self.position, now_seconds=now_seconds)

    def is_ahead(self, now_seconds: float) -> bool:
        """True where the destination has been past the source's end too long for a late answer or an election.

        A bounded run decides at once of archives, as it can: their positions are read before the sources' ends. Those
        of live copies are read by leases, which may see later ends than a look has.
        """
        if self.ahead_since_seconds is None or self.is_parked:
            return False
        if self.once_end is not None and not self.is_live:
            return True
        return now_seconds - self.ahead_since_seconds >= AHEAD_SECONDS

    @property
    def is_truncated(self) -> bool:
        """True where the source has deleted what an archive needs next, and the policy does not let it go on.

        A live destination finds out by itself; an archive may not look for hours.
        """
        if self.position is None or self.source_start is None or self.is_parked:
            return False
        if self.is_live or self.work.skips_truncated:
            return False
        return 0 < self.position < self.source_start

    def took(self, row: LeaseRow, now_seconds: float) -> Decision | None:
        """Takes the row of an ended lease; returns what its error means, None where there was none."""
        self.told = None
        moved = row.position is not None and row.position != self.position
        if row.position is not None:
            is_found = self.position is None
            self.position = row.position
            if is_found:
                self._sees_from_its_position(now_seconds)
            if self.first_position is None:
                self.first_position = row.start_offset
        if row.ended_at is not None:
            self._met_end(row.ended_at, now_seconds)
        # What a lease has seen of a source that may have an end is not all to be copied: a look tells how far.
        if row.source_end is not None and not self.is_bounded:
            # The source may have been looked at since the lease read it. An end that went back shows in the next look.
            self.source_start = row.source_start
            self._saw_end(max(row.source_end, self.source_end or 0), now_seconds)
        for flush in row.flushes:
            name = parse_segment_name(flush.key)
            if flush.is_ours and name is not None:
                self.saw_tail(Segment(name=name, size_bytes=flush.file_bytes))
        self.records += row.records
        self.raw_bytes += row.raw_bytes
        if row.records:
            self.bytes_per_record = row.raw_bytes / row.records
        if moved:
            self.flush_clock.moved()
            self.waiting_since_seconds = None
            self.fruitless_offsets = 0
        elif not self.is_live and row.error is None and row.batches:
            self.fruitless_offsets = self.lag or 0
        self._keep_waiting_clock(now_seconds)
        self.claim_looks = self.claim_looks + 1 if isinstance(row.error, ClaimAheadError) else 0
        self.hand_off = row.hand_off
        self.source_mark = row.mark or self.source_mark
        self.size_limit = row.size_limit or self.size_limit
        if self.is_parked and (row.error is None or between_leases(row.error) is not Decision.END):
            return None  # a look at the tail has found meanwhile what the lease did not see, or saw as well
        # A batch that is too large gets on too: the next ones are smaller.
        return self._took_outcome(row.error, now_seconds, moved=moved or row.size_limit is not None)

    def _met_end(self, ended_at: int, now_seconds: float) -> None:
        """Takes where a lease has met the end of what is to be copied."""
        self.ended_at = ended_at
        if self.bounds is not None and self.bounds.limit is None:
            self.bounds = self.bounds._replace(limit=ended_at)
            _, end = seen_from(self.bounds, self.position)
            self._saw_end(end, now_seconds)
        self._goes_no_further()

    def _goes_no_further(self) -> None:
        """Has a bounded run, or a stop, end at the limit where that was found after its own end, and lies before it."""
        if self.once_end is not None and self.bounds is not None and self.bounds.limit is not None:
            self.once_end = min(self.once_end, max(self.bounds.limit, self.position or 0))

    def saw_tail(self, tail: Segment) -> None:
        """Takes a segment that is known to be good, where it is the newest one."""
        if self.tail is None or tail.name.end_offset > self.tail.name.end_offset:
            self.tail = tail

    def saw_progress(self, told: ToldProgress) -> None:
        """Takes what a lease that runs has told."""
        self.told = told

    def doubt_source(self) -> None:
        """Takes that the source may be another one than was copied from: the next lease compares the newest records.

        A lease that runs may have read before, and says nothing of it by ending well.
        """
        self.needs_tail_check = True
        self.is_doubted_in_lease = self.is_leased

    def lost_source(self) -> None:
        """Takes that a look has not found the source: what comes back may be another one."""
        self.is_source_away = True
        self.doubt_source()

    def lost_lease(self, unknown_until_seconds: float) -> None:
        """Takes that a lease brought nothing back and may be at work so long; what it has told was safe by then."""
        self.unknown_until_seconds = unknown_until_seconds
        self.records, self.raw_bytes = self.copied_records, self.copied_bytes
        self.told = None

    def failed(self, error: MirrorlakeError, now_seconds: float) -> Decision:
        """Takes an error that came instead of a row."""
        self.hand_off = None
        decision = self._took_outcome(error, now_seconds, moved=False)
        assert decision is not None
        return decision

    def _took_outcome(self, error: MirrorlakeError | None, now_seconds: float, *, moved: bool) -> Decision | None:
        self.error = error
        self.needs_tail_check = error is not None or self.is_doubted_in_lease
        self.is_doubted_in_lease = False
        self._count_unbegun(error, now_seconds, moved=moved)
        if error is None:
            self.failures, self.retry_at_seconds = 0, 0.0
            return None
        decision = between_leases(error)
        if decision is Decision.PARK:
            self.is_parked = True
        else:
            self.failures = 1 if moved else self.failures + 1
            self.retry_at_seconds = now_seconds + back_off_seconds(self.failures)
        return decision

    def no_longer_waits(self) -> None:
        """Takes that what it waits for outside of its clusters has come: it is not failing any more."""
        if isinstance(self.error, SchemaUnknownError) and not self.is_parked:
            self.failures, self.failures_unbegun, self.retry_at_seconds = 0, 0, 0.0
            self.unbegun_since_seconds = None

    def _count_unbegun(self, error: MirrorlakeError | None, now_seconds: float, *, moved: bool) -> None:
        """Counts, among the failures in a row, the leases that did nothing; none once that goes on for too long."""
        if error is None or moved:
            self.failures_unbegun, self.unbegun_since_seconds = 0, None
        if isinstance(error, LeaseLateError | ExecutorUncheckedError | PartitionUnbegunError | SchemaUnknownError):
            if self.unbegun_since_seconds is None:
                self.unbegun_since_seconds = now_seconds
            is_too_long = now_seconds - self.unbegun_since_seconds >= UNBEGUN_SECONDS_MAX
            self.failures_unbegun = 0 if is_too_long else self.failures_unbegun + 1

    def _keep_waiting_clock(self, now_seconds: float) -> None:
        waits = self.position is not None and self.source_end is not None and self.source_end > self.position
        if not waits:
            self.waiting_since_seconds = None
        elif self.waiting_since_seconds is None:
            self.waiting_since_seconds = now_seconds

    def times_to_ask(self, *, now_seconds: float, wall_seconds: float) -> Collection[int]:
        """Returns the times an archive wants the source's offsets of, in Unix milliseconds; none unless some wait."""
        if self.is_live or self.is_parked or not self.lag:
            return ()
        return self.flush_clock.times_to_ask(now_seconds=now_seconds, wall_seconds=wall_seconds)

    def due_now(self, now_seconds: float, *, flush_all: bool) -> Due | None:
        """Returns what an archive should cut now; None for other destinations and where it can wait."""
        if self.rule is None or self.position is None or self.source_end is None:
            return None
        end = self.source_end if self.once_end is None else min(self.once_end, self.source_end)
        waiting = Waiting(
            fruitless_offsets=self.fruitless_offsets,
            position=self.position,
            source_end=end,
            since_seconds=self.waiting_since_seconds,
            bytes_per_record=self.bytes_per_record,
            daily_end_offset=self.flush_clock.daily_end_offset,
            is_pressed=self.flush_clock.is_pressed(
                position=self.position, end=end, bytes_per_record=self.bytes_per_record
            ),
        )
        return due(self.rule, waiting, now_seconds=now_seconds, flush_all=flush_all)
