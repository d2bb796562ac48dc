"""One archived partition in its store: its chain, the end of it, its claims, and the next segment."""

import itertools
from collections.abc import Iterable, Iterator

from mirrorlake.archive.chain import (
    NO_UPKEEP,
    Chain,
    Refuse,
    Segment,
    Upkeep,
    check_chain,
    check_tail,
    leading_segments,
    merged_segments,
    tail_start_after,
    upkeep_of,
    walk_chain,
)
from mirrorlake.archive.claims import Claim, decode_claim
from mirrorlake.archive.names import FLOOR_PREFIX, level_folder, padded, parse_level_folder, partition_prefix
from mirrorlake.archive.publish import SegmentPublication
from mirrorlake.archive.sidecar import FORMATS_WITH_SIDECAR, sidecar_folder
from mirrorlake.archive.tail_search import find_last_page
from mirrorlake.errors import ChainBrokenError, PositionMovedError
from mirrorlake.stores.crash_points import CrashPoint, no_crash
from mirrorlake.stores.object_store import ObjectInfo, ObjectMissingError, ObjectStore

UPKEEP_CHANGES_MAX = 10
"""How often merging or retention may change an archive while it is looked at; each time the look is taken again."""


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

        Where level 0 alone is no chain, merged segments and the floor are looked at too.

        Raises:
            ChainBrokenError: see `check_chain`.
            PositionMovedError: merging or retention changed the archive too often meanwhile.
        """
        return self._read_chain(self.store.list(self.prefix))

    def _read_chain(self, listing: Iterable[ObjectInfo]) -> Chain:
        upkeep = NO_UPKEEP
        for attempt in range(UPKEEP_CHANGES_MAX):
            if attempt:
                listing = self.store.list(self.prefix)
            try:
                chain = check_chain(listing, extension=self.extension, where=self.prefix, upkeep=upkeep)
            except ChainBrokenError:
                known, upkeep = upkeep, self._read_upkeep()
                if known == upkeep:
                    raise
                continue
            if chain.tail is None:
                # An empty level 0 is new, unless something was merged from it: then its newest segment was taken.
                known, upkeep = upkeep, self._read_upkeep()
                if known != upkeep:
                    continue
            return chain
        raise self._moved()

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
        head = list(itertools.islice(self.store.list(self.prefix), page_objects))
        first_page = list(leading_segments(head, extension=self.extension, where=self.prefix))
        if len(first_page) < page_objects:
            # The listing's end is in what was read, or it is short and bookkeeping: all of it is read.
            return self._read_chain(head) if len(head) < page_objects else self.read_chain()

        def page_after(offset: int) -> tuple[list[Segment], bool]:
            listing = itertools.islice(self.store.list(self.prefix, start_after=padded(offset)), page_objects)
            page = list(leading_segments(listing, extension=self.extension, where=self.prefix))
            return page, len(page) < page_objects

        return self.read_end(find_last_page(first_page, page_after)[0])

    def survey(self, *, refuse: Refuse) -> Iterator[Segment]:
        """Yields the segments of a chain that may be broken, telling ``refuse`` of everything that is wrong.

        What merging or retention changes meanwhile may look broken: look again before you believe it.
        """
        upkeep = self._read_upkeep()
        listing = self.store.list(self.prefix)
        return walk_chain(listing, extension=self.extension, where=self.prefix, upkeep=upkeep, refuse=refuse)

    def segments(self, chain: Chain) -> Iterator[Segment]:
        """Yields the segments of a chain that was read, and those that followed since, checking each once more.

        Raises:
            ChainBrokenError: see `check_chain`; raised when the walk gets there.
            PositionMovedError: segments were merged or retired since the chain was read; read it again.
        """
        listing = self.store.list(self.prefix)
        try:
            yield from walk_chain(listing, extension=self.extension, where=self.prefix, upkeep=chain.upkeep)
        except ChainBrokenError:
            if self._read_upkeep() == chain.upkeep:
                raise
            raise self._moved() from None

    def _read_upkeep(self) -> Upkeep:
        # Bottom up, and floors last: whatever vanishes while we look has been put into a folder, or below a floor,
        # that is looked at later.
        levels = sorted(filter(None, map(parse_level_folder, self.store.folders(self.prefix))))
        merged = [segment for level in levels for segment in self._merged(level)]
        return upkeep_of(merged, self.store.list(self.prefix, start_after=FLOOR_PREFIX))

    def _merged(self, level: int) -> Iterator[Segment]:
        folder = f"{self.prefix}/{level_folder(level)}"
        return merged_segments(self.store.list(folder), level=level, extension=self.extension, where=folder)

    def _moved(self) -> PositionMovedError:
        return PositionMovedError(f"{self.prefix}: segments were merged or retired while the archive was looked at")

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
        objects = self.store.list(self.prefix, start_after=tail_start_after(known))
        return check_tail(known, objects, extension=self.extension, where=self.prefix)

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

    def pending_claim(self, chain: Chain) -> Claim | None:
        """Returns the claim of the chain's position, if there is one: the next segment ends where it says."""
        for name in chain.claims:
            if name.from_offset != chain.position:
                continue
            try:
                data = self.store.read(f"{self.prefix}/{name}")
            except ObjectMissingError:
                return None
            if claim := decode_claim(data, from_offset=name.from_offset):
                return claim
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

    def publication(self, from_offset: int, *, writer: str, crash_point: CrashPoint = no_crash) -> SegmentPublication:
        """Begins the segment at ``from_offset``, the position last read."""
        return SegmentPublication(
            self.store,
            self.prefix,
            from_offset=from_offset,
            extension=self.extension,
            writer=writer,
            crash_point=crash_point,
        )
