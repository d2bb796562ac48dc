"""What is called equal at a glance is what the tail check calls equal; what is not so plain is left to it."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.destinations.tail import Tail
from mirrorlake.destinations.tail_check import first_difference
from mirrorlake.errors import CorruptBatchError
from mirrorlake.kafka.records.batches import Codec
from mirrorlake.kafka.records.codec import decode_batches, encode_batch
from mirrorlake.kafka.wire.fetch import AbortedTransaction, FetchedPartition
from mirrorlake.kinds.equal_tails import holds_the_same
from mirrorlake.offsets import OffsetRange
from unit.kafka.records.record_samples import Sample, batches_in, columns_of
from unit.kafka.records.written_by_kafka import WRITTEN_BY_KAFKA

values = st.lists(st.none() | st.binary(max_size=6), min_size=1, max_size=12)
cuts = st.lists(st.integers(1, 11), max_size=4)


def samples(held: list[bytes | None], *, base_offset: int = 100) -> list[Sample]:
    return [Sample(base_offset + at, 1000 + at, b"key", value) for at, value in enumerate(held)]


def written(records: list[Sample], cuts: list[int] = []) -> bytes:  # noqa: B006
    """Records in batches that end at the cuts."""
    bounds = [0, *sorted({cut for cut in cuts if cut < len(records)}), len(records)]
    return b"".join(
        bytes(encode_batch(columns_of(records[start:end]), codec=Codec.NONE, base_offset=records[start].offset))
        for start, end in itertools.pairwise(bounds)
    )


def fetched(records: bytes, *aborted: AbortedTransaction) -> FetchedPartition:
    return FetchedPartition("t", 0, 0, 200, 200, 0, aborted, memoryview(records))


def tail(records: bytes, span: OffsetRange) -> Tail:
    return Tail(records=decode_batches(batches_in(records), start_offset=span.start_offset, end_offset=span.end_offset))


@given(values, values, cuts, cuts, st.integers(0, 11), st.integers(0, 11))
def test_equal_at_a_glance_is_equal_to_the_tail_check(
    one: list[bytes | None], other: list[bytes | None], first: list[int], second: list[int], start: int, end: int
) -> None:
    source, copy = written(samples(one), first), written(samples(other), second)
    span = OffsetRange(start_offset=100 + min(start, end), end_offset=101 + max(start, end))
    if holds_the_same(fetched(source), fetched(copy), span):
        assert first_difference(tail(source, span), tail(copy, span)) is None
        assert len(tail(source, span).records) == len(span)


@given(values, cuts, cuts)
def test_the_same_records_are_equal_however_their_batches_are_cut(
    held: list[bytes | None], first: list[int], second: list[int]
) -> None:
    source, copy = written(samples(held), first), written(samples(held), second)
    span = OffsetRange(start_offset=100, end_offset=100 + len(held))
    assert holds_the_same(fetched(source), fetched(copy), span)


def test_one_byte_is_a_difference() -> None:
    span = OffsetRange(start_offset=100, end_offset=102)
    source, copy = written(samples([b"a", b"b"])), written(samples([b"a", b"c"]))
    assert not holds_the_same(fetched(source), fetched(copy), span)


def test_null_is_no_empty_value() -> None:
    span = OffsetRange(start_offset=100, end_offset=101)
    assert not holds_the_same(fetched(written(samples([None]))), fetched(written(samples([b""]))), span)


def test_a_side_that_does_not_reach_the_end_is_left_to_the_tail_check() -> None:
    held = written(samples([b"a", b"b"]))
    span = OffsetRange(start_offset=100, end_offset=103)
    assert not holds_the_same(fetched(held), fetched(held), span)
    assert not holds_the_same(fetched(b""), fetched(b""), span)


def test_a_batch_that_is_cut_is_left_to_the_tail_check() -> None:
    held = written(samples([b"a", b"b"]))
    span = OffsetRange(start_offset=100, end_offset=102)
    assert holds_the_same(fetched(held), fetched(held), span)
    assert not holds_the_same(fetched(held[:-1]), fetched(held[:-1]), span)


def test_what_was_aborted_is_left_to_the_tail_check() -> None:
    held = written(samples([b"a"]))
    span = OffsetRange(start_offset=100, end_offset=101)
    aborted = AbortedTransaction(producer_id=7, first_offset=100)
    assert not holds_the_same(fetched(held, aborted), fetched(held), span)
    assert not holds_the_same(fetched(held), fetched(held, aborted), span)


@pytest.mark.parametrize("name", sorted(WRITTEN_BY_KAFKA))
def test_what_kafka_wrote_is_equal_to_itself_or_left_to_the_tail_check(name: str) -> None:
    held = bytes(WRITTEN_BY_KAFKA[name])
    batches = batches_in(held)
    end = batches[-1].header.next_offset
    span = OffsetRange(start_offset=batches[0].header.base_offset, end_offset=end)
    is_plain = all(b.header.magic == 2 and not b.header.is_control and b.header.record_count for b in batches)
    assert holds_the_same(fetched(held), fetched(held), span) is is_plain


def test_a_batch_that_does_not_match_its_checksum_is_never_equal() -> None:
    held = bytearray(written(samples([b"abc"])))
    held[-2] ^= 1
    span = OffsetRange(start_offset=100, end_offset=101)
    with pytest.raises(CorruptBatchError):
        holds_the_same(fetched(bytes(held)), fetched(bytes(held)), span)
