"""A route on real brokers: each record once at exactly one topic, whoever dies or runs twice, and from any source."""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mirrorlake.destinations.archive.work import ArchiveWork
from mirrorlake.destinations.filtering import PartitionBranch, PartitionProjection
from mirrorlake.destinations.map.settings import Step
from mirrorlake.destinations.map.work import MapWork
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import RouteFailedError
from mirrorlake.filters.branch import Branch, parse_route
from mirrorlake.filters.projection import Projection, parse_value
from mirrorlake.mirror.work import LeasePlan
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.lifecycle.endings import EXIT_SUPERSEDED
from support.command import without_spark as mirrorlake
from support.compaction import append_and_compact, create_compacted
from support.copies import archived_records, assert_same_records, create_topic, source_end, wait_until
from support.lease_processes import Death, LeaseProcesses
from support.leases import archive_work, lease_plan, map_work, run_lease
from support.map_copies import assert_nothing_open, progress_of
from support.records import LZ4, Record, consume, in_batches, produce
from support.routed_copies import KINDS, TO, assert_routed, kind_of, record, routed_copies, topics_of
from support.service_process import ServiceProcess
from support.transactions import append_in_transaction

pytestmark = pytest.mark.kafka


@dataclass(frozen=True, kw_only=True)
class Source:
    """A partition of batches of one kind, of several, compressed ones, and of aborted records."""

    servers: str
    where: TopicPartition
    end: int

    def topic(self, kind: str) -> str:
        return topics_of(self.where.topic)[kind]


@pytest.fixture
def source(source_kafka: EmbeddedKafka, topic_name: str) -> Source:
    servers = source_kafka.bootstrap_servers
    create_topic(servers, topic_name)
    mixed = [record(n, KINDS[n % 3]) for n in range(60)]
    alike = [record(100 + n, "open", size=400) for n in range(40)]
    asyncio.run(produce(servers, topic_name, 0, [*in_batches(mixed, 9), *in_batches([*alike, *mixed], 10, LZ4)]))
    append_in_transaction(servers, topic_name, [record(n, "paid") for n in range(3)], committed=False)
    asyncio.run(produce(servers, topic_name, 0, list(in_batches(mixed, 7))))
    return Source(servers=servers, where=TopicPartition(topic_name, 0), end=source_end(servers, topic_name))


def taking(source: Source, kind: str) -> PartitionBranch:
    to = parse_route(f"'{source.where.topic}.' || {TO}")
    topics = tuple(topics_of(source.where.topic).values())
    return PartitionBranch(branch=Branch(to=to, topics=topics, topic=source.topic(kind)), source=source.where)


def mapped(source: Source, destination: str, kind: str) -> MapWork:
    work = map_work(destination, source.where, topic=source.topic(kind))
    settings = replace(work.settings, takes=taking(source, kind))
    return replace(work, settings=settings, destination=f"west/{kind}")


def routed(source: Source, destination: str, *, end: int | None = None) -> LeasePlan:
    works = [mapped(source, destination, kind) for kind in KINDS]
    return lease_plan(source.servers, [(source.where, works)], end=end or source.end)


def made_topics(source: Source, destination: str) -> None:
    for to in topics_of(source.where.topic).values():
        create_topic(destination, to)


@pytest.mark.parametrize(
    ("step", "occurrence"), [(Step.SEND_BATCH, 5), (Step.SEND_PROGRESS, 2), (Step.COMMIT, 2), (Step.TAKE_COMMIT, 2)]
)
def test_a_worker_killed_in_a_transaction_of_several_topics_leaves_each_record_to_one_of_them(
    step: str, occurrence: int, source: Source, destination_kafka: EmbeddedKafka, lease_processes: LeaseProcesses
) -> None:
    destination = destination_kafka.bootstrap_servers
    made_topics(source, destination)
    lease_processes.die_in_lease(routed(source, destination), Death(step=step, occurrence=occurrence))

    rows = run_lease(routed(source, destination))

    assert {(row.error, row.position) for row in rows.values()} == {(None, source.end)}
    counts = assert_routed(source.servers, destination, source.where.topic, 1, shards=1)
    assert counts == {"paid": 60, "open": 100, "gone": 60}
    assert_nothing_open(destination, source.where.topic, *(TopicPartition(source.topic(k), 0) for k in KINDS))


@pytest.mark.slow
def test_a_record_without_a_topic_stops_all_topics_before_it(source: Source, destination_kafka: EmbeddedKafka) -> None:
    destination = destination_kafka.bootstrap_servers
    made_topics(source, destination)
    more = [record(0, "paid"), record(1, "odd"), record(2, "gone")]
    asyncio.run(produce(source.servers, source.where.topic, 0, list(in_batches(more, 3))))
    plan = routed(source, destination, end=source.end + 3)

    for row in run_lease(plan).values():
        assert isinstance(row.error, RouteFailedError)
        assert row.error.facts["offset"] == source.end + 1
    assert_routed(source.servers, destination, source.where.topic, 1, shards=1, before={0: source.end + 1})


