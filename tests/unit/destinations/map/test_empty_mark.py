"""From where on a copy has found no record: what its progress record says of it, and what is concluded from none."""

from collections.abc import Sequence

import pytest

from mirrorlake.destinations.interface import Progress
from mirrorlake.destinations.letters.dead_letters import Letters
from mirrorlake.destinations.map.marks.empty_mark import decode_empty_mark, encode_empty_mark
from mirrorlake.destinations.map.transaction_participants import MapAppend, Participant
from mirrorlake.destinations.transactions.own_records import columns_of
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.records.batches import walk
from mirrorlake.offsets import OffsetRange
from support.map_participants import new_participant
from support.records import build_batch, simple_records

BYTES = bytes.fromhex("01000000000000012c")


def test_a_mark_has_these_bytes_and_is_read_from_them_among_other_headers() -> None:
    assert encode_empty_mark(300) == BYTES
    columns = columns_of([(b"k", b"v"), (b"l", b"w")], 5, headers=[[(b"x", None), (b"empty-from", BYTES)], []])
    assert [decode_empty_mark(each) for each in columns.headers.to_pylist()] == [300, None]


def test_a_copy_that_ends_with_a_record_writes_none() -> None:
    assert encode_empty_mark(None) is None


@pytest.mark.parametrize("value", [None, b"", b"\x01", b"\x02" + BYTES[1:], BYTES + b"\x00", b"\x01" + b"\xff" * 8])
def test_a_mark_that_is_not_understood_says_nothing(value: bytes | None) -> None:
    assert decode_empty_mark([{"key": b"empty-from", "value": value}]) is None


class Sink:
    """A member that is told nothing in these tests."""

    progress = Progress()

    def let_go(self, append: MapAppend) -> None:
        raise AssertionError(append)

    def committed(self, position: int, appends: list[MapAppend], letters: Sequence[Letters]) -> None:
        raise AssertionError(position, appends, letters)

    def shard_failed(self, error: MirrorlakeError) -> None:
        raise error


def take(held: Participant, start: int, end: int) -> None:
    """Queues a batch of the records of [start, end), as a sink does."""
    (batch,) = walk(memoryview(bytearray(build_batch(simple_records(end - start)))))
    append = MapAppend(
        header=batch.header,
        data=batch.view,
        size_bytes=len(batch.view),
        expected_offset=-1,
        end_offset=end,
        records=end - start,
        reason="",
        max_timestamp_ms=0,
        frame=None,
        participant=held,
        start_offset=start,
        runs=(OffsetRange(start_offset=start, end_offset=end),),
        leader_epoch=0,
        empty_from=held.empty_from,
    )
    held.pending.append(append)
    held.taken_end = held.empty_from = end


def said(held: Participant) -> tuple[int, int | None]:
    progress, _ = held.written()
    return progress.position, progress.empty_from


def test_a_commit_says_what_was_empty_before_the_first_batch_that_it_leaves_for_the_next() -> None:
    held = new_participant(Sink())
    take(held, 0, 10)
    take(held, 15, 20)  # nothing at 10 to 14
    held.taken_end = 23  # nor at 20 to 22
    assert said(held) == (0, None)
    held.pending.popleft()
    assert said(held) == (15, 10)
    held.pending.popleft()
    assert said(held) == (23, 20)


def test_a_commit_right_behind_a_record_says_nothing() -> None:
    held = new_participant(Sink())
    take(held, 5, 10)
    held.pending.popleft()
    assert said(held) == (10, None)
