"""Consumer groups of a mirror are taken along: shown, committed, read back, and real consumers continue there."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.offsets import TopicPartition
from support.command import Ended, write_yaml
from support.command import without_spark as mirrorlake
from support.groups import (
    commit,
    committed,
    committed_offsets,
    join_as_kip_848,
    member,
    new_group,
    offsets_in_a_transaction,
    read_on,
)
from support.records import simple_records
from support.topics import append, delete_topic, make_topic

RECORDS = 40
PARTITIONS = 2

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@dataclass(frozen=True)
class Mirrored:
    """A topic of two partitions, copied once."""

    source: str
    destination: str
    topic: str
    copy: str
    config: Path
    mode: str

    def run(self) -> None:
        ended = mirrorlake("run", "-c", self.config, "--once")
        assert ended.code == 0, ended.err

    def groups(self, verb: str, *options: str) -> Ended:
        yes = ("--yes",) if verb == "sync" else ()
        return mirrorlake("groups", verb, "-c", self.config, "--format", "json", *yes, *options)

    def at(self, partition: int = 0) -> TopicPartition:
        return TopicPartition(self.topic, partition)

    def to(self, partition: int = 0) -> TopicPartition:
        return TopicPartition(self.copy, partition)

    def there(self, group: str) -> dict[int, int]:
        found = committed_offsets(self.destination, group)
        return {place.partition: offset for place, offset in found.items() if place.topic == self.copy}


def rows_of(ended: Ended) -> dict[tuple[str, int], dict[str, object]]:
    return {(row["group"], row["partition"]): row for row in json.loads(ended.out)["groups"]}


def mirrored_as(
    source: EmbeddedKafka, destination: EmbeddedKafka, topic: str, folder: Path, mode: str, *, is_copied: bool = True
) -> Mirrored:
    east, west = source.bootstrap_servers, destination.bootstrap_servers
    make_topic(east, topic, *(simple_records(RECORDS, start=RECORDS * n) for n in range(PARTITIONS)), batch_records=7)
    config = write_yaml(
        folder / "mirror.yaml",
        f"""clusters:
  east: {{bootstrap-servers: "{east}"}}
  west: {{bootstrap-servers: "{west}"}}
mirrors:
  - name: {topic}
    source: {{cluster: east, topics: [{topic}]}}
    destinations: [{{type: kafka, cluster: west, topic: "{{topic}}.copy", offsets: {mode}}}]
