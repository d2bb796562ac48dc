"""`plan`, `run`, `status` and `verify` of mirrors whose offsets are mapped, as processes."""

import asyncio
from dataclasses import dataclass, replace

import pytest

from mirrorlake.destinations.map.offset_map import MappedRun, OpenPage, add_runs
from mirrorlake.destinations.map.progress import ProgressKey, encode_progress, encode_progress_key
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.offsets import TopicPartition
from mirrorlake.topics.targets import shard_of
from support.command import Ended, write_yaml
from support.command import without_spark as mirrorlake
from support.copies import create_topic, source_end
from support.map_copies import held_through_map, progress_of
from support.records import Record, build_batch, consume, produce, simple_records
from support.topics import append, make_topic, topics_of
from support.transactions import append_in_transaction

FOREIGN = Record(1, b"somebody", b"else's")
PARTITIONS = 3
LANES = 2
"""As many shards the mirrors get."""


@dataclass(frozen=True)
class Said:
    """What every command said, before and after."""

    plan: Ended
    status_before: Ended
    made_by_looking: set[str]
    first: Ended
    second: Ended
    status: Ended
    plan_after: Ended
    verify: Ended
    shifted: Ended
    orders: str
    late: str
    target: str


@pytest.fixture(scope="module")
def said(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory
) -> Said:
    folder = tmp_path_factory.mktemp("mapped")
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    orders, late, target = (f"{name}-{folder.name}" for name in ("orders", "late", "all"))
    make_topic(east, orders, *(simple_records(40 + n, start=1000 * n) for n in range(PARTITIONS)))
    append_in_transaction(east, orders, simple_records(5, start=9000), partition=1, committed=False)
    make_topic(east, late, simple_records(20))
    # Fewer partitions than the source, and somebody else writes there too.
    create_topic(west, target, 2)
    append(west, target, 0, [FOREIGN])
    config = write_yaml(folder / "mirror.yaml", configuration(east, west, orders, late, target))
    as_json = ("-c", config, "--format", "json")
    before = topics_of(west)
    plan, status_before = mirrorlake("plan", *as_json), mirrorlake("status", *as_json)
    made = topics_of(west) - before
    first = mirrorlake("run", "--once", "-c", config)
    append(east, orders, 2, simple_records(30, start=5000))
    append(east, late, 0, simple_records(10, start=20))
    append(west, target, 0, [FOREIGN])
    second = mirrorlake("run", "--once", "-c", config)
    status, plan_after, verify = (mirrorlake(verb, *as_json) for verb in ("status", "plan", "verify"))
    shift_map(west, late, orders, target)
    return Said(
        plan=plan,
        status_before=status_before,
        made_by_looking=made,
        first=first,
        second=second,
        status=status,
        plan_after=plan_after,
        verify=verify,
        shifted=mirrorlake("verify", *as_json),
        orders=orders,
        late=late,
        target=target,
    )


def configuration(east: str, west: str, orders: str, late: str, target: str) -> str:
    return f"""clusters:
  east: {{bootstrap-servers: "{east}"}}
  west: {{bootstrap-servers: "{west}"}}
mirrors:
  - name: {orders}
    source: {{cluster: east, topics: [{orders}]}}
    destinations: [{{type: kafka, cluster: west, topic: {target}, offsets: map}}]
  - name: {late}
    source: {{cluster: east, topics: [{late}], start: latest}}
    destinations: [{{type: kafka, cluster: west, topic: {target}, offsets: map}}]
engine: {{lanes: {LANES}, lease: 2s, memory: 512MiB}}
"""


def shift_map(west: str, mirror: str, orders: str, target: str) -> None:
    """Has the map of one partition say one offset more than is true, as no transaction of ours would."""
    source = TopicPartition(orders, 2)
    progress = progress_of(west, source, topic=target, mirror=orders, shards=LANES)
    assert progress is not None
    runs = [MappedRun(start_offset=0, length=40, destination_offset=2)]
    _, page = add_runs(OpenPage.at(0), runs)
    key = ProgressKey(destination_topic=target, source=source)
    record = Record(1, encode_progress_key(key), encode_progress(replace(progress, page=page)))
    batch = build_batch([record])
    asyncio.run(produce(west, f"mirrorlake.progress.{orders}", shard_of(source, LANES), [batch]))


def test_a_plan_says_where_everything_goes_and_changes_nothing(said: Said) -> None:
    assert said.plan.code == 0
    rows = [said.plan.row(said.orders, n) for n in range(PARTITIONS)]
    assert [(row["action"], row["start"], row["end"]) for row in rows] == [
        ("copy", 0, 40),
        ("copy", 0, 47),
        ("copy", 0, 42),
    ]
    assert [row["note"] for row in rows] == [None, None, f"into partition 0 of {said.target}"]
    assert said.plan.row(said.late)["action"] == "nothing to do"
    assert said.plan.row(said.late)["start"] == 20, "it would begin at the end"
    assert said.made_by_looking == set()


def test_status_before_the_first_run_shows_where_each_partition_would_begin(said: Said) -> None:
    assert [said.status_before.row(said.orders, n)["dest_next"] for n in range(PARTITIONS)] == [0, 0, 0]
    assert said.status_before.row(said.late)["dest_next"] == 20


def test_a_bounded_run_copies_everything_once_beside_other_writers(
    said: Said, source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka
) -> None:
    assert (said.first.code, said.first.out) == (0, ""), said.first.err
    assert (said.second.code, said.second.out) == (0, ""), said.second.err
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    held = {0: consume(west, said.target, 0), 1: consume(west, said.target, 1)}
    expected = [r for n in range(PARTITIONS) for r in consume(east, said.orders, n).values()]
    expected += [r for o, r in consume(east, said.late, 0).items() if o >= 20]
    found = [record for records in held.values() for record in records.values()]
    assert found.count(FOREIGN) == 2
    ours = [record for record in found if record != FOREIGN]
    assert sorted(ours, key=repr) == sorted(expected, key=repr)
    for number in (0, 1):
        source = TopicPartition(said.orders, number)
        through_map = held_through_map(
            west, source, topic=said.target, partition=number % 2, mirror=said.orders, shards=LANES
        )
        assert through_map == consume(east, said.orders, number)


def test_status_and_plan_afterwards_say_that_nothing_is_left(said: Said, source_kafka: EmbeddedKafka) -> None:
    for name, partition in [*((said.orders, n) for n in range(PARTITIONS)), (said.late, 0)]:
        row = said.status.row(name, partition)
        end = source_end(source_kafka.bootstrap_servers, name, partition)
        assert (row["dest_next"], row["lag"], row["state"]) == (end, 0, "caught-up")
        assert said.plan_after.row(name, partition)["action"] == "nothing to do"


def test_verify_compares_through_the_offset_map_from_where_the_copy_began(said: Said) -> None:
    assert said.verify.code == 0, said.verify.out + said.verify.err
    rows = [said.verify.row(said.orders, n) for n in range(PARTITIONS)]
    assert [(row["result"], row["records"], row["start"], row["end"]) for row in rows] == [
        ("equal", 40, 0, 40),
        ("equal", 41, 0, 47),
        ("equal", 72, 0, 72),
    ]
    late = said.verify.row(said.late)
    assert (late["result"], late["records"], late["start"], late["end"]) == ("equal", 10, 20, 30)


def test_verify_finds_a_map_that_is_not_exact(said: Said) -> None:
    assert said.shifted.code != 0
    row = said.shifted.row(said.orders, 2)
    assert (row["result"], row["first_difference"]) == ("differs", 0)
    assert said.shifted.row(said.orders, 1)["result"] == "equal"
