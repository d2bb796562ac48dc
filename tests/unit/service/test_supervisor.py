"""Which lease comes next, and what its rows change; no Spark, no Kafka: the supervisor is plain decisions."""

import pickle
from dataclasses import replace
from datetime import time
from math import inf
from pathlib import Path

import pytest

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.names import SegmentName
from mirrorlake.archive.snapshots.tombstones import SnapshotRule
from mirrorlake.clock import ManualClock
from mirrorlake.destinations.archive.adoption import CLAIM_LOOKS_MAX
from mirrorlake.destinations.archive.sink import ArchiveSettings
from mirrorlake.destinations.archive.triggers import Trigger
from mirrorlake.destinations.archive.work import ArchiveWork
from mirrorlake.destinations.interface import ProducerHandOff, PublishedSegment
from mirrorlake.destinations.orders import Orders
from mirrorlake.destinations.preserve.settings import PreserveSettings
from mirrorlake.destinations.preserve.work import PreserveWork
from mirrorlake.errors import (
    BrokerUnreachableError,
    ChainBrokenError,
    ClaimAheadError,
    ExecutorUncheckedError,
    LeaseLateError,
    LoopError,
    MirrorlakeError,
    OutcomeUnknownError,
    SourceGapError,
    SourceTruncatedError,
    StoreUnavailableError,
    SupersededError,
)
from mirrorlake.kafka.control.descriptions import ProducerIdentity
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.mirror.due import Due, FlushRule
from mirrorlake.mirror.flush_clock import FlushClock, Retention
from mirrorlake.mirror.policy import back_off_seconds
from mirrorlake.mirror.starvation import not_answered
from mirrorlake.mirror.told_progress import ToldProgress, read_told
from mirrorlake.mirror.work import LeasePlan, LeaseRow
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.pipeline.lanes import Lease
from mirrorlake.pipeline.lease_files import LeaseFiles
from mirrorlake.service.owners.holding import Holding
from mirrorlake.service.partition_state import PartitionState, StateName
from mirrorlake.service.sight.events import Events
from mirrorlake.service.sight.metrics import Metrics
from mirrorlake.service.supervisor import LOOK_SECONDS, WORK, Supervisor
from mirrorlake.sources.client import Bounds
from mirrorlake.sources.mark import SourceMark
from mirrorlake.stores.settings import FilesystemSettings
from support.leases import as_snapshots
from support.partition_states import table_of

EAST = ClusterSettings(name="east", bootstrap_servers=("east:9092",))
WEST = ClusterSettings(name="west", bootstrap_servers=("west:9092",))
HELD_FOR_EVER = Holding(fills_from_seconds=-inf)
RULE = FlushRule(bytes_max=1 << 40, records_max=100, time_seconds_max=60.0)


def kafka_state(partition: int, *, shard: str | None = None) -> PartitionState:
    source = TopicPartition("orders", partition)
    settings = PreserveSettings(
        source=source,
        destination=source,
        transactional_id=f"mirrorlake.m.{partition}",
        batch_bytes_max=1 << 20,
    )
    return PartitionState(
        mirror="m",
        source=source,
        shard=shard or f"m.{partition}",
        work=PreserveWork(destination="west", cluster=WEST, settings=settings),
        topic_id="t",
        rule=None,
    )


def archive_state(partition: int, *, position: int | None = 0) -> PartitionState:
    source = TopicPartition("orders", partition)
    settings = ArchiveSettings(
        source=source,
        destination_name="orders",
        compression="zstd-1",
        records_max=RULE.records_max,
        bytes_max=RULE.bytes_max,
        cluster_id="c",
        topic_id="t",
        writer="test",
    )
    work = ArchiveWork(destination="lake", store=FilesystemSettings(root=Path("/lake")), settings=settings)
    return PartitionState(
        mirror="m", source=source, shard=f"m.{partition}", work=work, topic_id="t", rule=RULE, position=position
    )


class Bench:
    """A supervisor on a clock that stands still."""

    def __init__(
        self,
        *states: PartitionState,
        lanes: int = 2,
        once: bool = False,
        holding: Holding = HELD_FOR_EVER,
        lease_files: LeaseFiles | None = None,
        gathers: bool = False,
    ) -> None:
        self.clock = ManualClock()
        self.states = states
        self.limits: dict[str, int] = {}
        self.metrics = Metrics()
        events = Events(self.metrics, self.clock, {"m": "west"})
        self.table = table_of(*states, once=once, clock=self.clock, events=events)
        self.supervisor = Supervisor(
            self.table,
            lanes=lanes,
            lease_seconds=5.0,
            memory_bytes_max=256 << 20,
            clock=self.clock,
            events=events,
            changed=lambda: None,
            holding=lambda mirror, cluster, shard, destination: holding,
            lease_files=lease_files,
            limits=lambda: self.limits,
            gathers=gathers,
        )

    def observe(self, **ends: int) -> None:
        found = {TopicPartition("orders", int(name[1:])): (0, end) for name, end in ends.items()}
        self.table.observed("east", found)
        self.supervisor.balance()

    def next(self, lane: int) -> tuple[Lease, LeasePlan] | None:
        lease = self.supervisor.next_lease(lane)
        return None if lease is None else (lease, pickle.loads(lease.plan))

    def end(self, lane: int, lease: Lease, *rows: LeaseRow) -> None:
        self.supervisor.lease_ended(lane, lease, [{"kind": "progress", "row": row} for row in rows])


def waiting_since(state: PartitionState) -> float | None:
    """Asked anew each time, as ``finished``."""
    return state.waiting_since_seconds


def finished(bench: Bench) -> bool:
    """Asked anew each time; a type checker would remember a property's first answer."""
    return bench.supervisor.is_finished


def row(state: PartitionState, position: int | None, error: MirrorlakeError | None = None, end: int = 0) -> LeaseRow:
    return LeaseRow(
        mirror="m",
        source=state.source,
        destination=state.destination,
        start_offset=0,
        position=position,
        source_start=0,
        source_end=end or position,
        records=position or 0,
        raw_bytes=10 * (position or 0),
        error=error,
    )


