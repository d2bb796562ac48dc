"""Formats v0 and v1: records come back as a consumer would see them, and bytes that lie are refused with the offset."""

import struct
import tracemalloc
import zlib
from contextlib import suppress

import cramjam
import numpy as np
import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorlake.destinations.interface import ClassifiedBatch
from mirrorlake.destinations.output_batches import OutputBatch, OutputGap, coalesce_messages, outputs_of
from mirrorlake.errors import BatchTooLargeError, CorruptBatchError
from mirrorlake.kafka.records.batches import Codec, verify_crc, walk
from mirrorlake.kafka.records.codec import decode_batches, encode_batch
from mirrorlake.kafka.records.old_formats import as_v2
from unit.kafka.records.old_messages import GZIP, LOG_APPEND_TIME, LZ4, SNAPPY, Message, message, wrapper
from unit.kafka.records.record_samples import Sample, batches_in, columns_of, only_batch, samples_of
from unit.kafka.records.written_by_kafka import WRITTEN_BY_KAFKA

EVERY_CODEC = pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
CONTENTS = [(b"k", b"value"), (None, b""), (b"", None), (None, None), (b"\xff" * 200, b"x" * 70_000)]


def decoded(data: bytes | bytearray) -> list[Sample]:
    return samples_of(decode_batches(batches_in(data)))


# --- what Kafka and aiokafka wrote


def test_decodes_messages_of_v0_that_kafka_wrote() -> None:
    assert decoded(WRITTEN_BY_KAFKA["v0"]) == [
        Sample(1000, -1, b"k", b"value", (), -1),
        Sample(1001, -1, None, b"", (), -1),
        Sample(1002, -1, b"", None, (), -1),
    ]


def test_decodes_a_wrapper_of_v1_that_kafka_wrote() -> None:
    assert decoded(WRITTEN_BY_KAFKA["v1"]) == [
        Sample(1000, 1_700_000_000_000, b"k", b"value"),
        Sample(1001, 1_700_000_000_005, None, b""),
        Sample(1002, 1_699_999_999_000, b"", None),
    ]


_fields = st.one_of(st.none(), st.binary(max_size=30), st.sampled_from([b"x" * 127, b"y" * 9000]))
_stamps = st.one_of(st.integers(0, 2**62), st.sampled_from([-1, 0, 2**63 - 1]))


@settings(deadline=None, max_examples=60)
@given(
    records=st.lists(st.tuples(_stamps, _fields, _fields), min_size=1, max_size=12),
    codec=st.sampled_from([0, GZIP, SNAPPY, LZ4]),
    magic=st.sampled_from([0, 1]),
)
def test_reads_what_aiokafka_writes_as_aiokafka_reads_it(
    records: list[tuple[int, bytes | None, bytes | None]], codec: int, magic: int
) -> None:
    if magic == 0 and codec == LZ4:
        codec = GZIP  # aiokafka has no LZ4 of v0
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 30)
    for offset, (timestamp, key, value) in enumerate(records):
        builder.append(offset, timestamp, key, value)
    data = bytearray(builder.build())
    if codec:
        struct.pack_into(">q", data, 0, len(records) - 1)  # a wrapper's offset is given by the broker
    theirs: list[tuple[object, ...]] = []
    sets = MemoryRecords(bytes(data))
    while sets.has_next():
        # No timestamp is None there and -1 here, as it stands in the bytes.
        for each in sets.next_batch():
            theirs.append((each.offset, -1 if each.timestamp is None else each.timestamp, each.key, each.value))
    ours = [(each.offset, each.timestamp, each.key, each.value) for each in decoded(data)]
    assert ours == theirs
    assert [offset for offset, *_ in ours] == list(range(len(records)))


# --- written out here


@pytest.mark.parametrize("magic", [0, 1])
def test_every_key_and_value_of_single_messages_survives(magic: int) -> None:
    data = b"".join(message(magic, Message(7 + 2 * i, *each, 100 + i)) for i, each in enumerate(CONTENTS))
    expected = [
        Sample(7 + 2 * i, 100 + i if magic else -1, *each, timestamp_type=0 if magic else -1)
        for i, each in enumerate(CONTENTS)
    ]
    assert decoded(data) == expected


