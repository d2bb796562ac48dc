"""Positions moved by hand: killed, frozen or overtaken at any step, they are as they were or as they were to be."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from mirrorlake.destinations.map.settings import Step
from mirrorlake.destinations.transactions.owner_states import OwnerState, find_states
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import CommandRefusedError, MirrorlakeError, PositionMovedError, SupersededError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.wire.apis import Api
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.positions.moving import STEP_KNOCK, STEP_OWN, STEP_RELEASE, STEP_SETTLE
from support.at_once import each_at_once
from support.command import without_spark as mirrorlake
from support.command import write_yaml
from support.copies import create_topic, wait_until
from support.lease_processes import Death, LeaseProcesses, wake
from support.leases import lease_plan, map_work, run_lease
from support.map_copies import assert_nothing_open, progress_of
from support.position_moves import die_in_move, freeze_in_move, move
from support.proxy import Proxy
from support.records import consume, settings_of, simple_records
from support.running_service import RunningService
from support.topics import append, make_topic

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

T = TypeVar("T")

RECORDS, BACK = 30, 12

BEFORE_COMMIT = (
    *(STEP_KNOCK, STEP_SETTLE, STEP_OWN, Step.FENCE, Step.READ_PROGRESS, Step.ADD_PARTITIONS, Step.SEND_PROGRESS),
    Step.COMMIT,
)
AFTER_COMMIT = (Step.TAKE_COMMIT, Step.LOOK_CLOSED, STEP_RELEASE)
DATA_STEPS = {Step.SEND_BATCH, Step.TAKE_ANSWER, Step.SEND_LETTERS}


@dataclass(frozen=True)
class Site:
    """A copied topic of one partition."""

    config: Path
    east: str
    west: str
    source: TopicPartition

    @property
    def mirror(self) -> str:
        return self.source.topic

    def text(self, offset: int) -> str:
        return f"{self.mirror},{self.source.topic},0,{offset}\n"

    def position(self) -> int | None:
        found = progress_of(self.west, self.source)
        return None if found is None else found.position

    def run(self) -> None:
        ended = mirrorlake("run", "--once", "-c", self.config)
        assert ended.code == 0, ended.err

    def arrived(self) -> Counter[bytes | None]:
        return Counter(record.value for record in consume(self.west, self.source.topic, 0).values())

    def values(self, first: int, end: int) -> Counter[bytes | None]:
        held = consume(self.east, self.source.topic, 0)
        return Counter(held[offset].value for offset in range(first, end))


NewSite = Callable[[str], Site]


@pytest.fixture
def new_site(source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path: Path) -> NewSite:
    """Makes one; of any thread."""
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    return lambda topic_name: _make_site(east, west, topic_name, tmp_path)


@pytest.fixture
def site(new_site: NewSite, topic_name: str) -> Site:
    return new_site(topic_name)


def _make_site(east: str, west: str, topic_name: str, folder: Path) -> Site:
    make_topic(east, topic_name, simple_records(RECORDS))
    create_topic(west, topic_name)
    config = write_yaml(
        folder / f"{topic_name}.yaml",
        f"""clusters:
  east: {{bootstrap-servers: "{east}"}}
  west: {{bootstrap-servers: "{west}"}}
mirrors:
  - name: {topic_name}
    source: {{cluster: east, topics: [{topic_name}]}}
    destinations: [{{type: kafka, cluster: west, offsets: map}}]
engine: {{lanes: 1, lease: 2s, memory: 512MiB}}
""",
    )
    found = Site(config, east, west, TopicPartition(topic_name, 0))
    found.run()
    return found


@pytest.mark.quick
def test_every_step_of_a_move_has_its_death() -> None:
    steps = {STEP_KNOCK, STEP_SETTLE, STEP_OWN, STEP_RELEASE, *Step} - DATA_STEPS
    assert {*BEFORE_COMMIT, *AFTER_COMMIT} == steps


def test_a_move_killed_at_any_step_has_happened_or_not_and_can_be_made_again(
    new_site: NewSite, topic_name: str, lease_processes: LeaseProcesses
) -> None:
    def check(step: str) -> None:
        site = new_site(f"{topic_name}-{step.replace(' ', '-')}")
        process = lease_processes.start(die_in_move, site.config, site.text(BACK), Death(step=step))
        process.join(120)
        assert process.exitcode == -signal.SIGKILL, f"{step} was not reached"

        # EndTxn is answered before its marker can be read.
        expected = BACK if step in AFTER_COMMIT else RECORDS
        wait_until(lambda: site.position() == expected, f"the position after a death at {step}")
        moved = move(site.config, site.text(BACK))

        assert (moved.error, site.position()) == (None, BACK)
        site.run()
        assert site.arrived() == site.values(0, RECORDS) + site.values(BACK, RECORDS)
        assert_nothing_open(site.west, site.mirror, site.source)

    each_at_once([*BEFORE_COMMIT, *AFTER_COMMIT], check)


def test_a_move_that_was_frozen_at_any_step_changes_nothing_once_a_run_has_come(
    new_site: NewSite, topic_name: str, lease_processes: LeaseProcesses
) -> None:
    def check(step: str) -> None:
        site = new_site(f"{topic_name}-{step.replace(' ', '-')}")
        frozen = lease_processes.start(freeze_in_move, site.config, site.text(BACK), step)
        assert frozen.pid is not None
        stat = Path(f"/proc/{frozen.pid}/stat")
        wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "the move to freeze")

        append(site.east, site.source.topic, 0, simple_records(5, start=9000))
        site.run()
        assert site.position() == RECORDS + 5
        os.kill(frozen.pid, signal.SIGCONT)
        frozen.join(120)

        assert frozen.exitcode == 0, "it ends by itself, and says why"
        assert site.position() == RECORDS + 5
        assert site.arrived() == site.values(0, RECORDS + 5)
        site.run()
        assert_nothing_open(site.west, site.mirror, site.source)

    each_at_once(BEFORE_COMMIT[1:], check)


def _aside(work: Callable[[], T]) -> T:
    """Runs in a thread: the calling one has an event loop running."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