def test_shards_are_spread_over_lanes_and_no_partition_is_leased_twice() -> None:
    bench = Bench(*(kafka_state(n) for n in range(4)))
    first, second = bench.next(0), bench.next(1)
    assert first is not None
    assert second is not None
    leased = [work.source.partition for _, plan in (first, second) for work in plan.partitions]
    assert sorted(leased) == [0, 1, 2, 3]
    assert [len(plan.partitions) for _, plan in (first, second)] == [2, 2]
    assert bench.next(0) is None
    bench.end(0, first[0], *(row(s, 7) for s in bench.states if s.source.partition in (0, 2)))
    assert bench.next(0) is not None


def test_the_tail_is_checked_at_first_and_after_an_error_but_not_between_clean_leases() -> None:
    state = kafka_state(0)
    bench = Bench(state, lanes=1)
    checks = []
    for error in (None, BrokerUnreachableError("gone"), None, None):
        found = bench.next(0)
        assert found is not None
        lease, plan = found
        (work,) = plan.partitions[0].destinations
        assert isinstance(work, PreserveWork)
        checks.append(work.orders.needs_tail_check)
        bench.end(0, lease, row(state, 1, error))
        bench.clock.advance(60)
    assert checks == [True, False, True, False]


def test_a_transient_error_leaves_a_partition_out_for_a_while_and_the_others_go_on() -> None:
    bad, good = kafka_state(0), kafka_state(1)
    bench = Bench(bad, good, lanes=1)
    found = bench.next(0)
    assert found is not None
    bench.end(0, found[0], row(bad, None, BrokerUnreachableError("gone")), row(good, 5))
    found = bench.next(0)
    assert found is not None
    assert [work.source.partition for work in found[1].partitions] == [1]
    bench.end(0, found[0], row(good, 6))
    bench.clock.advance(0.25)
    found = bench.next(0)
    assert found is not None
    assert {work.source.partition for work in found[1].partitions} == {0, 1}


def test_a_permanent_error_parks_the_partition_for_good() -> None:
    bad, good = kafka_state(0), kafka_state(1)
    bench = Bench(bad, good, lanes=1)
    found = bench.next(0)
    assert found is not None
    bench.end(0, found[0], row(bad, 3, SourceGapError("gap")), row(good, 5))
    bench.clock.advance(1e6)
    found = bench.next(0)
    assert found is not None
    assert [work.source.partition for work in found[1].partitions] == [1]
    assert bad.state is StateName.PARKED
    assert good.state is StateName.CAUGHT_UP


def test_a_lease_that_brings_nothing_back_leaves_every_partition_unknown_and_to_be_checked() -> None:
    state = kafka_state(0)
    bench = Bench(state, lanes=1)
    found = bench.next(0)
    assert found is not None
    bench.supervisor.lease_ended(0, found[0], [{"kind": "retried"}])
    assert state.failures == 1
    assert state.needs_tail_check
    assert not state.is_leased
    assert "worker of the lease died" in str(state.error)


def test_a_lease_that_came_to_an_executor_before_it_was_looked_at_is_tried_again_and_says_where() -> None:
    state = kafka_state(0)
    bench = Bench(state, lanes=1)
    found = bench.next(0)
    assert found is not None
    bench.supervisor.lease_ended(0, found[0], [{"kind": "unchecked", "host": "worker-3"}])
    assert isinstance(state.error, ExecutorUncheckedError)
    assert "an executor on worker-3 that was not looked at yet" in state.error.message
    assert state.failures == 1
    assert not state.is_leased


def test_an_archive_is_leased_only_when_something_is_due_and_by_whichever_lane_asks() -> None:
    bench = Bench(archive_state(0), lanes=2)
    bench.observe(p0=99)
    assert bench.next(0) is None
    bench.clock.advance(60)
    found = bench.next(1)
    assert found is not None
    (work,) = found[1].partitions[0].destinations
    assert isinstance(work, ArchiveWork)
    assert (work.orders.read_end_offset, work.orders.flushes_rest, work.orders.rest_trigger) == (
        99,
        True,
        "max-time",
    )


def test_enough_records_are_cut_at_the_bound_and_the_rest_waits() -> None:
    bench = Bench(archive_state(0), lanes=1)
    bench.observe(p0=150)
    found = bench.next(0)
    assert found is not None
    (work,) = found[1].partitions[0].destinations
    assert isinstance(work, ArchiveWork)
    assert (work.orders.read_end_offset, work.orders.flushes_rest) == (150, False)


def test_destinations_of_one_partition_share_a_work_item() -> None:
    bench = Bench(kafka_state(0), archive_state(0), lanes=1)
    bench.observe(p0=500)
    found = bench.next(0)
    assert found is not None
    (work,) = found[1].partitions
    assert [d.destination for d in work.destinations] == ["west", "lake"]


def test_a_bounded_run_ends_at_the_ends_seen_first_and_flushes_the_rest() -> None:
    kafka, archive = kafka_state(0), archive_state(0)
    bench = Bench(kafka, archive, lanes=1, once=True)
    assert bench.next(0) is None, "nothing begins before the ends are known"
    bench.observe(p0=10)
    bench.observe(p0=25)
    found = bench.next(0)
    assert found is not None
    lease, plan = found
    assert plan.partitions[0].end_offset == 10
    archive_work = plan.partitions[0].destinations[1]
    assert isinstance(archive_work, ArchiveWork)
    assert archive_work.orders.read_end_offset == 10
    assert not finished(bench)
    bench.end(0, lease, row(kafka, 10, end=25), row(archive, 10, end=25))
    assert finished(bench)
    assert bench.next(0) is None


def test_a_bounded_run_ends_where_the_sources_log_ends_once_records_it_was_to_copy_are_gone() -> None:
    kafka, archive = kafka_state(0), archive_state(0)
    bench = Bench(kafka, archive, lanes=1, once=True)
    bench.observe(p0=100)
    assert bench.table.ends_to_ask("east") == []
    bench.observe(p0=60)  # a new leader: its high watermark lags, or it lost records
    assert bench.table.ends_to_ask("east") == [kafka.source]

    bench.table.log_ends("east", {kafka.source: 100})
    assert (kafka.once_end, archive.once_end) == (100, 100), "it only lags"
    bench.table.log_ends("another", {kafka.source: 60})
    assert kafka.once_end == 100

    bench.table.log_ends("east", {kafka.source: 60})
    assert (kafka.once_end, archive.once_end) == (60, 60)
    assert bench.table.ends_to_ask("east") == []
    found = bench.next(0)
    assert found is not None
    bench.end(0, found[0], row(kafka, 60, end=60), row(archive, 60, end=60))
    assert finished(bench)


