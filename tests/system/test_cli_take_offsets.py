"""`config import --take-offsets`: copies of MirrorMaker 2 and of Mirus go on as ours, at real brokers."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirrorlake.config.loading import load_configuration
from mirrorlake.embedded.guarded_process import GuardedProcess
from mirrorlake.embedded.jars import mirror_maker_libs
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.command import Ended
from support.command import without_spark as mirrorlake
from support.copies import create_topic, log_end, wait_until
from support.load import Load
from support.mirror_maker import STOP_SECONDS_MAX, MirrorMaker
from support.records import Record, consume, simple_records
from support.topics import append, make_topic

PARTITIONS = 2


@pytest.fixture
def ending() -> Iterator[list[GuardedProcess]]:
    """Takes processes that are killed after the test."""
    started: list[GuardedProcess] = []
    yield started
    for process in started:
        process.kill()


def values(servers: str, topic: str, partition: int) -> Counter[Record]:
    return Counter(consume(servers, topic, partition).values())


def starts(file: Path, topic: str) -> dict[int, int]:
    (mirror,) = load_configuration(file, {}).mirrors
    return dict(mirror.source.start.offsets.get(topic, {}))


EXACT = "west.exactly.once.source.support = enabled\nwest.producer.transaction.timeout.ms = 10000\n"
"""A transaction of a process that was killed is open for so long, instead of the producer's own minute."""


@pytest.mark.slow
@pytest.mark.parametrize("settings", ["", EXACT], ids=["plain", "exact"])
def test_a_copy_of_mirror_maker_goes_on_without_loss_or_repetition(
    settings: str,
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    tmp_path: Path,
    topic_name: str,
    ending: list[GuardedProcess],
) -> None:
    """Under load it is stopped as it wishes to be, started again, and killed in mid-flight."""
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    alias, topic = f"east{topic_name[-8:]}", f"orders-{topic_name[-8:]}"
    copy, made = f"{alias}.{topic}", tmp_path / "mirror.yaml"
    maker = MirrorMaker(
        tmp_path,
        mirror_maker_libs(),
        source=alias,
        servers=(east, west),
        topics=topic,
        settings=f"west.offset.flush.interval.ms = 3000\n{settings}",
    )

    def take() -> Ended:
        verb = ("config", "import", "--from", "mm2", maker.file, "--take-offsets", "-o", made, "--force")
        return mirrorlake(*verb)

    def taken() -> bool:
        """A process that was killed stays a member, and its transactions open, for a while."""
        ended = take()
        if ended.code:
            assert "has members" in ended.err or "a transaction is open" in ended.err, ended.err
            assert not made.exists()
        return not ended.code

    create_topic(east, topic, PARTITIONS)
    with Load(east, topic, partitions=PARTITIONS):
        ending.append(process := maker.start())
        wait_until(lambda: all(log_end(west, copy, each) > 500 for each in range(PARTITIONS)), copy, log=maker.log)
        refused = take()
        assert refused.code == 1
        assert f"MirrorMaker 2 runs: its group {alias}-mm2 at cluster west has members" in refused.err
        process.stop(timeout_seconds=STOP_SECONDS_MAX)
        ends = [log_end(west, copy, each) for each in range(PARTITIONS)]

        ending.append(process := maker.start())
        wait_until(
            lambda: all(log_end(west, copy, each) > ends[each] + 1500 for each in range(PARTITIONS)),
            f"more of {copy}",
            log=maker.log,
        )
        process.kill()
    before = [values(west, copy, each) for each in range(PARTITIONS)]

    wait_until(taken, "the end of its session")

    # What it had copied and not stored: by the offset alone it would be there twice.
    assert made.read_text().count(" is stored, and the copy reaches ") == (0 if settings else PARTITIONS)
    found = starts(made, topic)
    for partition in range(PARTITIONS):
        held = consume(east, topic, partition)
        copied = {offset for offset, record in held.items() if record in before[partition]}
        assert found[partition] == max(copied) + 1
    assert mirrorlake("run", "--once", "-c", made).code == 0
    for partition in range(PARTITIONS):
        source = values(east, topic, partition)
        assert set(source.values()) == {1}
        assert values(west, copy, partition) - before[partition] == source - before[partition]
        assert values(west, copy, partition) == source | before[partition]


def mirus(folder: Path, servers: tuple[str, str], topic: str, **settings: str) -> Path:
    """Writes the JSON of a connector called as its topic."""
    config = {
        "name": topic,
        "connector.class": "com.salesforce.mirus.MirusSourceConnector",
        "topics.whitelist": topic,
        "consumer.bootstrap.servers": servers[0],
        "destination.consumer.bootstrap.servers": servers[1],
        "destination.topic.name.suffix": ".copy",
        "enable.partition.matching": "true",
    }
    (file := folder / "mirus.json").write_text(json.dumps(config | settings))
    return file


def store(servers: str, offsets_topic: str, connector: str, *stored: tuple[str, int, str | None]) -> None:
    """Writes what Connect would: topic, partition and value, as its converter does without schemas."""
    records = [
        Record(
            1_700_000_000_000,
            json.dumps([connector, {"partition": partition, "topic": topic}], separators=(",", ":")).encode(),
            None if value is None else value.encode(),
        )
        for topic, partition, value in stored
    ]
    append(servers, offsets_topic, 0, records)


