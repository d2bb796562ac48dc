"""Copies with equal offsets whose newest records are plainly those of the source, found in a few requests for all.

The tail check asks five questions about each copy. Here all copies of a cluster are asked about together, and one is
called equal only where the very bytes, or the records in them, were seen to be equal on both sides. Whatever is not so
plain is left to the tail check, which says what is wrong, if anything is: markers, aborted data, gaps at the end, what
is large, and what could not be read.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mirrorlake.destinations.tail import TAIL_OFFSETS
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.cluster import EARLIEST, ClusterClient
from mirrorlake.kafka.control.descriptions import LogEnd
from mirrorlake.kafka.records.batch_header import HEADER_BYTES, TRANSACTIONAL_BIT
from mirrorlake.kafka.records.batches import Batch, verify_crc, walk
from mirrorlake.kafka.records.codec import decode_batches
from mirrorlake.kafka.wire.fetch import FetchedPartition
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.together import both

COPIES_AT_ONCE = 256
"""How many tails are held at a time: 8 MiB at most, both sides together."""

_MAGIC = 2

Read = Mapping[TopicPartition, FetchedPartition | MirrorlakeError]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A source partition and its copy, which ends at ``position``; that was read before anything is asked here."""

    source: TopicPartition
    destination: TopicPartition
    position: int


async def equal_copies(copies: Sequence[Copy], *, source: ClusterClient, destination: ClusterClient) -> frozenset[Copy]:
    """Returns the copies whose newest records are plainly the source's; says nothing of the others.

    Never raises for what cannot be read: such a copy is not among them.

    Args:
        copies: of one source cluster in one destination cluster.
        source: of the source cluster.
        destination: of the destination cluster.
    """
    # Reads are by partition: of two copies of one only the last one's would be left.
    sources, places = Counter(copy.source for copy in copies), Counter(copy.destination for copy in copies)
    alone = [copy for copy in copies if sources[copy.source] == places[copy.destination] == 1]
    found: set[Copy] = set()
    try:
        spans = await _spans(alone, source, destination)
        for some in _parts([*spans]):
            expected, held = await both(
                source.fetch_many({copy.source: spans[copy].start_offset for copy in some}),
                destination.fetch_many({copy.destination: spans[copy].start_offset for copy in some}),
            )
            found |= {copy for copy in some if _is_equal(copy, spans[copy], expected, held)}
    except MirrorlakeError:
        pass  # the tail check of each will say what it is
    return frozenset(found)


def _parts(copies: Sequence[Copy]) -> Iterator[Sequence[Copy]]:
    for start in range(0, len(copies), COPIES_AT_ONCE):
        yield copies[start : start + COPIES_AT_ONCE]


async def _spans(copies: Sequence[Copy], source: ClusterClient, destination: ClusterClient) -> dict[Copy, OffsetRange]:
    """Returns what the tail check would compare, where both sides have it."""
    sources, places = [copy.source for copy in copies], [copy.destination for copy in copies]
    # The source's end is read after the copy's: a source that goes on never looks cut.
    ends = await source.log_ends(sources)
    starts, kept = await both(
        source.list_offsets(sources, timestamp=EARLIEST), destination.list_offsets(places, timestamp=EARLIEST)
    )
    spans: dict[Copy, OffsetRange] = {}
    for copy in copies:
        end, first, own_first = ends[copy.source], starts[copy.source], kept[copy.destination]
        if not isinstance(end, LogEnd) or not isinstance(first, int) or not isinstance(own_first, int):
            continue
        start = max(copy.position - TAIL_OFFSETS, first, own_first)
        if start < copy.position <= end.end_offset:
            spans[copy] = OffsetRange(start_offset=start, end_offset=copy.position)
    return spans


def _is_equal(copy: Copy, span: OffsetRange, expected: Read, held: Read) -> bool:
    ours, theirs = held.get(copy.destination), expected.get(copy.source)
    if not isinstance(ours, FetchedPartition) or not isinstance(theirs, FetchedPartition):
        return False
    try:
        return holds_the_same(theirs, ours, span)
    except MirrorlakeError:
        return False


def holds_the_same(source: FetchedPartition, destination: FetchedPartition, span: OffsetRange) -> bool:
    """Tells whether two logs were seen to hold the same records at all of some offsets; False where it is not plain.

    Raises:
        MirrorlakeError: a batch is not as it should be.
    """
    expected, held = _plain(source, span), _plain(destination, span)
    if expected is None or held is None:
        return False
    if [*map(_content, expected)] == [*map(_content, held)]:
        return True
    # Batches are cut in other places where small ones were joined, or written one by one.
    one, other = (
        decode_batches(batches, start_offset=span.start_offset, end_offset=span.end_offset)
        for batches in (expected, held)
    )
    return one.equals(other)


def _plain(fetched: FetchedPartition, span: OffsetRange) -> list[Batch] | None:
    """Returns the batches that reach into a span, where they reach to its end and all are committed records."""
    if fetched.aborted:
        return None
    batches: list[Batch] = []
    for batch in walk(fetched.records):
        header = batch.header
        if header.magic != _MAGIC or header.is_control or not header.record_count:
            return None
        if header.last_offset < span.start_offset:
            continue
        verify_crc(batch)
        batches.append(batch)
        if header.next_offset >= span.end_offset:
            return batches
    return None


def _content(batch: Batch) -> tuple[int, int, int, int, int, int, bytes]:
    """Returns what of a batch its records follow from: not who wrote it, nor when its leader was elected."""
    header = batch.header
    return (
        header.base_offset,
        header.last_offset_delta,
        header.attributes & ~TRANSACTIONAL_BIT,
        header.base_timestamp,
        header.max_timestamp,
        header.record_count,
        bytes(batch.view[HEADER_BYTES:]),
    )
