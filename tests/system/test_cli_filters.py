"""`validate`, `plan`, `run`, `verify`, `archive merge` and `restore` of mirrors with a filter, as processes."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.offsets import TopicPartition
from support.changed_copies import BOTH, changed_copies
from support.command import Ended
from support.command import without_spark as mirrorlake
from support.copies import archived_records, assert_same_records, create_topic, source_end
from support.map_copies import held_through_map
from support.records import Record, consume
from support.topics import append

WHERE = "get_json_object(CAST(value AS STRING), '$.type') = 'order'"


def record(number: int, kind: str, *, broken: bool = False) -> Record:
    value = json.dumps({"n": number, "type": kind}).encode()
    return Record(1_700_000_000_000 + number, b"%d" % number, value[:-3] if broken else value)


def configuration(folder: Path, east: str, west: str, topic: str, *, where: str, destinations: str) -> Path:
    change = f'filter: {{where: "{where}"}}'
    return changed_copies(folder, east, west, topic, change=change, destinations=destinations)


@dataclass(frozen=True)
class Said:
    """What every command said, of a topic with 120 records of which a third is wanted, and 30 more of which none is."""

    topic: str
    lake: Path
    plan: Ended
    first: Ended
    second: Ended
    verify: Ended
    merge: Ended
    verify_merged: Ended
    other: Ended
    restore: Ended


@pytest.fixture(scope="module")
def said(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory
) -> Said:
    folder = tmp_path_factory.mktemp("filtered")
    (folder / "lake").mkdir()
    east, west, topic = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, f"orders-{folder.name}"
    records = [record(n, "order" if n % 3 == 0 else "bill", broken=n % 7 == 0) for n in range(120)]
    create_topic(east, topic, cleanup_policy="compact")
    append(east, topic, 0, records)
    config = configuration(folder, east, west, topic, where=WHERE, destinations=BOTH)
    as_json = ("-c", config, "--format", "json")
    plan = mirrorlake("plan", "-c", config)
    first = mirrorlake("run", "--once", "-c", config)
    append(east, topic, 0, [record(n, "bill") for n in range(200, 230)])
    second = mirrorlake("run", "--once", "-c", config)
    verify = mirrorlake("verify", *as_json)
    merge = mirrorlake("archive", "merge", "-c", config)
    verify_merged = mirrorlake("verify", *as_json)
    (folder / "other").mkdir()
    other = configuration(folder / "other", east, west, topic, where="true", destinations=BOTH)
    other.write_text(other.read_text().replace(f"{folder}/other/lake", f"{folder}/lake"))
    named = ("--name", f"restore-{topic}", "--rename", "restored-{topic}")
    where_to = ("--store", "lake", "--to", "west", "--topics", topic, *named, "--yes")
    restore = mirrorlake("restore", "-c", config, *where_to)
    return Said(
        topic=topic,
        lake=folder / "lake",
        plan=plan,
        first=first,
        second=second,
        verify=verify,
        merge=merge,
        verify_merged=verify_merged,
        other=mirrorlake("verify", "-c", other, "--format", "json"),
        restore=restore,
    )


def wanted(kafka: EmbeddedKafka, topic: str) -> dict[int, Record]:
    found = consume(kafka.bootstrap_servers, topic, 0)
    return {o: r for o, r in found.items() if r.value is not None and r.value.endswith(b'"order"}')}


def test_both_kinds_of_copies_hold_what_the_filter_keeps(
    said: Said, source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka
) -> None:
    assert (said.first.code, said.second.code) == (0, 0), said.first.err + said.second.err
    expected = wanted(source_kafka, said.topic)
    assert len(expected) == 34
    assert_same_records(expected, archived_records(said.lake, said.topic))
    where = TopicPartition(said.topic, 0)
    rows = json.loads(said.verify.out)
    assert {(row["end"], row["lag"]) for row in rows} == {(source_end(source_kafka.bootstrap_servers, said.topic), 0)}
    assert_same_records(expected, held_through_map(destination_kafka.bootstrap_servers, where, shards=2))


def test_verify_compares_with_what_the_filter_keeps_and_finds_that_another_filter_keeps_more(said: Said) -> None:
    for found in (said.verify, said.verify_merged):
        assert found.code == 0, found.out + found.err
        assert {(row["result"], row["records"]) for row in json.loads(found.out)} == {("equal", 34)}
    assert said.merge.code == 0, said.merge.err
    assert said.other.code != 0
    assert {(row["result"], row["difference"], row["first_difference"]) for row in json.loads(said.other.out)} == {
        ("differs", "missing", 0)
    }


def test_plan_warns_of_tombstones_that_would_be_left_out(said: Said) -> None:
    assert "the filter leaves out tombstones" in said.plan.out + said.plan.err


def test_a_restore_brings_filtered_records_back_to_their_offsets(
    said: Said, source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka
) -> None:
    assert said.restore.code == 0, said.restore.out + said.restore.err
    restored = consume(destination_kafka.bootstrap_servers, f"restored-{said.topic}", 0)
    assert_same_records(wanted(source_kafka, said.topic), restored)


@pytest.mark.parametrize(
    ("where", "destinations", "message"),
    [
        ("lower(key) = 'a'", BOTH, "there is no function `lower` in an expression"),
        ("key = 'a'", "[{type: kafka, cluster: west}]", "keeps those of the source"),
        ("key = 'a'", "[{type: archive, store: lake, compaction: log}]", "cannot be had with `compaction: log`"),
    ],
)
def test_validate_refuses_what_cannot_be_filtered_and_says_where(
    tmp_path: Path, where: str, destinations: str, message: str
) -> None:
    (tmp_path / "lake").mkdir()
    config = configuration(tmp_path, "localhost:1", "localhost:2", "orders", where=where, destinations=destinations)
    found = mirrorlake("validate", "-c", config)
    assert found.code != 0
    assert message in found.out + found.err
    assert "mirror.yaml:" in found.out + found.err
