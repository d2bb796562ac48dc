"""How limits are shared among lanes and leases."""

from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.mirror.pace import PaceOrder
from mirrorlake.service.pacing import Pacing


def pacing(limits: dict[str, int]) -> Pacing:
    return Pacing(lambda: limits)


def order_of(found: Pacing, lane: int, *, lanes: int, now_seconds: float) -> PaceOrder:
    """What a lease is told of the mirror m."""
    return found.orders({"m"}, lane, lanes_of=lambda _: lanes, now_seconds=now_seconds)["m"]


def holds_back(found: Pacing, mirror: str, now_seconds: float) -> bool:
    return mirror in found.held_back(now_seconds=now_seconds)


def test_each_lane_has_an_equal_share_and_begins_without_a_debt() -> None:
    order = order_of(pacing({"m": 100}), 0, lanes=4, now_seconds=7.0)
    assert (order.bytes_per_second, order.debt_bytes) == (25, 0)


@pytest.mark.parametrize(
    ("read_bytes", "seconds", "debt"),
    [(1000, 10.0, 0.0), (1500, 10.0, 500.0), (0, 10.0, 0.0), (500, 0.0, 500.0)],
)
def test_what_a_lease_read_above_its_share_is_the_next_ones_debt(read_bytes: int, seconds: float, debt: float) -> None:
    found = pacing({"m": 100})
    order = order_of(found, 0, lanes=1, now_seconds=0.0)
    found.live_ended("m", 0, order, read_bytes=read_bytes, began=0.0, now=seconds)
    assert order_of(found, 0, lanes=1, now_seconds=seconds).debt_bytes == debt
    assert order_of(found, 0, lanes=1, now_seconds=seconds + 2).debt_bytes == max(0.0, debt - 200)
    assert order_of(found, 1, lanes=1, now_seconds=seconds).debt_bytes == 0, "of another lane"
    assert not holds_back(found, "m", seconds), "live copies hold no segment back"


def test_a_debt_stays_through_leases_that_read_nothing() -> None:
    found = pacing({"m": 100})
    for began, now, read_bytes in ((0.0, 10.0, 8000), (10.0, 30.0, 0)):
        order = order_of(found, 0, lanes=1, now_seconds=began)
        found.live_ended("m", 0, order, read_bytes=read_bytes, began=began, now=now)
    assert order_of(found, 0, lanes=1, now_seconds=30.0).debt_bytes == 5000


def test_time_before_a_lease_read_anything_is_no_credit() -> None:
    found = pacing({"m": 100})
    order = order_of(found, 0, lanes=1, now_seconds=0.0)
    # Nothing was there for eight of its ten seconds, then 3000 bytes at once.
    found.live_ended("m", 0, order, read_bytes=3000, debt_bytes=2800.0, began=0.0, now=10.0)
    assert order_of(found, 0, lanes=1, now_seconds=10.0).debt_bytes == 2800
    assert order_of(found, 0, lanes=1, now_seconds=30.0).debt_bytes == 800


def test_what_segments_owe_is_in_what_a_lease_owes_and_counts_once() -> None:
    found = pacing({"m": 100})
    found.cut("m", lanes=frozenset({0, 1}), read_bytes=4000, began=0.0, now=0.0)
    order = order_of(found, 0, lanes=2, now_seconds=0.0)
    assert order.debt_bytes == 2000
    found.live_ended("m", 0, order, read_bytes=700, debt_bytes=2200.0, began=0.0, now=10.0)
    # 3000 of the segment are left, half of them this lane's: 1500 of 2200.
    assert order_of(found, 0, lanes=2, now_seconds=10.0).debt_bytes == 2200


def test_a_segment_is_paid_for_before_the_next_one_and_before_live_copies_read_on() -> None:
    found = pacing({"m": 100, "n": 100})
    found.cut("m", lanes=frozenset({0, 1}), read_bytes=2000, began=0.0, now=5.0)
    assert holds_back(found, "m", 24.9), "what live copies may have read by then is theirs"
    assert not holds_back(found, "m", 25.0)
    assert not holds_back(found, "n", 5.0)
    order = order_of(found, 1, lanes=2, now_seconds=10.0)
    assert (order.bytes_per_second, order.debt_bytes) == (50, 750)


def test_time_in_which_two_segments_were_cut_side_by_side_is_credited_once() -> None:
    found = pacing({"m": 100})
    found.cut("m", lanes=frozenset(), read_bytes=1000, began=0.0, now=10.0)
    found.cut("m", lanes=frozenset(), read_bytes=1000, began=0.0, now=10.0)
    assert holds_back(found, "m", 19.9)
    assert not holds_back(found, "m", 20.0)


def test_a_limit_that_is_changed_or_taken_away_holds_from_the_next_lease_on() -> None:
    limits = {"m": 100, "n": 5}
    found = pacing(limits)
    order = order_of(found, 0, lanes=1, now_seconds=0.0)
    found.live_ended("m", 0, order, read_bytes=2000, began=0.0, now=10.0)
    limits["m"] = 1000
    raised = order_of(found, 0, lanes=1, now_seconds=10.5)
    assert (raised.bytes_per_second, raised.debt_bytes) == (1000, 500)
    del limits["m"]
    assert found.limited == {"n"}
    found.cut("m", lanes=frozenset({0}), read_bytes=2000, began=10.0, now=11.0)
    limits["m"] = 100
    assert not holds_back(found, "m", 11.0)


