"""What a filter takes out of a delivery: every offset is a record that is kept, or a gap; batches stay as they may."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.destinations.filtering import FILTERED_REASON, PartitionFilter, Selection, selected
from mirrorlake.destinations.interface import ClassifiedBatch, Delivery
from mirrorlake.destinations.transform import Times, Transform
from mirrorlake.errors import CorruptBatchError
from mirrorlake.filters.parsing import parse_filter
from mirrorlake.kafka.records.batches import COMPACTED, DENSE, OLD_FORMAT, Batch, Codec, Path, walk
from mirrorlake.kafka.records.codec import decode_batches, encode_batch
from mirrorlake.offsets import Gap, GapKind, OffsetRange
from unit.kafka.records.old_messages import Message, message
from unit.kafka.records.record_samples import Sample, columns_of, only_batch, samples_of


@dataclass
class Frame:
    """Holds nothing."""

    def pin(self) -> None: ...

    def unpin(self) -> None: ...


def keeping(condition: str, partition: int = 0) -> PartitionFilter:
    return PartitionFilter(wanted=parse_filter(condition), partition=partition)


def item_of(samples: list[Sample], codec: Codec = Codec.NONE) -> ClassifiedBatch:
    batch = only_batch(encode_batch(columns_of(samples), codec=codec, base_offset=samples[0].offset))
    found = DENSE if batch.header.is_dense else COMPACTED
    return ClassifiedBatch(batch=batch, path=found.path, reason=found.reason)


def delivery_of(items: list[ClassifiedBatch], *, end: int, gaps: tuple[Gap, ...] = ()) -> Delivery:
    return Delivery(
        covered=OffsetRange(start_offset=0, end_offset=end),
        batches=items,
        frame=Frame(),
        log_start_offset=0,
        end_offset=end,
        gaps=gaps,
    )


def offsets_of(delivery: Delivery) -> list[int]:
    return [offset for gap in delivery.gaps for offset in range(gap.offsets.start_offset, gap.offsets.end_offset)]


@given(
    kept=st.lists(st.lists(st.booleans(), min_size=1, max_size=6), min_size=1, max_size=6),
    codec=st.sampled_from(Codec),
    step=st.integers(1, 3),
)
def test_what_is_kept_and_what_is_a_gap_are_all_that_was_delivered(
    kept: list[list[bool]], codec: Codec, step: int
) -> None:
    items: list[ClassifiedBatch] = []
    wanted: list[Sample] = []
    given_up: list[Sample] = []
    offset = 0
    for of_batch in kept:
        samples = []
        for keeps in of_batch:
            samples.append(Sample(offset, key=b"k" if keeps else None, value=b"v%d" % offset))
            (wanted if keeps else given_up).append(samples[-1])
            offset += step
        items.append(item_of(samples, codec))

    found = selected(delivery_of(items, end=offset), Selection(keeps=keeping("key = 'k'")))

    assert found.error is None
    assert offsets_of(found.delivery) == [sample.offset for sample in given_up]
    assert {gap.kind for gap in found.delivery.gaps} <= {GapKind.FILTERED}
    left = [item for item in found.delivery.batches if item.path != Path.SKIP]
    assert samples_of(decode_batches([item.batch for item in left])) == wanted
    for before, after, of_batch in zip(items, found.delivery.batches, kept, strict=True):
        if all(of_batch):
            assert after is before
        elif not any(of_batch):
            assert (after.path, after.reason) == (Path.SKIP, FILTERED_REASON)
        else:
            assert after.batch.header.codec is codec
            assert after.reason == FILTERED_REASON


def test_without_a_filter_a_delivery_is_not_looked_at() -> None:
    delivery = delivery_of([item_of([Sample(0)])], end=1)
    assert Transform().selected(delivery, position=0).delivery is delivery


def test_gaps_of_the_source_and_batches_nobody_is_shown_stay() -> None:
    missing = Gap(offsets=OffsetRange(start_offset=5, end_offset=7), kind=GapKind.MISSING)
    marker = item_of([Sample(1)])._replace(path=Path.SKIP, reason="control")
    items = [item_of([Sample(0)]), marker, item_of([Sample(7)])]
    found = selected(delivery_of(items, end=8, gaps=(missing,)), Selection(keeps=keeping("offset = 0"))).delivery
    assert found.batches[1] is marker
    assert list(found.gaps) == [
        missing,
        Gap(offsets=OffsetRange(start_offset=7, end_offset=8), kind=GapKind.FILTERED),
    ]


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_formats_are_filtered_too(magic: int) -> None:
    messages = [message(magic, Message(offset, value=b"v%d" % offset)) for offset in range(3)]
    items = [
        ClassifiedBatch(batch=batch, path=OLD_FORMAT.path, reason=OLD_FORMAT.reason)
        for each in messages
        for batch in walk(memoryview(each))
    ]
    found = selected(delivery_of(items, end=3), Selection(keeps=keeping("value = 'v1'"))).delivery
    assert [item.path for item in found.batches] == [Path.SKIP, OLD_FORMAT.path, Path.SKIP]
    assert offsets_of(found) == [0, 2]


def test_what_comes_before_a_batch_that_cannot_be_read_is_delivered_and_the_error_is_told() -> None:
    bad = item_of([Sample(2, value=b"x" * 20)])
    broken = bytearray(bad.batch.view)
    broken[-1] ^= 0xFF
    items = [
        item_of([Sample(0)]),
        item_of([Sample(1, key=b"no")]),
        bad._replace(batch=Batch(bad.batch.header, memoryview(broken))),
    ]
    found = selected(delivery_of(items, end=3), Selection(keeps=keeping("key = 'key'")))
    assert isinstance(found.error, CorruptBatchError)
    assert found.delivery.covered == OffsetRange(start_offset=0, end_offset=2)
    assert len(found.delivery.batches) == 2
    assert offsets_of(found.delivery) == [1]


def test_a_filter_sees_the_times_of_the_source_though_the_copy_gets_others() -> None:
    transform = Transform(times=Times.COPY, keeps=keeping("timestamp > TIMESTAMP '1970-01-01T00:00:00.005Z'"))
    records = columns_of([Sample(0, timestamp=5), Sample(1, timestamp=6)])
    assert transform.source_side(records).offsets.tolist() == [1]
