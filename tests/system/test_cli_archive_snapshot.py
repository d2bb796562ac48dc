"""`archive snapshot` as users run it: planned, made, shown, checked, read by others, and restored to Kafka."""

from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.archives import FIRST_TIME_MS, mark_archive, write_archive, write_segment
from support.command import Ended, write_yaml
from support.command import without_spark as mirrorlake
from support.compaction import keyed_records
from support.copies import assert_same_records
from support.records import Record, consume
from support.taken_snapshots import latest_below
from support.topics import make_topic

ROW = [
    *("name", "partition", "store", "mirror", "start", "end", "bytes"),
    *("snapshot", "records", "output_bytes", "result", "reason"),
]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    root = tmp_path / "lake"
    root.mkdir()
    write_archive(root, "orders", 0, 10, 30, 35, 40, 50)
    write_archive(root, "orders", 1, 5)
    return root


def configuration(lake: Path, topics: str = "orders") -> Path:
    """Nobody listens at these brokers: nothing but the store may be asked."""
    return write_yaml(
        lake.parent / "mirror.yaml",
        f"""
clusters: {{east: {{bootstrap-servers: "127.0.0.1:1"}}}}
stores:
  lake: {{type: filesystem, root: {lake}}}
  other: {{type: filesystem, root: {lake.parent / "other"}}}
mirrors:
  - name: trade
    source: {{cluster: east, topics: ["{topics}"]}}
    destinations: [{{type: archive, store: lake, merge: {{steps: [{{min-age: 0s, max-bytes: 1MiB}}], min-files: 2}}}}]
""",
    )


def snapshot(config: Path, *arguments: str) -> Ended:
    return mirrorlake("archive", "snapshot", "-c", config, *arguments, "--format", "json")


def offsets(folder: Path) -> list[int]:
    return [offset for file in sorted(folder.glob("*.parquet")) for offset in pq.read_table(file)["offset"].to_pylist()]


@pytest.mark.parametrize("topics", ["orders", "/.*/"])
def test_it_is_planned_made_and_then_there_is_nothing_to_do(lake: Path, topics: str) -> None:
    config = configuration(lake, topics)
    planned = snapshot(config, "--dry-run")
    assert planned.code == 0, planned.err
    assert [list(row) for row in planned.rows()] == [ROW, ROW]
    assert [(row["start"], row["end"], row["result"]) for row in planned.rows()] == [
        (0, 50, "planned"),
        (0, 5, "planned"),
    ]
    assert not (lake / "orders.snapshot").exists()
    made = snapshot(config)
    assert (made.code, [row["result"] for row in made.rows()]) == (0, ["made", "made"]), made.err
    # Five keys, one record a second; of those none at offsets that end in 7.
    assert offsets(lake / "orders.snapshot" / "0") == [45, 46, 42, 48, 49]
    again = snapshot(config)
    assert (again.code, [row["result"] for row in again.rows()]) == (0, ["nothing", "nothing"])
    assert again.rows()[0]["reason"] == "the snapshot up to offset 50 is there"


@pytest.mark.parametrize("topics", ["orders", "/.*/"])
def test_it_is_listed_checked_and_left_alone_like_any_archive_of_snapshots(lake: Path, topics: str) -> None:
    config = configuration(lake, topics)
    assert snapshot(config, "--partition", "0").code == 0
    listed = mirrorlake("archive", "ls", "-c", config, "--topic", "orders.snapshot", "--format", "json")
    assert listed.code == 0, listed.err
    assert [(row["position"], row["records"]) for row in listed.rows()] == [(50, 5)]
    for where in (("-c", config), ("--root", lake)):
        checked = mirrorlake("archive", "check", *where, "--level", "checksums", "--format", "json")
        assert checked.code == 0, checked.out
        assert {row["name"] for row in checked.rows()} == {"orders", "orders.snapshot"}
    merged = mirrorlake("archive", "merge", "-c", config, "--topic", "orders.snapshot", "--format", "json")
    assert [row["result"] for row in merged.rows()] == ["nothing"]
    query = f"select count(*), count(distinct key) from '{lake}/orders.snapshot/*/*.parquet'"
    assert duckdb.connect().execute(query).fetchall() == [(5, 5)]
    (lake / "orders.snapshot" / "0").rename(lake.parent / "gone")
    lost = mirrorlake("archive", "check", "-c", config, "--format", "json")
    assert lost.code == 1, "what was made and is gone is missed"


def test_a_snapshot_whose_run_died_before_it_recorded_it_is_a_snapshot_to_every_command(lake: Path) -> None:
    config = configuration(lake)
    assert snapshot(config).code == 0
    folder = lake / "orders.snapshot"
    write_segment(lake, "orders", 0, 50, 60)
    assert snapshot(config, "--topic", "orders").code == 0
    (folder / "_topic.json").unlink()
    for record in folder.glob("_topic*"):
        record.unlink()
    files = sorted(folder.rglob("*.parquet"))
    for level in ("names", "checksums"):
        checked = mirrorlake("archive", "check", "-c", config, "--level", level, "--topic", "orders.snapshot")
        assert checked.code == 0, checked.out
    merged = mirrorlake("archive", "merge", "-c", config, "--topic", "orders.snapshot", "--format", "json")
    assert {row["reason"] for row in merged.rows()} == {"it holds snapshots, and each of them is whole"}
    assert sorted(folder.rglob("*.parquet")) == files


