import struct
import tracemalloc
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorlake.errors import BatchTooLargeError, CorruptBatchError, RecordTooLargeError
from mirrorlake.kafka.records.batch_header import write_header
from mirrorlake.kafka.records.batches import Codec, verify_crc
from mirrorlake.kafka.records.codec import RecordColumns, decode_batches, decode_parts, encode_batch, warm
from mirrorlake.kafka.records.encode import RowEncoder, compressed
from unit.kafka.records.record_samples import (
    Sample,
    any_keys,
    batches_in,
    columns_of,
    only_batch,
    sample_lists,
    samples_of,
    utf8_keys,
)
from unit.kafka.records.written_by_kafka import WRITTEN_BY_KAFKA

pytestmark = pytest.mark.usefixtures("way_of_decoding")

# What `written_by_kafka.py` says of its data batches.
HEADERS = ((b"trace", b"\x01\x02"), (b"trace", None), ("é".encode(), b""))
FIRST = Sample(1000, 1_700_000_000_000, b"k", b"value", HEADERS)
SECOND = Sample(1001, 1_700_000_000_005, None, b"")
THIRD = Sample(1002, 1_699_999_999_000, b"", None)
RECORDS = [FIRST, SECOND, THIRD]


def resealed(data: bytes | bytearray) -> bytearray:
    """The same bytes with a checksum that is right."""
    data = bytearray(data)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return data


def encoded(samples: list[Sample], codec: Codec = Codec.NONE) -> bytearray:
    return encode_batch(columns_of(samples), codec=codec, base_offset=samples[0].offset)


# --- decoding what Kafka wrote


@pytest.mark.parametrize("codec", Codec)
def test_decodes_what_kafka_wrote(codec: Codec) -> None:
    columns = decode_batches(batches_in(WRITTEN_BY_KAFKA[codec.name.lower()]))
    assert samples_of(columns) == RECORDS
    assert columns.sizes.tolist() == [1 + 5 + 5 + 2 + 5 + 2, 0, 0]


def test_every_record_of_a_log_append_time_batch_has_its_time() -> None:
    columns = decode_batches(batches_in(WRITTEN_BY_KAFKA["log-append-time"]))
    assert columns.timestamps.tolist() == [1_700_000_009_999] * 3
    assert columns.timestamp_types.tolist() == [1, 1, 1]
    assert columns.values.to_pylist() == [b"value", b"", None]


def test_offsets_with_gaps_are_kept() -> None:
    columns = decode_batches(batches_in(WRITTEN_BY_KAFKA["gaps"]))
    assert columns.offsets.tolist() == [1000, 1004, 2009]


def test_empty_batch_has_no_records() -> None:
    columns = decode_batches(batches_in(WRITTEN_BY_KAFKA["empty"]))
    assert len(columns) == 0
    assert columns.equals(RecordColumns.empty())


def test_no_batches_are_no_records() -> None:
    assert decode_batches([]).equals(RecordColumns.empty())


def test_a_marker_is_refused() -> None:
    with pytest.raises(ValueError, match="no records but a marker"):
        decode_batches(batches_in(WRITTEN_BY_KAFKA["commit"]))


def test_absent_headers_take_no_memory_for_items() -> None:
    columns = decode_batches([only_batch(encoded([Sample(i) for i in range(10)]))])
    assert len(columns.headers.values) == 0
    assert columns.headers.to_pylist() == [[]] * 10


# --- encoding


def test_encodes_byte_by_byte_what_kafka_writes() -> None:
    kafkas = WRITTEN_BY_KAFKA["none"]
    assert encoded(RECORDS) == kafkas


@pytest.mark.parametrize("codec", Codec)
def test_encodes_the_records_it_was_given(codec: Codec) -> None:
    data = encoded(RECORDS, codec)
    batch = only_batch(data)
    assert batch.header.codec is codec
    verify_crc(batch)
    assert samples_of(decode_batches([batch])) == RECORDS


