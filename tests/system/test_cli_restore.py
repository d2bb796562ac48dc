"""`restore` brings back what an archive holds, record by record; what stands in its way is said before it begins."""

import asyncio
import json
import os
import pty
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import RunAsync
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.topic_configs import read_topic_configs
from mirrorlake.offsets import TopicPartition
from support.archived_source import archive, held_records, settings_at
from support.command import SECONDS_MAX, WITHOUT_SPARK, Ended, write_yaml
from support.command import without_spark as mirrorlake
from support.copies import assert_same_records, create_topic, log_end, wait_until
from support.records import Record, build_batch, consume, every_kind, settings_of, simple_records
from support.service_process import ServiceProcess
from support.topics import append, make_topic
from support.transactions import append_in_transaction

pytestmark = pytest.mark.slow

FORMATS = ("parquet", "ndjson", "log")
FIRST_MS = 1_700_000_000_000
PARTITIONS = 2


def to_archive(name: str) -> str:
    """A destination of a mirror: the store of that name, in the format of that name, in small files."""
    return f"      - {{type: archive, store: {name}, format: {name}, flush: {{max-records: 25}}}}\n"


@dataclass(frozen=True)
class Archived:
    """Topics of a source, archived by a mirror in every format, with what a client read of them."""

    folder: Path
    source: str
    destination: str
    tag: str
    records: dict[str, dict[int, dict[int, Record]]]

    def configuration(self, store: str = "parquet") -> Path:
        return write_yaml(
            self.folder / f"{store}.yaml",
            f"""clusters:
  east: {{bootstrap-servers: "{self.source}"}}
  west: {{bootstrap-servers: "{self.destination}"}}
stores:
{"".join(f"  {name}: {{type: filesystem, root: {self.folder / name}}}{chr(10)}" for name in FORMATS)}
mirrors:
  - name: {self.tag}
    source: {{cluster: east, topics: ["/.*-{self.tag}/"], exclude: [later]}}
    destinations:
{"".join(map(to_archive, FORMATS))}
engine: {{lanes: 2, lease: 2s, memory: 512MiB}}
""",
        )

    def restore(self, *options: str, store: str = "parquet", topics: str = "kinds", to: str = "west") -> Ended:
        names = ",".join(f"{topic}-{self.tag}" for topic in topics.split(","))
        given = ("--store", store, "--topics", names, "--to", to, "--name", f"{store}-{self.tag}", *options)
        return mirrorlake("restore", "-c", self.configuration(), "--yes", "--format", "json", *given)


@pytest.fixture(scope="module")
def archived(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory
) -> Archived:
    folder = tmp_path_factory.mktemp("restore")
    source, tag = source_kafka.bootstrap_servers, folder.name
    for name in FORMATS:
        (folder / name).mkdir()
    create_topic(source, f"kinds-{tag}", PARTITIONS, retention_ms="-1", max_message_bytes="2000000")
    append(source, f"kinds-{tag}", 0, every_kind(3))
    append_in_transaction(source, f"kinds-{tag}", simple_records(5, start=9000), partition=0, committed=False)
    append(source, f"kinds-{tag}", 0, simple_records(60, start=100))
    append(source, f"kinds-{tag}", 1, simple_records(30))
    times = [0, 10, 20, 20, 30, 5, 40, 20, 50, 41]
    make_topic(source, f"times-{tag}", [Record(FIRST_MS + ms, b"k", b"v") for ms in times])
    found = Archived(folder=folder, source=source, destination=destination_kafka.bootstrap_servers, tag=tag, records={})
    ended = mirrorlake("run", "--once", "-c", found.configuration())
    assert ended.code == 0, ended.err
    for topic, partitions in (("kinds", PARTITIONS), ("times", 1)):
        found.records[topic] = {n: consume(source, f"{topic}-{tag}", n) for n in range(partitions)}
    return found


@pytest.mark.quick
@pytest.mark.parametrize("store", FORMATS)
def test_every_record_comes_back_at_its_own_offset(archived: Archived, store: str) -> None:
    ended = archived.restore("--rename", f"{{topic}}.{store}", store=store)
    assert ended.code == 0, ended.err + ended.out
    for partition, expected in archived.records["kinds"].items():
        assert_same_records(expected, consume(archived.destination, f"kinds-{archived.tag}.{store}", partition))


