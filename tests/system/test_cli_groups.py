"""Consumer groups are archived beside the records, and go on at the very next one where these are brought back."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.offsets import TopicPartition
from support.command import Ended, write_yaml
from support.command import without_spark as mirrorlake
from support.compaction import append_and_compact, create_compacted, keyed_records
from support.copies import create_topic, source_end
from support.groups import (
    commit,
    committed,
    committed_offsets,
    member,
    new_group,
    offsets_in_a_transaction,
    read_on,
)
from support.records import Record, consume, simple_records
from support.topics import append
from support.transactions import append_in_transaction

pytestmark = pytest.mark.slow

RECORDS = 40


@dataclass(frozen=True)
class Archived:
    """A topic of three partitions, the last one empty, and a compacted one; and groups that stand in them."""

    folder: Path
    source: str
    destination: str
    tag: str
    groups: dict[str, dict[TopicPartition, int]]
    records: dict[TopicPartition, dict[int, Record]]

    @property
    def topic(self) -> str:
        return f"orders-{self.tag}"

    @property
    def compacted(self) -> str:
        return f"latest-{self.tag}"

    def configuration(self, *, groups: str = "") -> Path:
        wanted = groups or f'{{include: ["/.*-{self.tag}/"], exclude: ["/test-.*/"], interval: 1s}}'
        return write_yaml(
            self.folder / "mirror.yaml",
            f"""clusters:
  east: {{bootstrap-servers: "{self.source}"}}
  west: {{bootstrap-servers: "{self.destination}"}}
stores:
  lake: {{type: filesystem, root: {self.folder / "lake"}}}
mirrors:
  - name: {self.tag}
    source: {{cluster: east, topics: ["/.*-{self.tag}/"]}}
    destinations: [{{type: archive, store: lake, flush: {{max-records: 25}}, groups: {wanted}}}]
