"""Whatever a batch is like, its outputs account for every offset once, and its records come back as they were."""

from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorlake.destinations.interface import ClassifiedBatch
from mirrorlake.destinations.output_batches import OutputBatch, OutputGap, outputs_of
from mirrorlake.errors import CorruptBatchError, RecordTooLargeError
from mirrorlake.kafka.records.batches import Batch, BatchHeader, Codec, Path, prepare_for_append, verify_crc, walk
from mirrorlake.kafka.records.codec import decode_batches, encode_batch
from mirrorlake.offsets import OffsetRange
from unit.kafka.records.record_samples import Sample, any_keys, columns_of, only_batch, sample_lists, samples_of
from unit.kafka.records.written_by_kafka import WRITTEN_BY_KAFKA

NO_END = 2**62
MEBIBYTE = 1 << 20
HEADERS = ((b"\xff\xfe", b"1"), (b"again", None), (b"again", b""))


def batch_of(samples: list[Sample], codec: Codec = Codec.NONE) -> Batch:
    return only_batch(encode_batch(columns_of(samples), codec=codec, base_offset=samples[0].offset))


def with_header(batch: Batch, **changes: int) -> Batch:
    """The batch with a header that says something else; nothing under test looks at the bytes of the header."""
    header = BatchHeader(**{**batch.header._asdict(), **changes})
    return Batch(header, batch.view)


def outputs(
    batch: Batch,
    *,
    position: int,
    path: str = Path.RECORDS,
    reason: str = "compacted",
    end: int = NO_END,
    limit: int = MEBIBYTE,
    packs: bool = False,
    keeps_log_append_time: bool = True,
) -> list[OutputBatch | OutputGap]:
    return list(
        outputs_of(
            ClassifiedBatch(batch=batch, path=path, reason=reason),
            position=position,
            end_offset=end,
            batch_bytes_max=limit,
            packs=packs,
            keeps_log_append_time=keeps_log_append_time,
        )
    )


def span(start_offset: int, end_offset: int) -> OffsetRange:
    return OffsetRange(start_offset=start_offset, end_offset=end_offset)


def gap(start_offset: int, end_offset: int, reason: str) -> OutputGap:
    return OutputGap(offsets=span(start_offset, end_offset), reason=reason)


def records_of(output: OutputBatch) -> list[Sample]:
    """The output's records as a reader of its bytes finds them, at the source offsets its runs say."""
    (found,) = walk(output.batch.view)
    verify_crc(found)
    samples = samples_of(decode_batches([found]))
    offsets = [offset for run in output.runs for offset in range(run.start_offset, run.end_offset)]
    return [replace(sample, offset=offset) for sample, offset in zip(samples, offsets, strict=True)]


def only_data(found: list[OutputBatch | OutputGap]) -> list[OutputBatch]:
    return [each for each in found if isinstance(each, OutputBatch)]


# --- passthrough


def test_a_dense_batch_at_the_position_goes_through_without_a_copy() -> None:
    batch = batch_of([Sample(7, 50), Sample(8, 40)], Codec.ZSTD)
    (output,) = outputs(batch, position=7, path=Path.RAW, reason="dense")
    assert isinstance(output, OutputBatch)
    assert output.batch is batch
    assert output.is_in_frame
    assert (output.offsets, output.runs, output.max_timestamp_ms) == (span(7, 9), (span(7, 9),), 50)
    assert (output.path, output.reason) == ("raw", "dense")


def test_a_dense_batch_after_the_position_goes_through_behind_a_gap() -> None:
    batch = batch_of([Sample(7), Sample(8)])
    before, output = outputs(batch, position=4, path=Path.RAW, reason="dense")
    assert before == gap(4, 7, "compacted or removed")
    assert isinstance(output, OutputBatch)
    assert output.batch is batch