def test_a_restored_topic_has_the_partitions_and_settings_it_had(archived: Archived, run_async: RunAsync) -> None:
    topic = f"kinds-{archived.tag}.made"
    assert archived.restore("--rename", "{topic}.made").code == 0

    async def described() -> tuple[int, dict[str, str | None]]:
        async with ClusterClient(settings_of(archived.destination)) as client:
            partitions = (await client.metadata([topic])).topics[topic].partitions
            found = (await read_topic_configs(client, [topic]))[topic]
            return len(partitions), {key: value.value for key, value in found.items()}

    partitions, configs = run_async(described())
    assert (partitions, configs["retention.ms"], configs["max.message.bytes"]) == (PARTITIONS, "-1", "2000000")


def test_what_the_brokers_would_delete_of_it_is_said_before_the_first_record(archived: Archived) -> None:
    topic = f"aged-{archived.tag}"
    week = {"retention.ms": str(7 * 86_400_000)}
    content = held_records([(0, build_batch(simple_records(5)))])
    archive(settings_at(archived.folder / "log"), TopicPartition(topic, 0), content, [5], form="log", configs=week)
    ended = archived.restore(store="log", topics="aged")
    said = [line for line in ended.err.splitlines() if f"west/{topic}: retention.ms is 7 d: the brokers delete" in line]
    assert len(said) == 1, ended.err
    assert ended.err.index(said[0]) < ended.err.index("starting mirror")
    (row,) = json.loads(ended.out)["plan"]
    assert any("all of them; make the topic yourself before" in warning for warning in row["warnings"])


@pytest.mark.parametrize("store", FORMATS)
def test_a_damaged_newest_segment_keeps_neither_what_is_before_it_nor_another_partition(
    archived: Archived, store: str
) -> None:
    topic, records = f"torn-{store}-{archived.tag}", simple_records(20)
    content = held_records([(0, build_batch(records[:10])), (10, build_batch(records[10:]))])
    for partition in range(PARTITIONS):
        archive(settings_at(archived.folder / store), TopicPartition(topic, partition), content, [10, 20], form=store)
    newest = archived.folder / store / topic / "0" / f"{10:020}-{19:020}.{store}"
    whole = newest.read_bytes()
    newest.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    ended = archived.restore(store=store, topics=f"torn-{store}")
    assert ended.code == 3, ended.err + ended.out
    found = json.loads(ended.out)
    assert {row["action"] for row in found["plan"]} == {"create and copy"}
    assert [any(newest.name in warning for warning in row["warnings"]) for row in found["plan"]] == [True, False]
    assert f"{topic}/0/{newest.name}" in ended.err
    assert [log_end(archived.destination, topic, partition) for partition in range(PARTITIONS)] == [10, 20]


def at(milliseconds: int) -> str:
    """A time that so many milliseconds after the first, as users write it."""
    return f"2023-11-14T22:13:20.{milliseconds:03}Z"


def test_a_point_in_time_ends_each_partition_before_its_first_later_record(archived: Archived) -> None:
    options = ("--rename", "{topic}.until", "--until", at(20))
    planned = archived.restore(*options, "--dry-run", topics="times")
    assert planned.code == 0, planned.err
    (row,) = json.loads(planned.out)["plan"]
    assert (row["start"], row["end"]) == (0, 4)
    assert any("2 record(s) behind offset 4 are not later than `until`" in warning for warning in row["warnings"])
    assert log_end(archived.destination, f"times-{archived.tag}.until") == 0, "a dry run makes nothing"
    assert archived.restore(*options, topics="times").code == 0
    expected = {offset: record for offset, record in archived.records["times"][0].items() if offset < 4}
    assert_same_records(expected, consume(archived.destination, f"times-{archived.tag}.until", 0))
    assert archived.restore(*options, topics="times").code == 0, "there is nothing left to do"
    later = archived.restore("--rename", "{topic}.until", topics="times")
    assert later.code == 0, later.err
    assert_same_records(archived.records["times"][0], consume(archived.destination, f"times-{archived.tag}.until", 0))