def test_encodes_the_header_it_was_asked_for() -> None:
    columns = columns_of([Sample(7, 5), Sample(8, 3), Sample(11, 9)])
    data = encode_batch(
        columns,
        codec=Codec.ZSTD,
        producer_id=2**40,
        producer_epoch=32767,
        base_sequence=2**31 - 1,
        is_transactional=True,
        base_offset=2**50,
    )
    fields = struct.unpack_from(">qiibIhiqqqhii", data)
    assert fields[:4] == (2**50, len(data) - 12, -1, 2)
    # transactional and zstd; the last offset delta is the last record's; first and largest timestamp
    assert fields[5:] == (0x14, 4, 5, 9, 2**40, 32767, 2**31 - 1, 3)
    assert decode_batches([only_batch(data)]).offsets.tolist() == [2**50, 2**50 + 1, 2**50 + 4]


def test_encodes_for_no_producer_at_offset_zero_by_default() -> None:
    header = only_batch(encode_batch(columns_of([Sample(900)]), codec=Codec.NONE)).header
    assert (header.base_offset, header.producer_id, header.producer_epoch) == (0, -1, -1)
    assert (header.base_sequence, header.attributes) == (-1, 0)


def test_log_append_time_is_encoded_as_create_time() -> None:
    columns = decode_batches(batches_in(WRITTEN_BY_KAFKA["log-append-time"]))
    again = only_batch(encode_batch(columns, codec=Codec.NONE))
    assert not again.header.is_log_append_time
    assert decode_batches([again]).timestamps.tolist() == [1_700_000_009_999] * 3


def test_encodes_slices_of_columns() -> None:
    samples = [
        Sample(i, i, None if i % 3 else b"k%d" % i, None if i % 5 == 0 else b"v" * i, HEADERS[: i % 4])
        for i in range(40)
    ]
    columns = columns_of(samples).slice(3, 38).slice(10, 30)
    assert samples_of(columns) == samples[13:33]
    assert samples_of(decode_batches([only_batch(encoded_columns(columns))])) == samples[13:33]


def test_runs_of_rows_are_encoded_in_any_order() -> None:
    samples = [Sample(7 * i, 50 - i, b"k%d" % i if i % 3 else None, b"v" * i, HEADERS[: i % 4]) for i in range(1, 40)]
    rows = RowEncoder(columns_of(samples).slice(2, 38))
    for start, stop in [(30, 36), (0, 5), (5, 6), (0, 36), (20, 30)]:
        for codec in Codec:
            batch = rows.uncompressed(start, stop)
            if codec is not Codec.NONE:
                batch = compressed(batch, codec)
            write_header(batch, rows.header(start, stop, batch)._replace(attributes=codec))
            assert samples_of(decode_batches([only_batch(bytearray(batch))])) == samples[2 + start : 2 + stop]


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (1, 1), (0, 3), (2, 1)])
def test_rows_that_make_no_batch_are_refused(start: int, stop: int) -> None:
    rows = RowEncoder(columns_of([Sample(0), Sample(1), Sample(2**31)]))
    with pytest.raises(ValueError, match="a batch takes"):
        rows.uncompressed(start, stop)


def encoded_columns(columns: RecordColumns) -> bytearray:
    return encode_batch(columns, codec=Codec.NONE, base_offset=int(columns.offsets[0]))


def test_renumbered_records_make_a_dense_batch() -> None:
    columns = decode_batches(batches_in(WRITTEN_BY_KAFKA["gaps"])).renumbered(0)
    header = only_batch(encode_batch(columns, codec=Codec.LZ4)).header
    assert header.is_dense
    assert header.last_offset_delta == 2


@pytest.mark.parametrize("offsets", [[], [1, 1], [2, 1], [0, 2**31]])
def test_offsets_no_batch_can_have_are_refused(offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="a batch takes"):
        encode_batch(columns_of([Sample(offset) for offset in offsets]), codec=Codec.NONE)


def test_largest_offset_delta_is_encoded() -> None:
    samples = [Sample(0), Sample(2**31 - 1)]
    assert samples_of(decode_batches([only_batch(encoded(samples))])) == samples


def test_record_above_what_a_length_can_say_is_too_large() -> None:
    # 2 GiB of value that takes no memory: a buffer that claims more than there is, of which only lengths are read.
    bounds = pa.py_buffer(np.array([0, 5, 5 + 2**31], np.int64))
    claimed = pa.foreign_buffer(bounds.address, 5 + 2**31, base=bounds)
    values = pa.Array.from_buffers(pa.large_binary(), 2, [None, bounds, claimed])
    one = columns_of([Sample(0), Sample(1)])
    columns = RecordColumns(
        offsets=one.offsets,
        timestamps=one.timestamps,
        timestamp_types=one.timestamp_types,
        keys=one.keys,
        values=values,
        headers=one.headers,
        sizes=np.array([8, 3 + 2**31]),
    )
    with pytest.raises(RecordTooLargeError) as error:
        encode_batch(columns, codec=Codec.NONE)
    assert error.value.facts["offset"] == 1


