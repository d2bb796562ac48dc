"""Map mode: a worker killed or frozen before any step of a transaction; the next one completes the copy exactly."""

import contextlib
import os
import random
import signal
import time
from pathlib import Path

import pytest

from conftest import RunAsync
from mirrorlake.destinations.map_settings import Step
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.offsets import TopicPartition
from support.copies import create_topic, source_end, wait_until
from support.lease_processes import Death, LeaseProcesses, freeze_in_lease, run_leases_until
from support.leases import lease_plan, map_work, run_lease
from support.load import Load
from support.map_copies import assert_equal_through_map, assert_nothing_open
from support.records import in_batches, produce, simple_records
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
    # So large that no batch is joined with its neighbours.
    records = simple_records(RECORDS, size=2000, timestamp=int(time.time() * 1000))
    run_async(produce(source_kafka.bootstrap_servers, topic_name, 0, list(in_batches(records, RECORDS_PER_BATCH))))
    append_in_transaction(
        source_kafka.bootstrap_servers, topic_name, simple_records(ABORTED, start=9000), committed=False
    )
    return TopicPartition(topic_name, 0)


def test_every_step_of_a_transaction_has_its_death() -> None:
    assert {step for step, _ in DEATHS} == set(Step)


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
    zombie = lease_processes.start(freeze_in_lease, plan, step, occurrence)
    assert zombie.pid is not None
    stat = Path(f"/proc/{zombie.pid}/stat")
    wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "the worker to freeze")

    row = run_lease(plan)[0, "west"]
    assert row.error is None
    assert row.position == END
    os.kill(zombie.pid, signal.SIGCONT)
    zombie.join(60)

    assert zombie.exitcode == 0, "it ends by itself"
    assert assert_equal_through_map(source, destination, topic) == RECORDS
    assert run_lease(plan)[0, "west"].error is None
    assert_nothing_open(destination, topic.topic, topic)


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
