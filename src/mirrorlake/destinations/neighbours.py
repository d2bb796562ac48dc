"""Which small batches of a delivery become one. Pure; `pieces.py` makes the batch.

A batch has its price however small it is: in Python on its way, and as one of the few a partition may have in flight.
So where many small ones follow one another, their records go on in one.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mirrorlake.destinations.interface import ClassifiedBatch
from mirrorlake.kafka.batches import COMPACTED, DENSE, LOG_APPEND_TIME, BatchHeader, Codec, Path

JOINED_REASON = "joined"
"""For the counters: why records left their batch."""

SMALL_BYTES_MAX = {
    Codec.NONE: 16 << 10,
    Codec.GZIP: 512,
    Codec.SNAPPY: 4 << 10,
    Codec.LZ4: 4 << 10,
    Codec.ZSTD: 1 << 10,
}
"""The largest batch, as it is stored, that takes more CPU to send by itself than to take over; measured, see
docs/decisions/0041-small-batches-are-joined.md."""

JOINED_BATCHES_MIN = 6
"""One more than a partition may have in flight: fewer go on without a wait, and as they are."""

JOINED_BYTES_MAX = 256 << 10
"""How many bytes of them, as they are stored, become one batch; the price of a batch is next to nothing then."""

_REASONS = frozenset({DENSE.reason, COMPACTED.reason, LOG_APPEND_TIME.reason})


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Small v2 data batches of one compression, in the order of their offsets, that go on as one; never empty."""

    items: Sequence[ClassifiedBatch]


def neighbours_joined(
    items: Iterable[ClassifiedBatch], *, batch_bytes_max: int, packs: bool
) -> Iterator[ClassifiedBatch | Neighbours]:
    """Yields the items of a delivery in order, small batches that are to become one together.

    Args:
        items: as they were classified.
        batch_bytes_max: the largest batch the destination takes, inclusive; what belongs together comes to no more.
        packs: False joins only batches whose offsets, all with a record, follow one another, as equal offsets need
            it; True any.
    """
    bytes_max = min(JOINED_BYTES_MAX, batch_bytes_max)
    waiting: list[ClassifiedBatch] = []
    waiting_bytes = 0
    before: BatchHeader | None = None
    for item in items:
        header = item.batch.header
        if not _is_small(item, packs=packs):
            yield from _together(waiting)
            yield item
            waiting, before = [], None
            continue
        waiting_bytes += header.batch_bytes
        if before is None or not (
            waiting_bytes <= bytes_max
            and header.attributes & 0x07 == before.attributes & 0x07
            and (header.base_offset >= before.next_offset if packs else header.base_offset == before.next_offset)
        ):
            yield from _together(waiting)
            waiting, waiting_bytes = [], header.batch_bytes
        waiting.append(item)
        before = header
    yield from _together(waiting)


def _is_small(item: ClassifiedBatch, *, packs: bool) -> bool:
    header = item.batch.header
    return (
        header.batch_bytes <= SMALL_BYTES_MAX[header.codec]
        and item.reason in _REASONS
        and item.path != Path.SKIP
        and (packs or header.is_dense)
    )


def _together(waiting: Sequence[ClassifiedBatch]) -> Iterable[ClassifiedBatch | Neighbours]:
    return waiting if len(waiting) < JOINED_BATCHES_MIN else (Neighbours(waiting),)