def test_a_batch_of_just_the_limit_goes_through_and_one_byte_less_splits_it() -> None:
    batch = batch_of([Sample(0), Sample(1)])
    size = len(batch.view)
    (whole,) = only_data(outputs(batch, position=0, path=Path.RAW, limit=size))
    assert (whole.is_in_frame, whole.path, whole.reason) == (True, "raw", "dense")
    halves = only_data(outputs(batch, position=0, path=Path.RAW, limit=size - 1))
    assert [(each.offsets, each.is_in_frame) for each in halves] == [(span(0, 1), False), (span(1, 2), False)]
    assert {(each.path, each.reason) for each in halves} == {("records", "too-large")}


def test_times_of_the_sources_brokers_go_through_only_where_the_destination_sets_its_own() -> None:
    batch = only_batch(bytearray(WRITTEN_BY_KAFKA["log-append-time"]))
    (kept,) = only_data(outputs(batch, position=1000, reason="log-append-time"))
    assert not kept.is_in_frame
    assert (kept.path, kept.reason) == ("records", "log-append-time")
    assert not kept.batch.header.is_log_append_time
    assert [each.timestamp for each in records_of(kept)] == [1_700_000_009_999] * 3
    (given_up,) = only_data(outputs(batch, position=1000, reason="log-append-time", keeps_log_append_time=False))
    assert given_up.batch is batch
    assert given_up.path == "raw"


# --- where no record is


@pytest.mark.parametrize("reason", ["control", "aborted", "empty"])
def test_a_batch_without_records_for_consumers_is_one_gap(reason: str) -> None:
    batch = batch_of([Sample(5), Sample(6)])
    assert outputs(batch, position=5, path=Path.SKIP, reason=reason) == [gap(5, 7, reason)]
    assert outputs(batch, position=3, path=Path.SKIP, reason=reason) == [gap(3, 7, reason)]
    assert outputs(batch, position=6, path=Path.SKIP, reason=reason) == [gap(6, 7, reason)]
    assert outputs(batch, position=5, end=6, path=Path.SKIP, reason=reason) == [gap(5, 6, reason)]


@pytest.mark.parametrize("path", Path)
def test_a_batch_behind_the_position_is_nothing(path: Path) -> None:
    batch = batch_of([Sample(5), Sample(6)])
    assert outputs(batch, position=7, path=path) == []
    assert outputs(batch, position=5, end=5, path=path) == []


def test_a_batch_wholly_after_the_end_is_a_gap_up_to_the_end() -> None:
    batch = batch_of([Sample(9)])
    assert outputs(batch, position=3, end=6, path=Path.RAW) == [gap(3, 6, "compacted or removed")]


def test_a_batch_emptied_but_for_its_header_is_a_gap_on_either_path() -> None:
    batch = only_batch(bytearray(WRITTEN_BY_KAFKA["empty"]))
    end = batch.header.next_offset
    assert outputs(batch, position=batch.header.base_offset) == [gap(batch.header.base_offset, end, "compacted")]


# --- records taken over


def test_records_between_holes_become_one_output_for_each_run() -> None:
    samples = [Sample(10), Sample(12), Sample(13), Sample(17, 5, None, None, HEADERS)]
    batch = batch_of([Sample(8), *samples, Sample(19)])
    found = outputs(batch, position=9, end=19)
    assert [(each.offsets, type(each)) for each in found] == [
        (span(9, 10), OutputGap),
        (span(10, 11), OutputBatch),
        (span(11, 12), OutputGap),
        (span(12, 14), OutputBatch),
        (span(14, 17), OutputGap),
        (span(17, 18), OutputBatch),
        (span(18, 19), OutputGap),
    ]
    assert [sample for output in only_data(found) for sample in records_of(output)] == samples
    assert {each.reason for each in found if isinstance(each, OutputGap)} == {"compacted"}


