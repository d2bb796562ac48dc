"""`archive check` tells what is not there: the archive, a topic, a partition, the newest segment."""

import os
import shutil
from pathlib import Path

import pytest

from support.archives import mark_archive, write_archive, write_segment
from support.command import Ended
from support.command import without_spark as mirrorlake
from support.golden import segment_name


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    root = tmp_path / "lake"
    root.mkdir()
    write_archive(root, "orders", 0, 10, 30, 35)
    write_archive(root, "orders", 1, 5)
    write_archive(root, "payments", 0, 8)
    mark_archive(root, {"orders": {0: 35, 1: 5}, "payments": {0: 8}})
    return root


def checked(*arguments: str | Path) -> Ended:
    return mirrorlake("archive", "check", *arguments, "--level", "names", "--format", "json")


def broken(ended: Ended) -> list[tuple[object, object, str]]:
    assert ended.code == 1
    rows = [row for row in ended.rows() if row["problems"]]
    assert {row["result"] for row in rows} == {"broken"}
    return [(row["name"], row["partition"], problem["problem"]) for row in rows for problem in row["problems"]]


def test_a_whole_archive_is_sound(lake: Path) -> None:
    ended = checked("--root", lake)
    assert (ended.code, ended.said) == (0, "")
    assert [row["result"] for row in ended.rows()] == ["sound"] * 3


def test_a_partition_that_is_gone_is_told(lake: Path) -> None:
    shutil.rmtree(lake / "orders/1")
    ((name, partition, problem),) = broken(checked("--root", lake))
    assert (name, partition) == ("orders", 1)
    assert "no segment is there" in problem
    assert "had reached offset 5" in problem
    assert checked("--root", lake, "--partition", "0").code == 0
    table = mirrorlake("archive", "check", "--root", lake)
    assert table.code == 1
    assert [line.split()[-1] for line in table.out.splitlines()[1:4]] == ["sound", "sound", "broken"]


def test_a_topic_that_is_gone_is_told(lake: Path) -> None:
    shutil.rmtree(lake / "payments")
    ((name, partition, problem),) = broken(checked("--root", lake))
    assert (name, partition) == ("payments", None)
    assert "is gone" in problem
    (lake / "_mirrorlake/topics/payments").unlink()
    assert checked("--root", lake).code == 0, "who means it says so"


def test_newest_segments_that_are_gone_are_told_as_far_as_they_were_recorded(lake: Path) -> None:
    (lake / "orders/0" / segment_name(30, 34)).unlink()
    ((name, partition, problem),) = broken(checked("--root", lake))
    assert (name, partition) == ("orders", 0)
    assert "ends at offset 30" in problem
    assert "reached offset 35" in problem


def test_a_claim_behind_the_end_tells_that_the_newest_segment_is_gone(lake: Path) -> None:
    (lake / "orders/0" / f"_claim-{35:020}").write_bytes(b"{}")
    assert checked("--root", lake).code == 0
    (lake / "orders/0" / f"_claim-{40:020}").write_bytes(b"{}")
    ((_, _, problem),) = broken(checked("--root", lake))
    assert "newest segment is gone" in problem
    assert f"_claim-{40:020}" in problem


@pytest.mark.parametrize("is_claimed", [False, True])
def test_a_description_without_its_segment_tells_that_the_newest_one_is_gone(tmp_path: Path, is_claimed: bool) -> None:
    """Unless it is claimed: then its writer is on its way, or died on it."""
    lake = tmp_path / "lake"
    lake.mkdir()
    for start, end in ((0, 10), (10, 20)):
        write_segment(lake, "orders", 0, start, end, extension="ndjson")
    mark_archive(lake, {"orders": {0: 10}})
    assert checked("--root", lake).code == 0
    (lake / "orders/0" / segment_name(10, 19).replace("parquet", "ndjson")).unlink()
    if is_claimed:
        (lake / "orders/0" / f"_claim-{10:020}").write_bytes(b"{}")
        assert checked("--root", lake).code == 0
        return
    ((_, _, problem),) = broken(checked("--root", lake))
    assert "ends at offset 10" in problem
    assert "describes one behind it" in problem


@pytest.mark.parametrize("what", ["an empty folder", "a folder of other things", "a topic that is not there"])
def test_nothing_checked_is_no_success(lake: Path, tmp_path: Path, what: str) -> None:
    wrong = tmp_path / "wrong"
    (wrong / "photos/summer").mkdir(parents=True)
    empty = tmp_path / "empty"
    empty.mkdir()
    asked: dict[str, tuple[str | Path, ...]] = {
        "an empty folder": ("--root", empty),
        "a folder of other things": ("--root", wrong),
        "a topic that is not there": ("--root", lake, "--topic", "ordres"),
    }
    ((_, partition, problem),) = broken(checked(*asked[what]))
    assert partition is None
    assert "nothing was checked" in problem