def test_from_a_time_on_a_partition_begins_at_its_first_record_of_it(archived: Archived) -> None:
    ended = archived.restore("--rename", "{topic}.from", "--from", at(30), topics="times")
    assert ended.code == 0, ended.err + ended.out
    expected = {offset: record for offset, record in archived.records["times"][0].items() if offset >= 4}
    assert_same_records(expected, consume(archived.destination, f"times-{archived.tag}.from", 0))


def test_with_mapped_offsets_a_topic_may_have_other_records(archived: Archived) -> None:
    topic = f"kinds-{archived.tag}.mapped"
    create_topic(archived.destination, topic, PARTITIONS)
    other = simple_records(3, start=7777)
    append(archived.destination, topic, 0, other)
    for _ in range(2):  # the second time there is nothing to do
        ended = archived.restore("--rename", "{topic}.mapped", "--offsets", "map")
        assert ended.code == 0, ended.err + ended.out
    for partition, expected in archived.records["kinds"].items():
        found = [*consume(archived.destination, topic, partition).values()]
        assert found == [*(other if partition == 0 else []), *expected.values()]


def test_a_topic_that_holds_what_is_not_ours_is_refused_and_stays_as_it_is(archived: Archived) -> None:
    topic = f"kinds-{archived.tag}.taken"
    create_topic(archived.destination, topic, PARTITIONS)
    append(archived.destination, topic, 0, simple_records(3))
    ended = archived.restore("--rename", "{topic}.taken")
    assert ended.code in (1, 3)
    assert log_end(archived.destination, topic, 0) == 3


def test_a_topic_that_was_restored_from_another_archive_is_refused(archived: Archived) -> None:
    options = ("--rename", "{topic}.ids", "--name", f"ids-{archived.tag}")
    assert archived.restore(*options, topics="times").code == 0
    other = archived.restore(*options, topics="times", store="log")
    assert other.code == 1
    (row,) = json.loads(other.out)["plan"]
    assert (row["action"], row["reason"]) == ("refused", "other-source")


def test_an_archive_is_not_brought_back_into_the_topic_it_is_made_of(archived: Archived) -> None:
    ended = archived.restore("--offsets", "map", to="east", topics="times")
    assert ended.code == 1
    assert "records would go round: topic times" in ended.out
    assert consume(archived.source, f"times-{archived.tag}", 0) == archived.records["times"][0]


def test_a_hole_is_named_and_nothing_behind_it_is_restored(archived: Archived) -> None:
    lake = archived.folder / "ndjson" / f"times-{archived.tag}"
    broken = archived.folder / "ndjson" / f"kinds-{archived.tag}" / "0"
    assert lake.is_dir()
    second = sorted(broken.glob("0*.ndjson"))[1]
    aside = second.rename(archived.folder / second.name)
    try:
        ended = archived.restore("--rename", "{topic}.hole", store="ndjson")
        assert ended.code == 1, ended.out
        start = int(second.name[:20])
        (planned,) = [row for row in json.loads(ended.out)["plan"] if row["partition"] == 0]
        assert f"offsets [{start}, " in planned["error"]
        assert "missing in the archive" in planned["error"]
        assert "not all of the source could be read" in ended.err
        assert log_end(archived.destination, f"kinds-{archived.tag}.hole", 0) <= start
        timed = archived.restore("--rename", "{topic}.timed", "--until", "2099-01-01T00:00:00Z", store="ndjson")
        assert timed.code == 1, timed.out
        ends = [log_end(archived.destination, f"kinds-{archived.tag}.timed", n) for n in range(PARTITIONS)]
        assert ends == [0, len(archived.records["kinds"][1])], "where the first one ends is not known"
    finally:
        aside.rename(second)
    mended = archived.restore("--rename", "{topic}.hole", store="ndjson")
    assert mended.code == 0, mended.err + mended.out
    for partition, expected in archived.records["kinds"].items():
        assert_same_records(expected, consume(archived.destination, f"kinds-{archived.tag}.hole", partition))


def test_what_has_no_meaning_and_what_nobody_can_be_asked_is_refused(archived: Archived) -> None:
    config = archived.configuration()
    given = ("restore", "-c", config, "--store", "parquet", "--topics", "a", "--to", "west")
    forced, silent = mirrorlake(*given, "--yes", "--force-groups"), mirrorlake(*given)
    assert (forced.code, silent.code) == (2, 2)
    assert "has no meaning without --groups" in forced.err
    assert "nobody can be asked here" in silent.err