""",
    )
    found = Mirrored(source=east, destination=west, topic=topic, copy=f"{topic}.copy", config=config, mode=mode)
    if is_copied:
        found.run()
    return found


@pytest.fixture(scope="module", params=["preserve", "map"])
def mirrored(
    request: pytest.FixtureRequest,
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    tmp_path_factory: pytest.TempPathFactory,
) -> Mirrored:
    """Of all tests that read the copy alone; each has a group of its own."""
    folder = tmp_path_factory.mktemp("synced")
    return mirrored_as(source_kafka, destination_kafka, f"{folder.name}-{request.param}", folder, request.param)


@pytest.fixture(params=["preserve", "map"])
def own(
    request: pytest.FixtureRequest,
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    tmp_path: Path,
) -> Mirrored:
    """Of a test that changes topic or copy."""
    return mirrored_as(source_kafka, destination_kafka, topic_name, tmp_path, request.param)


@pytest.mark.quick
def test_a_group_is_planned_committed_with_its_metadata_and_stands_there_the_second_time(mirrored: Mirrored) -> None:
    group = new_group()
    commit(mirrored.source, group, {mirrored.at(0): 13, mirrored.at(1): RECORDS}, metadata="as far as – here")
    named = ("--group", group)

    planned = mirrored.groups("plan", *named)
    assert planned.code == 0, planned.err
    assert {row["action"] for row in rows_of(planned).values()} == {"commit"}
    assert committed_offsets(mirrored.destination, group) == {}, "a plan commits nothing"

    synced = mirrored.groups("sync", *named)
    assert synced.code == 0, synced.err
    assert {row["action"] for row in rows_of(synced).values()} == {"committed"}
    found = committed(mirrored.destination, group)
    assert {each.metadata for each in found.values()} == {"as far as – here"}
    left = read_on(mirrored.destination, group, [mirrored.to(0)], records=RECORDS - 13)
    assert [value for _, value in left] == [each.value for each in simple_records(RECORDS)[13:]]

    again = mirrored.groups("sync", *named)
    assert again.code == 0, again.err
    assert {row["action"] for row in rows_of(again).values()} == {"stands there"}
    assert committed(mirrored.destination, group) == found


def test_a_group_that_runs_at_the_source_or_lags_there_is_taken_along_while_the_mirror_copies_on(
    mirrored: Mirrored,
) -> None:
    group = new_group()

    async def syncing() -> Ended:
        async with member(mirrored.source, group, [mirrored.topic], reset="earliest") as consumer:
            await consumer.getmany(timeout_ms=10_000, max_records=5)
            await consumer.commit()
            return await asyncio.to_thread(mirrored.groups, "sync", "--group", group)

    ended = asyncio.run(syncing())
    assert ended.code == 0, ended.err
    at_source = committed_offsets(mirrored.source, group)
    assert {row["committed"] for row in rows_of(ended).values()} == set(at_source.values())


def test_a_group_ahead_of_the_copy_gets_its_end_and_the_rest_when_the_copy_has_it(own: Mirrored) -> None:
    group = new_group()
    append(own.source, own.topic, 0, simple_records(10, start=RECORDS))
    commit(own.source, group, {own.at(0): RECORDS + 6})
    before = own.groups("sync", "--group", group)
    assert before.code == 0, before.err
    assert "6 offset(s) more than there are" in str(rows_of(before)[group, 0]["note"])
    own.run()
    after = own.groups("sync", "--group", group)
    assert after.code == 0, after.err
    left = read_on(own.destination, group, [own.to(0)], records=4)
    assert [value for _, value in left] == [each.value for each in simple_records(4, start=RECORDS + 6)]


@pytest.mark.parametrize("is_forced", [False, True])
def test_a_group_with_members_at_the_destination_is_never_touched(mirrored: Mirrored, is_forced: bool) -> None:
    group = new_group()
    commit(mirrored.source, group, {mirrored.at(0): 5})

    async def syncing() -> Ended:
        async with member(mirrored.destination, group, [mirrored.copy], reset="latest"):
            options = ("--force",) if is_forced else ()
            return await asyncio.to_thread(mirrored.groups, "sync", "--group", group, *options)

    ended = asyncio.run(syncing())
    assert ended.code == 3, ended.err
    row = rows_of(ended)[group, 0]
    assert row["action"] == "left alone"
    assert "stop its consumers" in str(row["note"])
    assert mirrored.there(group) == {}


def test_a_group_of_kip_848_with_a_member_at_the_destination_is_never_touched(mirrored: Mirrored) -> None:
    group = new_group()
    commit(mirrored.source, group, {mirrored.at(0): 5})
    commit(mirrored.destination, new_group(), {mirrored.to(0): 0})  # the cluster has a topic for groups from then on
    assert asyncio.run(join_as_kip_848(mirrored.destination, group, mirrored.copy)) == 0
    ended = mirrored.groups("sync", "--group", group, "--force")
    assert ended.code == 3, ended.err
    assert rows_of(ended)[group, 0]["action"] == "left alone"
    assert mirrored.there(group) == {}


def test_a_group_further_on_at_the_destination_goes_back_only_where_that_is_asked_for(mirrored: Mirrored) -> None:
    group = new_group()
    commit(mirrored.source, group, {mirrored.at(0): 5})
    assert mirrored.groups("sync", "--group", group).code == 0
    place = mirrored.there(group)[0]
    commit(mirrored.destination, group, {mirrored.to(0): place + 9})
    left = mirrored.groups("sync", "--group", group)
    assert left.code == 3, left.err
    row = rows_of(left)[group, 0]
    assert (row["action"], row["had"]) == ("left alone", place + 9)
    assert "--force" in str(row["note"])
    assert mirrored.there(group) == {0: place + 9}
    forced = mirrored.groups("sync", "--group", group, "--force")
    assert forced.code == 0, forced.err
    assert mirrored.there(group) == {0: place}


def test_beside_a_transaction_that_has_not_ended_nothing_is_committed(mirrored: Mirrored) -> None:
    group = new_group()
    commit(mirrored.source, group, {mirrored.at(0): 5})

    async def syncing() -> Ended:
        async with offsets_in_a_transaction(mirrored.destination, group, {mirrored.to(0): 30}) as transaction:
            ended = await asyncio.to_thread(mirrored.groups, "sync", "--group", group, "--force")
            await transaction.commit_transaction()
        return ended

    ended = asyncio.run(syncing())
    assert ended.code == 3, ended.err
    assert rows_of(ended)[group, 0]["action"] == "left alone"
    assert mirrored.there(group) == {0: 30}


def test_a_group_that_is_gone_at_the_source_is_said_and_never_comes_back(mirrored: Mirrored) -> None:
    group = new_group()
    named = mirrored.groups("sync", "--group", group)
    assert named.code == 0, named.err
    found = json.loads(named.out)
    assert found["groups"] == []
    assert f"group {group} has no offset of the mirrored topics" in found["warnings"][0]
    assert committed_offsets(mirrored.destination, group) == {}


def test_with_mapped_offsets_a_group_is_not_taken_past_another_writers_record(own: Mirrored) -> None:
    group = new_group()
    commit(own.source, group, {own.at(0): 5})
    assert own.groups("sync", "--group", group).code == 0
    before = own.there(group)
    if own.mode == "map":
        append(own.destination, own.copy, 0, simple_records(1))
    append(own.source, own.topic, 0, simple_records(10, start=RECORDS))
    own.run()
    commit(own.source, group, {own.at(0): 20})
    within = own.groups("sync", "--group", group)
    assert within.code == 0, within.err
    assert own.there(group)[0] > before[0], "the other writer's record lies behind"
    commit(own.source, group, {own.at(0): RECORDS + 5})
    past = own.groups("sync", "--group", group)
    if own.mode == "preserve":
        assert past.code == 0, past.err
        return
    assert past.code == 3, past.err
    assert "others may write between" in str(rows_of(past)[group, 0]["note"])
    forced = own.groups("sync", "--group", group, "--force")
    assert forced.code == 0, forced.err
    left = read_on(own.destination, group, [own.to(0)], records=5)
    assert [value for _, value in left] == [each.value for each in simple_records(5, start=RECORDS + 5)]


def test_a_copy_that_is_not_the_mirrors_gives_no_place(own: Mirrored) -> None:
    group = new_group()
    commit(own.source, group, {own.at(0): 5, own.at(1): 5})
    append(own.destination, own.copy, 0, simple_records(60))  # somebody else's, past the source's end
    ended = own.groups("sync", "--group", group)
    rows = rows_of(ended)
    if own.mode == "preserve":
        assert ended.code == 3, ended.err
        assert rows[group, 0]["action"] == "unknown"
        assert "not to be trusted" in str(rows[group, 0]["note"])
        assert own.there(group) == {1: 5}
    else:
        # With mapped offsets others may write there, too: the map names the mirror's own records.
        assert ended.code == 0, ended.err
        left = read_on(own.destination, group, [own.to(0)], records=35)
        assert [value for _, value in left] == [each.value for each in simple_records(RECORDS)[5:]]


@pytest.mark.parametrize("mode", ["preserve", "map"])
@pytest.mark.parametrize("was_copied", [True, False], ids=["deleted and made by somebody else", "never copied"])
def test_somebody_elses_topic_of_the_same_name_gives_no_place_however_few_records_it_has(
    was_copied: bool,
    mode: str,
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    tmp_path: Path,
) -> None:
    """Positions alone look like a copy that is behind."""
    own = mirrored_as(source_kafka, destination_kafka, topic_name, tmp_path, mode, is_copied=was_copied)
    group = new_group()
    commit(own.source, group, {own.at(0): 25})
    if was_copied:
        delete_topic(own.destination, own.copy)
    make_topic(own.destination, own.copy, simple_records(30, start=9000), simple_records(30, start=9000))
    commit(own.destination, group, {own.to(0): 5})

    ended = own.groups("sync", "--group", group, "--force")

    assert ended.code == 3, ended.out + ended.err
    assert rows_of(ended)[group, 0]["action"] == "unknown"
    assert own.there(group) == {0: 5}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--group", "/(/"), "is no regular expression"),
        (("--mirror", "nobody"), "there is no mirror nobody in "),
    ],
)
def test_what_is_meant_by_nobody_is_refused_before_a_cluster_is_asked(
    tmp_path: Path, options: tuple[str, str], said: str
) -> None:
    config = write_yaml(
        tmp_path / "mirror.yaml",
        """clusters: {a: {bootstrap-servers: "localhost:1"}, b: {bootstrap-servers: "localhost:2"}}
mirrors:
  - {name: m, source: {cluster: a, topics: [t]}, destinations: [{type: kafka, cluster: b}]}
""",
    )
    ended = mirrorlake("groups", "plan", "-c", config, *options)
    assert ended.code == 1
    assert said in ended.err
