"""Brokers that restart, freeze, or lose answers: a mirror goes on by itself and its copies stay equal."""

import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import NewKafka, RunAsync
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import TransientError
from mirrorlake.mirror.lease_worker import Worker
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from support.cleanliness import assert_clean
from support.copies import (
    archive_position,
    assert_equal_in_archive,
    assert_equal_in_kafka,
    create_topic,
    log_end,
    source_end,
    wait_until,
)
from support.kafka_nodes import KafkaNodes
from support.lease_processes import LeaseProcesses, run_leases_until
from support.leases import archive_work, kafka_work, lease_plan, run_lease
from support.load import Load
from support.lossy import Lossy
from support.mirrors import write_config
from support.places import small_disk
from support.proxy import PRODUCE, Proxy
from support.records import in_batches, produce, simple_records
from support.service_process import ServiceProcess
from support.sources import read_from, source_cluster

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

FROZEN_SECONDS = 4.0


def restarted(server: EmbeddedKafka) -> None:
    server.restart()


def crashed(server: EmbeddedKafka) -> None:
    server.kill()
    server.start()


def frozen(server: EmbeddedKafka) -> None:
    server.pause()
    time.sleep(FROZEN_SECONDS)
    server.resume()


def test_a_running_service_survives_restarts_crashes_and_freezes_of_both_brokers(
    new_kafka: NewKafka, topic_name: str, tmp_path: Path
) -> None:
    source, destination = new_kafka(), new_kafka()
    east, west, lake = source.bootstrap_servers, destination.bootstrap_servers, tmp_path / "lake"
    create_topic(east, topic_name)
    config = write_config(
        tmp_path / "mirror.yaml", source=east, topic=topic_name, destination=west, lake=lake, max_time="1s"
    )

    def await_caught_up(service: ServiceProcess) -> None:
        """Both copies get what the source has now."""
        end = source_end(east, topic_name)
        wait_until(
            lambda: (
                not service.is_running
                or (log_end(west, topic_name) >= end and archive_position(lake, topic_name) >= end)
            ),
            f"{end} at both destinations",
            log=service.said,
        )
        assert service.is_running, service.said()

    faults: list[tuple[EmbeddedKafka, Callable[[EmbeddedKafka], None]]] = [
        (server, fault) for fault in (restarted, crashed, frozen) for server in (source, destination)
    ]
    with ServiceProcess("run", "-c", str(config), folder=tmp_path, without_spark=True) as service:
        for server, fault in faults:
            with Load(east, topic_name):
                await_caught_up(service)
                fault(server)
                time.sleep(0.5)
            await_caught_up(service)
        service.stop()
        assert service.exit_code() == 0, service.said()
        assert "partition parked" not in service.said()
        service.assert_nothing_left()
    assert assert_equal_in_kafka(east, west, topic_name) > 0
    assert assert_equal_in_archive(east, lake, topic_name) > 0