engine: {{lanes: 2, lease: 2s, memory: 512MiB}}
""",
        )

    def restore(self, kind: str, *options: str) -> Ended:
        given = ("--store", "lake", "--topics", f"{self.topic},{self.compacted}", "--to", "west")
        named = ("--name", f"{kind}-{self.tag}", "--rename", f"{{topic}}.{kind}", "--groups", *options)
        return mirrorlake("restore", "-c", self.configuration(), "--yes", "--format", "json", *given, *named)

    def group(self, name: str) -> str:
        return f"{name}-{self.tag}"

    def at(self, group: str, partition: TopicPartition, kind: str) -> int | None:
        found = committed_offsets(self.destination, self.group(group))
        return found.get(TopicPartition(f"{partition.topic}.{kind}", partition.partition))


@pytest.fixture(scope="module")
def archived(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory
) -> Archived:
    folder = tmp_path_factory.mktemp("groups")
    (folder / "lake").mkdir()
    source, tag = source_kafka.bootstrap_servers, folder.name
    found = Archived(folder, source, destination_kafka.bootstrap_servers, tag, {}, {})
    topic, compacted = found.topic, found.compacted
    create_topic(source, topic, 3)
    append(source, topic, 0, simple_records(RECORDS))
    append_in_transaction(source, topic, simple_records(5, start=1000), partition=1, committed=True)
    append_in_transaction(source, topic, simple_records(5, start=2000), partition=1, committed=False)
    append(source, topic, 1, simple_records(10, start=3000))
    create_compacted(source, compacted)
    append(source, compacted, 0, [Record(1_699_999_999_000, b"first", b"of its key")])
    append_and_compact(source, compacted, keyed_records(60, 7), left={0, *range(54, 62)})
    zero, one, two, keys = (*(TopicPartition(topic, n) for n in range(3)), TopicPartition(compacted, 0))
    for place in (zero, one, two, keys):
        found.records[place] = consume(source, place.topic, place.partition)
    found.groups.update(
        {
            "within": {zero: 17, one: 14, keys: 20},  # the cleaner has left nothing at 20
            "marker": {one: 5},  # where the first transaction's marker lies
            "aborted": {one: 8},
            "through": {zero: RECORDS, one: source_end(source, topic, 1), two: 0},
            "begun": {zero: 0},
        }
    )
    for name, offsets in found.groups.items():
        commit(source, found.group(name), offsets, metadata=f"of {name}")
    commit(source, f"test-{tag}", {zero: 3})
    commit(source, new_group("unnamed"), {zero: 3})
    ended = mirrorlake("run", "--once", "-c", found.configuration())
    assert ended.code == 0, ended.err
    return found


def next_record(archived: Archived, partition: TopicPartition, offset: int) -> bytes | None:
    """The value of the first record a group reads that stands at an offset of the source."""
    records = archived.records[partition]
    return records[min(each for each in records if each >= offset)].value


@pytest.mark.quick
def test_offsets_of_the_named_groups_are_archived_beside_the_topics_records(archived: Archived) -> None:
    (newest,) = sorted((archived.folder / "lake" / archived.topic / "_groups").iterdir())[-1:]
    content = json.loads(newest.read_bytes())
    found = {
        (group, each["partition"]): (offset["offset"], offset["metadata"])
        for each in content["partitions"]
        for group, offset in each["groups"].items()
    }
    assert found == {
        (archived.group(name), place.partition): (offset, f"of {name}")
        for name, offsets in archived.groups.items()
        for place, offset in offsets.items()
        if place.topic == archived.topic
    }


def test_with_equal_offsets_every_group_stands_where_it_stood(archived: Archived) -> None:
    ended = archived.restore("equal")
    assert ended.code == 0, ended.err + ended.out
    for name, offsets in archived.groups.items():
        found = committed(archived.destination, archived.group(name))
        theirs = {TopicPartition(f"{p.topic}.equal", p.partition): offset for p, offset in offsets.items()}
        assert {place: each.offset for place, each in found.items() if place in theirs} == theirs
        assert {found[place].metadata for place in theirs} == {f"of {name}"}
        assert {found[place].leader_epoch for place in theirs} == {-1}, "epochs are one cluster's own"
    for topic in (archived.topic, archived.compacted):
        places = {p: offset for p, offset in archived.groups["within"].items() if p.topic == topic}
        expected = {p.partition: next_record(archived, p, offset) for p, offset in places.items()}
        rest = sum(1 for p, offset in places.items() for each in archived.records[p] if each >= offset)
        there = [TopicPartition(f"{topic}.equal", number) for number in expected]
        # This client ends at a marker that the cleaner has emptied, and this copy's gaps are markers alone.
        level, group = "read_uncommitted", archived.group("within")
        read = read_on(archived.destination, group, there, records=rest, isolation_level=level)
        first = {number: next(value for n, value in read if n == number) for number in expected}
        assert first == expected
    again = archived.restore("equal")
    assert again.code == 0, again.err + again.out
    assert {row["action"] for row in json.loads(again.out)["groups"]} == {"stands there"}


def test_with_mapped_offsets_every_group_goes_on_at_the_same_record(archived: Archived) -> None:
    topic = f"{archived.topic}.mapped"
    create_topic(archived.destination, topic, 3)
    append(archived.destination, topic, 0, simple_records(4, start=7777))
    ended = archived.restore("mapped", "--offsets", "map")
    assert ended.code == 0, ended.err + ended.out
    for name, offsets in archived.groups.items():
        for place, offset in offsets.items():
            there = consume(archived.destination, f"{place.topic}.mapped", place.partition)
            place_there = archived.at(name, place, "mapped")
            assert place_there is not None
            left = [record for at, record in archived.records[place].items() if at >= offset]
            assert [record for at, record in there.items() if at >= place_there] == left
    begun = [TopicPartition(topic, 0)]
    read = read_on(archived.destination, archived.group("begun"), begun, records=RECORDS)
    assert [value for _, value in read] == [record.value for record in archived.records[zero_of(archived)].values()]


def zero_of(archived: Archived) -> TopicPartition:
    return TopicPartition(archived.topic, 0)


def test_where_partitions_share_one_a_group_goes_on_at_the_lowest_place_or_nowhere(archived: Archived) -> None:
    topic = f"{archived.topic}.fewer"
    create_topic(archived.destination, topic, 1)
    ended = archived.restore("fewer", "--offsets", "map")
    assert ended.code == 3, ended.err + ended.out
    rows = [row for row in json.loads(ended.out)["groups"] if row["topic"] == archived.topic]
    placed = {row["group"] for row in rows if row["action"] == "committed"}
    assert placed == {archived.group("within"), archived.group("through")}, "the third partition has no records"
    assert {row["action"] for row in rows if row["group"] not in placed} == {"unknown"}
    there = consume(archived.destination, topic, 0)
    at = committed_offsets(archived.destination, archived.group("within"))[TopicPartition(topic, 0)]
    left = [record.value for offset, record in there.items() if offset >= at]
    unread = [
        record.value
        for partition, offset in archived.groups["within"].items()
        if partition.topic == archived.topic
        for each, record in archived.records[partition].items()
        if each >= offset
    ]
    assert {*unread} <= {*left}
    assert left[0] in unread, "no more is read again than must be"


def test_a_dry_run_shows_where_groups_would_go_on_and_commits_nothing(archived: Archived) -> None:
    equal, mapped = archived.restore("dry", "--dry-run"), archived.restore("dried", "--dry-run", "--offsets", "map")
    assert (equal.code, mapped.code) == (0, 0), equal.err + mapped.err
    (row,) = [row for row in json.loads(equal.out)["groups"] if row["group"] == archived.group("begun")]
    row.pop("archived_at")
    assert row == {
        "group": archived.group("begun"),
        "topic": archived.topic,
        "partition": 0,
        "archived": 0,
        "to": f"{archived.topic}.dry-0",
        "offset": 0,
        "had": None,
        "action": "commit",
        "note": None,
    }
    assert {(row["offset"], row["action"]) for row in json.loads(mapped.out)["groups"]} == {(None, "after the restore")}
    assert archived.at("begun", zero_of(archived), "dry") is None


def test_a_newest_object_that_is_damaged_is_named_and_the_one_before_is_read(archived: Archived) -> None:
    folder = archived.folder / "lake" / archived.topic / "_groups"
    torn = folder / f"{int(max(each.stem for each in folder.iterdir())) + 1:020}.json"
    torn.write_bytes(b"{}")
    try:
        checked = mirrorlake("archive", "check", "-c", archived.configuration())
        planned = archived.restore("torn", "--dry-run")
    finally:
        torn.unlink()
    assert checked.code == 1
    assert f"{torn} is damaged" in " ".join((checked.out + checked.err).split())
    found = json.loads(planned.out)
    assert found["group_warnings"] == [
        f"{archived.topic}/_groups/{torn.name} is damaged: an older object was read in its place"
    ]
    assert {row["group"] for row in found["groups"]} == {archived.group(name) for name in archived.groups}


def test_groups_whose_only_object_is_damaged_are_not_called_none_and_all_else_is_restored(archived: Archived) -> None:
    folder = archived.folder / "lake" / archived.topic / "_groups"
    whole = {each: each.read_bytes() for each in folder.iterdir()}
    for each, content in whole.items():
        each.write_bytes(content.replace(b'"offset": ', b'"offset": 1'))
    try:
        checked = mirrorlake("archive", "check", "-c", archived.configuration())
        planned, ended = archived.restore("unread", "--dry-run"), archived.restore("unread")
    finally:
        for each, content in whole.items():
            each.write_bytes(content)
    keys = " and ".join(f"{archived.topic}/_groups/{each.name}" for each in sorted(whole, reverse=True))
    named = f"the groups of topic {archived.topic} could not be read: {keys}"
    assert checked.code == 1
    assert "is damaged: what consumer groups had committed cannot be told" in " ".join(checked.out.split())
    for done in (planned, ended):
        assert done.code == 1, done.err + done.out
        (said,) = json.loads(done.out)["group_warnings"]
        assert said.startswith(named)
        assert "put one back from a copy" in said
    assert named in ended.err, "it is said before the first record, too"
    assert {row["result"] for row in json.loads(ended.out)["restored"]} <= {"equal", "empty"}
    assert {(row["topic"], row["action"]) for row in json.loads(ended.out)["groups"]} == {
        (archived.compacted, "committed")
    }
    mended = archived.restore("unread")
    assert mended.code == 0, mended.err + mended.out
    assert archived.at("through", zero_of(archived), "unread") == RECORDS


def test_groups_that_are_gone_altogether_are_named_and_all_else_is_restored(archived: Archived) -> None:
    folder = archived.folder / "lake" / archived.topic / "_groups"
    aside = folder.rename(archived.folder / "aside")
    try:
        planned, ended = archived.restore("gone", "--dry-run"), archived.restore("gone")
    finally:
        aside.rename(folder)
    for done in (planned, ended):
        assert done.code == 3, done.err + done.out
        (said,) = json.loads(done.out)["group_warnings"]
        assert said.startswith(f"nothing is archived of consumer groups of topic {archived.topic}:")
    assert said in ended.err, "it is said before the first record, too"
    assert {row["result"] for row in json.loads(ended.out)["restored"]} <= {"equal", "empty"}
    assert {(row["topic"], row["action"]) for row in json.loads(ended.out)["groups"]} == {
        (archived.compacted, "committed")
    }


@contextmanager
def living(servers: str, group: str, topic: str) -> Iterator[None]:
    """A member of a group that stays until the block ends."""
    joined, over = Event(), Event()

    async def stay() -> None:
        async with member(servers, group, [topic], reset="earliest"):
            joined.set()
            await asyncio.to_thread(over.wait)

    thread = Thread(target=lambda: asyncio.run(stay()), daemon=True)
    thread.start()
    assert joined.wait(60)
    try:
        yield
    finally:
        over.set()
        thread.join(60)


def test_a_group_with_members_or_further_on_is_left_alone_and_that_is_said(archived: Archived) -> None:
    assert archived.restore("taken").code == 0
    topic, zero = f"{archived.topic}.taken", zero_of(archived)
    commit(archived.destination, archived.group("begun"), {TopicPartition(topic, 0): 33})
    with living(archived.destination, archived.group("marker"), topic):
        commit_of = archived.at("marker", TopicPartition(archived.topic, 1), "taken")
        ended = archived.restore("taken")
    assert ended.code == 3, ended.err + ended.out
    rows = {
        (row["group"], row["partition"]): row for row in json.loads(ended.out)["groups"] if row["topic"] == zero.topic
    }
    further = rows[archived.group("begun"), 0]
    assert (further["action"], further["had"], further["offset"]) == ("left alone", 33, 0)
    assert "--force-groups" in further["note"]
    assert commit_of == 5
    assert archived.at("begun", zero, "taken") == 33
    forced = archived.restore("taken", "--force-groups")
    assert forced.code == 0, forced.err + forced.out
    assert archived.at("begun", zero, "taken") == 0
    commit(archived.destination, archived.group("begun"), {TopicPartition(topic, 0): 33})
    with living(archived.destination, archived.group("begun"), topic):
        refused = archived.restore("taken", "--force-groups")
    assert refused.code == 3, refused.err + refused.out
    (row,) = [row for row in json.loads(refused.out)["groups"] if row["group"] == archived.group("begun")]
    assert row["action"] == "left alone"
    assert "stop its consumers" in row["note"]
    assert archived.at("begun", zero, "taken") == 33


def test_a_group_whose_transaction_has_not_ended_is_left_alone_and_keeps_what_that_commits(archived: Archived) -> None:
    topic = f"{archived.topic}.inside"
    assert archived.restore("inside").code == 0
    place, group = TopicPartition(topic, 0), archived.group("begun")

    async def restoring() -> Ended:
        async with offsets_in_a_transaction(archived.destination, group, {place: 20}) as transaction:
            ended = await asyncio.to_thread(archived.restore, "inside", "--force-groups")
            await transaction.commit_transaction()
        return ended

    ended = asyncio.run(restoring())
    assert ended.code == 3, ended.err + ended.out
    (row,) = [
        row
        for row in json.loads(ended.out)["groups"]
        if (row["group"], row["to"]) == (group, str(place)) and row["action"] != "stands there"
    ]
    assert row["action"] == "left alone"
    assert "a transaction that has not ended" in row["note"] or "UNSTABLE_OFFSET_COMMIT" in row["note"]
    assert committed_offsets(archived.destination, group)[place] == 20
