"""`validate`, `plan`, `run`, `status`, `verify`, `groups sync` and `offsets` of a mirror with a route, as processes."""

import asyncio
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mirrorlake.config.loading import parse_configuration
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.offsets import TopicPartition
from support.admin import alter_topic
from support.command import Ended
from support.command import without_spark as mirrorlake
from support.copies import archived_records, assert_same_records, create_topic, source_end
from support.groups import commit, committed_offsets, new_group
from support.map_copies import offset_map_of
from support.records import LZ4, consume, in_batches, produce
from support.routed_copies import KINDS, TO, assert_routed, kind_of, record, route, routed_copies, topics_of
from support.topics import append
from support.transactions import append_in_transaction

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PARTITIONS = 3
DOCUMENT = Path(__file__).parents[2] / "docs" / "filters.md"


def fill(servers: str, topic: str) -> None:
    """Batches of one kind and of several, compressed ones, transactions of both outcomes; one partition has none."""
    mixed = [record(n, KINDS[n % 3]) for n in range(45)]
    alike = [record(100 + n, "open", size=300) for n in range(20)]
    asyncio.run(produce(servers, topic, 0, [*in_batches(mixed, 7), *in_batches(alike, 10)]))
    asyncio.run(produce(servers, topic, 1, list(in_batches([*alike, *mixed], 9, LZ4))))
    append_in_transaction(servers, topic, [record(n, "paid") for n in range(200, 203)], partition=1, committed=False)
    append_in_transaction(servers, topic, [record(n, KINDS[n % 2]) for n in range(300, 304)], partition=1)


@dataclass(frozen=True)
class Said:
    """What every command said of a topic of three partitions, a route to two kinds of places, and a group."""

    east: str
    west: str
    topic: str
    lake: Path
    group: str
    validate: Ended
    plan: Ended
    runs: tuple[Ended, ...]
    status: Ended
    verify: Ended
    groups: Ended
    offsets: Ended


@pytest.fixture(scope="module")
def said(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory
) -> Said:
    folder = tmp_path_factory.mktemp("routed")
    (folder / "lake").mkdir()
    east, west, topic = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, f"sales-{folder.name}"
    create_topic(east, topic, PARTITIONS)
    fill(east, topic)
    archive = "}, {type: archive, store: lake, flush: {max-records: 11}, " + route(topic)
    config = routed_copies(folder, east, west, topic, more=archive)
    as_json = ("-c", config, "--format", "json")
    validate, plan = mirrorlake("validate", *as_json), mirrorlake("plan", *as_json)
    first = mirrorlake("run", "--once", "-c", config)
    append(east, topic, 0, [record(n, KINDS[n % 3]) for n in range(400, 430)])
    second = mirrorlake("run", "--once", "-c", config)
    group = new_group("routed")
    commit(east, group, {TopicPartition(topic, 0): 22, TopicPartition(topic, 1): source_end(east, topic, 1)})
    return Said(
        east=east,
        west=west,
        topic=topic,
        lake=folder / "lake",
        group=group,
        validate=validate,
        plan=plan,
        runs=(first, second),
        status=mirrorlake("status", *as_json),
        verify=mirrorlake("verify", *as_json),
        groups=mirrorlake("groups", "sync", *as_json, "--yes", "--group", group),
        offsets=mirrorlake("offsets", "list", *as_json),
    )


@pytest.mark.quick
def test_validate_and_plan_name_every_topic_and_folder(said: Said) -> None:
    assert (said.validate.code, said.plan.code) == (0, 0), said.validate.err + said.plan.err
    (mirror,) = json.loads(said.validate.out)["mirrors"]
    expected = [(place, to) for place in ("west", "lake") for to in topics_of(said.topic).values()]
    assert [(each["name"], each["to"]) for each in mirror["destinations"]] == [(f"{p}/{t}", t) for p, t in expected]
    rows = [row for row in said.plan.rows() if row.get("partition") is not None]
    assert {row["destination"] for row in rows} == {f"{place}/{to}" for place, to in expected}
    assert len(rows) == 2 * len(KINDS) * PARTITIONS


