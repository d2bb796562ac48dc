"""How limits are shared among lanes and leases."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.service.pacing import Pacing


def pacing(limits: dict[str, int]) -> Pacing:
    return Pacing(lambda: limits)


def test_each_lane_has_an_equal_share_and_begins_without_a_debt() -> None:
    order = pacing({"m": 100}).order("m", 0, lanes=4, now_seconds=7.0)
    assert (order.bytes_per_second, order.debt_bytes) == (25, 0)


@pytest.mark.parametrize(
    ("read_bytes", "seconds", "debt"),
    [(1000, 10.0, 0.0), (1500, 10.0, 500.0), (0, 10.0, 0.0), (500, 0.0, 500.0)],
)
def test_what_a_lease_read_above_its_share_is_the_next_ones_debt(read_bytes: int, seconds: float, debt: float) -> None:
    found = pacing({"m": 100})
    order = found.order("m", 0, lanes=1, now_seconds=0.0)
    found.live_ended("m", 0, order, read_bytes=read_bytes, began=0.0, now=seconds)
    assert found.order("m", 0, lanes=1, now_seconds=seconds).debt_bytes == debt
    assert found.order("m", 0, lanes=1, now_seconds=seconds + 2).debt_bytes == max(0.0, debt - 200)
    assert found.order("m", 1, lanes=1, now_seconds=seconds).debt_bytes == 0, "of another lane"
    assert not found.holds_back("m", now_seconds=seconds), "live copies hold no segment back"


def test_a_debt_stays_through_leases_that_read_nothing() -> None:
    found = pacing({"m": 100})
    for began, now, read_bytes in ((0.0, 10.0, 8000), (10.0, 30.0, 0)):
        order = found.order("m", 0, lanes=1, now_seconds=began)
        found.live_ended("m", 0, order, read_bytes=read_bytes, began=began, now=now)
    assert found.order("m", 0, lanes=1, now_seconds=30.0).debt_bytes == 5000


def test_time_before_a_lease_read_anything_is_no_credit() -> None:
    found = pacing({"m": 100})
    order = found.order("m", 0, lanes=1, now_seconds=0.0)
    # Nothing was there for eight of its ten seconds, then 3000 bytes at once.
    found.live_ended("m", 0, order, read_bytes=3000, debt_bytes=2800.0, began=0.0, now=10.0)
    assert found.order("m", 0, lanes=1, now_seconds=10.0).debt_bytes == 2800
    assert found.order("m", 0, lanes=1, now_seconds=30.0).debt_bytes == 800


def test_what_segments_owe_is_in_what_a_lease_owes_and_counts_once() -> None:
    found = pacing({"m": 100})
    found.cut("m", read_bytes=4000, began=0.0, now=0.0)
    order = found.order("m", 0, lanes=2, now_seconds=0.0)
    assert order.debt_bytes == 2000
    found.live_ended("m", 0, order, read_bytes=700, debt_bytes=2200.0, began=0.0, now=10.0)
    # 3000 of the segment are left, half of them this lane's: 1500 of 2200.
    assert found.order("m", 0, lanes=2, now_seconds=10.0).debt_bytes == 2200


def test_a_segment_is_paid_for_before_the_next_one_and_before_live_copies_read_on() -> None:
    found = pacing({"m": 100, "n": 100})
    found.cut("m", read_bytes=2000, began=0.0, now=5.0)
    assert found.holds_back("m", now_seconds=19.9)
    assert not found.holds_back("m", now_seconds=20.0)
    assert not found.holds_back("n", now_seconds=5.0)
    order = found.order("m", 1, lanes=2, now_seconds=10.0)
    assert (order.bytes_per_second, order.debt_bytes) == (50, 500), "ten seconds of it, as for a segment"


def test_time_in_which_two_segments_were_cut_side_by_side_is_credited_once() -> None:
    found = pacing({"m": 100})
    found.cut("m", read_bytes=1000, began=0.0, now=10.0)
    found.cut("m", read_bytes=1000, began=0.0, now=10.0)
    assert found.holds_back("m", now_seconds=19.9)
    assert not found.holds_back("m", now_seconds=20.0)


def test_a_limit_that_is_changed_or_taken_away_holds_from_the_next_lease_on() -> None:
    limits = {"m": 100, "n": 5}
    found = pacing(limits)
    order = found.order("m", 0, lanes=1, now_seconds=0.0)
    found.live_ended("m", 0, order, read_bytes=2000, began=0.0, now=10.0)
    limits["m"] = 1000
    raised = found.order("m", 0, lanes=1, now_seconds=10.5)
    assert (raised.bytes_per_second, raised.debt_bytes) == (1000, 500)
    del limits["m"]
    assert found.limited == {"n"}
    found.cut("m", read_bytes=2000, began=10.0, now=11.0)


@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.integers(0, 30), st.integers(1, 3000), st.booleans()), min_size=1, max_size=30
    )
)
def test_segments_cut_one_after_another_or_together_keep_to_the_limit(
    cuts: list[tuple[int, int, int, bool]],
) -> None:
    found, limit = pacing({"m": 100}), 100
    now, read, first = 0.0, 0, 0.0
    for wait, took, read_bytes, is_together in cuts:
        now += wait
        if found.holds_back("m", now_seconds=now):
            continue
        read += read_bytes
        found.cut("m", read_bytes=read_bytes, began=now, now=now + took)
        if is_together:
            read += read_bytes
            found.cut("m", read_bytes=read_bytes, began=now, now=now + took)
        now += took
        # What is not paid for yet is a debt; all else was paid for by time, or is a segment that was begun before.
        left = found.order("m", 0, lanes=1, now_seconds=now).debt_bytes
        assert read <= limit * (now - first) + left + 1e-6
