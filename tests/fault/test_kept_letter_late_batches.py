"""Equal offsets with dead letters: a batch of an owner before that the network delivers when its time is long over.

It has copies of records that have a letter by then, under the epoch that the partition knows (0266).
"""

import asyncio
import threading
import time
from dataclasses import replace
from typing import Any

import pytest

from mirrorlake.destinations.letters.settings import LetterStep
from mirrorlake.destinations.preserve.settings import Step
from mirrorlake.destinations.transactions.gap_filler import FillStep
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import MisalignedError, PositionMovedError
from mirrorlake.kafka.schema_ids.id_map import SchemaIdMap
from mirrorlake.mirror.lease_worker import Worker
from mirrorlake.mirror.work import LeasePlan, LeaseRow
from mirrorlake.offsets import TopicPartition
from support.copies import create_topic, log_end, wait_until
from support.kept_letters import (
    ABSENT_ID,
    HERE,
    IDS,
    LATER_IDS,
    create_letter_topics,
    lettered_offsets,
    lettering,
)
from support.lease_processes import LeaseProcesses, run_leases_until
from support.leases import lease_plan
from support.proxy import PRODUCE, Proxy
from support.records import Record, build_batch, consume, produce
from support.schema_site import framed

pytestmark = pytest.mark.kafka

FIRST, LETTERED, END = 2, [2, 3, 4], 7
REQUEST_SECONDS = 3.0


@pytest.fixture
def topic(source_kafka: EmbeddedKafka, proxy: Proxy, topic_name: str) -> TopicPartition:
    """Two records that anyone can read, three in one batch of which an owner before could, and two more."""
    source = source_kafka.bootstrap_servers
    for servers in (source, proxy.address):
        create_topic(servers, topic_name)
    create_letter_topics(proxy.address, topic_name)
    ids = [HERE] * FIRST + [ABSENT_ID] * len(LETTERED) + [HERE] * (END - FIRST - len(LETTERED))
    now_ms = int(time.time() * 1000)
    records = [Record(now_ms, b"%d" % n, framed(id_, b"body %d" % n)) for n, id_ in enumerate(ids)]
    batches = [records[:FIRST], records[FIRST:5], records[5:]]
    asyncio.run(produce(source, topic_name, 0, [build_batch(each) for each in batches]))
    return TopicPartition(topic_name, 0)


def plan_of(
    source: str, proxy: Proxy, topic: TopicPartition, ids: SchemaIdMap, *, end: int = END, **orders: Any
) -> LeasePlan:
    work = lettering(proxy.address, topic, ids=ids)
    work = replace(work, orders=replace(work.orders, **orders))
    work = replace(work, cluster=replace(work.cluster, request_timeout_seconds=REQUEST_SECONDS))
    return lease_plan(source, [(topic, [work])], end=end, seconds=20.0)


def run_beside(
    source: str,
    proxy: Proxy,
    topic: TopicPartition,
    processes: LeaseProcesses,
    step: str,
    occurrence: int = 1,
    **orders: Any,
) -> LeaseRow:
    """A lease that knows less ids than the owner before, whose batch arrives before the step."""
    Worker().run(plan_of(source, proxy, topic, LATER_IDS, end=FIRST))
    late = proxy.hold(PRODUCE)
    before = processes.start(run_leases_until, plan_of(source, proxy, topic, LATER_IDS), time.time() + 60)
    late.await_arrival()
    before.kill()
    before.join()
    seen = 0

    def deliver() -> None:
        late.release()
        wait_until(lambda: log_end(proxy.address, topic.topic) > FIRST, "the batch to arrive")

    def crash_point(reached: str) -> None:
        nonlocal seen
        seen += reached == step
        if reached == step and seen == occurrence:
            aside = threading.Thread(target=deliver)  # this one has an event loop running
            aside.start()
            aside.join()

    (row,) = Worker(crash_point=crash_point).run(plan_of(source, proxy, topic, IDS, **orders))
    assert seen >= occurrence
    return row


@pytest.mark.parametrize(
    ("step", "occurrence", "wait_seconds"),
    [
        (LetterStep.READ_PROGRESS, 2, 2.0),  # in the time of the owner before, which this one waits out
        (Step.WRITE_LETTERS, 1, 0.0),
    ],
)
def test_what_an_owner_before_has_copied_since_the_claim_gets_no_letters(
    step: str,
    occurrence: int,
    wait_seconds: float,
    topic: TopicPartition,
    source_kafka: EmbeddedKafka,
    proxy: Proxy,
    lease_processes: LeaseProcesses,
) -> None:
    source = source_kafka.bootstrap_servers

    row = run_beside(source, proxy, topic, lease_processes, step, occurrence, fill_wait_seconds=wait_seconds)

    assert isinstance(row.error, PositionMovedError)
    (row,) = Worker().run(plan_of(source, proxy, topic, IDS))
    assert (row.error, row.position) == (None, END)
    assert lettered_offsets(proxy.address, topic) == []
    assert sorted(consume(proxy.address, topic.topic, 0)) == [*range(END)]


@pytest.mark.parametrize("step", [LetterStep.COMMIT, Step.FILL_GAP])
def test_a_batch_that_comes_later_still_is_in_the_copy_too_and_its_offset_is_named(
    step: str, topic: TopicPartition, source_kafka: EmbeddedKafka, proxy: Proxy, lease_processes: LeaseProcesses
) -> None:
    """Nothing can stop it: the first that could, a marker, is what takes its offset."""
    source = source_kafka.bootstrap_servers

    row = run_beside(source, proxy, topic, lease_processes, step)

    assert isinstance(row.error, PositionMovedError)
    assert "and those below 5 may be in the copy too" in row.error.message
    (row,) = Worker().run(plan_of(source, proxy, topic, IDS))
    assert (row.error, row.position) == (None, END)
    assert lettered_offsets(proxy.address, topic) == LETTERED
    assert sorted(consume(proxy.address, topic.topic, 0)) == [*range(END)]


def test_a_batch_that_comes_as_its_offsets_are_filled_parks_its_partition(
    topic: TopicPartition, source_kafka: EmbeddedKafka, proxy: Proxy, lease_processes: LeaseProcesses
) -> None:
    source = source_kafka.bootstrap_servers

    row = run_beside(source, proxy, topic, lease_processes, FillStep.ADD_PARTITIONS)

    assert isinstance(row.error, PositionMovedError)
    (row,) = Worker().run(plan_of(source, proxy, topic, IDS))
    assert isinstance(row.error, MisalignedError)