def test_packed_records_are_one_dense_output_that_knows_their_runs() -> None:
    samples = [Sample(10, 3), Sample(12, 9), Sample(13, 4), Sample(17, 5, None, None, HEADERS)]
    (output,) = outputs(batch_of(samples, Codec.GZIP), position=10, packs=True)
    assert isinstance(output, OutputBatch)
    assert output.runs == (span(10, 11), span(12, 14), span(17, 18))
    assert (output.offsets, output.max_timestamp_ms) == (span(10, 18), 9)
    assert (output.batch.header.base_offset, output.batch.header.record_count) == (0, 4)
    assert output.batch.header.is_dense
    assert output.batch.header.codec is Codec.GZIP
    assert records_of(output) == samples


def test_a_position_inside_a_dense_batch_leaves_out_what_is_before_it() -> None:
    samples = [Sample(20 + i, i, b"%d" % i) for i in range(5)]
    (output,) = only_data(outputs(batch_of(samples), position=22, path=Path.RECORDS, reason="overlap"))
    assert records_of(output) == samples[2:]
    (output,) = only_data(outputs(batch_of(samples), position=20, end=23, path=Path.RAW, reason="dense"))
    assert records_of(output) == samples[:3]
    assert (output.path, output.reason) == ("records", "overlap")


def test_a_made_batch_is_accepted_for_append_and_says_so_afterwards() -> None:
    samples = [Sample(10, 3), Sample(12, 9)]
    for codec in Codec:
        (output,) = only_data(outputs(batch_of(samples, codec), position=10, packs=True))
        prepare_for_append(output.batch, producer_id=77, producer_epoch=3, base_sequence=12)
        (sent,) = walk(output.batch.view)
        verify_crc(sent)
        assert (sent.header.base_offset, sent.header.producer_id, sent.header.base_sequence) == (0, 77, 12)
        assert [each.value for each in samples_of(decode_batches([sent]))] == [b"value", b"value"]


def test_the_header_of_a_made_batch_is_that_of_its_bytes() -> None:
    (output,) = only_data(outputs(batch_of([Sample(10, 3), Sample(12, 9)], Codec.LZ4), position=10, packs=True))
    assert only_batch(bytes(output.batch.view)).header == output.batch.header


def test_lengths_written_longer_than_needed_are_taken_over() -> None:
    # A key length of 1 in two bytes: any reader takes it, Kafka's too.
    body = b"\x00\x00\x00" + b"\x82\x00k" + b"\x02v" + b"\x00"
    record = bytes([2 * len(body)]) + body
    plain = batch_of([Sample(4, key=b"k", value=b"v")])
    made = bytearray(bytes(plain.view[:61]) + record)
    made[8:12] = (len(made) - 12).to_bytes(4)
    batch = only_batch(made)
    batch = with_header(batch, last_offset_delta=1)  # so that it is not dense
    (output, _) = outputs(batch, position=4)
    assert isinstance(output, OutputBatch)
    assert records_of(output) == [Sample(4, key=b"k", value=b"v")]


# --- too large


def test_a_record_above_the_limit_is_named_after_what_is_before_it() -> None:
    samples = [Sample(30), Sample(31, value=b"x" * 5000), Sample(32)]
    taken = []
    with pytest.raises(RecordTooLargeError) as error:  # noqa: PT012  (what was yielded before counts)
        for output in outputs_of(
            ClassifiedBatch(batch=batch_of(samples), path=Path.RAW, reason="dense"),
            position=30,
            end_offset=NO_END,
            batch_bytes_max=1000,
            packs=False,
        ):
            taken.append(output)
    assert [output.offsets for output in taken] == [span(30, 31)]
    alone = len(batch_of([samples[1]]).view)
    assert error.value.facts == {"offset": 31, "bytes": alone, "limit": 1000}
    assert "offset 31" in error.value.message
    assert f"max.message.bytes of the destination topic to at least {alone}" in error.value.hint


