"""Routes crossed with kinds of source, each with a kill -9 in between: every record once, at the topic of its kind."""

import asyncio
from collections import Counter
from collections.abc import Callable, Set
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mirrorlake.destinations.filtering import PartitionBranch
from mirrorlake.destinations.map.settings import Step
from mirrorlake.destinations.map.work import MapWork
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.filters.branch import Branch, parse_route
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.mirror.work import LeasePlan
from mirrorlake.offsets import TopicPartition
from support.command import Ended
from support.command import without_spark as mirrorlake
from support.compaction import append_and_compact, create_compacted
from support.copies import create_topic, source_end, wait_until
from support.lease_processes import Death, LeaseProcesses
from support.leases import lease_plan, map_work
from support.records import Record, consume, settings_of
from support.routed_copies import KINDS, TO, record, routed_copies, topics_of
from support.service_process import ServiceProcess
from support.topics import append, delete_before, delete_topic
from support.transactions import append_in_transaction

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

FIRST = 30
"""Records of the first run."""


@dataclass(frozen=True)
class Site:
    """A source topic that a mirror of one shard parts among the topics of three kinds; what is none goes to `gone`."""

    folder: Path
    east: str
    west: str
    topic: str

    def configure(self, *, otherwise: str = "gone", change: str = "") -> Path:
        rest = topics_of(self.topic).get(otherwise, otherwise)
        config = routed_copies(self.folder, self.east, self.west, self.topic, otherwise=rest, change=change)
        config.write_text(config.read_text().replace("lanes: 2", "lanes: 1"))
        return config

    def says(self, *verb: str) -> Ended:
        return mirrorlake(*verb, "-c", self.folder / "mirror.yaml")

    def write(self, start: int, count: int, partition: int = 0) -> None:
        append(self.east, self.topic, partition, [self.record(n) for n in range(start, start + count)])

    def record(self, number: int) -> Record:
        """All different; the key tells the kind as well, a second apart."""
        kind = KINDS[number % 3]
        return replace(record(number, kind), key=b"%d" % (number % 9), timestamp=1_700_000_000_000 + number * 1000)

    def written(self) -> set[Record]:
        """What the source holds now of all its partitions."""
        return {each for n in range(self.partitions(self.topic)) for each in consume(self.east, self.topic, n).values()}

    def partitions(self, topic: str, servers: str = "") -> int:
        return self._described(topic, servers or self.east)[2]

    def _described(self, topic: str, servers: str) -> tuple[str, str, int]:
        """Ids of cluster and topic, and how many partitions it has."""

        async def ask() -> tuple[str, str, int]:
            async with ClusterClient(settings_of(servers)) as client:
                found = await client.metadata([topic], refresh=True)
                return found.cluster_id or "", found.topics[topic].topic_id, len(found.topics[topic].partitions)

        return asyncio.run(ask())

    def grow(self, servers: str, topic: str, partitions: int) -> None:
        async def ask() -> None:
            async with ClusterClient(settings_of(servers)) as client:
                await client.topics.grow(topic, partitions=partitions)

        asyncio.run(ask())

    def lease(self, *, otherwise: str = "gone", restarts: bool = False, source_is_compacted: bool = False) -> LeasePlan:
        """What the mirror's next lease does, of partition 0."""
        cluster_id, topic_id, _ = self._described(self.topic, self.east)
        source, topics = TopicPartition(self.topic, 0), topics_of(self.topic)
        to = parse_route(f"'{self.topic}.' || {TO}")

        def work(kind: str) -> MapWork:
            made = map_work(
                self.west, source, topic=topics[kind], source_cluster_id=cluster_id, source_topic_id=topic_id
            )
            rest = topics.get(otherwise, "")
            branch = Branch(
                to=to, topics=tuple(topics.values()), topic=topics[kind], fallback=rest, parks=otherwise == "park"
            )
            takes = PartitionBranch(branch=branch, source=source)
            settings = replace(
                made.settings,
                takes=takes,
                restarts_recreated=restarts,
                skips_truncated=True,
                source_is_compacted=source_is_compacted,
            )
            return replace(made, settings=settings, destination=f"west/{kind}")

        end = source_end(self.east, self.topic)
        return lease_plan(self.east, [(source, [work(kind) for kind in KINDS])], end=end, topic_id=topic_id)

    def assert_parted(
        self, expected: set[Record], *, otherwise: str = "gone", cleaned: Set[Record] = frozenset()
    ) -> None:
        """Each topic holds the records of its kind once, and no others; none is in two. Cleaners may have some."""
        for kind, to in topics_of(self.topic).items():
            wanted = {each for each in expected if (told(each) or otherwise) == kind}
            held = [r for n in range(self.partitions(to, self.west)) for r in consume(self.west, to, n).values()]
            assert Counter(each for each in held if each not in cleaned) == Counter(wanted), f"{to} holds other records"
            some = [each for each in held if each in cleaned]
            assert len(some) == len({*some}), "one is there twice"
            assert {told(each) for each in some} <= {kind}


