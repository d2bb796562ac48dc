"""One archived partition in its store: its chain, the end of it, its claims, and the next segment."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from mirrorlake.archive.chain import (
    Chain,
    Refuse,
    Segment,
    check_chain,
    check_tail,
    floor_of,
    leading_segments,
    tail_start_after,
    uncovered,
    walk_chain,
)
from mirrorlake.archive.claims import RangeClaim, check_claim, decode_claim
from mirrorlake.archive.ends.tail_search import find_last_page
from mirrorlake.archive.looks import LOOKS_MAX, moved, same_complaint, settled
from mirrorlake.archive.names import FLOOR_PREFIX, padded, partition_prefix
from mirrorlake.archive.origin import Origin
from mirrorlake.archive.publish import SegmentPublication
from mirrorlake.archive.sidecar import FORMATS_WITH_SIDECAR, sidecar_folder
from mirrorlake.errors import ChainBrokenError, PositionMovedError
from mirrorlake.stores.crash_points import CrashPoint, no_crash
from mirrorlake.stores.object_store import ObjectInfo, ObjectMissingError, ObjectStore


class ArchivedPartition:
    """The archive of one source partition; keeps nothing itself, so its position is always the store's.

    Args:
        store: where the archive lives.
        destination_name: the topic's folder.
        partition: the source partition.
        extension: what this mirror writes.
    """

    def __init__(self, store: ObjectStore, *, destination_name: str, partition: int, extension: str) -> None:
        self.store = store
        self.partition = partition
        self.prefix = partition_prefix(destination_name, partition)
        self.extension = extension

    def read_chain(self) -> Chain:
        """Lists the whole folder and returns its checked chain; a folder that does not exist is empty.

        What is no chain is looked at again, with the floor: a folder is not listed in one instant, so that it may show
        what was published last without what came before it, or miss a merged segment whose inputs are gone. Whatever
        stood there before a look began is in that look, so only what is really missing is missing twice.

        Raises:
            ChainBrokenError: see `check_chain`; the same was wrong in two looks, one after the other.
            PositionMovedError: merging or retention changed the archive too often meanwhile.
        """
        return self._read_chain(self.store.list(self.prefix))

    def read_segments(self) -> tuple[Chain, list[Segment]]:
        """Lists the whole folder, and returns its checked chain with the segments it is made of, in order.

        What was checked and what is returned are of one listing. Holds all of it; `segments` holds one at a time.

        Raises:
            ChainBrokenError, PositionMovedError: see `read_chain`.
        """
        listed: list[ObjectInfo] = []

        def listing() -> list[ObjectInfo]:
            listed[:] = self.store.list(self.prefix)
            return listed

        chain = self._read_chain(listing(), listing)
        walk = walk_chain(listed, extension=self.extension, where=self.prefix, floor=chain.floor)
        return chain, list(walk)

    def _read_chain(
        self, listing: Iterable[ObjectInfo], again: Callable[[], Iterable[ObjectInfo]] | None = None
    ) -> Chain:
        floor = 0
        before: ChainBrokenError | None = None
        for _ in range(LOOKS_MAX):
            try:
                return check_chain(listing, extension=self.extension, where=self.prefix, floor=floor)
            except ChainBrokenError as error:
                known, floor = floor, self._read_floor()
                if floor == known and same_complaint(before, error):
                    raise
                before = error
            listing = again() if again is not None else self.store.list(self.prefix)
        raise moved(self.prefix)

    def find_end(self) -> Chain:
        """Returns the checked chain, or only its checked end where the store would list for long.

        A store that lists page by page is searched, in some 20 requests for 100 000 segments, and the last page's
        segments are checked one against the other; what is before them is for ``archive check``. All others, and
        folders of one page, are checked whole.

        Raises:
            ChainBrokenError: see `check_chain`, `check_tail`.
            PositionMovedError: the end moved meanwhile; try again.
        """
        page_objects = self.store.listing_page_objects
        if page_objects is None:
            return self.read_chain()
        return settled(lambda: self._search_end(page_objects), where=self.prefix)

    def _search_end(self, page_objects: int) -> Chain:
        head = list(itertools.islice(self.store.list(self.prefix), page_objects))
        first_page = list(leading_segments(head, extension=self.extension, where=self.prefix))
        if len(first_page) < page_objects:
            # The listing's end is in what was read, or it is short and bookkeeping: all of it is read.
            return self._read_chain(head) if len(head) < page_objects else self.read_chain()

        def page_after(offset: int) -> tuple[list[Segment], bool]:
            listing = itertools.islice(self.store.list(self.prefix, start_after=padded(offset)), page_objects)
            page = list(leading_segments(listing, extension=self.extension, where=self.prefix))
            return page, len(page) < page_objects

        return self.read_end(next(uncovered(find_last_page(first_page, page_after))))

    def survey(self, *, refuse: Refuse) -> Iterator[Segment]:
        """Yields the segments of a chain that may be broken, telling ``refuse`` of everything that is wrong.

        What others write meanwhile may look broken: believe what two surveys in a row tell (`looks`).
        """
        floor = self._read_floor()
        listing = self.store.list(self.prefix)
        return walk_chain(listing, extension=self.extension, where=self.prefix, floor=floor, refuse=refuse)

    def segments(self, chain: Chain) -> Iterator[Segment]:
        """Yields the segments of a chain that was read, and those that followed since, checking each once more.

        Raises:
            ChainBrokenError: see `check_chain`; raised when the walk gets there.
            PositionMovedError: segments were merged or retired since the chain was read; read it again.
        """
        last: Segment | None = None
        before: ChainBrokenError | None = None
        for _ in range(LOOKS_MAX):
            try:
                for segment in self._walk_behind(last, chain.floor):
                    last, before = segment, None
                    yield segment
                self._check_reached(last, chain)
            except ChainBrokenError as error:
                if same_complaint(before, error):
                    self.read_chain()
                    raise self._merged() from None
                before = error
            else:
                return
        raise moved(self.prefix)

    def _check_reached(self, last: Segment | None, chain: Chain) -> None:
        """Checks that a walk has come to where a chain ended: what stood there may have gone while it was under way.

        Raises:
            ChainBrokenError: it has not.
        """
        reached = chain.floor if last is None else last.name.end_offset
        if reached < chain.position:
            raise ChainBrokenError(f"{self.prefix}: nothing is behind {reached}, and {chain.position} was its end")

    def _walk_behind(self, last: Segment | None, floor: int) -> Iterator[Segment]:
        """Lists anew, and yields the segments of the chain behind ``last``, which must be part of it still."""
        listing = self.store.list(self.prefix)
        walk = walk_chain(listing, extension=self.extension, where=self.prefix, floor=floor)
        if last is not None and not any(segment == last for segment in walk):
            raise self._merged()
        yield from walk

    def _merged(self) -> PositionMovedError:
        return PositionMovedError(f"{self.prefix}: segments were merged or retired while the archive was looked at")

    def _read_floor(self) -> int:
        return floor_of(self.store.list(self.prefix, start_after=FLOOR_PREFIX))

    def read_tail(self, known: Segment | None) -> Chain:
        """Lists from the last known segment on and returns the checked end of the chain.

        One listing of a few names, however long the archive is. Finds a tail that is gone, replaced or of
        another size, and foreign names at or above it; what happened below shows in the next `read_chain`.

        Args:
            known: the tail of an earlier check; without one the end is looked for, see `find_end`.

        Raises:
            ChainBrokenError, PositionMovedError: see `check_tail`.
        """
        if known is None:
            return self.find_end()

        def look() -> Chain:
            objects = self.store.list(self.prefix, start_after=tail_start_after(known))
            return check_tail(known, objects, extension=self.extension, where=self.prefix)

        return settled(look, where=self.prefix)

    def read_end(self, known: Segment) -> Chain:
        """Returns the checked end of the chain, which must still hold its known tail, or what it was merged into.

        Raises:
            ChainBrokenError: see `check_tail` and `check_chain`.
            PositionMovedError: see `read_chain`.
        """
        try:
            return self.read_tail(known)
        except PositionMovedError:
            return self.read_chain()

    def pending_claim(self, chain: Chain, *, origin: Origin) -> RangeClaim | None:
        """Returns the claim of the chain's position, if there is one: the next segment ends where it says.

        Args:
            chain: as it was read a moment ago.
            origin: whose records the next segment is to hold.

        Raises:
            ChainBrokenError: the claim is damaged or for another format; see `check_claim`.
            OtherSourceError, TopicRecreatedError: it is for a segment of another source.
        """
        for name in chain.claims:
            if name.from_offset != chain.position:
                continue
            key = f"{self.prefix}/{name}"
            try:
                data = self.store.read(key)
            except ObjectMissingError:
                return None
            if claim := decode_claim(data, name):
                check_claim(claim, key, extension=self.extension, origin=origin)
                return replace(claim, key=key)
        return None

    def sweep(self, chain: Chain) -> int:
        """Deletes what crashes left: claims below the chain's position, and staged files of dead writers.

        Safe beside live writers; idempotent.

        Returns:
            How many objects were removed.
        """
        leftovers = [name for name in chain.claims if name.from_offset < chain.position]
        for name in leftovers:
            self.store.delete(f"{self.prefix}/{name}")
        staged = self.store.sweep_staged(self.prefix)
        if self.extension in FORMATS_WITH_SIDECAR:
            staged += self.store.sweep_staged(sidecar_folder(self.prefix))
        return len(leftovers) + staged

    def publication(
        self, from_offset: int, *, origin: Origin, writer: str, crash_point: CrashPoint = no_crash
    ) -> SegmentPublication:
        """Begins the segment at ``from_offset``, the position last read, for records of ``origin``."""
        return SegmentPublication(
            self.store,
            self.prefix,
            from_offset=from_offset,
            extension=self.extension,
            origin=origin,
            writer=writer,
            crash_point=crash_point,
        )