def test_a_topic_that_is_not_there_is_told_with_those_that_are_and_a_root_that_is_not_is_no_place_to_make_one(
    lake: Path, tmp_path: Path
) -> None:
    ended = mirrorlake("archive", "check", "--root", lake, "--topic", "ordres")
    assert f"nothing was checked of ordres: {lake} holds no folder of that name" in ended.out
    assert "there are `orders`, `payments`" in ended.out
    ended = mirrorlake("archive", "check", "--root", tmp_path / "none")
    assert (ended.code, ended.out) == (1, "")
    assert f"the archive's root {tmp_path}/none does not exist" in ended.err
    assert "name the folder that holds the topics' folders" in ended.err
    assert "create" not in ended.err
    (tmp_path / "file").write_text("")
    for below in ("file", "file/lake"):
        ended = mirrorlake("archive", "check", "--root", tmp_path / below)
        assert (ended.code, ended.out) == (1, "")
        assert f"{tmp_path}/file is a file, and a folder is needed there" in ended.err


def test_what_was_asked_for_by_name_and_is_not_there_is_told_beside_what_is(lake: Path) -> None:
    found = broken(checked("--root", lake, "--topic", "orders", "--topic", "ordres"))
    assert found == [("ordres", None, f"nothing was checked of ordres: {lake} holds no folder of that name")]
    found = broken(checked("--root", lake, "--partition", "0", "--partition", "7"))
    assert found == [("", 7, f"nothing was checked of partition 7: {lake} holds none of that number")]
    shutil.rmtree(lake / "payments")
    ((name, _, problem),) = broken(checked("--root", lake, "--topic", "orders", "--topic", "payments"))
    assert name == "payments"
    assert "payments is gone" in problem


def test_an_archive_without_markers_is_checked_and_that_is_said(lake: Path) -> None:
    (lake / "_mirrorlake.json").unlink()
    shutil.rmtree(lake / "_mirrorlake")
    for path in lake.glob("*/_topic*.json"):
        path.unlink()
    ended = checked("--root", lake)
    assert ended.code == 0
    assert [row["result"] for row in ended.rows()] == ["sound"] * 3
    assert "_mirrorlake.json is not there" in ended.err
    assert "the next run adds" in ended.err


@pytest.mark.parametrize("odd", ["back\\slash", "new\nline"])
def test_one_odd_folder_name_is_reported_and_the_others_are_checked(lake: Path, odd: str) -> None:
    (lake / odd / "0").mkdir(parents=True)
    ended = checked("--root", lake)
    assert ended.code == 0
    assert len(ended.rows()) == 3
    assert "was passed over" in ended.err
    assert mirrorlake("archive", "ls", "--root", lake).code == 0


def test_a_link_that_leads_nowhere_is_no_segment(lake: Path) -> None:
    segment = lake / "orders/0" / segment_name(30, 34)
    segment.unlink()
    segment.symlink_to(lake / "not-mounted")
    found = broken(checked("--root", lake))
    assert any("is a link that leads nowhere" in problem for _, _, problem in found)


def test_a_pipe_in_place_of_a_segment_is_told_and_not_waited_for(lake: Path) -> None:
    segment = lake / "orders/0" / segment_name(30, 34)
    segment.unlink()
    os.mkfifo(segment)
    for level in ("names", "checksums"):
        found = broken(mirrorlake("archive", "check", "--root", lake, "--level", level, "--format", "json"))
        assert any(f"{segment.name} is no file" in problem for _, _, problem in found), level
    assert mirrorlake("archive", "ls", "--root", lake).code == 1


def test_a_folder_in_a_partitions_folder_is_told(lake: Path) -> None:
    for name in (segment_name(35, 39), "copy", "_claim-00000000000000000035", "_spark_metadata", "lost+found"):
        (lake / "orders/0" / name).mkdir()
    problems = [problem for _, _, problem in broken(checked("--root", lake))]
    told = ("00000000000000000035-00000000000000000039.parquet", "_claim-00000000000000000035", "copy")
    assert [problem.split("'")[1] for problem in problems] == list(told)
    assert all("is a folder" in problem for problem in problems)


def test_a_marker_that_cannot_be_read_is_a_problem_of_its_own(lake: Path) -> None:
    (lake / "_mirrorlake.json").write_bytes(b"{")
    found = broken(checked("--root", lake))
    assert [(name, partition) for name, partition, _ in found] == [("", None)]
    assert "cannot be read" in found[0][2]


def test_a_folder_above_an_archives_root_is_told_from_an_archive_without_a_marker(lake: Path) -> None:
    ended = mirrorlake("archive", "check", "--root", lake.parent)

    assert f"the root of an archive is below it: {lake}" in ended.err
    assert "the next run adds it" not in ended.err
