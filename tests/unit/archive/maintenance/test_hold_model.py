"""Who places a hold beside retention and a merger, in every interleaving and crash, driving the code that does it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from mirrorlake.archive.maintenance.holds import Holds, place_hold, read_holds, topic_folder
from mirrorlake.archive.names import HoldName
from mirrorlake.clock import ManualClock
from mirrorlake.stores.object_store import ObjectStore
from unit.archive.maintenance.keeping_programs import Store, merge_once, retain_one
from unit.archive.publish_model import Search, World
from unit.archive.test_maintenance_model import assert_every_offset_is_held_once, begun, held_by
from unit.archive.test_publish_model import run

TOPIC = "orders"
ALL = HoldName(label="all")
RANGE = HoldName(label="range", partition=0, first=2, last=2)
ANSWERED = "answered-"
"""What a model's holder writes when it has told its user what is held, and from where on."""


def hold(store: Store, *, name: HoldName) -> None:
    (found,) = place_hold(store, TOPIC, name, [0], reason="", clock=ManualClock(), wait=lambda: False)
    if found.is_certain:
        answer = f"{TOPIC}/{ANSWERED}{found.floor}"
        if not any(info.key == answer for info in store.list(TOPIC, start_after=ANSWERED)):
            store.create(answer, b"")


def assert_kept(search: Search, name: HoldName) -> int:
    """Whatever was answered stays true in every later world; returns how many worlds have an answer."""
    answered = 0
    for world in search.worlds:
        floors = [int(key.rpartition("-")[2]) for key, _ in world if f"/{ANSWERED}" in key]
        if floors:
            answered += 1
            _, floor = held_by(world)
            assert floor <= max([*floors, name.offsets.start_offset]), sorted(world)
    return answered


def segments_only(world: World) -> World:
    return frozenset((key, content) for key, content in world if key.startswith(f"{TOPIC}/0/"))


@pytest.mark.parametrize("name", [ALL, RANGE], ids=["topic", "range"])
def test_what_is_answered_to_be_held_is_never_retired(name: HoldName) -> None:
    found = run((partial(hold, name=name),), (partial(retain_one, token="a"),), start=begun(0, 1, 2, 3))
    assert assert_kept(found, name) > 10
    floors = {held_by(world)[1] for world in found.worlds}
    assert floors == {0, 1, 2, 3}, "retention goes on up to the newest where nothing is held"
    for world in {segments_only(world) for world in found.worlds}:
        assert_every_offset_is_held_once(world)


@pytest.mark.soak
def test_two_runs_of_retention_and_a_hold() -> None:
    found = run(
        (partial(hold, name=ALL),),
        (partial(retain_one, token="a"),),
        (partial(retain_one, token="b"),),
        start=begun(0, 1),
    )
    assert len(found.states) > 1_000_000
    assert assert_kept(found, ALL) >= 10


def test_a_merger_beside_a_hold_keeps_every_record() -> None:
    programs: tuple[Callable[[Store], None], ...] = (partial(merge_once, token="m", files_max=3),)
    found = run((partial(hold, name=RANGE),), programs, start=begun(0, 1, 2, 3))
    for world in {segments_only(world) for world in found.worlds}:
        assert_every_offset_is_held_once(world)


def test_without_the_announcement_a_hold_is_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def unannounced(store: ObjectStore, prefix: str, *_: object, **__: object) -> Iterator[Holds]:
        yield read_holds(store, topic_folder(prefix))

    monkeypatch.setattr("mirrorlake.archive.maintenance.retiring.announced", unannounced)
    found = run((partial(hold, name=ALL),), (partial(retain_one, token="a"),), start=begun(0, 1, 2, 3))
    with pytest.raises(AssertionError):
        assert_kept(found, ALL)
