"""`archive merge` makes few files of many, `archive retain` takes the old end; plain readers see every offset once."""

import os
import shutil
import time
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from support.archives import mark_archive, write_archive, write_segment
from support.command import Ended, write_yaml
from support.command import without_spark as mirrorlake
from support.golden import segment_name, write_mirror_v3_segment
from support.records import simple_records

MERGE = "merge: {steps: [{min-age: 0s, max-bytes: 64MiB}], min-files: 2, min-bytes: 0}"
ROW = [
    *("name", "partition", "store", "mirror"),
    *("inputs", "start", "end", "bytes", "output_bytes", "result", "reason"),
]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    root = tmp_path / "lake"
    root.mkdir()
    write_archive(root, "orders", 0, 10, 30, 35, 40, 50)
    write_archive(root, "orders", 1, 5)
    mark_archive(root, {"orders": {0: 50, 1: 5}})
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


def kept(verb: str, config: Path, *arguments: str) -> Ended:
    return mirrorlake("archive", verb, "-c", config, *arguments, "--format", "json")


def files(lake: Path, partition: int = 0) -> list[str]:
    return sorted(file.name for file in (lake / "orders" / str(partition)).iterdir())


def names_of(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def offsets(lake: Path, partition: int = 0) -> list[int]:
    """As a plain reader sees them: each file of a glob, in the order of names."""
    found = sorted((lake / "orders" / str(partition)).glob("*.parquet"))
    return [offset for file in found for offset in pq.read_table(file)["offset"].to_pylist()]


def test_merging_is_planned_done_and_then_there_is_nothing_to_do(lake: Path) -> None:
    config = configuration(lake, MERGE)
    before, names = offsets(lake), files(lake)
    planned = kept("merge", config, "--dry-run")
    assert planned.code == 0
    row, single = planned.rows()
    assert list(row) == ROW
    assert (row["inputs"], row["start"], row["end"], row["result"]) == (4, 0, 40, "planned")
    assert (single["partition"], single["result"]) == (1, "nothing")
    assert single["reason"] == "there is nothing but the newest segment"
    assert files(lake) == names

    done = kept("merge", config)
    assert (done.code, [each["result"] for each in done.rows()]) == (0, ["merged", "nothing"])
    assert files(lake) == [segment_name(0, 39), segment_name(40, 49)]
    assert offsets(lake) == before
    assert mirrorlake("archive", "check", "-c", config, "--level", "checksums").code == 0
    assert [each["result"] for each in kept("merge", config).rows()] == ["nothing", "nothing"]


def codec(file: Path) -> str:
    """How the keys of a file are compressed."""
    group = pq.read_metadata(file).row_group(0)
    (found,) = {
        group.column(n).compression for n in range(group.num_columns) if group.column(n).path_in_schema == "key"
    }
    assert isinstance(found, str)
    return found


def test_a_merge_compresses_as_it_is_told_and_so_does_an_erasure_of_what_was_merged(lake: Path) -> None:
    config = configuration(lake, "compression: lz4", MERGE.replace("{steps", "{compression: snappy, steps"))
    folder, before = lake / "orders" / "0", offsets(lake)
    assert [codec(file) for file in sorted(folder.iterdir())] == ["ZSTD"] * 5
    done = kept("merge", config)
    assert (done.code, [each["result"] for each in done.rows()]) == (0, ["merged", "nothing"]), done.err
    assert [codec(file) for file in sorted(folder.iterdir())] == ["SNAPPY", "ZSTD"]
    assert offsets(lake) == before

    # The newest segment is left; two more behind it have what was merged rewritten.
    write_segment(lake, "orders", 0, 50, 60)
    write_segment(lake, "orders", 0, 60, 70)
    key = pq.read_table(folder / segment_name(0, 39))["key"][3].as_py().decode()
    erased = mirrorlake("archive", "erase", "-c", config, "--topic", "orders", "--key", key)
    assert erased.code in (0, 3), erased.err + erased.out
    assert codec(sorted(folder.glob("*.parquet"))[0]) == "SNAPPY"
    assert mirrorlake("archive", "check", "-c", config, "--level", "checksums").code == 0


def test_another_compression_may_be_given_for_one_merge(lake: Path) -> None:
    done = kept("merge", configuration(lake, MERGE), "--compression", "uncompressed")
    assert (done.code, [each["result"] for each in done.rows()]) == (0, ["merged", "nothing"]), done.err
    assert codec(lake / "orders" / "0" / segment_name(0, 39)) == "UNCOMPRESSED"

    refused = kept("merge", configuration(lake, MERGE, "format: ndjson"), "--compression", "zstd-3")
    assert refused.code == 1
    assert "ndjson, which has no compression of its own" in refused.err


def test_merging_brings_one_schema_where_mirror_v3_wrote_the_first_files(lake: Path) -> None:
    folder = lake / "trades" / "0"
    write_mirror_v3_segment(folder, "trades", 0, 0, simple_records(10))
    write_mirror_v3_segment(folder, "trades", 0, 10, simple_records(10))
    write_segment(lake, "trades", 0, 20, 30)
    write_segment(lake, "trades", 0, 30, 40)
    config = write_yaml(
        lake.parent / "trades.yaml", configuration(lake, MERGE).read_text().replace("[orders]", "[trades]")
    )
    done = kept("merge", config)
    assert (done.code, [each["result"] for each in done.rows()]) == (0, ["merged"]), done.err
    wanted = [*range(20), *(each for each in range(20, 40) if each % 10 != 7)]
    found = duckdb.connect().execute(f"select \"offset\" from '{lake}/trades/*/*.parquet' order by 1").fetchall()
    assert found == [(each,) for each in wanted]
    types = {str(pq.read_schema(file).field("offset").type) for file in folder.glob("*.parquet")}
    assert types == {"int64"}
    assert mirrorlake("archive", "check", "-c", config, "--level", "checksums").code == 0


@pytest.mark.parametrize(("topic", "partition"), [("secret", 0), ("trades", 7)])
def test_a_file_of_mirror_v3_with_records_of_another_topic_is_not_merged(
    lake: Path, topic: str, partition: int
) -> None:
    """A swapped file: merged, all its records would be of this topic, and nothing would tell."""
    folder = lake / "trades" / "0"
    swapped = write_mirror_v3_segment(folder, topic, partition, 0, simple_records(10))
    swapped.rename(folder / segment_name(0, 9))
    for start in range(10, 50, 10):
        write_segment(lake, "trades", 0, start, start + 10)
    config = write_yaml(
        lake.parent / "trades.yaml", configuration(lake, MERGE).read_text().replace("[orders]", "[trades]")
    )
    failed = kept("merge", config)
    assert (failed.code, [each["result"] for each in failed.rows()]) == (1, ["failed"])
    assert len(list(folder.iterdir())) == 5


@pytest.mark.slow
def test_inputs_that_are_kept_are_shown_and_go_with_a_later_run(lake: Path) -> None:
    config = configuration(lake, MERGE.replace("min-bytes: 0", "min-bytes: 0, keep-inputs: 1d"))
    before = offsets(lake)
    assert kept("merge", config).code == 0
    assert len(files(lake)) == 6
    (row, _) = mirrorlake("archive", "ls", "-c", config, "--format", "json").rows()
    assert (row["segments"], row["covered"]) == (2, 4)
    assert [each["result"] for each in kept("merge", config).rows()] == ["nothing", "nothing"]
    shorter = configuration(lake, MERGE)
    assert [each["result"] for each in kept("merge", shorter).rows()] == ["deleted", "nothing"]
    assert offsets(lake) == before


def test_segments_of_two_sources_are_merged_apart(lake: Path) -> None:
    """As an early version could mix them: told by their footers, which the plan does not read."""
    for start in (50, 60, 70):
        write_segment(lake, "orders", 0, start, start + 10, topic_id="another")
    config = configuration(lake, MERGE)
    done = kept("merge", config)
    assert [(each["start"], each["end"]) for each in done.rows() if each["result"] == "merged"] == [(0, 50), (50, 70)]
    assert files(lake) == [segment_name(0, 49), segment_name(50, 69), segment_name(70, 79)]


def test_a_damaged_segment_fails_its_group_and_stays(lake: Path) -> None:
    config = configuration(lake, MERGE)
    damaged = lake / "orders" / "0" / segment_name(10, 29)
    damaged.write_bytes(damaged.read_bytes()[:-100])
    failed = kept("merge", config)
    assert (failed.code, failed.rows()[0]["result"]) == (1, "failed")
    assert segment_name(10, 29) in failed.rows()[0]["error"]
    assert len(files(lake)) == 5


@pytest.mark.slow
def test_retention_by_bytes_takes_the_oldest_of_a_topic_and_never_the_newest(lake: Path) -> None:
    config = configuration(lake, "retain: {max-bytes: 1}")
    planned = kept("retain", config, "--dry-run")
    assert [(each["segments"], each["start"], each["end"], each["result"]) for each in planned.rows()] == [
        (4, 0, 40, "planned"),
        (0, None, None, "nothing"),
    ]
    assert len(files(lake)) == 5
    assert [each["result"] for each in kept("retain", config).rows()] == ["deleted", "nothing"]
    assert files(lake) == [segment_name(40, 49), f"_floor-{40:020}"]
    (row, _) = mirrorlake("archive", "ls", "-c", config, "--format", "json").rows()
    assert (row["start"], row["floor"], row["position"], row["problems"]) == (40, 40, 50, [])
    assert [each["result"] for each in kept("retain", config).rows()] == ["nothing", "nothing"]
    assert mirrorlake("archive", "check", "-c", config, "--level", "checksums").code == 0


def test_a_wrong_time_of_a_file_does_not_age_its_records(lake: Path) -> None:
    """As from a host that began before its clock was set, or a copy put back with its old times."""
    for file in (lake / "orders" / "0").glob("*.parquet"):
        os.utime(file, (0, 0))
    rows = kept("retain", configuration(lake, "retain: {max-age: 36500d}")).rows()
    assert [each["result"] for each in rows] == ["nothing", "nothing"]
    assert len(files(lake)) == 5


def test_retention_by_age_goes_by_the_records_times(lake: Path) -> None:
    """They are of 2023: all but the newest segment is older than a day, none older than a hundred years."""
    assert [each["result"] for each in kept("retain", configuration(lake, "retain: {max-age: 36500d}")).rows()] == [
        "nothing",
        "nothing",
    ]
    assert kept("retain", configuration(lake, "retain: {max-age: 1d}")).code == 0
    assert [name for name in files(lake) if name.endswith("parquet")] == [segment_name(40, 49)]


OWNERSHIP = {
    "a name with a number is another mirror's topic": (
        (
            "{name: short, source: {cluster: east, topics: [events]}, %s}",
            "{name: keep, source: {cluster: east, topics: [events.2024]}, %k}",
        ),
        ("events.2024", "events.2024"),
        "there is no `retain` at its destination",
    ),
    "another mirror's template makes a name that an expression selects": (
        ("{name: all, source: {cluster: east, topics: [/.*/]}, %s}",),
        ("west-orders", "orders"),
        "it holds records of topic orders, which mirror all does not write there",
    ),
    "two mirrors may write it": (
        (
            "{name: a, source: {cluster: east, topics: [/.*/]}, %s}",
            "{name: b, source: {cluster: west, topics: [/.*/]}, %k}",
        ),
        ("events", "events"),
        "by its name it may be of mirror a, or of b",
    ),
    "a recreated topic's folder is not that of a topic with a number": (
        ("{name: a, source: {cluster: east, topics: [events]}, %s}",),
        ("events.2", "events.2"),
        "it holds records of topic events.2, which mirror a does not write there",
    ),
    "nothing was recorded": (
        ("{name: a, source: {cluster: east, topics: [events]}, %s}",),
        ("events", None),
        "nothing recorded says whose records it holds: `run` mirror a once, which records it",
    ),
}


@pytest.mark.parametrize("topics", ["events", "/events.*/"])
def test_retention_takes_from_the_folder_of_a_topic_that_was_recreated(topics: str, tmp_path: Path) -> None:
    root = tmp_path / "lake"
    root.mkdir()
    write_archive(root, "events.2", 0, 10, 20, 30)
    mark_archive(root, {"events.2": {0: 30}}, topic="events")
    config = write_yaml(
        tmp_path / "mirror.yaml",
        f"""
clusters: {{east: {{bootstrap-servers: "127.0.0.1:1"}}}}
stores: {{lake: {{type: filesystem, root: {root}}}}}
mirrors:
  - name: a
    source: {{cluster: east, topics: ["{topics}"]}}
    destinations: [{{type: archive, store: lake, retain: {{max-bytes: 1}}}}]
""",
    )
    (row,) = kept("retain", config).rows()
    assert (row["result"], row["reason"]) == ("deleted", None)
    left = [name for name in names_of(root / "events.2" / "0") if name.endswith("parquet")]
    assert left == [segment_name(20, 29)]


@pytest.mark.parametrize("case", OWNERSHIP)
def test_retention_takes_only_what_is_known_to_be_its_mirrors(case: str, tmp_path: Path) -> None:
    mirrors, (folder, topic), reason = OWNERSHIP[case]
    root = tmp_path / "lake"
    root.mkdir()
    before = write_archive(root, folder, 0, 10, 20, 30)
    if topic is not None:
        mark_archive(root, {folder: {0: 30}}, topic=topic)
    retain = "destinations: [{type: archive, store: lake, retain: {max-bytes: 1}}]"
    config = write_yaml(
        tmp_path / "mirror.yaml",
        "\n".join(
            [
                'clusters: {east: {bootstrap-servers: "127.0.0.1:1"}, west: {bootstrap-servers: "127.0.0.1:2"}}',
                f"stores: {{lake: {{type: filesystem, root: {root}}}}}",
                "mirrors:",
                *(
                    f"  - {mirror.replace('%s', retain).replace('%k', retain.replace(', retain: {max-bytes: 1}', ''))}"
                    for mirror in mirrors
                ),
                "",
            ]
        ),
    )
    (row,) = kept("retain", config).rows()
    assert (row["result"], row["reason"]) == ("nothing", reason)
    shown = mirrorlake("archive", "ls", "-c", config, "--format", "json").rows()[0]
    assert shown["doubt"] == (reason if "at its destination" not in reason else None)
    assert all(file.exists() for file in before)
    first = mirrors[0].split(",")[0].removeprefix("{name: ")
    assert [each["result"] for each in kept("retain", config, "--mirror", first).rows()] in ([], ["nothing"])
    assert all(file.exists() for file in before)


def test_each_mirror_of_some_partitions_has_its_own_retention(lake: Path) -> None:
    """Partition 1's mirror keeps everything; partition 0 goes down to its newest segment."""
    write_archive(lake, "orders", 2, 10, 20)
    mark_archive(lake, {"orders": {0: 50, 1: 5, 2: 20}})
    config = write_yaml(
        lake.parent / "mirror.yaml",
        f"""
clusters: {{east: {{bootstrap-servers: "127.0.0.1:1"}}}}
stores: {{lake: {{type: filesystem, root: {lake}}}}}
mirrors:
  - {{name: a, source: {{cluster: east, topics: [orders], partitions: [0]}},
     destinations: [{{type: archive, store: lake, retain: {{max-bytes: 1}}}}]}}
  - {{name: b, source: {{cluster: east, topics: [orders], partitions: [1, 2]}},
     destinations: [{{type: archive, store: lake}}]}}
""",
    )
    rows = kept("retain", config).rows()
    assert [(row["partition"], row["mirror"], row["result"]) for row in rows] == [
        (0, "a", "deleted"),
        (1, "b", "nothing"),
        (2, "b", "nothing"),
    ]
    assert len(files(lake, 2)) == 2


@pytest.mark.parametrize("verb", ["merge", "retain"])
@pytest.mark.parametrize("what", ["a topic that is not there", "a root without an archive"])
def test_where_nothing_is_found_that_was_asked_for_it_fails(verb: str, what: str, lake: Path) -> None:
    config = configuration(lake, MERGE, "retain: {max-bytes: 1}")
    if what.startswith("a root"):
        lake.rename(lake.parent / "unmounted")
        lake.mkdir()
    failed = kept(verb, config, *(["--topic", "ordres"] if what.startswith("a topic") else []))
    assert failed.code == 1
    assert "holds no partition that was asked for" in failed.err
    remedy = (
        "correct the name of the folder, or put it back; there is `orders`"
        if what.startswith("a topic")
        else "mounted?"
    )
    assert remedy in failed.err


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ('merge: {at: "* * * *"}', "is no cron expression"),
        ("merge: {min-files: 5, max-files: 4}", "above `max-files`"),
        ("merge: {steps: [{min-age: 1h, max-bytes: 5GiB}]}", "4GiB"),
        ("retain: {}", "has no bound"),
        ("compaction: log, merge: {}", "has no meaning with `compaction: log`"),
    ],
)
def test_settings_that_make_no_sense_are_refused(lake: Path, setting: str, said: str) -> None:
    ended = mirrorlake("validate", "-c", configuration(lake, setting))
    assert ended.code == 1
    assert said in ended.out + ended.err


