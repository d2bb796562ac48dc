"""The files by which a lease is asked to end, and says how far it is."""

from pathlib import Path

from mirrorlake.mirror.lease_message import write_message
from mirrorlake.pipeline.lease_files import LeaseFiles


def test_a_lease_is_recalled_by_a_file_of_its_own_until_it_is_forgotten(tmp_path: Path) -> None:
    files = LeaseFiles(tmp_path)
    assert files.reach_workers
    files.recall(7)
    files.recall(7)
    assert [Path(files.recall_file_of(lease)).exists() for lease in (6, 7)] == [False, True]
    Path(files.progress_file_of(7)).touch()
    files.forget(7)
    files.forget(7)
    assert list(tmp_path.iterdir()) == []


def test_what_a_full_disk_left_of_writing_a_file_is_removed_with_it(tmp_path: Path) -> None:
    files = LeaseFiles(tmp_path)
    for file in (files.progress_file_of(7), files.renewal_file_of(7)):
        Path(file).mkdir()  # what is written cannot take its place
        assert not write_message(file, "a value")
        Path(file).rmdir()
    assert len(list(tmp_path.iterdir())) == 2
    files.forget(7)
    assert list(tmp_path.iterdir()) == []


def test_where_workers_run_elsewhere_nothing_is_recalled() -> None:
    files = LeaseFiles(None)
    assert not files.reach_workers
    assert (files.recall_file_of(7), files.progress_file_of(7)) == ("", "")
    files.recall(7)
    files.forget(7)


def test_a_folder_that_is_gone_costs_the_recall_and_nothing_else(tmp_path: Path) -> None:
    files = LeaseFiles(tmp_path / "gone")
    files.recall(7)
    files.forget(7)
