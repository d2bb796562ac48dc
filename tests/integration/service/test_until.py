"""A mirror of a cluster that ends: by time inside a batch, by offsets, in every mode, and again after a kill."""

from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.command import without_spark, write_yaml
from support.copies import archive_position, archived_records, assert_same_records, log_end, source_end, wait_until
from support.records import Record, consume, simple_records
from support.running_service import RunningService
from support.topics import append, delete_before, make_topic
from support.transactions import append_in_transaction

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

UNTIL_MS = 1_700_000_100_000
UNTIL = "2023-11-14T22:15:00.000Z"
"""The same, in words."""

END = 41
"""The offset of the first record that is later."""

DESTINATIONS = {
    "preserve": '{type: kafka, cluster: west, topic: "p.{topic}"}',
    "map": '{type: kafka, cluster: west, topic: "m.{topic}", offsets: map}',
    "parquet": '{type: archive, store: lake, name: "parquet.{topic}", flush: {max-time: 1s}}',
    "ndjson": '{type: archive, store: lake, name: "ndjson.{topic}", format: ndjson, flush: {max-time: 1s}}',
    "log": '{type: archive, store: lake, name: "log.{topic}", format: log, flush: {max-time: 1s}}',
    "snapshots": '{type: archive, store: lake, name: "view.{topic}", compaction: log, flush: {max-time: 1s}}',
}


def at(times: list[int], *, start: int) -> list[Record]:
    """Records with numbers in keys and values, and these times from the end on."""
    made = simple_records(len(times), start=start)
    return [
        Record(UNTIL_MS + time_ms, record.key, record.value, record.headers)
        for time_ms, record in zip(times, made, strict=True)
    ]


def written(servers: str, topic: str) -> None:
    """Offsets 0…29 are in time, 30 is a marker of now, 31…35 late and aborted, 36 a marker, 37…40 in time; 41 is late.

    Behind it lie five that are late, in the same batch as those before, and five that are in time again.
    """
    make_topic(servers, topic, at([-1000] * 25, start=0))
    append_in_transaction(servers, topic, at([-500] * 5, start=25))
    append_in_transaction(servers, topic, at([7] * 5, start=31), committed=False)
    append(servers, topic, 0, at([-1, 0, 0, 0, 1, 2, 3, -5, 4, 5], start=37))
    append(servers, topic, 0, at([-9] * 5, start=47))
    assert source_end(servers, topic) == 52


def config(path: Path, east: str, west: str, topic: str, ends: str, *modes: str) -> Path:
    lake = path.parent / "lake"
    lake.mkdir(exist_ok=True)
    mirrors = [
        f"  - {{name: {mode}-{topic}, source: {{cluster: east, topics: [{topic}], {ends}}}, "
        f"destinations: [{DESTINATIONS[mode]}]}}"
        for mode in modes or DESTINATIONS
    ]
    return write_yaml(
        path,
        f'clusters: {{east: {{bootstrap-servers: "{east}"}}, west: {{bootstrap-servers: "{west}"}}}}\n'
        f"stores: {{lake: {{type: filesystem, root: {lake}}}}}\nmirrors:\n" + "\n".join(mirrors) + "\n"
        "service: {metrics: off}\nengine: {lanes: 2, lease: 1s, memory: 512MiB, discovery: 1h}\n",
    )


def assert_whole(east: str, west: str, topic: str, lake: Path, end: int) -> None:
    """Every copy holds what a consumer of the source sees below an offset, and no more."""
    expected = consume(east, topic, 0, end=end)
    assert_same_records(expected, consume(west, f"p.{topic}", 0))
    assert log_end(west, f"p.{topic}") == end
    assert list(consume(west, f"m.{topic}", 0).values()) == list(expected.values())
    assert archive_position(lake, f"parquet.{topic}") == end
    assert_same_records(expected, archived_records(lake, f"parquet.{topic}"))


def test_every_kind_of_copy_ends_before_the_first_later_record_and_stays_there_after_a_restart(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west, topic = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, topic_name
    written(east, topic)
    file = config(tmp_path / "mirror.yaml", east, west, topic, f'until: "{UNTIL}"')
    for _ in range(2):
        with RunningService(file) as running:
            running.await_states("ended", partitions=len(DESTINATIONS))
            assert {row["dest_next"] for row in running.rows()} == {END}
            assert {row["lag"] for row in running.rows()} == {0}
        assert running.exit_code() == 0
        append(east, topic, 0, at([-9] * 5, start=52))
    assert_whole(east, west, topic, tmp_path / "lake", END)
    for archive in ("ndjson", "log"):
        (only,) = (tmp_path / "lake" / f"{archive}.{topic}" / "0").glob(f"*.{archive}")
        assert only.stem == f"{0:020}-{END - 1:020}"
    assert sorted(consume(west, f"p.{topic}", 0)) == [*range(30), *range(37, 41)]

    plan = without_spark("plan", "-c", file)
    assert (plan.code, plan.out.count(f"has ended, at offset {END}")) == (0, len(DESTINATIONS))
    verified = without_spark("verify", "-c", file)
    assert verified.code == 0, verified
    once = without_spark("run", "--once", "-c", file)
    assert once.code == 0, once
    assert_whole(east, west, topic, tmp_path / "lake", END)


def test_an_end_that_is_still_to_come_is_no_end_until_a_later_record_is_there(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west, topic = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, topic_name
    make_topic(east, topic, at([-1000] * 20, start=0))
    modes = ("preserve", "map", "parquet")
    file = config(tmp_path / "mirror.yaml", east, west, topic, f'until: "{UNTIL}"', *modes)
    with RunningService(file) as running:
        running.await_states("caught-up", partitions=3)
        plan = without_spark("plan", "-c", file)
        assert plan.out.count("no end yet: no record is later than `until`") == 3, plan
        append(east, topic, 0, at([0] * 10, start=20))
        append_in_transaction(east, topic, at([9] * 3, start=30), committed=False)  # with its marker, to offset 33
        wait_until(lambda: {row["dest_next"] for row in running.rows()} == {34}, "all that is in time")
        assert running.states() <= {"caught-up", "running"}
        append(east, topic, 0, at([-1] * 6 + [1] * 4, start=34))
        running.await_states("ended", partitions=3)
        assert {row["dest_next"] for row in running.rows()} == {40}
    assert_whole(east, west, topic, tmp_path / "lake", 40)


def test_a_copy_that_stands_past_its_end_has_ended_and_misses_nothing_that_is_deleted_there(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west, topic = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, topic_name
    make_topic(east, topic, at([-1000] * 40, start=0))
    modes = ("preserve", "map", "parquet")
    file = config(tmp_path / "mirror.yaml", east, west, topic, f"until-offsets: {{{topic}: {{0: 25}}}}", *modes)
    assert without_spark("run", "--once", "-c", file).code == 0
    assert_whole(east, west, topic, tmp_path / "lake", 25)

    append(east, topic, 0, at([-1000] * 10, start=40))
    delete_before(east, topic, 40)
    config(file, east, west, topic, f"until-offsets: {{{topic}: {{0: 7}}}}", *modes)
    for _ in range(2):
        with RunningService(file) as running:
            running.await_states("ended", partitions=3)
            assert {row["dest_next"] for row in running.rows()} == {25}
    status = without_spark("status", "-c", file, "--format", "json")
    assert (status.code, status.out.count('"ended"')) == (0, 3), status
