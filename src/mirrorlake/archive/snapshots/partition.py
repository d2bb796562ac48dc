"""One partition's snapshots in their store: which is the newest, its claims, and the next one."""

from collections.abc import Iterator

from mirrorlake.archive.chain import Chain, Refuse, Segment, tail_start_after
from mirrorlake.archive.claims import RangeClaim
from mirrorlake.archive.looks import settled
from mirrorlake.archive.origin import Origin
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.publish import SegmentPublication
from mirrorlake.archive.snapshots.chain import (
    check_newest,
    check_snapshots,
    end_above_view,
    replaced_snapshots,
    walk_snapshots,
)
from mirrorlake.stores.crash_points import CrashPoint, no_crash
from mirrorlake.stores.object_store import ObjectStore


class SnapshotPartition:
    """The snapshots of one source partition; keeps nothing itself, so its position is always the store's.

    They are published as the segments of an archive are, by the same claims. The position read from the newest
    snapshot is all that the protocol needs: whoever claims it lists everything at or above it.

    Args:
        store: where they live.
        destination_name: the topic's folder.
        partition: the source partition.
        extension: what this mirror writes.
    """

    def __init__(self, store: ObjectStore, *, destination_name: str, partition: int, extension: str) -> None:
        self.store = store
        self.partition = partition
        self.extension = extension
        self._archived = ArchivedPartition(
            store, destination_name=destination_name, partition=partition, extension=extension
        )
        self.prefix = self._archived.prefix

    def read_chain(self) -> Chain:
        """Lists the whole folder and returns its newest snapshot; a folder that does not exist is empty.

        Raises:
            ChainBrokenError: see `check_snapshots`.
        """

        def look() -> Chain:
            return check_snapshots(self.store.list(self.prefix), extension=self.extension, where=self.prefix)

        return settled(look, where=self.prefix)

    def find_end(self) -> Chain:
        """Returns the newest snapshot; whole chains are short, as old ones are of no use.

        Raises:
            ChainBrokenError: see `check_snapshots`.
        """
        return self.read_chain()

    def snapshots(self) -> list[Segment]:
        """Returns all snapshots that count, the oldest first.

        Raises:
            ChainBrokenError: see `check_snapshots`.
        """

        def look() -> list[Segment]:
            return list(walk_snapshots(self.store.list(self.prefix), extension=self.extension, where=self.prefix))

        return settled(look, where=self.prefix)

    def replaced(self) -> tuple[tuple[Segment, Segment], ...]:
        """Returns each snapshot that does not count any more, with the one that does in its place.

        Raises:
            ChainBrokenError: see `replaced_snapshots`.
        """

        def look() -> tuple[tuple[Segment, Segment], ...]:
            return replaced_snapshots(self.store.list(self.prefix), extension=self.extension, where=self.prefix)

        return settled(look, where=self.prefix)

    def survey(self, *, refuse: Refuse) -> Iterator[Segment]:
        """Yields all snapshots that count, telling ``refuse`` of everything that is wrong with their names."""
        objects = self.store.list(self.prefix)
        return walk_snapshots(objects, extension=self.extension, where=self.prefix, refuse=refuse)

    def read_tail(self, known: Segment | None) -> Chain:
        """Lists from the newest snapshot known on.

        Args:
            known: of an earlier check; without one the whole folder is read.

        Raises:
            ChainBrokenError: see `check_newest`.
        """
        if known is None:
            return self.read_chain()

        def look() -> Chain:
            objects = self.store.list(self.prefix, start_after=tail_start_after(known))
            return check_newest(known, objects, extension=self.extension, where=self.prefix)

        return settled(look, where=self.prefix)

    def read_end(self, known: Segment) -> Chain:
        """Returns the newest snapshot, which must be the one known or one that has followed it.

        Raises:
            ChainBrokenError: see `check_newest`.
        """
        return self.read_tail(known)

    def pending_claim(self, chain: Chain, *, origin: Origin) -> RangeClaim | None:
        """Returns the claim of the position, if there is one: the next snapshot ends where it says.

        Raises:
            ChainBrokenError, OtherSourceError, TopicRecreatedError: see `ArchivedPartition.pending_claim`.
        """
        return self._archived.pending_claim(chain, origin=origin)

    def sweep(self, chain: Chain) -> int:
        """Deletes claims below the position, and staged files of dead writers; returns how many were removed."""
        return self._archived.sweep(chain)

    def publication(
        self, from_offset: int, *, origin: Origin, writer: str, crash_point: CrashPoint = no_crash
    ) -> SegmentPublication:
        """Begins the snapshot that is named from ``from_offset``, the position last read."""
        return SegmentPublication(
            self.store,
            self.prefix,
            from_offset=from_offset,
            extension=self.extension,
            origin=origin,
            writer=writer,
            end_above=end_above_view,
            crash_point=crash_point,
        )
