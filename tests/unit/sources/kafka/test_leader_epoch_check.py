"""Whether a source's log below a position is the one that was copied: leader epochs, no broker."""

import pytest

from mirrorlake.kafka.control.descriptions import LogEnd
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.kafka.leader_epoch_check import divergence, read_on
from mirrorlake.sources.mark import SourceMark

ORDERS = TopicPartition("orders", 0)
MARK = SourceMark(epoch=3, offset=100, leader_epoch=3)


def test_reading_moves_a_mark_on() -> None:
    assert read_on(None, epoch=2, offset=10, leader_epoch=4) == SourceMark(epoch=2, offset=10, leader_epoch=4)
    assert read_on(MARK, epoch=4, offset=120, leader_epoch=5) == SourceMark(epoch=4, offset=120, leader_epoch=5)


def test_reading_nothing_keeps_what_was_proven_under_the_new_leader() -> None:
    assert read_on(MARK, epoch=-1, offset=100, leader_epoch=5) == SourceMark(epoch=3, offset=100, leader_epoch=5)
    assert read_on(None, epoch=-1, offset=100, leader_epoch=5) is None


def test_reading_again_from_further_back_takes_nothing_from_a_mark() -> None:
    assert read_on(MARK, epoch=2, offset=50, leader_epoch=3) == MARK


@pytest.mark.parametrize(
    ("end", "position"),
    [
        (LogEnd(leader_epoch=3, end_offset=100), 100),  # the next leader begins exactly there
        (LogEnd(leader_epoch=3, end_offset=500), 100),  # the same epoch has grown
        (LogEnd(leader_epoch=2, end_offset=60), 60),  # what was cut off had not been copied yet
        (LogEnd(leader_epoch=2, end_offset=100), 400),  # what lies past the mark is not the mark's to judge
        (LogEnd(leader_epoch=-1, end_offset=-1), 100),  # the leader does not know
    ],
)
def test_a_log_that_holds_all_that_was_copied_of_it_is_gone_on_with(end: LogEnd, position: int) -> None:
    assert divergence(ORDERS, MARK, end, position, destination="west") is None


@pytest.mark.parametrize(("position", "copied"), [(100, 100), (400, 100), (80, 80)])
def test_a_log_that_was_cut_below_what_was_copied_is_named_with_both_offsets(position: int, copied: int) -> None:
    error = divergence(ORDERS, MARK, LogEnd(leader_epoch=2, end_offset=60), position, destination="west")
    assert error is not None
    assert (error.facts["position"], error.facts["source_end"], error.facts["leader_epoch"]) == (copied, 60, 3)
    assert f"its offsets 60…{copied - 1} are of a log that was lost" in error.message
    assert "orders-0" in error.message
    assert "west" in error.message
