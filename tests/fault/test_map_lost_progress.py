"""Map mode: the topics that say what was copied are deleted, recreated or emptied; nothing is copied twice for it."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from conftest import NewKafka
from mirrorlake.clock import SystemClock
from mirrorlake.config.loading import parse_configuration
from mirrorlake.config.resolved import Configuration
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.map.progress import ProgressKey
from mirrorlake.destinations.map.progress_store import ProgressTopics
from mirrorlake.destinations.map.settings import map_transactional_id
from mirrorlake.destinations.map.shard_count import SHARDS_UNWRITTEN, find_shards, settle_shards
from mirrorlake.destinations.map.shard_transaction import ShardTransaction
from mirrorlake.destinations.map.work import MapWork
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import LostProgressError, MirrorlakeError, PositionMovedError
from mirrorlake.kafka.control.cluster import EARLIEST, ClusterClient
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.map_shards import with_settled_shards
from mirrorlake.service.owners.owners import Owners
from mirrorlake.service.plan.planning import Action, PlanRow, read_plan
from mirrorlake.service.selection import Selection
from mirrorlake.service.states import state_of
from mirrorlake.service.status import StatusRow, read_rows
from mirrorlake.stores.crash_points import no_crash
from mirrorlake.topics import map_topics
from mirrorlake.topics.discovery import find_targets
from mirrorlake.topics.targets import Target, shard_of
from mirrorlake.verify.unnamed import UnnamedTask, find_unnamed
from mirrorlake.verify.verdict import Result, Verdict
from mirrorlake.verify.verification import RecordVerification
from mirrorlake.verify.worker import work as verify_task
from support.admin import alter_topic
from support.command import write_yaml
from support.compaction import append_and_compact, create_compacted, keyed_records
from support.copies import create_topic, log_end, source_end, wait_until
from support.leases import lease_plan, map_work, run_lease
from support.records import consume, settings_of, simple_records
from support.running_service import RunningService
from support.topics import append
from support.transactions import is_forgotten

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

COUNT = 40
EXPIRY = {"transactional_id_expiration_ms": 8000, "transaction_remove_expired_transaction_cleanup_interval_ms": 200}


@dataclass
class Run:
    """What one start of a service found, and the works its leases would be given."""

    works: list[MapWork]
    errors: list[MirrorlakeError | None]


class Mirrored:
    """A topic mirrored with mapped offsets by what ``run`` calls, without Spark."""

    def __init__(self, source: str, destination: str, topic: str) -> None:
        self.source, self.destination, self.topic = source, destination, topic
        self.topics = ProgressTopics(mirror=topic, shards=1)
        create_topic(source, topic)
        create_topic(destination, topic)
        append(source, topic, 0, simple_records(COUNT))

    @property
    def text(self) -> str:
        return f"""
clusters:
  east: {{bootstrap-servers: "{self.source}"}}
  west: {{bootstrap-servers: "{self.destination}"}}
mirrors:
  - name: {self.topic}
    source: {{cluster: east, topics: [{self.topic}]}}
    destinations: [{{type: kafka, cluster: west, offsets: map}}]
