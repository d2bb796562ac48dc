"""A worker killed (SIGKILL) at any step of filling a gap: the next one completes the copy, and nothing stays open."""

import asyncio
import time

import pytest

from mirrorlake.destinations.preserve.settings import Step
from mirrorlake.destinations.transactions.gap_filler import FillStep
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.mirror.work import LeasePlan
from mirrorlake.offsets import GapFill, TopicPartition
from support.copies import assert_equal_in_kafka, assert_same_records, create_topic, log_end, source_end
from support.gaps import open_transactions
from support.lease_processes import Death, LeaseProcesses
from support.leases import kafka_work, lease_plan, run_lease
from support.records import consume, settings_of, simple_records
from support.topics import append
from support.transactions import append_in_transaction

pytestmark = pytest.mark.kafka

MARKERS, FILLER = GapFill.MARKERS, GapFill.FILLER

DEATHS = [
    *((MARKERS, step, occurrence) for step in FillStep for occurrence in (1, 2) if step is not FillStep.SEND_FILLER),
    *((FILLER, step, occurrence) for step in FillStep for occurrence in (1, 2)),
    (MARKERS, Step.FILL_GAP, 1),
    (FILLER, Step.FILL_GAP, 2),
    # Data behind a gap, at the epoch the filling left.
    (MARKERS, Step.SEND_BATCH, 3),
    (FILLER, Step.TAKE_ANSWER, 3),
]
ONLY_ONCE = {FillStep.INIT_PRODUCER}
"""An identity lasts as long as nothing goes wrong."""


@pytest.fixture(scope="module")
def gapped(source_kafka: EmbeddedKafka) -> TopicPartition:
    """A source with gaps of one offset and of several, at whose end is one."""
    servers, topic = source_kafka.bootstrap_servers, "gapped-source"
    create_topic(servers, topic)
    now = int(time.time() * 1000)
    written = 0
    for committed in (True, False, True, False):
        append(servers, topic, 0, simple_records(10, start=written, timestamp=now), batch_records=4)
        records = simple_records(5, start=written + 10, timestamp=now)
        append_in_transaction(servers, topic, records, committed=committed)
        written += 16
    assert source_end(servers, topic) == written
    return TopicPartition(topic, 0)


def plan_to(source: str, where: TopicPartition, destination: str, topic: str, gap_fill: GapFill) -> LeasePlan:
    work = kafka_work(destination, where, topic=topic, mirror=topic, gap_fill=gap_fill)
    return lease_plan(source, [(where, [work])], end=source_end(source, where.topic))


def assert_completed(source: str, where: TopicPartition, destination: str, topic: str) -> None:
    assert log_end(destination, topic) == source_end(source, where.topic)
    assert_same_records(consume(source, where.topic, 0), consume(destination, topic, 0))
    assert open_transactions(destination, [topic]) == []


@pytest.mark.parametrize(("gap_fill", "step", "occurrence"), [d for d in DEATHS if d[1] not in ONLY_ONCE or d[2] == 1])
def test_a_copy_killed_while_it_fills_a_gap_is_completed_by_the_next_worker(
    gap_fill: GapFill,
    step: str,
    occurrence: int,
    gapped: TopicPartition,
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    lease_processes: LeaseProcesses,
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(destination, topic_name)
    plan = plan_to(source, gapped, destination, topic_name, gap_fill)
    lease_processes.die_in_lease(plan, Death(step=step, occurrence=occurrence))

    row = run_lease(plan)[0, "west"]

    assert (row.error, row.position) == (None, 64)
    assert_completed(source, gapped, destination, topic_name)


@pytest.mark.parametrize(
    "step", [FillStep.SEND_FILLER, FillStep.END_TRANSACTION, FillStep.AWAIT_MARKERS, Step.DELETE_FILLERS]
)
def test_a_copy_killed_below_the_sources_log_start_leaves_no_filler_to_the_next(
    step: str,
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    lease_processes: LeaseProcesses,
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    where = TopicPartition(topic_name, 0)
    for servers in (source, destination):
        create_topic(servers, topic_name)
    append(source, topic_name, 0, simple_records(50, timestamp=int(time.time() * 1000)))
    _delete_records(source, where, 30)
    plan = plan_to(source, where, destination, topic_name, MARKERS)
    lease_processes.die_in_lease(plan, Death(step=step))

    row = run_lease(plan)[0, "west"]

    assert (row.error, row.position, row.records) == (None, 50, 20)
    assert assert_equal_in_kafka(source, destination, topic_name) == 20
    assert open_transactions(destination, [topic_name]) == []
    found = consume(destination, topic_name, 0, isolation_level="read_uncommitted")
    assert sorted(found) == list(range(30, 50)), "no filler is left for those who read uncommitted data"


@pytest.mark.parametrize("step", [FillStep.ADD_PARTITIONS, FillStep.END_TRANSACTION, FillStep.AWAIT_MARKERS])
def test_a_copy_killed_in_a_gap_that_a_rival_has_filled_meanwhile_is_right(
    step: str,
    gapped: TopicPartition,
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    lease_processes: LeaseProcesses,
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(destination, topic_name)
    plan = plan_to(source, gapped, destination, topic_name, MARKERS)
    rival = plan_to(source, gapped, destination, topic_name, FILLER)
    # The rival copies everything while the first one stands before the step.
    lease_processes.die_in_lease(plan, Death(step=step, rival=rival, rival_at=step))
    row = run_lease(plan)[0, "west"]
    assert (row.error, row.position) == (None, 64)
    assert_completed(source, gapped, destination, topic_name)


def _delete_records(servers: str, where: TopicPartition, before: int) -> None:
    async def delete() -> None:
        async with ClusterClient(settings_of(servers)) as client:
            assert (await client.delete_records({where: before}))[where] == before

    asyncio.run(delete())
