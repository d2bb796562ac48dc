"""Lanes over a runner without Spark: what a lane does with each outcome, and what the others notice of it."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator

import pytest
import structlog.testing

from mirrorlake.clock import ManualClock
from mirrorlake.errors import MirrorlakeError, OutcomeUnknownError
from mirrorlake.pipeline.lanes import (
    LOST_LEASES_MAX,
    OVERDUE_LOOKS,
    OVERDUE_SECONDS,
    WATCHDOG_SECONDS,
    BackOff,
    LanePool,
    Lease,
)
from mirrorlake.pipeline.lease_job import EngineDiedError, LeaseRow

PATIENCE_SECONDS = 20.0
NO_REST = BackOff(first_seconds=0.0, most_seconds=0.0)
Outcome = list[LeaseRow] | MirrorlakeError


@pytest.fixture(autouse=True)
def quiet_logs() -> Iterator[None]:
    with structlog.testing.capture_logs():
        yield


def lease(name: str) -> Lease:
    return Lease(work="tests:none", plan=name.encode(), description=name, seconds=1.0)


class ListedSource:
    """Gives each lane its own list of leases and keeps what came back."""

    def __init__(self, **leases: list[str]) -> None:
        self.waiting = {int(lane.removeprefix("lane")): list(names) for lane, names in leases.items()}
        self.outcomes: dict[int, list[tuple[str, Outcome]]] = defaultdict(list)
        self.changed = threading.Condition()
        self.asked = 0

    def next_lease(self, lane_index: int) -> Lease | None:
        with self.changed:
            self.asked += 1
            self.changed.notify_all()
            waiting = self.waiting.get(lane_index, [])
            return lease(waiting.pop(0)) if waiting else None

    def lease_ended(self, lane_index: int, lease: Lease, outcome: Outcome) -> None:
        with self.changed:
            self.outcomes[lane_index].append((lease.description, outcome))
            self.changed.notify_all()

    def await_outcomes(self, count: int) -> None:
        self.await_that(lambda: sum(map(len, self.outcomes.values())) >= count)

    def await_that(self, condition: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, PATIENCE_SECONDS)

    def names(self, lane_index: int) -> list[str]:
        return [name for name, _ in self.outcomes[lane_index]]


def succeed(lease: Lease) -> list[LeaseRow]:
    return [{"kind": "ok", "name": lease.description}]


def never() -> None:
    raise AssertionError("the engine is alive")


def pool(source: ListedSource, run: Callable[[Lease], list[LeaseRow]] = succeed, **options: object) -> LanePool:
    settings: dict[str, object] = {"lanes": 2, "on_engine_dead": never, "back_off": NO_REST, **options}
    return LanePool(source=source, run=run, **settings)  # type: ignore[arg-type]


def pool_in_a_lease(source: ListedSource) -> tuple[LanePool, threading.Event]:
    """Starts one lane, waits until it runs a lease, and returns what lets its leases end."""
    is_running, may_end = threading.Event(), threading.Event()

    def run(lease: Lease) -> list[LeaseRow]:
        is_running.set()
        assert may_end.wait(PATIENCE_SECONDS)
        return succeed(lease)

    lanes = pool(source, run, lanes=1)
    lanes.start()
    assert is_running.wait(PATIENCE_SECONDS)
    return lanes, may_end


def test_each_lane_runs_its_leases_one_after_another() -> None:
    source = ListedSource(lane0=["a", "b", "c"], lane1=["x", "y"])
    lanes = pool(source)
    lanes.start()
    source.await_outcomes(5)

    assert lanes.stop(PATIENCE_SECONDS)
    assert source.outcomes[0][0] == ("a", [{"kind": "ok", "name": "a"}])
    assert source.names(0) == ["a", "b", "c"]
    assert source.names(1) == ["x", "y"]


def test_an_idle_lane_asks_again_at_once_when_woken() -> None:
    source = ListedSource()
    lanes = pool(source, idle_seconds=3600.0)
    lanes.start()
    source.await_that(lambda: source.asked >= 2)
    source.waiting[1] = ["late"]
    lanes.wake()
    source.await_outcomes(1)

    assert lanes.stop(PATIENCE_SECONDS)
    assert source.names(1) == ["late"]


def test_an_idle_lane_asks_again_unasked_after_a_while() -> None:
    source = ListedSource()
    lanes = pool(source, idle_seconds=0.01)
    lanes.start()
    source.await_that(lambda: source.asked >= 10)

    assert lanes.stop(PATIENCE_SECONDS)


@pytest.mark.parametrize("error", [OutcomeUnknownError("job aborted"), RuntimeError("a bug")])
def test_a_failed_lease_is_reported_as_unknown_and_its_lane_goes_on(error: Exception) -> None:
    def run(lease: Lease) -> list[LeaseRow]:
        if lease.description == "bad":
            raise error
        return succeed(lease)

    source = ListedSource(lane0=["bad", "good"], lane1=["x", "y"])
    lanes = pool(source, run)
    lanes.start()
    source.await_outcomes(4)

    assert lanes.stop(PATIENCE_SECONDS)
    assert isinstance(source.outcomes[0][0][1], OutcomeUnknownError)
    assert source.names(0) == ["bad", "good"]
    assert source.names(1) == ["x", "y"]


def test_a_lane_that_failed_rests_while_the_other_goes_on() -> None:
    def run(lease: Lease) -> list[LeaseRow]:
        if lease.description == "bad":
            raise OutcomeUnknownError("job aborted")
        return succeed(lease)

    source = ListedSource(lane0=["bad", "after"], lane1=["x", "y", "z"])
    lanes = pool(source, run, back_off=BackOff(first_seconds=3600.0, most_seconds=3600.0))
    lanes.start()
    source.await_outcomes(4)
    lanes.wake()

    assert lanes.stop(PATIENCE_SECONDS, drain=False)
    assert source.names(0) == ["bad"]
    assert source.names(1) == ["x", "y", "z"]


def test_an_error_of_the_source_does_not_end_its_lane() -> None:
    class Faulty(ListedSource):
        def next_lease(self, lane_index: int) -> Lease | None:
            found = super().next_lease(lane_index)
            if found is not None and found.description == "unreadable":
                raise KeyError("plan")
            return found

        def lease_ended(self, lane_index: int, lease: Lease, outcome: Outcome) -> None:
            super().lease_ended(lane_index, lease, outcome)
            if lease.description == "unwelcome":
                raise KeyError("rows")

    source = Faulty(lane0=["unreadable", "unwelcome", "good"])
    lanes = pool(source, idle_seconds=0.01)
    lanes.start()
    source.await_outcomes(2)

    assert lanes.stop(PATIENCE_SECONDS)
    assert source.names(0) == ["unwelcome", "good"]


def test_a_dead_engine_is_reported_once_and_ends_every_lane() -> None:
    deaths: list[str] = []
    together = threading.Barrier(2)

    def run(lease: Lease) -> list[LeaseRow]:
        together.wait(PATIENCE_SECONDS)
        raise EngineDiedError("no answer")

    source = ListedSource(lane0=["a", "b"], lane1=["x", "y"])
    lanes = pool(source, run, on_engine_dead=lambda: deaths.append("dead"))
    lanes.start()
    source.await_outcomes(2)

    assert lanes.stop(PATIENCE_SECONDS)
    assert deaths == ["dead"]
    assert lanes.is_engine_dead
    assert source.names(0) == ["a"]
    assert source.names(1) == ["x"]


def test_an_engine_that_is_dead_before_the_lanes_begin_is_reported_and_ends_every_lane() -> None:
    deaths: list[str] = []
    source = ListedSource(lane0=["a"], lane1=["x"])

    class Refused(threading.Thread):
        def start(self) -> None:
            if self.name != "lane-0":
                raise EngineDiedError("connection refused")
            super().start()

    lanes = pool(
        source,
        on_engine_dead=lambda: deaths.append("dead"),
        thread_factory=lambda target, name: Refused(target=target, name=name),
    )
    lanes.start()

    assert lanes.stop(PATIENCE_SECONDS)
    assert deaths == ["dead"]
    assert lanes.is_engine_dead


def test_an_unclear_failure_on_a_dead_engine_counts_as_its_death() -> None:
    deaths: list[str] = []

    def run(lease: Lease) -> list[LeaseRow]:
        raise OutcomeUnknownError("answer was garbage")

    source = ListedSource(lane0=["a", "b"])
    lanes = pool(source, run, lanes=1, on_engine_dead=lambda: deaths.append("dead"), is_engine_alive=lambda: False)
    lanes.start()
    source.await_outcomes(1)

    assert lanes.stop(PATIENCE_SECONDS)
    assert deaths == ["dead"]
    assert source.names(0) == ["a"]


def test_stop_drains_what_the_source_still_has() -> None:
    class Flushing(ListedSource):
        is_flushing = False

        def next_lease(self, lane_index: int) -> Lease | None:
            found = super().next_lease(lane_index)
            return found if found is not None or not self.is_flushing else self.flush(lane_index)

        def flush(self, lane_index: int) -> Lease | None:
            done = f"flush {lane_index}" in self.names(lane_index)
            return None if done else lease(f"flush {lane_index}")

    source = Flushing(lane0=["a"])
    lanes = pool(source, idle_seconds=3600.0)
    lanes.start()
    source.await_outcomes(1)
    source.is_flushing = True

    assert lanes.stop(PATIENCE_SECONDS)
    assert source.names(0) == ["a", "flush 0"]
    assert source.names(1) == ["flush 1"]


def test_stop_without_draining_lets_the_running_lease_end_and_begins_no_other() -> None:
    source = ListedSource(lane0=["a", "b"])
    lanes, may_end = pool_in_a_lease(source)
    assert not lanes.stop(0.0, drain=False)
    may_end.set()

    assert lanes.stop(PATIENCE_SECONDS, drain=False)
    assert source.outcomes[0] == [("a", [{"kind": "ok", "name": "a"}])]


def test_a_lane_that_outlives_the_deadline_is_told_of() -> None:
    source = ListedSource(lane0=["a", "b"])
    lanes, may_end = pool_in_a_lease(source)

    assert not lanes.stop(0.01)
    may_end.set()
    assert lanes.stop(PATIENCE_SECONDS)
    assert source.names(0) == ["a"]


@pytest.mark.parametrize(("failures", "seconds"), [(0, 0.0), (1, 0.5), (2, 1.0), (3, 2.0), (7, 30.0), (10_000, 30.0)])
def test_rests_double_up_to_a_bound(failures: int, seconds: float) -> None:
    assert BackOff(first_seconds=0.5, most_seconds=30.0).seconds(failures) == seconds


def lose(lease: Lease) -> list[LeaseRow]:
    raise OutcomeUnknownError("job aborted")


def test_an_engine_that_loses_every_lease_of_every_lane_is_given_up() -> None:
    source = ListedSource(lane0=["a"] * 10, lane1=["x"] * 10)
    is_dead, both_are_in_a_lease = threading.Event(), threading.Barrier(2, timeout=PATIENCE_SECONDS)
    has_begun = set()

    def run(lease: Lease) -> list[LeaseRow]:
        if lease.description not in has_begun:
            has_begun.add(lease.description)
            both_are_in_a_lease.wait()
        return lose(lease)

    lanes = pool(source, run, on_engine_dead=is_dead.set)
    lanes.start()

    assert is_dead.wait(PATIENCE_SECONDS)
    assert lanes.is_engine_dead
    assert lanes.is_engine_useless
    assert lanes.stop(PATIENCE_SECONDS)
    assert min(len(source.outcomes[lane]) for lane in (0, 1)) >= LOST_LEASES_MAX


def test_lanes_go_on_trying_where_an_engine_that_lives_may_not_be_given_up() -> None:
    """Too many restarts lately: whatever fills a disk may yet go, and a process that ends helps nobody."""
    source = ListedSource(lane0=["a"] * 10, lane1=["x"] * 10)
    lanes = pool(source, lose, may_give_up=lambda: False)
    lanes.start()
    source.await_outcomes(20)

    assert lanes.stop(PATIENCE_SECONDS)
    assert not lanes.is_engine_dead


def test_a_lane_without_work_does_not_keep_an_engine_from_being_given_up() -> None:
    is_dead = threading.Event()
    lanes = pool(ListedSource(lane1=["x"] * 10), lose, on_engine_dead=is_dead.set)
    lanes.start()

    assert is_dead.wait(PATIENCE_SECONDS)
    assert lanes.stop(PATIENCE_SECONDS)


def test_an_engine_that_brings_anything_back_is_kept() -> None:
    """One lane loses two leases of three, for ever; the other is in a long one that ends well."""
    source = ListedSource(lane0=["bad", "bad", "good"] * 10, lane1=["long"])
    others_ended = threading.Event()

    def run(lease: Lease) -> list[LeaseRow]:
        if lease.description == "long":
            assert others_ended.wait(PATIENCE_SECONDS)
        return lose(lease) if lease.description == "bad" else succeed(lease)

    lanes = pool(source, run)
    lanes.start()
    source.await_outcomes(30)
    others_ended.set()
    source.await_outcomes(31)

    assert lanes.stop(PATIENCE_SECONDS)
    assert not lanes.is_engine_dead


def test_a_lane_that_loses_its_leases_beside_one_that_is_in_a_lease_waits_for_it() -> None:
    source = ListedSource(lane0=["bad"] * 10, lane1=["long"])
    may_end, is_running = threading.Event(), threading.Event()

    def run(lease: Lease) -> list[LeaseRow]:
        if lease.description == "bad":
            assert is_running.wait(PATIENCE_SECONDS)
            return lose(lease)
        is_running.set()
        assert may_end.wait(PATIENCE_SECONDS)
        return succeed(lease)

    lanes = pool(source, run)
    lanes.start()
    source.await_outcomes(10)
    assert not lanes.is_engine_dead
    may_end.set()
    source.await_outcomes(11)
    assert lanes.stop(PATIENCE_SECONDS)


def test_an_engine_whose_leases_are_all_long_overdue_is_given_up_after_some_looks() -> None:
    leases: list[Lease] = []
    clock, is_dead = ManualClock(), threading.Event()
    source = ListedSource(lane0=["hangs"])
    may_end, is_running = threading.Event(), threading.Event()

    def run(lease: Lease) -> list[LeaseRow]:
        leases.append(lease)
        is_running.set()
        assert may_end.wait(PATIENCE_SECONDS)
        return succeed(lease)

    lanes = pool(source, run, clock=clock, on_engine_dead=is_dead.set)
    lanes.start()
    assert is_running.wait(PATIENCE_SECONDS)
    for _ in range(OVERDUE_LOOKS * 2):
        lanes.look()
    leases[0].prolonged.seconds = 100.0
    clock.advance(1.0 + WATCHDOG_SECONDS + OVERDUE_SECONDS)
    for _ in range(OVERDUE_LOOKS * 2):
        lanes.look()
    assert not is_dead.is_set(), "it was prolonged"
    clock.advance(100.0)
    for _ in range(OVERDUE_LOOKS - 1):
        lanes.look()
    assert not is_dead.is_set()
    lanes.look()
    assert is_dead.is_set()
    assert lanes.is_engine_useless
    may_end.set()
    assert lanes.stop(PATIENCE_SECONDS)