def told(each: Record) -> str:
    """The kind that a record's value says; empty where that is none of them."""
    found = [kind for kind in KINDS if (each.value or b"").endswith(b'"kind": "%s"}' % kind.encode())]
    return found[0] if found else ""


@pytest.fixture
def site(source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path: Path, topic_name: str) -> Site:
    return Site(tmp_path, source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, topic_name)


def compacts(site: Site) -> None:
    """The second of two records of each key is left, and one that no kind is told of."""
    again = [site.record(n) for n in range(FIRST, FIRST + 18)]
    append_and_compact(site.east, site.topic, again, left=set(range(FIRST + 9, FIRST + 19)))


def commits_and_aborts(site: Site) -> None:
    append_in_transaction(site.east, site.topic, [site.record(n) for n in range(FIRST, FIRST + 7)])
    append_in_transaction(site.east, site.topic, [site.record(n) for n in range(900, 909)], committed=False)
    site.write(FIRST + 7, 12)
    append_in_transaction(site.east, site.topic, [site.record(n) for n in range(909, 912)], committed=False)


def truncates(site: Site) -> None:
    """Of what was not copied yet the first ten are deleted."""
    site.write(FIRST, 25)
    delete_before(site.east, site.topic, FIRST + 10)


def is_recreated(site: Site) -> None:
    delete_topic(site.east, site.topic)
    create_topic(site.east, site.topic)
    site.write(500, 20)


def grows(site: Site) -> None:
    site.grow(site.east, site.topic, 2)
    site.write(FIRST, 12)
    site.write(600, 15, partition=1)


@pytest.mark.parametrize(
    ("happens", "policy", "step", "occurrence"),
    [
        (compacts, "", Step.SEND_PROGRESS, 1),
        (commits_and_aborts, "", Step.SEND_BATCH, 2),
        (truncates, "on-truncation: skip", Step.COMMIT, 1),
        (is_recreated, "on-recreate: restart", Step.TAKE_COMMIT, 1),
        (grows, "", Step.SEND_BATCH, 3),
    ],
)
def test_whatever_becomes_of_the_source_each_record_is_once_at_the_topic_of_its_kind_beside_a_kill(
    happens: Callable[[Site], None],
    policy: str,
    step: Step,
    occurrence: int,
    site: Site,
    lease_processes: LeaseProcesses,
) -> None:
    create_compacted(site.east, site.topic) if happens is compacts else create_topic(site.east, site.topic)
    site.configure(change=policy)
    site.write(0, FIRST)
    before = site.written()
    assert site.says("run", "--once").code == 0
    happens(site)
    expected = site.written() if happens is compacts else before | site.written()
    cleaned = {site.record(n) for n in range(FIRST + 18)} - expected if happens is compacts else set()

    plan = site.lease(restarts="restart" in policy, source_is_compacted=happens is compacts)
    lease_processes.die_in_lease(plan, Death(step=step, occurrence=occurrence))
    run = site.says("run", "--once")
    if happens is grows:  # the remedy that is told
        assert run.code != 0
        assert run.err.count("--partitions 2") >= len(KINDS)
        for to in topics_of(site.topic).values():
            site.grow(site.west, to, 2)
        run = site.says("run", "--once")

    assert run.code == 0, run.err
    site.assert_parted(expected, cleaned=cleaned)
    verified = site.says("verify", "--format", "json")
    assert {row["result"] for row in verified.rows()} == {"equal"}, verified.out


