"""Consumer groups that a running service takes along to another cluster, seen at real brokers; and what it leaves."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from structlog.testing import capture_logs

from conftest import RunAsync
from mirrorlake.clock import SystemClock
from mirrorlake.config.loading import load_configuration
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import TransientError
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.groups.syncing import GroupSync
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.selection import Selection
from mirrorlake.service.sight.metrics import Metrics
from mirrorlake.service.states import state_of
from mirrorlake.topics.discovery import find_targets
from mirrorlake.topics.targets import UNKNOWN_PARTITION, Target
from support.admin import admin_client
from support.command import without_spark as mirrorlake
from support.copies import wait_until
from support.groups import commit, committed, committed_offsets, member, new_group, read_on
from support.records import simple_records
from support.running_service import RunningService
from support.topics import append, delete_topic, make_topic

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RECORDS = 40
PARTITIONS = 2
FOREIGN = 3
"""Records of somebody else before the copy's in each partition with mapped offsets."""

MODES = {"preserve": 0, "map": FOREIGN}
"""By which the copy of a record is further on than the record."""


@dataclass(frozen=True)
class Site:
    """Topics of two partitions in two clusters."""

    east: str
    west: str
    topic: str
    folder: Path

    def mirror(self, *mirrors: str, interval: str = "1s") -> Path:
        path = self.folder / "mirror.yaml"
        groups = f"groups: {{include: ['/.*{self.topic}/'], interval: {interval}}}"
        path.write_text(
            "\n".join(
                [
                    f'clusters: {{east: {{bootstrap-servers: "{self.east}"}}, '
                    f'west: {{bootstrap-servers: "{self.west}"}}}}',
                    "mirrors:",
                    *(f"- {each.replace('GROUPS', groups)}" for each in mirrors),
                    "service: {metrics: off}",
                    "engine: {lanes: 2, lease: 1s, memory: 512MiB, tail-check: 1h, discovery: 1h}",
                ]
            )
        )
        return path

    def one(self, mode: str, *, name: str = "", source: str = "", to: str = "") -> str:
        source, to = source or self.topic, to or f"{self.topic}.copy"
        where = f"{{type: kafka, cluster: west, topic: {to}, offsets: {mode}, GROUPS}}"
        return f"{{name: {name or self.topic}, source: {{cluster: east, topics: [{source}]}}, destinations: [{where}]}}"

    def group(self) -> str:
        return f"{new_group()}-{self.topic}"

    def at(self, group: str, *offsets: int, topic: str = "", metadata: str = "") -> None:
        places = {TopicPartition(topic or self.topic, number): offset for number, offset in enumerate(offsets)}
        commit(self.east, group, places, metadata=metadata)

    def there(self, group: str, copy: str = "") -> dict[int, int]:
        found = committed_offsets(self.west, group)
        return {
            place.partition: offset for place, offset in found.items() if place.topic == (copy or f"{self.topic}.copy")
        }

    def await_there(self, group: str, expected: Mapping[int, int]) -> None:
        wait_until(
            lambda: self.there(group) == expected,
            f"{group} to stand at {expected}",
            log=lambda: str(self.there(group)),
        )


@pytest.fixture
def site(source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path) -> Site:
    found = Site(source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, topic_name, tmp_path)
    make_topic(found.east, topic_name, *(simple_records(RECORDS, start=100 * each) for each in range(PARTITIONS)))
    return found


def prepared(site: Site, mode: str) -> int:
    """Puts somebody else's records before a mapped copy; returns by how much the copy is further on."""
    if mode == "map":
        make_topic(site.west, f"{site.topic}.copy", *(simple_records(FOREIGN, start=9_000) for _ in range(PARTITIONS)))
    return MODES[mode]