def test_without_settings_nothing_is_touched_and_the_reason_is_said(lake: Path) -> None:
    config = configuration(lake)
    for verb in ("merge", "retain"):
        rows = kept(verb, config).rows()
        assert {row["reason"] for row in rows} == {f"there is no `{verb}` at its destination"}
    assert len(files(lake)) == 5


def hold(verb: str, config: Path, *arguments: str) -> Ended:
    return mirrorlake("archive", "hold", verb, "-c", config, *arguments, "--format", "json")


@pytest.mark.slow
def test_a_hold_keeps_what_retention_would_take_until_it_is_removed(lake: Path) -> None:
    config = configuration(lake, "retain: {max-bytes: 1}")
    added = hold(
        *("add", config, "--topic", "orders", "--hold", "case-1", "--partition", "0", "--from-offset", "32"),
        *("--to-offset", "33", "--reason", "court"),
    )
    assert added.code == 0
    (row,) = added.rows()
    assert (row["partition"], row["start"], row["end"], row["result"]) == (0, 32, 34, "held")
    planned = kept("retain", config, "--dry-run").rows()[0]
    assert (planned["segments"], planned["end"], planned["result"]) == (2, 30, "planned")
    assert planned["reason"] == "held by case-1 from offset 32 on"
    assert kept("retain", config).code == 0
    again = kept("retain", config).rows()[0]
    assert (again["result"], again["reason"]) == ("nothing", "held by case-1 from offset 32 on")
    assert offsets(lake) == [each for each in range(30, 50) if each % 10 != 7]
    (row, other) = mirrorlake("archive", "ls", "-c", config, "--format", "json").rows()
    assert (row["holds"], other["holds"]) == ("case-1", None)
    assert "case-1" in mirrorlake("archive", "ls", "-c", config).out

    (listed,) = hold("ls", config).rows()
    assert (listed["hold"], listed["partition"], listed["start"], listed["end"]) == ("case-1", 0, 32, 34)
    assert (listed["reason"], listed["result"]) == ("court", "held")
    removed = hold("remove", config, "--topic", "orders", "--hold", "case-1")
    assert (removed.code, removed.rows()[0]["result"]) == (0, "lifted")
    assert hold("remove", config, "--topic", "orders", "--hold", "case-1").code == 1
    assert hold("ls", config).rows() == []
    assert kept("retain", config).rows()[0]["result"] == "deleted"
    assert [name for name in files(lake) if name.endswith("parquet")] == [segment_name(40, 49)]


