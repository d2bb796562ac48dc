"""Many small batches that follow one another go on as one, with every record as it was and where it was."""

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorlake.destinations.coalescing import (
    COALESCED_BATCHES_MIN,
    COALESCED_BYTES_MAX,
    SMALL_BYTES_MAX,
    CoalescedBatches,
    coalesce,
)
from mirrorlake.destinations.interface import ClassifiedBatch
from mirrorlake.destinations.output_batches import OutputBatch, OutputGap, outputs_of
from mirrorlake.destinations.route import Route
from mirrorlake.errors import BatchTooLargeError, CorruptBatchError, RecordTooLargeError
from mirrorlake.kafka.records.aborted import AbortedTransactions
from mirrorlake.kafka.records.batches import (
    LOG_APPEND_TIME,
    Batch,
    BatchHeader,
    Codec,
    Path,
    classify,
    prepare_for_append,
    verify_crc,
    walk,
)
from mirrorlake.kafka.records.codec import decode_batches, encode_batch
from mirrorlake.kafka.records.rewrite import open_batches
from mirrorlake.offsets import OffsetRange
from unit.kafka.records.record_samples import Sample, any_keys, columns_of, only_batch, sample_lists, samples_of

MEBIBYTE = 1 << 20
HEADERS = ((b"\xff\xfe", b"1"), (b"again", None), (b"again", b""))


def item_of(samples: list[Sample], codec: Codec = Codec.NONE, *, covers: int | None = None) -> ClassifiedBatch:
    """A batch as the reader hands it on; ``covers`` offsets, where its last records were compacted away."""
    batch = only_batch(encode_batch(columns_of(samples), codec=codec, base_offset=samples[0].offset))
    if covers is not None:
        batch = with_header(batch, last_offset_delta=covers - 1)
    found = classify(batch, position=0, aborted=AbortedTransactions([]))
    return ClassifiedBatch(batch=batch, path=found.path, reason=found.reason)


def with_header(batch: Batch, **changes: int) -> Batch:
    return Batch(BatchHeader(**{**batch.header._asdict(), **changes}), batch.view)


def small(start: int, count: int = 2, codec: Codec = Codec.NONE) -> ClassifiedBatch:
    return item_of([Sample(start + i, 1_700_000_000_000 - start, b"%06d" % (start + i)) for i in range(count)], codec)


def row_of(batches: int, start: int = 0) -> list[ClassifiedBatch]:
    return [small(start + 2 * number) for number in range(batches)]


def grouped(
    items: list[ClassifiedBatch], *, packs: bool = False, limit: int = MEBIBYTE, keeps_log_append_time: bool = True
) -> list[ClassifiedBatch | CoalescedBatches]:
    return list(coalesce(items, batch_bytes_max=limit, packs=packs, keeps_log_append_time=keeps_log_append_time))


def counts(groups: list[ClassifiedBatch | CoalescedBatches]) -> list[int]:
    """How many batches become one each time; 1 for a batch that goes by itself."""
    return [1 if isinstance(each, ClassifiedBatch) else len(each) for each in groups]


def outputs(
    items: list[ClassifiedBatch], *, position: int = 0, packs: bool = False, limit: int = MEBIBYTE
) -> list[OutputBatch | OutputGap]:
    found: list[OutputBatch | OutputGap] = []
    for each in grouped(items, packs=packs, limit=limit):
        for output in outputs_of(each, position=position, end_offset=1 << 62, batch_bytes_max=limit, packs=packs):
            found.append(output)
            position = output.offsets.end_offset
    return found


def span(start_offset: int, end_offset: int) -> OffsetRange:
    return OffsetRange(start_offset=start_offset, end_offset=end_offset)


def records_of(output: OutputBatch) -> list[Sample]:
    (found,) = walk(output.batch.view)
    verify_crc(found)
    samples = samples_of(decode_batches([found]))
    offsets = [offset for run in output.runs for offset in range(run.start_offset, run.end_offset)]
    return [replace(sample, offset=offset) for sample, offset in zip(samples, offsets, strict=True)]


def only_data(found: list[OutputBatch | OutputGap]) -> list[OutputBatch]:
    return [each for each in found if isinstance(each, OutputBatch)]


