"""A state record whose transaction was open for too long: its coordinator aborts it, as a new owner would."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import RunAsync
from mirrorlake.clock import SystemClock
from mirrorlake.destinations.transactions import ownership
from mirrorlake.destinations.transactions.owner_states import (
    STATE_PARTITION,
    STATE_TOPIC,
    OwnerState,
    read_states,
    transactional_id,
)
from mirrorlake.destinations.transactions.ownership import Ownership
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import BrokerNotReadyError, SupersededError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import ProducerIdentity, TransactionState
from support.cleanliness import assert_clean
from support.records import settings_of

pytestmark = pytest.mark.kafka

TIMEOUT_MS = 3000


@pytest.fixture(scope="module")
def kafka(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """Looks for transactions whose time is over all the time; every ten seconds by default."""
    properties = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
    folder = tmp_path_factory.mktemp("impatient-kafka")
    with EmbeddedKafka(folder, libs=kafka_libs, properties=properties) as server:
        yield server


@pytest.fixture(autouse=True)
def _little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownership, "TRANSACTION_TIMEOUT_MS", TIMEOUT_MS)


class StandsStill(ClusterClient):
    """Stands still before it ends its next transaction, until the coordinator has aborted that."""

    is_to_stand_still = False

    async def end_transaction(
        self, transactional_id: str, identity: ProducerIdentity, *, committed: bool, **also: Any
    ) -> None:
        if self.is_to_stand_still:
            self.is_to_stand_still = False
            while (await found_of(self, transactional_id)).state != "CompleteAbort":
                await asyncio.sleep(0.05)
        await super().end_transaction(transactional_id, identity, committed=committed, **also)


async def found_of(client: ClusterClient, name: str) -> TransactionState:
    found = (await client.describe_transactions([name]))[name]
    assert isinstance(found, TransactionState)
    return found


def owned_by(client: ClusterClient, owner: str, mirror: str) -> Ownership:
    return Ownership(client, mirror=mirror, owner=owner, clock=SystemClock())


def state_of(mirror: str, *, source: str = "source-1") -> OwnerState:
    return OwnerState(mirror=mirror, source_cluster_id=source, shards=16)


async def _lost_its_time(client: StandsStill, mirror: str) -> Ownership:
    """Returns an owner that has just been told no by its coordinator, which had waited for too long."""
    await read_states(client)
    owner = owned_by(client, "the owner", mirror)
    await owner.take(state_of(mirror))
    client.is_to_stand_still = True
    with pytest.raises(BrokerNotReadyError, match=r"aborted the transaction .* longer than 3 s"):
        await owner.update(state_of(mirror, source="source-2"))
    return owner


@pytest.mark.slow
def test_an_owner_whose_record_took_too_long_holds_nothing_until_it_has_looked_and_then_goes_on(
    kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    async def story() -> dict[str, OwnerState]:
        async with StandsStill(settings_of(kafka.bootstrap_servers)) as client:
            owner = await _lost_its_time(client, topic_name)
            assert (owner.is_held, owner.state) == (False, None), "another one may be at it: no gap is filled now"
            before = (await read_states(client))[topic_name]
            assert before.source_cluster_id == "source-1", "what was aborted is not read"
            assert owner.wrote(before)
            written = await owner.update(state_of(topic_name, source="source-2"))
            assert (owner.is_held, owner.state) == (True, written)
            owner.check(await found_of(client, transactional_id(topic_name)))
            return await read_states(client)

    assert run_async(story())[topic_name].source_cluster_id == "source-2"
    assert_clean(kafka.bootstrap_servers, [STATE_TOPIC])


def test_an_owner_that_finds_its_transaction_aborted_when_it_looks_is_not_superseded(
    kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    async def story() -> OwnerState:
        async with ClusterClient(settings_of(kafka.bootstrap_servers)) as client:
            await read_states(client)
            owner = owned_by(client, "the owner", topic_name)
            await owner.take(state_of(topic_name))
            name = transactional_id(topic_name)
            found = await found_of(client, name)
            identity = ProducerIdentity(producer_id=found.producer_id, producer_epoch=found.producer_epoch)
            # What an update leaves whose next step was lost on the way: an open transaction.
            await client.add_partitions_to_transaction(name, identity, [STATE_PARTITION])
            while (found := await found_of(client, name)).state != "CompleteAbort":
                await asyncio.sleep(0.05)
            assert found.producer_epoch == identity.producer_epoch + 1
            owner.check(found)
            assert (owner.is_held, owner.state) == (False, None)
            return await owner.update(state_of(topic_name, source="source-2"))

    assert run_async(story()).source_cluster_id == "source-2"


@pytest.mark.slow
def test_an_owner_in_doubt_ends_where_another_one_came_meanwhile(
    kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    async def story() -> dict[str, OwnerState]:
        servers = settings_of(kafka.bootstrap_servers)
        async with StandsStill(servers) as client, ClusterClient(servers) as other:
            owner = await _lost_its_time(client, topic_name)
            successor = owned_by(other, "the successor", topic_name)
            await successor.take(state_of(topic_name, source="source-3"))
            with pytest.raises(SupersededError):
                await owner.update(state_of(topic_name, source="source-2"))
            assert not owner.is_held
            successor.check(await found_of(other, transactional_id(topic_name)))
            assert not owner.wrote((await read_states(other))[topic_name])
            return await read_states(other)

    assert run_async(story())[topic_name].source_cluster_id == "source-3"


def test_an_owner_whose_open_transaction_is_ended_by_a_successor_is_superseded(
    kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    async def story() -> None:
        servers = settings_of(kafka.bootstrap_servers)
        async with ClusterClient(servers) as client, ClusterClient(servers) as other:
            await read_states(client)
            owner = owned_by(client, "the owner", topic_name)
            await owner.take(state_of(topic_name))
            name = transactional_id(topic_name)
            found = await found_of(client, name)
            identity = ProducerIdentity(producer_id=found.producer_id, producer_epoch=found.producer_epoch)
            await client.add_partitions_to_transaction(name, identity, [STATE_PARTITION])
            await owned_by(other, "the successor", topic_name).take(state_of(topic_name))
            with pytest.raises(SupersededError):
                owner.check(await found_of(client, name))

    run_async(story())
