"""Copies of a compacted topic that were away while its cleaner took a key and the tombstone that had deleted it."""

import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.admin import alter_topic
from support.command import Ended, write_yaml
from support.command import without_spark as mirrorlake
from support.compaction import create_compacted
from support.copies import wait_until
from support.records import Record, consume
from support.topics import append, delete_topic

pytestmark = pytest.mark.kafka

MAY = "deletions may be missing"


def put(servers: str, topic: str, *pairs: tuple[bytes, bytes | None]) -> None:
    append(servers, topic, 0, [Record(int(time.time() * 1000), key, value) for key, value in pairs])


def keys_of(servers: str, topic: str) -> set[bytes | None]:
    return {record.key for record in consume(servers, topic, 0).values()}


def configuration(folder: Path, east: str, west: str, topic: str, *, prefix: str = "") -> Path:
    source = f"source: {{cluster: east, topics: [{topic}]}}"
    return write_yaml(
        folder / f"{prefix}mirror.yaml",
        f"clusters: {{east: {{bootstrap-servers: '{east}'}}, west: {{bootstrap-servers: '{west}'}}}}\n"
        f"mirrors:\n  - name: {prefix}same\n    {source}\n"
        f"    destinations: [{{type: kafka, cluster: west, topic: '{prefix}{{topic}}'}}]\n"
        f"  - name: {prefix}mapped\n    {source}\n"
        f"    destinations: [{{type: kafka, cluster: west, topic: '{prefix}mapped-{{topic}}', offsets: map}}]\n",
    )


def run_once(config: Path) -> Ended:
    done = mirrorlake("run", "--once", "-c", config)
    assert done.code == 0, done.err
    return done


def churn_until_gone(servers: str, topic: str, key: bytes) -> None:
    """Writes another key until the cleaner has left nothing of this one, its tombstone included."""

    def is_gone() -> bool:
        put(servers, topic, (b"bob", b"%d" % time.time_ns()))
        return key not in keys_of(servers, topic)

    wait_until(is_gone, f"the cleaner to take {key!r} from {topic}", log=lambda: str(consume(servers, topic, 0)))


@dataclass(frozen=True)
class Away:
    """What was said of two copies that were away for too long: ``same`` and ``mapped``."""

    first: Ended
    plan: Ended
    second: Ended
    third: Ended
    verified: Ended
    table: Ended
    config: Path
    topic: str


@pytest.fixture(scope="module")
def away(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory
) -> Away:
    folder = tmp_path_factory.mktemp("away")
    east, west, topic = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, folder.name
    create_compacted(east, topic, delete_retention_ms="1000")
    put(east, topic, (b"alice", b"personal"), (b"bob", b"1"), (b"carol", b"1"))
    config = configuration(folder, east, west, topic)
    first = run_once(config)
    put(east, topic, (b"alice", None))
    churn_until_gone(east, topic, b"alice")
    plan = mirrorlake("plan", "-c", config, "--format", "json")
    second, third = run_once(config), run_once(config)
    verified = mirrorlake("verify", "-c", config, "--format", "json")
    return Away(first, plan, second, third, verified, mirrorlake("verify", "-c", config), config, topic)


def told_of(done: Ended) -> list[str]:
    return [line for line in done.err.splitlines() if MAY in line]


@pytest.mark.slow
def test_a_copy_that_was_away_too_long_warns_that_it_may_have_missed_deletions(away: Away) -> None:
    assert told_of(away.first) == [], "a fresh copy has nothing to delete"
    warned = told_of(away.second)
    for mirror in ("same", "mapped"):
        (line,) = [each for each in warned if f"mirror={mirror}" in each or f'"mirror": "{mirror}"' in each]
        assert away.topic in line
    assert told_of(away.third) == [], "nothing was read on"


@pytest.mark.slow
def test_the_plan_says_that_a_copy_that_is_behind_may_be_too_late(away: Away) -> None:
    for mirror, topic in (("same", away.topic), ("mapped", f"mapped-{away.topic}")):
        warnings = away.plan.row(mirror)["warnings"]
        (late,) = [each for each in warnings if "may forget tombstones" in each]
        assert late.startswith(f"west/{topic}: the source is compacted and may forget tombstones after 1 s ")
        assert late.endswith("a key that was deleted since then may stay in the copy")


