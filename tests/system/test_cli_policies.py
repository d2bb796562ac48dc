"""What happens to topics while the service runs: they grow, are deleted and recreated, or appear late.

One service sees all of it. Each mirror has its own topic and policy, and what happens to one is nothing to the others.
"""

import asyncio
import uuid
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from mirrorlake.destinations.transactions.owner_states import OwnerState, find_states
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import TopicMissingError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.service.lifecycle.endings import EXIT_PARKED
from support.command import Ended, write_yaml
from support.command import without_spark as mirrorlake
from support.copies import archived_records, assert_same_records, log_end, wait_until
from support.records import Record, consume, settings_of, simple_records
from support.service_process import ServiceProcess
from support.topics import append, make_topic, topics_of

pytestmark = pytest.mark.kafka

FIRST, AGAIN = simple_records(5), simple_records(3, start=100)
POLICIES = {"restart": "west", "new-topic": "west-and-lake", "park": "west"}
RESIZED = {
    f"{way}-{policy}-{before}-to-{after}": (way, policy, before, after)
    for way in ("preserve", "map")
    for policy in ("restart", "new-topic")
    for before, after in ((2, 1), (2, 2), (1, 2))
}
"""Topics that come again with another number of partitions, or the same one: the offsets, the policy, and how many."""


@dataclass(frozen=True)
class Clusters:
    """Both clusters, an archive, and the names of this module's topics."""

    east: str
    west: str
    folder: Path
    tag: str

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    def topic(self, name: str) -> str:
        return f"{name}-{self.tag}"

    def copied(self, name: str, partition: int = 0) -> int:
        try:
            return log_end(self.west, self.topic(name), partition)
        except TopicMissingError:
            return 0  # the topic is there, this partition not yet

    def state_of(self, mirror: str) -> OwnerState:
        async def ask() -> OwnerState:
            async with ClusterClient(settings_of(self.west)) as client:
                return (await find_states(client))[mirror]

        return asyncio.run(ask())

    def make_again(self, name: str, partitions: int = 1) -> None:
        async def delete() -> None:
            async with ClusterClient(settings_of(self.east)) as client:
                assert await client.topics.delete(self.topic(name))

        asyncio.run(delete())
        make_topic(self.east, self.topic(name), *[AGAIN] * partitions)

    def filled_again(self, name: str) -> str:
        """Returns the destination topic that the second topic's records go to."""
        return self.topic(name) if RESIZED[name][1] == "restart" else f"{self.topic(name)}.2"

    def expected_again(self, name: str) -> list[list[Record]]:
        """Returns, by partition, what is to lie where the second topic's records go to.

        With mapped offsets they go behind the first one's, whose topic keeps its number of partitions.
        """
        way, policy, before, after = RESIZED[name]
        if (way, policy) != ("map", "restart"):
            return [[*AGAIN]] * after
        found = [[*FIRST] for _ in range(before)]
        for partition in range(after):
            found[partition % before] += AGAIN
        return found

    def is_copied_again(self, name: str) -> bool:
        topic = self.filled_again(name)
        try:
            ends = [log_end(self.west, topic, each) for each, _ in enumerate(self.expected_again(name))]
        except TopicMissingError:
            return False
        if RESIZED[name][0] == "preserve":
            return ends == [3 for _ in ends]  # 5 before
        return [[*consume(self.west, topic, each).values()] for each, _ in enumerate(ends)] == self.expected_again(name)

    def add_partition(self, name: str) -> None:
        async def add() -> None:
            async with ClusterClient(settings_of(self.east)) as client:
                await client.topics.grow(self.topic(name), partitions=2)

        asyncio.run(add())


@dataclass(frozen=True)
class Story:
    """What the service said, and a bounded run after it."""

    clusters: Clusters
    said: str
    after: Ended