def damaged(item: ClassifiedBatch) -> ClassifiedBatch:
    """The batch with a record whose length leads beyond it; its checksum was right for these bytes."""
    view = memoryview(bytearray(item.batch.view))
    view[61] = 0x7E
    return item._replace(batch=Batch(item.batch.header, view))


# --- which of them


def test_fewer_than_a_partition_may_have_in_flight_are_passed_through_and_one_more_makes_them_one() -> None:
    items = row_of(COALESCED_BATCHES_MIN - 1)
    assert grouped(items) == items
    assert counts(grouped(row_of(COALESCED_BATCHES_MIN))) == [COALESCED_BATCHES_MIN]


@pytest.mark.parametrize("packs", [False, True])
@pytest.mark.parametrize("codec", Codec)
def test_a_batch_that_is_large_enough_is_passed_through_between_those_that_are_not(codec: Codec, packs: bool) -> None:
    value = bytes(range(256)) * (SMALL_BYTES_MAX[codec] // 64)
    noise = [bytes((7 * at * at + 31 * number + byte) % 251 for at, byte in enumerate(value)) for number in range(40)]
    large = item_of([Sample(12 + i, value=noise[i]) for i in range(40)], codec)
    assert large.batch.header.batch_bytes > SMALL_BYTES_MAX[codec]
    before = [small(2 * number, codec=codec) for number in range(6)]
    after = [small(52 + 2 * number, codec=codec) for number in range(7)]
    assert counts(grouped([*before, large, *after], packs=packs)) == [6, 1, 7]
    if large.batch.header.batch_bytes < MEBIBYTE:
        passed = only_data(outputs([*before, large, *after], packs=packs))[1]
        assert passed.batch is large.batch


def test_batches_that_are_compressed_anew_in_any_case_may_be_larger() -> None:
    size = SMALL_BYTES_MAX[Codec.GZIP] + 1
    dense = [with_header(small(2 * number, codec=Codec.GZIP).batch, batch_bytes=size) for number in range(6)]
    raw = [ClassifiedBatch(batch=each, path=Path.RAW, reason="dense") for each in dense]
    by_broker = [
        ClassifiedBatch(batch=with_header(each, attributes=9), path=LOG_APPEND_TIME.path, reason=LOG_APPEND_TIME.reason)
        for each in dense
    ]
    sparse = [
        ClassifiedBatch(batch=with_header(each, record_count=1), path=Path.RECORDS, reason="compacted")
        for each in dense
    ]
    assert counts(grouped(raw)) == counts(grouped(sparse)) == [1] * 6
    assert counts(grouped(by_broker)) == counts(grouped(sparse, packs=True)) == [6]
    assert counts(grouped(by_broker, keeps_log_append_time=False)) == [1] * 6


def test_equal_offsets_keep_batches_apart_that_do_not_follow_one_another_and_a_map_does_not() -> None:
    items = [*row_of(6), *row_of(6, start=13)]
    assert counts(grouped(items)) == [6, 6]
    assert counts(grouped(items, packs=True)) == [12]


def test_equal_offsets_keep_batches_with_holes_apart_and_a_map_does_not() -> None:
    holes = item_of([Sample(12), Sample(14)])
    assert holes.reason == "compacted"
    items = [*row_of(6), holes, *row_of(6, start=15)]
    assert counts(grouped(items)) == [6, 1, 6]
    assert counts(grouped(items, packs=True)) == [13]


@pytest.mark.parametrize("packs", [False, True])
def test_batches_of_another_compression_or_without_records_stand_between(packs: bool) -> None:
    marker = small(12)._replace(path=Path.SKIP, reason="control")
    assert counts(grouped([*row_of(6), marker, *row_of(6, start=14)], packs=packs)) == [6, 1, 6]
    packed = [small(12 + 2 * number, codec=Codec.LZ4) for number in range(6)]
    assert counts(grouped([*row_of(6), *packed, *row_of(6, start=24)], packs=packs)) == [6, 6, 6]


def test_together_they_come_to_no_more_than_the_bound_or_what_the_destination_takes() -> None:
    size = row_of(1)[0].batch.header.batch_bytes
    assert counts(grouped(row_of(25), limit=10 * size)) == [10, 10, 1, 1, 1, 1, 1]
    many = COALESCED_BYTES_MAX // size
    assert counts(grouped(row_of(2 * many + 6))) == [many, many, 6]


# --- where a partition waits for round trips


def medium(number: int, value_bytes: int = 200_000, codec: Codec = Codec.NONE) -> ClassifiedBatch:
    value = random.Random(number).randbytes(value_bytes)  # it does not compress
    return item_of([Sample(number, 1_700_000_000_000 + number, None, value)], codec)


def far(items: list[ClassifiedBatch], coalesced_bytes: int) -> list[ClassifiedBatch | CoalescedBatches]:
    return [*coalesce(items, batch_bytes_max=MEBIBYTE, packs=False, coalesced_bytes=coalesced_bytes)]


def test_far_away_two_batches_are_enough_and_those_above_half_the_bound_go_by_themselves() -> None:
    items = [medium(number) for number in range(7)]
    assert counts(far(items, 700_000)) == [3, 3, 1]
    assert counts(far(items, 500_000)) == [2, 2, 2, 1]
    assert counts(far(items, 390_000)) == [1] * 7
    assert counts(far(items, 0)) == [1] * 7


def test_far_away_too_they_come_to_no_more_than_the_destination_takes() -> None:
    items = [medium(number, 300_000) for number in range(7)]
    assert counts(far(items, 4 * MEBIBYTE)) == [3, 3, 1]


@pytest.mark.parametrize("codec", Codec)
def test_a_route_coalesces_large_batches_with_every_record_as_it_was(codec: Codec) -> None:
    items = [medium(number, codec=codec) for number in range(6)]
    route = Route(batch_bytes_max=MEBIBYTE, packs=False)
    near = only_data(list(route.outputs(items, position=0, covered_end=6)))
    assert [each.is_in_frame for each in near] == [True] * 6
    found = only_data(list(route.outputs(items, position=0, covered_end=6, coalesced_bytes=700_000)))
    assert [(each.offsets, each.reason) for each in found] == [(span(0, 3), "coalesced"), (span(3, 6), "coalesced")]
    assert {each.batch.header.codec for each in found} == {codec}
    records = [record for each in found for record in records_of(each)]
    assert records == [record for each in near for record in records_of(each)]
    assert [record.offset for record in records] == [0, 1, 2, 3, 4, 5]


def test_large_batches_that_decompress_to_too_much_for_one_are_coalesced_by_halves() -> None:
    chance = random.Random(7)
    # 64 KiB of each do not compress, the rest to nothing: 1.1 MB each, so three go into the 4 MiB a batch may come to.
    values = [chance.randbytes(64 << 10) + bytes(1 << 20) for _ in range(8)]
    items = [item_of([Sample(number, value=value)], Codec.LZ4) for number, value in enumerate(values)]
    assert counts(far(items, 900_000)) == [8]
    found = only_data(
        list(
            Route(batch_bytes_max=MEBIBYTE, packs=False).outputs(
                items, position=0, covered_end=8, coalesced_bytes=900_000
            )
        )
    )
    assert [each.offsets for each in found] == [span(0, 2), span(2, 4), span(4, 6), span(6, 8)]
    assert [record.value for each in found for record in records_of(each)] == values


# --- what they become


@pytest.mark.parametrize("codec", Codec)
def test_coalesced_batches_become_one_of_their_compression_with_every_record_as_it_was(codec: Codec) -> None:
    samples = [Sample(7 + i, 1_700_000_000_000 - 9 * i, None, b"%d" % i, HEADERS[: i % 4]) for i in range(18)]
    items = [item_of(samples[at : at + 3], codec) for at in range(0, 18, 3)]
    (output,) = only_data(outputs(items, position=7))
    assert (output.path, output.reason, output.is_in_frame) == ("records", "coalesced", False)
    assert (output.offsets, output.runs) == (span(7, 25), (span(7, 25),))
    assert output.max_timestamp_ms == output.batch.header.max_timestamp == 1_700_000_000_000
    assert output.batch.header.codec is codec
    assert records_of(output) == samples
    prepare_for_append(output.batch, producer_id=77, producer_epoch=3, base_sequence=12)
    (sent,) = walk(output.batch.view)
    verify_crc(sent)
    assert (sent.header.producer_id, sent.header.base_sequence, sent.header.record_count) == (77, 12, 18)


def test_where_records_lie_is_told_exactly_whatever_is_missing_between_and_inside() -> None:
    items = [*row_of(6), item_of([Sample(14), Sample(17)], covers=6), small(20)]
    found = outputs([*items, item_of([Sample(25)], covers=3)], packs=True)
    output, after = found
    assert isinstance(output, OutputBatch)
    assert output.runs == (span(0, 12), span(14, 15), span(17, 18), span(20, 22), span(25, 26))
    assert output.offsets == span(0, 26)
    assert after == OutputGap(offsets=span(26, 28), reason="compacted")
    assert [each.offset for each in records_of(output)] == [*range(12), 14, 17, 20, 21, 25]


def test_what_is_missing_before_them_is_a_gap() -> None:
    before, output = outputs(row_of(6, start=9), position=4)
    assert before == OutputGap(offsets=span(4, 9), reason="compacted or removed")
    assert output.offsets == span(9, 21)
    lone = only_batch(encode_batch(columns_of([Sample(5)]), codec=Codec.NONE, base_offset=5))
    lone.view[64] = 4  # the record's offset delta: 2
    first = with_header(lone, last_offset_delta=2)
    items = [ClassifiedBatch(batch=first, path=Path.RECORDS, reason="compacted"), *row_of(6, start=8)]
    assert [each.offsets for each in outputs(items, position=4, packs=True)] == [span(4, 5), span(5, 7), span(7, 20)]


def test_each_record_keeps_the_time_its_readers_saw_whoever_set_it() -> None:
    by_broker = [
        ClassifiedBatch(
            batch=with_header(each.batch, attributes=8, max_timestamp=1_800_000_000_000 + number),
            path=LOG_APPEND_TIME.path,
            reason=LOG_APPEND_TIME.reason,
        )
        for number, each in enumerate(row_of(3))
    ]
    (output,) = only_data(outputs([*by_broker, *row_of(3, start=6)]))
    assert [each.timestamp - 1_700_000_000_000 for each in records_of(output)] == [
        *(100_000_000_000 + number for number in (0, 0, 1, 1, 2, 2)),
        *(-6, -6, -8, -8, -10, -10),
    ]
    assert not output.batch.header.is_log_append_time


# --- where they cannot


def test_a_record_that_is_not_right_takes_no_other_batch_with_it() -> None:
    items = row_of(8)
    items[5] = damaged(items[5])
    found = only_data(outputs(items))
    assert [each.batch for each in found] == [each.batch for each in items]
    assert {each.path for each in found} == {"raw"}


def test_a_compacted_batch_that_is_not_right_is_refused_after_those_before_it() -> None:
    bad = damaged(item_of([Sample(12), Sample(14)]))
    (together,) = grouped([*row_of(6), bad, *row_of(6, start=15)], packs=True)
    taken = []
    with pytest.raises(CorruptBatchError) as error:  # noqa: PT012  (what was yielded before counts)
        for output in outputs_of(together, position=0, end_offset=1 << 62, batch_bytes_max=MEBIBYTE, packs=True):
            taken.append(output)
    assert [each.offsets for each in taken] == [span(2 * number, 2 * number + 2) for number in range(6)]
    assert error.value.facts["offset"] == 12


def test_an_error_names_the_batch_it_was_found_in() -> None:
    batches = [each.batch for each in row_of(6)]
    batches[3] = damaged(row_of(6)[3]).batch
    with pytest.raises(CorruptBatchError) as error:
        open_batches(batches)
    assert error.value.facts["offset"] == 6
    batches[3] = with_header(row_of(6)[3].batch, record_count=1000, last_offset_delta=999)
    with pytest.raises(CorruptBatchError, match="1000 records do not fit") as error:
        open_batches(batches)
    assert error.value.facts["offset"] == 6


def test_batches_that_decompress_to_megabytes_are_coalesced_all_the_same() -> None:
    samples = [Sample(number, value=bytes([number]) * 380_000) for number in range(8)]
    (output,) = only_data(outputs([item_of([each], Codec.GZIP) for each in samples]))
    assert records_of(output) == samples
    assert output.reason == "coalesced"


def test_batches_that_decompress_to_too_much_go_one_by_one() -> None:
    items = [item_of([Sample(number, value=bytes(9000))], Codec.GZIP) for number in range(6)]
    batches = [each.batch for each in items]
    assert len(open_batches(batches, decompressed_bytes_max=6 * 9100)) == 6
    with pytest.raises(BatchTooLargeError, match="come to more than 50000") as error:
        open_batches(batches, decompressed_bytes_max=50_000)
    assert error.value.facts["offset"] == 5
    bombs = [item_of([Sample(number, value=bytes(380_000))], Codec.GZIP) for number in range(12)]
    assert counts(grouped(bombs)) == [12]
    assert {each.path for each in only_data(outputs(bombs))} == {"raw"}


def test_a_position_inside_the_first_leaves_out_what_is_before_it_and_the_rest_goes_one_by_one() -> None:
    found = outputs(row_of(6), position=1)
    assert [each.offsets for each in found] == [
        span(1, 2),
        *(span(2 * number, 2 * number + 2) for number in range(1, 6)),
    ]
    assert [(each.path, each.reason) for each in only_data(found)] == [("records", "overlap"), *[("raw", "dense")] * 5]


# --- whatever the mix


@st.composite
def deliveries(draw: st.DrawFn) -> list[tuple[list[Sample], ClassifiedBatch]]:
    """Batches in order, small and not, with holes between and inside, and those without records."""
    made: list[tuple[list[Sample], ClassifiedBatch]] = []
    offset = draw(st.integers(0, 5))
    codecs = draw(st.sampled_from([[Codec.NONE], [Codec.LZ4], [Codec.NONE, Codec.ZSTD]]))
    shapes = [draw(sample_lists(header_keys=any_keys, max_size=4)) for _ in range(3)]
    for _ in range(draw(st.integers(1, 30))):
        shape = draw(st.sampled_from(shapes))
        samples = [replace(each, offset=offset + number) for number, each in enumerate(shape)]
        if draw(st.integers(0, 9)) == 0:
            samples = [replace(each, offset=each.offset + at) for at, each in enumerate(samples)]
        item = item_of(samples, draw(st.sampled_from(codecs)))
        if draw(st.integers(0, 9)) == 0:
            item, samples = item._replace(path=Path.SKIP, reason="aborted"), []
        made.append((samples, item))
        offset = item.batch.header.next_offset + (draw(st.integers(1, 3)) if draw(st.integers(0, 9)) == 0 else 0)
    return made


@settings(deadline=None, max_examples=70)
@given(made=deliveries(), packs=st.booleans(), limit=st.sampled_from([MEBIBYTE, 40_000, 9500, 1000]))
def test_outputs_account_for_every_offset_once_and_give_back_every_record(
    made: list[tuple[list[Sample], ClassifiedBatch]], packs: bool, limit: int
) -> None:
    items = [item for _, item in made]
    expected = [sample for samples, _ in made for sample in samples]
    end = items[-1].batch.header.next_offset
    found: list[OutputBatch | OutputGap] = []
    position = 0
    try:
        for each in grouped(items, packs=packs, limit=limit):
            for output in outputs_of(each, position=position, end_offset=1 << 62, batch_bytes_max=limit, packs=packs):
                found.append(output)
                position = output.offsets.end_offset
    except RecordTooLargeError as error:
        # Whether it is too large alone is another test's; here, that everything before it was there.
        end = position
        expected = [each for each in expected if each.offset < int(str(error.facts["offset"]))]
        assert limit < 40_000
    assert position == end
    assert [earlier.offsets.end_offset for earlier in found[:-1]] == [later.offsets.start_offset for later in found[1:]]
    data = only_data(found)
    assert [sample for output in data for sample in records_of(output)] == expected
    assert all(len(output.batch.view) <= limit for output in data)
    assert all(output.batch.header.is_dense for output in data)
    assert all(packs or len(output.runs) == 1 for output in data)
    assert all(earlier.end_offset < later.start_offset for output in data for earlier, later in pairwise(output.runs))
    assert all(sum(map(len, output.runs)) == output.batch.header.record_count for output in data)