def test_groups_that_were_asked_for_and_are_not_archived_are_named_and_the_code_says_so(archived: Archived) -> None:
    ended = archived.restore("--groups", "--dry-run", "--rename", "{topic}.none", topics="times")
    assert ended.code == 3, ended.err + ended.out
    found = json.loads(ended.out)
    assert found["groups"] == []
    (said,) = found["group_warnings"]
    assert said.startswith(f"nothing is archived of consumer groups of topic times-{archived.tag}")


def test_a_topic_that_is_not_in_the_archive_is_refused(archived: Archived) -> None:
    ended = archived.restore(topics="nothing")
    assert ended.code == 1
    assert f"source topic nothing-{archived.tag} does not exist on archive parquet" in ended.out


def test_a_mirror_of_an_archive_is_planned_run_shown_and_verified_like_any_other(archived: Archived) -> None:
    config = write_yaml(
        archived.folder / "mirror.yaml",
        f"""clusters:
  west: {{bootstrap-servers: "{archived.destination}"}}
stores:
  parquet: {{type: filesystem, root: {archived.folder / "parquet"}}}
  other: {{type: filesystem, root: {archived.folder / "other"}}}
mirrors:
  - name: back-{archived.tag}
    source: {{store: parquet, topics: ["/kinds-{archived.tag}/"]}}
    destinations:
      - {{type: kafka, cluster: west, topic: "{{topic}}.back"}}
      - {{type: archive, store: other, format: log}}
engine: {{lanes: 2, lease: 2s, memory: 512MiB}}
""",
    )
    (archived.folder / "other").mkdir()
    as_json = ("-c", config, "--format", "json")
    planned = mirrorlake("plan", *as_json)
    assert planned.code == 0, planned.out
    assert {row["action"] for row in planned.rows()} == {"create and copy", "copy"}
    ran = mirrorlake("run", "--once", "-c", config)
    assert ran.code == 0, ran.err
    status, verified = mirrorlake("status", *as_json), mirrorlake("verify", *as_json)
    assert {(row["state"], row["lag"]) for row in status.rows()} == {("caught-up", 0)}, status.out
    assert {row["result"] for row in verified.rows()} == {"equal"}, verified.out
    assert sorted(row["records"] for row in verified.rows()) == sorted(
        len(archived.records["kinds"][n]) for n in range(PARTITIONS) for _ in range(2)
    )
    for partition, expected in archived.records["kinds"].items():
        assert_same_records(expected, consume(archived.destination, f"kinds-{archived.tag}.back", partition))


@pytest.mark.parametrize("offsets", ["preserve", "map"])
def test_a_restore_that_was_killed_half_way_continues_where_it_stood(archived: Archived, offsets: str) -> None:
    """The archive grows meanwhile: the last file comes after the crash."""
    tag, lake = archived.tag, archived.folder / f"growing-{offsets}"
    shutil.copytree(archived.folder / "log", lake)
    last = sorted((lake / f"kinds-{tag}" / "0").glob("0*.log"))[-1]
    aside = last.rename(archived.folder / f"{offsets}-{last.name}")
    topic = f"kinds-{tag}.killed-{offsets}"
    config = write_yaml(
        archived.folder / f"killed-{offsets}.yaml",
        f"""clusters:
  west: {{bootstrap-servers: "{archived.destination}"}}
stores:
  lake: {{type: filesystem, root: {lake}}}
mirrors:
  - name: killed-{offsets}-{tag}
    source: {{store: lake, topics: [kinds-{tag}]}}
    destinations: [{{type: kafka, cluster: west, topic: {topic}, offsets: {offsets}}}]
engine: {{lanes: 2, lease: 2s, memory: 512MiB}}
""",
    )
    with ServiceProcess("run", "-c", str(config), folder=archived.folder, without_spark=True) as running:
        wait_until(lambda: log_end(archived.destination, topic, 0) >= 25, "a part of it", log=running.said)
        running.kill()
    aside.rename(last)
    ended = mirrorlake("run", "--once", "--take-over", "-c", config)
    assert ended.code == 0, ended.err
    for partition, expected in archived.records["kinds"].items():
        found = consume(archived.destination, topic, partition)
        if offsets == "preserve":
            assert_same_records(expected, found)
        assert [*found.values()] == [*expected.values()]
    verified = mirrorlake("verify", "-c", config, "--format", "json")
    assert {row["result"] for row in verified.rows()} == {"equal"}, verified.out