@pytest.mark.parametrize("mode", MODES)
def test_groups_follow_while_the_service_runs_and_are_read_on_from_the_very_record(site: Site, mode: str) -> None:
    further, group, other = prepared(site, mode), site.group(), new_group("unselected")
    site.at(group, 17, 0, metadata="by billing")
    site.at(other, 5)
    with RunningService(site.mirror(site.one(mode))) as running:
        site.await_there(group, {0: 17 + further, 1: 0 + further})
        site.at(group, 25, RECORDS)
        site.await_there(group, {0: 25 + further, 1: RECORDS + further})
        append(site.east, site.topic, 0, (more := simple_records(5, start=500)))
        site.at(group, RECORDS + 4)
        # Markers of transactions lie between with mapped offsets, so the record is read instead of counted.
        wait_until(lambda: site.there(group)[0] >= RECORDS + 4 + further, "the group to be taken further")
        assert running.states() <= {"caught-up", "running"}, "none is parked"
    place = TopicPartition(f"{site.topic}.copy", 0)
    assert read_on(site.west, group, [place], records=1) == [(0, more[4].value)]
    assert site.there(other) == {}, "it is not selected"
    assert committed(site.west, group)[place].metadata == "", "of the commit that it was taken from"


@pytest.mark.quick
@pytest.mark.parametrize("mode", MODES)
def test_the_last_look_of_a_stop_takes_along_what_was_committed_since(site: Site, mode: str) -> None:
    further, group = prepared(site, mode), site.group()
    site.at(group, 3, 4, metadata="first")
    with RunningService(site.mirror(site.one(mode), interval="1h")) as running:
        site.await_there(group, {0: 3 + further, 1: 4 + further})
        assert committed(site.west, group)[TopicPartition(f"{site.topic}.copy", 0)].metadata == "first"
        site.at(group, 30, 31)
        running.service.stop("the test says so")
        assert running.exit_code() == 0
    assert site.there(group) == {0: 30 + further, 1: 31 + further}


@pytest.mark.parametrize("mode", MODES)
def test_a_run_to_the_end_takes_groups_along_and_a_group_that_cannot_be_is_no_failure_of_it(
    site: Site, mode: str
) -> None:
    further, group, busy = prepared(site, mode), site.group(), site.group()
    config = site.mirror(site.one(mode), interval="1h")
    create = mirrorlake("run", "-c", config, "--once")
    assert create.code == 0, create.err
    site.at(group, 8, 9)
    site.at(busy, 8, 9)

    async def beside_a_member() -> None:
        async with member(site.west, busy, [f"{site.topic}.copy"], reset="earliest"):
            ended = await asyncio.to_thread(mirrorlake, "run", "-c", config, "--once")
            assert ended.code == 0, ended.err
            assert "consumer groups left alone at the destination" in ended.err

    asyncio.run(beside_a_member())
    assert site.there(group) == {0: 8 + further, 1: 9 + further}
    assert site.there(busy) == {}
    again = mirrorlake("run", "-c", config, "--once")
    assert again.code == 0, again.err
    assert site.there(busy) == {0: 8 + further, 1: 9 + further}, "its member has left"


@pytest.mark.parametrize("mode", MODES)
def test_no_group_is_taken_back_nor_brought_back_to_life(site: Site, mode: str) -> None:
    further, ahead, gone, canary = prepared(site, mode), site.group(), site.group(), site.group()
    site.at(ahead, 10, 10)
    site.at(gone, 10, 10)
    with RunningService(site.mirror(site.one(mode))):
        site.await_there(ahead, {0: 10 + further, 1: 10 + further})
        site.await_there(gone, {0: 10 + further, 1: 10 + further})
        commit(site.west, ahead, {TopicPartition(f"{site.topic}.copy", each): 20 + further for each in (0, 1)})
        remove_group(site.east, gone)
        remove_group(site.west, gone)
        site.at(canary, 2, 2)
        site.await_there(canary, {0: 2 + further, 1: 2 + further})
        site.at(canary, 3, 3)
        site.await_there(canary, {0: 3 + further, 1: 3 + further})
    assert site.there(ahead) == {0: 20 + further, 1: 20 + further}
    assert site.there(gone) == {}


def remove_group(servers: str, group: str) -> None:
    with admin_client(servers) as admin:
        admin.delete_groups([group])


