"""Mirrors that end: what is leased and asked while their ends are not known, as they come near, and behind them."""

from dataclasses import replace

import pytest

from mirrorlake.errors import BrokerUnreachableError, DestinationAheadError
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.observer import _by_source
from mirrorlake.service.partition_state import AHEAD_SECONDS, ONCE_FAILURES_MAX, PartitionState, StateName
from mirrorlake.service.sight.health import Phase, readiness
from mirrorlake.sources.client import Bounds
from unit.service.test_supervisor import RULE, Bench, archive_state, found, kafka_state, row

P0 = TopicPartition("orders", 0)


def bounded(state: PartitionState) -> PartitionState:
    state.is_bounded = True
    return state


def look(bench: Bench, end: int, limit: int | None, start: int = 0) -> None:
    bench.table.observed("east", {P0: Bounds(start, end, limit=limit)})


def test_nothing_is_leased_before_a_look_has_told_how_far_it_may_be_read() -> None:
    bench = Bench(bounded(kafka_state(0)))
    assert bench.next(0) is None
    look(bench, 100, None)
    _, plan = found(bench, 0)
    assert [work.end_offset for work in plan.partitions] == [None]


def test_a_lease_ends_at_the_limit_and_none_follows_it(capsys: pytest.CaptureFixture[str]) -> None:
    state = bounded(kafka_state(0))
    bench = Bench(state)
    look(bench, 100, 40)
    lease, plan = found(bench, 0)
    assert [work.end_offset for work in plan.partitions] == [40]
    assert (state.state, list(_by_source(bench.table))) == (StateName.UNKNOWN, ["east"])
    bench.end(0, lease, row(state, 40, end=100))
    assert (state.state, state.lag, state.lag_seconds(0.0)) == (StateName.ENDED, 0, 0.0)
    assert bench.next(0) is None
    assert not _by_source(bench.table), "it is not asked about any more"
    bench.clock.advance(3600.0)
    assert state.state_now(bench.clock.elapsed_seconds()) is StateName.ENDED
    said = capsys.readouterr().out
    assert said.count("partition has ended") == said.count("mirror has ended") == 1


def test_an_end_that_a_lease_has_met_counts_where_no_leader_names_one() -> None:
    state = bounded(kafka_state(0))
    bench = Bench(state)
    look(bench, 100, None)
    bench.end(0, found(bench, 0)[0], replace(row(state, 40, end=100), ended_at=40))
    assert state.state is StateName.ENDED
    look(bench, 120, None)
    assert (state.state, state.read_end) == (StateName.ENDED, 40)


def test_an_archive_cuts_up_to_its_limit_and_never_what_only_a_lease_has_seen_of_the_source() -> None:
    state = bounded(archive_state(0))
    bench = Bench(state)
    look(bench, 30, None)
    bench.clock.advance(RULE.time_seconds_max)
    bench.end(0, found(bench, 0)[0], row(state, 0, end=90))
    assert state.source_end == 30
    look(bench, 90, 40)
    lease, plan = found(bench, 0)
    ((work,),) = (plan.partitions,)
    assert work.destinations[0].orders.read_end_offset == 40
    bench.end(0, lease, row(state, 40, end=90))
    assert state.state is StateName.ENDED


def test_a_copy_past_its_limit_has_ended_whatever_was_deleted_there() -> None:
    state = bounded(archive_state(0, position=55))
    bench = Bench(state)
    look(bench, 90, 40, start=70)
    assert (state.is_parked, state.state, bench.next(0)) == (False, StateName.ENDED, None)


def test_a_bounded_run_is_over_at_the_limit() -> None:
    state = bounded(kafka_state(0))
    bench = Bench(state, once=True)
    look(bench, 100, 40)
    bench.end(0, found(bench, 0)[0], row(state, 40, end=100))
    assert bench.supervisor.is_finished
    assert state.span == (40, 40)


def test_a_bounded_run_is_over_at_an_end_that_only_a_lease_has_met() -> None:
    state = bounded(kafka_state(0))
    bench = Bench(state, once=True)
    look(bench, 100, None)
    assert state.once_end == 100
    bench.end(0, found(bench, 0)[0], replace(row(state, 40, end=100), ended_at=40))
    assert bench.supervisor.is_finished
    assert not state.may_have_lost_its_end


def test_a_service_whose_mirrors_have_all_ended_is_ready() -> None:
    state = bounded(archive_state(0, position=40))
    bench = Bench(state)
    look(bench, 90, 40)
    assert readiness(Phase.SERVING, [state], [], sources={"m": "east"}, now_seconds=3600.0).is_good


@pytest.mark.parametrize(
    ("once", "limit", "ends", "expected"),
    [
        (True, None, [50], "waits"),
        (True, None, [50, 100], "finished"),
        (True, None, [50, 130], "finished"),
        (True, None, [50, 50, 50], "parked"),
        (True, 40, [50, 50, 50], "finished"),
        (False, None, [50, 50, 50], "waits"),
    ],
    ids=["asked-again", "it-lagged", "others-copied-more", "its-end-is-lost", "ended", "leases-find-out"],
)
def test_a_bounded_run_is_not_over_where_a_copy_is_past_the_end_of_its_source(
    once: bool, limit: int | None, ends: list[int], expected: str
) -> None:
    """A leader's end may lag for a moment, so it is believed once it is seen for as long as elsewhere."""
    state = kafka_state(0)
    bench = Bench(bounded(state) if limit is not None else state, once=once)
    look(bench, ends[0], limit)
    bench.end(0, found(bench, 0)[0], row(state, 100, end=50))
    for end in ends:
        if state.is_parked:
            break
        look(bench, end, limit)
        bench.clock.advance(AHEAD_SECONDS)
    is_over = bench.supervisor.is_finished or state.has_ended
    assert ("parked" if state.is_parked else "finished" if is_over else "waits") == expected
    if state.is_parked:
        assert isinstance(state.error, DestinationAheadError)
        assert (state.error.facts["position"], state.error.facts["source_end"]) == (100, 50)


def test_a_bounded_run_gives_up_a_copy_past_an_end_that_cannot_be_asked_for_again() -> None:
    state = kafka_state(0)
    bench = Bench(state, once=True)
    look(bench, 50, None)
    bench.end(0, found(bench, 0)[0], row(state, 100, end=50))
    looks = 0
    while not bench.supervisor.is_finished and looks < 100:
        looks += 1
        bench.table.unseen("east", {P0: BrokerUnreachableError("it is away")})
        bench.clock.advance(10)
    assert (state.gave_up, looks) == (True, ONCE_FAILURES_MAX)
