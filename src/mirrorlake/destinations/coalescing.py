"""Which small batches of a delivery are coalesced into one. Pure; `output_batches.py` makes the batch.

A batch has its price however small it is: in Python on its way, and as one of the few a partition may have in flight.
So where many small ones follow one another, their records go on in one.
"""

from collections.abc import Iterable, Iterator, Sequence

from mirrorlake.destinations.interface import ClassifiedBatch
from mirrorlake.kafka.records.batches import COMPACTED, DENSE, LOG_APPEND_TIME, BatchHeader, Codec, Path

COALESCED_REASON = "coalesced"
"""For the counters: why records left their batch."""

SMALL_BYTES_MAX = {
    Codec.NONE: 16 << 10,
    Codec.GZIP: 512,
    Codec.SNAPPY: 4 << 10,
    Codec.LZ4: 4 << 10,
    Codec.ZSTD: 1 << 10,
}
"""The largest batch, as it is stored, whose records take at most half the CPU to take over that it takes to send it by
itself; measured, see docs/decisions/0041-small-batches-are-coalesced.md."""

NOT_COALESCED_BYTES_MIN = max(SMALL_BYTES_MAX.values()) + 1
"""A dense batch of at least so many bytes goes by itself, whatever its compression."""

REWRITTEN_BYTES_MAX = 16 << 10
"""The like for a batch that is taken apart and compressed anew in any case."""

COALESCED_BATCHES_MIN = 6
"""One more than a partition may have in flight: fewer go on without a wait, and as they are."""

COALESCED_BYTES_MAX = 256 << 10
"""How many bytes of them, as they are stored, become one batch; the price of a batch is next to nothing then."""

_REASONS = frozenset({DENSE.reason, COMPACTED.reason, LOG_APPEND_TIME.reason})


CoalescedBatches = Sequence[ClassifiedBatch]
"""Small v2 data batches of one compression, in the order of their offsets, that become one; never empty."""


def coalesce(
    items: Iterable[ClassifiedBatch],
    *,
    batch_bytes_max: int,
    packs: bool,
    keeps_log_append_time: bool = True,
    coalesced_bytes: int = 0,
) -> Iterator[ClassifiedBatch | CoalescedBatches]:
    """Yields the items of a delivery in order, those small batches together that become one.

    Args:
        items: as they were classified.
        batch_bytes_max: the largest batch the destination takes, inclusive; what belongs together comes to no more.
        packs: False coalesces only batches whose offsets, all with a record, follow one another, as equal offsets need
            it; True any.
        keeps_log_append_time: as for ``outputs_of``; tells what would be passed through by itself.
        coalesced_bytes: where a partition waits for round trips, the size up to which any two batches or more in a row
            are coalesced (``round_trips.py``); 0 elsewhere.
    """
    bytes_max = min(max(COALESCED_BYTES_MAX, coalesced_bytes), batch_bytes_max)
    batches_min = 2 if coalesced_bytes else COALESCED_BATCHES_MIN
    waiting: list[ClassifiedBatch] = []
    waiting_bytes = 0
    before: BatchHeader | None = None
    for item in items:
        header = item.batch.header
        is_rewritten = not header.is_dense or (keeps_log_append_time and header.is_log_append_time)
        is_small = _is_small(item, is_rewritten=is_rewritten, coalesced_bytes=coalesced_bytes)
        if not is_small or not (packs or header.is_dense):
            yield from _together(waiting, batches_min)
            yield item
            waiting, before = [], None
            continue
        waiting_bytes += header.batch_bytes
        if before is None or not (
            waiting_bytes <= bytes_max
            and header.attributes & 0x07 == before.attributes & 0x07
            and (header.base_offset >= before.next_offset if packs else header.base_offset == before.next_offset)
        ):
            yield from _together(waiting, batches_min)
            waiting, waiting_bytes = [], header.batch_bytes
        waiting.append(item)
        before = header
    yield from _together(waiting, batches_min)


def _is_small(item: ClassifiedBatch, *, is_rewritten: bool, coalesced_bytes: int) -> bool:
    header = item.batch.header
    small = REWRITTEN_BYTES_MAX if is_rewritten else SMALL_BYTES_MAX[header.codec]
    return header.batch_bytes <= max(small, coalesced_bytes // 2) and item.path != Path.SKIP and item.reason in _REASONS


def _together(waiting: Sequence[ClassifiedBatch], batches_min: int) -> Iterable[ClassifiedBatch | CoalescedBatches]:
    return waiting if len(waiting) < batches_min else (tuple(waiting),)