@pytest.mark.parametrize(
    ("hanging", "without_spark"),
    [pytest.param("destination", False, marks=pytest.mark.spark), ("source", True)],
    ids=["destination", "source"],
)
def test_a_broker_that_hangs_does_not_keep_another_mirrors_records_from_its_destinations(
    hanging: str,
    without_spark: bool,
    new_kafka: NewKafka,
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    tmp_path: Path,
) -> None:
    stuck = new_kafka()
    east, west, lake = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, tmp_path / "lake"
    from_servers, to_servers = stuck.bootstrap_servers, west
    if hanging == "destination":
        from_servers, to_servers = east, stuck.bootstrap_servers
    partitions = 4  # so many that every lane has partitions of both mirrors
    healthy = f"{topic_name}-healthy"
    create_topic(from_servers, topic_name, partitions)
    create_topic(east, healthy, partitions)
    config = write_config(
        tmp_path / "mirror.yaml",
        source=from_servers,
        topic=topic_name,
        destination=to_servers,
        lake=lake,
        max_time="1s",
        more_clusters=f'  north: {{bootstrap-servers: "{east}"}}\n  south: {{bootstrap-servers: "{west}"}}',
        more_mirrors=f"""  - name: {healthy}
    source: {{cluster: north, topics: [{healthy}]}}
    destinations:
      - {{type: kafka, cluster: south}}
      - {{type: archive, store: lake, flush: {{max-time: 1s}}}}""",
    )

    def ends(servers: str, topic: str) -> int:
        return sum(source_end(servers, topic, n) for n in range(partitions))

    def held(servers: str, topic: str) -> int:
        return sum(log_end(servers, topic, n) for n in range(partitions))

    def archived(topic: str) -> int:
        return sum(archive_position(lake, topic, n) for n in range(partitions))

    def reaches(found: Callable[[], int], end: int, where: str) -> None:
        wait_until(lambda: found() >= end, f"{end} {where}", log=service.said, patience_seconds=45.0)

    with (
        Load(from_servers, topic_name, partitions=partitions) as load,
        Load(east, healthy, partitions=partitions),
        ServiceProcess("run", "-c", str(config), folder=tmp_path, without_spark=without_spark) as service,
    ):
        wait_until(lambda: held(to_servers, topic_name) and held(west, healthy), "a start", log=service.said)
        stuck.pause()
        try:
            for _ in range(3):
                end = ends(east, healthy)
                reaches(lambda: held(west, healthy), end, "in Kafka")
                reaches(lambda: archived(healthy), end, "archived")
            if hanging == "destination":  # the archive beside it goes on too
                reaches(lambda: archived(topic_name), ends(east, topic_name), "archived beside the hanging one")
        finally:
            stuck.resume()
        load.stop()
        reaches(lambda: held(to_servers, topic_name), ends(from_servers, topic_name), "after all")
        service.stop()
        assert service.exit_code() == 0, service.said()
        assert "partition parked" not in service.said()
        assert "worker of the lease died" not in service.said()
    assert assert_equal_in_kafka(from_servers, to_servers, topic_name, partitions) > 0


@pytest.mark.quick
def test_answers_lost_with_their_connection_after_an_append_double_nothing_and_lose_nothing(lossy: Lossy) -> None:
    for requests in (1, 2, 4, 7):
        lossy.write(200)
        cuts = lossy.proxy.cuts
        lossy.proxy.cut_before_answer(PRODUCE, after_requests=requests)
        lossy.copy()
        assert lossy.proxy.cuts == cuts + 1
        lossy.assert_equal()


def test_late_answers_change_nothing(lossy: Lossy) -> None:
    lossy.write(300)
    lossy.proxy.answer_delay_seconds = 0.06
    lossy.copy()
    lossy.proxy.answer_delay_seconds = 0.0
    lossy.assert_equal()


@pytest.mark.parametrize("lose_connections", [False, True], ids=["and-comes-back", "and-forgets-its-connections"])
def test_a_network_that_falls_silent_in_the_middle_is_survived(lossy: Lossy, lose_connections: bool) -> None:
    lossy.write(200)
    lossy.copy()
    lossy.write(400)
    lossy.proxy.fall_silent()
    for _ in range(2):
        (row,) = lossy.worker.run(lossy.plan(1.0))
        assert row.error is not None
    lossy.proxy.wake(lose_connections=lose_connections)
    lossy.copy()
    lossy.assert_equal()


@pytest.mark.parametrize("kind", ["kafka", "archive"])
def test_a_source_that_falls_silent_does_not_hold_a_lease_with_other_partitions(
    kind: str, lossy: Lossy, source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, run_async: RunAsync
) -> None:
    where, silent, other = TopicPartition(f"{topic_name}-back", 0), lossy.proxy.address, source_kafka.bootstrap_servers
    for servers in (silent, other):
        create_topic(servers, where.topic)
    run_async(produce(silent, where.topic, 0, list(in_batches(simple_records(50), 10))))
    # The archive is told to read more than there is, so that it still waits when its source falls silent.
    work = kafka_work(other, where) if kind == "kafka" else archive_work(tmp_path, where, end=80, records_max=25)
    plan = lease_plan(silent, [(where, [work])], end=None, seconds=5.0, hard_seconds=600.0)
    (partition,) = plan.partitions
    patient = replace(source_cluster(partition), request_timeout_seconds=600.0)
    plan = replace(plan, partitions=(read_from(partition, patient),))
    rows: list[LeaseRow] = []
    lease = threading.Thread(target=lambda: rows.extend(lossy.worker.run(plan)))
    lease.start()

    def position() -> int:
        return log_end(other, where.topic) if kind == "kafka" else archive_position(tmp_path, where.topic)

    wait_until(lambda: position() == 50, "the first records")
    lossy.proxy.fall_silent()
    lease.join(60)
    assert not lease.is_alive(), "waits for the answer of a source that is silent"
    assert [row.position for row in rows] == [50]
    lossy.proxy.wake()