def test_limits_are_looked_at_once_whatever_the_number_of_mirrors_as_they_may_be_taken_away_meanwhile() -> None:
    limits, looked = {f"m{number}": 100 for number in range(30)}, 0

    def look() -> dict[str, int]:
        nonlocal looked
        looked += 1
        return limits if looked % 2 else {}

    found = Pacing(look)
    for mirror in limits:
        looked = 0
        found.cut(mirror, lanes=frozenset(), read_bytes=2000, began=0.0, now=0.0)
    looked = 0
    assert found.held_back(now_seconds=0.0) == limits.keys()
    assert looked == 1
    assert found.held_back(now_seconds=0.0) == frozenset()
    orders = found.orders({"m1", "m2", "without"}, 0, lanes_of=lambda _: 1, now_seconds=0.0)
    assert orders.keys() == {"m1", "m2"}
    assert looked == 3
    assert found.orders({"m1", "m2"}, 0, lanes_of=lambda _: 1, now_seconds=0.0) == {}


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
        if holds_back(found, "m", now):
            continue
        read += read_bytes
        found.cut("m", lanes=frozenset(), read_bytes=read_bytes, began=now, now=now + took)
        if is_together:
            read += read_bytes
            found.cut("m", lanes=frozenset(), read_bytes=read_bytes, began=now, now=now + took)
        now += took
        # What is not paid for yet is a debt; all else was paid for by time, or is a segment that was begun before.
        until = next(then for then in count(int(now)) if not holds_back(found, "m", then))
        assert read <= limit * (until - first) + 1e-6


def busy_for(seconds: float, segment_bytes: int, lanes: int, *, lease_seconds: Sequence[float]) -> tuple[float, float]:
    """Lanes whose live copies have always more to read, the first of which cuts a segment in every lease in which it
    may; returns the bytes that live copies and segments have read, as parts of what a limit of 100 allows."""
    found, live, cut = pacing({"m": 100}), 0.0, 0
    numbers = frozenset(range(lanes))
    running: list[tuple[float, int, float, PaceOrder, bool]] = []

    def begin(lane: int, now: float) -> None:
        cuts = lane == 0 and not holds_back(found, "m", now)
        order = order_of(found, lane, lanes=lanes, now_seconds=now)
        heappush(running, (now + lease_seconds[lane], lane, now, order, cuts))

    for lane in range(lanes):
        begin(lane, 0.0)
    while running and running[0][0] <= seconds:
        now, lane, began, order, cuts = heappop(running)
        paid = order.bytes_per_second * (now - began)
        read = max(0.0, paid - order.debt_bytes)
        live += read
        if cuts:
            cut += segment_bytes
            found.cut("m", lanes=numbers, read_bytes=segment_bytes, began=began, now=now)
        debt = max(0.0, order.debt_bytes - paid)
        found.live_ended("m", lane, order, read_bytes=int(read), debt_bytes=debt, began=began, now=now)
        begin(lane, now)
    return live / (100 * seconds), cut / (100 * seconds)


@pytest.mark.parametrize("segment_bytes", [500, 2000, 6000])
@pytest.mark.parametrize("lease_seconds", [(20,), (20, 20), (20, 80, 80)])
def test_segments_and_live_copies_of_a_mirror_keep_to_its_limit_together_and_both_get_on(
    segment_bytes: int, lease_seconds: tuple[float, ...]
) -> None:
    live, cut = busy_for(20_000.0, segment_bytes, len(lease_seconds), lease_seconds=lease_seconds)
    assert 0.9 < live + cut <= 1.02
    assert live > 0.15
    assert cut > 0.12, "of small segments one in every other lease"


def test_segments_have_all_of_a_limit_that_live_copies_have_no_use_for() -> None:
    found, cut = pacing({"m": 100}), 0
    for number in range(50):
        now = 20.0 * number
        if not holds_back(found, "m", now):
            cut += 2000
        order = order_of(found, 0, lanes=1, now_seconds=now)
        found.cut("m", lanes=frozenset({0}), read_bytes=2000, began=now, now=now + 20)
        found.live_ended("m", 0, order, read_bytes=0, debt_bytes=0.0, began=now, now=now + 20)
    assert cut == 50 * 2000


def test_a_limit_that_is_lowered_while_a_segment_is_owed_drops_nothing_that_a_lane_owes() -> None:
    limits = {"m": 1000}
    found = pacing(limits)
    found.cut("m", lanes=frozenset({0}), read_bytes=9000, began=0.0, now=0.0)
    order = order_of(found, 0, lanes=1, now_seconds=0.0)
    limits["m"] = 10
    # The lease has paid for the segment, and has then taken an answer of 50 000, of which it has paid for 1000.
    found.live_ended("m", 0, order, read_bytes=50_000, debt_bytes=49_000.0, began=0.0, now=10.0)
    assert order_of(found, 0, lanes=1, now_seconds=10.0).debt_bytes == 49_000


def test_a_lane_owes_for_a_segment_that_was_cut_beside_its_lease_once_the_lease_has_ended() -> None:
    found = pacing({"m": 100})
    order = order_of(found, 0, lanes=2, now_seconds=0.0)
    other = order_of(found, 1, lanes=2, now_seconds=0.0)
    found.cut("m", lanes=frozenset({0, 1}), read_bytes=4000, began=0.0, now=5.0)
    found.live_ended("m", 1, other, read_bytes=250, debt_bytes=0.0, began=0.0, now=5.0)
    assert [found.is_untold("m", lane) for lane in (0, 1, 2)] == [True, False, False]
    found.live_ended("m", 0, order, read_bytes=700, debt_bytes=200.0, began=0.0, now=10.0)
    assert not found.is_untold("m", 0)
    assert order_of(found, 0, lanes=2, now_seconds=10.0).debt_bytes == 200 + 2000
    assert order_of(found, 1, lanes=2, now_seconds=10.0).debt_bytes == 2000 - 250, "five seconds of its share"
    assert holds_back(found, "m", 49.9)
    assert not holds_back(found, "m", 50.1)
