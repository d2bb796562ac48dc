"""The publication protocol and the reading side under every interleaving of writers, merging, retention and crashes.

Every lease, merge and retirement reads the chain as it begins, so a chain that is refused anywhere ends the search.
"""

from functools import partial

import pytest

from mirrorlake.archive.chain import Upkeep, upkeep_of
from mirrorlake.archive.names import SegmentName, parse_segment_name
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.publish import SegmentPublication
from mirrorlake.errors import ChainBrokenError
from mirrorlake.stores.memory import MemoryStore
from unit.archive.publish_model import Search, World
from unit.archive.test_publish_model import Program, archived, leases, publish_planned, run, source_bytes
from unit.archive.upkeep_model import PREFIX, merge, retire

Held = dict[tuple[int, SegmentName], bytes]


def begun(*ends: int) -> World:
    """An archive of segments with these last offsets."""
    starts = (0, *(end + 1 for end in ends[:-1]))
    return frozenset(
        (f"{PREFIX}/{start:020}-{end:020}.parquet", source_bytes(start, end))
        for start, end in zip(starts, ends, strict=True)
    )


def held_by(world: World) -> tuple[Held, int]:
    """Returns the segments of a world by level and name, and its floor; from the keys alone."""
    held: Held = {}
    floor = 0
    for key, content in world:
        folder, _, name = key.rpartition("/")
        if segment := parse_segment_name(name):
            held[int(folder == f"{PREFIX}/level=1"), segment] = content
        elif name.startswith("_floor-"):
            floor = max(floor, int(name[len("_floor-") :]))
    return held, floor


def assert_every_offset_is_held_once(world: World) -> None:
    """Computed without the code under test: from the floor to the position, offset by offset."""
    held, floor = held_by(world)
    position = max((name.end_offset for _, name in held), default=0)
    for (level, name), content in held.items():
        assert content == source_bytes(name.from_offset, name.to_offset)
        if level == 1:
            assert name.end_offset <= position
    for offset in range(floor, position):
        levels = [level for level, name in held if name.from_offset <= offset <= name.to_offset]
        assert levels.count(1) == 1 or levels == [0], (offset, sorted(world))
    # The newest segment of level 0 is where the next writer looks.
    assert position == max((name.end_offset for level, name in held if level == 0), default=0)


def assert_reading_gives_it_all(world: World) -> None:
    """What the reading side makes of a world at rest: a chain without overlap down to the floor, with its bytes."""
    held, floor = held_by(world)
    store = MemoryStore(dict(world))
    archive = archived(store)
    found = archive.read_chain()
    segments = list(archive.segments(found))
    content = b"".join(store.read(f"{PREFIX}/{segment.path}") for segment in segments)
    position = max((name.end_offset for _, name in held), default=0)
    assert found.position == position
    start = segments[0].name.from_offset if segments else 0
    assert found.start_offset == start <= floor
    assert content == source_bytes(start, position - 1)
    assert found.segment_count == len(segments)


def assert_a_writer_goes_on_from(world: World, source_end: int) -> None:
    """No state blocks: a writer left alone copies the rest."""
    archive = archived(MemoryStore(dict(world)))
    for _ in range(source_end):
        position = archive.read_chain().position
        if position < source_end:
            publish_planned(archive.publication(position, writer="last"), position)
    assert archive.read_chain().position == source_end


def assert_sound(search: Search, *, source_end: int) -> None:
    for world in search.worlds:
        assert_every_offset_is_held_once(world)
        assert_reading_gives_it_all(world)
        assert_a_writer_goes_on_from(world, source_end)


def levels_and_floors(search: Search) -> tuple[int, int]:
    """How many merged files and how high a floor the search met, at most: that there was something to find."""
    worlds = [held_by(world) for world in search.worlds]
    return max(sum(level for level, _ in held) for held, _ in worlds), max(floor for _, floor in worlds)


def test_a_writer_beside_merging_and_retention_in_turns() -> None:
    found = run(leases(1, 2, source_end=4), (merge, retire))
    assert len(found.states) > 100_000
    assert levels_and_floors(found) == (1, 3)
    assert_sound(found, source_end=4)


def test_a_writer_beside_merging_and_retention_at_once() -> None:
    found = run(leases(1, source_end=3), (merge,), (retire,))
    assert levels_and_floors(found) == (1, 2)
    assert_sound(found, source_end=3)


def test_two_writers_beside_merging() -> None:
    writers = leases(1, sweeps=False, source_end=3), leases(2, sweeps=False, source_end=4)
    found = run(*writers, (merge,), start=begun(0, 1))
    assert levels_and_floors(found)[0] == 1
    assert_sound(found, source_end=4)


def test_two_writers_beside_retention() -> None:
    writers = leases(1, sweeps=False, source_end=2), leases(2, sweeps=False, source_end=3)
    found = run(*writers, (retire,), start=begun(0))
    assert levels_and_floors(found)[1] == 2
    assert_sound(found, source_end=3)


@pytest.mark.soak
def test_two_writers_beside_merging_and_retention_in_turns() -> None:
    writers = leases(1, sweeps=False, source_end=3), leases(2, sweeps=False, source_end=3)
    assert_sound(run(*writers, (merge, retire), start=begun(0, 1)), source_end=3)


# --- each rule, taken away: the same search finds what it is for ---------------------------------------------------


@pytest.mark.parametrize(
    "housekeeping", [partial(merge, takes_newest=True), partial(retire, takes_newest=True)], ids=["merge", "retire"]
)
def test_without_the_newest_segment_a_chain_is_refused(housekeeping: Program) -> None:
    with pytest.raises(ChainBrokenError):
        assert_sound(run(leases(1, source_end=3), (housekeeping,)), source_end=3)


def test_without_a_floor_a_retired_beginning_is_a_broken_chain() -> None:
    with pytest.raises(ChainBrokenError, match="instead of at offset 0"):
        run(leases(1, source_end=3), (partial(retire, marks_floor=False),))


def test_without_the_merged_files_a_merged_beginning_is_a_broken_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirrorlake.archive.partition.upkeep_of", lambda merged, floors: upkeep_of((), floors))
    with pytest.raises(ChainBrokenError, match="instead of at offset 0"):
        run(leases(1, source_end=3), (merge,))


def test_a_floor_read_before_the_levels_would_be_too_low(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention between the two looks takes a merged file whose floor was not there yet."""

    def floors_first(self: ArchivedPartition) -> Upkeep:
        floors = list(self.store.list(self.prefix, start_after="_floor-"))
        return upkeep_of(self._merged(1), floors)

    monkeypatch.setattr(ArchivedPartition, "_read_upkeep", floors_first)
    with pytest.raises(ChainBrokenError):
        run(leases(1, source_end=4), (merge, retire))


def test_without_claims_the_same_search_finds_overlaps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SegmentPublication, "_settle_claim", lambda self, own: own)
    with pytest.raises(ChainBrokenError, match="overlaps"):
        run(leases(1), leases(2), (retire,))