def test_the_newest_generation_is_restored_unless_an_older_one_is_named(archived: Archived) -> None:
    tag, lake = archived.tag, archived.folder / "generations"
    lake.mkdir()
    generations = {1: simple_records(20), 2: simple_records(30, start=500), 3: simple_records(10, start=900)}
    for number, records in generations.items():
        folder = f"twice-{tag}" if number == 1 else f"twice-{tag}.{number}"
        content = held_records([(0, build_batch(records))])
        archive(
            settings_at(lake),
            TopicPartition(folder, 0),
            content,
            [len(records)],
            form="parquet",
            topic_id=f"id-{number}",
            topic=f"twice-{tag}",
        )
    config = write_yaml(
        archived.folder / "generations.yaml",
        f"""clusters:
  west: {{bootstrap-servers: "{archived.destination}"}}
stores:
  lake: {{type: filesystem, root: {lake}}}
  other: {{type: filesystem, root: {archived.folder}}}
mirrors:
  - name: other-{tag}
    source: {{store: lake, topics: [other]}}
    destinations: [{{type: archive, store: other}}]
engine: {{lanes: 2, lease: 2s, memory: 512MiB}}
""",
    )

    def restored(name: str, *options: str) -> Ended:
        given = ("--store", "lake", "--topics", f"twice-{tag}", "--to", "west", "--name", f"{name}-{tag}", "--yes")
        return mirrorlake("restore", "-c", config, *given, "--rename", f"{{topic}}.{name}", *options)

    for name, options, expected in (
        ("newest", (), generations[3]),
        ("first", ("--generation", "1"), generations[1]),
        ("second", ("--generation", "2"), generations[2]),
    ):
        ended = restored(name, *options)
        assert ended.code == 0, ended.err + ended.out
        assert_same_records(dict(enumerate(expected)), consume(archived.destination, f"twice-{tag}.{name}", 0))
    other = restored("first", "--generation", "2")
    assert other.code != 0, "records of one generation are not put behind those of another"
    assert_same_records(dict(enumerate(generations[1])), consume(archived.destination, f"twice-{tag}.first", 0))
    none = restored("none", "--generation", "4")
    assert none.code == 1
    assert f"twice-{tag}" in none.out


def on_a_terminal(folder: Path, *arguments: str | Path, types: str) -> Ended:
    """Runs the command with a terminal as its stdin, at which somebody types."""
    terminal, its_end = pty.openpty()
    try:
        os.write(terminal, types.encode())
        done = subprocess.run(
            [sys.executable, *WITHOUT_SPARK, "-m", "mirrorlake", *map(str, arguments)],
            stdin=its_end,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            cwd=folder,
            check=False,
        )
    finally:
        os.close(its_end)
        os.close(terminal)
    return Ended(code=done.returncode, out=done.stdout, err=done.stderr)


@pytest.mark.parametrize(("typed", "is_restored"), [("n\n", False), ("\n", False), ("y\n", True)])
def test_somebody_at_a_terminal_is_asked_after_the_plan_and_before_anything_is_changed(
    archived: Archived, typed: str, is_restored: bool
) -> None:
    topic = f"times-{archived.tag}.asked{int(is_restored)}"
    given = ("--store", "parquet", "--topics", f"times-{archived.tag}", "--to", "west", "--rename", topic)
    name = ("--name", f"asked-{archived.tag}")
    ended = on_a_terminal(archived.folder, "restore", "-c", archived.configuration(), *given, *name, types=typed)
    assert "restore to west? [y/N]" in ended.err
    assert "create and copy" in ended.out
    assert ended.code == (0 if is_restored else 1), ended.err
    if is_restored:
        assert_same_records(archived.records["times"][0], consume(archived.destination, topic, 0))
    else:
        assert not exists(archived.destination, topic)


def exists(servers: str, topic: str) -> bool:
    async def found() -> bool:
        async with ClusterClient(settings_of(servers)) as client:
            return topic in (await client.metadata([topic])).topics

    return asyncio.run(found())
