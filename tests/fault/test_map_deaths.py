"""Map mode: a worker killed or frozen before any step of a transaction; the next one completes the copy exactly."""

import asyncio
import contextlib
import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import NewKafka, RunAsync
from mirrorlake.destinations.map import shard_transaction
from mirrorlake.destinations.map.settings import Step, map_transactional_id
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.mirror.lease_worker import Worker
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from support.copies import create_topic, source_end, wait_until
from support.lease_processes import Death, LeaseProcesses, run_leases_until, wake
from support.leases import lease_plan, map_work, run_lease
from support.load import Load
from support.map_copies import assert_equal_through_map, assert_nothing_open
from support.records import in_batches, produce, settings_of, simple_records
from support.topics import append, make_topic
from support.transactions import append_in_transaction

pytestmark = pytest.mark.kafka

RECORDS = 400
RECORDS_PER_BATCH = 10
ABORTED = 3
END = RECORDS + ABORTED + 1

DEATHS = [
    (Step.FENCE, 1),
    (Step.READ_PROGRESS, 1),
    (Step.ADD_PARTITIONS, 1),  # the transaction that writes down where to begin
    (Step.ADD_PARTITIONS, 2),
    (Step.SEND_BATCH, 1),
    (Step.SEND_BATCH, 6),  # five in flight
    (Step.SEND_BATCH, 21),  # more than five in flight
    (Step.SEND_BATCH, 23),
    (Step.TAKE_ANSWER, 1),  # appended, and nobody heard of it
    (Step.TAKE_ANSWER, RECORDS // RECORDS_PER_BATCH),
    (Step.SEND_PROGRESS, 1),
    (Step.SEND_PROGRESS, 2),  # all data is there, and no progress
    (Step.COMMIT, 1),
    (Step.COMMIT, 2),  # between Produce and EndTxn
    (Step.TAKE_COMMIT, 1),
    (Step.TAKE_COMMIT, 2),  # EndTxn is through, and nobody heard of it
    (Step.LOOK_CLOSED, 1),
    (Step.LOOK_CLOSED, 2),
]


@pytest.fixture
def topic(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> TopicPartition:
    """A source topic with records of today and an aborted transaction at the end, and an empty destination topic."""
    for server in (source_kafka, destination_kafka):
        create_topic(server.bootstrap_servers, topic_name)
    # So large that no batch is coalesced with others.
    records = simple_records(RECORDS, size=2000, timestamp=int(time.time() * 1000))
    run_async(produce(source_kafka.bootstrap_servers, topic_name, 0, list(in_batches(records, RECORDS_PER_BATCH))))
    append_in_transaction(
        source_kafka.bootstrap_servers, topic_name, simple_records(ABORTED, start=9000), committed=False
    )
    return TopicPartition(topic_name, 0)


def test_every_step_of_a_transaction_has_its_death() -> None:
    # Those at dead letters are in `test_dead_letter_deaths.py`.
    assert {step for step, _ in DEATHS} == set(Step) - {Step.SEND_LETTERS}


@pytest.mark.parametrize(("step", "occurrence"), DEATHS)
def test_a_mapped_copy_killed_at_any_step_is_completed_by_the_next_worker(
    step: str,
    occurrence: int,
    topic: TopicPartition,
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    lease_processes: LeaseProcesses,
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    plan = lease_plan(source, [(topic, [map_work(destination, topic)])], end=END)
    lease_processes.die_in_lease(plan, Death(step=step, occurrence=occurrence))

    row = run_lease(plan)[0, "west"]

    assert row.error is None
    assert row.position == END
    assert assert_equal_through_map(source, destination, topic) == RECORDS
    assert_nothing_open(destination, topic.topic, topic)


@pytest.mark.parametrize(
    ("step", "occurrence"),
    [(Step.READ_PROGRESS, 1), (Step.SEND_BATCH, 2), (Step.SEND_PROGRESS, 2), (Step.COMMIT, 2), (Step.LOOK_CLOSED, 2)],
)
def test_a_frozen_worker_that_wakes_after_another_has_taken_over_changes_nothing(
    step: str,
    occurrence: int,
    topic: TopicPartition,
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    lease_processes: LeaseProcesses,
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    plan = lease_plan(source, [(topic, [map_work(destination, topic)])], end=END)
    zombie = lease_processes.freeze_in_lease(plan, step, occurrence)

    row = run_lease(plan)[0, "west"]
    assert row.error is None
    assert row.position == END
    wake(zombie)

    assert zombie.exitcode == 0, "it ends by itself"
    assert assert_equal_through_map(source, destination, topic) == RECORDS
    assert run_lease(plan)[0, "west"].error is None
    assert_nothing_open(destination, topic.topic, topic)


@pytest.mark.slow
def test_a_transaction_that_the_broker_ended_for_its_age_is_copied_again(
    source_kafka: EmbeddedKafka,
    new_kafka: NewKafka,
    topic_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All was appended when the worker stood still; the coordinator aborts it, and what it then commits is nothing."""
    monkeypatch.setattr(shard_transaction, "TRANSACTION_TIMEOUT_MS", 1000)
    source = source_kafka.bootstrap_servers
    destination = new_kafka(transaction_abort_timed_out_transaction_cleanup_interval_ms=100).bootstrap_servers
    make_topic(source, topic_name, simple_records(50, timestamp=int(time.time() * 1000)))
    create_topic(destination, topic_name)
    where = TopicPartition(topic_name, 0)
    plan = lease_plan(source, [(where, [map_work(destination, where)])], end=50)
    commits = 0

    def stand_still(step: str) -> None:
        nonlocal commits
        commits += step == Step.COMMIT
        if step == Step.COMMIT and commits == 2:
            wait_until(lambda: state_of(destination, topic_name) == "CompleteAbort", "the coordinator to abort")

    worker = Worker(crash_point=stand_still)
    try:
        worker.run(plan)
    finally:
        worker.close()
    assert commits >= 2

    row = run_lease(plan)[0, "west"]
    assert (row.error, row.position) == (None, 50)
    assert assert_equal_through_map(source, destination, where) == 50
    assert_nothing_open(destination, topic_name, where)


@pytest.mark.slow
def test_a_mapped_copy_goes_on_where_its_transactional_id_has_expired(
    source_kafka: EmbeddedKafka, new_kafka: NewKafka, topic_name: str
) -> None:
    """The id then stands for another producer id; position and map lie in the progress topic, not with the id."""
    source = source_kafka.bootstrap_servers
    destination = new_kafka(
        transactional_id_expiration_ms=3000, transaction_remove_expired_transaction_cleanup_interval_ms=200
    ).bootstrap_servers
    make_topic(source, topic_name, simple_records(20))
    create_topic(destination, topic_name)
    where = TopicPartition(topic_name, 0)

    def copy(end: int) -> LeaseRow:
        return run_lease(lease_plan(source, [(where, [map_work(destination, where)])], end=end))[0, "west"]

    assert copy(20).position == 20
    wait_until(lambda: state_of(destination, topic_name) is None, "the transactional id to expire")
    append(source, topic_name, 0, simple_records(5, start=20))

    row = copy(25)
    assert (row.error, row.position) == (None, 25)
    assert assert_equal_through_map(source, destination, where) == 25


def state_of(servers: str, mirror: str) -> str | None:
    """What the coordinator says of the mirror's transaction; None where it does not know its id."""
    name = map_transactional_id(mirror, 0)

    async def ask() -> str | None:
        async with ClusterClient(settings_of(servers)) as client:
            found = (await client.describe_transactions([name]))[name]
            assert not isinstance(found, MirrorlakeError), found
            return found.state if found else None

    with ThreadPoolExecutor(1) as aside:  # the calling thread may have a loop at work
        return aside.submit(lambda: asyncio.run(ask())).result()


def fight(
    source: str, destination: str, topic: str, processes: LeaseProcesses, *, seconds: float, chance: random.Random
) -> int:
    """Three writers map a growing partition side by side, frozen, woken and killed; returns the records compared."""
    create_topic(source, topic)
    create_topic(destination, topic)
    where = TopicPartition(topic, 0)
    plan = lease_plan(source, [(where, [map_work(destination, where)])], end=None, seconds=1.0)
    ends_at = time.time() + seconds
    with Load(source, topic, batch=5):
        writers = [processes.start(run_leases_until, plan, ends_at) for _ in range(3)]
        while time.time() < ends_at - 1:
            number = chance.randrange(3)
            pid = writers[number].pid
            assert pid is not None
            if chance.random() < 0.2:
                send(pid, signal.SIGKILL)
                writers[number] = processes.start(run_leases_until, plan, ends_at)
                continue
            send(pid, signal.SIGSTOP)
            time.sleep(chance.choice((0.005, 0.05, 0.3, 1.5)))
            send(pid, signal.SIGCONT)
            time.sleep(chance.choice((0.02, 0.5)))
        for writer in writers:
            writer.join(60)
            assert writer.exitcode == 0
    end = source_end(source, topic)
    last = lease_plan(source, [(where, [map_work(destination, where)])], end=end, seconds=60.0)
    row = run_lease(last)[0, "west"]
    assert row.error is None
    assert row.position == end
    assert_nothing_open(destination, topic, where)
    return assert_equal_through_map(source, destination, where)


def send(pid: int, number: int) -> None:
    """A writer may have come to its end already; how it ended is looked at afterwards."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


@pytest.mark.slow
def test_three_writers_frozen_and_killed_at_random_double_nothing_and_lose_nothing(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, lease_processes: LeaseProcesses
) -> None:
    compared = fight(
        source_kafka.bootstrap_servers,
        destination_kafka.bootstrap_servers,
        topic_name,
        lease_processes,
        seconds=12.0,
        chance=random.Random(2),
    )
    assert compared > 200


@pytest.mark.soak
def test_three_writers_frozen_and_killed_at_random_for_a_long_time(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, lease_processes: LeaseProcesses
) -> None:
    chance = random.Random(int(os.environ.get("SOAK_SEED", "1")))
    give_up_at = time.monotonic() + float(os.environ.get("SOAK_SECONDS", "300"))
    round_number = 0
    while time.monotonic() < give_up_at:
        round_number += 1
        fight(
            source_kafka.bootstrap_servers,
            destination_kafka.bootstrap_servers,
            f"{topic_name}-{round_number}",
            lease_processes,
            seconds=30.0,
            chance=chance,
        )
