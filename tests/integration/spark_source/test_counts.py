"""Counts told by the ends of files: what reading the records tells, or the same error, for every form of an archive."""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from mirrorlake.archive.sidecar import sidecar_key
from mirrorlake.errors import ChainBrokenError, MirrorlakeError
from mirrorlake.spark_source.archive_reading import ArchiveReading
from mirrorlake.spark_source.counting import count_by_partition
from mirrorlake.stores.filesystem import FilesystemStore
from support.archives import write_segment
from support.spark_reads import Read, WatchedStore

GOLDEN = Path(__file__).parents[2] / "golden"
ENDS = ((0, 20), (20, 50), (50, 100))
FORMS = ("parquet", "ndjson", "log")

Counts = Counter[tuple[str, int]]


def write_lake(root: Path, form: str) -> list[Path]:
    """Two partitions of ninety records each."""
    return [
        write_segment(root, "orders", partition, start, end, extension=form)
        for partition in (0, 1)
        for start, end in ENDS
    ]


def options(root: Path, topics: str = "orders", **more: str) -> dict[str, str]:
    return {"store": root.as_uri(), "topics": topics, **more}


def by_reading(given: dict[str, str]) -> Counts:
    return Counter((row["topic"], row["partition"]) for row in Read(given).rows())


def by_ends(given: dict[str, str]) -> tuple[Counts, Counts | None]:
    """As tasks count, and as the driver does."""
    read = Read({**given, "columns": "topic,partition"})
    store = FilesystemStore(Path(given["store"].removeprefix("file://")))
    whole = count_by_partition(ArchiveReading(store=store, names=("partition",)), read.pieces)
    return Counter((row["topic"], row["partition"]) for row in read.rows()), whole


def _nothing(_root: Path, _form: str, _files: list[Path]) -> None:
    pass


def _covered(root: Path, form: str, _files: list[Path]) -> None:
    write_segment(root, "orders", 0, 0, 50, extension=form)


def _retired(root: Path, _form: str, files: list[Path]) -> None:
    (root / "orders/0" / f"_floor-{20:020d}").touch()
    files[0].unlink()


def _retired_and_there(root: Path, _form: str, _files: list[Path]) -> None:
    (root / "orders/0" / f"_floor-{20:020d}").touch()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("change", [_nothing, _covered, _retired, _retired_and_there])
def test_ends_of_files_tell_what_their_records_do(
    tmp_path: Path, form: str, change: Callable[[Path, str, list[Path]], None]
) -> None:
    change(tmp_path, form, write_lake(tmp_path, form))

    counted, whole = by_ends(options(tmp_path))

    assert counted == whole == by_reading(options(tmp_path))
    assert counted[("orders", 1)] == 90


@pytest.mark.parametrize("form", FORMS)
def test_of_a_part_of_a_file_its_records_tell(tmp_path: Path, form: str) -> None:
    write_lake(tmp_path, form)
    part = options(tmp_path, startingOffsets='{"orders": {"0": 5}}', endingOffsets='{"orders": {"0": 60}}')

    counted, whole = by_ends(part)

    assert whole is None
    assert counted == by_reading(part) == {("orders", 0): 49, ("orders", 1): 90}


def test_a_log_whose_last_description_is_lost_is_refused_by_every_way_to_count(tmp_path: Path) -> None:
    """Nothing says which batch was its last one; a restore refuses it as well."""
    files = write_lake(tmp_path, "log")
    (tmp_path / sidecar_key(str(files[2].relative_to(tmp_path)))).unlink()

    for count in (by_ends, by_reading):
        with pytest.raises(ChainBrokenError, match=f"{files[2].name} has no description"):
            count(options(tmp_path))


def test_where_the_last_description_is_lost_records_tell(tmp_path: Path) -> None:
    files = write_lake(tmp_path, "ndjson")
    (tmp_path / sidecar_key(str(files[2].relative_to(tmp_path)))).unlink()

    counted, whole = by_ends(options(tmp_path))

    assert whole is None
    assert counted == by_reading(options(tmp_path))


