"""The state topic where a transaction is open that nobody will ever end: its coordinator calls it over (A6)."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import NewKafka, RunAsync
from mirrorlake.clock import SystemClock
from mirrorlake.destinations.transactions.owner_states import (
    STATE_PARTITION,
    STATE_TOPIC,
    OwnerState,
    encode_state_batch,
    find_states,
    read_states,
    transactional_id,
)
from mirrorlake.destinations.transactions.ownership import Ownership
from mirrorlake.errors import BrokerNotReadyError, TransientError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import ProducerIdentity, TransactionState
from mirrorlake.kafka.wire.apis import PRODUCE_VERSION, Api
from mirrorlake.kafka.wire.produce import decode_produce, encode_produce
from mirrorlake.service.lifecycle.endings import EXIT_PARKED
from support.cleanliness import assert_clean
from support.command import write_yaml
from support.copies import log_end, wait_until
from support.kafka_nodes import TRANSACTION_STATE, KafkaNodes
from support.records import settings_of, simple_records
from support.service_process import ServiceProcess
from support.topics import append, delete_topic, make_topic

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def owned_by(client: ClusterClient, owner: str, *, mirror: str = "orders") -> Ownership:
    return Ownership(client, mirror=mirror, owner=owner, clock=SystemClock())


def state_of(mirror: str, *, source: str = "source-1") -> OwnerState:
    return OwnerState(mirror=mirror, source_cluster_id=source, shards=16)


async def found_of(client: ClusterClient, mirror: str) -> TransactionState:
    name = transactional_id(mirror)
    found = (await client.describe_transactions([name]))[name]
    assert isinstance(found, TransactionState)
    return found


async def append_behind_the_end(client: ClusterClient, state: OwnerState) -> None:
    """Appends a state record to a transaction that is over, which a broker that does not verify it takes."""
    found = await found_of(client, state.mirror)
    identity = ProducerIdentity(producer_id=found.producer_id, producer_epoch=found.producer_epoch)
    batch = encode_state_batch(state, identity, sequence=1)
    led = (await client.metadata([STATE_TOPIC])).partition(STATE_PARTITION)
    assert led is not None
    connection = await client.connection(led.leader)
    body = encode_produce([(STATE_TOPIC, 0, batch)], timeout_ms=10_000, transactional_id=transactional_id(state.mirror))
    with await connection.request(Api.PRODUCE, PRODUCE_VERSION, body, timeout_seconds=30) as frame:
        (answer,) = decode_produce(frame.view)
    assert answer.error_code == 0


def test_a_forgotten_transaction_in_the_state_topic_is_ended_by_who_reads_it_and_its_owner_stays_one(
    new_kafka: NewKafka, run_async: RunAsync
) -> None:
    kafka = new_kafka(transaction_partition_verification_enable="false")
    servers = kafka.bootstrap_servers

    async def story() -> dict[str, OwnerState]:
        async with ClusterClient(settings_of(servers)) as client, ClusterClient(settings_of(servers)) as other:
            await read_states(client)
            owner = owned_by(client, "the owner")
            await owner.take(state_of("orders"))
            await append_behind_the_end(client, state_of("orders", source="source-2"))
            states = await read_states(other)
            owner.check(await found_of(client, "orders"))  # raises where it was superseded
            await owner.take(state_of("orders", source="source-3"))
            assert (await read_states(other))["orders"].source_cluster_id == "source-3"
            return states

    states = run_async(story())
    assert states["orders"].source_cluster_id == "source-2"
    assert_clean(servers, [STATE_TOPIC])


def test_a_transaction_that_is_under_way_in_the_state_topic_is_waited_for_and_not_ended(
    new_kafka: NewKafka, run_async: RunAsync
) -> None:
    kafka = new_kafka(transaction_partition_verification_enable="false")

    async def story() -> tuple[str, dict[str, OwnerState]]:
        async with ClusterClient(settings_of(kafka.bootstrap_servers)) as client:
            await read_states(client)
            await owned_by(client, "the owner").take(state_of("orders"))
            found = await found_of(client, "orders")
            identity = ProducerIdentity(producer_id=found.producer_id, producer_epoch=found.producer_epoch)
            await client.add_partitions_to_transaction(transactional_id("orders"), identity, [STATE_PARTITION])
            await append_behind_the_end(client, state_of("orders", source="source-2"))
            with pytest.raises(BrokerNotReadyError, match=f"producer id {found.producer_id}, epoch 0, "):
                await read_states(client)
            between = (await found_of(client, "orders")).state
            await client.end_transaction(transactional_id("orders"), identity, committed=False)
            return between, await read_states(client)

    between, states = run_async(story())
    assert between == "Ongoing"
    assert states["orders"].source_cluster_id == "source-1"


class LosesItsLeader(ClusterClient):
    """Whose state topic loses its only leader right before a transaction is ended."""

    lose: Callable[[], None]

    async def end_transaction(
        self, transactional_id: str, identity: ProducerIdentity, *, committed: bool, **also: Any
    ) -> None:
        await asyncio.to_thread(self.lose)
        await super().end_transaction(transactional_id, identity, committed=committed, **also)


@pytest.fixture
def state_on_node_1(kafka_nodes: KafkaNodes, run_async: RunAsync) -> Iterator[KafkaNodes]:
    """The state topic has one replica, on node 1, which coordinates no transaction."""

    async def make() -> None:
        async with ClusterClient(settings_of(kafka_nodes.inside_servers)) as client:
            await read_states(client)

    run_async(make())
    kafka_nodes.move(TRANSACTION_STATE, [2, 3])
    kafka_nodes.move(STATE_TOPIC, [1])
    yield kafka_nodes
    kafka_nodes.revive()


@pytest.mark.soak
def test_an_owner_whose_record_lost_its_leader_before_the_marker_is_one_and_readers_are_not_held_up(
    state_on_node_1: KafkaNodes, topic_name: str, run_async: RunAsync
) -> None:
    nodes = state_on_node_1

    def lose_leader() -> None:
        nodes.nodes[1].kill()
        wait_until(lambda: nodes.leader(STATE_TOPIC) == -1, "no leader")

    async def story() -> OwnerState:
        async with LosesItsLeader(settings_of(nodes.inside_servers)) as client:
            client.lose = lose_leader
            owner = owned_by(client, "the owner", mirror=topic_name)
            with pytest.raises(TransientError):
                await owner.take(state_of(topic_name))
            await asyncio.to_thread(nodes.revive)
        async with ClusterClient(settings_of(nodes.inside_servers)) as other:
            return (await read_states(other))[topic_name]

    assert run_async(story()).owner == "the owner"
    assert_clean(nodes.inside_servers, [STATE_TOPIC])


def test_a_service_whose_state_record_was_deleted_says_so_once_and_writes_it_anew_and_a_parked_copy_keeps_its_reason(
    new_kafka: NewKafka, run_async: RunAsync, tmp_path: Path
) -> None:
    east, west = new_kafka().bootstrap_servers, new_kafka().bootstrap_servers
    for topic in ("orders", "bills"):
        make_topic(east, topic, simple_records(5))
    make_topic(west, "bills", simple_records(9))  # nobody's copy, and longer than the source
    config = write_yaml(
        tmp_path / "mirror.yaml",
        f"""clusters:
  east: {{bootstrap-servers: "{east}"}}
  west: {{bootstrap-servers: "{west}"}}
