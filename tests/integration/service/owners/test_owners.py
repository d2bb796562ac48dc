"""Ownership on a real broker: the newest process owns a mirror, the older one finds out; sources are not mixed up."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from math import inf

import pytest
from structlog.testing import capture_logs

from conftest import NewKafka, RunAsync
from mirrorlake.clock import ManualClock, SystemClock
from mirrorlake.config.destinations.kafka import KafkaDestination
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.transactions.owner_states import OwnerState, read_states
from mirrorlake.destinations.transactions.ownership import Ownership
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import (
    MirrorlakeError,
    OtherMirrorError,
    OtherSourceError,
    SupersededError,
    TopicRecreatedError,
    TransientError,
)
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import TransactionState
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.owners.holding import Holding
from mirrorlake.service.owners.owner_life import CHECK_SECONDS
from mirrorlake.service.owners.owners import Owners
from mirrorlake.topics.sources import source_of
from mirrorlake.topics.targets import Target, shard_of
from support.mirrors import copying
from support.records import in_batches, produce, settings_of, simple_records

pytestmark = pytest.mark.kafka


def target_of(topic: str, source: EmbeddedKafka, destination: EmbeddedKafka) -> Target:
    config = copying(source.bootstrap_servers, destination.bootstrap_servers, topic)
    mirror = config.mirrors[0]
    return Target(
        mirror=mirror,
        destination=mirror.destinations[0],
        source_work=source_of(mirror),
        source=TopicPartition(topic, 0),
        source_cluster_id="cluster-of-the-test",
        topic_id="first-topic-id",
        destination_topic=topic,
    )


@pytest.fixture
def target(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> Target:
    async def create() -> None:
        async with ClusterClient(settings_of(destination_kafka.bootstrap_servers)) as client:
            await client.topics.create(topic_name, partitions=1, replication_factor=1)

    run_async(create())
    return target_of(topic_name, source_kafka, destination_kafka)


def test_the_newest_process_owns_a_mirror_and_the_older_one_finds_out(target: Target, run_async: RunAsync) -> None:
    async def story() -> None:
        clients = WorkerCache()
        try:
            first = Owners(clients, owner="first", clock=SystemClock())
            second = Owners(clients, owner="second", clock=SystemClock())
            assert await first.take([target]) == {}
            await first.check()
            assert await second.take([target]) == {}
            await second.check()
            with pytest.raises(SupersededError, match=target.mirror.name):
                await first.check()
            await second.check()
            states = await read_states(clients.client(settings_of_destination(target)))
            assert states[target.mirror.name].owner == "second"
            assert states[target.mirror.name].topic_ids == {target.source.topic: "first-topic-id"}
        finally:
            await clients.close()

    run_async(story())


def settings_of_destination(target: Target) -> ClusterSettings:
    assert isinstance(target.destination, KafkaDestination)
    return target.destination.cluster.settings


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"topic_id": "second-topic-id"}, TopicRecreatedError),
        ({"source_cluster_id": "another-cluster"}, OtherSourceError),
    ],
    ids=["recreated", "cluster"],
)
def test_a_filled_destination_of_another_source_is_refused_by_name(
    target: Target,
    destination_kafka: EmbeddedKafka,
    run_async: RunAsync,
    change: dict[str, str],
    kind: type[MirrorlakeError],
) -> None:
    batches = list(in_batches(simple_records(3), 3))
    run_async(produce(destination_kafka.bootstrap_servers, target.destination_topic, 0, batches))

    async def story() -> dict[int, object]:
        clients = WorkerCache()
        try:
            assert await Owners(clients, owner="first", clock=SystemClock()).take([target]) == {}
            changed = replace(target, **change)  # type: ignore[arg-type]
            refused = await Owners(clients, owner="second", clock=SystemClock()).take([changed])
            again = await Owners(clients, owner="third", clock=SystemClock()).take([changed])
            assert again.keys() == refused.keys(), "being refused does not change what the state says"
            return dict(refused)
        finally:
            await clients.close()

    (error,) = run_async(story()).values()
    assert isinstance(error, kind)
    assert next(iter(change.values())) in error.message
    assert error.hint


def test_who_cannot_take_a_mirror_of_another_source_says_so_where_its_gaps_would_wait_for_ever(
    target: Target, run_async: RunAsync
) -> None:
    """The destination is empty, so records are copied; as nobody's gaps they would never be filled, without a word."""
    elsewhere = replace(target, source_cluster_id="another-cluster")
    held = (target.mirror.name, "west", shard_of(target.source), target.destination_partition)

    async def story() -> None:
        clients = WorkerCache()
        try:
            assert await Owners(clients, owner="first", clock=SystemClock()).take([target]) == {}
            second = Owners(clients, owner="second", clock=SystemClock())
            with capture_logs() as logs:
                assert await second.take([elsewhere]) == {}
                holding = second.holding(*held)
                assert isinstance(holding.refusal, OtherSourceError)
                assert "(owner first)" in holding.refusal.message
                assert "--name" in holding.refusal.hint
                await second.check()
                assert isinstance(second.holding(*held).refusal, OtherSourceError)
            # Once: its schemas and groups wait as long as its gaps, and the log alone says for what.
            (said,) = [line for line in logs if line["event"] == "ownership not taken, trying again"]
            assert (said["mirror"], said["error"]) == (target.mirror.name, holding.refusal.message)
        finally:
            await clients.close()

    run_async(story())