def test_a_select_that_fails_for_other_topics_records_is_not_asked_about_them_by_an_archives_tail_check(
    source: Source, tmp_path: Path
) -> None:
    kind = f"CASE WHEN {TO} = 'paid' THEN value ELSE raise_error('of another topic') END"
    projects = PartitionProjection(wanted=Projection(value=parse_value(kind)), source=source.where)

    def work(end: int) -> ArchiveWork:
        found = archive_work(tmp_path, source.where, end=end, records_max=20, folder=source.topic("paid"))
        settings = replace(found.settings, takes=taking(source, "paid"), projects=projects)
        return replace(found, settings=settings, orders=replace(found.orders, needs_tail_check=True))

    for end in (source.end - 30, source.end):
        row = run_lease(lease_plan(source.servers, [(source.where, [work(end)])], end=None))[0, "lake"]
        assert row.error is None
    own = {o: r for o, r in consume(source.servers, source.where.topic, 0).items() if kind_of(r) == "paid"}
    assert_same_records(own, archived_records(tmp_path, source.topic("paid")))


@pytest.mark.slow
def test_a_compacted_source_is_parted_by_its_keys_and_verify_knows_what_the_cleaner_took(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path: Path, topic_name: str
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_compacted(east, topic_name)
    # Of each key two records; the topic is told by the key, so the second one follows the first.
    first = [Record(1_700_000_000_000 + n * 1000, b"k%d" % (n % 9), b"v%d" % n) for n in range(9)]
    by_key = f"CASE WHEN CAST(key AS STRING) < 'k3' THEN '{topic_name}.paid' ELSE '{topic_name}.open' END"
    config = routed_copies(tmp_path, east, west, topic_name)
    text = config.read_text()
    asyncio.run(produce(east, topic_name, 0, list(in_batches(first, 4))))
    for said, is_warned in ((text, True), (text.replace(f"'{topic_name}.' || {TO}", by_key), False)):
        config.write_text(said)
        plan = mirrorlake("plan", "-c", config)
        assert ("`route` looks at more than the key" in plan.out + plan.err) is is_warned, plan.err
    assert mirrorlake("run", "--once", "-c", config).code == 0
    second = [replace(each, timestamp=each.timestamp + 60_000, value=b"w") for each in first]
    append_and_compact(east, topic_name, second, left=set(range(9, 19)))
    ran, verified = mirrorlake("run", "--once", "-c", config), mirrorlake("verify", "-c", config, "--format", "json")

    assert (ran.code, verified.code) == (0, 0), ran.err + verified.out + verified.err
    assert {row["result"] for row in verified.rows()} == {"equal"}
    for kind, keys in (("paid", {b"k0", b"k1", b"k2"}), ("open", {b"last"} | {b"k%d" % n for n in range(3, 9)})):
        assert {each.key for each in consume(west, topics_of(topic_name)[kind], 0).values()} == keys


@pytest.mark.slow
def test_services_killed_and_run_twice_leave_each_record_at_exactly_one_topic(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path: Path, topic_name: str
) -> None:
    east, west, partitions = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, 2
    create_topic(east, topic_name, partitions)
    config = routed_copies(tmp_path, east, west, topic_name)

    def service() -> ServiceProcess:
        return ServiceProcess("run", "-c", str(config), folder=tmp_path, without_spark=True)

    def write(start: int) -> None:
        for partition in range(partitions):
            records = [record(start + n, KINDS[n % 3]) for n in range(300)]
            asyncio.run(produce(east, topic_name, partition, list(in_batches(records, 11))))

    def await_copied(some: ServiceProcess, offset: int) -> None:
        def has_come() -> bool:
            wheres = [TopicPartition(topic_name, n) for n in range(partitions)]
            found = [
                progress_of(west, where, topic=to, mirror=topic_name, shards=2)
                for where in wheres
                for to in topics_of(topic_name).values()
            ]
            return not some.is_running or all(each is not None and each.position > offset for each in found)

        wait_until(has_come, f"copies beyond {offset}", log=some.said)
        assert some.is_running, some.said()

    write(0)
    with service() as first:
        await_copied(first, 0)
        write(1000)
        with service() as second:
            assert first.exit_code() == EXIT_SUPERSEDED, first.said()
            write(2000)
            await_copied(second, 301)
            second.kill()
    write(3000)
    ended = mirrorlake("run", "--once", "-c", config)
    assert ended.code == 0, ended.err
    assert assert_routed(east, west, topic_name, partitions) == dict.fromkeys(KINDS, partitions * 400)
