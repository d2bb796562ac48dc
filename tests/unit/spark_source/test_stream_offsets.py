"""Offsets of a stream: there and back through Spark's checkpoint, and how far a micro-batch goes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.errors import ConfigurationError, SourceTruncatedError, TopicRecreatedError
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.spark_source.stream_offsets import (
    BatchEnd,
    batch_after,
    check_same_topics,
    decoded,
    encoded,
    first_position,
    gone_partitions,
    next_end,
    partitions_gone,
    ranges_between,
)

KEYS = st.builds(TopicPartition, st.sampled_from(["orders", "audit.log"]), st.integers(0, 3))
POSITIONS = st.dictionaries(KEYS, st.integers(0, 1000), max_size=6)
HELD = st.dictionaries(KEYS, st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=6)
ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


def begins_now(**_: object) -> dict[TopicPartition, int]:
    raise AssertionError("the source was asked")


@given(POSITIONS, POSITIONS)
def test_offsets_come_back_from_a_checkpoint(
    positions: dict[TopicPartition, int], starts: dict[TopicPartition, int]
) -> None:
    ids = {"orders": "id-1"} if any(key.topic == "orders" for key in positions) else {}
    known = {key: start for key, start in starts.items() if key.topic in {each.topic for each in positions}}
    end = BatchEnd(positions=positions, topic_ids=ids, starts=known)

    assert decoded(json.loads(json.dumps(encoded(end)))) == end


def test_they_look_as_those_of_sparks_own_kafka_source() -> None:
    assert encoded(BatchEnd(positions={ONE: 7, ZERO: 12})) == {"orders": {"0": 12, "1": 7}}
    assert encoded(BatchEnd(positions={ONE: 7, ZERO: 12}, topic_ids={"orders": "a"}, starts={ONE: 3})) == {
        "orders": {"0": 12, "1": 7, "topic-id": "a", "starts": {"1": 3}}
    }


@pytest.mark.parametrize("value", [1, {"a": 1}, {"0": "7"}, {"0": {"1": 2}}, {"starts": 1}, {"starts": {"a": 1}}])
def test_those_of_another_source_are_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="another kind of source"):
        decoded({"sourceVersion": value})


def test_a_topic_made_anew_is_refused_and_one_without_an_id_is_not() -> None:
    check_same_topics({"orders": "a"}, {"orders": ""})
    check_same_topics({"orders": "a"}, {"audit": "b"})
    with pytest.raises(TopicRecreatedError, match="its id was a, and is b"):
        check_same_topics({"orders": "a"}, {"orders": "b"})


def test_an_id_outlives_a_moment_in_which_nobody_says_it() -> None:
    end = batch_after(BatchEnd(positions={ZERO: 1}, topic_ids={"orders": "a"}), {ZERO: 2}, {}, {"orders": ""})

    assert end.topic_ids == {"orders": "a"}


@given(POSITIONS, POSITIONS, POSITIONS, st.one_of(st.none(), st.integers(1, 500)))
def test_a_batch_never_goes_back_nor_past_the_end_and_something_waiting_is_taken(
    start: dict[TopicPartition, int],
    latest: dict[TopicPartition, int],
    starts: dict[TopicPartition, int],
    most: int | None,
) -> None:
    end = next_end(start, latest, starts, offsets_max=most)

    begin = {each: start.get(each, starts.get(each, 0)) for each in end}
    assert end.keys() == {*start, *latest}
    assert all(begin[each] <= end[each] <= max(begin[each], latest.get(each, 0)) for each in end)
    taken = sum(end[each] - begin[each] for each in end)
    waiting = sum(max(0, latest.get(each, 0) - begin[each]) for each in end)
    if most is None or waiting <= most:
        assert taken == waiting
    else:
        assert most <= taken < most + len(end) + 1
        assert all(end[each] > begin[each] for each in end if latest.get(each, 0) > begin[each])


@given(HELD, st.lists(HELD, min_size=1, max_size=5), POSITIONS)
def test_each_offset_is_in_one_batch_which_is_the_same_whenever_it_is_asked_for(
    at_first: dict[TopicPartition, tuple[int, int]],
    looks: list[dict[TopicPartition, tuple[int, int]]],
    anew: dict[TopicPartition, int],
) -> None:
    """Partitions come and grow; what a query without a checkpoint would begin at meanwhile is of no account."""
    first = first_position({key: start for key, (start, _) in at_first.items()}, {})
    expected_starts = dict(first.positions)
    latest: dict[TopicPartition, int] = {}
    read: dict[TopicPartition, list[int]] = {}
    start = decoded(encoded(first))
    for number, look in enumerate([at_first, *looks]):
        for key, (begin, more) in look.items():
            expected_starts.setdefault(key, begin)
            latest[key] = max(latest.get(key, 0), expected_starts[key]) + more
        begins = {key: begin + 1000 * number for key, (begin, _) in look.items()} | {
            key: expected_starts[key] for key in latest if key not in start.positions
        }
        end = decoded(
            encoded(batch_after(start, next_end(start.positions, latest, begins, offsets_max=40), begins, {}))
        )
        ranges = ranges_between(start, end, begins=begins_now)
        if number == 0:
            # After a crash Spark asks anew where the query begins, while the batch's end is in the checkpoint.
            assert ranges_between(first_position(anew, {}), end, begins=begins_now) == ranges
        for key, offsets in ranges.items():
            read.setdefault(key, []).extend(range(offsets.start_offset, offsets.end_offset))
        start = end
    assert read == {
        key: list(range(expected_starts[key], position))
        for key, position in start.positions.items()
        if position > expected_starts[key]
    }


def test_a_batch_without_news_says_the_same_as_the_one_before_or_spark_would_run_it() -> None:
    start = BatchEnd(positions={ZERO: 12, ONE: 7}, topic_ids={"orders": "a"}, starts={ONE: 3})

    assert batch_after(start, {ZERO: 12, ONE: 7}, {}, {"orders": "a"}) == start
    assert batch_after(start, {ZERO: 13, ONE: 7}, {}, {"orders": "a"}).starts == {}


def test_a_partition_that_came_since_begins_where_the_checkpoint_says_and_not_where_it_begins_now() -> None:
    start = BatchEnd(positions={ZERO: 12})
    end = batch_after(start, {ZERO: 12, ONE: 30}, {ONE: 5}, {})

    assert ranges_between(start, end, begins=begins_now) == {ONE: OffsetRange(start_offset=5, end_offset=30)}


@pytest.mark.parametrize(
    "start", [BatchEnd(positions={ZERO: 12}), first_position({ZERO: 12, ONE: 20}, {})], ids=["came", "first batch"]
)
def test_a_checkpoint_of_an_earlier_version_is_read_unless_it_does_not_say_what_a_batch_held(start: BatchEnd) -> None:
    assert ranges_between(
        BatchEnd(positions={ZERO: 12}), decoded({"orders": {"0": 15, "1": 30}}), begins=lambda: {ONE: 0}
    ) == {ZERO: OffsetRange(start_offset=12, end_offset=15), ONE: OffsetRange(start_offset=0, end_offset=30)}

    with pytest.raises(SourceTruncatedError, match="orders-1, which begins at offset 20 now"):
        ranges_between(start, BatchEnd(positions={ZERO: 0, ONE: 30}), begins=lambda: {ONE: 20})


def test_what_is_gone_is_told_unless_nobody_wants_it_any_more() -> None:
    before = {ZERO: 12, ONE: 0, TopicPartition("audit", 0): 3}

    assert gone_partitions(before, {ZERO}, lambda topic: topic == "orders") == [ONE]
    assert gone_partitions(before, before.keys(), lambda _topic: True) == []
    error = partitions_gone([ONE, ZERO], before)
    assert error.message.startswith("orders-0, of which the query has read up to offset 12, is gone, and 1 more")