def test_an_empty_destination_takes_a_topic_that_was_made_anew(target: Target, run_async: RunAsync) -> None:
    async def story() -> None:
        clients = WorkerCache()
        try:
            assert await Owners(clients, owner="first", clock=SystemClock()).take([target]) == {}
            changed = replace(target, topic_id="second-topic-id")
            assert await Owners(clients, owner="second", clock=SystemClock()).take([changed]) == {}
            states = await read_states(clients.client(settings_of_destination(target)))
            assert states[target.mirror.name].topic_ids == {target.source.topic: "second-topic-id"}
        finally:
            await clients.close()

    run_async(story())


def test_producer_ids_are_remembered_also_when_a_shard_gets_another_one(target: Target, run_async: RunAsync) -> None:
    """What expiry does after a week, done by hand: the record names an id that the transactional id stood for once."""

    async def story() -> None:
        clients = WorkerCache()
        try:
            client = clients.client(settings_of_destination(target))
            owners = Owners(clients, owner="first", clock=SystemClock())
            shard = shard_of(target.source)
            assert await owners.take([target]) == {}
            given = await client.describe_transactions([target.transactional_id])
            identity = given[target.transactional_id]
            assert isinstance(identity, TransactionState), "before anybody has written"
            assert held_ids(owners, target) == {identity.producer_id}
            before = (await read_states(client))[target.mirror.name]
            assert before.producer_ids == {shard: (identity.producer_id,)}, "shards that write nothing get none"

            forgotten = replace(before, producer_ids={shard: (1,)})
            await Ownership(client, mirror=target.mirror.name, owner="by hand", clock=SystemClock()).take(forgotten)
            second = Owners(clients, owner="second", clock=SystemClock())
            assert await second.take([target]) == {}
            assert held_ids(second, target) == {1, identity.producer_id}
            again = await client.describe_transactions([target.transactional_id])
            assert again == given, "who has a producer id keeps it, in the same epoch: nobody is fenced"
        finally:
            await clients.close()

    run_async(story())


def holding_of(owners: Owners, target: Target) -> Holding:
    assert isinstance(target.destination, KafkaDestination)
    return owners.holding(
        target.mirror.name, target.destination.cluster.name, shard_of(target.source), target.destination_partition
    )


def held_ids(owners: Owners, target: Target) -> frozenset[int]:
    return holding_of(owners, target).own_producer_ids


Turn = tuple[Target, float, float, bool]
"""What a process takes, how long its leases may append, how long it serves, and whether it ends gracefully."""


async def waits_of(turns: Sequence[Turn]) -> list[float]:
    """Returns how long processes that follow one another fill no gap, each from when it has taken its target."""
    clients, clock = WorkerCache(), ManualClock()
    waits = []
    try:
        for target, hold_seconds, serves_seconds, ends_gracefully in turns:
            owners = Owners(clients, owner="one of them", clock=clock, hold_seconds=hold_seconds)
            assert await owners.take([target]) == {}
            waits.append(holding_of(owners, target).fills_from_seconds - clock.elapsed_seconds())
            clock.advance(serves_seconds)
            if ends_gracefully:
                await owners.release()
        return waits
    finally:
        await clients.close()


def test_gaps_wait_for_the_leases_of_an_owner_that_did_not_end_gracefully(target: Target, run_async: RunAsync) -> None:
    turns = [
        (target, 60.0, 0.0, False),
        (target, 5.0, 0.0, True),
        (target, 5.0, 20.0, False),
        (target, 5.0, 20.0, True),
        (target, 5.0, 50.0, True),
        (target, 5.0, 0.0, True),
    ]

    # The first has nobody before it; the second waits for the first, whose leases are long, and until it may notice.
    # Those after them wait for the first too, though whom they follow had short ones: how long ago the record of one
    # that died was written they cannot know, and who let go says what was left. It is over for who has waited so long.
    long = 60.0 + CHECK_SECONDS
    assert run_async(waits_of(turns)) == [0.0, long, long, long, long - 20.0, 0.0]


