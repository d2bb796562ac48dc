"""Holds in several stores: what became of each is told, also where another store refuses."""

from pathlib import Path

import pytest

from mirrorlake.archive.maintenance.holds import lift_hold, read_holds
from mirrorlake.archive.names import HoldName
from mirrorlake.errors import StoreUnusableError
from mirrorlake.service.archives import holding
from mirrorlake.service.archives.places import ArchivePlace
from mirrorlake.stores.object_store import ObjectStore
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import FilesystemSettings

CASE = HoldName(label="case")


@pytest.mark.parametrize("refused", ["read_holds", "lift_hold"])
def test_what_was_lifted_is_told_beside_a_store_that_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    places = [
        ArchivePlace(store=FilesystemSettings(root=tmp_path / each), name="orders", partition=0) for each in "abc"
    ]
    for place in places:
        folder = tmp_path / place.store.where("") / "orders"
        folder.mkdir(parents=True)
        (folder / str(CASE)).write_bytes(b"")
    calls: list[str] = []
    real = {"read_holds": read_holds, "lift_hold": lift_hold}[refused]

    def refuse_the_second(store: ObjectStore, *arguments: object) -> object:
        calls.append(refused)
        if len(calls) == 2:
            raise StoreUnusableError("read-only")
        return real(store, *arguments)  # type: ignore[operator]

    monkeypatch.setattr(holding, refused, refuse_the_second)
    rows = holding.lift(places, "case")
    assert [row.result for row in rows] == ["lifted", "failed", "lifted"]
    assert [row.error is not None for row in rows] == [False, True, False]
    assert [len(read_holds(open_store(place.store), "orders").names) for place in places] == [0, 1, 0]