def test_a_live_copy_has_no_end_that_could_be_lost() -> None:
    bench = Bench(kafka_state(0), lanes=1)
    bench.observe(p0=100)
    bench.observe(p0=60)
    assert bench.table.ends_to_ask("east") == []


def test_a_bounded_run_gives_a_partition_up_that_keeps_failing() -> None:
    state = kafka_state(0)
    bench = Bench(state, lanes=1, once=True)
    bench.observe(p0=10)
    for _ in range(6):
        found = bench.next(0)
        assert found is not None
        bench.end(0, found[0], row(state, None, BrokerUnreachableError("gone"), end=10))
        bench.clock.advance(60)
    assert finished(bench)
    assert state.gave_up


UNBEGUN = {"unchecked": [{"kind": "unchecked", "host": "worker-3"}], "late": LeaseLateError("too late")}


@pytest.mark.parametrize("how", UNBEGUN)
def test_a_bounded_run_waits_two_minutes_for_a_cluster_that_has_no_worker_for_its_leases(how: str) -> None:
    state = kafka_state(0)
    bench = Bench(state, lanes=1, once=True)
    bench.observe(p0=10)

    def lease_that_does_nothing() -> None:
        found = bench.next(0)
        assert found is not None
        bench.supervisor.lease_ended(0, found[0], UNBEGUN[how])  # type: ignore[arg-type]

    for _ in range(5):
        found = bench.next(0)
        assert found is not None
        bench.end(0, found[0], row(state, None, BrokerUnreachableError("gone"), end=10))
        bench.clock.advance(30)
    for _ in range(4):
        lease_that_does_nothing()
        bench.clock.advance(30)
        assert not finished(bench)
    assert state.failures == 9, "the pauses grow all the same"
    lease_that_does_nothing()
    assert finished(bench)
    assert state.gave_up


def test_what_has_failed_before_is_not_forgotten_while_leases_do_nothing() -> None:
    state = kafka_state(0)
    bench = Bench(state, lanes=1, once=True)
    bench.observe(p0=10)
    for begins in (False, True, True, True, True, True, False, True):
        assert not state.gave_up
        found = bench.next(0)
        assert found is not None
        if begins:
            bench.end(0, found[0], row(state, None, BrokerUnreachableError("gone"), end=10))
        else:
            bench.supervisor.lease_ended(0, found[0], UNBEGUN["unchecked"])  # type: ignore[arg-type]
        bench.clock.advance(state.retry_at_seconds - bench.clock.elapsed_seconds())
    assert state.gave_up


def test_a_stop_flushes_what_waits_and_leaves_what_comes_later() -> None:
    kafka, archive = kafka_state(0), archive_state(0)
    bench = Bench(kafka, archive, lanes=1)
    bench.observe(p0=10)
    bench.supervisor.stop()
    bench.observe(p0=20)
    assert not finished(bench)
    found = bench.next(0)
    assert found is not None
    lease, plan = found
    (work,) = plan.partitions[0].destinations
    assert isinstance(work, ArchiveWork)
    assert work.orders.read_end_offset == 10
    assert work.orders.rest_trigger == "explicit"
    bench.end(0, lease, replace(row(archive, 10), source_end=20))
    assert finished(bench)


def test_a_stop_flushes_up_to_the_end_it_saw_where_a_lease_under_way_had_read_an_earlier_one() -> None:
    state = archive_state(0, position=0)
    bench = Bench(state, lanes=1, once=False)
    bench.observe(p0=100)
    bench.supervisor.stop()
    found = bench.next(0)
    assert found is not None
    bench.end(0, found[0], row(state, 60, end=60))
    assert not finished(bench)
    found = bench.next(0)
    assert found is not None
    bench.end(0, found[0], row(state, 100, end=100))
    assert finished(bench)
    assert not bench.table.unflushed


def fail_lease(bench: Bench, state: PartitionState, position: int | None) -> None:
    found = bench.next(0)
    assert found is not None
    bench.end(0, found[0], row(state, position, StoreUnavailableError("down"), end=10))


@pytest.mark.parametrize("position", [4, None])
def test_a_stop_asks_an_archive_in_its_back_off_once_more_and_flushes_it_where_the_store_is_well(
    position: int | None,
) -> None:
    state = archive_state(0, position=position)
    bench = Bench(state, lanes=1, once=False)
    bench.observe(p0=10)
    state.failed(StoreUnavailableError("down"), bench.clock.elapsed_seconds())
    assert bench.next(0) is None
    bench.supervisor.stop()
    assert not finished(bench)
    if position is None:
        found = bench.next(0)
        assert found is not None
        bench.end(0, found[0], row(state, 4, end=10))
        assert not finished(bench)
    found = bench.next(0)
    assert found is not None
    bench.end(0, found[0], row(state, 10, end=10))
    assert finished(bench)
    assert not bench.table.unflushed


@pytest.mark.parametrize("position", [4, None])
def test_a_stop_gives_an_archive_up_that_fails_once_more_and_names_it(position: int | None) -> None:
    state = archive_state(0, position=position)
    bench = Bench(state, lanes=1)
    bench.observe(p0=10)
    state.failed(StoreUnavailableError("down"), bench.clock.elapsed_seconds())
    bench.supervisor.stop()
    fail_lease(bench, state, position)
    assert finished(bench)
    assert bench.next(0) is None
    assert list(bench.table.unflushed) == [state]


def test_a_failure_of_a_lease_that_began_before_the_stop_is_not_the_last_try() -> None:
    state = archive_state(0, position=0)
    bench = Bench(state, lanes=1)
    bench.observe(p0=100)
    found = bench.next(0)
    assert found is not None
    bench.supervisor.stop()
    bench.end(0, found[0], row(state, 0, StoreUnavailableError("down"), end=100))
    assert not finished(bench)
    found = bench.next(0)
    assert found is not None
    bench.end(0, found[0], row(state, 100, end=100))
    assert finished(bench)


