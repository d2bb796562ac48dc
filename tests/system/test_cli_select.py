"""`validate`, `plan`, `run`, `verify`, `archive merge` and `restore` of mirrors with `select`, as processes."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.offsets import TopicPartition
from support.changed_copies import BOTH, changed_copies
from support.command import Ended
from support.command import without_spark as mirrorlake
from support.copies import archived_records, assert_same_records, create_topic
from support.map_copies import held_through_map
from support.records import Record, consume
from support.topics import append

ID = "get_json_object(CAST(value AS STRING), '$.id')"
KEY, AT = f"coalesce({ID}, CAST(key AS STRING))", "CAST(offset AS STRING)"
SELECT = f"""{{key: "{KEY}", headers: {{at: "{AT}"}}, drop-headers: [trace]}}"""
OTHER = f"""{{key: "{ID}"}}"""
STRICT = f"""{{key: "coalesce({ID}, raise_error('no id'))"}}"""


def record(number: int, *, broken: bool = False) -> Record:
    value = json.dumps({"n": number, "id": f"c{number % 10}"}).encode()
    headers = (("trace", b"t"), ("by", b"x"), ("by", None))
    return Record(1_700_000_000_000 + number, b"%d" % number, value[:-3] if broken else value, headers)


def expected_of(records: dict[int, Record]) -> dict[int, Record]:
    made = {}
    for offset, each in records.items():
        try:
            key = json.loads(each.value or b"")["id"].encode()
        except ValueError:
            key = each.key
        made[offset] = replace(each, key=key, headers=(*each.headers[1:], ("at", b"%d" % offset)))
    return made


def configuration(folder: Path, east: str, west: str, topic: str, *, select: str, destinations: str = BOTH) -> Path:
    return changed_copies(folder, east, west, topic, change=f"select: {select}", destinations=destinations)


@dataclass(frozen=True)
class Said:
    """What every command said, of a topic with 100 records, some of them broken JSON; then of other configurations."""

    topic: str
    lake: Path
    validate: Ended
    runs: tuple[Ended, ...]
    verifications: tuple[Ended, ...]
    merge: Ended
    other: Ended
    restore: Ended


@pytest.fixture(scope="module")
def said(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory
) -> Said:
    folder = tmp_path_factory.mktemp("selected")
    (folder / "lake").mkdir()
    east, west, topic = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, f"orders-{folder.name}"
    create_topic(east, topic)
    append(east, topic, 0, [record(n, broken=n % 7 == 0) for n in range(70)])
    config = configuration(folder, east, west, topic, select=SELECT)
    as_json = ("-c", config, "--format", "json")
    validate = mirrorlake("validate", "-c", config)
    first, verified = mirrorlake("run", "--once", "-c", config), mirrorlake("verify", *as_json)
    merge = mirrorlake("archive", "merge", "-c", config)
    append(east, topic, 0, [record(n) for n in range(200, 230)])
    second, verified_merged = mirrorlake("run", "--once", "-c", config), mirrorlake("verify", *as_json)
    (folder / "other").mkdir()
    other = configuration(folder / "other", east, west, topic, select=OTHER)
    other.write_text(other.read_text().replace(f"{folder}/other/lake", f"{folder}/lake"))
    named = ("--name", f"restore-{topic}", "--rename", "restored-{topic}")
    where_to = ("--store", "lake", "--to", "west", "--topics", topic, *named, "--yes")
    return Said(
        topic=topic,
        lake=folder / "lake",
        validate=validate,
        runs=(first, second),
        verifications=(verified, verified_merged),
        merge=merge,
        other=mirrorlake("verify", "-c", other, "--format", "json"),
        restore=mirrorlake("restore", "-c", config, *where_to),
    )


def test_both_kinds_of_copies_hold_what_select_makes(
    said: Said, source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka
) -> None:
    assert said.validate.code == 0, said.validate.out + said.validate.err
    assert [run.code for run in said.runs] == [0, 0], "".join(run.err for run in said.runs)
    expected = expected_of(consume(source_kafka.bootstrap_servers, said.topic, 0))
    assert len(expected) == 100
    assert_same_records(expected, archived_records(said.lake, said.topic))
    where = TopicPartition(said.topic, 0)
    assert_same_records(expected, held_through_map(destination_kafka.bootstrap_servers, where, shards=2))
    assert len(consume(destination_kafka.bootstrap_servers, said.topic, 0)) == 100


def test_verify_compares_with_what_select_makes_and_finds_that_another_one_makes_other_records(said: Said) -> None:
    assert said.merge.code == 0, said.merge.err
    for found, records in zip(said.verifications, (70, 100), strict=True):
        assert found.code == 0, found.out + found.err
        assert {(row["result"], row["records"]) for row in json.loads(found.out)} == {("equal", records)}
    assert said.other.code != 0
    assert {(row["result"], row["first_difference"]) for row in json.loads(said.other.out)} == {("differs", 0)}


def test_plan_warns_of_keys_that_a_cleaner_does_not_know(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path: Path, topic_name: str
) -> None:
    (tmp_path / "lake").mkdir()
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(east, topic_name, cleanup_policy="compact")
    append(east, topic_name, 0, [record(0)])
    for select, is_warned in ((OTHER, True), ('{key: "substring(key, 1, 2)"}', False)):
        plan = mirrorlake("plan", "-c", configuration(tmp_path, east, west, topic_name, select=select))
        assert plan.code == 0, plan.err
        assert ("`select` makes keys of more than the key" in plan.out + plan.err) is is_warned


def test_a_restore_brings_the_records_as_they_were_made(
    said: Said, source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka
) -> None:
    assert said.restore.code == 0, said.restore.out + said.restore.err
    restored = consume(destination_kafka.bootstrap_servers, f"restored-{said.topic}", 0)
    assert_same_records(expected_of(consume(source_kafka.bootstrap_servers, said.topic, 0)), restored)


@pytest.mark.slow
def test_a_record_without_a_value_is_named_and_the_copy_goes_on_when_it_has_one(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path: Path, topic_name: str
) -> None:
    (tmp_path / "lake").mkdir()
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(east, topic_name)
    append(east, topic_name, 0, [record(n, broken=n == 5) for n in range(8)])
    stopped = mirrorlake("run", "--once", "-c", configuration(tmp_path, east, west, topic_name, select=STRICT))
    assert stopped.code != 0
    told = stopped.out + stopped.err
    assert f"`select` has no key for the record at offset 5 of source {topic_name}-0: no id" in told
    assert "select-failed" in told
    assert len(consume(west, topic_name, 0)) == 5

    config = configuration(tmp_path, east, west, topic_name, select=OTHER)
    goes_on, verified = mirrorlake("run", "--once", "-c", config), mirrorlake("verify", "-c", config)
    assert (goes_on.code, verified.code) == (0, 0), goes_on.err + verified.out + verified.err
    assert len(consume(west, topic_name, 0)) == 8


@pytest.mark.slow
def test_a_copy_that_skipped_a_record_without_a_value_is_verified_and_that_one_is_missing(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path: Path, topic_name: str
) -> None:
    (tmp_path / "lake").mkdir()
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(east, topic_name)
    append(east, topic_name, 0, [record(n, broken=n == 5) for n in range(8)])
    alone = "[{type: kafka, cluster: west, offsets: map}]"
    config = configuration(tmp_path, east, west, topic_name, select=STRICT, destinations=alone)
    assert mirrorlake("run", "--once", "-c", config).code != 0
    positions = tmp_path / "positions.csv"
    positions.write_text(f"{topic_name},{topic_name},0,6\n")
    moved = mirrorlake("offsets", "import", "-c", config, "--file", positions, "--yes")
    goes_on = mirrorlake("run", "--once", "-c", config)
    assert (moved.code, goes_on.code) == (0, 0), moved.err + goes_on.err

    rows = mirrorlake("verify", "-c", config, "--format", "json").rows()

    said = [(row["result"], row["first_difference"], row["difference"]) for row in rows]
    assert said == [("differs", 5, "missing")]
    assert len(consume(west, topic_name, 0)) == 7


@pytest.mark.parametrize(
    ("select", "destinations", "message"),
    [
        ('{value: "lower(value)"}', BOTH, "there is no function `lower` in an expression"),
        ("{key: NULL}", BOTH, 'write "NULL" in quotes for a null'),
        (OTHER, "[{type: kafka, cluster: west}]", "with `offsets: preserve` west has the source's"),
        (OTHER, "[{type: archive, store: lake, compaction: log}]", "cannot be had with `compaction: log`"),
    ],
)
def test_validate_refuses_what_cannot_be_selected_and_says_where(
    tmp_path: Path, select: str, destinations: str, message: str
) -> None:
    (tmp_path / "lake").mkdir()
    config = configuration(tmp_path, "localhost:1", "localhost:2", "orders", select=select, destinations=destinations)
    found = mirrorlake("validate", "-c", config)
    assert found.code != 0
    assert message in found.out + found.err
    assert "mirror.yaml:" in found.out + found.err
