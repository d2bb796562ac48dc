"""The publication protocol and the reading side under every interleaving of writers, merging, retention and crashes.

Every lease, merge and retirement reads the chain as it begins, so a chain that is refused anywhere ends the search.
"""

from collections.abc import Iterable, Iterator
from functools import partial

import pytest

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.names import SegmentName, parse_segment_name
from mirrorlake.archive.publish import SegmentPublication
from mirrorlake.errors import ChainBrokenError
from mirrorlake.stores.memory import MemoryStore
from unit.archive.maintenance_model import PREFIX, is_inside_another, merge, retire
from unit.archive.publish_model import Search, World
from unit.archive.sample_records import ORIGIN
from unit.archive.test_publish_model import archived, leases, publish_planned, run, source_bytes

Held = dict[SegmentName, bytes]


def begun(*ends: int) -> World:
    """An archive of segments with these last offsets."""
    starts = (0, *(end + 1 for end in ends[:-1]))
    return frozenset(
        (f"{PREFIX}/{start:020}-{end:020}.parquet", source_bytes(start, end))
        for start, end in zip(starts, ends, strict=True)
    )


def held_by(world: World) -> tuple[Held, int]:
    """Returns the segments of a world by name, and its floor; from the keys alone."""
    held: Held = {}
    floor = 0
    for key, content in world:
        name = key.rpartition("/")[2]
        if segment := parse_segment_name(name):
            held[segment] = content
        elif name.startswith("_floor-"):
            floor = max(floor, int(name[len("_floor-") :]))
    return held, floor


def assert_every_offset_is_held_once(world: World) -> None:
    """Computed without the code under test: from the floor to the position, offset by offset."""
    held, floor = held_by(world)
    position = max((name.end_offset for name in held), default=0)
    for name, content in held.items():
        assert content == source_bytes(name.from_offset, name.to_offset)
    largest = [name for name in held if not is_inside_another(name, list(held))]
    for offset in range(floor, position):
        holding = [name for name in largest if name.from_offset <= offset <= name.to_offset]
        assert len(holding) == 1, (offset, sorted(world))
    # The newest segment is where the next writer looks: nothing larger stands for it.
    newest = [name for name in held if name.end_offset == position]
    assert len(newest) == bool(position), sorted(world)


def assert_reading_gives_it_all(world: World) -> None:
    """What the reading side makes of a world at rest: a chain without overlap down to the floor, with its bytes."""
    held, floor = held_by(world)
    store = MemoryStore(dict(world))
    archive = archived(store)
    found = archive.read_chain()
    segments = list(archive.segments(found))
    content = b"".join(store.read(f"{PREFIX}/{segment.name}") for segment in segments)
    position = max((name.end_offset for name in held), default=0)
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
            publish_planned(archive.publication(position, origin=ORIGIN, writer="last"), position)
    assert archive.read_chain().position == source_end


def assert_sound(search: Search, *, source_end: int) -> None:
    for world in search.worlds:
        assert_every_offset_is_held_once(world)
        assert_reading_gives_it_all(world)
        assert_a_writer_goes_on_from(world, source_end)


def covered_and_floors(search: Search) -> tuple[int, int]:
    """How many covered segments and how high a floor the search met, at most: that there was something to find."""
    worlds = [held_by(world) for world in search.worlds]
    covered = (sum(is_inside_another(name, list(held)) for name in held) for held, _ in worlds)
    return max(covered), max(floor for _, floor in worlds)


def test_a_writer_beside_merging_and_retention_in_turns() -> None:
    found = run(leases(1, 2, source_end=4), (merge, retire))
    assert len(found.states) > 100_000
    assert covered_and_floors(found) == (3, 3)
    assert_sound(found, source_end=4)


def test_a_writer_beside_merging_and_retention_at_once() -> None:
    found = run(leases(1, source_end=3), (merge,), (retire,))
    assert covered_and_floors(found) == (2, 2)
    assert_sound(found, source_end=3)


def test_two_writers_beside_merging() -> None:
    writers = leases(1, sweeps=False, source_end=3), leases(2, sweeps=False, source_end=4)
    found = run(*writers, (merge,), start=begun(0, 1))
    assert covered_and_floors(found)[0] == 3
    assert_sound(found, source_end=4)


def test_two_writers_beside_retention() -> None:
    writers = leases(1, sweeps=False, source_end=2), leases(2, sweeps=False, source_end=3)
    found = run(*writers, (retire,), start=begun(0))
    assert covered_and_floors(found)[1] == 2
    assert_sound(found, source_end=3)


@pytest.mark.soak
def test_two_writers_beside_merging_and_retention_in_turns() -> None:
    writers = leases(1, sweeps=False, source_end=3), leases(2, sweeps=False, source_end=3)
    assert_sound(run(*writers, (merge, retire), start=begun(0, 1)), source_end=3)


# --- each rule, taken away: the same search finds what it is for ---------------------------------------------------


def test_without_the_newest_segment_a_retired_chain_is_refused() -> None:
    with pytest.raises(ChainBrokenError):
        assert_sound(run(leases(1, source_end=3), (partial(retire, takes_newest=True),)), source_end=3)


@pytest.mark.parametrize(("looks_behind", "complaint"), [(False, "overlaps"), (True, "it was the last segment")])
def test_a_merge_that_takes_the_newest_segment_lets_a_late_writer_overlap_it_or_stops_it(
    looks_behind: bool, complaint: str
) -> None:
    """Whoever read the position before it looks for what was published since, and finds no name that says so."""
    writers = [leases(length, source_end=end, looks_behind=looks_behind) for length, end in ((1, 3), (2, 4))]
    with pytest.raises(ChainBrokenError, match=complaint):
        run(*writers, (partial(merge, takes_newest=True),), start=begun(0))


def test_without_a_floor_a_retired_beginning_is_a_broken_chain() -> None:
    with pytest.raises(ChainBrokenError, match="instead of at offset 0"):
        run(leases(1, source_end=3), (partial(retire, marks_floor=False),))


def test_without_the_rule_of_the_larger_one_a_merge_is_an_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    def as_they_are(segments: Iterable[Segment]) -> Iterator[Segment]:
        return iter(segments)

    monkeypatch.setattr("mirrorlake.archive.chain.uncovered", as_they_are)
    with pytest.raises(ChainBrokenError, match="overlaps"):
        run(leases(1, source_end=3), (merge,))


def test_without_claims_the_same_search_finds_overlaps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SegmentPublication, "_settle_claim", lambda self, own: own)
    with pytest.raises(ChainBrokenError, match="overlaps"):
        run(leases(2, 2, source_end=4), leases(3, source_end=4), (retire,))