def test_every_record_is_at_the_topic_of_its_kind_in_its_partition_once(said: Said) -> None:
    assert [run.code for run in said.runs] == [0, 0], "".join(run.err for run in said.runs)
    counts = assert_routed(said.east, said.west, said.topic, PARTITIONS)
    assert sum(counts.values()) == sum(len(consume(said.east, said.topic, n)) for n in range(PARTITIONS))
    assert min(counts.values()) > 30


def test_archives_hold_their_kinds_in_folders_of_their_own(said: Said) -> None:
    for partition in range(PARTITIONS):
        records = consume(said.east, said.topic, partition)
        for kind, folder in topics_of(said.topic).items():
            own = {offset: each for offset, each in records.items() if kind_of(each) == kind}
            assert_same_records(own, archived_records(said.lake, folder, partition))


def test_each_topic_has_rows_positions_and_a_verdict_of_its_own(said: Said) -> None:
    assert (said.status.code, said.verify.code, said.offsets.code) == (0, 0, 0), said.status.err + said.verify.out
    labels = {f"{place}/{to}" for place in ("west", "lake") for to in topics_of(said.topic).values()}
    for rows in (said.status.rows(), said.verify.rows()):
        assert {row["destination"] for row in rows} == labels
        assert len(rows) == 2 * len(KINDS) * PARTITIONS
        assert {row["lag"] for row in rows} == {0}
    assert {row["result"] for row in said.verify.rows()} == {"equal"}
    total = sum(len(consume(said.east, said.topic, n)) for n in range(PARTITIONS))
    for place in ("west", "lake"):
        assert sum(row["records"] for row in said.verify.rows() if row["destination"].startswith(place)) == total


def test_a_group_of_the_source_gets_its_offset_at_each_topic(said: Said) -> None:
    assert said.groups.code == 0, said.groups.out + said.groups.err
    there = committed_offsets(said.west, said.group)
    for to in topics_of(said.topic).values():
        for partition, offset in ((0, 22), (1, source_end(said.east, said.topic, 1))):
            mapping = offset_map_of(
                said.west, TopicPartition(said.topic, partition), topic=to, mirror=said.topic, shards=2
            )
            runs = mapping.runs
            following = [
                run.destination_offset + max(0, offset - run.start_offset)
                for run in runs
                if run.start_offset + run.length > offset
            ]
            last = max(run.destination_offset + run.length for run in runs)
            assert there[TopicPartition(to, partition)] == (following[0] if following else last), (to, partition)


