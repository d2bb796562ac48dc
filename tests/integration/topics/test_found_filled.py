"""A destination with equal offsets that is empty and ends above offset 0: whose was what is gone?

A copy that retention took goes on where it ends. What another program filled, and what was emptied since, says nothing
of the source's records below its end: to go on there would leave them out, for ever and in silence.
"""

import asyncio

import pytest

from conftest import RunAsync
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import DestinationForeignError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.plan.planning import Action, read_plan
from support.copies import assert_equal_in_kafka, log_end
from support.records import Record, settings_of, simple_records
from support.scenes import Process, Scene
from support.topics import delete_before, make_topic

pytestmark = pytest.mark.kafka

M, SUCCESSOR = ("m", "", ""), ("successor", "", "")
RECORDS = simple_records(30)
FOREIGN = simple_records(20, size=40)
EMPTIED = "holds nothing and ends at offset 20"


@pytest.fixture
def scene(source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str) -> Scene:
    make_topic(source_kafka.bootstrap_servers, topic_name, RECORDS)
    return Scene(source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, topic_name)


def fill(scene: Scene, records: list[Record]) -> None:
    """Fills the destination as a program does of which its brokers remember nothing."""
    make_topic(scene.destination, scene.topic, records)


def refusal(process: Process) -> str:
    (error,) = process.errors
    assert isinstance(error, DestinationForeignError), error
    return error.message


async def empty(scene: Scene, end: int = 20) -> None:
    async with ClusterClient(settings_of(scene.destination)) as client:
        await client.delete_records({TopicPartition(scene.topic, 0): end})


async def make_anew(scene: Scene) -> None:
    async with ClusterClient(settings_of(scene.destination)) as client:
        assert await client.topics.delete(scene.topic)
        while not await client.topics.create(scene.topic, partitions=1, replication_factor=1):
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("source_start", [0, 10])
def test_what_another_filled_and_emptied_is_refused_until_it_is_made_anew(
    scene: Scene, run_async: RunAsync, source_start: int
) -> None:
    fill(scene, FOREIGN)
    delete_before(scene.destination, scene.topic, 20)
    if source_start:
        delete_before(scene.source, scene.topic, source_start)

    async def story() -> None:
        # It is refused again by who finds it in the state record of the one before, under its name and another.
        for mirror in (M, M):
            async with scene.process(mirror) as process:
                assert EMPTIED in refusal(process)
                assert f"offsets {source_start} to 19 would never be copied" in refusal(process)
                assert (await process.record("m")).found_filled == {scene.topic: (0,)}
                await process.owners.release()
        async with scene.process(SUCCESSOR) as process:
            assert EMPTIED in refusal(process)
        (row,) = await read_plan(scene.configured(SUCCESSOR))
        assert row.action is Action.REFUSE
        assert EMPTIED in str(row.error)
        await make_anew(scene)
        async with scene.process(SUCCESSOR) as process:
            assert await process.copy(30) == [None]
            assert (await process.record("successor")).found_filled == {}

    run_async(story())
    assert assert_equal_in_kafka(scene.source, scene.destination, scene.topic, 1) == 30 - source_start


def test_what_is_refused_for_its_records_stays_refused_when_they_are_deleted(scene: Scene, run_async: RunAsync) -> None:
    fill(scene, FOREIGN)

    async def story() -> None:
        async with scene.process(M) as process:
            assert [type(error) for error in await process.copy(30)] == [DestinationForeignError]
        await empty(scene)
        async with scene.process(M) as process:
            assert EMPTIED in refusal(process)

    run_async(story())
    assert log_end(scene.destination, scene.topic, 0) == 20


def test_nothing_is_left_out_where_the_source_begins_no_lower(scene: Scene, run_async: RunAsync) -> None:
    fill(scene, FOREIGN)
    delete_before(scene.destination, scene.topic, 20)
    delete_before(scene.source, scene.topic, 20)

    async def story() -> None:
        async with scene.process(M) as process:
            assert await process.copy(30) == [None]

    run_async(story())
    assert assert_equal_in_kafka(scene.source, scene.destination, scene.topic, 1) == 10


@pytest.mark.parametrize("then", [M, SUCCESSOR], ids=["the same mirror", "another, to which it was let go"])
def test_a_copy_that_lost_all_its_records_goes_on_where_it_ends(
    scene: Scene, run_async: RunAsync, then: tuple[str, str, str]
) -> None:
    async def story() -> None:
        async with scene.process(M) as process:
            assert await process.copy(20) == [None]
            await process.owners.release()
        await empty(scene)
        async with scene.process(then) as process:
            assert await process.copy(30) == [None]

    run_async(story())
    assert log_end(scene.destination, scene.topic, 0) == 30


def test_a_copy_of_which_no_record_is_left_counts_as_one_once_a_lease_has_appended_to_it(
    scene: Scene, run_async: RunAsync
) -> None:
    fill(scene, RECORDS[:20])

    async def story() -> None:
        # Nothing was appended: what the tail check has found equal is known to this process alone.
        async with scene.process(M) as process:
            assert await process.copy(20) == [None]
            assert (await process.record("m")).found_filled == {scene.topic: (0,)}
        async with scene.process(M) as process:
            assert await process.copy(25) == [None]
            assert (await process.record("m")).found_filled == {}
        await empty(scene, 25)
        async with scene.process(M) as process:
            assert await process.copy(30) == [None]

    run_async(story())
    assert log_end(scene.destination, scene.topic, 0) == 30
