"""A route that changes schema ids: what is before a batch it cannot change has gone on, and nothing of that one has."""

from struct import pack

import pytest

from mirrorlake.destinations.interface import ClassifiedBatch
from mirrorlake.destinations.output_batches import OutputBatch, OutputGap
from mirrorlake.destinations.route import Route
from mirrorlake.destinations.transform import Transform
from mirrorlake.errors import MirrorlakeError, SchemaUnknownError, SchemaUnreadableError
from mirrorlake.kafka.records.batches import COMPACTED, DENSE, Batch, Codec, Path, walk
from mirrorlake.kafka.records.codec import decode_batches, encode_batch
from mirrorlake.kafka.schema_ids.id_map import SchemaIdMap
from unit.kafka.records.record_samples import Sample, columns_of, only_batch, samples_of

IDS = SchemaIdMap.of({1: 500, 2: 2})


def framed(schema_id: int) -> bytes:
    return b"\0" + pack(">i", schema_id) + b"b" * 300_000


def item(offset: int, schema_id: int, *, codec: Codec = Codec.NONE, reaches: int = 1) -> ClassifiedBatch:
    samples = [Sample(offset + number * 2, value=framed(schema_id)) for number in range(reaches)]
    batch = only_batch(encode_batch(columns_of(samples), codec=codec, base_offset=offset))
    found = DENSE if batch.header.is_dense else COMPACTED
    return ClassifiedBatch(batch=batch, path=found.path, reason=found.reason)


def routed(
    items: list[ClassifiedBatch], *, packs: bool, end: int
) -> tuple[list[OutputBatch | OutputGap], MirrorlakeError | None]:
    route = Route(batch_bytes_max=1 << 20, packs=packs, transform=Transform(schema_ids=IDS))
    found: list[OutputBatch | OutputGap] = []
    try:
        for output in route.outputs(items, position=0, covered_end=end):
            found.append(output)
    except (SchemaUnknownError, SchemaUnreadableError) as error:
        return found, error
    return found, None


def ids_of(output: OutputBatch | OutputGap) -> list[int]:
    assert isinstance(output, OutputBatch)
    view = bytearray(output.batch.view)
    view[:8] = bytes(8)
    values = [each.value for each in samples_of(decode_batches([*walk(memoryview(view))]))]
    return [int.from_bytes((value or b"")[1:5], "big") for value in values]


@pytest.mark.parametrize("packs", [False, True])
def test_batches_before_one_with_an_unknown_id_go_on_with_theirs_changed(packs: bool) -> None:
    items = [item(number, 1 + number % 2) for number in range(20)]  # more than is changed at a time
    found, error = routed([*items, item(20, 77), item(21, 1)], packs=packs, end=22)
    assert isinstance(error, SchemaUnknownError)
    assert error.facts["offset"] == 20
    assert [id_ for output in found for id_ in ids_of(output)] == [500, 2] * 10
    assert found[-1].end_offset == 20


def test_a_batch_whose_ids_are_equal_on_both_sides_goes_on_as_its_bytes() -> None:
    same = item(0, 2)
    (output,), _ = routed([same], packs=False, end=1)
    assert isinstance(output, OutputBatch)
    assert output.batch.view is same.batch.view


@pytest.mark.parametrize("in_place", [False, True])
def test_a_batch_is_changed_where_it_is_only_where_it_may_be(in_place: bool) -> None:
    route = Route(batch_bytes_max=1 << 20, packs=False, transform=Transform(schema_ids=IDS))
    other, before = item(0, 1), bytes(item(0, 1).batch.view)
    (output,) = route.outputs([other], position=0, covered_end=1, in_place=in_place)
    assert ids_of(output) == [500]
    assert (bytes(other.batch.view) != before) is in_place


def test_a_compressed_batch_and_one_with_holes_are_changed_too() -> None:
    found, error = routed([item(0, 1, codec=Codec.ZSTD), item(1, 1, reaches=2)], packs=False, end=6)
    assert error is None
    assert [(type(each) is OutputGap, each.end_offset) for each in found] == [
        (False, 1),
        (False, 2),
        (True, 3),
        (False, 4),
        (True, 6),
    ]
    assert [ids_of(each) for each in found if isinstance(each, OutputBatch)] == [[500]] * 3


def test_what_no_consumer_is_shown_is_not_looked_at() -> None:
    skipped = item(0, 77)
    found, error = routed(
        [ClassifiedBatch(batch=Batch(*skipped.batch), path=Path.SKIP, reason="aborted")], packs=False, end=1
    )
    assert (error, len(found)) == (None, 1)
    assert isinstance(found[0], OutputGap)
