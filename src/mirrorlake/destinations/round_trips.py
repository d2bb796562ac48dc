"""How much is under way to a broker at once, when the next requests go, and what larger batches gain. Pure.

A producer that sends again by itself may have five batches of a partition under way: a broker knows the last five again
(``ProducerStateEntry.NUM_BATCHES_TO_RETAIN``). Nothing of ours is sent again unless the destination was read before,
first the producer's last sequence and then the log end; and a broker takes a batch only if it continues the producer's
sequence (``ProducerAppendInfo.checkSequence``), or has nothing of it left. So more may be under way.
What comes late of a killed writer is taken at its place; a batch of ours that is there already is known again, or out
of sequence where more than five followed it, and the destination is read once more. See
docs/decisions/0328-twenty-requests-and-answers-that-gather.md.

A partition has some batches in flight at most, so that over a long way it moves by those a round trip,
while its worker has nothing to do. Batches in a row go on as one then, whatever their size, for as long as a worker
takes their records over faster than what is in flight moves anyway.
"""

from collections import deque
from itertools import islice
from typing import Final

from mirrorlake.kafka.records.batches import Codec

REQUESTS_MAX: Final = 20
"""Requests under way on a connection, and batches of one partition."""
REQUESTS_MIN: Final = 5
"""So many may be always. No more are at first, where answers are slow, and where they hold ``LARGE_BYTES_MIN``
together: all that comes later waits for what is on a slow line."""
LARGE_BYTES_MIN: Final = 4 << 20
SLOW_ANSWER_SECONDS: Final = 0.25
"""An answer that came later was slow. Longer than answers gather, see ``append_channel.py``."""

ROUND_TRIP_SECONDS_MIN = 0.032
"""Nearer brokers answer as late when they are busy, or we are; batches of 128 KiB go there at 80 MB/s a partition."""

COALESCED_BYTES_MAX = 1 << 20
"""As large as brokers let a batch be by default, and consumers count on it (``max.partition.fetch.bytes``)."""

TAKEN_OVER_BYTES_PER_SECOND = {
    Codec.NONE: 1e9,
    Codec.SNAPPY: 250e6,
    Codec.LZ4: 150e6,
    Codec.ZSTD: 50e6,
    Codec.GZIP: 15e6,
}
"""Bytes, as they are stored, of batches of 128 KiB whose records one core takes over into one of seven times the size;
measured, see docs/decisions/0178-far-destinations-get-larger-batches.md."""


class SendWindow:
    """The requests of one connection that were sent and are not answered, oldest first.

    Until it is full a request goes as soon as there is one. A full window is shut until three fifths of its requests
    are answered, and then takes as many at once: to be woken for each answer, and to send one request for it, costs
    more than the bytes do. Where five fill it, the bytes cost more, and it takes one for each answer.

    It begins with five requests, and takes one more after each answer that was not slow, up to ``REQUESTS_MAX``; after
    a slow one it is back at five. A lease that ends waits for what is under way, and so does a thin stream beside a
    backlog.
    """

    __slots__ = ("_answer_bytes", "_is_shut", "_opens_at", "_requests_max", "_size_bytes", "in_flight_bytes")

    def __init__(self) -> None:
        self._size_bytes: deque[int] = deque()
        self._answer_bytes: deque[int] = deque()
        self.in_flight_bytes = 0
        self._is_shut = False
        self._opens_at = 0
        self._requests_max = REQUESTS_MIN

    def __len__(self) -> int:
        return len(self._size_bytes)

    @property
    def is_shut(self) -> bool:
        """True from when it was full until enough is answered, or ``open`` is called."""
        return self._is_shut

    @property
    def takes_more(self) -> bool:
        """True where a request may be sent now."""
        return not self._is_shut and len(self._size_bytes) < self._takes_requests

    @property
    def _takes_requests(self) -> int:
        return REQUESTS_MIN if self.in_flight_bytes >= LARGE_BYTES_MIN else self._requests_max

    @property
    def awaited_bytes(self) -> int:
        """At least so many bytes of answers come before it opens; 1 where it is not shut."""
        if not self._is_shut:
            return 1
        return sum(islice(self._answer_bytes, len(self._answer_bytes) - self._opens_at))

    def sent(self, size_bytes: int, answer_bytes_min: int) -> None:
        """Takes in a request: bytes of its batches, and the fewest bytes in which it can be answered."""
        self._size_bytes.append(size_bytes)
        self._answer_bytes.append(answer_bytes_min)
        self.in_flight_bytes += size_bytes
        requests = len(self._size_bytes)
        if requests > REQUESTS_MIN and requests >= self._takes_requests:
            self._is_shut = True
            self._opens_at = requests * 2 // 5

    def answered(self, after_seconds: float) -> None:
        """Takes out the oldest request, which is answered, or never will be, so long after it was sent."""
        is_slow = after_seconds >= SLOW_ANSWER_SECONDS
        self._requests_max = REQUESTS_MIN if is_slow else min(REQUESTS_MAX, self._requests_max + 1)
        self.in_flight_bytes -= self._size_bytes.popleft()
        self._answer_bytes.popleft()
        if len(self._size_bytes) <= self._opens_at:
            self._is_shut = False

    def open(self) -> None:
        """Opens it before enough is answered: the next answer lets the next request go."""
        self._is_shut = False


def coalesced_bytes(codec: Codec, *, round_trip_seconds: float, in_flight_bytes: int, batch_bytes_max: int) -> int:
    """Returns up to which size batches of a partition that has all in flight it may are coalesced; 0 for as they are.

    Args:
        codec: theirs.
        round_trip_seconds: to the broker and back, the shortest seen; infinite where none was.
        in_flight_bytes: of all partitions of the worker.
        batch_bytes_max: the largest batch the destination takes.
    """
    is_far = ROUND_TRIP_SECONDS_MIN <= round_trip_seconds < float("inf")
    if not is_far or in_flight_bytes >= TAKEN_OVER_BYTES_PER_SECOND[codec] * round_trip_seconds:
        return 0
    # Records number their offsets and times from the batch's first, in more bytes the more of them there are.
    return min(COALESCED_BYTES_MAX, batch_bytes_max) * 7 // 8