@pytest.mark.slow
def test_verify_names_the_cause_of_a_key_that_stayed_and_what_to_do(away: Away) -> None:
    anew = {"same": f"delete destination topic {away.topic}", "mapped": "copy by a mirror of another name"}
    for mirror, remedy in anew.items():
        row = away.verified.row(mirror)
        assert (row["result"], row["first_difference"], row["difference"]) == ("differs", 0, "extra")
        assert "the copy may have missed the tombstone" in row["cause"]
        assert "delete.retention.ms of the source (1s)" in row["cause"]
        assert remedy in row["cause"]
        assert f"warning {mirror} {away.topic}-0 → west: the source has no such record" in away.table.out
    assert away.verified.code == 1


@pytest.mark.slow
def test_what_verify_says_to_do_makes_the_copies_equal(
    away: Away, source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    put(east, away.topic, (b"alice", None))
    run_once(away.config)
    assert results(away.config) == {"same": "equal", "mapped": "equal"}
    # Or anew: where offsets are equal the topic is deleted, where they are mapped another mirror copies it.
    churn_until_gone(east, away.topic, b"alice")
    delete_topic(west, away.topic)
    away.config.write_text(
        away.config.read_text().replace("name: mapped", "name: again").replace("'mapped-{topic}'", "'again-{topic}'")
    )
    run_once(away.config)
    assert results(away.config) == {"same": "equal", "again": "equal"}
    assert {*keys_of(west, away.topic), *keys_of(west, f"again-{away.topic}")} == {b"bob", b"carol"}


def results(config: Path) -> dict[str, str]:
    return {row["name"]: row["result"] for row in mirrorlake("verify", "-c", config, "--format", "json").rows()}


def with_alice_and_bob(folder: Path, east: str, west: str, topic: str) -> Path:
    """Returns the configuration of a compacted topic that keeps its tombstones for a day."""
    create_compacted(east, topic, delete_retention_ms="86400000")
    put(east, topic, (b"alice", b"personal"), (b"bob", b"1"))
    return configuration(folder, east, west, topic)


@pytest.mark.slow
def test_a_copy_that_was_not_away_says_nothing_of_what_the_cleaner_took(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    east, west, topic = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, tmp_path.name
    config = with_alice_and_bob(tmp_path, east, west, topic)
    assert told_of(run_once(config)) == []
    put(east, topic, (b"alice", None), (b"bob", b"2"), (b"bob", b"3"))
    churn_until_value_is_gone(east, topic)
    assert told_of(run_once(config)) == []
    for row in mirrorlake("verify", "-c", config, "--format", "json").rows():
        assert row["result"] == "equal", row
    fresh = configuration(tmp_path, east, west, topic, prefix="fresh-")
    assert told_of(run_once(fresh)) == [], "it begins with a tombstone whose record is gone, and has nothing to delete"
    assert results(fresh) == {"fresh-same": "equal", "fresh-mapped": "equal"}


def churn_until_value_is_gone(servers: str, topic: str) -> None:
    """Writes until a record past the copy's end is gone, and alice's tombstone still there."""

    def is_gone() -> bool:
        put(servers, topic, (b"bob", b"%d" % time.time_ns()))
        held = consume(servers, topic, 0)
        return not {0, 1, 3, 4} & held.keys() and 2 in held

    wait_until(is_gone, f"the cleaner to work in {topic}", log=lambda: str(consume(servers, topic, 0)))


@pytest.mark.slow
def test_copies_of_a_topic_that_is_not_compacted_any_more_are_copied_on(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    east, west, topic = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, tmp_path.name
    config = with_alice_and_bob(tmp_path, east, west, topic)
    (tmp_path / "lake").mkdir()
    config.write_text(
        config.read_text().replace(
            "mirrors:", f"stores: {{lake: {{type: filesystem, root: {tmp_path}/lake}}}}\nmirrors:"
        )
        + f"  - {{name: archived, source: {{cluster: east, topics: [{topic}]}}, "
        "destinations: [{type: archive, store: lake}]}\n"
    )
    run_once(config)
    put(east, topic, (b"alice", None), (b"bob", b"2"), (b"bob", b"3"))
    churn_until_value_is_gone(east, topic)
    alter_topic(east, topic, cleanup_policy="delete", retention_ms="-1")

    for _ in range(2):
        run_once(config)
        put(east, topic, (b"carol", b"new"))

    for name in (topic, f"mapped-{topic}"):
        assert [record.value for record in consume(west, name, 0).values()].count(b"new") == 1
