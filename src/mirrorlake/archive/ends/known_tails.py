"""The last segments a worker has seen, so that the next look at an archive lists what follows and not all of it.

Of each it knows whose records it holds, so that nobody opens it a second time.

A cache only: every position still comes from a listing (law 1), which begins at the segment known instead of at the
first, and what is before that one was checked when it was learned; see `ArchivedPartition.find_end` for how much of it.
"""

from collections.abc import Hashable

from mirrorlake.archive.chain import Chain, Segment
from mirrorlake.archive.folder import PartitionFolder
from mirrorlake.archive.newest import Newest, read_newest
from mirrorlake.errors import ChainBrokenError, PositionMovedError


class KnownTails:
    """Last segments, by archived partition; several threads may look, at one partition one at a time."""

    def __init__(self) -> None:
        self._tails: dict[Hashable, Segment] = {}
        self._newest: dict[Hashable, tuple[Segment, Newest]] = {}

    def read(self, archived: PartitionFolder, *, key: Hashable) -> Chain:
        """Returns the checked end of a chain, as `ArchivedPartition.read_tail` does, and remembers its last segment.

        Where the segment known is not what it was, the whole chain is checked instead.

        Args:
            archived: where to look.
            key: tells archived partitions of all stores apart.

        Raises:
            ChainBrokenError: see `check_chain`.
        """
        known = self._tails.pop(key, None)
        try:
            chain = archived.read_tail(known)
        except (ChainBrokenError, PositionMovedError):
            if known is None:
                raise
            chain = archived.read_chain()
        if chain.tail is not None:
            self._tails[key] = chain.tail
        return chain

    def newest(self, archived: PartitionFolder, tail: Segment, *, key: Hashable) -> Newest:
        """Returns what a newest segment says of itself: read once, as segments never change.

        Raises:
            MirrorlakeError: see `read_newest`.
        """
        known = self._newest.get(key)
        if known is None or known[0] != tail:
            known = self._newest[key] = tail, read_newest(archived, tail)
        return known[1]
