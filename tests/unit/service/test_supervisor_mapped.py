"""Mapped offsets: a shard is whole in one lease at a time, and its identity goes on only after a clean lease."""

import pickle
from dataclasses import replace

from mirrorlake.clock import ManualClock
from mirrorlake.destinations.interface import ProducerHandOff
from mirrorlake.destinations.map.progress_store import ProgressTopics
from mirrorlake.destinations.map.settings import MapSettings
from mirrorlake.destinations.map.work import MapWork
from mirrorlake.errors import BrokerUnreachableError, MirrorlakeError, OutcomeUnknownError
from mirrorlake.kafka.control.descriptions import ProducerIdentity
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.mirror.work import LeasePlan, LeaseRow
from mirrorlake.offsets import TopicPartition
from mirrorlake.pipeline.lanes import Lease
from mirrorlake.service.balance import GATHER_AFTER_SECONDS
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.sight.events import Events
from mirrorlake.service.sight.metrics import Metrics
from mirrorlake.service.supervisor import Supervisor
from support.partition_states import table_of

EAST = ClusterSettings(name="east", bootstrap_servers=("east:9092",))
WEST = ClusterSettings(name="west", bootstrap_servers=("west:9092",))


def handed(sequence: int) -> ProducerHandOff:
    return ProducerHandOff(
        identity=ProducerIdentity(producer_id=5, producer_epoch=1), sequences={("progress", 0): sequence}
    )


def mapped(partition: int, shard: int = 0) -> PartitionState:
    source = TopicPartition("orders", partition)
    settings = MapSettings(
        source=source,
        destination=source,
        topics=ProgressTopics(mirror="m", shards=16),
        shard=shard,
        transactional_id=f"mirrorlake.m.{shard}.map",
        source_cluster_id="",
        source_topic_id="t",
        batch_bytes_max=1 << 20,
    )
    work = MapWork(destination="west", cluster=WEST, settings=settings)
    return PartitionState(mirror="m", source=source, shard=f"m.{shard}", work=work, topic_id="t", rule=None)


class Bench:
    """A supervisor on a clock that stands still."""

    def __init__(self, *states: PartitionState, lanes: int = 1, gathers: bool = False) -> None:
        self.clock = ManualClock()
        self.states = states
        events = Events(Metrics(), self.clock, {"m": "west"})
        self.table = table_of(*states, clock=self.clock, events=events)
        self.supervisor = Supervisor(
            self.table,
            lanes=lanes,
            lease_seconds=5.0,
            memory_bytes_max=256 << 20,
            clock=self.clock,
            events=events,
            changed=lambda: None,
            gathers=gathers,
        )

    def next(self, lane: int = 0) -> Lease | None:
        return self.supervisor.next_lease(lane)

    def end(self, lease: Lease, *rows: LeaseRow, lane: int = 0) -> None:
        self.supervisor.lease_ended(lane, lease, [{"kind": "progress", "row": row} for row in rows])

    def lease(self, *rows: LeaseRow) -> dict[int, ProducerHandOff | None]:
        """Runs one lease of all that may be leased; returns what its partitions were handed."""
        lease = self.next()
        assert lease is not None
        self.end(lease, *rows)
        return given(lease)


def given(lease: Lease) -> dict[int, ProducerHandOff | None]:
    plan: LeasePlan = pickle.loads(lease.plan)
    found: dict[int, ProducerHandOff | None] = {}
    for work in plan.partitions:
        (destination,) = work.destinations
        assert isinstance(destination, MapWork)
        found[work.source.partition] = destination.orders.hand_off
    return found


def row(state: PartitionState, hand_off: ProducerHandOff | None, error: MirrorlakeError | None = None) -> LeaseRow:
    return LeaseRow(
        mirror="m",
        source=state.source,
        destination="west",
        start_offset=0,
        position=1,
        source_start=0,
        source_end=1,
        hand_off=hand_off,
        error=error,
    )


def test_a_clean_lease_hands_its_shards_identity_to_the_next() -> None:
    one, two = mapped(0), mapped(1)
    bench = Bench(one, two)
    assert bench.lease(row(one, handed(7)), row(two, handed(7))) == {0: None, 1: None}
    assert bench.lease(row(one, None), row(two, None)) == {0: handed(7), 1: handed(7)}
    assert bench.lease() == {0: None, 1: None}


def test_rows_that_differ_hand_nothing_on() -> None:
    one, two = mapped(0), mapped(1)
    bench = Bench(one, two)
    bench.lease(row(one, handed(7)), row(two, handed(8)))
    assert bench.lease() == {0: None, 1: None}


def test_a_lease_that_is_lost_takes_the_hint_from_partitions_that_were_not_in_it() -> None:
    away, here = mapped(0), mapped(1)
    bench = Bench(away, here)
    # The source of one fails, which says nothing of the shard: both get what the lease left.
    bench.lease(row(away, handed(7), BrokerUnreachableError("source gone")), row(here, handed(7)))
    lease = bench.next()
    assert lease is not None
    assert given(lease) == {1: handed(7)}
    bench.supervisor.lease_ended(0, lease, OutcomeUnknownError("lost"))
    bench.clock.advance(60)
    assert bench.lease() == {0: None, 1: None}, "what the lost lease did under that identity is unknown"


def test_another_shard_keeps_its_own_identity() -> None:
    one, other = mapped(0, shard=0), mapped(1, shard=1)
    bench = Bench(one, other)
    bench.lease(row(one, None), row(other, handed(3)))
    assert bench.lease() == {0: None, 1: handed(3)}


def test_a_shard_is_not_begun_in_one_lane_while_it_is_under_way_in_another() -> None:
    first, late = mapped(0), mapped(1)
    late = replace(late, retry_at_seconds=10.0)
    bench = Bench(first, late, lanes=2)
    lane = next(lane for lane in (0, 1) if (lease := bench.next(lane)) is not None)
    assert lease is not None
    bench.clock.advance(20)
    assert [bench.next(each) for each in (0, 1)] == [None, None], "one of its partitions is still leased"
    bench.end(lease, row(first, None), lane=lane)
    again = bench.next(lane)
    assert again is not None
    assert sorted(given(again)) == [0, 1]


def test_a_shard_that_one_lane_gathers_is_begun_there_whole_once_its_old_lane_is_through_with_it() -> None:
    states = [mapped(0, 0), mapped(1, 1), mapped(2, 1)]
    bench = Bench(*states, lanes=2, gathers=True)
    bench.table.observed("east", {state.source: (0, 1) for state in states})
    for lane, members in ((0, states[:1]), (1, states[1:])):
        lease = bench.next(lane)
        assert lease is not None
        bench.end(lease, *(row(state, None) for state in members), lane=lane)
    old = bench.next(1)
    assert old is not None
    bench.clock.advance(GATHER_AFTER_SECONDS)
    bench.supervisor.balance()
    first = bench.next(0)
    assert first is not None
    assert [*given(first)] == [0], "the other shard is in the lease of its old lane"
    bench.end(first, row(states[0], None))
    bench.end(old, *(row(state, None) for state in states[1:]), lane=1)
    assert bench.next(1) is None
    whole = bench.next(0)
    assert whole is not None
    assert sorted(given(whole)) == [0, 1, 2]
