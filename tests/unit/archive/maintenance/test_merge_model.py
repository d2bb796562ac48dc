"""Mergers, retention, writers and readers under every interleaving and crash, driving the code that does it."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from mirrorlake.archive.maintenance.holds import Holds
from mirrorlake.archive.maintenance.look import are_at_odds, look_at
from mirrorlake.archive.maintenance.merge_plan import MergeRules, MergeStep, plan_merge
from mirrorlake.archive.maintenance.publication import MergePublication
from mirrorlake.archive.names import parse_merge_name
from mirrorlake.errors import ChainBrokenError, PositionMovedError
from mirrorlake.stores.memory import MemoryStore
from unit.archive.maintenance.keeping_programs import clean_up, merge_once, read_all, retain_one, rules
from unit.archive.maintenance_model import PREFIX
from unit.archive.publish_model import Search, World
from unit.archive.test_maintenance_model import (
    assert_a_writer_goes_on_from,
    assert_every_offset_is_held_once,
    assert_reading_gives_it_all,
    begun,
    covered_and_floors,
)
from unit.archive.test_publish_model import archived, leases, run, source_bytes


@pytest.fixture(autouse=True)
def _nothing_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """What retention does about holds is tried in `test_hold_model`: here it would make ten times as many states."""

    @contextmanager
    def unannounced(*_: object, **__: object) -> Iterator[Holds]:
        yield Holds()

    monkeypatch.setattr("mirrorlake.archive.maintenance.retiring.announced", unannounced)


first = partial(merge_once, token="a", files_max=2)
shifted = partial(merge_once, token="b", files_max=2, skips=1)
wide = partial(merge_once, token="c", files_max=3)


def without_announcements(world: World) -> World:
    return frozenset((key, content) for key, content in world if not key.startswith(f"{PREFIX}/_merge-"))


def assert_a_merger_finishes_from(world: World) -> None:
    """Left alone, one merger leaves nothing covered, and no announcement but of what was retired in part."""
    store = MemoryStore(dict(world))
    for _ in range(4):
        merge_once(store, token="last", files_max=9)
        clean_up(store)
    look = look_at(archived(store))
    assert not look.covered
    start = look.chain[0].name.from_offset if look.chain else 0
    assert all(each.from_offset < start for each in look.merges), sorted(world)
    assert not plan_merge(look, rules(9), now_seconds=0).groups


def assert_sound(search: Search, *, source_end: int) -> None:
    for world in search.worlds:
        assert_every_offset_is_held_once(world)
        assert_reading_gives_it_all(world)
        assert_a_merger_finishes_from(world)
    for world in {without_announcements(world) for world in search.worlds}:
        assert_a_writer_goes_on_from(world, source_end)


def test_two_mergers_that_want_what_overlaps() -> None:
    found = run((first,), (shifted,), start=begun(0, 1, 2, 3))
    assert len(found.states) > 1_000
    assert covered_and_floors(found)[0] >= 2
    assert_sound(found, source_end=4)


@pytest.mark.soak
def test_two_mergers_that_clean_up_between_their_steps() -> None:
    found = run((first, clean_up), (shifted,), start=begun(0, 1, 2, 3))
    assert len(found.states) > 1_000_000
    assert_sound(found, source_end=4)


@pytest.mark.parametrize("end", [5, pytest.param(6, marks=pytest.mark.soak)])
def test_two_mergers_whose_ranges_are_too_large_together(monkeypatch: pytest.MonkeyPatch, end: int) -> None:
    """What each of them announced is as large as may be: so nobody merges all of it, and nobody stands still."""
    step = MergeStep(min_age_seconds=0, bytes_max=3 * len(source_bytes(0, 0)))
    monkeypatch.setattr(
        "unit.archive.maintenance.keeping_programs.rules",
        lambda files_max: MergeRules(steps=(step,), files_min=2, files_max=files_max, bytes_min=0),
    )
    behind = partial(merge_once, token="d", files_max=end - 3, skips=2)
    found = run((wide,), (behind,), start=begun(*range(end)))
    stuck = 0
    for world in found.worlds:
        assert_every_offset_is_held_once(world)
        assert_reading_gives_it_all(world)
        store = MemoryStore(dict(world))
        for _ in range(4):
            merge_once(store, token="last", files_max=3)
            clean_up(store)
        look = look_at(archived(store))
        assert not look.covered
        assert len(look.chain) < end, "neighbours that both or neither announced became one, or all was"
        stuck += bool(look.merges)
    assert stuck, "what both announced and neither did stays, and is no harm"


def test_two_mergers_of_which_one_cleans_up_and_retires() -> None:
    found = run((first,), (wide, clean_up, retain_one), start=begun(0, 1, 2))
    assert covered_and_floors(found)[1] == 2
    assert_sound(found, source_end=3)


def test_a_merger_beside_a_writer() -> None:
    found = run(leases(1, source_end=4), (first, clean_up), start=begun(0, 1))
    assert covered_and_floors(found)[0] >= 2
    assert_sound(found, source_end=4)


def test_a_merger_beside_retention() -> None:
    found = run((wide, clean_up), (retain_one,), start=begun(0, 1, 2, 3))
    assert covered_and_floors(found)[1] == 3
    assert_sound(found, source_end=4)


def test_a_reader_beside_a_merger_and_retention_reads_every_offset_once() -> None:
    found = run((read_all,), (wide, clean_up, retain_one), start=begun(0, 1, 2))
    assert len(found.states) > 1_000


def test_a_reader_beside_two_mergers_reads_every_offset_once() -> None:
    found = run((read_all,), (first, clean_up, shifted), start=begun(0, 1, 2, 3))
    assert len(found.states) > 1_000


# --- each rule, taken away: the same search finds what it is for ---------------------------------------------------


def test_without_looking_for_other_mergers_two_outputs_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirrorlake.archive.maintenance.publication.are_at_odds", lambda one, other: False)
    with pytest.raises(ChainBrokenError, match="overlaps"):
        run((first,), (shifted,), start=begun(0, 1, 2, 3))


def test_without_looking_at_the_chain_again_two_outputs_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    def announced_only(self: MergePublication) -> None:
        name = f"{PREFIX}/{self._mine}"
        self._archived.store.create(name, b"")
        listing = self._archived.store.list(PREFIX, start_after="_merge-")
        for info in listing:
            other = parse_merge_name(info.name)
            if other is not None and are_at_odds(other.offsets, self._mine.offsets):
                raise PositionMovedError("withdrawn")

    monkeypatch.setattr(MergePublication, "announce", announced_only)
    with pytest.raises(ChainBrokenError, match="overlaps"):
        run((first,), (shifted,), start=begun(0, 1, 2, 3))


def test_without_finishing_what_was_announced_a_merger_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """An announcement of a dead merger is in the way of every range at odds with it, until somebody merges it all."""
    monkeypatch.setattr("mirrorlake.archive.maintenance.merge_plan._announced", lambda *_, **__: ([], set(), set()))
    found = run((first,), (shifted,), start=begun(0, 1, 2, 3))
    with pytest.raises(AssertionError):
        assert_sound(found, source_end=4)