@pytest.mark.parametrize("step", [Step.SEND_BATCH, Step.SEND_PROGRESS, Step.COMMIT])
def test_a_lease_that_was_frozen_adds_nothing_behind_a_move(
    step: str, site: Site, lease_processes: LeaseProcesses
) -> None:
    append(site.east, site.source.topic, 0, simple_records(5, start=9000))
    plan = lease_plan(site.east, [(site.source, [map_work(site.west, site.source)])], end=RECORDS + 5)
    zombie = lease_processes.freeze_in_lease(plan, step)

    moved = move(site.config, site.text(BACK))
    assert (moved.error, site.position()) == (None, BACK)
    wake(zombie, seconds_max=120)

    assert zombie.exitcode == 0, "it ends by itself"
    # A lease takes its shard over anew and copies from where it was moved to, or it has come too late for that.
    assert site.arrived() in (site.values(0, RECORDS), site.values(0, RECORDS) + site.values(BACK, RECORDS + 5))
    site.run()
    assert site.arrived() == site.values(0, RECORDS) + site.values(BACK, RECORDS + 5)
    assert_nothing_open(site.west, site.mirror, site.source)


def test_a_copier_that_did_not_hear_of_a_move_is_fenced(site: Site) -> None:
    """A lease of a process without an owner's record, between the move's take-over of the shard and its commit."""
    plan = lease_plan(site.east, [(site.source, [map_work(site.west, site.source)])], end=RECORDS + 5)
    before = run_lease(plan)[0, "west"]
    assert before.position == RECORDS
    append(site.east, site.source.topic, 0, simple_records(5, start=9000))
    rows: list[LeaseRow] = []

    def rival(step: str) -> None:
        if step == Step.ADD_PARTITIONS and not rows:
            rows.append(_aside(lambda: run_lease(plan)[0, "west"]))

    moved = move(site.config, site.text(BACK), rival)

    # The rival came after the fence, and took the shard in turn: the move finds itself fenced.
    assert rows[0].position == RECORDS + 5
    assert isinstance(moved.error, MirrorlakeError)
    assert moved.done == []
    assert site.position() == RECORDS + 5
    assert site.arrived() == site.values(0, RECORDS + 5)


@pytest.mark.quick
def test_a_position_that_moved_since_it_was_looked_at_is_left_as_it_is(site: Site) -> None:
    append(site.east, site.source.topic, 0, simple_records(5, start=9000))

    def somebody_copies(step: str) -> None:
        if step == STEP_KNOCK:
            site.run()

    moved = move(site.config, site.text(BACK), somebody_copies)

    assert isinstance(moved.error, PositionMovedError)
    assert (moved.done, site.position()) == ([], RECORDS + 5)


def test_a_mirror_that_runs_is_not_moved_and_one_that_started_meanwhile_keeps_its_own(site: Site) -> None:
    with RunningService(site.config) as service:
        service.await_states("caught-up", partitions=1)
        refused = move(site.config, site.text(BACK))
        assert isinstance(refused.error, CommandRefusedError)
        assert site.position() == RECORDS
        assert service.states() == {"caught-up"}

    services: list[RunningService] = []

    def starts(step: str) -> None:
        if step == Step.FENCE and not services:
            services.append(RunningService(site.config))
            services[0].__enter__()
            services[0].await_states("caught-up", partitions=1)

    try:
        overtaken = move(site.config, site.text(BACK), starts)
        assert isinstance(overtaken.error, SupersededError)
        assert site.position() == RECORDS
        append(site.east, site.source.topic, 0, simple_records(5, start=9000))
        wait_until(lambda: site.position() == RECORDS + 5, "the service to continue")
    finally:
        for each in services:
            each.__exit__(None, None, None)
    assert site.arrived() == site.values(0, RECORDS + 5)


def test_the_ownership_is_let_go_of_unless_leases_of_a_dead_owner_may_be_under_way(
    site: Site, lease_processes: LeaseProcesses
) -> None:
    assert move(site.config, site.text(BACK)).error is None
    assert owner_state(site.west, site.mirror).is_released
    process = lease_processes.start(die_in_move, site.config, site.text(20), Death(step=Step.FENCE))
    process.join(120)
    assert not owner_state(site.west, site.mirror).is_released
    assert move(site.config, site.text(20)).error is None
    assert not owner_state(site.west, site.mirror).is_released


