"""Whether a mirror's owner is alive is found out by knocking: the living answer, nobody is superseded by it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from conftest import RunAsync
from mirrorlake.clock import SystemClock
from mirrorlake.config.destinations.kafka import KafkaDestination
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.transactions.owner_states import find_states, knock_id
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import SupersededError
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.owners.owners import Owners
from mirrorlake.topics.sources import source_of
from mirrorlake.topics.targets import Target
from support.copies import create_topic
from support.mirrors import copying

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def target(source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str) -> Target:
    create_topic(destination_kafka.bootstrap_servers, topic_name)
    mirror = copying(source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, topic_name).mirrors[0]
    return Target(
        mirror=mirror,
        destination=mirror.destinations[0],
        source_work=source_of(mirror),
        source=TopicPartition(topic_name, 0),
        source_cluster_id="cluster-of-the-test",
        topic_id="topic-id-of-the-test",
        destination_topic=topic_name,
    )


def of_mirror(target: Target, name: str) -> Target:
    """The same under another mirror's name, to another topic."""
    mirror = replace(target.mirror, name=f"{target.mirror.name}.{name}")
    return replace(target, mirror=mirror, destination_topic=f"{target.destination_topic}.{name}")


@contextmanager
def watching(owners: Owners) -> Iterator[list[SupersededError]]:
    """What a living process does all the time."""
    superseded: list[SupersededError] = []
    task = asyncio.get_running_loop().create_task(owners.watch(superseded.append, lambda target, error: None))
    try:
        yield superseded
    finally:
        task.cancel()


def test_a_living_owner_answers_and_stays_one_and_a_dead_one_does_not(target: Target, run_async: RunAsync) -> None:
    alive, dead, let_go = (of_mirror(target, name) for name in ("alive", "dead", "let-go"))

    async def story() -> None:
        clients = WorkerCache()
        try:
            processes = {
                each.mirror.name: Owners(clients, owner="one", clock=SystemClock()) for each in (alive, dead, let_go)
            }
            for each in (alive, dead, let_go):
                assert await processes[each.mirror.name].take([each]) == {}
            await processes[let_go.mirror.name].release()
            asks = Owners(clients, owner="who asks", clock=SystemClock())
            with watching(processes[alive.mirror.name]) as superseded:
                found = await asks.find_living([alive, dead, let_go])
                assert [state.mirror for state in found["west"]] == [alive.mirror.name]
                again = await asks.find_living([alive])
                assert [(state.owner, state.mirror) for state in again["west"]] == [("one", alive.mirror.name)]
            for name in (alive.mirror.name, dead.mirror.name):
                await processes[name].check()  # raises where it was superseded
            assert superseded == []
            client = clients.client(kafka_of(target).cluster.settings)
            states = await find_states(client)
            taken = states[alive.mirror.name]
            assert taken.written_at_ms > taken.taken_at_ms > 0, "since when it is the owner does not change"
            assert (await client.describe_transactions([knock_id(let_go.mirror.name)])) == {
                knock_id(let_go.mirror.name): None
            }, "who has let go is not asked"
        finally:
            await clients.close()

    run_async(story())


def kafka_of(target: Target) -> KafkaDestination:
    assert isinstance(target.destination, KafkaDestination)
    return target.destination


def test_two_that_knock_at_the_same_time_are_no_sign_of_life_to_each_other(target: Target, run_async: RunAsync) -> None:
    async def story() -> list[object]:
        clients = WorkerCache()
        try:
            assert await Owners(clients, owner="dead", clock=SystemClock()).take([target]) == {}
            asks = [Owners(clients, owner=name, clock=SystemClock()) for name in ("one", "other")]
            return list(await asyncio.gather(*(each.find_living([target]) for each in asks)))
        finally:
            await clients.close()

    assert run_async(story()) == [{}, {}]
