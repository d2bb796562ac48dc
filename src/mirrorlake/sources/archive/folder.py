"""The folder of one archived partition as a source sees it: looked at as often as it takes to believe what it shows.

A worker keeps what it saw, so that the next look lists what follows the last segment and not all of it. A cache only:
each look asks the store. Blocking; called in threads, several at a time.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mirrorlake.archive.chain import Chain, Segment, tail_start_after
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.inspection import are_snapshots
from mirrorlake.archive.looks import LOOKS_MAX, moved, same_complaint
from mirrorlake.archive.names import parse_segment_name
from mirrorlake.archive.snapshots.chain import check_snapshots
from mirrorlake.clock import Clock
from mirrorlake.errors import ChainBrokenError, MirrorlakeError, OtherSourceError, StoreUnavailableError
from mirrorlake.offsets import GapKind, OffsetRange
from mirrorlake.sources.archive.chain import SegmentChain, chain_of
from mirrorlake.sources.archive.known_segments import KnownSegments
from mirrorlake.stores.object_store import ObjectMissingError, ObjectStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """Offsets that were archived and are not there, although others behind them are, or were.

    ``seen_seconds`` is since when this process has seen it, in Unix seconds, ``first_seen`` the same as a reading of
    its clock, which nobody sets.
    """

    offsets: OffsetRange
    seen_seconds: float
    first_seen: float
    prefix: str

    def error(self, now_seconds: float) -> MirrorlakeError:
        """Returns the error of a partition that waits for it: it is tried again, and goes on when it is closed."""
        age = max(0, round(now_seconds - self.seen_seconds))
        return StoreUnavailableError(
            f"{self.prefix}: offsets {self.offsets} are missing in the archive, for {age} s at least",
            hint="the files are on their way, or were lost: put them back; reading continues with them",
            start_offset=self.offsets.start_offset,
            end_offset=self.offsets.end_offset,
            age_seconds=age,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderView:
    """What a folder holds: offsets from ``start`` on and below ``end``, in a chain, or in one snapshot.

    ``hole`` is what is missing at the end, ``holes`` between segments, in order.
    """

    start: int
    end: int
    chain: SegmentChain
    snapshot: Segment | None = None
    hole: Hole | None = None
    overlap: ChainBrokenError | None = None
    holes: tuple[Hole, ...] = ()

    def hole_at(self, position: int) -> Hole | None:
        """Returns the hole between segments that a position lies in, None where it is in none."""
        held = (each for each in self.holes if each.offsets.start_offset <= position < each.offsets.end_offset)
        return next(held, None)

    def serving(self, position: int) -> Segment | None:
        """Returns the segment that holds an offset; None where none does."""
        if self.snapshot is not None:
            return self.snapshot if position < self.end else None
        return self.chain.at(position)

    def content_range(self, segment: Segment) -> OffsetRange:
        """Returns the offsets that a segment accounts for: those of its name; of a snapshot, all below its end."""
        if self.snapshot is not None:
            return OffsetRange(start_offset=0, end_offset=segment.name.end_offset)
        return segment.name.offsets


class SourceFolder:
    """One partition's folder, looked at again and again.

    Args:
        store: where it lies.
        prefix: the folder.
        clock: tells since when a hole is there.
        crosses_holes: goes on behind a hole where segments follow.
    """

    def __init__(self, store: ObjectStore, prefix: str, *, clock: Clock, crosses_holes: bool = False) -> None:
        self.store = store
        self.prefix = prefix
        self.known = KnownSegments()
        self._clock = clock
        self._lock = threading.Lock()
        self._chain: SegmentChain | None = None
        self._crosses_holes = crosses_holes
        self._holes: tuple[Hole, ...] = ()
        self._first: tuple[Segment, int, bool] | None = None

    def look(
        self, *, holds_snapshots: bool | None, reached: int, is_whole: bool = False, snapshot: str | None = None
    ) -> FolderView:
        """Lists the folder and returns what it holds.

        Args:
            holds_snapshots: what the topic's record says; None where there is none, and the first file is asked.
            reached: the position that was recorded of the partition: what is missing below it is a hole.
            is_whole: lists all of it, as something that was known is gone.
            snapshot: the file's name of the one that is meant; None for the newest. For a folder of snapshots only.

        Raises:
            OtherSourceError: the snapshot that is meant is gone.
            ChainBrokenError: a name that is none of ours, twice; or a first file that is damaged.
            PositionMovedError: it changes faster than it can be looked at; try again.
            MirrorlakeError: the store could not be read.
        """
        with self._lock:
            if holds_snapshots:
                return self._look_at_snapshots(snapshot)
            known = None if is_whole else self._chain
            self._chain = None
            chain, start, is_snapshot = self._with_beginning(known, reached)
            if is_snapshot:
                return self._look_at_snapshots(snapshot)
            self._chain = chain
            self._holes = self._noted([*chain.holes, *([] if chain.hole is None else [chain.hole])])
            return FolderView(
                start=start,
                end=max(start, chain.end),
                chain=chain,
                hole=None if chain.hole is None else self._holes[-1],
                overlap=chain.overlap,
                holes=self._holes[: len(chain.holes)],
            )

    def _with_beginning(self, known: SegmentChain | None, reached: int) -> tuple[SegmentChain, int, bool]:
        """Returns the chain, where its log begins, and whether the first file is a snapshot.

        What is known of a folder may name a first file that was merged or retired since, and so may a listing that was
        taken a moment ago: then all of it is listed anew.
        """
        for _ in range(LOOKS_MAX):
            chain = self._settled(known, reached)
            try:
                return chain, *self._beginning(chain)
            except ObjectMissingError:
                known = None
        raise moved(self.prefix)

    def _settled(self, known: SegmentChain | None, reached: int) -> SegmentChain:
        """Looks until two looks in a row show the same, or one shows nothing that may be a listing's own."""
        # What the last look came to believe is one look; holes that are passed over stay for ever.
        before: SegmentChain | ChainBrokenError | None = known if known is not None and known.holes else None
        ended = known.end if known is not None else 0
        for _ in range(LOOKS_MAX):
            try:
                chain = self._listed(known, reached)
            except ChainBrokenError as error:
                if isinstance(before, ChainBrokenError) and same_complaint(before, error):
                    raise
                before, known = error, None
                continue
            if chain.is_settled and chain.end >= max(ended, 1):
                return chain
            if isinstance(before, SegmentChain) and chain.says_the_same(before):
                return chain
            before, known = chain, None
        raise moved(self.prefix)

    def _listed(self, known: SegmentChain | None, reached: int) -> SegmentChain:
        if known is not None and (last := known.last) is not None:
            listing = self.store.list(self.prefix, start_after=tail_start_after(last))
            if (grown := known.followed_by(listing, where=self.prefix)) is not None:
                return grown
        return chain_of(
            self.store.list(self.prefix), where=self.prefix, reached=reached, crosses_holes=self._crosses_holes
        )

    def _beginning(self, chain: SegmentChain) -> tuple[int, bool]:
        """Returns where the log begins, and whether the first file is a snapshot.

        An archive that was begun late says of what lay before its first record that the source had lost it: that is
        where its log begins, and no gap to be filled. What was erased from the beginning is such a gap.
        """
        first = chain.at(chain.start)
        if first is None:
            # What begins late may be a snapshot: those before it were removed, or it was rewritten.
            return chain.start, chain.hole is not None and are_snapshots(self.store, self.prefix)
        if self._first is None or self._first[0] != first:
            key = f"{self.prefix}/{first.name}"
            with open_segment(self.store, key) as reader:
                footer = reader.footer
            start = first.name.from_offset
            if footer is not None and footer.gaps and footer.gaps[0].kind in (GapKind.TRUNCATED, GapKind.RECREATED):
                gap = footer.gaps[0].offsets
                start = gap.end_offset if gap.start_offset == start else start
            self._first = first, start, footer is not None and footer.snapshot is not None
        return self._first[1], self._first[2]

    def _look_at_snapshots(self, meant: str | None) -> FolderView:
        before: MirrorlakeError | None = None
        for _ in range(LOOKS_MAX):
            try:
                found = self._snapshot(meant)
            except (ChainBrokenError, OtherSourceError) as error:
                if same_complaint(before, error):
                    raise
                before = error
                continue
            end = found.name.end_offset if found is not None else 0
            return FolderView(start=0, end=end, chain=SegmentChain(), snapshot=found)
        raise moved(self.prefix)

    def _snapshot(self, meant: str | None) -> Segment | None:
        """Returns the snapshot of that name, the newest for None; None where there is none at all."""
        there = list(self.store.list(self.prefix))
        newest: Chain = check_snapshots(there, extension="parquet", where=self.prefix)
        if meant is None:
            return newest.tail
        for info in there:
            if info.name == meant and (name := parse_segment_name(meant)) is not None:
                return Segment(name=name, size_bytes=info.size_bytes)
        now = str(newest.tail.name) if newest.tail is not None else "none"
        raise OtherSourceError(
            f"{self.prefix}: the snapshot {meant} is gone, of which a copy was begun; the newest is {now}",
            hint="a later one, or the one that `archive erase` has put in its place, does not say which keys are gone "
            "since: delete what was copied and begin anew, or put the snapshot back; `keep-snapshots` keeps older ones",
            expected=meant,
            found=now,
        )

    def _noted(self, ranges: Sequence[OffsetRange]) -> tuple[Hole, ...]:
        return tuple(self._as_hole(offsets) for offsets in ranges)

    def _as_hole(self, offsets: OffsetRange) -> Hole:
        """Returns a hole with since when it is seen: what is left of one that was partly closed was missing with it."""
        for known in self._holes:
            if known.offsets.start_offset <= offsets.start_offset and offsets.end_offset <= known.offsets.end_offset:
                return replace(known, offsets=offsets)
        return Hole(
            offsets=offsets,
            seen_seconds=self._clock.now_seconds(),
            first_seen=self._clock.elapsed_seconds(),
            prefix=self.prefix,
        )
