"""What an archive has lost is told by whoever holds, lists, merges or retires, and nothing is retired beside it."""

import shutil
from pathlib import Path

import pytest

from support.archives import mark_archive, write_archive, write_segment
from support.command import Ended, write_yaml
from support.command import without_spark as mirrorlake
from support.golden import segment_name

KEEPING = (
    "merge: {steps: [{min-age: 0s, max-bytes: 64MiB}], min-files: 2, min-bytes: 0}",
    "retain: {max-bytes: 1}",
)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    root = tmp_path / "lake"
    root.mkdir()
    write_archive(root, "orders", 0, 10, 30, 35, 40, 50)
    write_archive(root, "orders", 1, 5, 12)
    mark_archive(root, {"orders": {0: 50, 1: 12}})
    return root


@pytest.fixture
def config(lake: Path) -> Path:
    """Nobody listens at these brokers: nothing but the store may be asked."""
    return write_yaml(
        lake.parent / "mirror.yaml",
        f"""
clusters: {{east: {{bootstrap-servers: "127.0.0.1:1"}}}}
stores: {{lake: {{type: filesystem, root: {lake}}}}}
mirrors:
  - name: trade
    source: {{cluster: east, topics: [orders, payments]}}
    destinations: [{{type: archive, store: lake, {", ".join(KEEPING)}}}]
""",
    )


def file_of(lake: Path, partition: int, first: int, last: int) -> Path:
    return lake / "orders" / str(partition) / segment_name(first, last)


def held(lake: Path, *arguments: str | Path) -> Ended:
    common = ("--root", lake, "--topic", "orders", "--hold", "case", "--format", "json")
    return mirrorlake("archive", "hold", "add", *common, *arguments)


def range_of(partition: int, first: int, last: int) -> tuple[str, ...]:
    return "--partition", str(partition), "--from-offset", str(first), "--to-offset", str(last)


def kept(verb: str, config: Path, *arguments: str) -> Ended:
    return mirrorlake("archive", verb, "-c", config, *arguments, "--format", "json")


def files(lake: Path) -> list[str]:
    return sorted(str(file.relative_to(lake)) for file in lake.glob("orders/*/*.parquet"))


@pytest.mark.parametrize(
    ("first", "last", "result", "start", "missing"),
    [
        pytest.param(12, 19, "missing", None, "[12, 20)", id="all of it"),
        pytest.param(5, 19, "partly", 5, "[10, 20)", id="its end"),
        pytest.param(5, 36, "partly", 5, "[10, 35)", id="its middle"),
        pytest.param(36, 38, "held", 36, None, id="nothing of it"),
    ],
)
def test_a_hold_of_a_range_in_a_hole_says_which_offsets_are_not_there(
    lake: Path, first: int, last: int, result: str, start: int | None, missing: str | None
) -> None:
    file_of(lake, 0, 10, 29).unlink()
    file_of(lake, 0, 30, 34).unlink()

    added = held(lake, *range_of(0, first, last))

    (row,) = added.rows()
    assert (row["result"], row["start"], row["end"]) == (result, start, last + 1)
    assert added.code == (0 if missing is None else 1)
    if missing is not None:
        assert f"orders/0: offsets {missing} were archived, and no segment with them is there" in str(row["error"])
    assert len(list((lake / "orders").glob("_hold-case*"))) == 1, "what is put back is held"


def test_a_hold_of_partitions_whose_segments_are_gone_says_so_as_far_as_their_topics_record_knows(lake: Path) -> None:
    shutil.rmtree(lake / "orders/1")
    (lake / "orders/2").mkdir()
    file_of(lake, 0, 40, 49).unlink()

    added = held(lake)

    assert added.code == 1
    rows = added.rows()
    assert [(row["partition"], row["result"]) for row in rows] == [(0, "partly"), (1, "missing"), (2, "held")]
    assert "offsets [40, 50) were archived" in str(rows[0]["error"])
    assert "offsets [0, 12) were archived, and no segment with them is there: so nothing is there to be held" in str(
        rows[1]["error"]
    )
    assert rows[2]["reason"] == "no segment is there: what comes is held"
    (row,) = held(lake, "--partition", "1").rows()
    assert row["result"] == "missing"


def test_a_hold_of_a_topic_whose_folder_is_gone_says_that_it_is_gone(lake: Path) -> None:
    shutil.rmtree(lake / "orders")

    added = held(lake)

    assert (added.code, added.out) == (1, "")
    assert "orders is gone" in added.err
    assert not (lake / "orders").exists()


def test_a_hold_of_records_that_are_yet_to_come_is_one(lake: Path) -> None:
    added = held(lake, *range_of(0, 50, 99))

    (row,) = added.rows()
    assert (added.code, row["result"], row["start"], row["end"]) == (0, "held", 50, 100)
    assert row["reason"] == "it is yet to come: the archive ends at offset 50"