def test_a_hold_of_a_topic_says_what_was_gone_before_and_needs_no_configuration(lake: Path) -> None:
    assert kept("retain", configuration(lake, "retain: {max-bytes: 1}")).code == 0
    added = mirrorlake(
        *("archive", "hold", "add", "--root", lake, "--topic", "orders", "--hold", "all", "--format", "json")
    )
    assert [(row["partition"], row["start"], row["end"]) for row in added.rows()] == [(0, 40, None), (1, 0, None)]
    assert added.rows()[0]["reason"] == "offsets below 40 had been retired before"


def test_a_hold_of_a_range_of_which_nothing_is_left_is_not_said_to_hold(lake: Path) -> None:
    assert kept("retain", configuration(lake, "retain: {max-bytes: 1}")).code == 0
    offsets = ("--partition", "0", "--from-offset", "5", "--to-offset", "39")
    add = ("archive", "hold", "add", "--root", lake, "--topic", "orders", "--hold", "late", *offsets)
    added = mirrorlake(*add, "--format", "json")
    (row,) = added.rows()
    assert (added.code, row["result"], row["start"], row["end"]) == (1, "gone", None, 40)
    assert row["reason"] == "offsets below 40 had been retired before, all of these among them"


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["00", "0.bak"])
def test_a_folder_beside_partitions_that_holds_files_is_named_and_kept_and_nothing_is_said_to_be_erased(
    lake: Path, folder: str
) -> None:
    write_archive(lake, "bills", 0, 10)
    copy = shutil.copytree(lake / "orders" / "0", lake / "orders" / folder)
    config, there = configuration(lake, MERGE, "retain: {max-bytes: 1}"), names_of(copy)
    for command in (["ls"], ["check"], ["check", "--level", "checksums"]):
        ended = mirrorlake("archive", *command, "-c", config)
        assert ended.code == 1
        assert f"orders/{folder} holds files of an archive" in ended.out
    assert mirrorlake("archive", "check", "--root", lake, "--topic", "bills").code == 0
    erased = kept("erase", config, "--topic", "orders", "--key", "key 3")
    assert erased.code == 1
    assert f"orders/{folder} holds files of an archive" in erased.err
    merged = kept("merge", config)
    assert (merged.code, merged.rows()[0]["result"]) == (0, "merged")
    assert f"orders/{folder}" in merged.err
    assert kept("retain", config).rows()[0]["result"] == "deleted"
    assert names_of(copy) == there