def owner_state(servers: str, mirror: str) -> OwnerState:
    async def ask() -> OwnerState:
        async with ClusterClient(settings_of(servers)) as client:
            return (await find_states(client))[mirror]

    return asyncio.run(ask())


@dataclass(frozen=True)
class Pair:
    """Two mirrors of a topic of two partitions, whose copies are in two shards."""

    folder: Path
    east: str
    west: str
    topic: str

    def config(self, *names: str) -> Path:
        mirrors = "".join(
            f"""  - name: {name}-{self.topic}
    source: {{cluster: east, topics: [{self.topic}]}}
    destinations: [{{type: kafka, cluster: west, topic: "{name}.{{topic}}", offsets: map}}]
"""
            for name in names
        )
        return write_yaml(
            self.folder / f"{'-'.join(names)}.yaml",
            f"""clusters:
  east: {{bootstrap-servers: "{self.east}"}}
  west: {{bootstrap-servers: "{self.west}"}}
mirrors:
{mirrors}engine: {{lanes: 2, lease: 2s, memory: 512MiB}}
""",
        )

    def text(self, offset: int, *names: str) -> str:
        return "".join(f"{name}-{self.topic},{self.topic},{n},{offset}\n" for name in names for n in range(2))

    def positions(self, name: str) -> list[int | None]:
        found = [
            progress_of(
                self.west,
                TopicPartition(self.topic, n),
                topic=f"{name}.{self.topic}",
                mirror=f"{name}-{self.topic}",
                shards=2,
            )
            for n in range(2)
        ]
        return [None if each is None else each.position for each in found]


@pytest.fixture
def pair(source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path) -> Pair:
    found = Pair(tmp_path, source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, topic_name)
    make_topic(found.east, topic_name, simple_records(RECORDS), simple_records(RECORDS, start=1000))
    for name in ("a", "b"):
        create_topic(found.west, f"{name}.{topic_name}", 2)
    ended = mirrorlake("run", "--once", "-c", found.config("a", "b"))
    assert ended.code == 0, ended.err
    return found


def test_a_move_killed_between_two_shards_is_completed_by_the_same_command(
    pair: Pair, lease_processes: LeaseProcesses
) -> None:
    config, text = pair.config("a", "b"), pair.text(BACK, "a")
    process = lease_processes.start(die_in_move, config, text, Death(step=Step.ADD_PARTITIONS, occurrence=2))
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    assert sorted(each or 0 for each in pair.positions("a")) == [BACK, RECORDS]

    moved = move(config, text)

    assert (moved.error, len(moved.done)) == (None, 1), "only what is left of it is moved"
    assert pair.positions("a") == [BACK, BACK]


def test_of_two_mirrors_none_is_moved_where_one_of_them_runs(pair: Pair) -> None:
    with RunningService(pair.config("b")) as service:
        service.await_states("caught-up", partitions=2)
        moved = move(pair.config("a", "b"), pair.text(BACK, "a", "b"))
        assert isinstance(moved.error, CommandRefusedError)
    assert moved.done == []
    assert pair.positions("a") == pair.positions("b") == [RECORDS, RECORDS]
    assert move(pair.config("a", "b"), pair.text(BACK, "a", "b")).error is None
    assert pair.positions("a") == pair.positions("b") == [BACK, BACK]


@pytest.mark.parametrize(
    ("api", "requests"),
    [
        (Api.INIT_PRODUCER_ID, 1),  # the owner's
        (Api.INIT_PRODUCER_ID, 2),  # the shard's
        (Api.ADD_PARTITIONS_TO_TXN, 2),
        (Api.PRODUCE, 2),
        (Api.END_TXN, 1),
        (Api.END_TXN, 2),
    ],
)
def test_a_move_whose_answer_was_lost_says_so_or_has_happened_and_can_be_made_again(
    api: Api, requests: int, proxy: Proxy, site: Site, topic_name: str
) -> None:
    west = proxy.address
    topic = f"lossy-{topic_name}"
    make_topic(site.east, topic, simple_records(RECORDS))
    create_topic(west, topic)
    text = site.config.read_text(encoding="utf-8").replace(site.west, west).replace(topic_name, topic)
    behind = Site(write_yaml(site.config.with_name("lossy.yaml"), text), site.east, west, TopicPartition(topic, 0))
    behind.run()
    cuts = proxy.cuts
    proxy.cut_before_answer(api, after_requests=requests)

    first = move(behind.config, behind.text(BACK))

    assert proxy.cuts == cuts + 1, "the answer was not lost"
    proxy.forgive()
    if first.error is None:
        assert behind.position() == BACK
    else:
        assert first.done == []
        assert behind.position() in (BACK, RECORDS)
    assert move(behind.config, behind.text(BACK)).error is None
    assert behind.position() == BACK
    behind.run()
    assert behind.arrived() == behind.values(0, RECORDS) + behind.values(BACK, RECORDS)
    assert_nothing_open(west, behind.mirror, behind.source)
