"""One archived partition in its store: its chain, the end of it, its claims, and the next segment."""

from mirrorlake.archive.chain import Chain, Segment, check_chain, check_tail, tail_start_after
from mirrorlake.archive.claims import Claim, decode_claim
from mirrorlake.archive.names import partition_prefix
from mirrorlake.archive.publish import SegmentPublication
from mirrorlake.stores.crash_points import CrashPoint, no_crash
from mirrorlake.stores.object_store import ObjectMissingError, ObjectStore


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
        self.prefix = partition_prefix(destination_name, partition)
        self.extension = extension

    def read_chain(self) -> Chain:
        """Lists the whole folder and returns its checked chain; a folder that does not exist is empty.

        Raises:
            ChainBrokenError: see `check_chain`.
        """
        return check_chain(self.store.list(self.prefix), extension=self.extension, where=self.prefix)

    def read_tail(self, known: Segment | None) -> Chain:
        """Lists from the last known segment on and returns the checked end of the chain.

        One listing of a few names, however long the archive is. Finds a tail that is gone, replaced or of
        another size, and foreign names at or above it; what happened below shows in the next `read_chain`.

        Args:
            known: the tail of an earlier check; without one the whole folder is read.

        Raises:
            ChainBrokenError, PositionMovedError: see `check_tail`.
        """
        if known is None:
            return self.read_chain()
        objects = self.store.list(self.prefix, start_after=tail_start_after(known))
        return check_tail(known, objects, extension=self.extension, where=self.prefix)

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
        return len(leftovers) + self.store.sweep_staged(self.prefix)

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
