"""A destination that takes less than the source gives, or nothing: leases end in time, and what they did is known."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import RunAsync
from mirrorlake.destinations.work import DestinationWork
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import RequestTimeoutError
from mirrorlake.mirror.lease_worker import Worker
from mirrorlake.mirror.work import LeasePlan, LeaseRow
from mirrorlake.offsets import TopicPartition
from support.cleanliness import assert_clean
from support.copies import assert_equal_in_archive, assert_equal_in_kafka, create_topic
from support.leases import archive_work, kafka_work, lease_plan, run_lease
from support.proxy import Proxy
from support.records import in_batches, produce, settings_of, simple_records

pytestmark = [pytest.mark.kafka]

RECORDS = simple_records(3000, size=4000)  # 12 MB, three seconds and more of what the destination takes
BYTES_PER_SECOND = 4 << 20
LEASE_SECONDS = 1.0


def copied_in_one_lease(worker: Worker, plan: LeasePlan) -> LeaseRow:
    """Runs one lease; its row must know where it ended."""
    (row,) = worker.run(plan)
    assert row.error is None
    assert row.position is not None
    return row


def test_leases_to_a_slow_destination_end_with_a_known_position_and_go_on_from_it(
    source_kafka: EmbeddedKafka, proxy: Proxy, topic_name: str, run_async: RunAsync
) -> None:
    source = TopicPartition(topic_name, 0)
    for servers in (source_kafka.bootstrap_servers, proxy.address):
        create_topic(servers, topic_name)
    run_async(produce(source_kafka.bootstrap_servers, topic_name, 0, in_batches(RECORDS, 30)))
    proxy.bytes_per_second = BYTES_PER_SECOND
    worker = Worker()
    try:
        plan = lease_plan(
            source_kafka.bootstrap_servers,
            [(source, [kafka_work(proxy.address, source)])],
            end=None,
            seconds=LEASE_SECONDS,
        )
        first = copied_in_one_lease(worker, plan)
        second = copied_in_one_lease(worker, plan)
        assert 0 < (first.position or 0) < len(RECORDS)
        assert second.start_offset == first.position
        proxy.bytes_per_second = 0
        copied_in_one_lease(worker, plan)
    finally:
        worker.close()

    assert assert_equal_in_kafka(source_kafka.bootstrap_servers, proxy.address, topic_name) == len(RECORDS)
    assert_clean(proxy.address, [topic_name])


@pytest.mark.slow
def test_a_destination_that_hangs_does_not_hold_up_another_one_of_the_same_partition(
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    proxy: Proxy,
    topic_name: str,
    tmp_path: Path,
    run_async: RunAsync,
) -> None:
    source, records = TopicPartition(topic_name, 0), RECORDS[:100]
    for servers in (source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, proxy.address):
        create_topic(servers, topic_name)
    run_async(produce(source_kafka.bootstrap_servers, topic_name, 0, in_batches(records, 10)))
    proxy.fall_silent()
    hangs = replace(kafka_work(proxy.address, source), destination="north", cluster=settings_of(proxy.address, "north"))
    others: list[DestinationWork] = [
        kafka_work(destination_kafka.bootstrap_servers, source),
        archive_work(tmp_path, source, end=len(records)),
    ]

    rows = run_lease(lease_plan(source_kafka.bootstrap_servers, [(source, [hangs, *others])], end=None, seconds=4.0))

    assert isinstance(rows[0, "north"].error, RequestTimeoutError)
    assert [(rows[0, name].error, rows[0, name].position) for name in ("west", "lake")] == [(None, 100), (None, 100)]
    assert assert_equal_in_kafka(source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, topic_name) == 100
    assert assert_equal_in_archive(source_kafka.bootstrap_servers, tmp_path, topic_name) == 100


@pytest.mark.slow
def test_a_destination_that_answers_late_is_copied_to_in_the_same_lease(
    source_kafka: EmbeddedKafka, proxy: Proxy, topic_name: str, tmp_path: Path, run_async: RunAsync
) -> None:
    source, records = TopicPartition(topic_name, 0), RECORDS[:100]
    for servers in (source_kafka.bootstrap_servers, proxy.address):
        create_topic(servers, topic_name)
    run_async(produce(source_kafka.bootstrap_servers, topic_name, 0, in_batches(records, 10)))
    works: list[DestinationWork] = [kafka_work(proxy.address, source), archive_work(tmp_path, source, end=len(records))]
    proxy.fall_silent()
    waking = threading.Timer(3.0, proxy.wake)
    waking.start()
    try:
        rows = run_lease(lease_plan(source_kafka.bootstrap_servers, [(source, works)], end=None, seconds=12.0))
    finally:
        waking.cancel()

    assert [(rows[0, name].error, rows[0, name].position) for name in ("west", "lake")] == [(None, 100), (None, 100)]
    assert assert_equal_in_kafka(source_kafka.bootstrap_servers, proxy.address, topic_name) == 100