def test_a_mirror_that_continues_the_copy_of_another_waits_for_those_whom_that_one_still_waited_for(
    target: Target, run_async: RunAsync
) -> None:
    """The record with their time is the other mirror's. Nobody writes there that it has passed, so each start waits."""
    renamed = replace(target, mirror=replace(target.mirror, name=f"{target.mirror.name}.new"))
    turns = [
        (target, 60.0, 0.0, False),
        (target, 5.0, 0.0, True),
        (renamed, 5.0, 0.0, False),
        (renamed, 5.0, 200.0, True),
        (renamed, 5.0, 0.0, True),
    ]

    long = 60.0 + CHECK_SECONDS
    assert run_async(waits_of(turns)) == [0.0, long, long, long, long]


def test_a_running_mirror_that_gets_a_copy_of_another_waits_for_those_whom_that_one_still_waited_for(
    target: Target, run_async: RunAsync
) -> None:
    there = replace(target, mirror=replace(target.mirror, name=f"{target.mirror.name}.new"))
    other = replace(there, source=TopicPartition(target.source.topic, 1), destination_topic=target.destination_topic)

    async def story() -> list[float]:
        clients = WorkerCache()
        clock = ManualClock()
        waits = []
        try:
            running = Owners(clients, owner="running", clock=clock, hold_seconds=5.0)
            await Owners(clients, owner="dies", clock=clock, hold_seconds=60.0).take([target])
            assert await running.take([other]) == {}
            lets_go = Owners(clients, owner="lets go", clock=clock, hold_seconds=5.0)
            await lets_go.take([target])
            await lets_go.release()
            for takes, passed in (([other], 0.0), ([other, there], 0.0), ([other, there], 20.0)):
                clock.advance(passed)
                assert await running.take(takes) == {}
                waits.append(holding_of(running, other).fills_from_seconds - clock.elapsed_seconds())
            return waits
        finally:
            await clients.close()

    long = 60.0 + CHECK_SECONDS
    assert run_async(story()) == [0.0, long, long - 20.0]


def test_an_owner_tells_of_the_leases_of_the_one_before_until_they_can_append_no_more(
    target: Target, run_async: RunAsync
) -> None:
    async def story() -> list[tuple[float | None, float]]:
        clients = WorkerCache()
        clock = ManualClock()
        told = []
        try:
            await Owners(clients, owner="before", clock=clock, hold_seconds=60.0).take([target])
            owners = Owners(clients, owner="after", clock=clock, hold_seconds=7.0)
            await owners.take([target])
            for passed in (0.0, 40.0, 30.0):
                clock.advance(passed)
                await owners.check()
                states = await read_states(clients.client(target.destination_cluster))
                told.append((states[target.mirror.name].hold_seconds, states[target.mirror.name].hold_before_seconds))
            return told
        finally:
            await clients.close()

    long, short = 60.0 + CHECK_SECONDS, 7.0 + CHECK_SECONDS
    assert run_async(story()) == [(long, long), (long, long), (short, 0.0)]


def test_a_mirror_that_nobody_owns_yet_fills_no_gap() -> None:
    holding = Owners(WorkerCache(), owner="nobody", clock=ManualClock()).holding(
        "orders", "west", 0, TopicPartition("orders", 0)
    )
    assert (holding.own_producer_ids, holding.fills_from_seconds) == (frozenset(), inf)


@pytest.mark.slow
def test_why_a_mirror_could_not_be_taken_over_is_known_until_it_is(
    source_kafka: EmbeddedKafka, new_kafka: NewKafka, topic_name: str, run_async: RunAsync
) -> None:
    # Its own, and one that a pause does not cost its session: what a broker does after that is another test's.
    kafka = new_kafka(broker_session_timeout_ms=120_000)
    target = target_of(topic_name, source_kafka, kafka)

    async def story() -> tuple[MirrorlakeError | None, float, MirrorlakeError | None]:
        clients = WorkerCache()
        try:
            owners = Owners(clients, owner="patient", clock=SystemClock())
            held = (target.mirror.name, "west", shard_of(target.source), target.destination_partition)
            kafka.pause()
            try:
                await owners.take([target])
                before = owners.holding(*held)
            finally:
                kafka.resume()
            await owners.check()
            after = owners.holding(*held)
            return before.refusal, before.fills_from_seconds, after.refusal
        finally:
            await clients.close()

    before, fills_from, after = run_async(story())
    assert isinstance(before, TransientError)
    assert fills_from == inf
    assert after is None