@pytest.mark.parametrize("mode", MODES)
def test_a_paused_partition_gives_no_place_until_it_is_resumed_and_the_others_do(site: Site, mode: str) -> None:
    further, group = prepared(site, mode), site.group()
    with RunningService(site.mirror(site.one(mode))) as running:
        running.await_states("caught-up", partitions=PARTITIONS)
        running.service.pause(Selection(mirror=site.topic, topic=site.topic, partition=1))
        wait_until(
            lambda: not running.service.pause(Selection(mirror=site.topic, topic=site.topic, partition=1)).ending,
            "its lease to end",
        )
        site.at(group, 11, 12)
        site.await_there(group, {0: 11 + further})
        site.at(group, 13, 14)
        site.await_there(group, {0: 13 + further})
        running.service.resume(Selection(mirror=site.topic))
        site.await_there(group, {0: 13 + further, 1: 14 + further})


def test_a_parked_copy_gives_no_place_and_the_others_do(site: Site) -> None:
    group = site.group()
    config = site.mirror(site.one("preserve"))
    assert mirrorlake("run", "-c", config, "--once").code == 0
    append(site.west, f"{site.topic}.copy", 1, simple_records(1, start=9_000))
    site.at(group, 11, 12)
    with RunningService(config) as running:
        wait_until(lambda: "parked" in running.states(), "the copy to be refused", log=lambda: str(running.rows()))
        site.await_there(group, {0: 11})
        site.at(group, 21, 22)
        site.await_there(group, {0: 21})


def test_a_partition_that_two_mirrors_share_gives_no_place_in_either_from_the_first_look_on(site: Site) -> None:
    first, second, both = f"{site.topic}-a", f"{site.topic}-b", f"{site.topic}-both"
    for topic in (first, second):
        make_topic(site.east, topic, simple_records(RECORDS))
    group, canary = site.group(), site.group()
    site.at(group, RECORDS, topic=first)
    site.at(canary, 7, 8)
    config = site.mirror(
        site.one("map", name=first, source=first, to=both),
        site.one("map", name=second, source=second, to=both),
        site.one("preserve"),
    )
    with RunningService(config) as running:
        running.await_states("caught-up", partitions=PARTITIONS + 2)
        site.await_there(canary, {0: 7, 1: 8})
        site.at(canary, 9, 9)
        site.await_there(canary, {0: 9, 1: 9})
    assert site.there(group, both) == {}, "it has read nothing of the second"


# -- the looks of a service, one by one ---------------------------------------------------------------------


@dataclass(frozen=True)
class Looks:
    """What a service would follow, compared already, and its looks."""

    sync: GroupSync
    metrics: Metrics
    pairs: list[tuple[Target, PartitionState]]
    owned: set[str] = field(default_factory=set)

    def series(self) -> dict[str, float]:
        lines = generate_latest(self.metrics.registry).decode().splitlines()
        found = dict(line.rsplit(" ", 1) for line in lines if line.startswith("mirrorlake_group"))
        return {name.replace("mirrorlake_group", ""): float(value) for name, value in found.items()}

    def results(self) -> dict[str, float]:
        return {
            name.split('result="')[1].rstrip('"}'): value
            for name, value in self.series().items()
            if name.startswith("_offsets{")
        }


def followed(pairs: list[tuple[Target, PartitionState]]) -> Looks:
    clock, owned = SystemClock(), {target.mirror.name for target, _ in pairs}
    metrics = Metrics(CollectorRegistry(), clock=clock)
    sync = GroupSync(metrics, owns=lambda mirror, clusters: mirror in owned and [*clusters] == ["west"], clock=clock)
    sync.follow(pairs, waiting=[])
    return Looks(sync, metrics, pairs, owned)


def looks_of(config: Path, run_async: RunAsync) -> Looks:
    async def found() -> list[Target]:
        clients = WorkerCache()
        try:
            return await find_targets(load_configuration(config, environ={}), clients)
        finally:
            await clients.close()

    pairs = [(target, state_of(target, writer="test")) for target in run_async(found())]
    for _, state in pairs:
        state.position, state.needs_tail_check = RECORDS, False
    return followed(pairs)


@pytest.fixture(params=MODES)
def copied(request: pytest.FixtureRequest, site: Site) -> Path:
    config = site.mirror(site.one(request.param))
    ended = mirrorlake("run", "-c", config, "--once")
    assert ended.code == 0, ended.err
    return config


