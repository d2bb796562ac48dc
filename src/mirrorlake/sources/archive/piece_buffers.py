"""Memory of pieces that goes round: fresh memory is cleared page by page, and is cold when it is written to.

Threads take a buffer, the event loop gives it back once nobody has a view of it. There are never more than were in use
at one time, and few are kept.
"""

from mirrorlake.kafka.wire.buffers import is_viewed

KEPT_MAX = 6
"""Two for each segment that is read at a time, and two that wait to be sent."""


class PieceBuffers:
    """Buffers of one size, for the pieces of one worker.

    Args:
        buffer_bytes: of each.
        kept_max: how many that nobody uses are kept.
    """

    def __init__(self, buffer_bytes: int, *, kept_max: int = KEPT_MAX) -> None:
        self.buffer_bytes = buffer_bytes
        self._kept_max = kept_max
        self._kept: list[bytearray] = []

    def taken(self) -> bytearray:
        """Returns a buffer, whatever is in it; from any thread."""
        try:
            return self._kept.pop()  # the one used last: it is the likeliest to be in cache
        except IndexError:
            return bytearray(self.buffer_bytes)

    def give_back(self, buffer: bytearray) -> None:
        """Takes a buffer back, from the event loop alone.

        One that is still looked at through a view is left to it: whoever is given the piece again gives it back again.
        """
        if (
            len(self._kept) < self._kept_max
            and not is_viewed(buffer)
            and all(buffer is not each for each in self._kept)
        ):
            self._kept.append(buffer)
