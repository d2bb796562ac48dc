"""A delivery in pieces, so that no partition has a worker's event loop for long. Pure."""

from collections.abc import Iterator
from dataclasses import replace

from mirrorlake.destinations.interface import Delivery
from mirrorlake.offsets import OffsetRange, gaps_within

PIECE_BATCHES_MAX = 1024
"""How many batches are handed over at a time. A fetch answer may hold ten thousand of a record each. Where each of them
is decompressed and changed that is seconds of a core, on a busy machine more than a lease lives: nothing was sent
meanwhile, no answer was taken, and the watchdog ended the worker."""


def pieces_of(delivery: Delivery, *, batches_max: int = PIECE_BATCHES_MAX) -> Iterator[Delivery]:
    """Yields deliveries of at most so many batches each, in order, that account together for the same offsets.

    It is the delivery itself where that has no more. All but the last end with a batch; what no batch holds before the
    next one is the next piece's. Each needs a pin of its own.
    """
    batches, covered = delivery.batches, delivery.covered
    if len(batches) <= batches_max:
        yield delivery
        return
    start = covered.start_offset
    for first in range(0, len(batches), batches_max):
        behind = first + batches_max
        part = batches[first:behind]
        is_last = behind >= len(batches)
        end = covered.end_offset if is_last else max(start, part[-1].batch.header.next_offset)
        offsets = OffsetRange(start_offset=start, end_offset=end)
        yield replace(delivery, covered=offsets, batches=part, gaps=tuple(gaps_within(delivery.gaps, offsets)))
        start = end
