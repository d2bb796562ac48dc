"""Holds: names that say all, what they keep, and what is kept where one cannot be read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.archive.maintenance.holds import (
    RETIRE_SECONDS_MAX,
    Holds,
    announced,
    is_live,
    lift_hold,
    place_hold,
    read_holds,
    read_note,
)
from mirrorlake.archive.maintenance.retain_plan import HeldFrom
from mirrorlake.archive.names import (
    LAST_OFFSET_MAX,
    HoldName,
    MergeName,
    RetireName,
    floor_name,
    parse_hold_name,
    parse_merge_name,
    parse_retire_name,
    parse_segment_name,
)
from mirrorlake.clock import ManualClock
from mirrorlake.errors import PositionMovedError, StoreUnavailableError
from mirrorlake.offsets import OffsetRange
from mirrorlake.stores.memory import MemoryStore

labels = st.from_regex(r"[a-z0-9][a-z0-9-]{0,20}", fullmatch=True)
offsets = st.integers(0, LAST_OFFSET_MAX)


@st.composite
def holds(draw: st.DrawFn, *, offset: st.SearchStrategy[int] = offsets) -> HoldName:
    label, partition = draw(labels), draw(st.none() | st.integers(0, 3))
    if partition is None or draw(st.booleans()):
        return HoldName(label=label, partition=partition)
    first, last = sorted((draw(offset), draw(offset)))
    return HoldName(label=label, partition=partition, first=first, last=last)


@given(holds())
def test_a_hold_is_read_back_as_it_was_written_and_is_nothing_else(hold: HoldName) -> None:
    assert parse_hold_name(str(hold)) == hold
    assert parse_segment_name(str(hold)) is None
    assert parse_merge_name(str(hold)) is None
    assert str(hold).startswith("_hold-")


@given(offsets, st.text("0123456789abcxyz", min_size=1, max_size=32))
def test_an_announcement_is_read_back_as_it_was_written(offset: int, token: str) -> None:
    name = RetireName(offset=offset, token=token)
    assert parse_retire_name(str(name)) == name
    assert parse_hold_name(str(name)) is None


@pytest.mark.parametrize(
    ("label", "partition", "first", "last"),
    [
        ("Case", None, None, None),
        ("", None, None, None),
        ("a.1", None, None, None),
        ("-a", None, None, None),
        ("a" * 65, None, None, None),
        ("a", None, 0, 1),
        ("a", 0, 2, 1),
        ("a", 0, 0, None),
        ("a", -1, None, None),
        ("a", 2**31, None, None),
    ],
)
def test_what_is_no_hold_has_no_name(label: str, partition: int | None, first: int | None, last: int | None) -> None:
    with pytest.raises(ValueError, match="hold"):
        HoldName(label=label, partition=partition, first=first, last=last)


@given(st.lists(holds(offset=st.integers(0, 60)), max_size=5), st.integers(0, 3), st.integers(0, 60))
def test_a_floor_may_rise_to_the_first_offset_that_is_held_and_no_further(
    names: list[HoldName], partition: int, floor: int
) -> None:
    """Counted offset by offset."""

    def is_held(offset: int) -> bool:
        return any(
            hold.partition in (None, partition)
            and (hold.first or 0) <= offset <= (70 if hold.last is None else hold.last)
            for hold in names
        )

    first = next((offset for offset in range(floor, 71) if is_held(offset)), None)
    found = Holds(names=tuple(names)).held_from(partition, floor=floor)
    assert (found.offset if found else None) == first
    held = Holds(names=tuple(names)).holding(partition, OffsetRange(start_offset=floor, end_offset=floor + 1))
    assert bool(held) == is_held(floor)


def test_a_name_that_nobody_can_read_holds_the_whole_topic() -> None:
    store = MemoryStore({"orders/_hold-case.0.5": b"", "orders/_holder": b"", "orders/_hold-": b"", "orders/a": b""})
    found = read_holds(store, "orders")
    assert found.unreadable == ("_hold-", "_hold-case.0.5")
    assert found.held_from(7, floor=3) == HeldFrom(offset=3, label="_hold-")
    assert found.labels(7) == ("_hold-", "_hold-case.0.5")


def test_holds_of_a_topic_are_not_those_of_its_neighbours() -> None:
    store = MemoryStore({"orders/_hold-a": b"", "orders.1/_hold-b": b"", "orders/0/_hold-c": b""})
    assert read_holds(store, "orders").names == (HoldName(label="a"),)
    assert read_holds(store, "bills") == Holds()


CASE = HoldName(label="case-1", partition=0, first=5, last=9)


def place(store: MemoryStore, hold: HoldName, *, clock: ManualClock | None = None, waits: int = 0) -> list[object]:
    left = [waits]

    def wait() -> bool:
        left[0] -= 1
        return left[0] >= 0

    found = place_hold(store, "orders", hold, [0], reason="court", clock=clock or ManualClock(), wait=wait)
    return [(each.floor, each.is_certain, each.announced) for each in found]


def test_a_hold_says_what_had_been_retired_before_it() -> None:
    store = MemoryStore({f"orders/0/{floor_name(7)}": b""})
    assert place(store, CASE) == [(7, True, 0)]
    assert place(store, CASE) == [(7, True, 0)], "placing it again changes nothing"
    note = read_note(store, "orders", CASE)
    assert (note.reason, note.created_at) == ("court", "2023-11-14T22:13:20+00:00")


def test_a_hold_is_not_certain_while_retention_is_about_to_pass_it() -> None:
    store = MemoryStore({f"orders/0/{RetireName(offset=8, token='r')}": b""})
    assert place(store, CASE, waits=3) == [(0, False, 8)]
    below = MemoryStore({f"orders/0/{RetireName(offset=5, token='r')}": b""})
    assert place(below, CASE) == [(0, True, 0)], "what ends where it begins takes nothing of it"


def test_a_hold_is_not_certain_while_an_eraser_is_about_to_take_of_it() -> None:
    def announced(start: int, end: int, *, erases: bool = True) -> MemoryStore:
        name = MergeName(from_offset=start, to_offset=end - 1, token="e", erases=erases)
        return MemoryStore({f"orders/0/{name}": b""})

    assert place(announced(0, 6), CASE, waits=3) == [(0, False, 6)]
    assert place(announced(0, 5), CASE) == [(0, True, 0)]
    assert place(announced(0, 6, erases=False), CASE) == [(0, True, 0)], "a merge keeps every record"


def test_a_hold_waits_for_retention_to_end_and_then_knows_the_floor() -> None:
    store = MemoryStore()

    def wait() -> bool:
        """What retention does meanwhile."""
        store.create(f"orders/0/{floor_name(8)}", b"")
        store.delete(f"orders/0/{RetireName(offset=8, token='r')}")
        return True

    store.create(f"orders/0/{RetireName(offset=8, token='r')}", b"")
    (found,) = place_hold(store, "orders", CASE, [0], reason="", clock=ManualClock(), wait=wait)
    assert (found.floor, found.is_certain) == (8, True)


def test_an_announcement_of_an_hour_ago_is_a_dead_runs_and_one_of_unknown_age_is_not() -> None:
    assert is_live(1000.0, 1000.0 + RETIRE_SECONDS_MAX - 1)
    assert not is_live(1000.0, 1000.0 + RETIRE_SECONDS_MAX)
    assert is_live(None, 1e12)


def test_a_lifted_hold_is_gone_and_a_damaged_note_is_empty() -> None:
    store = MemoryStore({f"orders/{CASE}": b"{"})
    assert read_note(store, "orders", CASE).reason == ""
    for _ in range(2):
        lift_hold(store, "orders", CASE)
        assert read_holds(store, "orders") == Holds()


def names(store: MemoryStore) -> list[str]:
    return [info.name for info in store.list("orders/0")]


def test_who_retires_announces_it_while_holds_are_read_and_withdraws() -> None:
    store = MemoryStore({f"orders/{CASE}": b""})
    with announced(store, "orders/0", 8, token="r", elapsed_seconds=lambda: 0.0) as found:
        assert names(store) == [str(RetireName(offset=8, token="r"))]
        assert found.names == (CASE,)
    assert names(store) == []


def test_an_announcement_stays_where_nobody_knows_what_became_of_the_floor() -> None:
    store = MemoryStore()
    with (
        pytest.raises(StoreUnavailableError),
        announced(store, "orders/0", 8, token="r", elapsed_seconds=lambda: 0.0),
    ):
        raise StoreUnavailableError("no answer")
    assert names(store) == [str(RetireName(offset=8, token="r"))]


def test_who_has_waited_so_long_that_others_may_think_it_dead_retires_nothing() -> None:
    readings = iter([0.0, RETIRE_SECONDS_MAX])
    with (
        pytest.raises(PositionMovedError, match="took too long"),
        announced(MemoryStore(), "orders/0", 8, token="r", elapsed_seconds=lambda: next(readings)),
    ):
        raise AssertionError("not reached")
