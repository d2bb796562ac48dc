"""`archive ls` says what archives hold, and `archive check` finds everything done to them by hand."""

import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mirrorlake.archive.names import SegmentName
from support.archives import mark_archive, write_archive, write_segment
from support.command import Ended, write_yaml
from support.command import without_spark as mirrorlake
from support.golden import segment_name, write_mirror_v3_segment
from support.records import simple_records

FIELDS = [
    *("name", "partition", "store", "mirror", "format", "segments", "start", "position", "bytes", "claims"),
    *("covered", "floor", "holds", "doubt"),
    *("records", "gaps", "first_time", "last_time", "problems"),
]
SEGMENT_FIELDS = [
    *("name", "partition", "store", "mirror", "file", "start", "end", "bytes"),
    *("records", "gaps", "first_time", "last_time"),
]
CHECK_FIELDS = [*FIELDS[:14], "result", "problems"]

Damage = Callable[[Path], None]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Two partitions of one topic and one of another, and things that are no archive."""
    root = tmp_path / "lake"
    root.mkdir()
    write_archive(root, "orders", 0, 10, 30, 35)
    write_archive(root, "orders", 10, 5)
    write_archive(root, "payments.2", 0, 8)
    mark_archive(root, {"orders": {0: 35, 10: 5}, "payments.2": {0: 8}})
    (root / "lost+found").mkdir()
    (root / "orders" / "notes").mkdir()
    return root


def configuration(folder: Path, lake: Path) -> Path:
    """Nobody listens at these brokers: nothing but the store may be asked."""
    return write_yaml(
        folder / "mirror.yaml",
        f"""
clusters: {{east: {{bootstrap-servers: "127.0.0.1:1"}}}}
stores: {{lake: {{type: filesystem, root: {lake}}}}}
mirrors:
  - name: trade
    source: {{cluster: east, topics: ["/ord.*/"]}}
    destinations: [{{type: archive, store: lake}}]
  - name: money
    source: {{cluster: east, topics: [payments]}}
    destinations: [{{type: archive, store: lake}}]
