"""``failover`` and ``failback``: what is there, what is not, and what must be decided, with clusters alive and gone."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from conftest import NewKafka
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.offsets import TopicPartition
from support.command import Ended, write_yaml
from support.command import without_spark as mirrorlake
from support.copies import assert_equal_in_kafka, log_end, source_end, wait_until
from support.groups import commit, committed_offsets, new_group
from support.records import consume, simple_records
from support.service_process import ServiceProcess
from support.topics import append, delete_topic, make_topic, topics_of
from support.transactions import append_in_transaction

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

Rows = list[dict[str, object]]


def config_of(
    folder: Path, east: str, west: str, topic: str, *, offsets: str = "preserve", to: str = "{topic}"
) -> Path:
    return write_yaml(
        folder / "mirror.yaml",
        f"""clusters:
  east: {{bootstrap-servers: "{east}", properties: {{request.timeout.ms: 3000}}}}
  west: {{bootstrap-servers: "{west}"}}
mirrors:
  - name: m-{topic}
    source: {{cluster: east, topics: ["/{topic}.*/"]}}
    destinations: [{{type: kafka, cluster: west, topic: "{to}", offsets: {offsets}}}]
""",
    )


def asked(config: Path, *words: str) -> tuple[Ended, Mapping[str, Rows]]:
    """Runs a verb and returns what it printed as JSON."""
    ended = mirrorlake(*words, "-c", config, "--format", "json")
    assert ended.out, ended.err
    return ended, json.loads(ended.out)


def of(rows: Rows, *keys: str) -> list[tuple[object, ...]]:
    return [tuple(row.get(key) for key in keys) for row in rows]


@pytest.mark.quick
@pytest.mark.parametrize("offsets", ["preserve", "map"])
def test_failover_brings_over_what_is_left_and_the_groups_and_changes_nothing_the_second_time(
    offsets: str, source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west, group = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, new_group()
    make_topic(east, topic_name, simple_records(30), simple_records(20))
    config = config_of(tmp_path, east, west, topic_name, offsets=offsets)
    assert mirrorlake("run", "-c", config, "--once").code == 0
    append(east, topic_name, 1, simple_records(5, start=500))
    commit(east, group, {TopicPartition(topic_name, 0): 12, TopicPartition(topic_name, 1): 25})

    planned, plan = asked(config, "failover", "plan")

    assert of(plan["copies"], "partition", "source_end", "copied", "missing", "state") == [
        (0, 30, 30, 0, "complete"),
        (1, 25, 20, 5, "behind"),
    ]
    assert committed_offsets(west, group) == {}, "a plan changes nothing"
    assert len(consume(west, topic_name, 1)) == 20
    assert planned.code == 0, planned.out

    done, report = asked(config, "failover", "run", "--yes")

    assert done.code == 0, done.err + done.out
    assert of(report["copies"], "missing", "state") == [(0, "complete"), (0, "complete")]
    assert {row["result"] for row in report["verified"]} == {"equal"}
    placed = [row for row in report["groups"] if row["group"] == group]
    assert len(placed) == 2
    copies = [consume(west, topic_name, partition) for partition in range(2)]
    assert [len(each) for each in copies] == [30, 25]
    if offsets == "preserve":
        assert committed_offsets(west, group) == committed_offsets(east, group)
    before = committed_offsets(west, group)
    ends = [log_end(west, topic_name, each) for each in range(2)]
    again, _ = asked(config, "failover", "run", "--yes", "--level", "records")
    assert again.code == 0, again.err
    assert committed_offsets(west, group) == before
    assert [len(consume(west, topic_name, each)) for each in range(2)] == [30, 25]
    if offsets == "preserve":
        assert [log_end(west, topic_name, each) for each in range(2)] == ends


def test_a_plan_says_who_serves_a_mirror_only_of_one_that_lives(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    make_topic(east, topic_name, simple_records(10))
    config = config_of(tmp_path, east, west, topic_name)
    with ServiceProcess("run", "-c", str(config), folder=tmp_path, without_spark=True) as service:
        wait_until(lambda: log_end(west, topic_name) == 10, "the records", log=service.said)
        service.await_words("mirror taken over")
        alive, living = asked(config, "failover", "plan", "--no-groups")
        assert service.is_running
        service.kill()

    dead, silent = asked(config, "failover", "plan", "--no-groups")

    (owner,) = {row["owner"] for row in silent["copies"]}
    said = [*living["remarks"], *silent["remarks"]]
    assert [str(each).partition(f" by {owner}")[0] for each in said] == [
        f"mirror m-{topic_name} is served",
        f"mirror m-{topic_name} was not given back",
    ]
    assert "`failover run --take-over` ends it" in str(said[0])
    assert str(said[1]).endswith("which gives no sign of life: `failover run` takes it over")
    assert (alive.code, dead.code) == (0, 0)
    assert asked(config, "failover", "run", "--yes", "--no-groups")[0].code == 0
    assert asked(config, "failover", "plan", "--no-groups")[1].get("remarks") is None, "it was given back"


def test_a_cluster_that_lists_no_group_is_no_success_unless_none_are_meant(
    new_kafka: NewKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    source, west = new_kafka(), destination_kafka.bootstrap_servers
    make_topic(source.bootstrap_servers, topic_name, simple_records(30))
    config = config_of(tmp_path, source.bootstrap_servers, west, topic_name)

    ended, found = asked(config, "failover", "run", "--yes")
    assert ended.code == 1, ended.out
    assert of(found["copies"], "state") == [("complete",)]
    assert "lists no consumer group" in str(found["remarks"])

    for words in (("failover", "run", "--yes"), ("failback", "run", "--yes")):
        assert asked(config, *words, "--no-groups")[0].code == 0


def test_a_group_gets_no_place_where_a_mirror_that_is_not_meant_copies_to_the_same_partition(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west, group = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, new_group()
    for suffix in ("a", "b"):
        make_topic(east, f"{topic_name}-{suffix}", simple_records(40))
    config = write_yaml(
        tmp_path / "mirror.yaml",
        f"""clusters:
  east: {{bootstrap-servers: "{east}"}}
  west: {{bootstrap-servers: "{west}"}}
