"""What the sinks of both Kafka destinations have in common: they take whatever comes, as it comes."""

from collections.abc import Callable

from mirrorlake.destinations.interface import ENDLESS, Progress
from mirrorlake.errors import MirrorlakeError


class EndlessSink:
    """A sink without an end of its own, that encodes nothing: see ``PartitionSink`` for what its members mean.

    Args:
        changed: called whenever ``has_room`` or ``failure`` changed.
    """

    is_endless = True
    wanted_end = ENDLESS
    needs_encoder = False
    reads_alone = False

    def __init__(self, *, changed: Callable[[], None]) -> None:
        self.progress = Progress()
        self.failure: MirrorlakeError | None = None
        self._changed = changed
        self._next_offset = 0

    @property
    def next_offset(self) -> int:
        """The source offset the next delivery must start at."""
        return self._next_offset

    async def end_encoding(self) -> None:
        """Nothing is encoded."""

    async def stands(self) -> bool:
        """Returns False: it is not asked."""
        return False