@pytest.mark.parametrize("form", ["ndjson", "log"])
@pytest.mark.parametrize("columns", ["partition", "partition,offset"])
def test_a_description_that_the_next_file_says_there_was_is_missed_by_every_way_to_count(
    tmp_path: Path, form: str, columns: str
) -> None:
    files = write_lake(tmp_path, form)
    (tmp_path / sidecar_key(str(files[1].relative_to(tmp_path)))).unlink()
    read = Read(options(tmp_path, columns=columns))

    with pytest.raises(ChainBrokenError, match="has no description"):
        read.rows()
    reading = ArchiveReading(store=FilesystemStore(tmp_path), names=("partition",))
    assert count_by_partition(reading, read.pieces) is None, "the driver leaves it to the tasks"


@pytest.mark.parametrize("topic", ["zstd-1", "lz4", "lines"])
def test_files_of_mirror_v3_are_counted_as_they_are_read(topic: str) -> None:
    given = options(GOLDEN / "mirror_v3", topic)

    counted, whole = by_ends(given)

    assert counted == by_reading(given)
    assert whole in (counted, None)
    assert (whole is None) == (topic == "lines"), "lines say nothing of themselves"


@pytest.mark.parametrize("form", FORMS)
def test_what_is_merged_away_between_plan_and_count_is_counted_once(tmp_path: Path, form: str) -> None:
    files = write_lake(tmp_path, form)
    read = Read(options(tmp_path, columns="partition"))
    write_segment(tmp_path, "orders", 0, 0, 50, extension=form)
    for file in files[:2]:
        file.unlink()

    assert len(read.rows()) == 180
    reading = ArchiveReading(store=FilesystemStore(tmp_path), names=("partition",))
    assert count_by_partition(reading, read.pieces) is None, "the driver leaves it to the tasks"


def _hole(files: list[Path]) -> None:
    files[1].unlink()


def _swapped(files: list[Path]) -> None:
    shutil.copy(files[0], files[1])


def _of_another_partition(files: list[Path]) -> None:
    shutil.copy(files[4], files[1])


def _cut(files: list[Path]) -> None:
    files[1].write_bytes(files[1].read_bytes()[:-20])


@pytest.mark.parametrize("harm", [_hole, _swapped, _of_another_partition, _cut])
def test_a_file_that_is_not_what_its_name_says_is_the_same_error(
    tmp_path: Path, harm: Callable[[list[Path]], None]
) -> None:
    harm(write_lake(tmp_path, "parquet"))
    said: list[str] = []
    store = FilesystemStore(tmp_path)

    def of_the_driver() -> None:
        pieces = Read(options(tmp_path, columns="partition")).pieces
        count_by_partition(ArchiveReading(store=store, names=("partition",)), pieces)

    for look in (
        lambda: Read(options(tmp_path)).rows(),
        lambda: Read(options(tmp_path, columns="partition")).rows(),
        of_the_driver,
    ):
        with pytest.raises(ChainBrokenError) as error:
            look()
        said.append(str(error.value))
    assert len(set(said)) == 1


def test_a_store_that_does_not_answer_is_an_error_and_no_zero(tmp_path: Path) -> None:
    write_lake(tmp_path, "parquet")
    pieces = Read(options(tmp_path, columns="partition")).pieces

    def refuse(_key: str) -> None:
        raise MirrorlakeError("no answer")

    store = WatchedStore(FilesystemStore(tmp_path), before_open=refuse)
    with pytest.raises(MirrorlakeError, match="no answer"):
        count_by_partition(ArchiveReading(store=store, names=("partition",)), pieces)


def test_each_file_is_opened_once_and_its_records_are_not_read(tmp_path: Path) -> None:
    write_segment(tmp_path, "orders", 0, 0, 200_000)
    write_segment(tmp_path, "orders", 0, 200_000, 200_050)
    pieces = Read(options(tmp_path, columns="partition")).pieces
    store = WatchedStore(FilesystemStore(tmp_path))

    counts = count_by_partition(ArchiveReading(store=store, names=("partition",)), pieces)

    assert counts == {("orders", 0): 180_045}
    assert sorted(store.opened) == [f"orders/0/{piece.file}" for piece in pieces]
    assert store.bytes_read < sum(path.stat().st_size for path in (tmp_path / "orders/0").iterdir()) / 2


def test_a_count_is_few_tasks_however_much_there_is_and_one_batch_a_partition(tmp_path: Path) -> None:
    write_lake(tmp_path, "parquet")

    read = Read(options(tmp_path, columns="partition", minPartitions="2"))

    assert [len(task.value) for task in read.tasks] == [3, 3]
    assert [batch.num_rows for batch in read.table().to_batches()] == [90, 90]
