"""What a route makes of a delivery at each of its topics: all of it is somewhere, once, or the delivery ends there."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.destinations.filtering import PartitionBranch, PartitionFilter, Selection, selected
from mirrorlake.destinations.interface import ClassifiedBatch
from mirrorlake.destinations.transform import Transform
from mirrorlake.errors import MirrorlakeError, RouteFailedError, SelectFailedError
from mirrorlake.filters.branch import Branch, parse_route
from mirrorlake.filters.parsing import parse_filter
from mirrorlake.kafka.records.batches import Codec
from mirrorlake.offsets import OffsetRange
from unit.destinations.test_filtering import delivery_of, item_of, offsets_of
from unit.destinations.test_selecting import SOURCE, projection, records_of
from unit.kafka.records.record_samples import Sample, columns_of, samples_of

TOPICS = ("a", "b")


def taking(topic: str, *, fallback: str = "", parks: bool = True) -> PartitionBranch:
    to = parse_route("CAST(value AS STRING)")
    return PartitionBranch(
        branch=Branch(to=to, topics=TOPICS, topic=topic, fallback=fallback, parks=parks), source=SOURCE
    )


def keeping(condition: str) -> PartitionFilter:
    return PartitionFilter(wanted=parse_filter(condition), partition=4)


@given(
    values=st.lists(st.sampled_from([b"a", b"b", b"c", None]), min_size=1, max_size=12),
    cuts=st.sets(st.integers(1, 11)),
    codec=st.sampled_from(Codec),
    step=st.integers(1, 3),
    fallback=st.sampled_from(["", "b"]),
)
def test_the_topics_of_a_route_have_every_record_once_and_each_calls_the_others_gaps(
    values: list[bytes | None], cuts: set[int], codec: Codec, step: int, fallback: str
) -> None:
    samples = [Sample(number * step, key=b"k", value=value) for number, value in enumerate(values)]
    bounds = [0, *sorted(cut for cut in cuts if cut < len(samples)), len(samples)]
    items = [item_of(samples[start:stop], codec) for start, stop in pairwise(bounds)]
    union: list[Sample] = []
    for topic in TOPICS:
        takes = taking(topic, fallback=fallback, parks=False)
        found = selected(delivery_of(items, end=len(samples) * step), Selection(takes=takes))
        own = records_of(found.delivery)
        assert found.error is None
        assert found.delivery.covered == OffsetRange(start_offset=0, end_offset=len(samples) * step)
        assert offsets_of(found.delivery) == [each.offset for each in samples if each not in own]
        assert samples_of(Transform(takes=takes).source_side(columns_of(samples))) == own
        union += own
    expected = [each for each in samples if each.value in (b"a", b"b") or fallback]
    assert sorted(union, key=lambda each: each.offset) == expected


def items_of(*batches: list[bytes | None]) -> list[ClassifiedBatch]:
    items, offset = [], 0
    for values in batches:
        items.append(item_of([Sample(offset + n, value=value) for n, value in enumerate(values)]))
        offset += len(values)
    return items


@pytest.mark.parametrize(("topic", "own"), [("a", [0, 2]), ("b", [1])])
def test_a_record_without_a_topic_ends_the_delivery_before_it_at_every_topic(topic: str, own: list[int]) -> None:
    items = items_of([b"a"], [b"b", b"a", b"c", b"a"])
    found = selected(delivery_of(items, end=5), Selection(takes=taking(topic)))
    assert isinstance(found.error, RouteFailedError)
    assert found.error.message == (
        "`route` names no topic for the record at offset 3 of source orders-4: it is `c`, which is not among "
        "`topics`; nothing from it on was copied"
    )
    assert "`otherwise`" in found.error.hint
    assert found.error.facts == {"topic": "orders", "partition": 4, "offset": 3}
    assert [each.offset for each in records_of(found.delivery)] == own
    assert found.delivery.covered.end_offset <= 3


@pytest.mark.parametrize(("position", "error"), [(1, RouteFailedError), (2, None)])
def test_records_before_the_position_are_not_asked_as_one_may_have_been_passed_over_by_hand(
    position: int, error: type[MirrorlakeError] | None
) -> None:
    items = items_of([b"a", b"c", b"a"])
    found = selected(delivery_of(items, end=3), Selection(takes=taking("a"), position=position))
    assert type(found.error) is (error or type(None))
    if error is None:
        assert [each.offset for each in records_of(found.delivery)] == [2]


def test_what_a_filter_leaves_out_is_not_asked_for_a_topic() -> None:
    items = items_of([b"a", b"c"], [b"c", None], [b"b", b"a"])
    keeps = keeping("CAST(value AS STRING) <> 'c'")
    found = selected(delivery_of(items, end=6), Selection(keeps=keeps, takes=taking("a")))
    assert found.error is None
    assert [each.offset for each in records_of(found.delivery)] == [0, 5]
    assert offsets_of(found.delivery) == [1, 2, 3, 4]
    assert samples_of(
        Transform(keeps=keeps, takes=taking("a")).source_side(
            columns_of([Sample(0, value=b"c"), Sample(1, value=b"a")])
        )
    ) == [Sample(1, value=b"a")]


def test_a_route_sees_records_as_the_source_has_them_and_select_changes_those_of_the_topic_alone() -> None:
    projects = projection(value="CASE WHEN value = 'a' THEN X'62' ELSE raise_error('of another topic') END")
    found = selected(delivery_of(items_of([b"a", b"b"]), end=2), Selection(takes=taking("a"), projects=projects))
    assert found.error is None
    assert [each.value for each in records_of(found.delivery)] == [b"b"]


@pytest.mark.parametrize(
    ("values", "error", "own"),
    [([b"a", b"A", b"c", b"a"], SelectFailedError, [0]), ([b"a", b"c", b"A"], RouteFailedError, [0])],
)
def test_the_first_record_that_fails_ends_the_delivery_for_whichever_reason(
    values: list[bytes | None], error: type[MirrorlakeError], own: list[int]
) -> None:
    to = parse_route("CASE value WHEN 'A' THEN 'a' ELSE CAST(value AS STRING) END")
    takes = PartitionBranch(branch=Branch(to=to, topics=TOPICS, topic="a"), source=SOURCE)
    projects = projection(value="CASE WHEN value = 'A' THEN raise_error('A') ELSE value END")
    found = selected(delivery_of(items_of(values), end=len(values)), Selection(takes=takes, projects=projects))
    assert type(found.error) is error
    assert [each.offset for each in records_of(found.delivery)] == own