@pytest.mark.slow
def test_a_copy_of_mirus_continues_behind_what_it_stored_and_what_it_had_copied_beyond(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path: Path, topic_name: str
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    topic, offsets_topic, made = topic_name, f"offsets-{topic_name[-8:]}", tmp_path / "mirror.yaml"
    file = mirus(tmp_path, (east, west), topic)
    records = [simple_records(count, start=1000 * each) for each, count in enumerate((40, 30, 20, 10))]
    make_topic(east, topic, *records)
    make_topic(west, f"{topic}.copy", records[0][:15], records[1][:30], records[2][:6], [])
    create_topic(west, offsets_topic, 1, cleanup_policy="compact")
    store(
        west,
        offsets_topic,
        topic,
        *((topic, 0, '{"offset":4}'), (topic, 0, '{"offset":10}'), (topic, 1, '{"offset":30}')),
        *((topic, 2, '{"offset":6}'), (topic, 3, '{"offset":5}'), (topic, 3, None), ("another", 0, '{"offset":5}')),
    )
    store(west, offsets_topic, "other", (topic, 0, '{"offset":1}'))
    verb = ("config", "import", "--from", "mirus", file, "-o", made, "--take-offsets")

    refused = mirrorlake(*verb)
    assert (refused.code, made.exists()) == (1, False)
    assert "error: the file does not say in which topic the positions are stored\n" in refused.err
    ended = mirrorlake(*verb, "--offsets-topic", offsets_topic)

    assert ended.code == 0, ended.err
    assert starts(made, topic) == {0: 15, 1: 30, 2: 6}
    text = made.read_text()
    assert f"#   {topic}, {topic}-0: offset 10 is stored, and the copy reaches 15, which is taken\n" in text
    assert f"{topic}-3: nothing is stored of it and nothing was copied: it begins at the start of its log\n" in text
    assert f"{topic}, another-0: Mirus has copied it, and this mirror does not\n" in text
    assert mirrorlake("run", "--once", "-c", made).code == 0
    for partition, expected in enumerate(records):
        assert list(consume(west, f"{topic}.copy", partition).values()) == expected


def test_what_cannot_be_told_of_a_copy_is_named_and_must_be_mended(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path: Path, topic_name: str
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    topic, offsets_topic = topic_name, f"offsets-{topic_name[-8:]}"
    file = mirus(tmp_path, (east, west), topic, **{"offset.storage.topic": offsets_topic})
    twins = [*simple_records(5), *simple_records(1, start=7), *simple_records(1, start=7), *simple_records(3, start=8)]
    others = simple_records(3, start=500)
    make_topic(east, topic, simple_records(10), simple_records(10), simple_records(10), twins)
    make_topic(west, f"{topic}.copy", others, simple_records(10), others, [*twins[:5], twins[5], twins[5]])
    create_topic(west, offsets_topic, 1, cleanup_policy="compact")
    store(
        west, offsets_topic, topic, (topic, 1, '{"offset":11}'), (topic, 2, '{"offset":8}'), (topic, 3, '{"offset":5}')
    )

    ended = mirrorlake("config", "import", "--from", "mirus", file, "--take-offsets")

    assert ended.code == 1
    assert f"to be mended: {topic}: {topic}-0: nothing is stored of it, and {topic}.copy-0 holds records" in ended.err
    assert f"{topic}-1: offset 11 is stored and the source ends at 10: is it the same topic?" in ended.err
    assert f"{topic}-2: none of the 8 records before offset 8 is in {topic}.copy-2 as it was" in ended.out
    assert f"{topic}-3: offset 5 is stored, and the copy reaches 6, which is taken\n" in ended.out
    assert "records of [6, 7) may be there already and be copied once more: equal records cannot be" in ended.out


@pytest.mark.slow
def test_a_process_that_still_writes_is_noticed(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path: Path, topic_name: str
) -> None:
    """Nothing names its workers here; its records tell."""
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    offsets_topic = f"offsets-{topic_name[-8:]}"
    file = mirus(tmp_path, (east, west), topic_name, **{"offset.storage.topic": offsets_topic})
    make_topic(east, topic_name, simple_records(10))
    create_topic(west, f"{topic_name}.copy", 1)
    create_topic(west, offsets_topic, 1, cleanup_policy="compact")

    with Load(west, f"{topic_name}.copy"):
        wait_until(lambda: log_end(west, f"{topic_name}.copy"), "a first record")
        store(west, offsets_topic, topic_name, (topic_name, 0, '{"offset":4}'))
        ended = mirrorlake("config", "import", "--from", "mirus", file, "--take-offsets")

    assert (ended.code, ended.out) == (1, "")
    assert f"{topic_name}.copy-0 grew while it was looked at: Mirus runs, or somebody else writes there" in ended.err


def test_without_the_clusters_nothing_is_taken(tmp_path: Path) -> None:
    (file := tmp_path / "mm2.properties").write_text(
        "clusters = east, west\neast.bootstrap.servers = localhost:1\nwest.bootstrap.servers = ${env:ABSENT_WEST}\n"
        "east->west.enabled = true\n"
    )

    unset = mirrorlake("config", "import", "--from", "mm2", file, "--take-offsets")
    alone = mirrorlake("config", "import", "--from", "mm2", file, "--offsets-topic", "x")

    assert (unset.code, unset.out) == (1, "")
    assert "ABSENT_WEST" in unset.err
    assert "--take-offsets reads the clusters, so the configuration must be whole" in unset.err
    assert alone.code == 2