@pytest.mark.parametrize("how", ["silent", "refusing"])
def test_a_source_that_is_away_for_longer_than_every_time_out_is_copied_when_it_is_back(
    how: str, proxy: Proxy, destination_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    source, destination = proxy.address, destination_kafka.bootstrap_servers
    where = TopicPartition(topic_name, 0)
    for servers in (source, destination):
        create_topic(servers, topic_name)
    run_async(produce(source, topic_name, 0, list(in_batches(simple_records(100), 10))))
    plan = lease_plan(source, [(where, [kafka_work(destination, where)])], end=60, seconds=3.0)
    (partition,) = plan.partitions
    hasty = replace(source_cluster(partition), request_timeout_seconds=0.5, connect_timeout_seconds=0.5)
    plan = replace(plan, partitions=(read_from(partition, hasty),))
    worker = Worker()
    (row,) = worker.run(plan)
    assert (row.error, row.position) == (None, 60)
    if how == "silent":
        proxy.fall_silent()
    else:
        proxy.refuses = True
        proxy.reset_connections()
    rest = replace(plan, partitions=(replace(plan.partitions[0], end_offset=100),))
    away_until = time.monotonic() + 2.0
    while time.monotonic() < away_until:
        (row,) = worker.run(rest)
        assert isinstance(row.error, TransientError)
    proxy.forgive()
    (row,) = worker.run(rest)
    worker.close()
    assert (row.error, row.position) == (None, 100)
    assert assert_equal_in_kafka(source, destination, topic_name) == 100


def test_a_copy_follows_its_leader_from_broker_to_broker_under_load(
    kafka_nodes: KafkaNodes, source_kafka: EmbeddedKafka, topic_name: str, lease_processes: LeaseProcesses
) -> None:
    source, destination = source_kafka.bootstrap_servers, kafka_nodes.bootstrap_servers
    where = TopicPartition(topic_name, 0)
    create_topic(source, topic_name)
    kafka_nodes.create_topic(topic_name, {0: [1]})
    plan = lease_plan(source, [(where, [kafka_work(destination, where)])], end=None, seconds=1.0)

    def await_more() -> None:
        before = log_end(destination, topic_name)
        wait_until(lambda: log_end(destination, topic_name) > before, "more records")

    with Load(source, topic_name):
        lease_processes.start(run_leases_until, plan, float("inf"))
        for node in (2, 3):
            await_more()
            kafka_nodes.move(topic_name, [node])
            assert kafka_nodes.leader(topic_name) == node
    end = source_end(source, topic_name)
    wait_until(lambda: log_end(destination, topic_name) == end, "all of them")
    lease_processes.end()
    assert assert_equal_in_kafka(source, destination, topic_name) > 0
    assert_clean(destination, [topic_name])


@pytest.mark.soak
def test_a_destination_whose_disk_is_full_gets_the_rest_when_it_has_room_again(
    kafka_libs: Path, source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, run_async: RunAsync
) -> None:
    where = TopicPartition(topic_name, 0)
    source = source_kafka.bootstrap_servers
    create_topic(source, topic_name)
    with small_disk(tmp_path / "disk", 40_000) as disk:
        if disk is None:
            pytest.skip("neither root nor sudo without a password may mount here")
        with EmbeddedKafka(disk / "kafka", libs=kafka_libs) as destination:
            create_topic(destination.bootstrap_servers, topic_name)
            ballast = disk / "ballast"
            records = simple_records(400, size=20_000, timestamp=int(time.time() * 1000))
            run_async(produce(source, topic_name, 0, list(in_batches(records, 20))))
            plan = lease_plan(source, [(where, [kafka_work(destination.bootstrap_servers, where)])], end=400)
            fill_up(ballast, leave_bytes=3_000_000)
            row = run_lease(plan)[0, "west"]
            assert isinstance(row.error, TransientError)
            ballast.unlink()
            destination.kill()  # a broker without a folder to write to ends by itself, sooner or later
            destination.start()
            wait_until(lambda: run_lease(plan)[0, "west"].error is None, "the rest")
            assert assert_equal_in_kafka(source, destination.bootstrap_servers, topic_name) == 400


def fill_up(ballast: Path, *, leave_bytes: int) -> None:
    """Takes all the room there is but so much."""
    free = shutil.disk_usage(ballast.parent).free
    ballast.write_bytes(bytes(max(0, free - leave_bytes)))