@EVERY_CODEC
def test_offsets_inside_a_wrapper_of_v0_are_absolute(codec: int) -> None:
    offsets = [40, 41, 45, 46, 90]
    inside = [message(0, Message(offset, *each)) for offset, each in zip(offsets, CONTENTS, strict=True)]
    assert decoded(wrapper(0, codec, 90, inside)) == [
        Sample(offset, -1, *each, timestamp_type=-1) for offset, each in zip(offsets, CONTENTS, strict=True)
    ]


@EVERY_CODEC
def test_offsets_inside_a_wrapper_of_v1_count_back_from_its_own(codec: int) -> None:
    offsets = [2, 3, 5, 6, 9]  # the first two were compacted away, and some between
    inside = [message(1, Message(offset, *each, 5 * offset)) for offset, each in zip(offsets, CONTENTS, strict=True)]
    assert decoded(wrapper(1, codec, 1009, inside)) == [
        Sample(1000 + offset, 5 * offset, *each) for offset, each in zip(offsets, CONTENTS, strict=True)
    ]


def test_every_record_has_the_time_of_a_wrapper_with_log_append_time() -> None:
    inside = [message(1, Message(offset, timestamp=offset)) for offset in range(3)]
    data = wrapper(1, SNAPPY, 12, inside, timestamp=999, attributes=LOG_APPEND_TIME)
    assert decoded(data) == [Sample(10 + i, 999, b"k", b"v", timestamp_type=1) for i in range(3)]


def test_a_single_message_with_log_append_time_keeps_its_time() -> None:
    data = message(1, Message(4, timestamp=77), LOG_APPEND_TIME)
    assert decoded(data) == [Sample(4, 77, b"k", b"v", timestamp_type=1)]


def test_snappy_without_the_framing_of_java_is_read() -> None:
    inside = message(1, Message(0, timestamp=3))
    data = message(1, Message(8, None, bytes(cramjam.snappy.compress_raw(inside))), SNAPPY)
    assert decoded(data) == [Sample(8, 3, b"k", b"v")]


def test_formats_may_be_mixed_as_a_topic_that_was_upgraded_has_them() -> None:
    newest = bytes(encode_batch(columns_of([Sample(6), Sample(8)]), codec=Codec.LZ4, base_offset=6))
    data = (
        newest.replace(newest[:8], struct.pack(">q", 0))
        + message(0, Message(3))
        + wrapper(1, LZ4, 5, [message(1, Message(0, timestamp=1)), message(1, Message(1, timestamp=2))])
        + newest
    )
    assert [each.offset for each in decoded(data)] == [0, 2, 3, 4, 5, 6, 8]


def test_only_records_of_the_range_are_kept_even_where_a_wrapper_ends_beyond_it() -> None:
    data = wrapper(1, GZIP, 19, [message(1, Message(i, timestamp=i)) for i in range(10)])
    columns = decode_batches(batches_in(data), start_offset=12, end_offset=15)
    assert columns.offsets.tolist() == [12, 13, 14]


def test_a_converted_message_is_a_batch_of_v2_with_its_offsets_and_times() -> None:
    data = wrapper(1, GZIP, 19, [message(1, Message(i, timestamp=50 - i)) for i in (1, 4, 9)])
    batch = as_v2(only_batch(data))
    verify_crc(batch)
    header = batch.header
    assert (header.magic, header.base_offset, header.last_offset, header.record_count) == (2, 11, 19, 3)
    assert (header.max_timestamp, header.codec, header.is_log_append_time) == (49, Codec.NONE, False)


# --- on the way to Kafka


@EVERY_CODEC
@pytest.mark.parametrize("packs", [False, True])
def test_outputs_of_an_old_message_keep_compression_and_account_for_every_offset(codec: int, packs: bool) -> None:
    data = wrapper(1, codec, 20, [message(1, Message(i, b"%d" % i, b"v", -1)) for i in (0, 1, 4)])
    item = ClassifiedBatch(batch=only_batch(data), path="records", reason="old-format")
    found = list(outputs_of(item, position=10, end_offset=99, batch_bytes_max=10_000, packs=packs))
    shapes = [(type(each), each.offsets.start_offset, each.offsets.end_offset) for each in found]
    if packs:
        assert shapes == [(OutputGap, 10, 16), (OutputBatch, 16, 21)]
    else:
        assert shapes == [(OutputGap, 10, 16), (OutputBatch, 16, 18), (OutputGap, 18, 20), (OutputBatch, 20, 21)]
    data_outputs = [each for each in found if isinstance(each, OutputBatch)]
    assert {each.batch.header.codec for each in data_outputs} == {codec}
    assert {each.reason for each in data_outputs} == {"old-format"}
    records = [record for each in data_outputs for record in samples_of(decode_batches(list(walk(each.batch.view))))]
    assert [(each.timestamp, each.key, each.timestamp_type) for each in records] == [
        (-1, b"0", 0),
        (-1, b"1", 0),
        (-1, b"4", 0),
    ]