def test_the_next_run_records_what_one_that_died_has_made_so_that_its_loss_is_told(lake: Path) -> None:
    config = configuration(lake)
    assert snapshot(config, "--topic", "orders").code == 0
    folder = lake / "orders.snapshot"
    for record in folder.glob("_topic*"):
        record.unlink()
    again = snapshot(config, "--topic", "orders", "--format", "json")
    assert {row["result"] for row in again.rows()} == {"nothing"}
    assert list(folder.glob("_topic*"))
    for file in folder.rglob("*.parquet"):
        file.unlink()
    assert mirrorlake("archive", "check", "-c", config, "--topic", "orders.snapshot").code == 1


def test_an_end_another_store_and_kept_tombstones_are_taken_from_the_command_line(lake: Path) -> None:
    config = configuration(lake)
    (lake.parent / "other").mkdir()
    until = f"2023-11-14T22:13:{20 + 12}Z"
    made = snapshot(config, "--partition", "0", "--to", "other:views-of-{topic}", "--until", until, "--keep-tombstones")
    assert made.code == 0, made.err
    (row,) = made.rows()
    assert (row["end"], row["snapshot"]) == (13, str(lake.parent / "other" / "views-of-orders" / "0"))
    assert FIRST_TIME_MS == 1_700_000_000_000
    assert offsets(lake.parent / "other" / "views-of-orders" / "0") == [10, 11, 12, 8, 9]
    below = snapshot(config, "--partition", "0", "--until-offset", "6", "--to", "other:")
    assert [(row["end"], row["records"]) for row in below.rows()] == [(6, 5)]
    assert (lake.parent / "other" / "orders.snapshot" / "0").is_dir()


def test_what_cannot_be_is_refused_with_its_option(lake: Path) -> None:
    config = configuration(lake)
    nowhere = snapshot(config, "--to", "lak:x", "--until", "yesterday")
    assert nowhere.code == 1
    assert "there is no store `lak` (did you mean `lake`?)" in nowhere.err
    assert "--until" in nowhere.err
    assert snapshot(config, "--until-offset", "0").code == 2
    itself = snapshot(config, "--to", "lake:{topic}")
    assert itself.code == 1
    assert "among the records it is made of" in itself.rows()[0]["error"]
    write_segment(lake, "orders", 1, 10, 20)
    hole = snapshot(config)
    assert (hole.code, [row["result"] for row in hole.rows()]) == (1, ["made", "failed"])
    assert "[5, 10)" in hole.rows()[1]["error"]


def test_no_folder_of_records_is_taken_for_snapshots_although_a_partition_of_it_is_empty(lake: Path) -> None:
    write_archive(lake, "payments", 0, 10)
    mark_archive(lake, {"payments": {0: 10}})
    before = sorted(lake.rglob("*"))
    refused = snapshot(configuration(lake), "--to", "lake:payments")
    assert (refused.code, [row["result"] for row in refused.rows()]) == (1, ["failed", "failed"])
    assert "is an archive of every record, of topic payments" in refused.rows()[1]["error"]
    assert sorted(lake.rglob("*")) == before, "its record would say that it holds snapshots of orders"


def test_snapshots_of_several_topics_do_not_go_to_one_folder(lake: Path) -> None:
    write_archive(lake, "payments", 2, 10)
    config = configuration(lake, "/.*/")
    refused = snapshot(config, "--to", "lake:views")
    assert (refused.code, {row["result"] for row in refused.rows()}) == (1, {"failed"})
    assert "snapshots of orders, payments would go to one folder, views" in refused.rows()[0]["error"]
    assert not (lake / "views").exists()
    assert snapshot(config, "--to", "lake:views", "--topic", "payments").code == 0


@pytest.mark.kafka
@pytest.mark.parametrize("form", ["parquet", "log"])
def test_it_is_restored_like_any_archive_and_proved(
    form: str, source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    tombstones = [Record(1_700_000_100_000, b"key-1", None), Record(1_700_000_100_001, b"", b"", (("h", None),))]
    make_topic(source, topic_name, [*keyed_records(60, 7), *tombstones, *keyed_records(5, 3)], keyed_records(20, 4))
    (tmp_path / "lake").mkdir()
    config = write_yaml(
        tmp_path / "mirror.yaml",
        f"""
clusters: {{east: {{bootstrap-servers: "{source}"}}, west: {{bootstrap-servers: "{destination}"}}}}
stores: {{lake: {{type: filesystem, root: {tmp_path / "lake"}}}}}
mirrors:
  - name: {topic_name}
    source: {{cluster: east, topics: [{topic_name}]}}
    destinations: [{{type: archive, store: lake, format: {form}, flush: {{max-records: 25}}}}]
engine: {{lanes: 2, lease: 2s, memory: 512MiB}}
""",
    )
    assert mirrorlake("run", "--once", "-c", config).code == 0
    made = snapshot(config)
    assert made.code == 0, made.out
    given = ("--store", "lake", "--topics", f"{topic_name}.snapshot", "--to", "west", "--rename", topic_name)
    name = f"back-{topic_name}"
    restored = mirrorlake("restore", "-c", config, "--yes", "--format", "json", "--name", name, *given)
    assert restored.code == 0, restored.err + restored.out
    for partition in (0, 1):
        expected = dict(latest_below(consume(source, topic_name, partition)))
        assert_same_records(expected, consume(destination, topic_name, partition))