def test_what_became_of_each_offset_is_counted(site: Site, copied: Path, run_async: RunAsync) -> None:
    group = site.group()
    looks = looks_of(copied, run_async)
    looks.pairs[1][1].needs_tail_check = True
    site.at(group, 6, 7)
    looks.sync.look(is_last=True)
    assert looks.results() == {"placed": 1, "left-alone": 0, "unknown": 1}
    looks.pairs[1][1].needs_tail_check = False
    commit(site.west, group, {TopicPartition(f"{site.topic}.copy", 0): 9})
    looks.sync.look(is_last=True)
    assert looks.results() == {"placed": 1, "left-alone": 1, "unknown": 0}
    assert site.there(group) == {0: 9, 1: 7}
    assert [value for name, value in looks.series().items() if "failures_total" in name] == [0]


def test_a_process_that_does_not_own_the_mirror_leaves_its_groups_alone(
    site: Site, copied: Path, run_async: RunAsync
) -> None:
    group = site.group()
    looks = looks_of(copied, run_async)
    owned = looks.owned.copy()
    looks.owned.clear()
    site.at(group, 6, 7)
    looks.sync.look(is_last=True)
    assert site.there(group) == {}
    assert looks.results() == {}, "nothing is said of what nobody looked at"
    looks.owned.update(owned)
    looks.sync.look()
    assert site.there(group) == {0: 6, 1: 7}


def test_of_a_source_topic_that_was_made_again_no_group_is_taken_along(
    site: Site, copied: Path, run_async: RunAsync
) -> None:
    group = site.group()
    looks = looks_of(copied, run_async)
    delete_topic(site.east, site.topic)
    looks.sync.look(is_last=True)
    make_topic(site.east, site.topic, *(simple_records(RECORDS, start=7_000) for _ in range(PARTITIONS)))
    site.at(group, 6, 7)
    looks.sync.look(is_last=True)
    assert site.there(group) == {}, "these offsets are of other records"
    assert looks.results() == {"placed": 0, "left-alone": 0, "unknown": 2}


def test_a_mirror_that_could_not_be_looked_at_may_share_a_mapped_partition_and_no_preserved_one(
    site: Site, copied: Path, run_async: RunAsync
) -> None:
    group = site.group()
    looks = looks_of(copied, run_async)
    target = looks.pairs[0][0]
    hidden = replace(
        target,
        mirror=replace(target.mirror, name="hidden"),
        source=TopicPartition("unseen", UNKNOWN_PARTITION),
        error=TransientError("the broker is away"),
    )
    looks.sync.follow([], waiting=[hidden])
    site.at(group, 6, 7)
    looks.sync.look(is_last=True)
    assert site.there(group) == ({} if target.is_mapped else {0: 6, 1: 7})
    looks.sync.follow([], waiting=[])
    looks.sync.look(is_last=True)
    assert site.there(group) == {0: 6, 1: 7}


@pytest.mark.parametrize("away", ["source", "destination"])
def test_a_cluster_that_does_not_answer_is_said_once_and_counted_and_changes_nothing(
    site: Site, run_async: RunAsync, away: str
) -> None:
    config = site.mirror(site.one("preserve"))
    assert mirrorlake("run", "-c", config, "--once").code == 0
    group = site.group()
    site.at(group, 6, 7)
    looks = looks_of(config, run_async)
    there = site.west if away == "destination" else site.east
    config.write_text(config.read_text().replace(there, "127.0.0.1:1"))
    (mirror,) = load_configuration(config, environ={}).mirrors
    (destination,) = mirror.destinations
    silent = followed([(replace(each, mirror=mirror, destination=destination), state) for each, state in looks.pairs])
    with capture_logs() as logs:
        silent.sync.look(is_last=True)
        silent.sync.look(is_last=True)
        (said,) = [line for line in logs if line["log_level"] == "warning"]
        assert "127.0.0.1:1" in str(said["error"])
        assert sum(value for name, value in silent.series().items() if "failures_total" in name) == 2
        assert silent.results() == {}
        assert all(state.error is None for _, state in silent.pairs), "no partition is parked for its groups"
        silent.sync.follow(looks.pairs, waiting=[])
        if away == "destination":
            silent.sync.look(is_last=True)
    assert site.there(group) == ({0: 6, 1: 7} if away == "destination" else {})
    again = [line for line in logs if line["event"] == "consumer groups are taken along again"]
    assert len(again) == (away == "destination")
