"""What expressions select is judged like what a file names: own topics, collisions, and copies that would go back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from conftest import RunAsync
from mirrorlake.clock import SystemClock
from mirrorlake.config.loading import parse_configuration
from mirrorlake.config.resolved import Configuration
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import CollisionError, LoopError, MirrorlakeError
from mirrorlake.service.owners.owners import Owners
from mirrorlake.service.plan.planning import Action, read_plan
from mirrorlake.service.status import read_status
from mirrorlake.topics.discovery import find_targets
from mirrorlake.topics.topic_creation import create_topics
from support.records import simple_records
from support.topics import make_topic

pytestmark = pytest.mark.kafka

Found = dict[tuple[str, str], type[MirrorlakeError] | None]
"""What is wrong with a source topic at its destination, by mirror and topic."""


@dataclass(frozen=True)
class Scene:
    """Two clusters, and topics of one name and more: several tests share the clusters, so expressions name it."""

    east: str
    west: str
    topic: str

    def configured(self, *mirrors: str) -> Configuration:
        """Mirrors as they stand in a file; ``T`` in them is the test's own topic name."""
        text = (
            f"clusters: {{east: {{bootstrap-servers: '{self.east}'}}, west: {{bootstrap-servers: '{self.west}'}}}}\n"
            "mirrors:\n" + "".join(f"  - {each}\n" for each in mirrors)
        )
        return parse_configuration(text.replace("TOPIC", self.topic).encode(), file="mirror.yaml", environ={})

    @asynccontextmanager
    async def process(self, *mirrors: str) -> AsyncIterator[Found]:
        """One start of a process: looks, makes topics, takes mirrors; gives what it found, and ends gracefully."""
        clients = WorkerCache()
        try:
            found = await find_targets(self.configured(*mirrors), clients)
            sound = [target for target in found if target.error is None]
            assert await create_topics(sound, clients) == {}
            owners = Owners(clients, owner="test", clock=SystemClock())
            assert await owners.take(found) == {}
            yield {
                (t.mirror.name.removesuffix(f".{self.topic}"), t.source.topic): type(t.error) if t.error else None
                for t in found
            }
            await owners.release()
        finally:
            await clients.close()


@pytest.fixture
def scene(source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str) -> Scene:
    make_topic(source_kafka.bootstrap_servers, topic_name, simple_records(3))
    return Scene(source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, topic_name)


def mirror(name: str, source: str, topics: str, destination: str, topic: str, more: str = "") -> str:
    return (
        f"{{name: {name}.TOPIC, source: {{cluster: {source}, topics: [{topics}]}}, "
        f"destinations: [{{type: kafka, cluster: {destination}, topic: '{topic}'{more}}}]}}"
    )


THERE = mirror("there", "east", '"/.*TOPIC/"', "west", "east.{topic}")
BACK = mirror("back", "west", '"/.*TOPIC/"', "east", "west.{topic}")


def test_mirrorlakes_own_topics_are_not_found_by_an_expression_that_matches_all(
    scene: Scene, run_async: RunAsync
) -> None:
    everything = mirror("all", "west", '"/.*/"', "east", "copy.{topic}", ", offsets: map")

    async def story() -> set[str]:
        async with scene.process(THERE):
            clients = WorkerCache()
            try:
                targets = await find_targets(scene.configured(everything), clients)
            finally:
                await clients.close()
            return {target.source.topic for target in targets}

    names = run_async(story())
    assert f"east.{scene.topic}" in names
    assert not {name for name in names if name.startswith(("mirrorlake.state", "mirrorlake.progress.", "__"))}


@pytest.mark.parametrize("files", [[(THERE, BACK)], [(THERE,), (BACK,)]], ids=["one file", "two files"])
def test_copies_that_expressions_select_are_not_copied_back(
    scene: Scene, run_async: RunAsync, files: list[tuple[str, ...]]
) -> None:
    async def story() -> Found:
        found: Found = {}
        for _ in range(3):
            for file in files:
                async with scene.process(*file) as each:
                    found |= each
        return found

    assert run_async(story()) == {("there", scene.topic): None, ("back", f"east.{scene.topic}"): LoopError}


def test_a_chain_over_three_places_is_no_circle(scene: Scene, run_async: RunAsync) -> None:
    """The third cluster is the second one under topics of other names: what counts is that nothing comes back."""
    on = mirror("on", "west", '"east.TOPIC"', "west", "on.{topic}")

    async def story() -> list[Found]:
        starts = []
        for _ in range(2):
            async with scene.process(THERE) as there, scene.process(on) as further:
                starts.append({**there, **further})
        return starts

    expected = {("there", scene.topic): None, ("on", f"east.{scene.topic}"): None}
    assert run_async(story()) == [expected, expected]


def test_a_circle_of_named_topics_through_two_files_is_refused_where_it_would_close(
    scene: Scene, run_async: RunAsync
) -> None:
    there = mirror("there", "east", "TOPIC", "west", "TOPIC")
    back = mirror("back", "west", "TOPIC", "east", "TOPIC", ", offsets: map")

    async def story() -> tuple[Found, Found]:
        async with scene.process(there), scene.process(back) as found:
            pass
        async with scene.process(back) as after:  # the way there has ended gracefully: now it is a way home
            return found, after

    found, after = run_async(story())
    assert (found, after) == ({("back", scene.topic): LoopError}, {("back", scene.topic): None})


def test_a_loop_is_shown_by_plan_and_status_with_its_reason(scene: Scene, run_async: RunAsync) -> None:
    async def start() -> None:
        async with scene.process(THERE):
            pass

    run_async(start())
    config = scene.configured(THERE, BACK)
    (planned,) = [row for row in asyncio.run(read_plan(config)) if row.status.target.mirror.name.startswith("back")]
    (status,) = [row for row in asyncio.run(read_status(config)) if row.target.mirror.name.startswith("back")]
    assert planned.action is Action.REFUSE
    assert (planned.as_json()["reason"], status.as_json()["reason"]) == ("loop", "loop")
    assert f"east.{scene.topic} of cluster west is a copy of topic {scene.topic} of cluster east" in str(planned.error)


def test_topics_that_would_become_one_are_both_refused_and_one_that_has_begun_goes_on(
    scene: Scene, run_async: RunAsync
) -> None:
    make_topic(scene.east, f"x.{scene.topic}", simple_records(3))
    first = mirror("first", "east", '"/x[.]TOPIC/"', "west", "{topic}")
    second = mirror("second", "east", '"/TOPIC/"', "west", "x.{topic}")

    async def story() -> tuple[Found, Found]:
        async with scene.process(first, second) as both:
            pass
        async with scene.process(second):
            pass
        async with scene.process(first, second) as after:
            return both, after

    both, after = run_async(story())
    assert both == {("first", f"x.{scene.topic}"): CollisionError, ("second", scene.topic): CollisionError}
    assert after == {("first", f"x.{scene.topic}"): CollisionError, ("second", scene.topic): None}