@pytest.mark.slow
@pytest.mark.parametrize("name", ["_hold-Case", "_hold-case.0.5", "_hold-", "_hold-case-1/"])
def test_a_name_that_is_no_hold_of_this_version_holds_the_topic_and_is_told(lake: Path, name: str) -> None:
    held = lake / "orders" / name
    if name.endswith("/"):
        held.mkdir()
    else:
        held.write_bytes(b"")
    config = configuration(lake, "retain: {max-bytes: 1}")
    for dry in (["--dry-run"], []):
        assert [row["result"] for row in kept("retain", config, *dry).rows()] == ["nothing", "nothing"]
        erased = kept("erase", config, "--topic", "orders", "--key", "key 3", "--partition", "0", *dry)
        assert {row["result"] for row in erased.rows()} == {"waits"}
        assert sum(f"held by {name}" in str(row["reason"]) for row in erased.rows()) == 4
    assert len(files(lake)) == 5
    checked = mirrorlake("archive", "check", "-c", config)
    assert checked.code == 1
    assert name in checked.out
    listed = hold("ls", config)
    assert listed.code == 1
    (row,) = listed.rows()
    assert (row["name"], row["hold"], row["partition"], row["start"], row["end"]) == ("orders", name, None, 0, None)
    assert (row["result"], "begins as a hold does" in str(row["error"])) == ("held", True)
    assert name in " ".join(mirrorlake("archive", "hold", "ls", "-c", config).out.split())
    held.rmdir() if name.endswith("/") else held.unlink()
    assert hold("ls", config).code == 0