def test_timestamps_of_every_kind_survive() -> None:
    samples = [Sample(i, stamp) for i, stamp in enumerate([-1, 0, 2**63 - 1, -(2**63), 1, 253_402_300_799_999])]
    assert samples_of(decode_batches([only_batch(encoded(samples))])) == samples


@pytest.mark.parametrize("codec", Codec)
def test_large_records_survive(codec: Codec) -> None:
    large = bytes(range(256)) * 20_000  # 5 MB: beyond the room that is there at first
    samples = [Sample(0, value=large), Sample(1, key=large, value=b""), Sample(2, headers=((large, large),))]
    assert samples_of(decode_batches([only_batch(encoded(samples, codec))])) == samples


# --- against aiokafka, both ways


@settings(deadline=None, max_examples=60)
@given(samples=sample_lists(header_keys=utf8_keys, dense=True), codec=st.sampled_from(Codec))
def test_aiokafka_reads_what_we_encode(samples: list[Sample], codec: Codec) -> None:
    records = MemoryRecords(bytes(encode_batch(columns_of(samples), codec=codec)))
    batch = records.next_batch()
    assert batch.validate_crc()
    theirs = [
        Sample(
            record.offset,
            record.timestamp,
            record.key,
            record.value,
            tuple((key.encode(), value) for key, value in record.headers),
        )
        for record in batch
    ]
    assert theirs == samples
    assert not records.has_next()


@settings(deadline=None, max_examples=60)
@given(samples=sample_lists(header_keys=utf8_keys), codec=st.sampled_from(Codec))
def test_we_read_what_aiokafka_encodes(samples: list[Sample], codec: Codec) -> None:
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 30)
    # Its builder takes a first timestamp of -1 for none given yet, and writes another batch than it was asked for.
    samples[0] = replace(samples[0], timestamp=max(samples[0].timestamp, 0))
    for sample in samples:
        headers = [(key.decode(), value) for key, value in sample.headers]
        builder.append(sample.offset, sample.timestamp, sample.key, sample.value, headers)
    data = bytearray(builder.build())
    assert samples_of(decode_batches([only_batch(data)])) == samples


@settings(deadline=None, max_examples=60)
@given(samples=sample_lists(header_keys=any_keys), codec=st.sampled_from(Codec))
def test_header_keys_of_any_bytes_survive(samples: list[Sample], codec: Codec) -> None:
    # aiokafka cannot read these; the encoder alone has been held against it above.
    assert samples_of(decode_batches([only_batch(encoded(samples, codec))])) == samples


# --- many batches at once