def test_a_value_that_is_not_declared_parks_every_topic_until_each_is_moved_behind_it_by_hand(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path: Path, topic_name: str
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(east, topic_name)
    append(east, topic_name, 0, [record(n, "odd" if n == 17 else KINDS[n % 3]) for n in range(30)])
    config = routed_copies(tmp_path, east, west, topic_name)
    stopped = mirrorlake("run", "--once", "-c", config)
    told = stopped.out + stopped.err
    assert stopped.code != 0
    why = f"`route` names no topic for the record at offset 17 of source {topic_name}-0: it is `{topic_name}.odd`"
    assert told.count(why) >= 3
    assert "route-failed" in told
    assert assert_routed(east, west, topic_name, 1, before={0: 17}) == {"paid": 6, "open": 6, "gone": 5}

    moved = mirrorlake("offsets", "reset", "-c", config, "--mirror", topic_name, "--to-offset", "18", "--yes")
    assert moved.code == 0, moved.out + moved.err
    goes_on, verified = mirrorlake("run", "--once", "-c", config), mirrorlake("verify", "-c", config)
    assert (goes_on.code, verified.code) == (0, 0), goes_on.err + verified.out + verified.err
    assert sum(assert_routed(east, west, topic_name, 1).values()) == 29


def test_otherwise_names_the_topic_of_the_rest_or_leaves_it_out_beside_what_a_filter_does(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path: Path, topic_name: str
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(east, topic_name)
    kinds = [*KINDS, "odd", None]
    append(east, topic_name, 0, [record(n, kinds[n % 5]) for n in range(50)])
    config = routed_copies(tmp_path, east, west, topic_name, otherwise=topics_of(topic_name)["gone"])
    run, verified = mirrorlake("run", "--once", "-c", config), mirrorlake("verify", "-c", config)
    assert (run.code, verified.code) == (0, 0), run.err + verified.out + verified.err
    assert assert_routed(east, west, topic_name, 1, otherwise="gone") == {"paid": 10, "open": 10, "gone": 30}

    other = f"{topic_name}-kept"
    create_topic(east, other)
    append(east, other, 0, [record(n, kinds[n % 5]) for n in range(50)])
    where = """filter: {where: "value IS NULL OR CAST(value AS STRING) NOT LIKE '%odd%'"}"""
    config = routed_copies(tmp_path, east, west, other, change=where, otherwise="leave-out")
    run, verified = mirrorlake("run", "--once", "-c", config), mirrorlake("verify", "-c", config, "--format", "json")
    assert (run.code, verified.code) == (0, 0), run.err + verified.out + verified.err
    assert {(row["result"], row["records"]) for row in verified.rows()} == {("equal", 10)}


def test_a_topic_that_is_added_begins_at_the_start_and_verify_names_what_another_one_had_taken(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path: Path, topic_name: str
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(east, topic_name)
    append(east, topic_name, 0, [record(n, KINDS[n % 3]) for n in range(30)])
    rest = topics_of(topic_name)["open"]
    before = routed_copies(tmp_path, east, west, topic_name, kinds=("paid", "open"), otherwise=rest)
    assert mirrorlake("run", "--once", "-c", before).code == 0
    after = routed_copies(tmp_path, east, west, topic_name, otherwise=rest)
    run = mirrorlake("run", "--once", "-c", after)
    assert run.code == 0, run.err
    verified = mirrorlake("verify", "-c", after, "--format", "json")
    found = {row["destination"].rpartition(".")[2]: (row["result"], row["records"]) for row in verified.rows()}
    assert verified.code != 0
    assert (found["paid"], found["gone"]) == (("equal", 10), ("equal", 10))
    assert found["open"][0] == "differs"


def test_a_topic_with_fewer_partitions_than_the_source_parks_those_that_it_lacks_with_the_remedy(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path: Path, topic_name: str
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(east, topic_name, 2)
    create_topic(west, topics_of(topic_name)["open"], 1)
    append(east, topic_name, 1, [record(n, KINDS[n % 3]) for n in range(9)])
    config = routed_copies(tmp_path, east, west, topic_name)
    plan, run = mirrorlake("plan", "-c", config), mirrorlake("run", "--once", "-c", config)
    for ended in (plan, run):
        told = re.sub(r"\s+", " ", ended.out + ended.err)
        assert ended.code != 0
        assert f"partition 1 of source topic {topic_name} has no partition of its number" in told
        assert "--partitions 2" in told
    assert len(consume(west, topics_of(topic_name)["paid"], 1)) == 3


def test_a_missing_topic_that_may_not_be_made_is_named(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path: Path, topic_name: str
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(east, topic_name)
    for kind in ("paid", "gone"):
        create_topic(west, topics_of(topic_name)[kind])
    config = routed_copies(tmp_path, east, west, topic_name, more=", create-topics: never")
    plan = mirrorlake("plan", "-c", config)
    assert plan.code != 0
    told = plan.out + plan.err
    assert f"destination topic {topics_of(topic_name)['open']} does not exist on cluster west" in told
    assert f"{topics_of(topic_name)['paid']} does not exist" not in told


def test_the_example_of_the_documents_does_what_they_say_of_it(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path: Path, topic_name: str
) -> None:
    section = DOCUMENT.read_text(encoding="utf-8").partition("## Which topic it goes to: `route`")[2]
    example = re.search(r"```yaml\n(.*?)```", section, re.DOTALL)
    assert example is not None
    text = example[1].replace("localhost:9092", source_kafka.bootstrap_servers)
    text = text.replace("localhost:9192", destination_kafka.bootstrap_servers)
    for word in ("orders", "bills", "others"):
        text = re.sub(rf"\b{word}\b", f"{topic_name}-{word}", text)
    text = text.replace("topics: [events]", f"topics: [{topic_name}]").replace("name: events", f"name: {topic_name}")
    (mirror,) = parse_configuration(text.encode(), file="example.yaml", environ={}).mirrors
    assert len(mirror.destinations) == 3
    config = tmp_path / "mirror.yaml"
    config.write_text(text, encoding="utf-8")
    create_topic(source_kafka.bootstrap_servers, topic_name)
    # As in the page's first example, whose filter asks for `order`.
    headers = [(("type", each),) for each in (b"order", b"bill")]
    records = [record(n, "paid") for n in range(6)]
    typed = [replace(each, headers=(*headers, ())[n % 3]) for n, each in enumerate(records)]
    append(source_kafka.bootstrap_servers, topic_name, 0, typed)
    run, verified = mirrorlake("run", "--once", "-c", config), mirrorlake("verify", "-c", config)
    assert (run.code, verified.code) == (0, 0), run.err + verified.err + verified.out
    for word in ("orders", "bills", "others"):
        assert len(consume(destination_kafka.bootstrap_servers, f"{topic_name}-{word}", 0)) == 2


def test_another_expression_waits_until_all_topics_are_at_one_position(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path: Path, topic_name: str
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(east, topic_name)
    create_topic(west, topics_of(topic_name)["open"], max_message_bytes="2000")
    records = [record(n, KINDS[n % 3], size=5000 if n == 10 else 0) for n in range(30)]
    append(east, topic_name, 0, records)
    config = routed_copies(tmp_path, east, west, topic_name)
    assert "too-large" in mirrorlake("run", "--once", "-c", config).err
    before = config.read_text()
    # What goes to `open` goes to `paid` from now on, and the other way round.
    swapped = f"CASE {TO} WHEN 'open' THEN 'paid' WHEN 'paid' THEN 'open' ELSE {TO} END"
    config.write_text(before.replace(f"|| {TO}", f"|| {swapped}"))
    alter_topic(west, topics_of(topic_name)["open"], max_message_bytes="1000000")

    plan, refused = mirrorlake("plan", "-c", config, "--format", "json"), mirrorlake("run", "--once", "-c", config)

    assert plan.code != 0
    assert refused.code != 0
    assert {row.get("reason") for row in plan.rows() if row.get("partition") is not None} == {"route-changed"}
    assert "offsets 10…29 would get into two topics, or into none" in refused.err
    assert sum(len(consume(west, to, 0)) for to in topics_of(topic_name).values()) == 23

    config.write_text(before)
    assert mirrorlake("run", "--once", "-c", config).code == 0
    assert assert_routed(east, west, topic_name, 1) == dict.fromkeys(KINDS, 10)
    config.write_text(before.replace(f"|| {TO}", f"|| {swapped}"))
    append(east, topic_name, 0, [record(n, KINDS[n % 3]) for n in range(100, 130)])
    assert mirrorlake("run", "--once", "-c", config).code == 0
    counts = {
        kind: [kind_of(each) for each in consume(west, to, 0).values()] for kind, to in topics_of(topic_name).items()
    }
    assert counts == {
        "paid": ["paid"] * 10 + ["open"] * 10,
        "open": ["open"] * 10 + ["paid"] * 10,
        "gone": ["gone"] * 20,
    }
