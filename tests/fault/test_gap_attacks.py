"""Schedules that break a naive filling of gaps: requests that come late, answers that are lost, coordinators and
leaders that die while a marker is on its way. Right offsets, or a named stop."""

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from mirrorlake.destinations.transactions.gap_filler import FillStep
from mirrorlake.destinations.transactions.session import TransactionSession
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import DestinationForeignError, MisalignedError, PositionMovedError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.mirror.lease_worker import Worker
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import GapFill, TopicPartition
from support.cleanliness import assert_clean
from support.compaction import create_compacted
from support.copies import assert_equal_in_kafka, create_topic, log_end, source_end, wait_until
from support.kafka_nodes import TRANSACTION_STATE, KafkaNodes
from support.leases import kafka_work, lease_plan, run_lease
from support.lossy import Lossy, leases_aside
from support.proxy import ADD_PARTITIONS_TO_TXN, END_TXN, INIT_PRODUCER_ID, PRODUCE, Proxy
from support.records import Record, build_batch, consume, produce, settings_of, simple_records
from support.topics import append
from support.transactions import append_in_transaction

pytestmark = pytest.mark.kafka

MARKERS, FILLER = GapFill.MARKERS, GapFill.FILLER
REQUESTS = [
    pytest.param(INIT_PRODUCER_ID, MARKERS, id="InitProducerId"),
    pytest.param(ADD_PARTITIONS_TO_TXN, MARKERS, id="AddPartitionsToTxn"),
    pytest.param(PRODUCE, FILLER, id="Produce-of-fillers"),
    pytest.param(END_TXN, MARKERS, id="EndTxn"),
    pytest.param(END_TXN, FILLER, id="EndTxn-of-fillers"),
]


def write_gapped(lossy: Lossy) -> None:
    """Ends in a gap, so that the request that is spoiled next is one of its filling."""
    lossy.write(20)
    lossy.write_gap(4)


# --- A8: a request of a filling that comes late, or whose answer is lost ----------------------------------------


@pytest.mark.parametrize(("api_key", "gap_fill"), REQUESTS)
def test_an_answer_that_is_lost_in_a_filling_costs_no_offset(api_key: int, gap_fill: GapFill, lossy: Lossy) -> None:
    lossy.write(20)
    lossy.copy(gap_fill=gap_fill)
    lossy.write_gap(4)
    cuts = lossy.proxy.cuts
    lossy.proxy.cut_before_answer(api_key)
    lossy.copy(gap_fill=gap_fill)
    assert lossy.proxy.cuts == cuts + 1
    lossy.write(20)
    lossy.copy(gap_fill=gap_fill)
    assert_clean(lossy.proxy.address, [lossy.topic])
    lossy.assert_equal()


@pytest.mark.slow
@pytest.mark.parametrize(("api_key", "gap_fill"), REQUESTS)
def test_a_request_of_a_filling_that_comes_after_another_owners_filling_changes_nothing(
    api_key: int, gap_fill: GapFill, lossy: Lossy
) -> None:
    lossy.write(20)
    lossy.copy(gap_fill=gap_fill)
    lossy.write_gap(4)
    late = lossy.proxy.hold(api_key)
    with leases_aside(lossy.plan(2.0, gap_fill=gap_fill), count=1):
        late.await_arrival()
    lossy.write(20)
    lossy.copy(gap_fill=gap_fill)
    late.release()
    time.sleep(0.5)
    # Had it opened a transaction, the broker's time-out would end that with a marker, one offset too many.
    assert_clean(lossy.proxy.address, [lossy.topic])
    assert log_end(lossy.proxy.address, lossy.topic) == lossy.written
    lossy.write(20)
    lossy.copy(gap_fill=gap_fill)
    lossy.assert_equal()


async def write_two_markers(servers: str, transactional_id: str, where: TopicPartition) -> None:
    """Ends two transactions of the copy's own that write nothing."""
    async with ClusterClient(settings_of(servers)) as client:
        session = TransactionSession(client, transactional_id, timeout_ms=10_000)
        for _ in range(2):
            await session.own()
            await session.close([where], committed=False)


