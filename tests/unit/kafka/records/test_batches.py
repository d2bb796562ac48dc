import struct
import zlib

import pytest
from crc32c import crc32c

from mirrorlake.errors import CorruptBatchError
from mirrorlake.kafka.records.batches import (
    AbortedTransactions,
    Batch,
    BatchHeader,
    Codec,
    ControlType,
    classify,
    cleaned_ranges,
    control_type,
    next_sequence,
    prepare_for_append,
    verify_crc,
    walk,
)
from mirrorlake.kafka.records.codec import encode_batch
from unit.kafka.records.record_samples import Sample, aborted_transaction, batches_in, columns_of, only_batch
from unit.kafka.records.written_by_kafka import WRITTEN_BY_KAFKA

BIT_TRANSACTIONAL, BIT_CONTROL, BIT_LOG_APPEND_TIME, BIT_DELETE_HORIZON = 0x10, 0x20, 0x08, 0x40


def data_batch(
    *,
    base_offset: int = 100,
    record_count: int = 10,
    last_offset_delta: int = 9,
    attributes: int = 0,
    producer_id: int = -1,
) -> Batch:
    """A batch that is all header: what is decided here is decided without its records."""
    header = BatchHeader(
        base_offset=base_offset,
        batch_bytes=61,
        leader_epoch=0,
        magic=2,
        crc=0,
        attributes=attributes,
        last_offset_delta=last_offset_delta,
        base_timestamp=0,
        max_timestamp=0,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        record_count=record_count,
    )
    return Batch(header, memoryview(bytes(61)))


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (100, [(110, 120), (120, 130), (140, 150)]),  # five of ten records, a hole, a batch without any
        (115, [(115, 120), (120, 130), (140, 150)]),
        (125, [(125, 130), (140, 150)]),
        (130, [(140, 150)]),
        (150, []),
    ],
)
def test_a_log_shows_where_it_was_cleaned(start: int, expected: list[tuple[int, int]]) -> None:
    batches = [
        data_batch(base_offset=100),
        data_batch(base_offset=110, record_count=5),
        data_batch(base_offset=130, attributes=BIT_CONTROL, record_count=1, last_offset_delta=0),
        data_batch(base_offset=131, record_count=-1, last_offset_delta=8),  # formats before 2 do not say
        data_batch(base_offset=140, record_count=0),
        data_batch(base_offset=150),
    ]
    found = cleaned_ranges(batches, start_offset=start)
    assert [(each.start_offset, each.end_offset) for each in found] == expected


def marker(kind: int, *, offset: int, producer_id: int = 4242) -> Batch:
    data = bytearray(WRITTEN_BY_KAFKA["abort"])
    struct.pack_into(">q", data, 0, offset)
    struct.pack_into(">q", data, 43, producer_id)
    data[69] = kind  # low byte of the type in the control key
    return only_batch(data)


def test_header_says_what_kafka_wrote() -> None:
    batch = only_batch(WRITTEN_BY_KAFKA["gaps"])
    assert batch.header == BatchHeader(
        base_offset=1000,
        batch_bytes=110,
        leader_epoch=3,
        magic=2,
        crc=0xB312FC0A,
        attributes=BIT_TRANSACTIONAL,
        last_offset_delta=1009,
        base_timestamp=1_700_000_000_000,
        max_timestamp=1_700_000_000_005,
        producer_id=4242,
        producer_epoch=7,
        base_sequence=100,
        record_count=3,
    )
    assert batch.header.last_offset == 2009
    assert batch.header.next_offset == 2010
    assert batch.header.is_transactional
    assert not batch.header.is_dense


@pytest.mark.parametrize("codec", Codec)
def test_codec_is_told_from_the_attributes(codec: Codec) -> None:
    header = only_batch(WRITTEN_BY_KAFKA[codec.name.lower()]).header
    assert header.codec is codec
    assert header.is_dense
    assert (header.is_transactional, header.is_control, header.is_log_append_time) == (False,) * 3


