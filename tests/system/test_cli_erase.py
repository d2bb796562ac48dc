"""`archive erase` takes the records of keys out, says what has to wait, and plain readers see all others once."""

import base64
import json
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from contract.test_segment_names import snapshot
from mirrorlake.archive.topic_record import TopicRecord, record_topic
from mirrorlake.stores.filesystem import FilesystemStore
from support.archives import mark_archive, publish_segment, write_archive, write_segment
from support.command import Ended, write_yaml
from support.command import without_spark as mirrorlake
from support.golden import segment_name

ROW = [
    *("name", "partition", "store", "mirror", "inputs", "start", "end"),
    *("records", "bytes", "result", "reason", "until"),
]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    root = tmp_path / "lake"
    root.mkdir()
    write_archive(root, "orders", 0, 10, 30, 35, 40, 50)
    write_archive(root, "orders", 1, 5)
    return root


def configuration(lake: Path, *settings: str) -> Path:
    """Nobody listens at these brokers: nothing but the store may be asked."""
    more = "".join(f", {each}" for each in settings)
    return write_yaml(
        lake.parent / "mirror.yaml",
        f"""
clusters: {{east: {{bootstrap-servers: "127.0.0.1:1"}}}}
stores: {{lake: {{type: filesystem, root: {lake}}}}}
mirrors:
  - name: trade
    source: {{cluster: east, topics: [orders]}}
    destinations: [{{type: archive, store: lake{more}}}]
""",
    )


def erase(config: Path, *arguments: str) -> Ended:
    return mirrorlake("archive", "erase", "-c", config, "--topic", "orders", *arguments, "--format", "json")


def files(lake: Path, partition: int = 0) -> list[str]:
    return sorted(file.name for file in (lake / "orders" / str(partition)).iterdir())


def held(lake: Path) -> list[tuple[int, bytes]]:
    """Offset and key of every record, as a plain reader of the folder sees them."""
    query = f"select \"offset\", key from '{lake}/orders/0/*.parquet' order by 1"
    return [(offset, bytes(key)) for offset, key in duckdb.connect().execute(query).fetchall()]


def key_of(offset: int) -> bytes:
    return b"key %d" % (offset % 5)


OFFSETS = [offset for offset in range(50) if offset % 10 != 7]


def test_an_erasure_is_planned_done_and_what_is_newest_waits(lake: Path) -> None:
    config = configuration(lake)
    names = files(lake)
    planned = erase(config, "--key", "key 3", "--dry-run")
    assert planned.code == 0
    assert list(planned.rows()[0]) == ROW
    shown = [(row["partition"], row["start"], row["end"], row["records"], row["result"]) for row in planned.rows()]
    assert shown == [
        (0, 0, 30, 6, "planned"),
        (0, 30, 40, 2, "planned"),
        (0, 40, 50, 2, "waits"),
        (1, 0, 5, 1, "waits"),
    ]
    assert "newest segment" in str(planned.rows()[2]["reason"])
    assert files(lake) == names

    done = erase(config, "--key", "key 3")
    assert done.code == 3
    assert [row["result"] for row in done.rows()] == ["erased", "erased", "waits", "waits"]
    assert files(lake) == [segment_name(0, 29), segment_name(30, 39), segment_name(40, 49)]
    assert held(lake) == [(each, key_of(each)) for each in OFFSETS if each >= 40 or key_of(each) != b"key 3"]
    assert mirrorlake("archive", "check", "-c", config, "--level", "checksums").code == 0

    write_segment(lake, "orders", 0, 50, 60)
    write_segment(lake, "orders", 1, 5, 8)
    then = erase(config, "--key", "key 3")
    assert [(row["partition"], row["start"], row["result"]) for row in then.rows()] == [
        (0, 30, "erased"),
        (0, 50, "waits"),
        (1, 0, "waits"),
    ]
    assert "no neighbour but the newest" in str(then.rows()[2]["reason"])


def test_nothing_found_is_said(lake: Path) -> None:
    ended = erase(configuration(lake), "--key", "key 33", "--key", "")
    assert ended.code == 0
    assert [(row["result"], row["records"], row["reason"]) for row in ended.rows()] == [
        ("nothing", 0, "no record has any of the keys")
    ] * 2