@pytest.mark.slow
@pytest.mark.parametrize("lives", [True, False], ids=["alive", "dead"])
def test_who_could_not_take_a_mirror_at_its_start_leaves_it_to_a_later_start_that_lives(
    lives: bool, source_kafka: EmbeddedKafka, new_kafka: NewKafka, topic_name: str, run_async: RunAsync
) -> None:
    kafka = new_kafka(broker_session_timeout_ms=120_000)
    target = target_of(topic_name, source_kafka, kafka)

    async def story() -> str:
        clients = WorkerCache()
        try:
            earlier = Owners(clients, owner="earlier", clock=SystemClock())
            kafka.pause()
            try:
                await earlier.take([target])
            finally:
                kafka.resume()
            later = Owners(clients, owner="later", clock=SystemClock())
            assert await later.take([target]) == {}
            watching = asyncio.create_task(later.watch(ends.append, lambda *_: None) if lives else asyncio.sleep(0))
            if lives:
                with pytest.raises(SupersededError, match="started later"):
                    await earlier.check()
            else:
                await earlier.check()
            assert not ends
            watching.cancel()
            states = await read_states(clients.client(settings_of_destination(target)))
            return states[target.mirror.name].owner
        finally:
            await clients.close()

    ends: list[SupersededError] = []
    assert run_async(story()) == ("later" if lives else "earlier")


@pytest.mark.slow
def test_what_was_let_through_unasked_is_refused_once_its_records_can_be_read(
    source_kafka: EmbeddedKafka, new_kafka: NewKafka, topic_name: str, run_async: RunAsync
) -> None:
    kafka = new_kafka(broker_session_timeout_ms=120_000)
    target = target_of(topic_name, source_kafka, kafka)
    other = replace(target, mirror=replace(target.mirror, name=f"{target.mirror.name}-before"))

    async def story() -> list[tuple[Target, MirrorlakeError]]:
        clients = WorkerCache()
        try:
            await clients.client(settings_of_destination(target)).topics.create(
                topic_name, partitions=1, replication_factor=1
            )
            await produce(kafka.bootstrap_servers, topic_name, 0, list(in_batches(simple_records(3), 3)))
            assert await Owners(clients, owner="first", clock=SystemClock()).take([other]) == {}
            owners = Owners(clients, owner="second", clock=SystemClock())
            kafka.pause()
            try:
                assert await owners.take([target]) == {}, "nobody could be asked, and copying is safe"
            finally:
                kafka.resume()
            found = await owners.check()
            assert await owners.check() == [], "it is said once"
            return found
        finally:
            await clients.close()

    ((refused, error),) = run_async(story())
    assert refused == target
    assert isinstance(error, OtherMirrorError)
    assert error.facts["found"] == other.mirror.name


def test_a_topic_that_another_mirror_fills_is_left_alone_until_that_one_has_ended(
    target: Target, destination_kafka: EmbeddedKafka, run_async: RunAsync
) -> None:
    batches = list(in_batches(simple_records(3), 3))
    run_async(produce(destination_kafka.bootstrap_servers, target.destination_topic, 0, batches))
    other = replace(target, mirror=replace(target.mirror, name=f"{target.mirror.name}-renamed"))

    async def story() -> None:
        clients = WorkerCache()
        try:
            first = Owners(clients, owner="first", clock=SystemClock())
            assert await first.take([target]) == {}
            (error,) = (await Owners(clients, owner="second", clock=SystemClock()).take([other])).values()
            assert isinstance(error, OtherMirrorError)
            assert (error.facts["expected"], error.facts["found"]) == (other.mirror.name, target.mirror.name)
            assert "end that process gracefully" in error.hint
            await first.release()
            assert await Owners(clients, owner="third", clock=SystemClock()).take([other]) == {}
        finally:
            await clients.close()

    run_async(story())


def test_where_a_recreated_topic_goes_is_remembered_with_its_id(
    target: Target, destination_kafka: EmbeddedKafka, run_async: RunAsync
) -> None:
    batches = list(in_batches(simple_records(3), 3))
    run_async(produce(destination_kafka.bootstrap_servers, target.destination_topic, 0, batches))
    moved = replace(target, topic_id="second-topic-id", destination_topic=f"{target.source.topic}.2")

    async def story() -> OwnerState:
        clients = WorkerCache()
        try:
            await clients.client(settings_of_destination(target)).topics.create(
                moved.destination_topic, partitions=1, replication_factor=1
            )
            assert await Owners(clients, owner="first", clock=SystemClock()).take([target]) == {}
            assert await Owners(clients, owner="second", clock=SystemClock()).take([moved]) == {}
            return (await read_states(clients.client(settings_of_destination(target))))[target.mirror.name]
        finally:
            await clients.close()

    state = run_async(story())
    assert state.generations == {target.source.topic: {"second-topic-id": f"{target.source.topic}.2"}}
    assert state.topic_ids == {target.source.topic: "second-topic-id"}