def test_header_tells_log_append_time_and_control() -> None:
    assert only_batch(WRITTEN_BY_KAFKA["log-append-time"]).header.is_log_append_time
    commit = only_batch(WRITTEN_BY_KAFKA["commit"]).header
    assert commit.is_control
    assert commit.is_transactional


def test_walk_yields_every_batch_in_order() -> None:
    names = ["none", "gaps", "commit", "empty", "zstd"]
    data = b"".join(WRITTEN_BY_KAFKA[name] for name in names)
    assert [bytes(batch.view) for batch in batches_in(data)] == [WRITTEN_BY_KAFKA[name] for name in names]


def test_walk_yields_nothing_of_nothing() -> None:
    assert batches_in(b"") == []


def test_walk_stops_before_a_last_batch_cut_anywhere() -> None:
    first, second = WRITTEN_BY_KAFKA["none"], WRITTEN_BY_KAFKA["lz4"]
    for length in range(len(first), len(first) + len(second)):
        assert [bytes(each.view) for each in batches_in((first + second)[:length])] == [first]


def test_walk_shares_memory_with_the_answer() -> None:
    data = bytearray(WRITTEN_BY_KAFKA["none"])
    batch = only_batch(data)
    data[61] = 0x7F
    assert batch.payload[0] == 0x7F


@pytest.mark.parametrize(
    ("position", "change"),
    [
        pytest.param(0, struct.pack(">q", -1), id="negative base offset"),
        pytest.param(0, struct.pack(">q", 2**63 - 1), id="no position after the batch"),
        pytest.param(8, struct.pack(">i", 48), id="length shorter than a header"),
        pytest.param(8, struct.pack(">i", 0), id="length zero"),
        pytest.param(8, struct.pack(">i", -1), id="length negative"),
        pytest.param(16, b"\x03", id="magic 3"),
        pytest.param(16, b"\xff", id="magic -1"),
        pytest.param(21, b"\x00\x05", id="codec 5"),
        pytest.param(23, struct.pack(">i", 1), id="three records in two offsets"),
        pytest.param(23, struct.pack(">i", -5), id="last offset delta negative"),
        pytest.param(57, struct.pack(">i", -1), id="record count negative"),
        pytest.param(57, struct.pack(">i", 4), id="four records in three offsets"),
    ],
)
def test_walk_refuses_a_header_no_batch_can_have(position: int, change: bytes) -> None:
    bad = bytearray(WRITTEN_BY_KAFKA["none"])
    bad[position : position + len(change)] = change
    batches = walk(memoryview(WRITTEN_BY_KAFKA["commit"] + bad))
    assert next(batches).header.base_offset == 55
    with pytest.raises(CorruptBatchError) as error:
        next(batches)
    assert error.value.facts["offset"] == struct.unpack_from(">q", bad)[0]


def test_old_formats_are_recognised_message_by_message() -> None:
    first, second, third = batches_in(WRITTEN_BY_KAFKA["v0"])
    assert [each.header.base_offset for each in (first, second, third)] == [1000, 1001, 1002]
    assert first.header.magic == 0
    assert first.header.max_timestamp == -1
    assert first.header.record_count == -1
    assert first.header.next_offset == 1001
    wrapper = only_batch(WRITTEN_BY_KAFKA["v1"]).header
    # The offset of a compressed set of messages is that of its last one.
    assert (wrapper.magic, wrapper.last_offset, wrapper.codec) == (1, 1002, Codec.GZIP)
    assert wrapper.max_timestamp == 1_700_000_000_005


@pytest.mark.parametrize(("magic", "length"), [(0, 13), (1, 21)])
def test_old_message_shorter_than_its_own_header_is_refused(magic: int, length: int) -> None:
    data = struct.pack(">qiIbb", 7, length, 0, magic, 0) + bytes(40)
    with pytest.raises(CorruptBatchError):
        batches_in(data)


@pytest.mark.parametrize("name", WRITTEN_BY_KAFKA)
def test_checksum_of_what_kafka_wrote_is_right(name: str) -> None:
    for batch in batches_in(WRITTEN_BY_KAFKA[name]):
        verify_crc(batch)


