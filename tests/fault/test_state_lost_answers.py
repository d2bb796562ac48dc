"""An owner that loses answers while it takes its mirror anew: it supersedes nobody who came, and not itself."""

from math import inf
from typing import Any

import pytest

from conftest import RunAsync
from mirrorlake.clock import ManualClock, SystemClock
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.transactions.owner_states import OwnerState, read_states, transactional_id
from mirrorlake.destinations.transactions.ownership import Ownership
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import BrokerNotReadyError, OutcomeUnknownError, RequestTimeoutError, SupersededError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import ProducerIdentity, TransactionState
from mirrorlake.kafka.wire.apis import Api
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.owners.owner_life import CHECK_SECONDS
from mirrorlake.service.owners.owners import Owners
from mirrorlake.topics.sources import source_of
from mirrorlake.topics.targets import Target
from support.copies import create_topic
from support.mirrors import copying
from support.proxy import Proxy
from support.records import settings_of

pytestmark = pytest.mark.kafka


class LosesAnswers(ClusterClient):
    """Loses the answers to steps that it is told to lose, each once; ``loses`` names them."""

    loses: tuple[str, ...] = ()

    async def init_producer_id(self, *given: Any, **also: Any) -> ProducerIdentity:
        identity = await super().init_producer_id(*given, **also)
        self._lose("own", RequestTimeoutError("no answer to InitProducerId"))
        return identity

    async def add_partitions_to_transaction(self, *given: Any, **also: Any) -> Any:
        self._lose("add", BrokerNotReadyError("the coordinator moves"))
        return await super().add_partitions_to_transaction(*given, **also)

    async def end_transaction(self, *given: Any, **also: Any) -> None:
        await super().end_transaction(*given, **also)
        self._lose("end", OutcomeUnknownError("no answer to EndTxn"))

    def _lose(self, step: str, error: Exception) -> None:
        if step in self.loses:
            self.loses = tuple(each for each in self.loses if each != step)
            raise error


def owned_by(client: ClusterClient, owner: str, mirror: str) -> Ownership:
    return Ownership(client, mirror=mirror, owner=owner, clock=SystemClock())


def state_of(mirror: str, *, source: str = "source-1") -> OwnerState:
    return OwnerState(mirror=mirror, source_cluster_id=source, shards=16)


async def found_of(client: ClusterClient, mirror: str) -> TransactionState:
    name = transactional_id(mirror)
    found = (await client.describe_transactions([name]))[name]
    assert isinstance(found, TransactionState)
    return found


@pytest.mark.parametrize("step", ["own", "add"])
def test_an_owner_whose_own_taking_anew_was_cut_short_does_not_take_itself_for_another(
    step: str, destination_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    """The epoch has been raised, by itself; its next look at the coordinator finds an epoch it has not heard of."""

    async def story() -> str:
        async with LosesAnswers(settings_of(destination_kafka.bootstrap_servers)) as client:
            await read_states(client)
            owner = owned_by(client, "the owner", topic_name)
            await owner.take(state_of(topic_name))
            client.loses = ("end",)
            with pytest.raises(OutcomeUnknownError):
                await owner.update(state_of(topic_name, source="source-2"))
            client.loses = (step,)
            with pytest.raises((RequestTimeoutError, BrokerNotReadyError)):
                await owner.update(state_of(topic_name, source="source-3"))
            owner.check(await found_of(client, topic_name))
            assert not owner.is_held, "until it has written, another one may be at it"
            await owner.update(state_of(topic_name, source="source-4"))
            owner.check(await found_of(client, topic_name))
            return (await read_states(client))[topic_name].source_cluster_id

    assert run_async(story()) == "source-4"


def test_an_owner_that_lost_an_answer_does_not_take_the_mirror_from_who_came_meanwhile(
    destination_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    async def story() -> str:
        servers = settings_of(destination_kafka.bootstrap_servers)
        async with LosesAnswers(servers) as client, ClusterClient(servers) as other:
            await read_states(client)
            owner = owned_by(client, "the owner", topic_name)
            await owner.take(state_of(topic_name))
            client.loses = ("end",)
            with pytest.raises(OutcomeUnknownError):
                await owner.update(state_of(topic_name, source="source-2"))
            successor = owned_by(other, "the successor", topic_name)
            await successor.take(state_of(topic_name, source="source-3"))
            with pytest.raises(SupersededError):
                await owner.update(state_of(topic_name, source="source-4"))
            successor.check(await found_of(other, topic_name))
            return (await read_states(other))[topic_name].source_cluster_id

    assert run_async(story()) == "source-3"


@pytest.mark.parametrize(
    ("lets_go", "wait_seconds"), [(False, 60.0 + CHECK_SECONDS), (True, 0.0)], ids=["died", "let-go"]
)
def test_an_owner_whose_first_record_lost_its_answer_fills_gaps_once_the_one_before_can_append_no_more(
    lets_go: bool, wait_seconds: float, proxy: Proxy, topic_name: str, run_async: RunAsync
) -> None:
    """Its own record stands where that of the owner before stood: it tells neither that it waited, nor for whom."""
    create_topic(proxy.address, topic_name)
    mirror = copying("127.0.0.1:9", proxy.address, topic_name).mirrors[0]
    target = Target(
        mirror=mirror,
        destination=mirror.destinations[0],
        source_work=source_of(mirror),
        source=TopicPartition(topic_name, 0),
        source_cluster_id="cluster-of-the-test",
        topic_id="a-topic-id",
        destination_topic=topic_name,
    )

    async def story() -> tuple[float, float]:
        clients = WorkerCache()
        clock = ManualClock()
        try:
            dead = Owners(clients, owner="before", clock=clock, hold_seconds=60.0)
            assert await dead.take([target]) == {}
            if lets_go:
                await dead.release()
            owners = Owners(clients, owner="after", clock=clock, hold_seconds=7.0)
            proxy.cut_before_answer(Api.END_TXN)
            waits = []
            for take in (owners.take([target]), owners.check()):
                await take
                held = owners.holding(mirror.name, "west", 0, target.destination_partition)
                waits.append(held.fills_from_seconds - clock.elapsed_seconds())
            return waits[0], waits[1]
        finally:
            await clients.close()

    cuts = proxy.cuts
    assert run_async(story()) == (inf, wait_seconds)
    assert proxy.cuts == cuts + 1
