"""How often a source is asked for its ends, and about which of its partitions."""

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

import structlog

from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import BrokerUnreachableError, MirrorlakeError
from mirrorlake.mirror.told_progress import ToldProgress
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.observer import (
    QUIET_LOOKS_APART_SECONDS,
    QUIET_SECONDS,
    RESTING_LOOKS_APART_SECONDS,
    Asked,
    SourceLooks,
    _by_source,
    _observe_source,
)
from mirrorlake.service.partition_state import MOVING_SECONDS, SOURCE_UNSEEN_SECONDS, PartitionState
from mirrorlake.sources.client import Bounds
from mirrorlake.sources.kafka.work import KafkaSourceWork
from mirrorlake.sources.source import SourceWork
from support.partition_states import EAST
from unit.service.test_supervisor import Bench, archive_state, kafka_state, row

ONE, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)


def looked(
    looks: SourceLooks,
    *,
    until: float,
    ends: list[tuple[float, int]],
    awake: Callable[[float], set[TopicPartition]] = lambda _: {ONE},
) -> list[tuple[float, Sequence[TopicPartition]]]:
    """Returns when it was looked at what, half a second at a time, while the end of ``ONE`` moves at these times."""
    times = []
    now = 0.0
    while now <= until:
        asked = Asked(source=KafkaSourceWork(cluster=EAST), everything={ONE, OTHER}, awake=awake(now))
        if partitions := looks.due(asked, now):
            times.append((now, partitions))
            end = max(offset for since, offset in ends if since <= now)
            looks.saw({each: Bounds(0, end if each == ONE else 0) for each in partitions}, now)
        now += 0.5
    return times


def test_a_source_that_moves_is_asked_at_every_turn() -> None:
    moving = [(float(second), second) for second in range(10)]
    assert [when for when, _ in looked(SourceLooks(0.0), until=9.0, ends=moving)] == [n / 2 for n in range(19)]


def test_a_source_that_is_quiet_is_asked_half_as_often_until_it_moves() -> None:
    times = [when for when, _ in looked(SourceLooks(0.0), until=12.0, ends=[(0.0, 5), (8.5, 6)])]
    assert times[:11] == [n / 2 for n in range(11)]
    assert times[11:] == [6.0, 7.0, 8.0, 9.0, 10.0, 10.5, 11.0, 11.5, 12.0]
    assert (QUIET_SECONDS, QUIET_LOOKS_APART_SECONDS) == (5.0, 1.0)


def test_a_source_that_wants_more_time_gets_it() -> None:
    assert [when for when, _ in looked(SourceLooks(3.0), until=9.0, ends=[(0.0, 5)])] == [0.0, 3.0, 6.0, 9.0]


def test_what_rests_is_asked_about_with_all_others_only() -> None:
    found = looked(SourceLooks(0.0), until=11.0, ends=[(float(n), n) for n in range(12)])
    assert [when for when, partitions in found if OTHER in partitions] == [0.0, 5.0, 10.0]
    assert all(ONE in partitions for _, partitions in found)
    assert RESTING_LOOKS_APART_SECONDS == 5.0 <= SOURCE_UNSEEN_SECONDS / 3


def test_a_source_of_which_all_rests_is_asked_seldom_and_within_a_second_when_something_wakes() -> None:
    found = looked(SourceLooks(0.0), until=11.0, ends=[(0.0, 5)], awake=lambda now: {ONE} if now >= 7.0 else set())
    assert [when for when, _ in found] == [0.0, 5.5, 7.5, 8.5, 9.5, 10.5]


class OneIsAway:
    """A source whose leader of ``OTHER`` does not answer, until it does."""

    name = "east"

    def __init__(self) -> None:
        self.is_away = True

    def client(self, _: object) -> "OneIsAway":
        return self

    async def bounds(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Bounds | MirrorlakeError]:
        away = BrokerUnreachableError("the leader does not answer")
        return {each: away if each == OTHER and self.is_away else Bounds(0, 0) for each in partitions}


def test_a_look_that_leaves_out_what_cannot_be_read_does_not_say_that_it_can_be() -> None:
    bench, source, failing = Bench(kafka_state(0), kafka_state(1)), OneIsAway(), set[TopicPartition]()
    asked, nobody = Asked(source=cast("SourceWork", source), everything={ONE, OTHER}), cast("WorkerCache", None)

    def look(*partitions: TopicPartition) -> list[str]:
        with structlog.testing.capture_logs() as logged:
            asyncio.run(_observe_source(bench.table, nobody, asked, partitions, failing, lambda: None))
        return [each["event"] for each in logged]

    assert look(ONE, OTHER) == ["source cannot be read"]
    assert [look(ONE), look(ONE, OTHER), look(ONE)] == [[], [], []]
    source.is_away = False
    assert look(ONE) == []
    assert look(ONE, OTHER) == ["source can be read again"]

    source.is_away = True
    assert look(ONE, OTHER) == ["source cannot be read"]
    asked.everything.discard(OTHER)  # parked, say
    assert look(ONE) == ["source can be read again"]


# --- what rests -----------------------------------------------------------------------------------------------


def resting(bench: Bench, state: PartitionState) -> bool:
    """Whether the copy of ``ONE`` is left out of the frequent looks."""
    (asked,) = _by_source(bench.table).values()
    assert asked.everything == {state.source}
    return state.source not in asked.awake


def end(bench: Bench, *rows: LeaseRow) -> None:
    """Runs a lease to its end."""
    leased = bench.next(0)
    assert leased is not None
    bench.end(0, leased[0], *rows)


def at_rest(*, once: bool = False) -> tuple[Bench, PartitionState]:
    """A copy whose lease has brought it to its source's end, looked at again and again since."""
    state = kafka_state(0)
    bench = Bench(state, once=once)
    bench.table.observed("east", {ONE: Bounds(0, 100)})
    end(bench, row(state, 100, end=100))
    bench.table.observed("east", {ONE: Bounds(0, 100)})
    return bench, state


def test_a_copy_rests_where_it_has_all_and_its_source_has_not_moved_of_late() -> None:
    bench, state = at_rest()
    assert resting(bench, state)
    bench.table.observed("east", {ONE: Bounds(0, 101)})
    assert not resting(bench, state), "it lags"
    end(bench, row(state, 101, end=101))
    assert not resting(bench, state), "its source has just moved"
    bench.clock.advance(MOVING_SECONDS)
    assert resting(bench, state)


def test_a_copy_that_is_told_to_be_further_than_its_source_was_seen_does_not_rest() -> None:
    bench, state = at_rest()
    bench.next(0)
    bench.table.told([state], [ToldProgress(state.mirror, ONE, state.destination, 105, 5, 500)])
    assert not resting(bench, state)


def test_a_copy_of_which_nothing_is_known_or_that_fails_does_not_rest() -> None:
    state = kafka_state(0)
    bench = Bench(state)
    assert not resting(bench, state)
    bench, state = at_rest()
    end(bench, row(state, 100, end=100, error=BrokerUnreachableError("away")))
    assert not resting(bench, state)


def test_nothing_of_a_bounded_run_rests() -> None:
    bench, state = at_rest(once=True)
    assert not resting(bench, state)


def test_an_archive_never_rests_nor_does_its_source_for_another_copy() -> None:
    archived, live = archive_state(0), kafka_state(0)
    bench = Bench(archived, live)
    bench.table.observed("east", {ONE: Bounds(0, 0)})
    archived.position = live.position = 0
    (asked,) = _by_source(bench.table).values()
    assert asked.awake == {ONE}
    assert (archived.is_at_rest(3600.0), live.is_at_rest(3600.0)) == (False, True)
