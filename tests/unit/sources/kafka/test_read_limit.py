"""Where reading ends inside of record batches: by offset, and by the first record that is later than a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorlake.destinations.interface import ClassifiedBatch
from mirrorlake.errors import CorruptBatchError
from mirrorlake.kafka.records.batch_header import PREFIX_BYTES, read_header
from mirrorlake.kafka.records.batches import ABORTED, CONTROL, DENSE, AbortedTransactions, Batch, classify
from mirrorlake.kafka.records.codec import decode_batches
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.kafka.read_limit import ReadLimit, limit_of
from mirrorlake.window import Window
from support.records import Record, build_batch

NOON = 1_700_000_000_000

Told = list[tuple[int, int]]
"""Offsets and times of records."""


def batch_of(base_offset: int, times: list[int], *, codec: int = 0, epoch: int = 3) -> ClassifiedBatch:
    """A batch of records at offsets in a row, as it was classified."""
    made = bytearray(build_batch([Record(NOON + t, b"k", b"v%d" % t, ()) for t in times], codec))
    header = read_header(memoryview(made), 0, len(made) - PREFIX_BYTES)
    batch = Batch(header._replace(base_offset=base_offset, leader_epoch=epoch), memoryview(made))
    found = classify(batch, position=base_offset, aborted=AbortedTransactions(()))
    return ClassifiedBatch(batch=batch, path=found.path, reason=found.reason)


def told(items: object) -> Told:
    columns = decode_batches([item.batch for item in items])  # type: ignore[attr-defined]
    return [(int(o), int(t) - NOON) for o, t in zip(columns.offsets, columns.timestamps, strict=True)]


@given(
    batches=st.lists(st.lists(st.integers(-3, 3), min_size=1, max_size=6), min_size=1, max_size=4),
    holes=st.lists(st.integers(0, 2), min_size=5, max_size=5),
    until=st.one_of(st.none(), st.integers(-3, 3)),
    end=st.one_of(st.none(), st.integers(0, 30)),
    skip=st.integers(0, 8),
    codec=st.sampled_from([0, 4]),
)
@settings(deadline=None)
def test_what_is_kept_is_what_lies_before_the_end_and_no_record_twice_or_lost(
    batches: list[list[int]], holes: list[int], until: int | None, end: int | None, skip: int, codec: int
) -> None:
    items, offset, records = [], 10, []
    for times, hole in zip(batches, holes, strict=False):
        offset += hole
        items.append(batch_of(offset, times, codec=codec))
        records += [(offset + n, time) for n, time in enumerate(times)]
        offset += len(times)
    position = offset + holes[-1]
    start = min(10 + skip, items[0].batch.header.next_offset - 1)
    limit = ReadLimit(until_ms=None if until is None else NOON + until, end_offset=end)

    # Told record by record: the earlier of the given end and of the first late record that counts.
    late = [o for o, time in records if o >= start and until is not None and time > until]
    ends = [e for e in (late[0] if late else None, end) if e is not None]
    wanted = max(start, min([*ends, position + 1]))
    found = limit.within(items, position, start=start)
    assert (found.position, found.is_end) == ((wanted, True) if wanted <= position else (position, False))
    kept = [each for each in told(found.batches) if each[0] >= start] if found.batches else []
    assert kept == [each for each in records if start <= each[0] < found.position]
    assert all(item.batch.header.next_offset <= max(found.position, start) for item in found.batches)


def test_the_head_of_a_batch_is_dense_and_of_its_compression_and_epoch() -> None:
    item = batch_of(100, [0, 0, 0, 5, 0], codec=4)
    found = ReadLimit(until_ms=NOON).within([item], 105, start=100)
    (head,) = found.batches
    header = head.batch.header
    assert (found.position, found.is_end, told([head])) == (103, True, [(100, 0), (101, 0), (102, 0)])
    assert (head.path, head.reason) == (DENSE.path, DENSE.reason)
    assert (header.codec, header.leader_epoch, header.record_count) == (item.batch.header.codec, 3, 3)


@pytest.mark.parametrize("why", [CONTROL, ABORTED], ids=["marker", "aborted"])
def test_neither_a_marker_nor_what_was_aborted_ends_anything_by_its_time(why: object) -> None:
    item = batch_of(100, [9, 9])
    hidden = ClassifiedBatch(batch=item.batch, path=why.path, reason=why.reason)  # type: ignore[attr-defined]
    found = ReadLimit(until_ms=NOON).within([hidden, batch_of(102, [0])], 103, start=100)
    assert (found.position, found.is_end, len(found.batches)) == (103, False, 2)
    cut = ReadLimit(end_offset=101).within([hidden], 102, start=100)
    assert (cut.position, cut.is_end, list(cut.batches)) == (101, True, [])


def test_a_batch_that_cannot_be_decoded_leaves_those_before_it() -> None:
    broken = batch_of(101, [7, 7], codec=4)
    np.frombuffer(broken.batch.view, dtype=np.uint8)[70:] = 0xFF
    limit = ReadLimit(until_ms=NOON)
    found = limit.within([batch_of(100, [0]), broken], 103, start=100)
    assert (found.position, found.is_end, told(found.batches)) == (101, False, [(100, 0)])
    with pytest.raises(CorruptBatchError):
        limit.within([broken], 103, start=101)


def test_a_window_bounds_a_partition_where_it_says_so() -> None:
    window = Window(until_offsets={"orders": {0: 7}})
    assert limit_of(window, TopicPartition("orders", 0)) == ReadLimit(end_offset=7)
    assert limit_of(window, TopicPartition("orders", 1)) is None
    assert limit_of(Window(until_ms=5), TopicPartition("orders", 1)) == ReadLimit(until_ms=5)