service: {{metrics: off}}
engine: {{lanes: 1, lease: 1s, memory: 512MiB, discovery: 1h}}
"""

    @property
    def config(self) -> Configuration:
        return parse_configuration(self.text.encode(), file="test.yaml", environ={})

    def begin(self) -> Run:
        """What a start does before its first lease."""

        async def begin() -> Run:
            clients = WorkerCache()
            try:
                targets = await find_targets(self.config, clients)
                targets = await with_settled_shards(targets, clients, lanes=1, clock=SystemClock())
                await Owners(clients, owner="test", clock=SystemClock()).take(targets)
            finally:
                await clients.close()
            works = [state_of(target, writer="test").work for target in targets]
            return Run([each for each in works if isinstance(each, MapWork)], [target.error for target in targets])

        return asyncio.run(begin())

    def copy(self, work: MapWork) -> LeaseRow:
        end = source_end(self.source, self.topic)
        (row,) = run_lease(lease_plan(self.source, [(work.settings.source, [work])], end=end)).values()
        return row

    def run(self) -> LeaseRow:
        """A whole start of a service that is not refused."""
        begun = self.begin()
        assert begun.errors == [None]
        row = self.copy(begun.works[0])
        assert row.error is None, row.error
        return row

    def plan(self) -> PlanRow:
        (row,) = asyncio.run(read_plan(self.config))
        return row

    def verdict(self) -> Verdict:
        async def rows() -> Any:
            clients = WorkerCache()
            try:
                return await read_rows(await find_targets(self.config, clients), clients)
            finally:
                await clients.close()

        found = asyncio.run(rows())
        (verdict,) = RecordVerification(found, run_task=lambda task: verify_task(task.plan), tasks_at_once=1).run()
        return verdict

    def client(self, act: Callable[[ClusterClient], Coroutine[Any, Any, Any]]) -> Any:
        async def run() -> Any:
            async with ClusterClient(settings_of(self.destination)) as client:
                return await act(client)

        return asyncio.run(run())

    def delete(self, *names: str) -> None:
        async def delete(client: ClusterClient) -> None:
            for name in names:
                await client.topics.delete(name)

        self.client(delete)
        wait_until(lambda: not any(self.has(name) for name in names), f"{names} to be gone")

    def has(self, name: str) -> bool:
        return name in self.client(lambda client: client.metadata([name], refresh=True)).topics

    def held(self) -> int:
        return len(consume(self.destination, self.topic, 0))

    def assert_refused(self) -> None:
        """A start is refused with a remedy, says so in its plan, and copies nothing."""
        append(self.source, self.topic, 0, simple_records(10, start=COUNT))
        before = log_end(self.destination, self.topic)
        for _ in range(2):
            begun = self.begin()
            (error,) = begun.errors
            row = self.copy(begun.works[0]) if error is None else None
            found = error or (row.error if row else None)
            assert isinstance(found, LostProgressError), (found, row)
            assert found.hint
        assert self.plan().action is Action.REFUSE
        assert log_end(self.destination, self.topic) == before
        assert self.held() == COUNT


@pytest.fixture
def mirrored(source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str) -> Mirrored:
    return Mirrored(source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, topic_name)


@pytest.mark.quick
def test_a_progress_topic_that_was_deleted_between_two_runs_is_missed_and_nothing_is_copied_twice(
    mirrored: Mirrored,
) -> None:
    assert mirrored.run().records == COUNT
    mirrored.delete(mirrored.topics.progress)
    mirrored.assert_refused()
    assert not mirrored.has(mirrored.topics.progress), "it was recreated"


def test_an_offset_map_topic_that_was_deleted_is_missed(mirrored: Mirrored) -> None:
    mirrored.run()
    mirrored.delete(mirrored.topics.pages)
    mirrored.assert_refused()


def test_a_progress_topic_that_somebody_recreated_is_another_one(mirrored: Mirrored) -> None:
    mirrored.run()
    mirrored.delete(mirrored.topics.progress)
    create_topic(mirrored.destination, mirrored.topics.progress, cleanup_policy="compact")
    mirrored.assert_refused()


def test_a_progress_topic_that_was_emptied_is_refused(mirrored: Mirrored) -> None:
    mirrored.run()
    progress = mirrored.topics.progress_of(0)
    alter_topic(mirrored.destination, mirrored.topics.progress, cleanup_policy="delete")

    async def empty(client: ClusterClient) -> None:
        deleted = (await client.delete_records({progress: -1}))[progress]
        assert deleted, deleted

    mirrored.client(empty)
    alter_topic(mirrored.destination, mirrored.topics.progress, cleanup_policy="compact")
    mirrored.assert_refused()


def test_compaction_leaves_the_start_of_a_log_where_it_is(mirrored: Mirrored) -> None:
    name = f"{mirrored.topic}-compacted"
    create_compacted(mirrored.destination, name)
    append_and_compact(mirrored.destination, name, keyed_records(60, 3), left={57, 58, 59, 60})
    assert mirrored.client(lambda client: client.offset_at(TopicPartition(name, 0), EARLIEST)) == 0


def test_a_progress_topic_that_is_deleted_while_running_is_not_recreated(mirrored: Mirrored) -> None:
    (work,) = mirrored.begin().works
    row = mirrored.copy(work)
    assert row.error is None
    mirrored.delete(mirrored.topics.progress)
    append(mirrored.source, mirrored.topic, 0, simple_records(10, start=COUNT))
    for hand_off in (row.hand_off, None, None):
        found = mirrored.copy(replace(work, orders=replace(work.orders, hand_off=hand_off)))
        assert found.error is not None
    assert isinstance(found.error, LostProgressError)
    assert mirrored.held() == COUNT
    assert not mirrored.has(mirrored.topics.progress)


def test_a_mirror_whose_copy_was_deleted_too_begins_anew(mirrored: Mirrored) -> None:
    mirrored.run()
    mirrored.delete(mirrored.topics.progress, mirrored.topics.pages, mirrored.topic)
    create_topic(mirrored.destination, mirrored.topic)
    assert mirrored.run().records == COUNT
    assert mirrored.held() == COUNT
    assert mirrored.verdict().result is Result.EQUAL


def test_verify_says_what_stands_at_the_destination_and_the_map_does_not_name(mirrored: Mirrored) -> None:
    mirrored.run()
    append(mirrored.destination, mirrored.topic, 0, simple_records(7, start=500))  # somebody else's
    assert mirrored.verdict().result is Result.EQUAL
    assert mirrored.held() == COUNT + 7
    end = log_end(mirrored.destination, mirrored.topic)
    asyncio.run(_append_as(map_transactional_id(mirrored.topic, 0), mirrored))
    verdict = mirrored.verdict()
    assert verdict.result is Result.DIFFERS
    assert f"{COUNT} records of mirror {mirrored.topic}'s own producers" in str(verdict.error)
    assert f"the first at destination offset {end}" in str(verdict.error)


def test_verify_names_them_also_where_the_transactional_id_has_expired_since(
    source_kafka: EmbeddedKafka, new_kafka: NewKafka, topic_name: str
) -> None:
    """The process died after its first lease: it never looked under which producer id that one had written."""
    destination = new_kafka(**EXPIRY).bootstrap_servers
    mirrored = Mirrored(source_kafka.bootstrap_servers, destination, topic_name)
    mirrored.run()
    transactional_id = map_transactional_id(topic_name, 0)
    asyncio.run(_append_as(transactional_id, mirrored))
    wait_until(lambda: is_forgotten(destination, transactional_id), "the transactional id to expire")

    verdict = mirrored.verdict()

    assert verdict.result is Result.DIFFERS
    assert f"{COUNT} records of mirror {topic_name}'s own producers" in str(verdict.error)


def test_a_service_misses_them_also_where_the_transactional_id_has_expired_while_it_served(
    source_kafka: EmbeddedKafka, new_kafka: NewKafka, topic_name: str, tmp_path: Path
) -> None:
    """Leases are told under which producer ids their own process began to write, and not what it found before that."""
    destination = new_kafka(**EXPIRY).bootstrap_servers
    mirrored = Mirrored(source_kafka.bootstrap_servers, destination, topic_name)
    config = write_yaml(tmp_path / "mirror.yaml", mirrored.text)
    transactional_id = map_transactional_id(topic_name, 0)
    with RunningService(config) as running:
        wait_until(lambda: mirrored.held() == COUNT, "the copy")
        running.service.pause(Selection(mirror=topic_name))
        running.await_states("paused", partitions=1)
        asyncio.run(_append_as(transactional_id, mirrored))  # what is left of it where the progress was cut
        wait_until(lambda: is_forgotten(destination, transactional_id), "the transactional id to expire")
        append(mirrored.source, topic_name, 0, simple_records(10, start=COUNT))
        running.service.resume(Selection(mirror=topic_name))
        wait_until(lambda: running.states() == {"parked"} or mirrored.held() > 2 * COUNT, "the next lease")
        (row,) = running.rows()

    assert row.get("reason") == "lost-progress", row
    assert mirrored.held() == 2 * COUNT, "nothing was copied behind it"


async def _append_as(transactional_id: str, mirrored: Mirrored) -> None:
    """Everything once more, as a take-over that knew of no progress would have written it."""
    producer = AIOKafkaProducer(bootstrap_servers=mirrored.destination, transactional_id=transactional_id)
    await producer.start()
    async with producer.transaction():
        for record in simple_records(COUNT):
            await producer.send_and_wait(mirrored.topic, record.value, record.key, 0)
    await producer.stop()


def rows_after(mirrored: Mirrored, happens: Callable[[], object]) -> list[StatusRow]:
    """What ``plan`` and ``status`` see of a mirror where something happens once its targets are found."""

    async def rows() -> list[StatusRow]:
        clients = WorkerCache()
        try:
            targets = await find_targets(mirrored.config, clients)
            await asyncio.to_thread(happens)
            return await read_rows(targets, clients)
        finally:
            await clients.close()

    return asyncio.run(rows())


@pytest.mark.parametrize("shards", [1, 12])
def test_a_mirror_that_begins_while_it_is_looked_at_has_not_begun_for_who_looks(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, shards: int
) -> None:
    """Who looks knows of no shards, and would ask for one of sixteen: which is not there, or is another one."""
    names = (f"{topic_name}-{number}" for number in count())
    name = next(each for each in names if _shard(each, SHARDS_UNWRITTEN) not in (0, _shard(each, shards)))
    mirrored = Mirrored(source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, name)

    def begins() -> None:
        mirrored.client(lambda client: settle_shards(client, name, wanted=shards, clock=SystemClock()))
        assert mirrored.run().records == COUNT

    (row,) = rows_after(mirrored, begins)
    assert row.error is None
    assert row.mapped is not None
    assert (row.position, row.source_end, row.mapped.progress) == (0, COUNT, None)
    assert mirrored.plan().action is Action.NOTHING


def _shard(topic: str, shards: int) -> int:
    return shard_of(TopicPartition(topic, 0), shards)


def test_a_progress_topic_that_is_deleted_while_it_is_looked_at_is_missed(mirrored: Mirrored) -> None:
    mirrored.run()
    (row,) = rows_after(mirrored, lambda: mirrored.delete(mirrored.topics.progress))
    assert isinstance(row.error, LostProgressError)
    assert row.position is None


def test_a_progress_topic_that_is_deleted_between_two_looks_of_discovery_is_missed(
    mirrored: Mirrored, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirrored.run()

    async def deleted_before(client: ClusterClient, mirror: str) -> int | None:
        await asyncio.to_thread(mirrored.delete, mirrored.topics.progress)
        return await find_shards(client, mirror)

    monkeypatch.setattr(map_topics, "find_shards", deleted_before)
    (error,) = mirrored.begin().errors
    assert isinstance(error, LostProgressError)
    assert not mirrored.has(mirrored.topics.progress), "it was made anew"


def test_a_progress_topic_that_is_deleted_before_shards_are_settled_is_missed(mirrored: Mirrored) -> None:
    mirrored.run()

    async def begin() -> list[Target]:
        clients = WorkerCache()
        try:
            targets = await find_targets(mirrored.config, clients)
            await asyncio.to_thread(mirrored.delete, mirrored.topics.progress)
            return await with_settled_shards(targets, clients, lanes=1, clock=SystemClock())
        finally:
            await clients.close()

    (target,) = asyncio.run(begin())
    assert isinstance(target.error, LostProgressError)
    assert not mirrored.has(mirrored.topics.progress), "it was made anew"
    mirrored.assert_refused()


def test_what_was_copied_of_a_source_topic_before_it_was_recreated_is_named_still(mirrored: Mirrored) -> None:
    first = map_work(
        mirrored.destination, TopicPartition(mirrored.topic, 0), source_cluster_id="east", source_topic_id="first"
    )
    assert mirrored.copy(first).records == COUNT
    second = replace(first, settings=replace(first.settings, source_topic_id="second", restarts_recreated=True))
    assert mirrored.copy(second).records == COUNT
    assert mirrored.held() == 2 * COUNT

    async def tell(client: ClusterClient) -> Any:
        task = UnnamedTask(
            cluster=client.settings,
            partition=TopicPartition(mirrored.topic, 0),
            topics=mirrored.topics,
            own_producer_ids=frozenset(),
        )
        return await find_unnamed(task)

    assert mirrored.client(tell).records == 0


def test_what_another_owner_committed_since_the_take_over_is_no_lost_progress(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str
) -> None:
    """As a lease does on a host that is cut off from its driver alone: it takes over again whenever it is fenced."""
    mirrored = Mirrored(source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, topic_name)
    mirrored.run()
    work = mirrored.begin().works[0]
    key = ProgressKey(destination_topic=topic_name, source=work.settings.source)
    wanted: Any = SimpleNamespace(destination=TopicPartition(topic_name, 0), destination_topic_id="")

    async def channel_to(_: int) -> Any:
        raise AssertionError("nothing is sent")

    async def join_after_another() -> None:
        async with ClusterClient(settings_of(mirrored.destination)) as client:
            wanted.destination_topic_id = (await client.metadata([topic_name])).topics[topic_name].topic_id
            shard = ShardTransaction(
                client,
                map_transactional_id(topic_name, 0),
                mirrored.topics,
                0,
                channel_to=channel_to,
                clock=SystemClock(),
                send_until_seconds=SystemClock().elapsed_seconds() + 60,
                crash_point=no_crash,
            )
            known = await shard.progress_of(key, None)
            assert known is not None
            await asyncio.to_thread(append, mirrored.source, topic_name, 0, simple_records(COUNT, start=COUNT))
            other = await asyncio.to_thread(mirrored.copy, work)
            assert (other.error, other.position) == (None, 2 * COUNT)
            try:
                await shard.join(
                    key,
                    make_participant=lambda _: wanted,
                    hand_off=None,
                    own_producer_ids=work.settings.own_producer_ids,
                )
            finally:
                await shard.cancel()

    with pytest.raises(PositionMovedError, match=r"has taken .* over and committed meanwhile"):
        asyncio.run(join_after_another())
    assert mirrored.copy(mirrored.begin().works[0]).error is None
    assert len(consume(mirrored.destination, topic_name, 0)) == 2 * COUNT