@pytest.mark.parametrize("name", ["none", "v1"])
def test_checksum_finds_any_flipped_bit_it_covers(name: str) -> None:
    good = only_batch(WRITTEN_BY_KAFKA[name])
    covered_from = 21 if name == "none" else 16
    for position in range(covered_from, len(good.view)):
        for bit in range(8):
            data = bytearray(good.view)
            data[position] ^= 1 << bit
            with pytest.raises(CorruptBatchError, match="checksum") as error:
                verify_crc(Batch(good.header, memoryview(data)))
            assert error.value.facts["offset"] == good.header.base_offset


def test_prepared_batch_differs_in_nothing_but_its_address() -> None:
    source = bytearray(WRITTEN_BY_KAFKA["zstd"])
    # Leader epoch 3, transactional, with a delete horizon and an unused bit; as if a producer had had id 77.
    struct.pack_into(">i", source, 12, 3)
    struct.pack_into(">h", source, 21, Codec.ZSTD | BIT_TRANSACTIONAL | BIT_DELETE_HORIZON | 0x80)
    struct.pack_into(">qhi", source, 43, 77, 8, 9)
    expected = bytearray(source)
    struct.pack_into(">qi", expected, 0, 0, len(source) - 12)
    struct.pack_into(">i", expected, 12, -1)
    struct.pack_into(">h", expected, 21, Codec.ZSTD | 0x80)
    struct.pack_into(">qhi", expected, 43, 4242, 7, 2**31 - 2)
    struct.pack_into(">I", expected, 17, crc32c(bytes(expected[21:])))
    batch = only_batch(source)
    for _ in range(2):  # again: the same
        prepare_for_append(batch, producer_id=4242, producer_epoch=7, base_sequence=2**31 - 2)
        assert source == expected
    assert batch.header.base_offset == 1000
    verify_crc(only_batch(source))