def test_a_lane_that_falls_behind_hands_a_shard_to_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    bench = Bench(*(kafka_state(n) for n in range(4)))
    for lane in (0, 1):
        found = bench.next(lane)
        assert found is not None
        bench.end(lane, found[0], *(row(bench.states[w.source.partition], 0, end=1) for w in found[1].partitions))
    bench.clock.advance(20)
    bench.observe(p0=60_000, p1=1, p2=50_000, p3=1)
    found = bench.next(1)
    assert found is not None
    assert sorted(work.source.partition for work in found[1].partitions) == [0, 1, 3]


@pytest.mark.parametrize(("once", "seconds"), [(False, 10.0), (True, 0.0)])
def test_an_archive_past_its_sources_end_is_parked_and_not_called_caught_up(*, once: bool, seconds: float) -> None:
    state = archive_state(0, position=50)
    bench = Bench(state, lanes=1, once=once)
    bench.observe(p0=20)
    assert state.is_parked is once
    bench.clock.advance(seconds)
    bench.observe(p0=20)
    assert state.state is StateName.PARKED
    assert "position 50" in str(state.error)
    assert "20" in str(state.error)


def test_an_end_that_looks_old_for_a_moment_parks_nothing() -> None:
    state = archive_state(0, position=50)
    bench = Bench(state, lanes=1)
    bench.observe(p0=49)
    bench.clock.advance(9)
    bench.observe(p0=50)
    bench.clock.advance(9)
    bench.observe(p0=49)
    assert state.state is StateName.CAUGHT_UP


def test_being_superseded_ends_everything() -> None:
    state = kafka_state(0)
    bench = Bench(state, lanes=1)
    found = bench.next(0)
    assert found is not None
    bench.end(0, found[0], row(state, 4, SupersededError("somebody else")))
    assert finished(bench)
    assert bench.next(0) is None
    assert isinstance(bench.supervisor.end_error, SupersededError)


@pytest.mark.parametrize(("position", "end", "expected"), [(None, 5, None), (3, 5, 2), (5, 5, 0), (7, 5, 0)])
def test_lag_counts_offsets_behind_the_source(position: int | None, end: int, expected: int | None) -> None:
    state = archive_state(0, position=position)
    state.saw_source(Bounds(0, end), 0.0, 0.0)
    assert state.lag == expected


@pytest.mark.parametrize(("found", "end"), [(0, 10), (10, 10), (15, 15), (20, 40), (30, 40), (40, 40)])
def test_a_bounded_run_ends_at_a_hole_only_where_its_copy_is_found_before_it_and_not_behind_a_hole_it_stands(
    found: int, end: int
) -> None:
    """The source is seen before the position is: a copy whose position is not known is one that begins."""
    state = kafka_state(0)
    bench = Bench(state, lanes=1, once=True)
    bounds = Bounds(0, 40, (OffsetRange(start_offset=10, end_offset=20),))
    bench.table.observed("east", {state.source: bounds})
    assert (state.source_end, state.once_end) == (10, 10)

    state.took(replace(row(state, found), source_start=None, source_end=None), 1.0)

    assert (state.source_end, state.once_end) == (end, end)
    assert state.is_finished is (found >= end)


def test_the_waiting_clock_starts_when_the_end_is_first_seen_past_the_position() -> None:
    state = archive_state(0, position=5)
    state.saw_source(Bounds(0, 5), 10.0, 0.0)
    assert waiting_since(state) is None
    state.saw_source(Bounds(0, 6), 20.0, 0.0)
    state.saw_source(Bounds(0, 9), 30.0, 0.0)
    assert waiting_since(state) == 20.0
    state.took(row(state, 6, end=9), 40.0)
    assert waiting_since(state) == 40.0


def test_a_read_that_cut_nothing_is_not_repeated_until_more_waits() -> None:
    state = archive_state(0)
    bench = Bench(state, lanes=1)
    bench.observe(p0=120)
    found = bench.next(0)
    assert found is not None
    looked = replace(row(state, 0, end=120), batches={"raw:dense": 3})
    bench.end(0, found[0], looked)
    assert bench.next(0) is None
    bench.observe(p0=149)
    assert bench.next(0) is None
    bench.observe(p0=150)
    assert bench.next(0) is not None


def test_lanes_share_what_is_due() -> None:
    bench = Bench(*(archive_state(n) for n in range(4)), lanes=2)
    bench.observe(p0=500, p1=500, p2=500, p3=500)
    first, second = bench.next(0), bench.next(1)
    assert first is not None
    assert second is not None
    leased = [[work.source.partition for work in plan.partitions] for _, plan in (first, second)]
    assert leased[0] == [0, 2], "its own come first"
    assert leased[1] == [1], "a share of what is left; the rest goes to whoever asks next"


def test_a_kafka_lease_is_told_its_own_producer_ids_and_when_gaps_may_be_filled() -> None:
    """Until then a lease of the owner before may append what it read when there was no gap."""
    holding = Holding(own_producer_ids=frozenset({7, 1000}), fills_from_seconds=8.0)
    bench = Bench(kafka_state(0), holding=holding)
    (lease, plan) = found(bench, 0)
    orders = orders_in(plan)
    assert (orders.own_producer_ids, orders.fill_wait_seconds) == (frozenset({7, 1000}), 8.0)
    bench.end(0, lease, row(bench.states[0], 5))
    bench.clock.advance(8.0)
    assert orders_in(found(bench, 0)[1]).fill_wait_seconds == 0.0


def test_the_hand_off_of_a_lease_reaches_the_next_whatever_its_source_did_and_nothing_where_it_said_nothing() -> None:
    left = ProducerHandOff(identity=ProducerIdentity(producer_id=5, producer_epoch=1))
    state = kafka_state(0)
    bench = Bench(state, lanes=1)
    hand_off = []
    # A row whose append had no answer leaves nothing; one whose source failed, what it had.
    for ended in (left, None, left, left):
        lease, plan = found(bench, 0)
        hand_off.append(orders_in(plan).hand_off)
        error = None if ended is None else BrokerUnreachableError("the source is gone")
        bench.end(0, lease, replace(row(state, 1, error), hand_off=ended))
        bench.clock.advance(60)
    lease, plan = found(bench, 0)
    hand_off.append(orders_in(plan).hand_off)
    bench.end(0, lease)  # lost
    bench.clock.advance(60)
    hand_off.append(orders_in(found(bench, 0)[1]).hand_off)
    assert hand_off == [None, left, None, left, left, None]


