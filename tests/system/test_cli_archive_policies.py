"""Sources that were truncated, or deleted and recreated, between two runs of a service that archives them."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.offsets import Gap, GapKind, OffsetRange, TopicPartition
from mirrorlake.stores.filesystem import FilesystemStore
from support.command import Ended, write_yaml
from support.command import without_spark as mirrorlake
from support.copies import archive_position, archived_records, assert_same_records, wait_until
from support.golden import segment_name
from support.records import Record, consume, settings_of, simple_records
from support.service_process import ServiceProcess
from support.snapshots import names, view
from support.topics import append, make_topic

pytestmark = pytest.mark.kafka

POLICIES = {
    "truncated-park": "on-truncation: park",
    "truncated-skip": "on-truncation: skip",
    "recreated-park": "on-recreate: park",
    "recreated-new": "on-recreate: new-topic",
}
VIEWS = {f"view-{name}": policy for name, policy in POLICIES.items()}
"""The same with `compaction: log`."""
BEFORE = simple_records(20)
AFTER = simple_records(15, start=200)


@dataclass(frozen=True)
class Story:
    """What is there after a second run, and what it and ``plan`` and ``status`` said."""

    servers: str
    root: Path
    tag: str
    log: str
    plan: Ended
    status: Ended

    def topic(self, name: str) -> str:
        return f"{name}-{self.tag}"

    def names(self, folder: str) -> list[str]:
        return names(self.root, folder)

    def parked(self, name: str) -> str:
        where = f"topic={self.topic(name)} "
        (line,) = [line for line in self.log.splitlines() if "partition parked" in line and where in f"{line} "]
        return line


def delete_records(servers: str, topic: str, before: int) -> None:
    async def delete() -> None:
        async with ClusterClient(settings_of(servers)) as client:
            await client.delete_records({TopicPartition(topic, 0): before})

    asyncio.run(delete())


def make_again(servers: str, topic: str, records: list[Record]) -> None:
    async def delete() -> None:
        async with ClusterClient(settings_of(servers)) as client:
            await client.topics.delete(topic)
            while topic in (await client.metadata([topic], refresh=True)).topics:
                await asyncio.sleep(0.1)

    asyncio.run(delete())
    make_topic(servers, topic, records)


@pytest.fixture(scope="module")
def story(source_kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("policies")
    servers, root, tag = source_kafka.bootstrap_servers, folder / "lake", folder.name
    root.mkdir()
    policies = POLICIES | VIEWS
    topics = {name: f"{name}-{tag}" for name in policies}
    for topic in topics.values():
        make_topic(servers, topic, BEFORE)
    config = write_yaml(
        folder / "mirror.yaml",
        f'clusters: {{east: {{bootstrap-servers: "{servers}"}}}}\n'
        f"stores: {{lake: {{type: filesystem, root: {root}}}}}\nmirrors:\n"
        + "".join(
            f"  - {{name: {name}, source: {{cluster: east, topics: [{topics[name]}]}}, {policy}, "
            f"destinations: [{{type: archive, store: lake{', compaction: log' if name in VIEWS else ''}, "
            "flush: {max-time: 1s}}]}\n"
            for name, policy in policies.items()
        )
        + "engine: {lanes: 2, lease: 2s, memory: 512MiB}\n",
    )
    first = mirrorlake("run", "--once", "-c", config)
    assert first.code == 0, first.err
    for name, topic in topics.items():
        if "truncated" in name:
            append(servers, topic, 0, AFTER)
            delete_records(servers, topic, 28)
        else:
            make_again(servers, topic, AFTER)
    planned, status = (mirrorlake(verb, "-c", config, "--format", "json") for verb in ("plan", "status"))
    with ServiceProcess("run", "-c", str(config), folder=folder, without_spark=True) as service:
        service.await_words("partition parked", times=4)
        wait_until(lambda: archive_position(root, topics["truncated-skip"]) == 35, "the rest", log=service.said)
        wait_until(lambda: archive_position(root, f"{topics['recreated-new']}.2") == 15, "the new", log=service.said)
        wait_until(lambda: len(names(root, topics["view-truncated-skip"])) == 2, "the next view", log=service.said)
        wait_until(lambda: names(root, f"{topics['view-recreated-new']}.2"), "the new view", log=service.said)
        service.stop()
        service.exit_code()
        log = service.said()
    return Story(servers, root, tag, log, planned, status)


def test_a_truncated_source_parks_with_both_offsets_and_its_archive_stays_as_it_is(story: Story) -> None:
    line = story.parked("truncated-park")

    assert "reason=truncated" in line
    assert "28" in line
    assert "position=20" in line
    assert "on-truncation: skip" in line
    assert story.names(story.topic("truncated-park")) == [segment_name(0, 19)]


def test_skip_goes_on_behind_what_is_gone_and_the_next_segment_says_so(story: Story) -> None:
    topic = story.topic("truncated-skip")
    there = consume(story.servers, topic, 0)

    assert sorted(there) == list(range(28, 35))
    assert_same_records({**dict(enumerate(BEFORE)), **there}, archived_records(story.root, topic))
    assert story.names(topic) == [segment_name(0, 19), segment_name(20, 34)]
    with open_segment(FilesystemStore(story.root), f"{topic}/0/{segment_name(20, 34)}") as segment:
        assert segment.footer is not None
        assert segment.footer.gaps == (
            Gap(offsets=OffsetRange(start_offset=20, end_offset=28), kind=GapKind.TRUNCATED),
        )


def test_a_recreated_topic_parks_and_is_never_mixed_in(story: Story) -> None:
    line = story.parked("recreated-park")

    assert "reason=recreated" in line
    assert "on-recreate: new-topic" in line
    assert story.names(story.topic("recreated-park")) == [segment_name(0, 19)]


def test_new_topic_archives_the_new_one_beside_the_old_chain(story: Story) -> None:
    topic = story.topic("recreated-new")

    assert_same_records(dict(enumerate(BEFORE)), archived_records(story.root, topic))
    assert_same_records(dict(enumerate(AFTER)), archived_records(story.root, f"{topic}.2"))


def by_key(*records: list[Record]) -> list[tuple[bytes | None, bytes | None]]:
    return sorted((record.key, record.value) for each in records for record in each)


def test_a_view_of_a_truncated_source_parks_and_stays_as_it_is(story: Story) -> None:
    topic = story.topic("view-truncated-park")
    line = story.parked("view-truncated-park")

    assert "reason=truncated" in line
    assert "position=20" in line
    assert story.names(topic) == [segment_name(0, 19)]
    assert by_key(list(view(story.root, topic).values())) == by_key(BEFORE)


def test_a_view_skips_what_is_gone_and_its_next_snapshot_says_so(story: Story) -> None:
    topic = story.topic("view-truncated-skip")

    assert story.names(topic) == [segment_name(0, 19), segment_name(20, 34)]
    # The source is not compacted: what it deleted by age or by hand is no reason for a key to go.
    assert by_key(list(view(story.root, topic).values())) == by_key(BEFORE, AFTER[8:])
    with open_segment(FilesystemStore(story.root), f"{topic}/0/{segment_name(20, 34)}") as segment:
        assert segment.footer is not None
        assert segment.footer.gaps == (
            Gap(offsets=OffsetRange(start_offset=20, end_offset=28), kind=GapKind.TRUNCATED),
        )


def test_a_view_of_a_recreated_topic_parks_and_is_never_mixed_with_the_one_before(story: Story) -> None:
    topic = story.topic("view-recreated-park")
    line = story.parked("view-recreated-park")

    assert "reason=recreated" in line
    assert "on-recreate: new-topic" in line
    assert story.names(topic) == [segment_name(0, 19)]
    assert by_key(list(view(story.root, topic).values())) == by_key(BEFORE)


def test_new_topic_makes_a_view_of_the_new_one_beside_the_old(story: Story) -> None:
    topic = story.topic("view-recreated-new")

    assert story.names(topic) == [segment_name(0, 19)]
    assert by_key(list(view(story.root, topic).values())) == by_key(BEFORE)
    assert by_key(list(view(story.root, f"{topic}.2").values())) == by_key(AFTER)


def test_plan_and_status_say_all_of_it_before(story: Story) -> None:
    plan = {row["name"]: row for row in json.loads(story.plan.out)}
    status = {row["name"]: row for row in json.loads(story.status.out)}

    assert {name: row["action"] for name, row in plan.items()} == {
        "truncated-park": "refused",
        "truncated-skip": "copy",
        "recreated-park": "refused",
        "recreated-new": "copy",
        "view-truncated-park": "refused",
        "view-truncated-skip": "copy",
        "view-recreated-park": "refused",
        "view-recreated-new": "copy",
    }
    assert plan["truncated-skip"]["note"] == "offsets 20…27 are gone at the source and recorded as a gap"
    assert plan["recreated-new"]["to"].endswith(f"{story.topic('recreated-new')}.2")
    assert [plan[name]["reason"] for name in ("truncated-park", "recreated-park")] == ["truncated", "recreated"]
    assert status["recreated-park"]["state"] == "parked"
    assert status["recreated-new"]["lag"] == 15
    assert plan["view-recreated-new"]["to"].endswith(f"{story.topic('view-recreated-new')}.2")
    assert (status["view-recreated-park"]["state"], status["view-recreated-new"]["lag"]) == ("parked", 15)