@pytest.mark.parametrize(
    ("why", "settings"), [("held by all", "retain: {max-bytes: 1}"), ("nothing is beyond", "retain: {max-bytes: 1GiB}")]
)
def test_what_dead_runs_of_retention_left_goes_where_no_segment_does(lake: Path, why: str, settings: str) -> None:
    config, folder = configuration(lake, settings), lake / "orders" / "0"
    if why.startswith("held"):
        assert hold("add", config, "--topic", "orders", "--hold", "all").code == 0
    segments = files(lake)
    dead, live = folder / f"_retire-{30:020}-dead", folder / f"_retire-{30:020}-live"
    for each in (dead, live):
        each.write_bytes(b"")
    hours_ago = time.time() - 7200
    os.utime(dead, (hours_ago, hours_ago))
    for dry, there in ((["--dry-run"], [dead.name, live.name]), ([], [live.name]), ([], [live.name])):
        row = kept("retain", config, *dry).rows()[0]
        assert (row["result"], why in str(row["reason"])) == ("nothing", True)
        assert files(lake) == [*segments, *there]


def test_a_hold_in_a_partitions_own_folder_is_said_to_hold_nothing(lake: Path) -> None:
    (lake / "orders" / "0" / "_hold-case").write_bytes(b"")
    checked = mirrorlake("archive", "check", "-c", configuration(lake))
    assert checked.code == 1
    assert "begins as a hold does, and holds nothing" in checked.out


