"""A transactional id that expired stands for another producer id: the copy continues; unknown ones stay unknown."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from conftest import NewKafka, RunAsync
from mirrorlake.clock import SystemClock
from mirrorlake.config.loading import parse_configuration
from mirrorlake.config.resolved import Configuration
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.preserve.work import PreserveWork
from mirrorlake.destinations.transactions.owner_states import OwnerState, read_states, transactional_id
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import DestinationForeignError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import AppendState
from mirrorlake.kafka.records.batches import prepare_for_append, walk
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.owners.owners import Owners
from mirrorlake.service.states import state_of
from mirrorlake.topics.discovery import find_targets
from mirrorlake.topics.targets import Target, shard_of, transactional_id_of
from mirrorlake.topics.topic_creation import create_topics
from support.copies import assert_equal_in_kafka, wait_until
from support.leases import lease_plan, run_lease
from support.records import build_batch, produce, settings_of, simple_records
from support.topics import append, make_topic
from support.transactions import is_forgotten

pytestmark = pytest.mark.kafka

EXPIRY = {"transactional_id_expiration_ms": 6000, "transaction_remove_expired_transaction_cleanup_interval_ms": 200}


def configuration(source: str, destination: str, topic: str) -> Configuration:
    text = f"""
clusters: {{east: {{bootstrap-servers: "{source}"}}, west: {{bootstrap-servers: "{destination}"}}}}
mirrors:
  - {{name: {topic}, source: {{cluster: east, topics: [{topic}]}}, destinations: [{{type: kafka, cluster: west}}]}}