def batch_sequence(count: int, *, value_bytes: int = 1000) -> tuple[bytearray, list[Sample]]:
    """Batches of all codecs, one after the other, with gaps between and records with and without all there is."""
    data, samples = bytearray(), []
    offset = 0
    for index in range(count):
        part = []
        for row in range(1 + index % 7):
            headers = HEADERS[: (index + row) % 4]
            key = [None, b"", b"key-%d" % offset][row % 3]
            value = None if row == 5 else b"%d" % offset * (value_bytes // 4)
            part.append(Sample(offset, 1_700_000_000_000 + offset, key, value, headers))
            offset += 1 + (row == 3)
        data += encoded(part, Codec(index % 5))
        samples += part
        offset += index % 2
    return data, samples


def test_many_batches_become_one_set_of_columns() -> None:
    data, samples = batch_sequence(500)
    assert samples_of(decode_batches(batches_in(data))) == samples


def test_result_owns_its_memory() -> None:
    data, samples = batch_sequence(20)
    columns = decode_batches(batches_in(data))
    data[:] = b"\xff" * len(data)
    other, _ = batch_sequence(30, value_bytes=3000)
    decode_batches(batches_in(other))
    assert samples_of(columns) == samples


def test_batches_grow_larger_than_was_to_be_guessed() -> None:
    # The first batches say little of the last: each column has to grow again.
    small = [encoded([Sample(i, key=None, value=b"")]) for i in range(400)]
    large = encoded([Sample(1000 + i, key=b"k" * 5000, value=b"v" * 9000, headers=HEADERS) for i in range(300)])
    tiny = encoded([Sample(2000 + i, key=None, value=None) for i in range(100_000)], Codec.ZSTD)
    columns = decode_batches(batches_in(b"".join(small) + large + tiny))
    assert columns.offsets.tolist() == [*range(400), *range(1000, 1300), *range(2000, 102_000)]
    assert columns.sizes.tolist() == [0] * 400 + [14_000 + 14] * 300 + [0] * 100_000
    columns.values.validate(full=True)


@pytest.mark.parametrize(
    ("start_offset", "end_offset"),
    [(0, None), (0, 0), (5, 6), (37, 90), (37, None), (0, 41), (10_000, None), (0, 10_000)],
)
def test_only_offsets_in_the_range_are_kept(start_offset: int, end_offset: int | None) -> None:
    data, samples = batch_sequence(40)
    columns = decode_batches(batches_in(data), start_offset=start_offset, end_offset=end_offset)
    end = 1 << 60 if end_offset is None else end_offset
    assert samples_of(columns) == [each for each in samples if start_offset <= each.offset < end]


def test_batches_out_of_the_range_are_not_looked_at() -> None:
    data = bytearray(encoded([Sample(0)])) + encoded([Sample(10)]) + encoded([Sample(20)])
    data[70] ^= 1
    data[-1] ^= 1
    columns = decode_batches(batches_in(data), start_offset=10, end_offset=11)
    assert columns.offsets.tolist() == [10]


def test_parts_hold_together_what_one_decode_holds() -> None:
    data, samples = batch_sequence(200)
    parts = list(decode_parts(batches_in(data), part_bytes_max=20_000))
    assert len(parts) > 10
    # To within one batch: 7 records of about 1000 bytes, and what a batch has beside keys, values and headers.
    assert all(19_000 <= int(part.sizes.sum()) < 20_000 + 8000 for part in parts[:-1])
    assert [each for part in parts for each in samples_of(part)] == samples
    assert samples_of(RecordColumns.concat(parts)) == samples


def test_nothing_in_range_makes_no_part() -> None:
    data, _ = batch_sequence(20)
    assert list(decode_parts(batches_in(data), start_offset=10_000, part_bytes_max=1)) == []


# --- batches that lie; `test_fuzz.py` has the blind ones


@pytest.mark.parametrize("codec", Codec)
def test_wrong_checksum_is_corrupt(codec: Codec) -> None:
    data = encoded(RECORDS, codec)
    data[-1] ^= 0x40
    with pytest.raises(CorruptBatchError, match="checksum") as error:
        decode_batches(batches_in(data))
    assert error.value.facts["offset"] == 1000


@pytest.mark.parametrize("codec", Codec)
def test_count_of_records_is_believed_only_as_far_as_bytes_go(codec: Codec) -> None:
    data = encoded(RECORDS, codec)
    struct.pack_into(">i", data, 23, 2**31 - 2)
    struct.pack_into(">i", data, 57, 2**31 - 1)
    tracemalloc.start()
    with pytest.raises(CorruptBatchError, match="2147483647 records do not fit") as error:
        decode_batches(batches_in(resealed(data)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert error.value.facts["offset"] == 1000
    assert peak < 10_000_000


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_bomb_is_refused_at_the_limit(codec: Codec) -> None:
    data = encoded([Sample(1000, value=bytes(40_000_000))], codec)
    for limit in (1000, 2_000_000, 39_999_999):
        with pytest.raises(
            BatchTooLargeError, match=f"its {len(data) - 61} compressed bytes come to more than {limit}"
        ):
            decode_batches(batches_in(data), decompressed_bytes_max=limit)
    columns = decode_batches(batches_in(data), decompressed_bytes_max=40_100_000)
    assert columns.sizes.tolist() == [40_000_003]


def with_body(body: bytes, *, record_count: int = 1, last_offset_delta: int = 0) -> bytearray:
    data = bytearray(WRITTEN_BY_KAFKA["none"][:61]) + body
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">i", data, 23, last_offset_delta)
    struct.pack_into(">i", data, 57, record_count)
    return resealed(data)


# A record by its bytes: length 6, attributes, timestamp delta, offset delta, null key, null value, no headers.
EMPTY_RECORD = bytes([12, 0, 0, 0, 1, 1, 0])


def test_smallest_record_is_read() -> None:
    (sample,) = samples_of(decode_batches(batches_in(with_body(EMPTY_RECORD))))
    assert sample == Sample(1000, 1_700_000_000_000, None, None)


def test_any_negative_length_is_null() -> None:
    # As the Java client has it: -2 where a -1 should be.
    (sample,) = samples_of(decode_batches(batches_in(with_body(bytes([12, 0, 0, 0, 3, 3, 0])))))
    assert (sample.key, sample.value) == (None, None)


@pytest.mark.parametrize(
    ("body", "record_count", "last_offset_delta", "what"),
    [
        pytest.param(EMPTY_RECORD + b"\0", 1, 0, "bytes are left", id="bytes after the last record"),
        pytest.param(EMPTY_RECORD + bytes(7), 0, 0, "bytes are left", id="bytes, but no records"),
        pytest.param(bytes([14, *EMPTY_RECORD[1:]]), 1, 0, "record 0", id="record longer than the batch"),
        pytest.param(bytes([10, *EMPTY_RECORD[1:]]), 1, 0, "record 0", id="record shorter than its fields"),
        pytest.param(bytes([14, *EMPTY_RECORD[1:], 0]), 1, 0, "record 0", id="record longer than its fields"),
        pytest.param(bytes([1, *EMPTY_RECORD[1:]]), 1, 0, "record 0", id="negative length of a record"),
        pytest.param(b"\xff" * 7, 1, 0, "record 0", id="length without an end"),
        pytest.param(b"\x80\x80\x80\x80\x80\x00" + bytes(7), 1, 0, "record 0", id="length of six bytes"),
        pytest.param(b"\xff\xff\xff\xff\x1f" + bytes(7), 1, 0, "record 0", id="length of 33 bits"),
        pytest.param(bytes([12, 0, 0, 0, 4, 1, 0]), 1, 0, "record 0", id="key longer than the record"),
        pytest.param(bytes([12, 0, 0, 0, 1, 4, 0]), 1, 0, "record 0", id="value longer than the record"),
        pytest.param(bytes([12, 0, 0, 0, 1, 1, 2]), 1, 0, "record 0", id="more headers than bytes"),
        pytest.param(bytes([12, 0, 0, 0, 1, 1, 1]), 1, 0, "record 0", id="negative number of headers"),
        pytest.param(bytes([16, 0, 0, 0, 1, 1, 2, 1, 1]), 1, 0, "record 0", id="null header key"),
        pytest.param(bytes([16, 0, 0, 0, 1, 1, 2, 0, 2]), 1, 0, "record 0", id="header value too long"),
        pytest.param(bytes([16, 0, 0, 0, 1, 1, 2, 2, 0]), 1, 0, "record 0", id="header key too long"),
        pytest.param(bytes([12, 0, 0, 2, 1, 1, 0]), 1, 0, "offset of its record 0", id="offset above the last"),
        pytest.param(bytes([12, 0, 0, 1, 1, 1, 0]), 1, 0, "offset of its record 0", id="offset below the first"),
        pytest.param(EMPTY_RECORD * 2, 2, 1, "offset of its record 1", id="the same offset twice"),
    ],
)
def test_record_that_contradicts_itself_is_corrupt(
    body: bytes, record_count: int, last_offset_delta: int, what: str
) -> None:
    data = with_body(body, record_count=record_count, last_offset_delta=last_offset_delta)
    with pytest.raises(CorruptBatchError, match=what) as error:
        decode_batches(batches_in(data))
    assert error.value.facts["offset"] == 1000


def test_error_names_the_batch_it_is_in() -> None:
    data = encoded([Sample(5)]) + encoded([Sample(6)]) + with_body(b"\x7f" * 7) + encoded([Sample(2000)])
    with pytest.raises(CorruptBatchError, match="record batch at offset 1000"):
        decode_batches(batches_in(data))


def test_decoding_goes_on_after_a_corrupt_batch() -> None:
    with pytest.raises(CorruptBatchError):
        decode_batches(batches_in(with_body(b"\x7f" * 7)))
    assert samples_of(decode_batches(batches_in(WRITTEN_BY_KAFKA["lz4"]))) == RECORDS


def test_warming_may_be_repeated() -> None:
    warm()
    warm()
