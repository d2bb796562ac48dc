"""The file by which a lease is asked to end."""

from pathlib import Path

from mirrorlake.pipeline.recalls import Recalls


def test_a_lease_is_recalled_by_a_file_of_its_own_until_it_is_forgotten(tmp_path: Path) -> None:
    recalls = Recalls(tmp_path)
    assert recalls.reach_workers
    recalls.recall(7)
    recalls.recall(7)
    assert [Path(recalls.file_of(lease)).exists() for lease in (6, 7)] == [False, True]
    recalls.forget(7)
    recalls.forget(7)
    assert list(tmp_path.iterdir()) == []


def test_where_workers_run_elsewhere_nothing_is_recalled() -> None:
    recalls = Recalls(None)
    assert not recalls.reach_workers
    assert recalls.file_of(7) == ""
    recalls.recall(7)
    recalls.forget(7)


def test_a_folder_that_is_gone_costs_the_recall_and_nothing_else(tmp_path: Path) -> None:
    recalls = Recalls(tmp_path / "gone")
    recalls.recall(7)
    recalls.forget(7)