"""
    return parse_configuration(text.encode(), file="mirror.yaml", environ={})


class Process:
    """What one process does of it: takes the mirror over, copies, and looks at its ids now and then."""

    def __init__(self, config: Configuration, source: str) -> None:
        self.config, self.source = config, source

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[tuple[Owners, Target]]:
        """The mirror is taken over within the block, which ends as a process does that dies."""
        clients = WorkerCache()
        try:
            targets = await find_targets(self.config, clients)
            assert await create_topics(targets, clients) == {}
            owners = Owners(clients, owner="test", clock=SystemClock())
            assert await owners.take(targets) == {}
            yield owners, targets[0]
        finally:
            await clients.close()

    def copy(self, target: Target, known: frozenset[int], end: int) -> LeaseRow:
        work = state_of(target, writer="test").work
        assert isinstance(work, PreserveWork)
        work = replace(work, orders=replace(work.orders, own_producer_ids=known))
        plan = lease_plan(self.source, [(target.source, [work])], end=end)
        (row,) = run_lease(plan).values()
        return row


def ids_of(owners: Owners, target: Target) -> frozenset[int]:
    return owners.holding(
        target.mirror.name, "west", shard_of(target.source), target.destination_partition
    ).own_producer_ids


def test_a_copy_goes_on_under_another_producer_id_and_an_unknown_producer_is_still_refused(
    source_kafka: EmbeddedKafka, new_kafka: NewKafka, topic_name: str, run_async: RunAsync
) -> None:
    source = source_kafka.bootstrap_servers
    destination = new_kafka(**EXPIRY).bootstrap_servers
    make_topic(source, topic_name, simple_records(20))
    process = Process(configuration(source, destination, topic_name), source)

    async def first() -> tuple[LeaseRow, frozenset[int]]:
        async with process.serving() as (owners, target):
            row = await asyncio.to_thread(process.copy, target, frozenset(), 20)
            await owners.check()
            return row, ids_of(owners, target)

    row, before = run_async(first())
    assert (row.error, row.position, len(before)) == (None, 20, 1)
    await_expiry(destination, topic_name)
    append(source, topic_name, 0, simple_records(5, start=20))

    async def second(position: int) -> tuple[LeaseRow, LeaseRow]:
        async with process.serving() as (owners, target):
            known = ids_of(owners, target)
            assert known > before, "what was remembered is all that tells its own id from an unknown one"
            without = await asyncio.to_thread(process.copy, target, frozenset(), position)
            row = await asyncio.to_thread(process.copy, target, known, position)
            await owners.check()
            return without, row

    without, row = run_async(second(25))
    assert isinstance(without.error, DestinationForeignError), "the partition does remember the id before"
    assert (row.error, row.position) == (None, 25)
    assert_equal_in_kafka(source, destination, topic_name)

    write_as_an_unknown_producer(destination, topic_name)
    append(source, topic_name, 0, simple_records(5, start=25))

    async def third() -> LeaseRow:
        async with process.serving() as (owners, target):
            return await asyncio.to_thread(process.copy, target, ids_of(owners, target), 31)

    row = run_async(third())
    assert isinstance(row.error, DestinationForeignError)
    assert "has another writer" in row.error.message


def test_a_process_that_dies_after_its_first_record_has_its_producer_id_remembered(
    source_kafka: EmbeddedKafka, new_kafka: NewKafka, topic_name: str, run_async: RunAsync
) -> None:
    """It never looks again, and who comes next comes after the transactional id has expired."""
    source = source_kafka.bootstrap_servers
    destination = new_kafka(**EXPIRY).bootstrap_servers
    make_topic(source, topic_name, simple_records(20))
    process = Process(configuration(source, destination, topic_name), source)

    async def one(end: int) -> tuple[LeaseRow, frozenset[int]]:
        async with process.serving() as (owners, target):
            known = ids_of(owners, target)
            return await asyncio.to_thread(process.copy, target, known, end), known

    row, before = run_async(one(20))
    assert (row.error, row.position, len(before)) == (None, 20, 1), "known before the lease began"
    await_expiry(destination, topic_name)
    append(source, topic_name, 0, simple_records(5, start=20))

    row, known = run_async(one(25))
    assert (row.error, row.position) == (None, 25)
    assert known > before
    assert_equal_in_kafka(source, destination, topic_name)


def test_a_producer_id_that_a_lease_got_is_remembered_when_its_process_ends(
    source_kafka: EmbeddedKafka, new_kafka: NewKafka, topic_name: str, run_async: RunAsync
) -> None:
    """The one that the take-over got expired before the lease began, and the process ends before its next look."""
    source = source_kafka.bootstrap_servers
    destination = new_kafka(**EXPIRY).bootstrap_servers
    make_topic(source, topic_name, simple_records(20))
    process = Process(configuration(source, destination, topic_name), source)

    async def story() -> tuple[frozenset[int], OwnerState]:
        async with process.serving() as (owners, target):
            known = ids_of(owners, target)
            await asyncio.to_thread(await_expiry, destination, topic_name)
            await owners.check()  # the last look before the lease; the owner's own id has expired too
            row = await asyncio.to_thread(process.copy, target, known, 20)
            assert (row.error, row.position) == (None, 20)
            await owners.release()
        async with ClusterClient(settings_of(destination)) as client:
            return known, (await read_states(client))[topic_name]

    known, state = run_async(story())
    assert state.is_released
    ids = {each for held in state.producer_ids.values() for each in held}
    assert (len(known), len(ids)) == (1, 2)
    assert ids == known | remembered_by(destination, topic_name, run_async)


def await_expiry(servers: str, topic: str) -> None:
    """Returns when the coordinator has forgotten the transactional ids of the shard and of the owner."""
    ids = [transactional_id_of(topic, shard_of(TopicPartition(topic, 0))), transactional_id(topic)]
    wait_until(lambda: is_forgotten(servers, *ids), "the transactional ids to expire")


def remembered_by(servers: str, topic: str, run_async: RunAsync) -> set[int]:
    """Returns the producer ids that the partition's leader knows."""

    async def ask() -> set[int]:
        where = TopicPartition(topic, 0)
        async with ClusterClient(settings_of(servers)) as client:
            state = (await client.append_states([where]))[where]
            assert isinstance(state, AppendState), state
            return {each.producer_id for each in state.producers}

    return run_async(ask())


def write_as_an_unknown_producer(servers: str, topic: str) -> None:
    """Appends a record under a producer id of its own, as any idempotent producer does."""

    async def write() -> None:
        async with ClusterClient(settings_of(servers)) as client:
            unknown = await client.init_producer_id(None, transaction_timeout_ms=10_000)
        data = bytearray(build_batch(simple_records(1)))
        (batch,) = walk(memoryview(data))
        prepare_for_append(
            batch, producer_id=unknown.producer_id, producer_epoch=unknown.producer_epoch, base_sequence=0
        )
        await produce(servers, topic, 0, [bytes(data)])

    asyncio.run(write())