def test_a_hold_that_only_its_name_can_be_read_of_is_listed_and_holds(lake: Path) -> None:
    (lake / "orders" / "_hold-case").symlink_to(lake / "gone")
    config = configuration(lake, "retain: {max-bytes: 1}")
    assert [row["result"] for row in kept("retain", config).rows()] == ["nothing", "nothing"]
    listed = hold("ls", config)
    assert [(row["hold"], row["result"], row["reason"]) for row in listed.rows()] == [("case", "held", None)]


def test_a_hold_of_which_a_part_cannot_be_read_is_not_said_to_be_lifted(lake: Path) -> None:
    config = configuration(lake)
    assert hold("add", config, "--topic", "orders", "--hold", "case").code == 0
    (lake / "orders" / "_hold-case.0.5").write_bytes(b"")
    removed = hold("remove", config, "--topic", "orders", "--hold", "case")
    assert removed.code == 1
    assert [(row["hold"], row["result"], "error" in row) for row in removed.rows()] == [
        ("case", "lifted", False),
        ("_hold-case.0.5", "held", True),
    ]


def test_nothing_is_retired_below_a_newest_file_that_is_not_what_its_name_says(lake: Path) -> None:
    config = configuration(lake, "retain: {max-bytes: 1}")
    folder = lake / "orders" / "0"
    files = sorted(folder.glob("*.parquet"))
    end = int(files[-1].name[21:41]) + 1
    stray = folder / segment_name(end, end + 9)
    stray.write_bytes(files[0].read_bytes())
    for arguments in (("--dry-run",), ()):
        ended = kept("retain", config, *arguments)
        assert ended.code == 1
        assert any(f"{stray.name} says of itself" in str(row.get("error")) for row in ended.rows())
    assert sorted(folder.glob("*.parquet")) == [*files, stray]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--topic", "bills", "--hold", "case-1"), 1, "nothing is archived of bills"),
        (("--topic", "orders", "--topic", "bills", "--hold", "case-1"), 1, "nothing is archived of bills"),
        (
            ("--topic", "orders", "--hold", "case-1", "--partition", "7"),
            1,
            "nothing is archived of orders, partition 7",
        ),
        (("--topic", "orders", "--hold", "Case 1"), 2, "label"),
        (("--topic", "orders", "--hold", "case-1", "--from-offset", "7"), 2, "--partition"),
        (
            ("--topic", "orders", "--hold", "case-1", "--partition", "0", "--from-offset", "7", "--to-offset", "6"),
            2,
            "offsets",
        ),
    ],
)
def test_a_hold_of_nothing_is_refused(lake: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    ended = mirrorlake("archive", "hold", "add", "-c", configuration(lake), *arguments)
    assert ended.code == code
    assert said in " ".join((ended.out + ended.err).split())
    assert not list(lake.glob("*/_hold*"))