def a_batch_of(size: int) -> bytearray:
    """A batch of one record, of about so many bytes, as a source keeps it."""
    samples = [Sample(1000, key=None, value=bytes(range(256)) * (size // 256))]
    encoded = encode_batch(columns_of(samples), codec=Codec.NONE, producer_id=77, producer_epoch=8, base_sequence=9)
    batch = bytearray(encoded)
    struct.pack_into(">qi", batch, 0, 1000, len(batch) - 12)
    return batch


@pytest.mark.parametrize("size", [1 << 10, 15 << 10, 17 << 10, 128 << 10, (1 << 20) + 512])
def test_the_checksum_of_a_prepared_batch_is_that_of_all_its_bytes(size: int) -> None:
    source = a_batch_of(size)
    for producer_id, epoch, sequence in ((4242, 7, 2**31 - 2), (1, 0, 0)):  # the second time from the first one's
        prepare_for_append(only_batch(source), producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
        assert struct.unpack_from(">qhi", source, 43) == (producer_id, epoch, sequence)
        assert struct.unpack_from(">I", source, 17) == (crc32c(bytes(source[21:])),)


def test_a_large_batch_damaged_after_it_was_verified_gets_no_right_checksum() -> None:
    source = a_batch_of(128 << 10)
    verify_crc(only_batch(source))
    source[100_000] ^= 1
    prepare_for_append(only_batch(source), producer_id=1, producer_epoch=0, base_sequence=0)
    with pytest.raises(CorruptBatchError, match="checksum"):
        verify_crc(only_batch(source))


def test_prepared_batch_is_transactional_where_asked() -> None:
    source = bytearray(WRITTEN_BY_KAFKA["none"])
    prepare_for_append(only_batch(source), producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    assert only_batch(source).header.attributes == BIT_TRANSACTIONAL


@pytest.mark.parametrize("name", ["gaps", "commit", "empty", "v1"])
def test_only_dense_data_batches_are_prepared(name: str) -> None:
    source = bytearray(WRITTEN_BY_KAFKA[name])
    with pytest.raises(ValueError, match="cannot be appended"):
        prepare_for_append(only_batch(source), producer_id=1, producer_epoch=0, base_sequence=0)
    assert source == WRITTEN_BY_KAFKA[name]


@pytest.mark.parametrize("producer", [(-1, 0, 0), (1, -1, 0), (1, 0, -1)])
def test_nothing_is_prepared_without_a_producer(producer: tuple[int, int, int]) -> None:
    producer_id, producer_epoch, base_sequence = producer
    with pytest.raises(ValueError, match="not a producer"):
        prepare_for_append(
            only_batch(bytearray(WRITTEN_BY_KAFKA["none"])),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
        )


@pytest.mark.parametrize(
    ("base_sequence", "record_count", "expected"),
    [
        (0, 1, 1),
        (2**31 - 2, 1, 2**31 - 1),
        (2**31 - 1, 1, 0),
        (2_147_483_640, 10, 2),  # first 2147483640 … 2147483647, then 0 and 1: the last is 1
    ],
)
def test_sequence_starts_again_after_the_largest(base_sequence: int, record_count: int, expected: int) -> None:
    assert next_sequence(base_sequence, record_count) == expected


def test_control_type_of_markers_kafka_wrote() -> None:
    assert control_type(only_batch(WRITTEN_BY_KAFKA["abort"])) == ControlType.ABORT
    assert control_type(only_batch(WRITTEN_BY_KAFKA["commit"])) == ControlType.COMMIT
    assert control_type(marker(6, offset=1)) == 6


def test_control_type_is_refused_of_data() -> None:
    with pytest.raises(ValueError, match="not a control batch"):
        control_type(only_batch(WRITTEN_BY_KAFKA["none"]))


@pytest.mark.parametrize(
    ("position", "change"),
    [
        pytest.param(57, struct.pack(">i", 0), id="no record"),
        pytest.param(21, b"\x00\x34", id="compressed"),
        pytest.param(65, b"\x01", id="null key"),
        pytest.param(65, b"\x06", id="key of three bytes"),
        pytest.param(65, b"\x7e", id="key longer than the batch"),
        pytest.param(66, b"\xff", id="negative version"),
        pytest.param(61, b"\xff" * 17, id="number without an end"),
    ],
)
def test_control_batch_without_a_control_key_is_corrupt(position: int, change: bytes) -> None:
    data = bytearray(WRITTEN_BY_KAFKA["abort"])
    data[position : position + len(change)] = change
    with pytest.raises(CorruptBatchError, match="control"):
        control_type(only_batch(data))


# --- aborted transactions; each row: the fetch answer's list, the batches in order, which are aborted

ONE, TWO = 1001, 1002


def transactional(offset: int, producer_id: int) -> Batch:
    return data_batch(base_offset=offset, producer_id=producer_id, attributes=BIT_TRANSACTIONAL)


@pytest.mark.parametrize(
    ("transactions", "batches", "expected"),
    [
        pytest.param([], [transactional(100, ONE)], [False], id="nothing is aborted"),
        pytest.param([(ONE, 100)], [transactional(100, ONE)], [True], id="from its first offset"),
        pytest.param(
            [(ONE, 109)], [transactional(100, ONE)], [True], id="first offset is the batch's last: whole batches"
        ),
        pytest.param(
            [(ONE, 110)], [transactional(100, ONE), transactional(110, ONE)], [False, True], id="not before it"
        ),
        pytest.param(
            [(ONE, 100)],
            [transactional(100, ONE), transactional(110, TWO), transactional(120, ONE)],
            [True, False, True],
            id="of its producer only",
        ),
        pytest.param(
            [(ONE, 100)],
            [transactional(100, ONE), marker(0, offset=110, producer_id=ONE), transactional(111, ONE)],
            [True, False, False],
            id="up to the abort marker",
        ),
        pytest.param(
            [(ONE, 100)],
            [transactional(100, ONE), marker(0, offset=110, producer_id=TWO), transactional(111, ONE)],
            [True, False, True],
            id="not up to another producer's marker",
        ),
        pytest.param(
            [(ONE, 100)],
            [transactional(100, ONE), marker(1, offset=110, producer_id=ONE), transactional(111, ONE)],
            [True, False, True],
            id="a commit marker ends nothing",
        ),
        pytest.param(
            [(ONE, 111), (TWO, 105), (ONE, 100)],
            [
                transactional(100, ONE),
                marker(0, offset=110, producer_id=ONE),
                transactional(111, ONE),
                marker(0, offset=121, producer_id=ONE),
                transactional(122, ONE),
                transactional(132, TWO),
            ],
            [True, False, True, False, False, True],
            id="one after the other, the list in any order",
        ),
        pytest.param(
            [(ONE, 100)],
            [data_batch(base_offset=100, producer_id=ONE), transactional(110, ONE)],
            [False, True],
            id="not what the producer wrote outside of transactions",
        ),
        pytest.param(
            [(ONE, 100)],
            [data_batch(base_offset=100), transactional(110, ONE)],
            [False, True],
            id="not what has no producer",
        ),
    ],
)
def test_aborted_batches_are_those_a_committed_reader_skips(
    transactions: list[tuple[int, int]], batches: list[Batch], expected: list[bool]
) -> None:
    aborted = AbortedTransactions(aborted_transaction(*each) for each in transactions)
    assert [aborted.is_aborted(batch) for batch in batches] == expected


def test_asking_twice_about_a_batch_changes_nothing() -> None:
    aborted = AbortedTransactions([aborted_transaction(ONE, 100)])
    end = marker(0, offset=110, producer_id=ONE)
    answers = [aborted.is_aborted(batch) for batch in (transactional(100, ONE), transactional(100, ONE), end, end)]
    assert answers == [True, True, False, False]


# --- classification

POSITION = 100


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (data_batch(), "raw:dense"),
        (data_batch(attributes=BIT_TRANSACTIONAL, producer_id=TWO), "raw:dense"),
        (data_batch(base_offset=150), "raw:dense"),
        (data_batch(record_count=9), "records:compacted"),
        (data_batch(attributes=BIT_LOG_APPEND_TIME), "records:log-append-time"),
        (data_batch(base_offset=91), "records:overlap"),
        (data_batch(base_offset=90), "skip:behind"),
        (data_batch(record_count=0), "skip:empty"),
        (data_batch(attributes=BIT_TRANSACTIONAL, producer_id=ONE), "skip:aborted"),
        (marker(0, offset=100), "skip:control"),
        (marker(0, offset=99), "skip:behind"),
        (only_batch(WRITTEN_BY_KAFKA["v1"]), "records:old-format"),
        (only_batch(WRITTEN_BY_KAFKA["empty"]), "skip:empty"),
        # Where several hold, the first in the table of the docstring counts.
        (data_batch(base_offset=91, record_count=9, attributes=BIT_LOG_APPEND_TIME), "records:overlap"),
        (data_batch(record_count=9, attributes=BIT_LOG_APPEND_TIME), "records:compacted"),
        (data_batch(base_offset=91, record_count=0), "skip:empty"),
        (data_batch(attributes=BIT_TRANSACTIONAL, producer_id=ONE, record_count=0), "skip:aborted"),
    ],
)
def test_classification(batch: Batch, expected: str) -> None:
    aborted = AbortedTransactions([aborted_transaction(ONE, 100)])
    assert str(classify(batch, position=POSITION, aborted=aborted)) == expected


def test_old_message_behind_the_position_is_skipped() -> None:
    batch = only_batch(WRITTEN_BY_KAFKA["v1"])
    behind = classify(batch, position=1003, aborted=AbortedTransactions())
    wanted = classify(batch, position=1002, aborted=AbortedTransactions())
    assert (str(behind), str(wanted)) == ("skip:behind", "records:old-format")


def test_marker_behind_the_position_still_ends_its_transaction() -> None:
    aborted = AbortedTransactions([aborted_transaction(ONE, 50)])
    behind = marker(0, offset=99, producer_id=ONE)
    assert str(classify(behind, position=100, aborted=aborted)) == "skip:behind"
    assert not aborted.is_aborted(transactional(100, ONE))


def test_crc_of_old_messages_is_not_castagnoli() -> None:
    batch = only_batch(WRITTEN_BY_KAFKA["v1"])
    assert batch.header.crc == zlib.crc32(batch.view[16:]) != crc32c(batch.view[16:])