def test_a_lost_lease_leaves_no_identity_to_partitions_of_its_shard_that_were_not_in_it() -> None:
    left = ProducerHandOff(identity=ProducerIdentity(producer_id=5, producer_epoch=1))
    in_it, paused, of_another_shard = (kafka_state(number) for number in range(3))
    in_it.shard = paused.shard = "m.7"
    bench = Bench(in_it, paused, of_another_shard, lanes=1)
    bench.end(0, found(bench, 0)[0], *(replace(row(state, 1), hand_off=left) for state in bench.states))
    paused.is_paused = True
    lease, plan = found(bench, 0)
    assert len(plan.partitions) == 2
    bench.end(0, lease, replace(row(of_another_shard, 1), hand_off=left))  # its worker may be at work for the others
    assert [state.hand_off for state in bench.states] == [None, None, left]


def test_no_gap_is_filled_while_a_lease_that_brought_nothing_back_may_still_be_at_work() -> None:
    bench = Bench(kafka_state(0))
    lease, plan = found(bench, 0)
    bench.clock.advance(1.0)
    bench.end(0, lease)
    bench.clock.advance(2.0)
    assert (plan.begins_by.elapsed_seconds, plan.send_seconds) == (2.0, 5.5)
    # It may have begun at 2 s and sent until 7.5 s, by a clock that differs by 1 s; now it is 3 s.
    assert orders_in(found(bench, 0)[1]).fill_wait_seconds == 5.5


def test_a_snapshot_in_a_lost_lease_does_not_keep_gaps_of_others_from_being_filled() -> None:
    view = archive_state(1, position=0)
    assert isinstance(view.work, ArchiveWork)
    view.work = as_snapshots(view.work, SnapshotRule())
    copy = kafka_state(0)
    bench = Bench(copy, view, lanes=1)
    bench.observe(p1=100)
    lease, plan = found(bench, 0)
    assert len(plan.partitions) == 2
    assert (plan.live_seconds, plan.send_seconds, plan.hard_seconds) == (5.0, 5.5, 1805.5)
    assert lease.seconds == plan.hard_seconds
    bench.end(0, lease)
    assert copy.unknown_until_seconds == 2.0 + 5.5 + 1.0
    assert view.unknown_until_seconds == 2.0 + 1805.5 + 1.0


def test_no_gap_is_filled_by_who_does_not_own_the_mirror() -> None:
    bench = Bench(kafka_state(0), holding=Holding())
    _, plan = found(bench, 0)
    assert orders_in(plan).fill_wait_seconds > plan.hard_seconds
    assert orders_in(plan).not_owner_because == "", "not tried yet"

    bench = Bench(kafka_state(0), holding=Holding(refusal=BrokerUnreachableError("nobody there", hint="look")))
    assert orders_in(found(bench, 0)[1]).not_owner_because == "nobody there (look)"


def test_what_is_to_be_replaced_begins_no_further_lease_and_ends_with_its_last_one() -> None:
    bench = Bench(kafka_state(0), kafka_state(1))
    first, second = bench.states
    leases = [found(bench, lane)[0] for lane in (0, 1)]
    assert not bench.table.retire([first]), "a lease is at work on it"
    for lane, (lease, state) in enumerate(zip(leases, bench.states, strict=True)):
        bench.end(lane, lease, row(state, 5))
    assert bench.next(0) is None
    assert bench.table.retire([first])
    assert bench.table.states == [second]


def test_how_far_a_source_was_read_in_which_epoch_is_handed_to_the_next_lease() -> None:
    bench = Bench(kafka_state(0))
    lease, plan = found(bench, 0)
    assert plan.partitions[0].marks == (None,)
    mark = SourceMark(epoch=3, offset=5, leader_epoch=3)
    bench.end(0, lease, replace(row(bench.states[0], 5), mark=mark))
    lease, plan = found(bench, 0)
    assert plan.partitions[0].marks == (mark,)
    bench.end(0, lease, row(bench.states[0], 5, BrokerUnreachableError("gone")))
    assert bench.states[0].source_mark == mark


def test_an_archive_whose_source_has_deleted_what_comes_next_is_parked_before_it_is_due() -> None:
    bench = Bench(archive_state(0, position=10), archive_state(1, position=0))
    parked, new = bench.states
    ends = {TopicPartition("orders", n): (12, 20) for n in (0, 1)}
    bench.table.observed("east", ends)
    assert isinstance(parked.error, SourceTruncatedError)
    assert (parked.error.facts["position"], parked.error.facts["log_start"]) == (10, 12)
    assert new.error is None, "nothing was archived yet, so nothing was lost since"


def test_an_archive_that_may_skip_is_not_parked_by_what_its_source_has_deleted() -> None:
    state = archive_state(0, position=10)
    assert isinstance(state.work, ArchiveWork)
    state.work = replace(state.work, settings=replace(state.work.settings, skips_truncated=True))
    bench = Bench(state)
    bench.table.observed("east", {TopicPartition("orders", 0): (12, 20)})
    assert state.error is None


def found(bench: Bench, lane: int) -> tuple[Lease, LeasePlan]:
    lease = bench.next(lane)
    assert lease is not None
    return lease


def orders_in(plan: LeasePlan) -> Orders:
    work = plan.partitions[0].destinations[0]
    assert isinstance(work, PreserveWork)
    return work.orders


def segment(first: int, last: int, size_bytes: int = 10) -> Segment:
    return Segment(name=SegmentName(from_offset=first, to_offset=last, extension="parquet"), size_bytes=size_bytes)


def flush(first: int, last: int, *, is_ours: bool = True) -> PublishedSegment:
    return PublishedSegment(
        key=str(segment(first, last).name),
        offsets=OffsetRange(start_offset=first, end_offset=last + 1),
        records=last + 1 - first,
        raw_bytes=1,
        file_bytes=77,
        trigger="max-time",
        elapsed_ms=1,
        is_ours=is_ours,
    )