class Interrupted:
    """A worker of a copy for which something is done between the end of its first filling and the look at its log."""

    def __init__(self, lossy: Lossy, hook: Callable[[], object]) -> None:
        self._hooks = [hook]
        lossy.worker.close()
        lossy.worker = Worker(crash_point=self._at)

    def _at(self, step: str) -> None:
        if step == FillStep.AWAIT_MARKERS and self._hooks:
            # In a thread, because the calling one has an event loop running.
            with ThreadPoolExecutor(1) as aside:
                aside.submit(self._hooks.pop()).result()


@pytest.mark.parametrize("gap_fill", [MARKERS, FILLER])
def test_a_copy_that_another_owner_carries_past_a_gap_just_filled_is_not_called_misaligned(
    gap_fill: GapFill, lossy: Lossy
) -> None:
    lossy.write(20)
    lossy.copy(gap_fill=gap_fill)
    lossy.write_gap(1)
    lossy.write(20)
    plan = lossy.plan(20.0, gap_fill=gap_fill)
    others: list[LeaseRow] = []

    def another_owner() -> None:
        worker = Worker()
        others.extend(worker.run(plan))
        worker.close()

    Interrupted(lossy, another_owner)
    (row,) = lossy.worker.run(plan)
    assert [(other.error, other.position) for other in others] == [(None, lossy.written)]
    assert isinstance(row.error, PositionMovedError), row
    lossy.write(20)
    lossy.copy(gap_fill=gap_fill)
    assert_clean(lossy.proxy.address, [lossy.topic])
    lossy.assert_equal()


@pytest.mark.parametrize("gap_fill", [MARKERS, FILLER])
@pytest.mark.parametrize("is_marker", [True, False], ids=["a marker that came twice", "another producer's records"])
def test_what_lies_behind_a_gap_just_filled_and_is_not_the_copys_stops_it_before_another_record(
    gap_fill: GapFill, is_marker: bool, lossy: Lossy
) -> None:
    lossy.write(20)
    lossy.copy(gap_fill=gap_fill)
    lossy.write_gap(1)
    lossy.write(20)
    plan, servers, topic = lossy.plan(20.0, gap_fill=gap_fill), lossy.proxy.address, lossy.topic
    if is_marker:
        Interrupted(
            lossy, lambda: asyncio.run(write_two_markers(servers, f"mirrorlake.test.{lossy.where}", lossy.where))
        )
    else:
        Interrupted(lossy, lambda: append(servers, topic, 0, simple_records(2)))
    (row,) = lossy.worker.run(plan)
    assert isinstance(row.error, PositionMovedError), row
    (row,) = lossy.worker.run(plan)
    assert (type(row.error), row.records) == (MisalignedError if is_marker else DestinationForeignError, 0), row
    assert row.error is not None
    # Another producer's may come before our marker, as the coordinator writes that after its answer.
    assert row.error.facts["differing_offset"] in ((22,) if is_marker else (20, 21, 22))


# --- A4: data of a former owner, after its first record has become a gap ----------------------------------------


@pytest.mark.slow
def test_a_batch_sent_before_its_first_record_was_compacted_is_refused_after_the_gap_was_filled(
    proxy: Proxy, source_kafka: EmbeddedKafka, topic_name: str
) -> None:
    source, destination = source_kafka.bootstrap_servers, proxy.address
    create_compacted(source, topic_name)
    create_topic(destination, topic_name)
    where = TopicPartition(topic_name, 0)

    def append(*keys: str) -> None:
        now = int(time.time() * 1000)
        records = [Record(now, key.encode(), key.encode() + b"-value") for key in keys]
        asyncio.run(produce(source, topic_name, 0, [build_batch(records)]))

    def copy(end: int) -> LeaseRow:
        work = kafka_work(destination, where, gap_fill=MARKERS, source_is_compacted=True)
        return run_lease(lease_plan(source, [(where, [work])], end=end, seconds=20.0))[0, "west"]

    append(*(f"k{n}" for n in range(10)))
    assert copy(10).error is None
    append("x", "a", "b", "c", "x")
    late = proxy.hold(PRODUCE)
    work = kafka_work(destination, where, gap_fill=MARKERS, source_is_compacted=True)
    with leases_aside(lease_plan(source, [(where, [work])], end=15, seconds=1.0), count=1):
        late.await_arrival()  # all five records are on their way
    time.sleep(0.3)
    append("y")  # begins a new segment, so the one before may be cleaned
    wait_until(lambda: 10 not in consume(source, topic_name, 0), "the cleaner to take offset 10")
    row = copy(16)
    assert (row.error, row.position) == (None, 16)
    late.release()
    time.sleep(0.5)
    append("z")
    assert copy(17).error is None
    assert_clean(destination, [topic_name])
    assert_equal_in_kafka(source, destination, topic_name)