def test_a_hold_says_what_it_does_not_know_where_the_topics_record_cannot_be_read(lake: Path) -> None:
    (lake / "orders/_topic.json").write_bytes(b"{")

    added = held(lake)

    assert (added.code, [row["result"] for row in added.rows()]) == (1, ["unknown", "unknown"])
    assert (lake / "orders/_hold-case").exists()


def test_segments_that_were_retired_are_not_said_to_be_missing_from_a_hold(lake: Path, config: Path) -> None:
    assert kept("retain", config).code == 0

    added = held(lake)

    assert [(row["partition"], row["result"], row["start"]) for row in added.rows()] == [
        (0, "held", 40),
        (1, "held", 5),
    ]


def test_ls_shows_an_end_a_partition_and_a_topic_that_are_gone(lake: Path) -> None:
    write_segment(lake, "payments", 0, 0, 8)
    mark_archive(lake, {"payments": {0: 8}})
    shutil.rmtree(lake / "payments")
    shutil.rmtree(lake / "orders/1")
    file_of(lake, 0, 40, 49).unlink()

    listed = mirrorlake("archive", "ls", "--root", lake, "--format", "json")

    assert listed.code == 1
    rows = listed.rows()
    assert [(row["name"], row["partition"], row["position"]) for row in rows] == [
        ("orders", 0, 40),
        ("orders", 1, 0),
        ("payments", None, 0),
    ]
    assert len({tuple(row) for row in rows}) == 1, "one set of fields"
    said = [problem["problem"] for row in rows for problem in row["problems"]]
    assert "it ends at offset 40" in said[0]
    assert "no segment is there" in said[1]
    assert "payments is gone" in said[2]
    table = mirrorlake("archive", "ls", "--root", lake)
    assert table.code == 1
    assert "had reached offset 50" in table.out


def test_ls_of_segments_says_on_stderr_what_is_wrong(lake: Path) -> None:
    file_of(lake, 0, 40, 49).unlink()

    listed = mirrorlake("archive", "ls", "--root", lake, "--segments", "--format", "json")

    assert (listed.code, len(listed.rows())) == (1, 6)
    assert "had reached offset 50" in listed.err


@pytest.mark.parametrize("gone", ["the end of a partition", "all of a partition", "the folder of a partition"])
@pytest.mark.parametrize("arguments", [("--dry-run",), ()], ids=["planned", "done"])
def test_retention_takes_nothing_of_a_topic_of_which_an_end_is_gone(
    lake: Path, config: Path, gone: str, arguments: tuple[str, ...]
) -> None:
    if gone == "the end of a partition":
        file_of(lake, 1, 5, 11).unlink()
    elif gone == "all of a partition":
        file_of(lake, 1, 5, 11).unlink()
        file_of(lake, 1, 0, 4).unlink()
    else:
        shutil.rmtree(lake / "orders/1")
    before = files(lake)

    retired = kept("retain", config, *arguments)

    assert retired.code == 1
    rows = {row["partition"]: row for row in retired.rows()}
    assert (rows[1]["result"], rows[0]["result"]) == ("failed", "nothing")
    assert "had reached offset 12" in str(rows[1]["error"])
    assert rows[0]["reason"] == "another partition of its topic could not be looked at"
    assert files(lake) == before


def test_a_partition_of_which_the_end_is_gone_is_not_merged_and_others_are(lake: Path, config: Path) -> None:
    write_segment(lake, "orders", 1, 12, 20)
    write_segment(lake, "orders", 1, 20, 30)
    file_of(lake, 0, 40, 49).unlink()
    left = [each for each in files(lake) if each.startswith("orders/0/")]

    planned, merged = kept("merge", config, "--dry-run"), kept("merge", config)

    for ended, done in ((planned, "planned"), (merged, "merged")):
        assert ended.code == 1
        assert [(row["partition"], row["result"]) for row in ended.rows()] == [(0, "failed"), (1, done)]
        assert "had reached offset 50" in str(ended.rows()[0]["error"])
    assert files(lake) == [*left, f"orders/1/{segment_name(0, 19)}", f"orders/1/{segment_name(20, 29)}"]


def test_a_merge_tells_a_partition_and_a_topic_that_are_gone(lake: Path, config: Path) -> None:
    shutil.rmtree(lake / "orders/1")
    write_segment(lake, "payments", 0, 0, 8)
    mark_archive(lake, {"payments": {0: 8}})
    shutil.rmtree(lake / "payments")

    planned = kept("merge", config, "--dry-run")

    assert planned.code == 1
    assert [(row["partition"], row["result"]) for row in planned.rows()] == [(0, "planned"), (1, "failed")]
    assert "payments is gone" in planned.err
    named = kept("merge", config, "--topic", "payments")
    assert (named.code, named.out) == (1, "")
    assert "payments is gone" in named.err