def test_no_byte_of_the_values_is_left_anywhere_below_the_root(tmp_path: Path) -> None:
    """Of NDJSON, as it lies there in base64 and nothing is compressed: in no segment, description or audit object."""
    lake = tmp_path / "lake"
    lake.mkdir()
    for start, end in ((0, 10), (10, 20), (20, 30)):
        write_segment(lake, "orders", 0, start, end, extension="ndjson")

    def everything() -> bytes:
        return b"".join(file.read_bytes() for file in lake.rglob("*") if file.is_file())

    gone = [base64.b64encode(b"value %d" % offset) for offset in (3, 8, 13, 18)]
    kept = [base64.b64encode(b"value %d" % offset) for offset in range(30) if offset % 5 != 3 and offset % 10 != 7]
    assert all(value in everything() for value in gone)
    config = configuration(lake, "format: ndjson")
    hex_key = b"key 3".hex()
    assert erase(config, "--key", f"hex:{hex_key}").code == 3
    left = everything()
    assert not any(b'"' + value + b'"' in left for value in gone)
    assert all(b'"' + value + b'"' in left for value in kept)
    (audit,) = (lake / "orders" / "_erased" / "0").iterdir()
    assert json.loads(audit.read_text())["offsets"] == [[3, 4], [8, 9], [13, 14], [18, 19]]
    assert b"key 3" not in audit.read_bytes()
    assert mirrorlake("archive", "check", "-c", config, "--level", "checksums").code == 0