# --- A9: who sees what a gap was filled with ----------------------------------------------------------------------


@pytest.mark.parametrize(("gap_fill", "seen"), [(MARKERS, 0), (FILLER, 4)], ids=["markers", "fillers"])
def test_markers_are_seen_by_nobody_and_fillers_by_those_who_read_uncommitted_only(
    gap_fill: GapFill, seen: int, lossy: Lossy
) -> None:
    write_gapped(lossy)
    lossy.write(10)
    lossy.copy(gap_fill=gap_fill)
    committed = consume(lossy.proxy.address, lossy.topic, 0)
    everything = consume(lossy.proxy.address, lossy.topic, 0, isolation_level="read_uncommitted")
    assert sorted(committed) == [*range(20), *range(25, 35)]
    # Of a gap of five offsets the last is the marker that ends the transaction.
    assert sorted(everything.keys() - committed.keys()) == list(range(20, 20 + seen))


# --- A3, A6, A10: nodes that die while a marker is on its way ----------------------------------------------------


class NodesCopy:
    """A copy to a cluster of three nodes; what happens before a step of a filling is the test's to say."""

    def __init__(self, source: EmbeddedKafka, nodes: KafkaNodes, topic: str, gap_fill: GapFill) -> None:
        self.source, self.nodes, self.topic = source.bootstrap_servers, nodes, topic
        self.where = TopicPartition(topic, 0)
        self.gap_fill = gap_fill
        self._hooks: dict[str, Callable[[], None]] = {}
        self.worker = Worker(crash_point=self._at)
        self.work = kafka_work(nodes.bootstrap_servers, self.where, gap_fill=gap_fill)
        create_topic(self.source, topic)
        self.written = 0

    def write(self, count: int) -> None:
        records = simple_records(count, start=self.written, timestamp=int(time.time() * 1000))
        asyncio.run(produce(self.source, self.topic, 0, [build_batch(records)]))
        self.written += count

    def write_gap(self, count: int) -> None:
        append_in_transaction(self.source, self.topic, simple_records(count), committed=False)
        self.written += count + 1

    def before(self, step: FillStep, hook: Callable[[], None]) -> None:
        """The first time only."""
        self._hooks[step] = hook

    def _at(self, step: str) -> None:
        if hook := self._hooks.pop(step, None):
            # In a thread, because the calling one has an event loop running.
            with ThreadPoolExecutor(1) as aside:
                aside.submit(hook).result()

    def lease(self) -> LeaseRow:
        plan = lease_plan(self.source, [(self.where, [self.work])], end=self.written, seconds=30.0)
        (row,) = self.worker.run(plan)
        return row

    def copy(self) -> LeaseRow:
        """Leases until one ends well or stops for good; returns the last row."""
        give_up_at = time.monotonic() + 120.0
        while True:
            row = self.lease()
            if row.error is None or isinstance(row.error, DestinationForeignError):
                return row
            assert time.monotonic() < give_up_at, row
            time.sleep(0.5)

    def end(self) -> int:
        return log_end(self.nodes.inside_servers, self.topic)


NewCopy = Callable[[KafkaNodes, GapFill], NodesCopy]


@pytest.fixture
def copy_to(source_kafka: EmbeddedKafka, topic_name: str) -> Iterator[NewCopy]:
    made: list[NodesCopy] = []

    def make(nodes: KafkaNodes, gap_fill: GapFill) -> NodesCopy:
        made.append(NodesCopy(source_kafka, nodes, topic_name, gap_fill))
        return made[-1]

    yield make
    for each in made:
        each.worker.close()


@pytest.fixture
def coordinators_on_2_and_3(kafka_nodes: KafkaNodes) -> Iterator[KafkaNodes]:
    """What happens to node 1 holds up no coordinator."""
    kafka_nodes.move(TRANSACTION_STATE, [2, 3])
    yield kafka_nodes
    kafka_nodes.nodes[1].begin()
    for node in kafka_nodes.nodes.values():
        if node.is_running:
            node.resume()
    kafka_nodes.revive()