def tail_told(bench: Bench) -> tuple[Lease, Segment | None]:
    """What the next lease is told of its archive's last segment."""
    found = bench.next(0)
    assert found is not None
    lease, plan = found
    (work,) = plan.partitions[0].destinations
    assert isinstance(work, ArchiveWork)
    return lease, work.orders.known_tail


def test_a_lease_is_told_the_last_segment_that_is_known_and_an_equal_one_of_another_writer_is_not() -> None:
    state = archive_state(0, position=100)
    state.tail = segment(0, 99)
    bench = Bench(state)
    bench.observe(p0=250)
    lease, tail = tail_told(bench)
    assert tail == segment(0, 99)
    bench.end(0, lease, replace(row(state, 200, end=450), flushes=(flush(100, 149), flush(150, 199))))
    lease, tail = tail_told(bench)
    assert tail == segment(150, 199, size_bytes=77)
    bench.end(0, lease, replace(row(state, 300, end=450), flushes=(flush(200, 299, is_ours=False),)))
    _, tail = tail_told(bench)
    assert tail == segment(150, 199, size_bytes=77), "its size is not known"


def test_a_lease_is_told_how_often_a_claim_was_found_past_the_sources_end_and_a_bounded_run_ends() -> None:
    state = archive_state(0)
    bench = Bench(state, once=True)
    bench.observe(p0=30)
    told = []
    for _ in range(CLAIM_LOOKS_MAX):
        found = bench.next(0)
        assert found is not None
        lease, plan = found
        (work,) = plan.partitions[0].destinations
        assert isinstance(work, ArchiveWork)
        told.append(work.orders.claim_looks)
        bench.end(0, lease, row(state, None, ClaimAheadError("it may be there in a moment"), end=30))
        assert not finished(bench)
        bench.clock.advance(back_off_seconds(CLAIM_LOOKS_MAX))
    assert told == [*range(CLAIM_LOOKS_MAX)]
    found = bench.next(0)
    assert found is not None
    bench.end(0, found[0], row(state, None, ChainBrokenError("it stays there"), end=30))
    assert finished(bench)
    assert state.is_parked


def test_an_older_look_at_the_tail_takes_nothing_back() -> None:
    state = archive_state(0, position=100)
    bench = Bench(state)
    bench.table.tail_seen(state, segment(50, 99))
    bench.table.tail_seen(state, segment(0, 49))
    assert state.tail == segment(50, 99)


def test_drift_that_is_found_while_a_lease_is_under_way_parks_once_and_the_lease_does_not_hide_it() -> None:
    state = archive_state(0, position=0)
    bench = Bench(state)
    bench.observe(p0=250)
    lease, _ = tail_told(bench)
    found, later = ChainBrokenError("gone"), ChainBrokenError("gone, again")
    bench.table.drifted(state, found)
    bench.table.drifted(state, later)
    bench.end(0, lease, row(state, 100, end=250))
    assert (state.is_parked, state.error) == (True, found)
    assert bench.next(0) is None
    assert state.position == 100, "what it published stands"


def test_a_daily_time_makes_a_lease_cut_what_was_there_then() -> None:
    state = archive_state(0)
    state.flush_clock = FlushClock(daily_at_utc=time(22, 14))
    bench = Bench(state)  # its clock says 22:13:20 UTC
    bench.observe(p0=30)
    assert bench.next(0) is None
    bench.clock.advance(40.0)
    bench.observe(p0=31)
    bench.observe(p0=44)
    found = bench.next(0)
    assert found is not None
    (work,) = found[1].partitions[0].destinations
    assert isinstance(work, ArchiveWork)
    orders = work.orders
    assert (orders.read_end_offset, orders.flushes_rest, orders.rest_trigger) == (31, True, "daily")


def test_what_sources_are_asked_for_comes_together_by_time_and_goes_to_whom_it_concerns() -> None:
    states = [archive_state(0), archive_state(1), archive_state(2, position=5)]
    for state in states:
        state.flush_clock = FlushClock(retention=Retention(seconds=1000.0))
    bench = Bench(*states)
    bench.observe(p0=30, p1=30, p2=5)
    asked = bench.table.times_to_ask("east")
    ((time_ms, partitions),) = asked.items()
    assert [each.partition for each in partitions] == [0, 1], "nothing waits of the third"
    assert not bench.table.times_to_ask("west")
    bench.table.answered("east", time_ms, {TopicPartition("orders", 0): 12, TopicPartition("orders", 1): 0})
    due = [state.due_now(0.0, flush_all=False) for state in states]
    assert due == [Due(trigger=Trigger.RETENTION, end_offset=30), None, None]


def test_what_a_lease_finds_of_a_partition_that_was_parked_meanwhile_is_no_further_news() -> None:
    state = archive_state(0, position=0)
    bench = Bench(state, lanes=1, once=False)
    bench.observe(p0=100)
    found = bench.next(0)
    while found is None:
        bench.clock.advance(60)
        found = bench.next(0)
    first, second = ChainBrokenError("by the look"), ChainBrokenError("by the lease")
    bench.table.drifted(state, first)
    bench.end(0, found[0], row(state, 0, second, end=100))
    assert state.is_parked
    assert state.error is first


# --- long leases: recalled, and told of --------------------------------------------------------------------------


def behind(bench: Bench, *, position: int, end: int, seconds: float = 5.0) -> LeasePlan:
    """Returns the plan of lane 0's lease after one that brought partition 0 from 0 to ``position`` in ``seconds``."""
    bench.observe(p0=end)
    lease, _ = found(bench, 0)
    bench.clock.advance(seconds)
    bench.end(0, lease, row(bench.states[0], position, end=end))
    return found(bench, 0)[1]


@pytest.mark.parametrize("end", [1000, 1999, 100_000])
def test_a_lease_that_copies_to_kafka_only_is_a_long_one_however_far_behind(tmp_path: Path, end: int) -> None:
    bench = Bench(kafka_state(0), lanes=1, lease_files=LeaseFiles(tmp_path))
    plan = behind(bench, position=1000, end=end)
    assert (plan.live_seconds, plan.unbroken_seconds, plan.send_seconds) == (20.0, 5.0, 20.5)
    assert Path(plan.progress_file).parent == tmp_path


