"""Writers of one partition that are frozen and woken at random: one copy, nothing displaced, nothing missing."""

import contextlib
import os
import random
import signal
import time

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.offsets import TopicPartition
from support.copies import assert_equal_in_kafka, create_topic, source_end
from support.lease_processes import LeaseProcesses, run_leases_until
from support.leases import kafka_work, lease_plan, run_lease
from support.load import Load

pytestmark = pytest.mark.kafka

WRITERS = 3


def send(pid: int, number: int) -> None:
    """A writer may have come to its end already; how it ended is looked at afterwards."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def fight(
    source: str, destination: str, topic: str, processes: LeaseProcesses, *, seconds: float, chance: random.Random
) -> int:
    """Three writers copy a growing partition side by side, frozen and woken; returns the records compared."""
    create_topic(source, topic)
    create_topic(destination, topic)
    where = TopicPartition(topic, 0)
    plan = lease_plan(source, [(where, [kafka_work(destination, where)])], end=None, seconds=1.0)
    ends_at = time.time() + seconds
    with Load(source, topic, batch=2, pause_seconds=0.0005):
        writers = [processes.start(run_leases_until, plan, ends_at) for _ in range(WRITERS)]
        pids = [writer.pid for writer in writers if writer.pid is not None]
        try:
            while time.time() < ends_at - 1:
                victim = chance.choice(pids)
                send(victim, signal.SIGSTOP)
                # The last is longer than a lease: such a writer wakes with a claim that has expired.
                time.sleep(chance.choice((0.005, 0.05, 0.3, 2.0)))
                send(victim, signal.SIGCONT)
                time.sleep(0.02)
        finally:
            for pid in pids:
                send(pid, signal.SIGCONT)
        for writer in writers:
            writer.join(60)
            assert writer.exitcode == 0
    end = source_end(source, topic)
    row = run_lease(lease_plan(source, [(where, [kafka_work(destination, where)])], end=end))[0, "west"]
    assert row.error is None
    assert row.position == end
    return assert_equal_in_kafka(source, destination, topic)


def test_three_writers_frozen_at_random_displace_nothing_and_lose_nothing(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, lease_processes: LeaseProcesses
) -> None:
    compared = fight(
        source_kafka.bootstrap_servers,
        destination_kafka.bootstrap_servers,
        topic_name,
        lease_processes,
        seconds=15.0,
        chance=random.Random(1),
    )
    assert compared > 1000


@pytest.mark.soak
def test_three_writers_frozen_at_random_for_a_long_time(
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
