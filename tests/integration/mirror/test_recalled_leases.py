"""A lease that is asked to end before its time, or has a partition that ended, ends in order: nothing is unknown."""

import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import RunAsync
from mirrorlake.clock import SystemClock
from mirrorlake.destinations.connections import LeaseConnections, WorkerCache
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import OutcomeUnknownError, TopicMissingError
from mirrorlake.mirror.lease import LeaseWork
from mirrorlake.mirror.lease_worker import RECEIVE_BUFFER_BYTES
from mirrorlake.mirror.told_progress import read_told
from mirrorlake.mirror.work import LeasePlan, LeaseRow, PartitionWork
from mirrorlake.offsets import TopicPartition
from support.copies import assert_equal_in_kafka, create_topic
from support.leases import archive_work, kafka_work, lease_plan, run_lease
from support.records import in_batches, produce, simple_records
from support.sources import read_from, source_cluster

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

COUNT = 200
LEASE_SECONDS = 60.0
"""Far longer than any of these leases takes when it ends early."""


@pytest.fixture
def plan(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> LeasePlan:
    """A live copy of one partition with records, for a minute."""
    source = TopicPartition(topic_name, 0)
    for server in (source_kafka, destination_kafka):
        create_topic(server.bootstrap_servers, topic_name)
    run_async(produce(source_kafka.bootstrap_servers, topic_name, 0, in_batches(simple_records(COUNT), 20)))
    return lease_plan(
        source_kafka.bootstrap_servers,
        [(source, [kafka_work(destination_kafka.bootstrap_servers, source)])],
        end=None,
        seconds=LEASE_SECONDS,
    )


@pytest.fixture
def recall_file(tmp_path: Path) -> Iterator[Path]:
    """Appears while the lease runs."""
    file = tmp_path / "recall"
    timer = threading.Timer(2.0, file.touch)
    timer.start()
    yield file
    timer.cancel()


def patient(work: PartitionWork) -> PartitionWork:
    """The same from a source that holds its answers back for a minute."""
    return read_from(work, replace(source_cluster(work), fetch_bytes_min=1 << 30, fetch_wait_seconds_max=60.0))


def ended_early(plan: LeasePlan) -> dict[tuple[int, str], LeaseRow]:
    """Runs the lease, which must not take its whole time."""
    began = time.monotonic()
    rows = run_lease(plan)
    assert time.monotonic() - began < LEASE_SECONDS
    return rows


def positions(rows: dict[tuple[int, str], LeaseRow]) -> dict[str, tuple[str, int | None]]:
    return {name: (str(row.error or ""), row.position) for (_, name), row in rows.items()}


@pytest.mark.quick
def test_a_recalled_lease_ends_with_everything_known(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, plan: LeasePlan, recall_file: Path
) -> None:
    rows = ended_early(replace(plan, recall_file=str(recall_file)))

    assert positions(rows) == {"west": ("", COUNT)}
    servers = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    assert assert_equal_in_kafka(*servers, topic_name) == COUNT


def test_a_recalled_lease_does_not_wait_for_an_answer_that_the_source_holds_back(
    plan: LeasePlan, recall_file: Path
) -> None:
    waiting = replace(plan, partitions=tuple(map(patient, plan.partitions)), recall_file=str(recall_file))

    assert positions(ended_early(waiting))["west"][0] == ""


def test_a_lease_that_is_recalled_before_it_begins_reads_its_positions_all_the_same(
    plan: LeasePlan, tmp_path: Path
) -> None:
    (tmp_path / "recall").touch()

    assert positions(ended_early(replace(plan, recall_file=str(tmp_path / "recall")))) == {"west": ("", COUNT)}


def test_a_recalled_lease_publishes_the_segment_it_has_begun(
    plan: LeasePlan, tmp_path: Path, recall_file: Path
) -> None:
    (work,) = plan.partitions
    both = replace(work, destinations=(*work.destinations, archive_work(tmp_path, work.source, end=COUNT)))

    rows = ended_early(replace(plan, partitions=(both,), recall_file=str(recall_file)))

    assert positions(rows) == {"west": ("", COUNT), "lake": ("", COUNT)}


def test_of_a_destination_that_has_not_answered_yet_a_recalled_lease_does_not_say_that_it_does_not_answer(
    source_kafka: EmbeddedKafka, topic_name: str, plan: LeasePlan, recall_file: Path
) -> None:
    source = TopicPartition(topic_name, 0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        work = kafka_work(f"127.0.0.1:{silent.getsockname()[1]}", source)
        servers = source_kafka.bootstrap_servers
        waiting = lease_plan(servers, [(source, [work])], end=None, seconds=LEASE_SECONDS)
        rows = ended_early(replace(waiting, recall_file=str(recall_file)))

    (row,) = rows.values()
    assert isinstance(row.error, OutcomeUnknownError)
    assert row.error.message.startswith("the lease was ended early, before destination west of source ")


def test_a_lease_that_runs_tells_what_it_has_copied(plan: LeasePlan, tmp_path: Path, recall_file: Path) -> None:
    file = tmp_path / "progress"
    told: set[tuple[int, int]] = set()

    def look() -> None:
        while not recall_file.exists():
            told.update((each.position, each.records) for each in read_told(str(file)))
            time.sleep(0.1)

    looking = threading.Thread(target=look)
    looking.start()
    rows = ended_early(replace(plan, recall_file=str(recall_file), progress_file=str(file)))
    looking.join()

    assert positions(rows) == {"west": ("", COUNT)}
    assert (COUNT, COUNT) in told


def test_an_archive_that_waits_for_its_turn_is_left_to_the_next_lease_without_an_error(
    plan: LeasePlan, tmp_path: Path, recall_file: Path, run_async: RunAsync
) -> None:
    (work,) = plan.partitions
    waiting = replace(work, destinations=(archive_work(tmp_path, work.source, end=COUNT),))

    async def lease_with_a_busy_encoder() -> list[LeaseRow]:
        cache, clock = WorkerCache(), SystemClock()
        until = clock.elapsed_seconds() + LEASE_SECONDS
        connections = LeaseConnections(
            cache,
            clock=clock,
            live_until_seconds=until,
            send_until_seconds=until,
            receive_buffer_bytes=RECEIVE_BUFFER_BYTES,
            memory_bytes_max=64 << 20,
        )
        lease = LeaseWork(replace(plan, partitions=(waiting,), recall_file=str(recall_file)), connections, clock)
        await lease.encoder.take()
        try:
            return await lease.run()
        finally:
            await cache.close()

    (row,) = run_async(lease_with_a_busy_encoder())
    assert (row.error, row.position) == (None, 0)


def test_a_long_lease_ends_early_where_a_partition_has_failed_and_not_before_a_usual_ones_end(
    destination_kafka: EmbeddedKafka, plan: LeasePlan
) -> None:
    (work,) = plan.partitions
    missing = TopicPartition(work.source.topic, 1)
    lost = replace(work, source=missing, destinations=(kafka_work(destination_kafka.bootstrap_servers, missing),))
    began = time.monotonic()

    rows = ended_early(replace(plan, partitions=(work, lost), unbroken_seconds=3.0))

    assert time.monotonic() - began >= 3.0
    assert rows[0, "west"].error is None
    assert rows[0, "west"].position == COUNT
    assert isinstance(rows[1, "west"].error, TopicMissingError)