def test_the_first_lease_of_a_lane_is_a_short_one(tmp_path: Path) -> None:
    bench = Bench(kafka_state(0), lanes=1, lease_files=LeaseFiles(tmp_path))
    bench.observe(p0=100_000)
    assert found(bench, 0)[1].live_seconds == 5.0


def test_a_lease_that_nobody_could_recall_is_a_short_one() -> None:
    plan = behind(Bench(kafka_state(0), lanes=1), position=1000, end=100_000)
    assert (plan.live_seconds, plan.recall_file, plan.progress_file) == (5.0, "", "")


def tell(bench: Bench, plan: LeasePlan, position: int) -> None:
    """The lease says how far it is, and the driver looks."""
    told = ToldProgress("m", bench.states[0].source, "west", position, position, 10 * position)
    Path(plan.progress_file).write_bytes(pickle.dumps((told,)))
    bench.clock.advance(LOOK_SECONDS)
    bench.supervisor.look_at_progress()


def shown(bench: Bench) -> tuple[int | None, int | None, int, int]:
    """Position and lag as they are shown, and the records copied: by the state, and by the metrics."""
    state = bench.states[0]
    labels = {"mirror": "m", "topic": "orders", "partition": "0", "destination": "west"}
    counted = bench.metrics.registry.get_sample_value("mirrorlake_records_total", labels)
    return state.shown_position, state.lag_now(bench.clock.elapsed_seconds()), state.copied_records, int(counted or 0)


def test_what_a_lease_tells_while_it_runs_is_shown_and_counted_once(tmp_path: Path) -> None:
    bench = Bench(kafka_state(0), lanes=1, lease_files=LeaseFiles(tmp_path))
    bench.observe(p0=1000)
    lease, plan = found(bench, 0)
    assert shown(bench) == (None, None, 0, 0)
    tell(bench, plan, 300)
    assert shown(bench) == (300, 700, 300, 300)
    tell(bench, plan, 400)
    tell(bench, plan, 400)
    assert shown(bench) == (400, 600, 400, 400)
    assert bench.states[0].position is None, "nothing is decided by it"
    bench.end(0, lease, row(bench.states[0], 900, end=1000))
    assert shown(bench) == (900, 100, 900, 900)
    assert not Path(plan.progress_file).exists()
    lease, plan = found(bench, 0)
    tell(bench, plan, 950)
    assert shown(bench) == (950, 50, 1850, 1850)  # records of a lease are counted from its begin


def test_what_a_lost_lease_had_told_is_counted_and_its_position_is_read_again(tmp_path: Path) -> None:
    bench = Bench(kafka_state(0), lanes=1, lease_files=LeaseFiles(tmp_path))
    behind(bench, position=1000, end=2000)
    (running,) = bench.supervisor._running
    lease = Lease(work=WORK, plan=running, description="", seconds=1.0)
    tell(bench, pickle.loads(running), 1500)
    assert shown(bench) == (1500, 500, 2500, 2500)
    bench.supervisor.lease_ended(0, lease, OutcomeUnknownError("killed"))
    assert shown(bench) == (1000, 1000, 2500, 2500)


def test_what_a_lease_tells_that_has_ended_is_not_taken(tmp_path: Path) -> None:
    bench = Bench(kafka_state(0), lanes=1, lease_files=LeaseFiles(tmp_path))
    bench.observe(p0=1000)
    lease, plan = found(bench, 0)
    bench.end(0, lease, row(bench.states[0], 900, end=1000))
    tell(bench, plan, 300)
    bench.table.told(bench.states, read_told(plan.progress_file))
    assert shown(bench) == (900, 100, 900, 900)


def test_what_a_lease_has_told_that_ends_while_it_is_read_is_not_counted_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(kafka_state(0), lanes=1, lease_files=LeaseFiles(tmp_path))
    bench.observe(p0=1000)
    lease, plan = found(bench, 0)

    def read_slowly(file: str) -> tuple[ToldProgress, ...]:
        told = read_told(file)
        if told:
            bench.end(0, lease, row(bench.states[0], 900, end=1000))
            found(bench, 0)
        return told

    monkeypatch.setattr("mirrorlake.service.supervisor.read_told", read_slowly)
    tell(bench, plan, 800)
    assert shown(bench) == (900, 100, 900, 900)


def test_a_lease_with_a_partition_that_failed_before_is_a_short_one(tmp_path: Path) -> None:
    bench = Bench(kafka_state(0), kafka_state(1), lanes=1, lease_files=LeaseFiles(tmp_path))
    bench.observe(p0=100_000, p1=100_000)
    lease, _ = found(bench, 0)
    bench.clock.advance(5.0)
    gone = BrokerUnreachableError("gone")
    bench.end(0, lease, row(bench.states[0], 1000, end=100_000), row(bench.states[1], 900, gone, end=100_000))
    assert found(bench, 0)[1].live_seconds == 20.0  # the other waits for its second try
    bench.clock.advance(10.0)
    assert found(bench, 0)[1].live_seconds == 5.0


@pytest.mark.parametrize("end", [0, 100_000], ids=["never copied", "copied before"])
def test_a_partition_whose_lease_was_over_before_all_was_answered_gets_a_long_one(tmp_path: Path, end: int) -> None:
    """Over a long way an opening takes longer than a short lease, and would each time."""
    bench = Bench(kafka_state(0), lanes=1, lease_files=LeaseFiles(tmp_path))
    bench.observe(p0=100_000)
    lease, plan = found(bench, 0)
    assert plan.live_seconds == 5.0
    bench.clock.advance(5.0)
    bench.end(0, lease, row(bench.states[0], None, not_answered("west", starved_seconds=0.0), end=end))
    bench.clock.advance(60.0)
    assert found(bench, 0)[1].live_seconds == 20.0


def test_a_lease_with_something_due_for_an_archive_is_a_short_one(tmp_path: Path) -> None:
    archive = archive_state(1)
    archive.retry_at_seconds = 4.0  # so it is not in the first lease
    bench = Bench(kafka_state(0), archive, lanes=1, lease_files=LeaseFiles(tmp_path))
    bench.observe(p1=100)
    plan = behind(bench, position=1000, end=100_000)
    assert (len(plan.partitions), plan.live_seconds) == (2, 5.0)