defaults:
  destinations: [{{type: kafka, cluster: west, topic: {topic_name}-both, offsets: map}}]
mirrors:
  - name: first-{topic_name}
    source: {{cluster: east, topics: [{topic_name}-a]}}
  - name: second-{topic_name}
    source: {{cluster: east, topics: [{topic_name}-b]}}
""",
    )
    assert mirrorlake("run", "-c", config, "--once").code == 0
    commit(east, group, {TopicPartition(f"{topic_name}-a", 0): 40})

    ended, found = asked(config, "failover", "run", "--yes", "--mirror", f"first-{topic_name}")

    assert ended.code == 3, ended.out
    (row,) = [row for row in found["groups"] if row["group"] == group]
    assert (row["action"], row["offset"]) == ("unknown", None)
    assert committed_offsets(west, group) == {}


@pytest.mark.parametrize("offsets", ["preserve", "map"])
def test_failover_says_what_is_known_where_the_source_is_gone(
    offsets: str, new_kafka: NewKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    source, west, group = new_kafka(), destination_kafka.bootstrap_servers, new_group()
    make_topic(source.bootstrap_servers, topic_name, simple_records(30, timestamp=1_700_000_000_000), [])
    config = config_of(tmp_path, source.bootstrap_servers, west, topic_name, offsets=offsets)
    commit(source.bootstrap_servers, group, {TopicPartition(topic_name, 0): 12})
    assert mirrorlake("run", "-c", config, "--once").code == 0
    assert mirrorlake("groups", "sync", "-c", config, "--group", group, "--yes").code == 0
    source.kill()

    for words in (("failover", "plan"), ("failover", "run", "--yes")):
        ended, found = asked(config, *words)

        assert ended.code == 3, ended.out
        rows = of(found["copies"], "topic", "partition", "to", "source_end", "copied", "missing", "state")
        assert rows[0] == (topic_name, 0, topic_name, None, 30, None, "source-gone")
        assert rows[1][1:] == (1, topic_name, None, 0, None, "source-gone")
        newest = found["copies"][0]["newest"]
        assert newest == (None if offsets == "map" else "2023-11-14T22:13:20Z")
        assert "cannot be had" in str(found["remarks"])
        assert committed_offsets(west, group) != {}
    assert len(consume(west, topic_name, 0)) == 30

    to_end = found["copies"][0]["to_end"]
    append(west, topic_name, 0, simple_records(7, start=900))
    ended, found = asked(config, "failover", "plan")

    assert ended.code == 3, ended.out
    # With equal offsets the log's end is that of other producers now: a way back from there would miss their records.
    rows = of(found["copies"], "copied", "to_end", "state")
    assert rows[0] == ((None, None) if offsets == "preserve" else (30, to_end)) + ("source-gone",)
    assert rows[1][0] == 0
    assert ("other producers have written to 1 of its copies" in str(found["remarks"])) is (offsets == "preserve")


@pytest.mark.parametrize("has_another", [True, False])
def test_a_topic_that_an_expression_does_not_find_any_more_is_said_to_be_gone(
    has_another: bool, source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    config = config_of(tmp_path, east, west, topic_name)
    nothing, found = asked(config, "failover", "run", "--yes", "--no-groups")
    assert (nothing.code, [row["state"] for row in found["copies"]]) == (1, ["unknown"])
    assert "selects no topic" in str(found["copies"][0]["error"])

    make_topic(east, f"{topic_name}-a", simple_records(30))
    if has_another:
        make_topic(east, f"{topic_name}-b", simple_records(20))
    assert asked(config, "failover", "run", "--yes", "--no-groups")[0].code == 0
    append(east, f"{topic_name}-a", 0, simple_records(5, start=700))
    delete_topic(east, f"{topic_name}-a")

    for words in (("failover", "plan"), ("failover", "run", "--yes")):
        ended, found = asked(config, *words, "--no-groups")

        assert ended.code == 3, ended.out
        rows = {row["topic"]: (row["copied"], row["missing"], row["state"]) for row in found["copies"]}
        gone = {f"{topic_name}-a": (30, None, "source-gone")}
        assert rows == gone | ({f"{topic_name}-b": (20, 0, "complete")} if has_another else {})
    assert len(consume(west, f"{topic_name}-a", 0)) == 30


def test_a_service_that_serves_the_mirror_is_named_and_ended_only_where_that_is_asked_for(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    make_topic(east, topic_name, simple_records(30))
    commit(east, new_group(), {TopicPartition(topic_name, 0): 12})
    config = config_of(tmp_path, east, west, topic_name)
    with ServiceProcess("run", "-c", str(config), folder=tmp_path, without_spark=True) as service:
        service.await_words("caught up")

        _, plan = asked(config, "failover", "plan")
        assert "is served by" in str(plan["remarks"])
        refused = mirrorlake("failover", "run", "-c", config, "--yes")
        assert refused.code == 4, refused.err
        taken, _ = asked(config, "failover", "run", "--yes", "--take-over")

        assert taken.code == 0, taken.err
        assert service.exit_code() == 4, service.said()
    assert_equal_in_kafka(east, west, topic_name)


def test_a_failover_that_is_killed_ends_as_one_that_was_not(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    make_topic(east, topic_name, simple_records(3000), simple_records(3000))
    config = config_of(tmp_path, east, west, topic_name)
    commit(east, new_group(), {TopicPartition(topic_name, 0): 12})
    words = ("failover", "run", "-c", str(config), "--yes")
    with ServiceProcess(*words, folder=tmp_path, without_spark=True) as process:
        process.await_words("mirror taken over")
        process.kill()

    ended, _ = asked(config, "failover", "run", "--yes", "--take-over", "--level", "records")

    assert ended.code == 0, ended.err
    assert assert_equal_in_kafka(east, west, topic_name, partitions=2) == 6000


def test_failback_copies_what_came_since_and_proves_both_sides_equal_and_the_mirror_goes_on(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west, group = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, new_group()
    make_topic(east, topic_name, simple_records(30), simple_records(20))
    config = config_of(tmp_path, east, west, topic_name)
    commit(east, group, {TopicPartition(topic_name, 0): 12})
    assert asked(config, "failover", "run", "--yes")[0].code == 0
    append(west, topic_name, 0, simple_records(7, start=900))
    commit(west, group, {TopicPartition(topic_name, 0): 33})

    planned, plan = asked(config, "failback", "plan")

    assert planned.code == 0, planned.err + planned.out
    assert of(plan["partitions"], "partition", "source_end", "old_end", "to_copy", "divergence", "state") == [
        (0, 37, 30, 7, None, "to-copy"),
        (1, 20, 20, 0, None, "equal"),
    ]
    assert source_end(east, topic_name, 0) == 30

    for _ in range(2):
        done, report = asked(config, "failback", "run", "--yes")

        assert done.code == 0, done.err + done.out
        assert {row["result"] for row in report["verified"]} == {"equal"}
        assert of(report["partitions"], "to_copy", "state") == [(0, "equal"), (0, "equal")]
        assert committed_offsets(east, group) == {TopicPartition(topic_name, 0): 33}
    assert assert_equal_in_kafka(west, east, topic_name, partitions=2) == 57

    append(east, topic_name, 1, simple_records(3, start=950))
    forth = mirrorlake("run", "-c", config, "--once")
    assert forth.code == 0, forth.err
    assert assert_equal_in_kafka(east, west, topic_name, partitions=2) == 60


async def _append_idempotently(servers: str, topic: str, partition: int, count: int) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True)
    await producer.start()
    try:
        for number in range(count):
            await producer.send_and_wait(topic, b"value %d" % number, b"key", partition)
    finally:
        await producer.stop()


def append_by_producers(servers: str, topic: str, count: int) -> None:
    """To partition 0 idempotently, as Java's producer does by default; to partition 1 in a transaction."""
    asyncio.run(_append_idempotently(servers, topic, 0, count))
    append_in_transaction(servers, topic, simple_records(count, start=4000), partition=1)