engine: {{lanes: 1, lease: 1s, discovery: 1s, memory: 512MiB}}
mirrors:
  - {{name: trade, source: {{cluster: east, topics: [orders, bills]}}, destinations: [{{type: kafka, cluster: west}}]}}
""",
    )

    def states() -> dict[str, OwnerState]:
        async def ask() -> dict[str, OwnerState]:
            async with ClusterClient(settings_of(west)) as client:
                return await find_states(client)

        return run_async(ask())

    with ServiceProcess("run", "-c", str(config), folder=tmp_path, without_spark=True) as service:
        service.await_words("reason=")
        wait_until(lambda: log_end(west, "orders") == 5, "the records", log=service.said)
        before = states()["trade"]
        delete_topic(west, STATE_TOPIC)
        service.await_words("the state record of the mirror is gone")
        wait_until(lambda: "trade" in states(), "the record", log=service.said)
        append(east, "orders", 0, simple_records(3, start=5))
        wait_until(lambda: log_end(west, "orders") == 8, "more records", log=service.said)
        service.signal(15)
        assert service.exit_code() == EXIT_PARKED
        said = service.said()

    after = states()["trade"]
    assert (after.owner, after.topic_ids, after.destinations) == (before.owner, before.topic_ids, before.destinations)
    assert said.count("the state record of the mirror is gone") == 1
    assert "reason=missing" not in said