@pytest.fixture(scope="module")
def story(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory
) -> Story:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    clusters = Clusters(east, west, tmp_path_factory.mktemp("policies"), uuid.uuid4().hex[:6])
    clusters.lake.mkdir()
    for name in ("grow", *POLICIES):
        make_topic(east, clusters.topic(name), FIRST)
    for name, (*_, before, _) in RESIZED.items():
        make_topic(east, clusters.topic(name), *[FIRST] * before)
    config = write_yaml(clusters.folder / "mirror.yaml", configuration(clusters))
    with ServiceProcess("run", "-c", str(config), folder=clusters.folder, without_spark=True) as service:
        begun = [clusters.topic(name) for name in ("grow", *POLICIES)]
        wait_until(lambda: all(log_end(west, topic) == 5 for topic in begun), "the first records", log=service.said)
        change_topics(clusters, service)
        service.signal(15)
        assert service.exit_code() == EXIT_PARKED, service.said()
        said = service.said()
    return Story(clusters, said, mirrorlake("run", "--once", "-c", config))


def change_topics(clusters: Clusters, service: ServiceProcess) -> None:
    lake, new_topic = clusters.lake, clusters.topic("new-topic")
    wait_until(lambda: archived_records(lake, new_topic), "the first segment", log=service.said)
    clusters.add_partition("grow")
    append(clusters.east, clusters.topic("grow"), 1, AGAIN)
    make_topic(clusters.east, clusters.topic("late"), FIRST)
    for name in POLICIES:
        clusters.make_again(name)
    for name, (*_, after) in RESIZED.items():
        clusters.make_again(name, after)
    for what, is_there in (
        ("the partition that was added", lambda: clusters.copied("grow", 1) == 3),
        ("the topic that came late", lambda: clusters.copied("late") == 5),
        ("the restarted copy", lambda: clusters.copied("restart") == 3),
        ("the copy in a new topic", lambda: log_end(clusters.west, f"{new_topic}.2") == 3),
        ("the archive in a new folder", lambda: (lake / f"{new_topic}.2" / "0").exists()),
        ("the parked mirror", lambda: "reason=recreated" in service.said()),
    ):
        wait_until(is_there, what, log=service.said)
    for name in RESIZED:
        wait_until(partial(clusters.is_copied_again, name), f"the copy of {name}", log=service.said)


def topic_id(servers: str, topic: str) -> str:
    async def ask() -> str:
        async with ClusterClient(settings_of(servers)) as client:
            return (await client.metadata([topic], refresh=True)).topics[topic].topic_id

    return asyncio.run(ask())


def to_west(way: str) -> str:
    return f"{{type: kafka, cluster: west, offsets: {way}}}"


def configuration(clusters: Clusters) -> str:
    west = "{type: kafka, cluster: west}"
    lake = "{type: archive, store: lake, flush: {max-time: 1s}}"
    mirrors = [
        *((name, "park", west) for name in ("grow", "late")),
        ("restart", "restart", west),
        ("new-topic", "new-topic", f"{west}, {lake}"),
        ("park", "park", west),
        *((name, policy, to_west(way)) for name, (way, policy, *_) in RESIZED.items()),
    ]
    return "\n".join(
        [
            "clusters:",
            f'  east: {{bootstrap-servers: "{clusters.east}"}}',
            f'  west: {{bootstrap-servers: "{clusters.west}"}}',
            f"stores: {{lake: {{type: filesystem, root: {clusters.lake}}}}}",
            "engine: {lanes: 2, lease: 1s, discovery: 1s, memory: 512MiB}",
            "mirrors:",
            *(
                f"  - {{name: {clusters.topic(name)}, on-recreate: {policy}, destinations: [{to}], "
                f"source: {{cluster: east, topics: [{clusters.topic(name)}]}}}}"
                for name, policy, to in mirrors
            ),
            "",
        ]
    )


def test_a_partition_that_is_added_at_the_source_is_added_at_the_destination_and_copied(story: Story) -> None:
    clusters = story.clusters
    for partition, records in ((0, FIRST), (1, AGAIN)):
        assert_same_records(dict(enumerate(records)), consume(clusters.west, clusters.topic("grow"), partition))
    assert f"partitions=2 partitions_before=1 topic={clusters.topic('grow')}" in story.said