def test_a_record_without_a_topic_parks_with_its_offset_also_where_the_worker_dies_there_and_is_in_one_topic_afterwards(
    site: Site, lease_processes: LeaseProcesses
) -> None:
    create_topic(site.east, site.topic)
    site.configure(otherwise="park")
    site.write(0, FIRST)
    assert site.says("run", "--once").code == 0
    site.write(FIRST, 9)
    copied = site.written()
    odd = [replace(record(700, "odd"), key=b"odd"), replace(record(701, None), key=b"null")]
    append(site.east, site.topic, 0, [*odd, *(site.record(n) for n in range(800, 809))])
    for step in (Step.SEND_BATCH, Step.COMMIT, Step.TAKE_COMMIT):
        # The last death is after what is before the record was committed, and before anybody was told why it stopped.
        lease_processes.die_in_lease(site.lease(otherwise="park"), Death(step=step))
    for _ in range(2):
        stopped = site.says("run", "--once")
        assert stopped.code != 0
        assert stopped.err.count(f"names no topic for the record at offset {FIRST + 9} of source") >= len(KINDS)
        assert "reason=route-failed" in stopped.err
        site.assert_parted(copied)

    site.configure(otherwise="gone")
    lease_processes.die_in_lease(site.lease(), Death(step=Step.SEND_PROGRESS))
    assert site.says("run", "--once").code == 0
    site.assert_parted(site.written())
    verified = site.says("verify", "--format", "json")
    assert {row["result"] for row in verified.rows()} == {"equal"}, verified.out


def test_a_topic_of_a_route_that_is_deleted_beside_the_service_is_named_and_after_the_remedy_nothing_is_missing(
    site: Site,
) -> None:
    create_topic(site.east, site.topic)
    config = site.configure(otherwise="park")
    site.write(0, FIRST)
    lost = topics_of(site.topic)["open"]
    with ServiceProcess("run", "-c", str(config), folder=site.folder, without_spark=True) as service:

        def arrived(topic: str, count: int) -> bool:
            return not service.is_running or len(consume(site.west, topic, 0)) >= count

        wait_until(lambda: all(arrived(to, FIRST // 3) for to in topics_of(site.topic).values()), "a copy")
        delete_topic(site.west, lost)
        site.write(FIRST, 30)
        wait_until(lambda: arrived(topics_of(site.topic)["paid"], 20), "the others", log=service.said)
        wait_until(lambda: "partition parked" in service.said(), "it to be said", log=service.said)
        assert service.is_running, service.said()
        service.kill()
    stopped = site.says("run", "--once")
    assert stopped.code != 0
    assert "reason=foreign" in stopped.err
    assert "put a topic of another name in its place in the route, in `topics` and in what `to` gives" in stopped.err
    assert consume(site.west, lost, 0) == {}, "nothing of it is copied by halves"

    instead = f"{site.topic}.open-again"
    renamed = f"CASE {TO} WHEN 'open' THEN 'open-again' ELSE {TO} END"
    config.write_text(config.read_text().replace(f"|| {TO}", f"|| {renamed}").replace(f"{lost},", f"{instead},"))
    assert site.says("run", "--once").code == 0
    opened = {each for each in site.written() if told(each) == "open"}
    assert Counter(consume(site.west, instead, 0).values()) == Counter(opened)
    for kind in ("paid", "gone"):
        wanted = {each for each in site.written() if told(each) == kind}
        assert Counter(consume(site.west, topics_of(site.topic)[kind], 0).values()) == Counter(wanted)
    assert site.says("verify").code == 0
