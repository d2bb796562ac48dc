"""What somebody types on the first day, and what the command line says to it."""

import json
from pathlib import Path

import pytest

from support.archives import write_archive
from support.command import without_spark as mirrorlake


def configured(folder: Path, root: Path) -> Path:
    file = folder / "mirror.yaml"
    file.write_text(
        'clusters: {east: {bootstrap-servers: "127.0.0.1:1"}}\n'
        f"stores: {{lake: {{type: filesystem, root: {root}}}}}\n"
        "mirrors:\n"
        "  - name: m\n"
        "    source: {cluster: east, topics: [orders]}\n"
        "    destinations: [{type: archive, store: lake}]\n"
    )
    return file


@pytest.mark.parametrize("verb", ["ls", "check"])
def test_an_archive_verb_without_a_place_names_both_ways_to_give_one(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MIRRORLAKE_CONFIG", raising=False)
    ended = mirrorlake("archive", verb)
    assert ended.code == 2
    assert "--config" in ended.err
    assert "--root" in ended.err


def test_a_listing_of_nothing_says_where_nothing_was(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    said = f"note nothing is archived in {lake}"
    for arguments in (("--root", lake), ("-c", configured(tmp_path, lake))):
        ended = mirrorlake("archive", "ls", *arguments)
        assert ended.code == 0
        assert said in ended.out
        assert json.loads(mirrorlake("archive", "ls", *arguments, "--format", "json").out) == []


def test_a_listing_of_something_says_nothing_of_the_kind(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    write_archive(lake, "orders", 0, 10)
    assert "note" not in mirrorlake("archive", "ls", "--root", lake).out
    narrowed = mirrorlake("archive", "ls", "--root", lake, "--topic", "other").out
    assert f"note nothing that was asked for is archived in {lake}" in narrowed