def test_there_and_back_and_there_again_whoever_wrote_to_either_side_while_it_was_the_source(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    make_topic(east, topic_name, simple_records(3), simple_records(3), simple_records(3))
    config = config_of(tmp_path, east, west, topic_name)
    records = 9
    for count in (5, 7):
        append_by_producers(east, topic_name, count)
        assert asked(config, "failover", "run", "--yes", "--no-groups")[0].code == 0
        append_by_producers(west, topic_name, count)
        records += 4 * count
        planned, plan = asked(config, "failback", "plan")
        assert planned.code == 0, planned.out
        assert of(plan["partitions"], "state") == [("to-copy",), ("to-copy",), ("equal",)]
        for _ in range(2):
            done, report = asked(config, "failback", "run", "--yes", "--no-groups")
            assert done.code == 0, done.err + done.out
            assert {row["result"] for row in report["verified"]} == {"equal"}
        assert assert_equal_in_kafka(west, east, topic_name, partitions=3) == records

    append(east, topic_name, 2, simple_records(2, start=950))
    forth = mirrorlake("run", "-c", config, "--once")
    assert forth.code == 0, forth.err
    assert assert_equal_in_kafka(east, west, topic_name, partitions=3) == records + 2

    # One that goes on writing to the copy is told by what it writes.
    asyncio.run(_append_idempotently(west, topic_name, 0, 1))
    append(east, topic_name, 0, simple_records(2, start=960))
    assert mirrorlake("run", "-c", config, "--once").code == 3
    assert len(consume(west, topic_name, 0)) == len(consume(east, topic_name, 0)) - 1


@pytest.mark.parametrize("gained", [0, 7])
def test_failback_names_the_records_that_were_never_copied_and_leaves_them_alone(
    gained: int, source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    make_topic(east, topic_name, simple_records(30), simple_records(20))
    config = config_of(tmp_path, east, west, topic_name)
    assert asked(config, "failover", "run", "--yes", "--no-groups")[0].code == 0
    append(east, topic_name, 0, simple_records(5, start=700))  # written there when nobody copied any more
    if gained:
        append(west, topic_name, 0, simple_records(gained, start=900))
    append(west, topic_name, 1, simple_records(4, start=990))

    for words in (("failback", "plan"), ("failback", "run", "--yes", "--no-groups")):
        ended, found = asked(config, *words)

        assert ended.code == 3, ended.err + ended.out
        first, second = found["partitions"]
        assert (first["state"], first["divergence"], first["unreplicated"]) == ("undecided", 30, 5)
        assert "5 offset(s)" in str(first["decide"])
        assert f"delete topic {topic_name}" in str(first["decide"])
        assert second["state"] == ("to-copy" if words[1] == "plan" else "equal")
    assert source_end(east, topic_name, 0) == 35
    assert source_end(east, topic_name, 1) == 24, "the other partition went back"

    delete_topic(east, topic_name)
    done, _ = asked(config, "failback", "run", "--yes", "--no-groups")
    assert done.code == 0, done.err + done.out
    assert assert_equal_in_kafka(west, east, topic_name, partitions=2) == 54 + gained

    append(east, topic_name, 0, simple_records(2, start=970))
    forth = mirrorlake("run", "-c", config, "--once")
    assert forth.code == 0, forth.err
    assert assert_equal_in_kafka(east, west, topic_name, partitions=2) == 56 + gained


def test_failback_is_refused_while_the_mirror_itself_is_served_or_its_process_died(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    make_topic(east, topic_name, simple_records(30))
    config = config_of(tmp_path, east, west, topic_name)
    with ServiceProcess("run", "-c", str(config), folder=tmp_path, without_spark=True) as service:
        service.await_words("caught up")

        service.kill()
    append(west, topic_name, 0, simple_records(4, start=900))

    for _ in range(2):
        ended, found = asked(config, "failback", "run", "--yes")

        assert ended.code == 1, ended.out
        assert [row["state"] for row in found["partitions"]] == ["refused"]
        assert "lets go of the mirror" in str(found["partitions"][0]["error"])
    assert source_end(east, topic_name) == 30

    # It finds the copy ahead of its source, copies nothing, and ends gracefully.
    assert mirrorlake("run", "-c", config, "--once", "--take-over").code == 3
    done, _ = asked(config, "failback", "run", "--yes")
    assert done.code == 0, done.err + done.out
    assert assert_equal_in_kafka(west, east, topic_name) == 34


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"offsets": "map"}, "gives records other offsets"),
        ({"to": "copy.{topic}"}, "renames topics"),
    ],
)
def test_a_mirror_that_cannot_be_turned_round_by_itself_says_what_to_write(
    settings: dict[str, str], reason: str, tmp_path: Path
) -> None:
    config = config_of(tmp_path, "127.0.0.1:1", "127.0.0.1:2", "t", **settings)

    ended = mirrorlake("failback", "plan", "-c", config)

    assert (ended.code, ended.out) == (1, "")
    assert reason in ended.err
    assert "write a mirror in the other direction" in ended.err