@pytest.mark.soak
def test_a_marker_that_a_new_coordinator_writes_again_skips_no_record(
    coordinators_on_2_and_3: KafkaNodes, copy_to: NewCopy, topic_name: str
) -> None:
    nodes = coordinators_on_2_and_3
    nodes.create_topic(topic_name, {0: [1]})
    copy = copy_to(nodes, MARKERS)
    copy.write(10)
    assert copy.copy().error is None
    copy.write_gap(1)  # two offsets, two markers
    coordinator = nodes.nodes[nodes.coordinator(copy.work.settings.transactional_id)]

    def kill_coordinator() -> None:
        time.sleep(0.5)  # its marker waits at the frozen leader
        coordinator.kill()
        nodes.nodes[1].resume()

    copy.before(FillStep.END_TRANSACTION, nodes.nodes[1].pause)
    copy.before(FillStep.AWAIT_MARKERS, kill_coordinator)
    copy.lease()
    nodes.revive()
    copy.write(10)
    row = copy.copy()
    if row.error is not None:
        # Overfilled: the next record could not get its offset, so none was appended.
        assert isinstance(row.error, DestinationForeignError)
        assert "misaligned" in row.error.message or "differing_offset" in row.error.facts
        assert row.records == 0
        assert sorted(consume(nodes.inside_servers, topic_name, 0)) == list(range(10))
    else:
        assert_equal_in_kafka(copy.source, nodes.inside_servers, topic_name)
    assert_clean(nodes.inside_servers, [topic_name])


@pytest.mark.soak
@pytest.mark.parametrize("gap_fill", [MARKERS, FILLER])
def test_a_transaction_that_ended_while_its_partition_had_no_leader_is_closed_and_the_copy_goes_on(
    gap_fill: GapFill, coordinators_on_2_and_3: KafkaNodes, copy_to: NewCopy, topic_name: str
) -> None:
    nodes = coordinators_on_2_and_3
    nodes.create_topic(topic_name, {0: [1]})
    copy = copy_to(nodes, gap_fill)
    copy.write(10)
    assert copy.copy().error is None
    copy.write_gap(4)

    def kill_leader() -> None:
        nodes.nodes[1].kill()
        wait_until(lambda: nodes.leader(topic_name) == -1, "no leader")

    copy.before(FillStep.END_TRANSACTION, kill_leader)
    copy.lease()
    nodes.revive()
    copy.write(10)
    row = copy.copy()
    assert (row.error, row.position) == (None, copy.written)
    assert_clean(nodes.inside_servers, [topic_name])
    assert_equal_in_kafka(copy.source, nodes.inside_servers, topic_name)


@pytest.mark.soak
def test_a_marker_dropped_by_an_unclean_election_is_written_again(
    kafka_nodes: KafkaNodes, copy_to: NewCopy, topic_name: str
) -> None:
    nodes = kafka_nodes
    nodes.move(TRANSACTION_STATE, [3])
    nodes.create_topic(topic_name, {0: [1, 2]}, unclean_leader_election_enable="true")
    copy = copy_to(nodes, FILLER)
    copy.write(10)
    assert copy.copy().error is None
    copy.write_gap(4)

    def freeze_follower() -> None:
        wait_until(lambda: source_end(nodes.inside_servers, topic_name) == 10, "the fillers, open")
        nodes.nodes[2].pause()
        wait_until(lambda: nodes.isr(topic_name) == (1,), "the follower to be out of sync")

    def elect_follower() -> None:
        wait_until(lambda: copy.end() == 15, "the marker")
        nodes.nodes[1].kill()
        nodes.nodes[2].resume()
        wait_until(lambda: nodes.leader(topic_name) == 2, "the unclean leader")

    copy.before(FillStep.END_TRANSACTION, freeze_follower)
    copy.before(FillStep.AWAIT_MARKERS, elect_follower)
    try:
        copy.lease()
        assert copy.end() == 14, "the marker was not dropped"
    finally:
        nodes.nodes[2].resume()
        nodes.revive()
    copy.write(10)
    row = copy.copy()
    assert (row.error, row.position) == (None, copy.written)
    assert_clean(nodes.inside_servers, [topic_name])
    assert_equal_in_kafka(copy.source, nodes.inside_servers, topic_name)
