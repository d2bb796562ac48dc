"""Records that are stamped by the copy have its time, and are else what they were: of every format and compression."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.destinations.coalescing import coalesce
from mirrorlake.destinations.interface import ClassifiedBatch
from mirrorlake.destinations.output_batches import OutputBatch, coalesce_messages, outputs_of
from mirrorlake.destinations.stamping import stamped
from mirrorlake.kafka.records.batches import (
    COMPACTED,
    CONTROL,
    DENSE,
    LOG_APPEND_TIME,
    OLD_FORMAT,
    Batch,
    Classification,
    Codec,
    walk,
)
from mirrorlake.kafka.records.codec import decode_batches, encode_batch
from unit.kafka.records.record_samples import Sample, any_keys, columns_of, only_batch, sample_lists, samples_of
from unit.kafka.records.written_by_kafka import WRITTEN_BY_KAFKA

NOW_MS = 1_790_000_000_123
NO_END = 2**62
MEBIBYTE = 1 << 20


def item(batch: Batch, classified: Classification) -> ClassifiedBatch:
    return ClassifiedBatch(batch=batch, path=classified.path, reason=classified.reason)


def copied(items: list[ClassifiedBatch], *, packs: bool = True) -> list[Sample]:
    """The records that would be appended of a delivery, as a reader of the destination finds them, offsets aside."""
    found: list[Sample] = []
    position = 0  # a wrapper's own offset is that of its last message
    groups = coalesce(coalesce_messages(stamped(items, NOW_MS)), batch_bytes_max=MEBIBYTE, packs=packs)
    for each in groups:
        last = each if isinstance(each, ClassifiedBatch) else each[-1]
        for output in outputs_of(each, position=position, end_offset=NO_END, batch_bytes_max=MEBIBYTE, packs=packs):
            if isinstance(output, OutputBatch):
                assert not output.batch.header.is_log_append_time, "no broker takes that of a producer"
                assert output.max_timestamp_ms == NOW_MS
                found += samples_of(decode_batches([*walk(output.batch.view)]))
        position = last.batch.header.next_offset
    return [replace(sample, offset=0) for sample in found]


def as_stamped(samples: list[Sample]) -> list[Sample]:
    return [replace(sample, offset=0, timestamp=NOW_MS, timestamp_type=0) for sample in samples]


@given(samples=sample_lists(header_keys=any_keys), codec=st.sampled_from(Codec), packs=st.booleans())
def test_records_of_any_batch_have_the_time_of_the_copying_and_are_else_unchanged(
    samples: list[Sample], codec: Codec, packs: bool
) -> None:
    batch = only_batch(encode_batch(columns_of(samples), codec=codec, base_offset=samples[0].offset))
    classified = DENSE if batch.header.is_dense else COMPACTED
    assert copied([item(batch, classified)], packs=packs) == as_stamped(samples)


def test_small_batches_are_coalesced_and_stamped_all_the_same() -> None:
    samples = [Sample(n, timestamp=1000 + n, value=b"%d" % n) for n in range(20)]
    items = [
        item(only_batch(encode_batch(columns_of([each]), codec=Codec.NONE, base_offset=each.offset)), DENSE)
        for each in samples
    ]
    assert copied(items, packs=False) == as_stamped(samples)


@pytest.mark.parametrize("name", ["v0", "v1"])
def test_messages_of_old_formats_get_it_too_also_where_they_have_no_time(name: str) -> None:
    batches = [*walk(memoryview(bytearray(WRITTEN_BY_KAFKA[name])))]
    expected = samples_of(decode_batches(batches))
    assert len(expected) == 3
    assert copied([item(batch, OLD_FORMAT) for batch in batches]) == as_stamped(expected)


def test_what_the_sources_brokers_stamped_gets_the_new_time() -> None:
    batch = only_batch(bytearray(WRITTEN_BY_KAFKA["log-append-time"]))
    assert [each.timestamp for each in copied([item(batch, LOG_APPEND_TIME)])] == [NOW_MS] * 3


def test_markers_stay_as_they_are_and_the_batches_given_are_not_changed() -> None:
    marker = item(only_batch(bytearray(WRITTEN_BY_KAFKA["commit"])), CONTROL)
    data = item(only_batch(bytearray(WRITTEN_BY_KAFKA["none"])), DENSE)
    before = (data.batch.header, bytes(data.batch.view))
    assert stamped([data, marker], NOW_MS)[1] is marker
    assert (data.batch.header, bytes(data.batch.view)) == before
