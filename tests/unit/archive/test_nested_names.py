"""Partition folders are found below names of several folders, and nothing of our own is taken for one."""

from pathlib import Path

from mirrorlake.archive.inspection import archived_folders
from mirrorlake.stores.filesystem import FilesystemStore


def test_names_of_several_folders_are_found_and_what_is_our_own_is_not(tmp_path: Path) -> None:
    for folder in ("b/0", "a/0", "a/12", "a/team/3", "a/team/_meta/3", "a/_meta/0", "_schemas/1", "_own/topics/7"):
        (tmp_path / folder).mkdir(parents=True)

    found = list(archived_folders(FilesystemStore(tmp_path), pass_over=lambda name, error: None))

    assert found == [("_schemas", 1), ("a", 0), ("a", 12), ("a/team", 3), ("b", 0)]