def test_a_stop_recalls_every_lease_and_a_lease_that_ended_leaves_no_file(tmp_path: Path) -> None:
    bench = Bench(kafka_state(0), kafka_state(1), lease_files=LeaseFiles(tmp_path))
    leases = [found(bench, lane) for lane in range(2)]
    assert list(tmp_path.iterdir()) == []
    bench.supervisor.stop()
    assert {str(file) for file in tmp_path.iterdir()} == {plan.recall_file for _, plan in leases}
    for lane, (lease, _) in enumerate(leases):
        bench.end(lane, lease, row(bench.states[lane], 5))
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_was_superseded_recalls_its_leases(tmp_path: Path) -> None:
    bench = Bench(kafka_state(0), lease_files=LeaseFiles(tmp_path))
    _, plan = found(bench, 0)
    bench.supervisor.superseded(SupersededError("another process"))
    assert Path(plan.recall_file).exists()


def test_a_partition_that_a_look_stops_is_recalled_from_its_lease_and_begins_no_other(tmp_path: Path) -> None:
    state = kafka_state(0)
    bench = Bench(state, lease_files=LeaseFiles(tmp_path))
    lease, plan = found(bench, 0)
    loop = LoopError("records would go round")
    bench.supervisor.stopped(state, loop)
    assert Path(plan.recall_file).exists()
    bench.end(0, lease, row(state, 100))
    assert (state.is_parked, state.error, state.was_refused) == (True, loop, True)
    assert bench.next(0) is None


def recalled_after(bench: Bench, plan: LeasePlan, seconds: float) -> bool:
    bench.clock.advance(seconds)
    bench.supervisor.recall_waited_for()
    return Path(plan.recall_file).exists()


def test_a_long_lease_is_recalled_when_something_waits_for_its_lane_but_not_before_a_usual_ones_end(
    tmp_path: Path,
) -> None:
    archive = archive_state(0)
    bench = Bench(kafka_state(0), archive, lanes=1, lease_files=LeaseFiles(tmp_path))
    archive.retry_at_seconds = 1e9  # not now
    plan = behind(bench, position=1000, end=100_000)
    assert plan.live_seconds == 20.0
    assert not recalled_after(bench, plan, 4.9)
    archive.retry_at_seconds = 0.0
    assert not recalled_after(bench, plan, 0.0)
    assert recalled_after(bench, plan, 0.2)


def test_a_long_lease_that_nothing_waits_for_goes_on(tmp_path: Path) -> None:
    bench = Bench(kafka_state(0), lanes=1, lease_files=LeaseFiles(tmp_path))
    assert not recalled_after(bench, behind(bench, position=1000, end=100_000), 19.0)


def test_a_long_lease_is_recalled_when_one_of_its_partitions_is_to_be_replaced(tmp_path: Path) -> None:
    bench = Bench(kafka_state(0), lanes=1, lease_files=LeaseFiles(tmp_path))
    plan = behind(bench, position=1000, end=100_000)
    assert not bench.table.retire(bench.states)
    assert recalled_after(bench, plan, 5.0)


def test_a_shard_that_moves_is_recalled_from_its_long_lease_and_no_other_moves_meanwhile(tmp_path: Path) -> None:
    states = [kafka_state(number) for number in range(4)]  # 0 and 2 on lane 0, 1 and 3 on lane 1
    bench = Bench(*states, lease_files=LeaseFiles(tmp_path))
    ends = {"p0": 200_000, "p1": 100, "p2": 150_000, "p3": 100}
    bench.observe(**ends)
    (lease, _), (other, _) = found(bench, 0), found(bench, 1)
    bench.clock.advance(5.0)
    bench.end(0, lease, row(states[0], 1000, end=200_000), row(states[2], 1000, end=150_000))
    bench.end(1, other, row(states[1], 100), row(states[3], 100))
    lease, plan = found(bench, 0)
    assert (len(plan.partitions), plan.live_seconds) == (2, 20.0)
    bench.clock.advance(11.0)
    bench.observe(**ends)  # a shard moves to lane 1
    bench.supervisor.recall_waited_for()
    assert Path(plan.recall_file).exists()
    bench.clock.advance(16.0)
    ends |= {"p0": 100_000_000, "p1": 1_000_000}
    bench.observe(**ends)  # looks as if the shard should go back; the lease with its old position still runs
    bench.end(0, lease, row(states[0], 90_000, end=100_000_000), row(states[2], 90_000, end=150_000))
    assert [len(found(bench, lane)[1].partitions) for lane in range(2)] == [1, 3]


def test_a_lane_whose_lease_came_late_gives_the_next_one_longer_to_begin_and_is_waited_for_as_long_as_before(
    tmp_path: Path,
) -> None:
    state = kafka_state(0)
    bench = Bench(state, lanes=1, lease_files=LeaseFiles(tmp_path))
    bench.observe(p0=10)
    begins: list[float] = []
    ends: list[float] = []
    for error in (None, LeaseLateError("too late"), LeaseLateError("too late"), None):
        bench.clock.advance(600)
        lease, plan = found(bench, 0)
        begins.append(plan.begins_by.elapsed_seconds - bench.clock.elapsed_seconds())
        ends.append(begins[-1] + plan.send_seconds)
        bench.end(0, lease, row(state, None if error else 10, error, end=10))
    assert begins == [2, 2, 4, 8]
    # Live for 5 s, or 20 once the partition was copied and has not failed since, and half a second more to end in.
    assert ends == [2 + 5.5, 2 + 20.5, 4 + 5.5, 8 + 5.5]
    assert max(ends) == ends[1], "of which the next owner of the mirror knows"


class ClockOfAStarvedProcess(ManualClock):
    """Of a process that gets no CPU for a minute each time that it has read it."""

    def elapsed_seconds(self) -> float:
        read = super().elapsed_seconds()
        self.advance(60)
        return read


def test_what_a_lost_lease_may_still_write_is_reckoned_from_the_reading_its_worker_counts_from() -> None:
    state = kafka_state(0)
    bench = Bench(state, lanes=1)
    bench.observe(p0=10)
    bench.supervisor._clock = ClockOfAStarvedProcess()
    lease, plan = found(bench, 0)
    bench.supervisor.lease_ended(0, lease, OutcomeUnknownError("its worker is gone"))
    assert state.unknown_until_seconds >= plan.begins_by.elapsed_seconds + plan.send_seconds
