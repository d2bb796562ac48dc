"""What is known of the largest batch a destination topic takes, and what a refusal changes of it. Pure."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.destinations.size_limit import SizeLimit, batch_bytes_max_of, refused
from mirrorlake.errors import PermissionDeniedError, RecordTooLargeError, SizeRefusedError
from mirrorlake.offsets import TopicPartition

WHERE = TopicPartition("orders", 3)
TOO_LARGE, LIST_TOO_LARGE, DENIED = 10, 18, 29


def refusal(bytes_sent: int, records: int, *, code: int = TOO_LARGE) -> SizeRefusedError:
    error = refused(code, what=" to destination orders-3", where=WHERE, bytes_sent=bytes_sent, records=records, said="")
    assert isinstance(error, SizeRefusedError)
    return error


@pytest.mark.parametrize("code", [TOO_LARGE, LIST_TOO_LARGE])
def test_a_refusal_for_the_size_tells_it(code: int) -> None:
    error = refusal(5000, 50, code=code)
    assert error.message.startswith("append of 5000 bytes (50 records) to destination orders-3 was answered with ")
    assert (error.facts["bytes"], error.facts["records"], error.facts["code"]) == (5000, 50, code)


def test_any_other_refusal_is_what_it_is() -> None:
    error = refused(DENIED, what=" to orders-3", where=WHERE, bytes_sent=1, records=1, said="no")
    assert isinstance(error, PermissionDeniedError)
    assert SizeLimit.of(1000).after(error, WHERE) == SizeLimit.of(1000)


def test_a_refusal_elsewhere_says_nothing_of_this_topic() -> None:
    assert SizeLimit.of(1000).after(refusal(900, 5), TopicPartition("orders", 4)) == SizeLimit.of(1000)


def test_a_limit_that_was_lowered_is_what_batches_are_split_by() -> None:
    assert SizeLimit.of(1000).after(refusal(900, 5), WHERE).read_again(300) == SizeLimit.of(300)


def test_a_batch_that_grew_at_the_brokers_is_halved_and_a_single_record_may_still_be_as_large_as_before() -> None:
    limit = SizeLimit.of(1000).after(refusal(900, 5), WHERE).read_again(1000)
    assert (limit.split_bytes, limit.bytes_max) == (450, 1000)
    assert limit.refusal is None


def test_a_single_record_refused_twice_below_the_limit_read_again_stops_with_both_sizes() -> None:
    doubted = SizeLimit.of(1000).after(refusal(900, 1), WHERE).read_again(1000)
    assert doubted == replace(SizeLimit.of(1000), is_doubted=True), "the limit may just have been raised: once more"
    with pytest.raises(RecordTooLargeError, match=r"of 900 bytes .* its limit, read again, is 1000 bytes") as caught:
        doubted.after(refusal(900, 1), WHERE).read_again(1000)
    assert (caught.value.facts["bytes"], caught.value.facts["limit"]) == (900, 1000)


def test_a_limit_that_was_changed_since_is_tried_once_more() -> None:
    doubted = SizeLimit.of(1000).after(refusal(900, 1), WHERE).read_again(1000)
    assert doubted.after(refusal(900, 1), WHERE).read_again(2000).is_doubted
    assert doubted.read_again(1000) == doubted
    assert doubted.read_again(2000) == SizeLimit(bytes_max=2000, split_bytes=1000)


def test_a_record_above_the_limit_read_again_is_left_to_the_route_which_names_its_offset() -> None:
    assert SizeLimit.of(1000).after(refusal(900, 1), WHERE).read_again(300) == SizeLimit.of(300)


@given(st.integers(100, 10_000_000), st.lists(st.integers(100, 10_000_000), min_size=60, max_size=60))
def test_whatever_is_read_again_refusals_make_batches_smaller_until_none_of_several_records_is_left(
    first: int, found: list[int]
) -> None:
    """A broker that refuses everything, whatever it says of its limit."""
    limit = SizeLimit.of(first)
    for each in found:
        size = limit.split_bytes
        limit = limit.after(refusal(size, 2), WHERE).read_again(each)
        assert limit.split_bytes < size or size == 1
    assert limit.split_bytes <= 1


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ({}, 1_048_588),
        ({"max.message.bytes": "5000"}, 5000),
        ({"max.message.bytes": "5000", "segment.bytes": "4000"}, 4000),
        ({"max.message.bytes": None, "segment.bytes": None}, 1_048_588),
    ],
)
def test_the_largest_batch_of_a_topic_is_the_smaller_of_two_settings(
    configs: dict[str, str | None], expected: int
) -> None:
    assert batch_bytes_max_of(configs) == expected
