"""Headers that say where a record came from: added behind all others, and set aside where they are right alone."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.destinations import provenance
from mirrorlake.destinations.interface import ClassifiedBatch
from mirrorlake.destinations.provenance import Provenance
from mirrorlake.destinations.transform import Transform
from mirrorlake.kafka.records.batches import COMPACTED, CONTROL, DENSE, OLD_FORMAT, Batch, Codec, Path
from mirrorlake.kafka.records.codec import decode_batches, encode_batch
from mirrorlake.kafka.records.columns import RecordColumns
from unit.kafka.records.record_samples import (
    Sample,
    any_keys,
    batches_in,
    columns_of,
    only_batch,
    sample_lists,
    samples_of,
)
from unit.kafka.records.written_by_kafka import WRITTEN_BY_KAFKA

HERE = Provenance(cluster_id="Zx1", topic="zähler", partition=12)
NOWHERE = Provenance(cluster_id="", topic="orders", partition=0)
UPSTREAM = Provenance(cluster_id="Qq9", topic="zähler", partition=12)
ANYWHERE = st.sampled_from([HERE, NOWHERE, UPSTREAM])


def with_headers(sample: Sample) -> Sample:
    headers = (
        (b"__mirrorlake.source.cluster.id", b"Zx1"),
        (b"__mirrorlake.source.topic", "zähler".encode()),
        (b"__mirrorlake.source.partition", b"12"),
        (b"__mirrorlake.source.offset", str(sample.offset).encode()),
    )
    return replace(sample, headers=(*sample.headers, *headers))


@given(samples=sample_lists(header_keys=any_keys))
def test_each_record_gets_its_own_place_behind_its_headers_and_is_else_unchanged(samples: list[Sample]) -> None:
    assert samples_of(HERE.added_to(columns_of(samples))) == [with_headers(each) for each in samples]


@given(samples=sample_lists(header_keys=any_keys), sets=st.lists(st.integers(0, 3), min_size=30, max_size=30))
def test_records_of_the_source_that_have_the_headers_are_equal_to_their_copy_with_and_without_more(
    samples: list[Sample], sets: list[int]
) -> None:
    """As after a restore from the stamped copy into a topic of the same name, or where somebody forges them."""
    source = samples[: len(sets)]
    for number in range(3):
        source = [with_headers(each) if sets[row] > number else each for row, each in enumerate(source)]
    records = columns_of(source)
    for is_stamped in (False, True):
        transform = Transform(provenance=HERE, stamps_provenance=is_stamped)
        copy = HERE.added_to(records) if is_stamped else records
        assert samples_of(transform.copy_side(copy)) == samples_of(transform.source_side(records))


@given(samples=sample_lists(header_keys=any_keys), first=st.integers(0, 40), place=ANYWHERE)
def test_what_was_added_is_set_aside_again_from_any_part_of_the_records(
    samples: list[Sample], first: int, place: Provenance
) -> None:
    first = min(first, len(samples))
    stamped = place.added_to(columns_of(samples)).slice(first, len(samples))
    assert samples_of(place.set_aside(stamped)) == samples[first:]


@given(samples=sample_lists(header_keys=any_keys), is_stamped=st.lists(st.booleans(), min_size=30, max_size=30))
def test_records_with_and_without_the_headers_lie_side_by_side(samples: list[Sample], is_stamped: list[bool]) -> None:
    mixed = [with_headers(each) if is_so else each for each, is_so in zip(samples, is_stamped, strict=False)]
    assert samples_of(HERE.set_aside(columns_of(mixed))) == samples[: len(mixed)]


def test_headers_of_another_place_or_not_the_last_ones_stay() -> None:
    sample = Sample(7, headers=((b"a", None),))
    stamped = with_headers(sample)
    upstream = samples_of(UPSTREAM.added_to(columns_of([sample])))[0]
    for kept in (
        upstream,
        replace(stamped, offset=8),
        replace(stamped, headers=(*stamped.headers, (b"z", b""))),
        replace(stamped, headers=stamped.headers[-3:]),
        replace(stamped, headers=(*stamped.headers[:-1], (b"__mirrorlake.source.offset", None))),
    ):
        assert samples_of(HERE.set_aside(columns_of([kept]))) == [kept]
    chained = samples_of(HERE.added_to(columns_of([upstream])))
    assert samples_of(HERE.set_aside(columns_of(chained))) == [upstream], "a copy of a copy keeps the first one's"


def test_a_cluster_whose_id_is_not_known_is_null() -> None:
    (sample,) = samples_of(NOWHERE.added_to(columns_of([Sample(3)])))
    assert sample.headers[0] == (b"__mirrorlake.source.cluster.id", None)


def stamped_batch(batch: Batch, path: Path) -> ClassifiedBatch:
    (found,) = HERE.stamped([ClassifiedBatch(batch=batch, path=path, reason="given")])
    return found


@given(samples=sample_lists(header_keys=any_keys), codec=st.sampled_from(Codec))
def test_a_batch_is_made_anew_at_its_offsets_in_its_compression(samples: list[Sample], codec: Codec) -> None:
    batch = only_batch(encode_batch(columns_of(samples), codec=codec, base_offset=samples[0].offset))
    before = bytes(batch.view)
    found = stamped_batch(batch, DENSE.path if batch.header.is_dense else COMPACTED.path)
    assert found.path == Path.RECORDS
    assert found.batch.header.codec == codec
    assert samples_of(decode_batches([found.batch])) == [with_headers(each) for each in samples]
    assert bytes(batch.view) == before, "another destination may be given the same"


def small_batches(count: int) -> list[ClassifiedBatch]:
    """Batches of a record each, every ninth of three with a hole, and every seventh the marker of a transaction."""
    items, offset = [], 5
    for number in range(count):
        offsets = [offset, offset + 1, offset + 5] if number % 9 == 0 else [offset]
        samples = [Sample(each, value=b"%d" % each, headers=((b"a", None),) * (number % 3)) for each in offsets]
        codec = list(Codec)[number % len(Codec)]
        batch = only_batch(encode_batch(columns_of(samples), codec=codec, base_offset=offset))
        found = CONTROL if number % 7 == 6 else DENSE
        items.append(ClassifiedBatch(batch=batch, path=found.path, reason=found.reason))
        offset = batch.header.next_offset + number % 2
    return items


def test_many_small_batches_become_what_each_becomes_alone() -> None:
    items = small_batches(60)
    broken = bytearray(items[20].batch.view)
    broken[-1] ^= 0xFF
    items[20] = items[20]._replace(batch=only_batch(broken))
    alone = [HERE.stamped([item])[0] for item in items]
    assert [(bytes(each.batch.view), each.path, each.reason) for each in HERE.stamped(items)] == [
        (bytes(each.batch.view), each.path, each.reason) for each in alone
    ]


def test_small_batches_are_taken_apart_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """One by one, those of one fetch answer took longer than a busy machine gives a lease."""
    calls = []

    def counted(batches: Sequence[Batch]) -> RecordColumns:
        calls.append(len(batches))
        return decode_batches(batches)

    monkeypatch.setattr(provenance, "decode_batches", counted)
    items = [item for item in small_batches(600) if item.path != Path.SKIP]
    HERE.stamped(items)
    assert sum(calls) == len(items)
    assert len(calls) < 5


@pytest.mark.parametrize("name", ["v0", "v1"])
def test_messages_of_old_formats_become_records_with_headers(name: str) -> None:
    for batch in batches_in(WRITTEN_BY_KAFKA[name]):
        records = samples_of(decode_batches([batch]))
        found = stamped_batch(batch, OLD_FORMAT.path)
        assert found.batch.header.magic == 2
        # Of a message without a time nobody says whose that is; a record of today has a producer's, which is none.
        expected = [replace(with_headers(each), timestamp_type=0) for each in records]
        assert samples_of(decode_batches([found.batch])) == expected


def test_what_has_no_records_for_consumers_is_left_as_it_is() -> None:
    batch = only_batch(encode_batch(columns_of([Sample(0)]), codec=Codec.NONE, base_offset=0))
    item = ClassifiedBatch(batch=batch, path=CONTROL.path, reason=CONTROL.reason)
    assert HERE.stamped([item]) == [item]


def test_a_batch_that_cannot_be_taken_apart_is_never_passed_on_as_it_is() -> None:
    whole = bytearray(encode_batch(columns_of([Sample(0)]), codec=Codec.NONE, base_offset=0))
    whole[-4] ^= 0xFF
    found = stamped_batch(only_batch(whole), DENSE.path)
    assert found.path == Path.RECORDS
    assert found.batch.view == whole