""",
    )


def listed(*arguments: str | Path) -> Ended:
    return mirrorlake("archive", "ls", *arguments, "--format", "json")


def checked(*arguments: str | Path, level: str = "checksums") -> Ended:
    return mirrorlake("archive", "check", *arguments, "--level", level, "--format", "json")


def problems(ended: Ended) -> list[str]:
    return [problem["problem"] for row in ended.rows() for problem in row["problems"]]


def test_ls_says_what_each_partition_holds(lake: Path) -> None:
    (lake / "orders/0" / f"_claim-{35:020}").write_bytes(b"")
    ended = listed("--root", lake)
    assert (ended.code, ended.said) == (0, "")
    assert [(row["name"], row["partition"]) for row in ended.rows()] == [
        ("orders", 0),
        ("orders", 10),
        ("payments.2", 0),
    ]
    row = ended.rows()[0]
    assert list(row) == FIELDS
    files = list((lake / "orders/0").glob("0*"))
    assert row == {
        "name": "orders",
        "partition": 0,
        "store": str(lake),
        "mirror": None,
        "format": "parquet",
        "segments": 3,
        "start": 0,
        "position": 35,
        "bytes": sum(file.stat().st_size for file in files),
        "claims": 1,
        "covered": 0,
        "floor": 0,
        "holds": None,
        "doubt": None,
        "records": 32,  # 35 without 7, 17 and 27
        "gaps": 3,
        "first_time": "2023-11-14T22:13:20.000Z",
        "last_time": "2023-11-14T22:13:54.000Z",
        "problems": [],
    }


def test_ls_can_show_every_file(lake: Path) -> None:
    ended = listed("--root", lake, "--topic", "orders", "--partition", "0", "--segments")
    rows = ended.rows()
    assert [list(row) for row in rows] == [SEGMENT_FIELDS] * 3
    assert [(row["file"], row["start"], row["end"], row["records"], row["gaps"]) for row in rows] == [
        (segment_name(0, 9), 0, 10, 9, 1),
        (segment_name(10, 29), 10, 30, 18, 2),
        (segment_name(30, 34), 30, 35, 5, 0),
    ]
    assert rows[2]["first_time"] == "2023-11-14T22:13:50.000Z"


def test_with_a_configuration_the_folders_of_its_mirrors_are_shown(lake: Path, tmp_path: Path) -> None:
    write_archive(lake, "foreign", 0, 4)
    config = configuration(tmp_path, lake)
    rows = listed("-c", config).rows()
    # payments.2 is where records go after the topic was recreated.
    assert [(row["name"], row["partition"], row["mirror"]) for row in rows] == [
        ("orders", 0, "trade"),
        ("orders", 10, "trade"),
        ("payments.2", 0, "money"),
    ]
    assert [row["name"] for row in listed("-c", config, "--mirror", "money").rows()] == ["payments.2"]


def test_tables_are_for_people(lake: Path) -> None:
    ended = mirrorlake("archive", "ls", "--root", lake)
    assert (ended.code, ended.said) == (0, "")
    assert [line.split()[:3] for line in ended.out.splitlines()[1:]] == [
        ["orders", "0", "parquet"],
        ["orders", "10", "parquet"],
        ["payments.2", "0", "parquet"],
    ]
    sound = mirrorlake("archive", "check", "--root", lake)
    assert [line.split()[-1] for line in sound.out.splitlines()] == ["RESULT", "sound", "sound", "sound"]


@pytest.mark.parametrize("arguments", [(), ("-c", "x.yaml", "--root", "."), ("--root", ".", "--mirror", "a")])
def test_either_a_configuration_or_a_folder_is_asked_for(arguments: tuple[str, ...]) -> None:
    for verb in ("ls", "check"):
        assert mirrorlake("archive", verb, *arguments).code == 2


def test_a_mirror_that_is_not_there_and_a_folder_that_is_not_there_are_said(lake: Path, tmp_path: Path) -> None:
    unknown = listed("-c", configuration(tmp_path, lake), "--mirror", "stocks")
    assert (unknown.code, unknown.out) == (1, "")
    assert "no mirror stocks" in unknown.err
    assert "trade, money" in unknown.err
    absent = checked("--root", lake / "absent")
    assert (absent.code, absent.out) == (1, "")
    assert "does not exist" in absent.err


def test_sound_archives_are_told_so_at_both_levels(lake: Path) -> None:
    for level in ("names", "checksums"):
        ended = checked("--root", lake, level=level)
        assert (ended.code, ended.said) == (0, "")
        assert [list(row) for row in ended.rows()] == [CHECK_FIELDS] * 3
        assert {row["result"] for row in ended.rows()} == {"sound"}


def test_checking_changes_nothing(lake: Path) -> None:
    def state() -> list[tuple[str, int]]:
        return sorted((str(path), path.stat().st_mtime_ns) for path in lake.rglob("*"))

    (lake / "orders/0" / f"_claim-{3:020}").write_bytes(b"")
    before = state()
    checked("--root", lake)
    assert state() == before


def flip_a_value(file: Path) -> None:
    """A file whose pages are whole and whose footer is the old one: only the checksum can tell."""
    table = pq.read_table(file)
    values = table["value"].to_pylist()
    values[0] = values[0][:-1] + b"x"
    metadata = pq.read_metadata(file).metadata
    column = table.schema.get_field_index("value")
    table = table.set_column(column, table.schema.field(column), pa.array(values, pa.large_binary()))
    pq.write_table(table.replace_schema_metadata({**(table.schema.metadata or {}), **metadata}), file)


def flip_a_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 4] ^= 0x40
    file.write_bytes(content)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def empty(file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.parametrize("damage", [flip_a_value, flip_a_byte, cut, empty])
def test_a_changed_file_is_found_by_its_checksum_and_not_by_its_name(lake: Path, damage: Damage) -> None:
    damage(lake / "orders/0" / segment_name(10, 29))
    assert checked("--root", lake, level="names").code == 0
    ended = checked("--root", lake)
    assert ended.code == 1
    assert [row["result"] for row in ended.rows()] == ["broken", "sound", "sound"]
    (problem,) = problems(ended)
    assert f"orders/0/{segment_name(10, 29)}" in problem


def test_a_renamed_file_is_found(lake: Path) -> None:
    folder = lake / "orders/0"
    (folder / segment_name(30, 34)).rename(folder / segment_name(30, 39))
    (problem,) = problems(checked("--root", lake))
    assert "says of itself that it covers [30, 35), its place says that it covers [30, 40)" in problem


ABSURD = segment_name(30, 2**63 - 2)


@pytest.mark.parametrize("name", [segment_name(30, 31), segment_name(30, 39), ABSURD])
@pytest.mark.parametrize("level", ["names", "checksums"])
def test_a_newest_file_under_another_name_is_found_at_every_level_as_its_name_is_the_position(
    lake: Path, level: str, name: str
) -> None:
    folder = lake / "orders/0"
    (folder / segment_name(30, 34)).rename(folder / name)
    ended = checked("--root", lake, level=level)
    assert [row["result"] for row in ended.rows()] == ["broken", "sound", "sound"]
    assert any(name in problem and "covers [30, 35), its place says" in problem for problem in problems(ended))


@pytest.mark.parametrize("content", [b"", b"garbage"])
def test_an_absurd_name_of_nothing_is_no_sound_end(lake: Path, content: bytes) -> None:
    (lake / "orders/0" / segment_name(35, 2**63 - 2)).write_bytes(content)
    ended = checked("--root", lake, level="names")
    (problem,) = problems(ended)
    assert "cannot be read as Parquet" in problem


@pytest.mark.parametrize("level", ["names", "checksums"])
def test_a_covered_file_under_another_ones_name_is_found(lake: Path, level: str) -> None:
    folder = lake / "orders/0"
    shutil.copy(folder / segment_name(10, 29), folder / segment_name(10, 19))
    (problem,) = problems(checked("--root", lake, level=level))
    assert f"{segment_name(10, 19)} says of itself that it covers [10, 30)" in problem


def test_a_covered_file_that_was_changed_or_swapped_is_found_by_its_content(lake: Path, tmp_path: Path) -> None:
    covered = write_segment(lake, "orders", 0, 12, 20)
    assert checked("--root", lake).code == 0
    whole = covered.read_bytes()
    flip_a_byte(covered)
    (problem,) = problems(checked("--root", lake))
    assert covered.name in problem
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    covered.write_bytes(write_segment(elsewhere, "orders", 0, 12, 20, topic="returns").read_bytes())
    (problem,) = problems(checked("--root", lake))
    assert f"{covered.name} holds records of returns-0" in problem
    covered.write_bytes(whole)
    assert checked("--root", lake).code == 0


@pytest.mark.parametrize("other", [{"topic": "returns"}, {"topic_id": "id-2"}, {"cluster_id": "cluster-2"}])
def test_an_archive_that_is_anothers_altogether_is_found_by_the_topics_record(
    lake: Path, tmp_path: Path, other: dict[str, str]
) -> None:
    """Its files agree with one another."""
    root = tmp_path / "elsewhere"
    root.mkdir()
    for start, end in ((0, 10), (10, 30), (30, 35)):
        file = write_segment(root, "orders", 0, start, end, **other)
        shutil.copy(file, lake / "orders/0" / file.name)
    found = problems(checked("--root", lake))
    assert len(found) == 3
    for problem in found:
        assert "the topic's record (_topic.json) says that the folder is of orders-0 of cluster cluster-1" in problem
    right = tmp_path / "right"
    right.mkdir()
    # Of the first one alone the others do not say that they were swapped.
    for file in (write_segment(right, "orders", 0, *ends) for ends in ((10, 30), (30, 35))):
        shutil.copy(file, lake / "orders/0" / file.name)
    (problem,) = problems(checked("--root", lake))
    assert segment_name(0, 9) in problem


def test_a_folder_that_two_topics_share_is_recorded_of_both(lake: Path) -> None:
    write_segment(lake, "orders", 3, 0, 10, topic="returns", topic_id="id-9")
    assert "returns-3" in problems(checked("--root", lake))[0]
    mark_archive(lake, {"orders": {3: 10}}, topic="returns", topic_id="id-9")
    mark_archive(lake, {"orders": {0: 35, 10: 5}})
    assert checked("--root", lake).code == 0


@pytest.mark.parametrize(
    ("topic", "partition", "topic_id", "message"),
    [
        ("orders", 1, "id-1", "holds partition 1, its place says that it holds partition 0"),
        ("returns", 0, "id-1", "holds records of returns-0 .* segments before it of orders-0"),
        ("orders", 0, "id-2", r"topic id id-2\), and the segments before it .*topic id id-1"),
    ],
)
def test_a_file_of_another_partition_topic_or_generation_is_found(
    lake: Path, tmp_path: Path, topic: str, partition: int, topic_id: str, message: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other = write_segment(elsewhere, "orders", partition, 10, 30, topic=topic, topic_id=topic_id)
    shutil.copy(other, lake / "orders/0" / segment_name(10, 29))
    (problem,) = problems(checked("--root", lake))
    assert re.search(message, problem), problem


def test_everything_that_is_wrong_is_listed(lake: Path) -> None:
    folder = lake / "orders/0"
    write_segment(lake, "orders", 0, 40, 50)
    write_segment(lake, "orders", 0, 45, 60)
    (folder / "README").write_text("hello")
    (folder / segment_name(60, 69).replace("parquet", "ndjson")).write_text("")
    (folder / segment_name(0, 9)).unlink()
    cut(folder / segment_name(30, 34))
    (lake / "orders/10" / segment_name(0, 4)).rename(lake / "orders/10" / segment_name(0, 3))
    ended = checked("--root", lake)
    assert ended.code == 1
    assert [len(row["problems"]) for row in ended.rows()] == [6, 2, 0]
    expected = ["instead of at offset 0", "leaves a hole", "overlaps", "is ndjson", "'README'", "cannot be read"]
    expected += ["it covers [0, 4)", "had reached offset 5"]
    for each in expected:
        assert any(each in problem for problem in problems(ended)), (each, problems(ended))
    table = mirrorlake("archive", "check", "--root", lake, "--level", "checksums")
    assert table.code == 1
    assert table.out.count("error") == 8
    assert listed("--root", lake).code == 1


def test_a_merged_and_retired_archive_is_sound(lake: Path) -> None:
    folder = lake / "orders/0"
    write_segment(lake, "orders", 0, 0, 30)
    (folder / segment_name(0, 9)).unlink()
    ended = checked("--root", lake)
    assert (ended.code, ended.rows()[0]["segments"]) == (0, 2)
    (folder / f"_floor-{30:020}").touch()
    (folder / segment_name(0, 29)).unlink()
    (folder / segment_name(10, 29)).unlink()
    ended = checked("--root", lake)
    row = ended.rows()[0]
    assert (ended.code, row["start"], row["position"], row["segments"]) == (0, 30, 35, 1)
    (folder / segment_name(30, 34)).unlink()
    (problem,) = problems(checked("--root", lake, level="names"))
    assert "retention deleted all below offset 30" in problem


def write_v3(lake: Path, starts: Sequence[int]) -> list[Path]:
    return [write_mirror_v3_segment(lake / "v3/0", "v3", 0, start, simple_records(10)) for start in starts]


def test_archives_of_mirror_v3_are_listed_and_checked(lake: Path) -> None:
    files = write_v3(lake, (0, 10, 20))
    ended = checked("--root", lake, "--topic", "v3")
    assert (ended.code, ended.rows()[0]["position"]) == (0, 30)
    row = listed("--root", lake, "--topic", "v3").rows()[0]
    assert (row["segments"], row["records"], row["gaps"], row["first_time"]) == (3, None, None, None)
    shutil.copy(files[0], files[1])  # it has no footer: its offsets tell
    (problem,) = problems(checked("--root", lake, "--topic", "v3"))
    assert "holds offsets 0 to 9, its place says that it covers [10, 20)" in problem


def test_a_file_of_mirror_v3_for_another_partition_is_found_by_its_records(lake: Path) -> None:
    write_v3(lake, (0,))
    other = write_mirror_v3_segment(lake / "other/7", "v3", 7, 10, simple_records(10))
    shutil.move(other, lake / "v3/0" / other.name)
    (problem,) = problems(checked("--root", lake, "--topic", "v3"))
    assert "holds records of v3-7, its place says that it holds partition 0" in problem


@pytest.mark.parametrize("kept", [0, 9])
def test_a_file_of_mirror_v3_without_its_last_records_is_found(lake: Path, kept: int) -> None:
    file = lake / "v3/0" / str(SegmentName(from_offset=0, to_offset=9, extension="ndjson"))
    file.parent.mkdir(parents=True)
    line = '{"topic":"v3","partition":0,"offset":%d,"timestamp_type":"create_time"}\n'
    file.write_text("".join(line % offset for offset in range(10)))
    assert checked("--root", lake, "--topic", "v3").code == 0
    file.write_text("".join(line % offset for offset in range(kept)))
    (problem,) = problems(checked("--root", lake, "--topic", "v3"))
    assert f"{file.name} has no description, and no record of offset 9, with which a file of mirror-v3 ends" in problem


def test_files_that_have_no_checksum_are_said_to_have_none(lake: Path) -> None:
    for start in (0, 10):
        write_segment(lake, "lines", 0, start, start + 10, extension="ndjson")
    assert "no checksum" not in checked("--root", lake, "--topic", "lines").err
    shutil.rmtree(lake / "lines/_meta")
    ended = checked("--root", lake, "--topic", "lines")
    assert ended.code == 0
    assert "lines/0: 2 files have no checksum" in ended.err
    assert "or what described them in lines/_meta is lost" in ended.err
    assert "no checksum" not in checked("--root", lake, "--topic", "lines", level="names").err
