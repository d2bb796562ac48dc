"""A copy goes from one mirror to another: after a rename, or where another mirror gets some of the partitions."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from conftest import RunAsync
from mirrorlake.clock import SystemClock
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.transactions.ownership import Ownership
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import MirrorlakeError, OtherMirrorError, TopicRecreatedError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.service.owners.owners import Owners
from mirrorlake.service.plan.planning import Action, read_plan
from mirrorlake.topics.discovery import find_targets
from support.copies import assert_equal_in_kafka, log_end
from support.records import Record, in_batches, produce, settings_of, simple_records
from support.scenes import Scene
from support.topics import make_topic

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


async def append(servers: str, topic: str, partition: int, records: Sequence[Record]) -> None:
    await produce(servers, topic, partition, list(in_batches(records, 10)))


@pytest.fixture
def scene(source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str) -> Scene:
    source = source_kafka.bootstrap_servers
    make_topic(source, topic_name, simple_records(20), simple_records(20))
    return Scene(source, destination_kafka.bootstrap_servers, topic_name)


OLD, NEW = ("old", "", ""), ("new", "", "")


@pytest.mark.quick
def test_a_renamed_mirror_goes_on_with_the_copy_and_the_one_before_does_not_come_back(
    scene: Scene, run_async: RunAsync
) -> None:
    async def story() -> None:
        async with scene.process(OLD) as old:
            assert await old.copy(20) == [None, None]
            ids = [old.ids(0), old.ids(1)]
            await old.owners.release()
        for partition in range(2):
            await append(scene.source, scene.topic, partition, simple_records(5, start=20))
        async with scene.process(NEW) as new:
            assert new.errors == [None, None]
            assert [new.ids(0) & ids[0], new.ids(1) & ids[1]] == ids
            assert not new.ids(0) & ids[1], "of each partition those that wrote it, no more"
        # It died before it copied anything: what it had taken it keeps.
        async with scene.process(OLD) as old:
            assert [type(error) for error in old.errors] == [OtherMirrorError, OtherMirrorError]
            assert (await old.record("old")).let_go == {scene.topic: (0, 1)}
        async with scene.process(NEW) as new:
            assert await new.copy(25) == [None, None]
            await new.owners.release()
        # Both have let go, so that it may be taken back, by name again.
        async with scene.process(OLD) as old:
            assert await old.copy(25) == [None, None]
            assert (await old.record("old")).partitions == {scene.topic: (0, 1)}

    run_async(story())
    assert assert_equal_in_kafka(scene.source, scene.destination, scene.topic, 2) == 50


def test_a_renamed_mirror_is_refused_where_the_one_before_died_until_that_one_has_ended_gracefully(
    scene: Scene, run_async: RunAsync
) -> None:
    async def story() -> None:
        async with scene.process(OLD) as old:
            assert await old.copy(20) == [None, None]
        async with scene.process(NEW) as new:
            assert [type(error) for error in new.errors] == [OtherMirrorError, OtherMirrorError]
            assert f"start {scene.topic}.old once more under that name" in str(new.errors[0].hint)  # type: ignore[union-attr]
        async with scene.process(OLD) as old:
            assert old.errors == [None, None]
            await old.owners.release()
        async with scene.process(NEW) as new:
            assert await new.copy(20) == [None, None]

    run_async(story())


def test_partitions_go_from_a_mirror_to_another_that_runs_beside_it(scene: Scene, run_async: RunAsync) -> None:
    async def story() -> None:
        async with scene.process(OLD) as old:
            assert await old.copy(20) == [None, None]
            await old.owners.release()
        for partition in range(2):
            await append(scene.source, scene.topic, partition, simple_records(5, start=20))
        first, second = ("old", ", partitions: [0]", ""), ("new", ", partitions: [1]", "")
        async with scene.process(first) as old:
            assert await old.copy(25) == [None]
            assert (await old.record("old")).let_go == {scene.topic: (1,)}
            async with scene.process(second) as new:
                assert await new.copy(25) == [None]
        # Both died: each finds its own.
        async with scene.process(first, second) as both:
            assert both.errors == [None, None]
            assert await both.copy(25) == [None, None]

    run_async(story())
    assert assert_equal_in_kafka(scene.source, scene.destination, scene.topic, 2) == 50


def test_a_topic_that_another_mirror_fills_a_part_of_is_not_replaced_for_one_alone(
    scene: Scene, run_async: RunAsync
) -> None:
    shares = ("zero", ", partitions: [0]", ""), ("one", ", partitions: [1]", "")

    async def story() -> list[MirrorlakeError | None]:
        async with scene.process(*shares) as both:
            assert await both.copy(20) == [None, None]
        async with ClusterClient(settings_of(scene.source)) as client:
            assert await client.topics.delete(scene.topic)
            while not await client.topics.create(scene.topic, partitions=2, replication_factor=1):
                await asyncio.sleep(0.1)
        async with scene.process(*shares, on_recreate="restart") as both:
            return both.errors

    errors = run_async(story())
    assert [type(error) for error in errors] == [TopicRecreatedError, TopicRecreatedError]
    assert f"mirror {scene.topic}.one fills a part of it" in str(errors[0])
    assert [log_end(scene.destination, scene.topic, n) for n in range(2)] == [20, 20], "nothing was deleted"


def test_of_two_mirrors_that_take_a_copy_at_the_same_moment_one_gives_way_at_least(
    scene: Scene, run_async: RunAsync
) -> None:
    async def story() -> None:
        async with scene.process(OLD) as old:
            assert await old.copy(20) == [None, None]
            await old.owners.release()
        clients = WorkerCache()
        try:
            found = [await find_targets(scene.configured(each), clients) for each in (NEW, ("newer", "", ""))]
            owners = [Owners(clients, owner=name, clock=SystemClock()) for name in ("new", "newer")]
            taken = await asyncio.gather(*(o.take(targets) for o, targets in zip(owners, found, strict=True)))
        finally:
            await clients.close()
        assert any(len(errors) == 2 for errors in taken), "none has seen the other one"
        assert all(isinstance(error, OtherMirrorError) for errors in taken for error in errors.values())

    run_async(story())


def test_records_that_say_nothing_of_partitions_are_read_by_the_configuration_of_who_serves_their_mirrors(
    scene: Scene, run_async: RunAsync
) -> None:
    """As versions before left them: one mirror for each partition, whose process died."""
    shares = [("zero", ", partitions: [0]", ""), ("one", ", partitions: [1]", "")]

    async def story() -> None:
        async with scene.process(*shares) as both:
            assert await both.copy(20) == [None, None]
            records = [await both.record(name) for name, _, _ in shares]
        async with ClusterClient(settings_of(scene.destination)) as client:
            for record in records:
                before = replace(record, partitions={}, let_go={}, mapped_topics=(), former_ids={})
                await Ownership(client, mirror=record.mirror, owner="before", clock=SystemClock()).take(before)
        async with scene.process(shares[0]) as alone:
            assert [type(error) for error in alone.errors] == [OtherMirrorError], "the other may fill all of it"
        async with scene.process(*shares) as both:
            assert both.errors == [None, None]
            assert await both.copy(20) == [None, None]

    run_async(story())


def test_a_renamed_mirror_with_mapped_offsets_is_refused_unless_it_says_where_it_begins(
    scene: Scene, run_async: RunAsync
) -> None:
    mapped = ", offsets: map"

    async def story() -> None:
        async with scene.process(("old", "", mapped)) as old:
            assert old.errors == [None, None]
            await append(scene.destination, scene.topic, 0, simple_records(1))  # mapped copies have other writers too
            await old.owners.release()
        async with scene.process(("new", "", mapped)) as new:
            assert [type(error) for error in new.errors] == [OtherMirrorError, OtherMirrorError]
            error = new.errors[1]
            assert error is not None
            assert "would copy it a second time" in error.message
            assert f"start: {{offsets: {{{scene.topic}: {{1: …}}}}}}" in error.hint
        begins = f", start: {{offsets: {{{scene.topic}: {{0: 20, 1: 20}}}}}}"
        async with scene.process(("new", begins, mapped)) as new:
            assert new.errors == [None, None]

    run_async(story())


def test_a_plan_knows_the_writers_of_a_copy_that_goes_on_under_another_name(scene: Scene, run_async: RunAsync) -> None:
    async def story() -> None:
        async with scene.process(OLD) as old:
            assert await old.copy(20) == [None, None]
            await old.owners.release()
        await append(scene.source, scene.topic, 0, simple_records(5, start=20))
        rows = await read_plan(scene.configured(NEW))
        assert [(row.action, row.error) for row in rows] == [(Action.COPY, None), (Action.NOTHING, None)]

    run_async(story())
