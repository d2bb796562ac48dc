"""Writers of one partition that are frozen and woken at random: one copy, nothing displaced, nothing missing.

Over a dense stream they race with appends alone, over one with gaps with fillings too.
"""

import contextlib
import os
import random
import signal
import time

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.mirror.work import LeasePlan
from mirrorlake.offsets import GapFill, TopicPartition
from support.cleanliness import assert_clean
from support.copies import assert_equal_in_kafka, create_topic, source_end
from support.gapped_load import gapped_load
from support.gaps import unseen_offsets
from support.lease_processes import LeaseProcesses, run_leases_until
from support.leases import kafka_work, lease_plan, run_lease
from support.load import Load

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

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
    with Load(source, topic, batch=2, pause_seconds=0.0005):
        disturb(plan, processes, seconds=seconds, chance=chance)
    end = source_end(source, topic)
    row = run_lease(lease_plan(source, [(where, [kafka_work(destination, where)])], end=end))[0, "west"]
    assert row.error is None
    assert row.position == end
    return assert_equal_in_kafka(source, destination, topic)


def disturb(plan: LeasePlan, processes: LeaseProcesses, *, seconds: float, chance: random.Random) -> None:
    """Lets three writers run the plan's lease again and again, one after another of them frozen and woken."""
    ends_at = time.time() + seconds
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


@pytest.mark.parametrize("gap_fill", [GapFill.MARKERS, GapFill.FILLER])
def test_three_writers_frozen_at_random_fill_every_gap_once(
    gap_fill: GapFill,
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    lease_processes: LeaseProcesses,
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    for servers in (source, destination):
        create_topic(servers, topic_name)
    where = TopicPartition(topic_name, 0)
    # Of one mirror, so that all three fill under one transactional id, as two processes of a service would.
    work = kafka_work(destination, where, mirror=topic_name, gap_fill=gap_fill)
    with gapped_load(source, topic_name, pause_seconds=0.02):
        plan = lease_plan(source, [(where, [work])], end=None, seconds=1.0)
        disturb(plan, lease_processes, seconds=7.0, chance=random.Random(3))
    end = source_end(source, topic_name)
    row = run_lease(lease_plan(source, [(where, [work])], end=end))[0, "west"]
    assert (row.error, row.position) == (None, end)
    records = assert_equal_in_kafka(source, destination, topic_name)
    gaps = unseen_offsets(destination, topic_name)
    assert len(gaps) == end - records, "every offset without a record is filled, by something nobody is shown"
    assert ("filler" in gaps.values()) == (gap_fill is GapFill.FILLER)
    assert min(records, len(gaps)) > 50
    assert_clean(destination, [topic_name])


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