def test_a_mapped_copy_goes_back_by_a_mirror_that_begins_at_its_end_and_nothing_is_missed_or_doubled(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west, name = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, f"m-{topic_name}"
    make_topic(east, topic_name, simple_records(30))
    make_topic(west, topic_name, simple_records(4, start=100))  # offsets differ from the first record on
    clusters = f"""clusters:
  east: {{bootstrap-servers: "{east}"}}
  west: {{bootstrap-servers: "{west}"}}
mirrors:
"""
    there = write_yaml(
        tmp_path / "there.yaml",
        f"""{clusters}  - name: {name}
    source: {{cluster: east, topics: [{topic_name}]}}
    destinations: [{{type: kafka, cluster: west, offsets: map}}]
""",
    )
    done, report = asked(there, "failover", "run", "--yes", "--no-groups")
    assert done.code == 0, done.err
    (row,) = report["copies"]
    to_end = row["to_end"]
    assert isinstance(to_end, int)
    assert to_end >= 34, "it is an offset of the copy, not of the source"
    append(west, topic_name, 0, simple_records(7, start=900))
    (row,) = asked(there, "failover", "plan", "--no-groups")[1]["copies"]
    assert (row["to_end"], row["to_partition"]) == (to_end, 0), "whoever writes behind it"

    back = write_yaml(
        tmp_path / "back.yaml",
        f"""{clusters}  - name: {name}-back
    source: {{cluster: west, topics: [{topic_name}], start: {{offsets: {{{topic_name}: {{0: {to_end}}}}}}}}}
    destinations: [{{type: kafka, cluster: east, offsets: map}}]
""",
    )
    for _ in range(2):
        back_ended = mirrorlake("run", "-c", back, "--once")
        assert back_ended.code == 0, back_ended.err

    came_back = [record.value for record in consume(east, topic_name, 0).values()]
    assert came_back == [each.value for each in (*simple_records(30), *simple_records(7, start=900))]

    exported = mirrorlake("offsets", "export", "-c", there)
    (line,) = exported.out.splitlines()
    moved = tmp_path / "moved.csv"
    moved.write_text(f"{line.rpartition(',')[0]},{source_end(east, topic_name)}\n")
    imported = mirrorlake("offsets", "import", "-c", there, "--file", str(moved), "--yes")
    assert imported.code == 0, imported.err
    append(east, topic_name, 0, simple_records(3, start=950))
    forth = mirrorlake("run", "-c", there, "--once")
    assert forth.code == 0, forth.err
    assert [record.value for record in consume(west, topic_name, 0).values()][4:] == [
        each.value for each in (*simple_records(30), *simple_records(7, start=900), *simple_records(3, start=950))
    ]


def by_producers_and_plainly(servers: str, topic: str, count: int) -> None:
    """To partition 0 idempotently, to 1 in a transaction, to 2 by a producer without an id."""
    append_by_producers(servers, topic, count)
    append(servers, topic, 2, simple_records(count, start=5000))


def test_a_copy_that_producers_write_to_after_a_failover_is_not_called_parked_and_nothing_says_to_delete_it(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    make_topic(east, topic_name, simple_records(3), simple_records(3), simple_records(3), simple_records(3))
    config = config_of(tmp_path, east, west, topic_name)
    assert asked(config, "failover", "run", "--yes", "--no-groups")[0].code == 0
    by_producers_and_plainly(west, topic_name, 5)

    for words in (("failover", "plan"), ("failover", "run", "--yes")):
        ended, found = asked(config, *words, "--no-groups")

        assert ended.code == 3, ended.out + ended.err
        assert of(found["copies"], "partition", "source_end", "copied", "to_end", "missing", "state") == [
            *((partition, 3, None, None, None, "written-to") for partition in range(3)),
            (3, 3, 3, 3, 0, "complete"),
        ]
        assert "delete" not in ended.out
        (remark,) = found["remarks"]
        assert "other producers have written to 3 of its copies since" in str(remark)
        assert "mirrorlake failback plan" in str(remark)
    table = mirrorlake("failover", "plan", "-c", config, "--no-groups")
    assert "other producers have written to 3 of its copies since" in table.out
    assert "delete" not in table.out + table.err
    assert asked(config, "failback", "run", "--yes", "--no-groups")[0].code == 0
    assert asked(config, "failover", "plan", "--no-groups")[0].code == 0


def test_failback_refuses_a_topic_that_was_made_anew_and_copied_to_another_one_and_takes_the_others(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    make_topic(east, f"{topic_name}-a", simple_records(30))
    make_topic(east, f"{topic_name}-b", simple_records(20))
    config = config_of(tmp_path, east, west, topic_name)
    config.write_text(config.read_text() + "    on-recreate: new-topic\n")
    assert mirrorlake("run", "-c", config, "--once").code == 0
    delete_topic(east, f"{topic_name}-a")
    make_topic(east, f"{topic_name}-a", simple_records(10, start=300))
    assert asked(config, "failover", "run", "--yes", "--no-groups")[0].code == 0
    assert len(consume(west, f"{topic_name}-a.2", 0)) == 10
    append(west, f"{topic_name}-a.2", 0, simple_records(5, start=700))
    append(west, f"{topic_name}-b", 0, simple_records(5, start=700))

    for words in (("failback", "plan"), ("failback", "run", "--yes", "--no-groups")):
        ended, found = asked(config, *words)

        assert ended.code == 1, ended.out + ended.err
        rows = {str(row["topic"]).removeprefix(topic_name): row for row in found["partitions"]}
        to_copy = 5 if words[1] == "plan" else 0
        assert {name: (row["state"], row["to_copy"]) for name, row in rows.items()} == {
            "-a": ("refused", None),
            "-a.2": ("refused", None),
            "-b": ("to-copy" if to_copy else "equal", to_copy),
        }
        assert f"has copied it to {topic_name}-a, {topic_name}-a.2" in str(rows["-a"]["error"])
        assert "delete topic" not in ended.out
    assert source_end(east, f"{topic_name}-a") == 10
    assert assert_equal_in_kafka(west, east, f"{topic_name}-b") == 25
    assert f"{topic_name}-a.2" not in topics_of(east)