def old(data: bytes) -> list[ClassifiedBatch]:
    return [ClassifiedBatch(batch=each, path="records", reason="old-format") for each in batches_in(data)]


def test_neighbouring_single_messages_become_one_batch_with_their_offsets_and_times() -> None:
    singles = [Message(offset, b"%d" % offset, None, 1000 - offset) for offset in (3, 4, 9)]
    packed = wrapper(1, GZIP, 11, [message(1, Message(0)), message(1, Message(1))])
    after = message(1, Message(12)) + message(0, Message(13)) + message(0, Message(14))
    items = list(coalesce_messages(old(b"".join(message(1, each) for each in singles) + packed + after)))
    assert [(each.batch.header.base_offset, each.batch.header.last_offset) for each in items] == [
        (3, 9),
        (11, 11),
        (12, 12),
        (13, 14),
    ]
    assert samples_of(decode_batches([items[0].batch])) == [
        Sample(offset, 1000 - offset, b"%d" % offset, None) for offset in (3, 4, 9)
    ]
    found = list(outputs_of(items[0], position=0, end_offset=99, batch_bytes_max=10_000, packs=False))
    assert [(type(each), each.offsets.start_offset, each.offsets.end_offset) for each in found] == [
        (OutputGap, 0, 3),
        (OutputBatch, 3, 5),
        (OutputGap, 5, 9),
        (OutputBatch, 9, 10),
    ]
    assert [(each.path, each.is_in_frame) for each in found if isinstance(each, OutputBatch)] == [
        ("records", False)
    ] * 2


def test_messages_of_different_broker_times_are_not_joined() -> None:
    stamps = [7, 7, 8]
    data = b"".join(message(1, Message(i, timestamp=stamp), LOG_APPEND_TIME) for i, stamp in enumerate(stamps))
    items = list(coalesce_messages(old(data)))
    assert [each.batch.header.record_count for each in items] == [2, 1]
    assert [each.timestamp for item in items for each in samples_of(decode_batches([item.batch]))] == stamps


def test_messages_are_joined_up_to_a_bound_of_bytes_and_of_number() -> None:
    many = b"".join(message(0, Message(offset)) for offset in range(2500))
    assert [each.batch.header.record_count for each in coalesce_messages(old(many))] == [1000, 1000, 500]
    large = b"".join(message(0, Message(offset, value=bytes(200_000))) for offset in range(5))
    assert [each.batch.header.last_offset for each in coalesce_messages(old(large))] == [1, 3, 4]


def test_a_delivery_without_old_messages_is_passed_on_as_it_is() -> None:
    batch = only_batch(encode_batch(columns_of([Sample(0)]), codec=Codec.NONE))
    items = [ClassifiedBatch(batch=batch, path="raw", reason="dense")]
    assert coalesce_messages(items) is items


def test_what_is_before_a_message_that_is_not_right_arrives_and_the_message_is_named() -> None:
    wrong = bytearray(message(1, Message(6)))
    struct.pack_into(">i", wrong, 26, 100)
    first, bad, _ = coalesce_messages(old(message(1, Message(5)) + resealed(wrong) + message(1, Message(7))))
    (output,) = outputs_of(first, position=5, end_offset=99, batch_bytes_max=10_000, packs=False)
    assert (type(output), output.offsets.start_offset, output.offsets.end_offset) == (OutputBatch, 5, 6)
    with pytest.raises(CorruptBatchError) as error:
        list(outputs_of(bad, position=6, end_offset=99, batch_bytes_max=10_000, packs=False))
    assert error.value.facts["offset"] == 6


def test_a_position_inside_a_wrapper_leaves_out_what_is_before_it() -> None:
    data = wrapper(0, SNAPPY, 12, [message(0, Message(offset)) for offset in (10, 11, 12)])
    item = ClassifiedBatch(batch=only_batch(data), path="records", reason="old-format")
    (output,) = outputs_of(item, position=11, end_offset=99, batch_bytes_max=10_000, packs=False)
    assert isinstance(output, OutputBatch)
    assert (output.offsets.start_offset, output.offsets.end_offset, output.batch.header.record_count) == (11, 13, 2)