def test_keys_of_a_file_are_erased(lake: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_bytes(b"key 3\r\nbase64:" + base64.b64encode(b"key 1") + b"\ntext:key 0\n")
    assert erase(configuration(lake), "--keys-file", str(keys)).code == 3
    assert {key for offset, key in held(lake) if offset < 40} == {b"key 2", b"key 4"}


def test_what_a_merge_keeps_beside_its_output_is_named_with_its_time(lake: Path) -> None:
    config = configuration(lake, "merge: {steps: [{min-age: 0s, max-bytes: 64MiB}], min-bytes: 0, keep-inputs: 1d}")
    assert mirrorlake("archive", "merge", "-c", config, "--partition", "0").code == 0
    write_segment(lake, "orders", 0, 50, 60)
    rows = erase(config, "--key", "key 3", "--partition", "0").rows()
    assert [row["result"] for row in rows].count("erased") == 1
    waiting = [row for row in rows if row["result"] == "waits" and "keep-inputs" in str(row["reason"])]
    assert len(waiting) == 4
    assert all(str(row["until"]).endswith("Z") for row in waiting)


def test_what_is_held_stays(lake: Path) -> None:
    (lake / "orders" / "_hold-case-7").touch()
    ended = erase(configuration(lake), "--key", "key 3", "--partition", "0")
    assert ended.code == 3
    assert {row["result"] for row in ended.rows()} == {"waits"}
    assert sum("held by" in str(row["reason"]) for row in ended.rows()) == 4


SNAPSHOTS_OF_ORDERS = TopicRecord(
    cluster_id="cluster", topic="orders", topic_id="topic", partitions=1, format="parquet", holds_snapshots=True
)


def views(tmp_path: Path, *ranges: tuple[int, int]) -> tuple[Path, Path]:
    """A folder of snapshots of these ranges, half-open, and the configuration of its mirror."""
    folder = tmp_path / "lake" / "orders" / "0"
    folder.mkdir(parents=True)
    for start, end in ranges:
        (folder / segment_name(start, end - 1)).write_bytes(snapshot(start, end))
    return folder, configuration(tmp_path / "lake", "compaction: log")


def keys_in(file: Path) -> list[object]:
    return [row["key"] for row in rows_in(file)]


def test_keys_are_taken_out_of_the_newest_snapshot_and_of_older_ones(tmp_path: Path) -> None:
    folder, config = views(tmp_path, (0, 6), (6, 12))
    planned = erase(config, "--key", "k3", "--dry-run")
    assert [(row["start"], row["records"], row["result"]) for row in planned.rows()] == [
        (0, 1, "planned"),
        (6, 1, "planned"),
    ]
    assert len(list(folder.iterdir())) == 2
    ended = erase(config, "--key", "k3")
    assert [(row["start"], row["records"], row["result"]) for row in ended.rows()] == [
        (0, 1, "erased"),
        (6, 1, "erased"),
    ]
    assert ended.code == 0
    assert sorted(file.name for file in folder.iterdir()) == [segment_name(1, 5), segment_name(7, 11)]
    assert keys_in(folder / segment_name(7, 11)) == [b"k%d" % number for number in range(10) if number != 3]
    assert mirrorlake("archive", "check", "-c", config, "--level", "checksums").code == 0
    (listed,) = mirrorlake("archive", "ls", "-c", config, "--format", "json").rows()
    assert (listed["segments"], listed["position"], listed["covered"]) == (2, 12, 0)
    assert [row["start"] for row in erase(config, "--key", "k7").rows()] == [7]
    assert [row["result"] for row in erase(config, "--key", "k99").rows()] == ["nothing"]
    assert len(list((tmp_path / "lake" / "orders" / "_erased" / "0").iterdir())) == 3


def test_a_snapshot_of_one_offset_waits_where_it_is_the_newest_and_goes_where_it_is_not(tmp_path: Path) -> None:
    folder, config = views(tmp_path, (5, 6), (11, 12))
    ended = erase(config, "--key", "k3")
    assert ended.code == 3
    older, newest = ended.rows()
    assert (older["result"], newest["result"]) == ("erased", "waits")
    assert "newer snapshots are whole" in str(older["reason"])
    assert "once the next one is written" in str(newest["reason"])
    assert [file.name for file in folder.iterdir()] == [segment_name(11, 11)]


def test_what_a_killed_run_has_replaced_is_shown_and_deleted_by_the_next(tmp_path: Path) -> None:
    folder, config = views(tmp_path, (6, 12))
    (replaced,) = folder.iterdir()
    content = replaced.read_bytes()
    assert erase(config, "--key", "k3").code == 0
    replaced.write_bytes(content)
    (listed,) = mirrorlake("archive", "ls", "-c", config, "--format", "json").rows()
    assert (listed["segments"], listed["covered"]) == (1, 1)
    (waiting,) = erase(config, "--key", "k3", "--dry-run").rows()
    assert "put another snapshot in its place" in str(waiting["reason"])
    assert [row["result"] for row in erase(config, "--key", "k3").rows()] == ["nothing"]
    assert [file.name for file in folder.iterdir()] == [segment_name(7, 11)]


def test_a_claim_of_the_next_snapshot_is_named_with_when_it_is_over(tmp_path: Path) -> None:
    folder, config = views(tmp_path, (6, 12))
    claim = folder / f"_claim-{12:020}"
    claim.write_bytes(b"")
    for _ in range(2):  # what was erased is in question as long as the claim is there
        ended = erase(config, "--key", "k3")
        assert ended.code == 3
        (row,) = ended.rows()
        assert "a writer has claimed the next snapshot" in str(row["reason"])
        assert str(row["until"]).endswith("Z")
    claim.unlink()
    assert [row["result"] for row in erase(config, "--key", "k3").rows()] == ["nothing"]


def test_a_folder_of_snapshots_beside_the_records_is_warned_of_and_erased_from_by_its_name(lake: Path) -> None:
    folder = lake / "orders.snapshot" / "0"
    folder.mkdir(parents=True)
    (folder / segment_name(0, 9)).write_bytes(snapshot(0, 10))
    record_topic(FilesystemStore(lake), "orders.snapshot", SNAPSHOTS_OF_ORDERS, now_seconds=0.0)
    config = configuration(lake)
    assert "--topic orders.snapshot" in erase(config, "--key", "no such key").err
    rows = erase(config, "--topic", "orders.snapshot", "--key", "k3").rows()
    assert [row["result"] for row in rows if row["name"] == "orders.snapshot"] == ["erased"]
    assert [file.name for file in folder.iterdir()] == [segment_name(1, 9)]


def test_a_damaged_segment_fails_and_nothing_of_it_is_erased(lake: Path) -> None:
    damaged = lake / "orders" / "0" / segment_name(10, 29)
    damaged.write_bytes(damaged.read_bytes()[:-100])
    ended = erase(configuration(lake), "--key", "key 3")
    assert ended.code == 1
    assert any(segment_name(10, 29) in str(row.get("error")) for row in ended.rows())
    assert segment_name(0, 9) in files(lake)


def test_a_segment_that_was_cut_between_two_records_is_not_called_free_of_the_keys(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    root.mkdir()
    for start, end in ((0, 10), (10, 20), (20, 30), (30, 40)):
        publish_segment(FilesystemStore(root), "orders", 0, start, end, extension="ndjson")
    cut = root / "orders" / "0" / segment_name(10, 19).replace(".parquet", ".ndjson")
    cut.write_bytes(b"")
    ended = erase(configuration(root, "format: ndjson"), "--key", "key 3")
    assert ended.code == 1
    assert any("has 0 bytes with checksum" in str(row.get("error")) for row in ended.rows()), ended.rows()


@pytest.mark.parametrize("extension", ["parquet", "ndjson"])
def test_a_key_with_another_byte_does_not_hide_its_record(tmp_path: Path, extension: str) -> None:
    root = tmp_path / "lake"
    root.mkdir()
    for start, end in ((0, 10), (10, 20), (20, 30), (30, 40)):
        publish_segment(FilesystemStore(root), "orders", 0, start, end, extension=extension, compression="uncompressed")
    file = root / "orders" / "0" / segment_name(10, 19).replace(".parquet", f".{extension}")
    key = b"key 3" if extension == "parquet" else base64.b64encode(b"key 3")
    data = file.read_bytes()
    assert data.count(key) >= 1
    file.write_bytes(data.replace(key, key[:-1] + (b"9" if extension == "parquet" else b"k")))
    ended = erase(configuration(root, f"format: {extension}"), "--key", "key 3")
    assert ended.code == 1
    assert [row["result"] for row in ended.rows()] == ["failed"]
    assert file.name in str(ended.rows()[0]["error"])


def test_a_partition_of_which_segments_are_missing_is_not_called_free_of_the_keys(lake: Path) -> None:
    config = configuration(lake)
    mark_archive(lake, {"orders": {0: 50, 1: 5}})
    assert erase(config, "--key", "nobody").code == 0
    (lake / "orders" / "0" / segment_name(40, 49)).rename(lake.parent / "aside")
    (lake / "orders" / "1" / segment_name(0, 4)).rename(lake.parent / "aside-too")
    ended = erase(config, "--key", "nobody")
    assert ended.code == 1
    assert [(row["partition"], row["result"]) for row in ended.rows()] == [(0, "failed"), (1, "failed")]
    assert "says that it had reached offset 50" in str(ended.rows()[0]["error"])
    assert "no segment is there, and" in str(ended.rows()[1]["error"])


@pytest.mark.parametrize("name", ["copy", "_old"])
def test_a_folder_in_a_partitions_folder_may_hold_the_keys(lake: Path, name: str) -> None:
    inner = lake / "orders" / "0" / name
    inner.mkdir()
    (inner / segment_name(0, 9)).write_bytes((lake / "orders" / "0" / segment_name(0, 9)).read_bytes())
    ended = erase(configuration(lake), "--key", "key 3", "--partition", "0")
    assert ended.code == 1
    assert f"'{name}' is a folder" in str(ended.rows()[0]["error"])


def test_a_partition_whose_folder_is_gone_is_not_called_free_of_the_keys(lake: Path) -> None:
    config = configuration(lake)
    mark_archive(lake, {"orders": {0: 50, 1: 5}})
    (lake / "orders" / "1").rename(lake.parent / "aside")
    ended = erase(config, "--key", "nobody")
    assert ended.code == 1
    (row,) = [row for row in ended.rows() if row["partition"] == 1]
    assert row["result"] == "failed"
    assert "had reached offset 5" in str(row["error"])


def test_segments_of_two_sources_are_erased_apart(lake: Path) -> None:
    for start in (50, 60, 70):
        write_segment(lake, "orders", 0, start, start + 10, topic_id="another")
    rows = erase(configuration(lake), "--key", "key 3", "--partition", "0").rows()
    assert [row["result"] for row in rows if row["result"] == "failed"] == []
    assert all(key != b"key 3" or offset >= 70 or 40 <= offset < 50 for offset, key in held(lake)), [
        row for row in rows if row["result"] != "erased"
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "--keys-file"),
        (("--key", "base64:?"), 1, "is not a key"),
        (("--key", "null:x"), 1, "nothing follows"),
        (("--keys-file", "/nowhere"), 1, "/nowhere"),
        (("--key", "k", "--topic", "oders"), 1, "no archive of it has a topic oders"),
    ],
)
def test_what_cannot_be_meant_is_refused(lake: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    ended = erase(configuration(lake), *arguments)
    assert ended.code == code
    assert said in ended.out + ended.err
    assert len(files(lake)) == 5


def test_parquet_keeps_its_columns_and_every_other_record(lake: Path) -> None:
    before = {row["offset"]: row for file in sorted((lake / "orders/0").glob("*.parquet")) for row in rows_in(file)}
    erase(configuration(lake), "--key", "key 3")
    after = {row["offset"]: row for file in sorted((lake / "orders/0").glob("*.parquet")) for row in rows_in(file)}
    assert after == {offset: row for offset, row in before.items() if int(str(offset)) >= 40 or row["key"] != b"key 3"}


def rows_in(file: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = pq.read_table(file).to_pylist()
    return found


def test_the_folder_of_a_recreated_topic_is_warned_of(lake: Path) -> None:
    write_segment(lake, "orders.1", 0, 0, 10)
    ended = erase(configuration(lake), "--key", "no such key")
    assert ended.code == 0
    assert "--topic orders.1" in ended.err
