"""What a projection makes of a delivery: records as they are to be, batches that do not change as their bytes."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.destinations.filtering import (
    FILTERED_REASON,
    SELECTED_REASON,
    PartitionFilter,
    PartitionProjection,
    Selection,
    selected,
)
from mirrorlake.destinations.interface import Delivery
from mirrorlake.destinations.transform import Transform
from mirrorlake.errors import SelectFailedError
from mirrorlake.filters.parsing import parse_filter
from mirrorlake.filters.projection import Expression, Projection, parse_value
from mirrorlake.kafka.records.batches import Codec, Path
from mirrorlake.kafka.records.codec import decode_batches
from mirrorlake.offsets import OffsetRange, TopicPartition
from unit.destinations.test_filtering import delivery_of, item_of, offsets_of
from unit.kafka.records.record_samples import Sample, columns_of, samples_of

SOURCE = TopicPartition("orders", 4)


def projection(
    *, key: str = "", value: str = "", headers: dict[str, str] | None = None, dropped: tuple[str, ...] = ()
) -> PartitionProjection:
    def made(text: str) -> Expression | None:
        return parse_value(text) if text else None

    named = tuple((name, parse_value(text)) for name, text in (headers or {}).items())
    return PartitionProjection(
        wanted=Projection(key=made(key), value=made(value), headers=named, dropped=dropped), source=SOURCE
    )


def records_of(delivery: Delivery) -> list[Sample]:
    return samples_of(decode_batches([item.batch for item in delivery.batches if item.path != Path.SKIP]))


HEADERS = st.lists(
    st.tuples(st.sampled_from([b"a", b"b", b"c", b""]), st.none() | st.sampled_from([b"", b"1"])), max_size=5
)
RECORDS = st.lists(
    st.tuples(st.booleans(), st.none() | st.binary(max_size=3), st.none() | st.binary(max_size=3), HEADERS),
    min_size=1,
    max_size=12,
)


@given(given_=RECORDS, cuts=st.sets(st.integers(1, 11)), codec=st.sampled_from(Codec), step=st.integers(1, 3))
def test_every_record_is_as_it_should_be_and_those_left_out_are_gaps(
    given_: list[tuple[bool, bytes | None, bytes | None, list[tuple[bytes, bytes | None]]]],
    cuts: set[int],
    codec: Codec,
    step: int,
) -> None:
    samples = [
        Sample(number * step, key=key, value=b"keep" if keeps else value, headers=tuple(headers))
        for number, (keeps, key, value, headers) in enumerate(given_)
    ]
    bounds = [0, *sorted(cut for cut in cuts if cut < len(samples)), len(samples)]
    items = [item_of(samples[start:stop], codec) for start, stop in pairwise(bounds)]
    projects = projection(key="coalesce(key, X'00')", headers={"b": "value", "d": "NULL"}, dropped=("c",))
    keeps = PartitionFilter(wanted=parse_filter("value = 'keep'"), partition=4)

    found = selected(delivery_of(items, end=len(samples) * step), Selection(keeps=keeps, projects=projects))

    assert found.error is None
    expected = [
        replace(
            each,
            key=b"\0" if each.key is None else each.key,
            headers=(*(h for h in each.headers if h[0] not in (b"b", b"c", b"d")), (b"b", b"keep"), (b"d", None)),
        )
        for each in samples
        if each.value == b"keep"
    ]
    assert records_of(found.delivery) == expected
    assert offsets_of(found.delivery) == [each.offset for each in samples if each.value != b"keep"]
    source_side = Transform(keeps=keeps, projects=projects).source_side(columns_of(samples))
    assert samples_of(source_side) == expected


def test_a_batch_of_which_nothing_changes_stays_its_bytes_and_others_keep_codec_epoch_and_times() -> None:
    items = [item_of([Sample(0, key=b"a"), Sample(1, key=b"a")]), item_of([Sample(2, key=None)], Codec.LZ4)]
    found = selected(delivery_of(items, end=3), Selection(projects=projection(key="coalesce(key, X'00')"))).delivery
    assert found.batches[0] is items[0]
    assert (found.batches[1].path, found.batches[1].reason) == (Path.RECORDS, SELECTED_REASON)
    before, after = items[1].batch.header, found.batches[1].batch.header
    assert (after.codec, after.leader_epoch, after.max_timestamp) == (
        Codec.LZ4,
        before.leader_epoch,
        before.max_timestamp,
    )


def test_a_record_that_cannot_be_made_ends_the_delivery_before_it_and_the_error_names_it() -> None:
    digits = "CAST(CAST(CAST(value AS STRING) AS BIGINT) AS STRING)"
    items = [
        item_of([Sample(0, value=b"1")]),
        item_of([Sample(1, value=b"2"), Sample(2, value=b"x"), Sample(3, value=b"y")]),
    ]
    found = selected(delivery_of(items, end=4), Selection(projects=projection(headers={"n": digits})))
    assert isinstance(found.error, SelectFailedError)
    assert found.error.message == (
        "`select` has no header n for the record at offset 2 of source orders-4: a text is cast to BIGINT that is "
        "no such number; nothing from it on was copied"
    )
    assert "TRY_CAST" in found.error.hint
    assert found.error.facts == {"topic": "orders", "partition": 4, "offset": 2}
    assert found.delivery.covered == OffsetRange(start_offset=0, end_offset=2)
    assert [each.offset for each in records_of(found.delivery)] == [0, 1]


@pytest.mark.parametrize(("position", "is_made"), [(2, False), (3, True)])
def test_records_before_the_position_are_not_asked_as_one_may_have_been_passed_over_by_hand(
    position: int, is_made: bool
) -> None:
    projects = projection(value="CASE WHEN value = 'x' THEN raise_error('no x') ELSE value || X'6564' END")
    items = [item_of([Sample(1, value=b"a"), Sample(2, value=b"x"), Sample(3, value=b"b")])]
    found = selected(delivery_of(items, end=4), Selection(projects=projects, position=position))
    assert (found.error is None) is is_made
    assert [each.value for each in records_of(found.delivery)] == ([b"bed"] if is_made else [])
    assert offsets_of(found.delivery) == []


def test_what_is_left_out_is_not_asked_for_a_value() -> None:
    projects = projection(value="coalesce(value, raise_error('none'))")
    keeps = PartitionFilter(wanted=parse_filter("value IS NOT NULL"), partition=4)
    items = [item_of([Sample(0, value=None), Sample(1, value=b"a")]), item_of([Sample(2, value=None)])]
    found = selected(delivery_of(items, end=3), Selection(keeps=keeps, projects=projects))
    assert found.error is None
    assert [each.offset for each in records_of(found.delivery)] == [1]
    assert found.delivery.batches[1].reason == FILTERED_REASON


def test_a_comparison_may_set_what_a_projection_makes_aside() -> None:
    records = columns_of([Sample(0, value=b"a"), Sample(1, value=b"b", headers=((b"a", b"b"),))])
    transform = Transform(sets_content_aside=True)
    others = columns_of([Sample(0, key=b"x", value=None), Sample(1)])
    assert transform.source_side(records).equals(transform.copy_side(others))
    later = replace(others, timestamps=np.array([0, 1], np.int64))
    assert not transform.source_side(records).equals(transform.copy_side(later))