# --- bytes that lie


def resealed(data: bytes | bytearray) -> bytes:
    """The outer checksum made right, so that what is inside is reached."""
    changed = bytearray(data)
    struct.pack_into(">I", changed, 12, zlib.crc32(changed[16:]))
    return bytes(changed)


INSIDE = [message(1, Message(0, timestamp=1)), message(1, Message(1, timestamp=2))]
WRONG = {
    "checksum inside": [INSIDE[0], INSIDE[1][:-1] + b"w"],
    "cut inside": [INSIDE[0], INSIDE[1][:-1]],
    "cut to less than a message": [INSIDE[0], INSIDE[1][:20]],
    "nothing inside": [],
    "compressed inside": [wrapper(1, GZIP, 0, INSIDE)],
    "offsets that stand still": [INSIDE[0], INSIDE[0]],
    "offsets that fall": [INSIDE[1], INSIDE[0]],
    "offsets beyond the wrapper's": [message(1, Message(0)), message(1, Message(2**40))],
    "negative offset": [message(1, Message(-5)), INSIDE[1]],
    "magic of v2 inside": [resealed(INSIDE[0][:16] + b"\x02" + INSIDE[0][17:])],
}


@pytest.mark.parametrize("name", WRONG)
def test_what_no_wrapper_can_hold_is_refused_with_its_offset(name: str) -> None:
    with pytest.raises(CorruptBatchError) as error:
        decoded(wrapper(1, GZIP, 70, WRONG[name]))
    assert error.value.facts["offset"] == 70


def test_offsets_of_v0_past_the_wrappers_own_are_refused() -> None:
    with pytest.raises(CorruptBatchError):
        decoded(wrapper(0, GZIP, 70, [message(0, Message(71))]))


@pytest.mark.parametrize("value", [None, b"", b"not gzip"])
def test_a_wrapper_without_compressed_data_is_refused(value: bytes | None) -> None:
    with pytest.raises(CorruptBatchError):
        decoded(message(1, Message(70, None, value), GZIP))


@pytest.mark.parametrize("lengths", [(2**31 - 1, 1), (1, 2**31 - 1), (1, 0), (3, 1)])
def test_lengths_that_lead_elsewhere_are_refused(lengths: tuple[int, int]) -> None:
    data = bytearray(message(1, Message(5, b"k", b"v")))
    struct.pack_into(">i", data, 26, lengths[0])
    struct.pack_into(">i", data, 31, lengths[1])
    with pytest.raises(CorruptBatchError) as error:
        decoded(resealed(data))
    assert error.value.facts["offset"] == 5


def test_a_wrapper_that_grows_beyond_the_limit_is_refused_without_the_memory() -> None:
    data = wrapper(1, GZIP, 0, [message(1, Message(0, value=bytes(50_000_000)))])
    batch = only_batch(data)
    tracemalloc.start()
    with pytest.raises(BatchTooLargeError, match=r"its \d+ compressed bytes come to more than 4000000"):
        decode_batches([batch], decompressed_bytes_max=4_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000


@settings(deadline=None, max_examples=200)
@given(data=st.data(), magic=st.sampled_from([0, 1]), codec=st.sampled_from([0, GZIP, SNAPPY, LZ4]))
def test_no_flipped_or_cut_bytes_do_more_than_raise(data: st.DataObject, magic: int, codec: int) -> None:
    inside = [message(magic, Message(i, *CONTENTS[i], i)) for i in range(3)]
    good = bytearray(wrapper(magic, codec, 2, inside) if codec else inside[0])
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(16, len(good) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del good[data.draw(st.integers(26, len(good))) :]
        struct.pack_into(">i", good, 8, len(good) - 12)
    with suppress(CorruptBatchError):
        columns = decode_batches(batches_in(resealed(good)))
        assert (np.diff(columns.offsets) > 0).all()


@settings(deadline=None, max_examples=200)
@given(data=st.binary(max_size=200), codec=st.sampled_from([GZIP, SNAPPY, LZ4]))
def test_random_bytes_inside_a_wrapper_do_no_more_than_raise(data: bytes, codec: int) -> None:
    with suppress(CorruptBatchError):
        decoded(wrapper(1, codec, 70, [data]))