def test_a_topic_that_was_not_there_is_copied_once_it_is(story: Story) -> None:
    clusters = story.clusters
    assert_same_records(dict(enumerate(FIRST)), consume(clusters.west, clusters.topic("late"), 0))
    assert "reason=missing" in story.said


def test_restart_deletes_what_was_copied_and_copies_the_new_topic_in_its_place(story: Story) -> None:
    clusters = story.clusters
    assert_same_records(dict(enumerate(AGAIN)), consume(clusters.west, clusters.topic("restart"), 0))
    assert f"{clusters.topic('restart')}.2" not in topics_of(clusters.west)
    assert "destination topic deleted, because the source topic was recreated" in story.said


@pytest.mark.parametrize("name", RESIZED)
def test_a_topic_that_comes_again_is_copied_whole_whatever_its_number_of_partitions(story: Story, name: str) -> None:
    """A partition that it lacks by now has nothing to say of the topic that is there."""
    clusters, (_, policy, before, _) = story.clusters, RESIZED[name]
    topic = clusters.topic(name)
    for partition, records in enumerate(clusters.expected_again(name)):
        assert [*consume(clusters.west, clusters.filled_again(name), partition).values()] == records
    if policy == "new-topic":
        assert [*consume(clusters.west, topic, before - 1).values()] == FIRST
    assert not story.after.troubles(topic)
    assert clusters.state_of(topic).topic_ids[topic] == topic_id(clusters.east, topic)


def test_new_topic_keeps_what_was_copied_and_copies_the_new_one_beside_it(story: Story) -> None:
    clusters, topic = story.clusters, story.clusters.topic("new-topic")
    for held, records in ((topic, FIRST), (f"{topic}.2", AGAIN)):
        assert_same_records(dict(enumerate(records)), consume(clusters.west, held, 0))
        assert_same_records(dict(enumerate(records)), archived_records(clusters.lake, held))


def test_park_leaves_both_as_they_are_and_names_the_two_topic_ids_and_the_remedies(story: Story) -> None:
    clusters, topic = story.clusters, story.clusters.topic("park")
    assert_same_records(dict(enumerate(FIRST)), consume(clusters.west, topic, 0))
    # Whether a lease or a look is the first to notice, and of which topic, is not told.
    (line, *_) = [line for line in story.said.splitlines() if "reason=recreated" in line and f"topic={topic}" in line]
    assert clusters.state_of(topic).topic_ids[topic] in line
    assert "on-recreate: new-topic" in line
    assert "on-recreate: restart" in line


def test_a_later_run_goes_on_where_the_records_of_each_topic_went(story: Story) -> None:
    """Exit code 3 because one mirror stands parked; nothing else moved, and nothing was copied twice."""
    clusters = story.clusters
    assert story.after.code == 3, story.after.err
    (line,) = story.after.troubles(clusters.topic("park"))
    assert "reason=recreated" in line
    assert [clusters.copied(name) for name in ("grow", "late", "restart", "new-topic", "park")] == [5, 5, 3, 5, 5]
    assert log_end(clusters.west, f"{clusters.topic('new-topic')}.2") == 3
    assert f"{clusters.topic('new-topic')}.3" not in topics_of(clusters.west)


def test_plan_and_status_say_where_each_topic_goes_and_why_one_is_parked(story: Story) -> None:
    config = story.clusters.folder / "mirror.yaml"
    name = story.clusters.topic
    plan, status = (mirrorlake(verb, "-c", config, "--format", "json") for verb in ("plan", "status"))

    assert plan.row(name("new-topic"), 0, "west")["to"] == f"west/{name('new-topic')}.2"
    assert plan.row(name("new-topic"), 0, "lake")["to"] == f"{story.clusters.lake}/{name('new-topic')}.2"
    assert (plan.row(name("park"))["action"], plan.row(name("park"))["reason"]) == ("refused", "recreated")
    row = status.row(name("park"))
    assert (row["state"], row["reason"]) == ("parked", "recreated")
    assert (status.row(name("new-topic"), 0, "lake")["dest_next"], status.row(name("restart"))["state"]) == (
        3,
        "caught-up",
    )
    assert "parked: recreated" in mirrorlake("status", "-c", config).out