def test_a_split_keeps_order_and_compression() -> None:
    samples = [Sample(i, i, b"%d" % i, bytes([i % 256]) * 300) for i in range(100)]
    found = only_data(outputs(batch_of(samples, Codec.SNAPPY), position=0, path=Path.RAW, limit=400))
    assert len(found) > 1
    assert {each.batch.header.codec for each in found} == {Codec.SNAPPY}
    assert max(each.batch.header.batch_bytes for each in found) <= 400
    assert [sample for output in found for sample in records_of(output)] == samples


# --- bytes that lie


def test_records_that_are_not_right_are_refused_with_the_batchs_offset() -> None:
    batch = with_header(batch_of([Sample(10), Sample(12)]), record_count=1)
    with pytest.raises(CorruptBatchError) as error:
        outputs(batch, position=10)
    assert error.value.facts["offset"] == 10


@settings(deadline=None, max_examples=100)
@given(data=st.data(), codec=st.sampled_from(Codec))
def test_no_flipped_bytes_do_more_than_raise(data: st.DataObject, codec: Codec) -> None:
    good = encode_batch(columns_of(data.draw(sample_lists(header_keys=any_keys, max_size=5))), codec=codec)
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(61, len(good) - 1))] = data.draw(st.integers(0, 255))
    batch = only_batch(good)
    found: list[OutputBatch | OutputGap] = []
    with suppress(CorruptBatchError):
        found = outputs(batch, position=0)
        assert found[-1].offsets.end_offset == batch.header.next_offset


# --- whatever the batch


@settings(deadline=None, max_examples=70)
@given(data=st.data(), codec=st.sampled_from(Codec), packs=st.booleans())
def test_outputs_account_for_every_offset_once_and_give_back_every_record(
    data: st.DataObject, codec: Codec, packs: bool
) -> None:
    samples = data.draw(sample_lists(header_keys=any_keys))
    start = data.draw(st.integers(0, 1000))
    samples = [replace(each, offset=each.offset + start) for each in samples]
    batch = batch_of(samples, codec)
    edges = sorted({start, start + 1, *(each.offset + extra for each in samples for extra in (0, 1))})
    position = data.draw(st.sampled_from([0, *edges]))
    end = data.draw(st.sampled_from([*edges, NO_END]))
    limit = data.draw(st.sampled_from([MEBIBYTE, 9500 * 5, 20_000, 2000, 300]))
    expected = [each for each in samples if position <= each.offset < end]
    found: list[OutputBatch | OutputGap] = []
    stopped_at = min(batch.header.next_offset, end)
    item = ClassifiedBatch(batch=batch, path=Path.RECORDS, reason="compacted")
    raised: RecordTooLargeError | None = None
    try:
        for output in outputs_of(item, position=position, end_offset=end, batch_bytes_max=limit, packs=packs):
            found.append(output)
    except RecordTooLargeError as error:
        raised = error
    if raised is not None:
        (culprit,) = [each for each in samples if each.offset == raised.facts["offset"]]
        assert len(batch_of([culprit], codec).view) == raised.facts["bytes"]
        assert len(batch_of([culprit], codec).view) > limit
        expected = [each for each in expected if each.offset < culprit.offset]
        stopped_at = found[-1].offsets.end_offset if found else position
    assert [each.offsets.end_offset for each in found[:-1]] == [each.offsets.start_offset for each in found[1:]]
    if position < stopped_at:
        assert (found[0].offsets.start_offset, found[-1].offsets.end_offset) == (position, stopped_at)
    else:
        assert found == []
    with_data = only_data(found)
    assert [sample for output in with_data for sample in records_of(output)] == expected
    assert all(output.batch.header.is_dense or output.is_in_frame for output in with_data)
    assert all(len(output.batch.view) <= limit for output in with_data)
    if not packs:
        assert all(len(output.runs) == 1 for output in with_data)
    assert all(earlier.end_offset < later.start_offset for p in with_data for earlier, later in pairwise(p.runs))
