"""The route of a delivery: whatever is in it, every offset is accounted for once, and every record arrives."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorlake.destinations.coalescing import NOT_COALESCED_BYTES_MIN, coalesce
from mirrorlake.destinations.interface import ClassifiedBatch
from mirrorlake.destinations.output_batches import OutputBatch, OutputGap, coalesce_messages, outputs_of
from mirrorlake.destinations.route import Route, with_records
from mirrorlake.destinations.transform import AS_IT_IS, Times, Transform, transform_of
from mirrorlake.errors import RecordTooLargeError
from mirrorlake.kafka.records.batches import COMPACTED, DENSE, OLD_FORMAT, Batch, Codec, Path, walk
from mirrorlake.kafka.records.codec import decode_batches, encode_batch
from mirrorlake.offsets import OffsetRange
from unit.kafka.records.old_messages import Message, message
from unit.kafka.records.record_samples import Sample, any_keys, columns_of, only_batch, sample_lists, samples_of
from unit.kafka.records.written_by_kafka import WRITTEN_BY_KAFKA

MEBIBYTE = 1 << 20
NOW_MS = 1_790_000_000_123


def item_of(samples: list[Sample], codec: Codec = Codec.NONE, *, leader_epoch: int = -1) -> ClassifiedBatch:
    batch = only_batch(encode_batch(columns_of(samples), codec=codec, base_offset=samples[0].offset))
    found = DENSE if batch.header.is_dense else COMPACTED
    header = batch.header._replace(leader_epoch=leader_epoch)
    return ClassifiedBatch(batch=Batch(header, batch.view), path=found.path, reason=found.reason)


def large(offset: int, *, leader_epoch: int = -1) -> ClassifiedBatch:
    return item_of([Sample(offset, value=bytes(NOT_COALESCED_BYTES_MIN))], leader_epoch=leader_epoch)


def routed(
    items: Sequence[ClassifiedBatch],
    *,
    position: int = 0,
    covered_end: int | None = None,
    packs: bool = False,
    limit: int = MEBIBYTE,
    transform: Transform = AS_IT_IS,
) -> list[OutputBatch | OutputGap]:
    end = items[-1].batch.header.next_offset if covered_end is None else covered_end
    route = Route(batch_bytes_max=limit, packs=packs, transform=transform)
    return list(route.outputs(items, position=position, covered_end=end, now_ms=NOW_MS))


def records_of(output: OutputBatch) -> list[Sample]:
    samples = samples_of(decode_batches([*walk(memoryview(_at_offset_zero(output)))]))
    offsets = [offset for run in output.runs for offset in range(run.start_offset, run.end_offset)]
    return [replace(sample, offset=offset) for sample, offset in zip(samples, offsets, strict=True)]


def _at_offset_zero(output: OutputBatch) -> bytearray:
    data = bytearray(output.batch.view)
    data[:8] = bytes(8)
    return data


def only_data(found: list[OutputBatch | OutputGap]) -> list[OutputBatch]:
    return [each for each in found if isinstance(each, OutputBatch)]


def test_large_batches_go_on_as_they_are_whatever_comes_between() -> None:
    small = [item_of([Sample(2 + number)]) for number in range(6)]
    items = [large(0), large(1), *small, large(8)]
    found = only_data(routed(items))
    assert [each.counted_as for each in found] == ["raw:dense", "raw:dense", "records:coalesced", "raw:dense"]
    assert [each.is_in_frame for each in found] == [True, True, False, True]
    assert [found[0].batch, found[1].batch, found[3].batch] == [items[0].batch, items[1].batch, items[8].batch]


def test_offsets_behind_the_last_batch_are_a_gap_and_a_batch_no_consumer_is_shown_is_one_that_says_so() -> None:
    marker = item_of([Sample(1)])._replace(path=Path.SKIP, reason="control")
    data, of_marker, rest = routed([large(0), marker], covered_end=5)
    assert isinstance(data, OutputBatch)
    assert [of_marker, rest] == [
        OutputGap(offsets=OffsetRange(start_offset=1, end_offset=2), reason="control"),
        OutputGap(offsets=OffsetRange(start_offset=2, end_offset=5), reason="no batch covers them"),
    ]
    assert isinstance(of_marker, OutputGap)
    assert isinstance(rest, OutputGap)
    assert (of_marker.is_batch, rest.is_batch) == (True, False)


def test_a_delivery_without_a_batch_is_one_gap_and_one_that_covers_nothing_is_no_output() -> None:
    route = Route(batch_bytes_max=MEBIBYTE, packs=False)
    (gap,) = route.outputs([], position=4, covered_end=9)
    assert gap == OutputGap(offsets=OffsetRange(start_offset=4, end_offset=9), reason="no batch covers them")
    assert list(route.outputs([], position=4, covered_end=4)) == []


def test_outputs_say_in_which_epoch_the_leader_took_their_last_batch() -> None:
    small = [item_of([Sample(3 + number)], leader_epoch=4 + number // 3) for number in range(6)]
    found = routed([large(0, leader_epoch=2), large(2, leader_epoch=3), *small], covered_end=20)
    assert [(each.end_offset, each.leader_epoch) for each in found] == [(1, 2), (2, 3), (3, 3), (9, 5), (20, -1)]


def test_a_output_is_made_when_it_is_asked_for() -> None:
    damaged = item_of([Sample(1), Sample(3)])
    damaged.batch.view[61] = 0x7E
    outputs = Route(batch_bytes_max=MEBIBYTE, packs=False).outputs([large(0), damaged], position=0, covered_end=4)
    assert next(outputs).end_offset == 1


# --- transforms


def test_a_transform_that_stamps_rewrites_what_would_have_gone_on_as_it_was() -> None:
    (output,) = only_data(routed([large(0)], transform=Transform(times=Times.COPY)))
    assert (output.counted_as, output.max_timestamp_ms) == ("records:log-append-time", NOW_MS)
    assert [each.timestamp for each in records_of(output)] == [NOW_MS]


@pytest.mark.parametrize("times", Times)
def test_what_a_transform_makes_of_a_batch_is_equal_to_the_source_where_the_transform_compares(times: Times) -> None:
    transform = Transform(times=times)
    batch = only_batch(bytearray(WRITTEN_BY_KAFKA["none"]))
    item = ClassifiedBatch(batch=batch, path=DENSE.path, reason=DENSE.reason)
    copied = [each.batch for each in only_data(routed([item], transform=transform))]
    held = samples_of(transform.copy_side(decode_batches(copied)))
    expected = samples_of(transform.source_side(decode_batches([batch])))
    assert [replace(each, offset=0) for each in held] == [replace(each, offset=0) for each in expected]


def test_a_batch_the_source_stamped_goes_on_as_it_is_only_where_the_destination_stamps_too() -> None:
    batch = only_batch(bytearray(WRITTEN_BY_KAFKA["log-append-time"]))
    item = ClassifiedBatch(batch=batch, path=Path.RECORDS, reason="log-append-time")
    paths = {times: only_data(routed([item], transform=Transform(times=times)))[0].path for times in Times}
    assert paths == {Times.SOURCE: "records", Times.BROKERS: "raw", Times.COPY: "records"}


def test_the_settings_of_a_destination_say_its_transform() -> None:
    assert transform_of(keeps_log_append_time=True, stamps_times=False) == AS_IT_IS
    assert transform_of(keeps_log_append_time=False, stamps_times=False) == Transform(times=Times.BROKERS)
    assert transform_of(keeps_log_append_time=False, stamps_times=True) == Transform(times=Times.COPY)


def test_an_archive_takes_the_batches_with_records_and_its_transform_too() -> None:
    marker = item_of([Sample(1)])._replace(path=Path.SKIP, reason="control")
    items = [large(0), marker, large(2)]
    assert with_records(items) == [items[0].batch, items[2].batch]
    stamped = with_records(items, transform=Transform(times=Times.COPY), now_ms=NOW_MS)
    assert [each.timestamp for each in samples_of(decode_batches(stamped))] == [NOW_MS] * 2


# --- whatever the mix


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[list[ClassifiedBatch], list[Sample]]:
    """Batches in order, large and small, old and new, holes between and inside, and those without records."""
    items: list[ClassifiedBatch] = []
    expected: list[Sample] = []
    offset = draw(st.integers(0, 3))
    shapes = [draw(sample_lists(header_keys=any_keys, max_size=4)) for _ in range(3)]
    for _ in range(draw(st.integers(1, 20))):
        kind = draw(st.sampled_from(["small"] * 6 + ["large", "holed", "skipped", "old"]))
        if kind == "old":
            (old,) = walk(memoryview(bytearray(message(1, Message(offset, timestamp=5, value=b"old")))))
            items.append(ClassifiedBatch(batch=old, path=OLD_FORMAT.path, reason=OLD_FORMAT.reason))
            expected += samples_of(decode_batches([old]))
        else:
            samples = [replace(each, offset=offset + at) for at, each in enumerate(draw(st.sampled_from(shapes)))]
            if kind == "large":
                samples[0] = replace(samples[0], value=bytes(NOT_COALESCED_BYTES_MIN))
            if kind == "holed":
                samples = [replace(each, offset=each.offset + at) for at, each in enumerate(samples)]
            item = item_of(samples, draw(st.sampled_from([Codec.NONE, Codec.NONE, Codec.LZ4])))
            if kind == "skipped":
                item, samples = item._replace(path=Path.SKIP, reason="aborted"), []
            items.append(item)
            expected += samples
        offset = items[-1].batch.header.next_offset + draw(st.sampled_from([0] * 9 + [2]))
    return items, expected


def by_hand(
    items: list[ClassifiedBatch], *, position: int, covered_end: int, packs: bool, limit: int
) -> list[OutputBatch | OutputGap]:
    """The same without a short way for large batches: what every step gives of every batch."""
    found: list[OutputBatch | OutputGap] = []
    for group in coalesce(coalesce_messages(items), batch_bytes_max=limit, packs=packs):
        for output in outputs_of(group, position=position, end_offset=1 << 62, batch_bytes_max=limit, packs=packs):
            found.append(output)
            position = output.end_offset
    if covered_end > position:
        rest = OffsetRange(start_offset=position, end_offset=covered_end)
        found.append(OutputGap(offsets=rest, reason="no batch covers them"))
    return found


def told(output: OutputBatch | OutputGap) -> tuple[object, ...]:
    if isinstance(output, OutputGap):
        return (output.offsets, output.reason, output.leader_epoch)
    return (
        output.offsets,
        output.runs,
        output.counted_as,
        output.is_in_frame,
        output.leader_epoch,
        bytes(output.batch.view),
    )


@settings(deadline=None, max_examples=120)
@given(
    made=deliveries(),
    packs=st.booleans(),
    limit=st.sampled_from([MEBIBYTE, 40_000]),
    skipped=st.integers(0, 4),
    behind=st.integers(0, 3),
)
def test_every_offset_is_accounted_for_once_and_every_record_arrives_as_if_each_step_were_done_by_hand(
    made: tuple[list[ClassifiedBatch], list[Sample]], packs: bool, limit: int, skipped: int, behind: int
) -> None:
    items, samples = made
    position, end = skipped, max(items[-1].batch.header.next_offset, skipped) + behind
    found: list[OutputBatch | OutputGap] = []
    route = Route(batch_bytes_max=limit, packs=packs)
    too_large: RecordTooLargeError | None = None
    try:
        for output in route.outputs(items, position=position, covered_end=end):
            found.append(output)
    except RecordTooLargeError as error:
        too_large = error
    assert too_large is None or limit < MEBIBYTE
    borders = [position, *(each.end_offset for each in found)]
    assert [each.offsets.start_offset for each in found] == borders[:-1]
    assert all(len(each.offsets) for each in found)
    assert too_large is not None or borders[-1] == end
    expected = [each for each in samples if position <= each.offset < borders[-1]]
    assert [sample for output in only_data(found) for sample in records_of(output)] == expected
    if not packs:
        assert all(len(output.offsets) == output.batch.header.record_count for output in only_data(found))
    assert all(output.batch.header.batch_bytes <= limit for output in only_data(found))
    if too_large is None:
        assert [*map(told, found)] == [
            *map(told, by_hand(items, position=position, covered_end=end, packs=packs, limit=limit))
        ]
