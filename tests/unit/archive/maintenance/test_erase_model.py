"""Erasers beside mergers, retention, writers and readers under every interleaving and crash, over the real code.

Two things are asked of every world: it is an archive in which every offset is held once; and where an eraser has told
its user that a record is gone, no reader finds it, and one more run of maintenance leaves no byte of it.
"""

import contextlib
from functools import partial

import pytest

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.maintenance.look import look_at
from mirrorlake.archive.maintenance.publication import MergePublication, MergeStepAt
from mirrorlake.archive.names import SegmentName
from mirrorlake.errors import PositionMovedError
from mirrorlake.stores.crash_points import CrashPoint, no_crash
from mirrorlake.stores.memory import MemoryStore
from mirrorlake.stores.object_store import ObjectMissingError
from unit.archive.maintenance.erasing_programs import (
    SAID,
    VICTIM,
    Store,
    clean,
    erase_once,
    merge_reading,
    read_inputs,
    say,
)
from unit.archive.maintenance.keeping_programs import retain_one, retain_to
from unit.archive.maintenance_model import PREFIX, is_inside_another
from unit.archive.publish_model import Search, World
from unit.archive.test_maintenance_model import begun, held_by
from unit.archive.test_publish_model import archived, leases, run, source_bytes

first = partial(erase_once, token="a")
second = partial(erase_once, token="b")
other_key = partial(erase_once, token="c", victim=b"record 2\n", erased=b"erased 2\n", said="said/other")
merger = partial(merge_reading, token="m", files_max=2)
shifted = partial(merge_reading, token="n", files_max=2, skips=1)
wide = partial(merge_reading, token="w", files_max=3)


def unerased(content: bytes) -> bytes:
    """What was there before anything was erased."""
    return content.replace(b"erased", b"record")


def chain_of(world: World) -> dict[SegmentName, bytes]:
    """The segments that count, computed without the code under test."""
    held, floor = held_by(world)
    names = [name for name in held if name.end_offset > floor]
    return {name: held[name] for name in sorted(names) if not is_inside_another(name, names)}


def is_said(world: World, said: str = SAID) -> bool:
    return any(key == said for key, _ in world)


def assert_whole(world: World) -> None:
    """Every offset once, as record or as erased, and nothing else."""
    held, floor = held_by(world)
    for name, content in held.items():
        assert unerased(content) == source_bytes(name.from_offset, name.to_offset)
    position = max((name.end_offset for name in held), default=0)
    chain = list(chain_of(world))
    for offset in range(floor, position):
        assert sum(name.from_offset <= offset <= name.to_offset for name in chain) == 1, sorted(world)
    store = MemoryStore(dict(world))
    found = archived(store).read_chain()
    assert found.position == position
    # What was retired and is still there is read as long as nothing is missing.
    assert [each.name for each in archived(store).segments(found) if each.name.end_offset > floor] == chain


def assert_gone(world: World, victim: bytes, said: str) -> None:
    """What was said to be gone is not read by anybody, and lies nowhere once somebody has cleaned up."""
    if not is_said(world, said):
        return
    assert not any(victim in content for content in chain_of(world).values()), sorted(world)
    store = MemoryStore(dict(world))
    clean(store)
    assert not any(victim in content for content in store.objects.values()), sorted(world)


def assert_an_eraser_finishes_from(world: World, victim: bytes = VICTIM, said: str = SAID) -> None:
    """Left alone, an eraser gets there, unless the record lies in the newest segment or has no neighbour."""
    objects = {key: content for key, content in world if not key.startswith((f"{PREFIX}/_merge-", "said/"))}
    store = MemoryStore(objects)
    for _ in range(4):
        erase_once(store, token="last", victim=victim, erased=victim.replace(b"record", b"erased"), said=said)
    held = [name for name, content in chain_of(frozenset(store.objects.items())).items() if victim in content]
    chain = [segment.name for segment in look_at(archived(store)).chain]
    assert not held or held == [chain[-1]] or (len(chain) == 2 and held == [chain[0]]), sorted(world)
    assert is_said(frozenset(store.objects.items()), said) or held


def assert_sound(search: Search) -> None:
    for world in search.worlds:
        assert_whole(world)
        assert_gone(world, VICTIM, SAID)
        assert_gone(world, b"record 2\n", "said/other")
        assert_an_eraser_finishes_from(world)
    assert any(is_said(world) for world in search.worlds)


def test_an_eraser_alone_killed_anywhere() -> None:
    assert_sound(run((first,), start=begun(0, 1, 2, 3)))


def test_an_eraser_beside_a_merger_that_is_killed_or_slow() -> None:
    found = run((first,), (merger,), start=begun(0, 1, 2))
    assert len(found.states) > 1_000
    assert_sound(found)


def test_an_eraser_beside_a_merger_whose_range_holds_all() -> None:
    assert_sound(run((first,), (wide,), start=begun(0, 1, 2, 3)))


def test_an_eraser_beside_a_merger_that_wants_what_overlaps() -> None:
    assert_sound(run((first,), (shifted,), start=begun(0, 1, 2, 3)))


@pytest.mark.soak
def test_an_eraser_beside_two_mergers_of_which_one_is_slow() -> None:
    assert_sound(run((first,), (merger,), (wide,), start=begun(0, 1, 2)))


def test_two_erasers_of_one_key() -> None:
    assert_sound(run((first,), (second,), start=begun(0, 1, 2)))


def test_two_erasers_of_two_keys_of_which_one_has_to_wait() -> None:
    """What the first leaves has no neighbour but the newest segment."""
    found = run((first,), (other_key,), start=begun(1, 2, 3))
    for world in found.worlds:
        assert_whole_without_claims(world)
        assert_gone(world, b"record 2\n", "said/other")


@pytest.mark.soak
def test_two_erasers_of_two_keys_bring_nothing_back() -> None:
    found = run((first,), (other_key,), start=begun(0, 1, 2, 3))
    assert any(is_said(world) and is_said(world, "said/other") for world in found.worlds)
    assert_sound(found)


def test_an_eraser_beside_a_writer() -> None:
    found = run((first,), leases(1, source_end=4), start=begun(0, 1))
    for world in found.worlds:
        assert_whole_without_claims(world)
    assert any(is_said(world) for world in found.worlds)


def assert_whole_without_claims(world: World) -> None:
    assert_whole(world)
    assert_gone(world, VICTIM, SAID)


@pytest.mark.parametrize("floor", [1, 2])
def test_an_eraser_beside_retention_of_what_lies_before_and_of_what_it_erases(floor: int) -> None:
    found = run((first,), (partial(retain_to, floor=floor),), start=begun(0, 1, 2))
    for world in found.worlds:
        assert_whole_without_claims(world)
    assert any(is_said(world) for world in found.worlds)


@pytest.mark.soak
def test_an_eraser_beside_retention_that_takes_one_segment_after_another() -> None:
    found = run((first,), (retain_one,), start=begun(0, 1, 2))
    for world in found.worlds:
        assert_whole_without_claims(world)


def test_a_reader_beside_an_eraser_meets_every_other_offset_once() -> None:
    assert len(run((read_all,), (first, merger), start=begun(0, 1, 2, 3)).states) > 1_000


def read_all(store: Store) -> None:
    """A restore: reads to the position it found; the victim it meets once at most, every other record once."""
    archive = archived(store)
    read = b""
    position = 0
    while True:
        try:
            chain = archive.read_chain()
            for segment in archive.segments(chain):
                if segment.name.end_offset <= position:
                    continue
                content = store.read(f"{archive.prefix}/{segment.name}")
                lines = content.splitlines(keepends=True)
                assert segment.name.from_offset <= position, "offsets were passed over"
                read += b"".join(lines[position - segment.name.from_offset :])
                position = segment.name.end_offset
        except (PositionMovedError, ObjectMissingError):
            continue
        assert unerased(read) == source_bytes(0, chain.position - 1)
        return


# --- each rule, taken away: the same search finds what it is for ---------------------------------------------------


def assert_finds_it(*programs: tuple[object, ...], start: World) -> None:
    found = run(*programs, start=start)  # type: ignore[arg-type]
    with pytest.raises(AssertionError):
        assert_sound(found)


def test_without_asking_for_the_inputs_by_name_a_slow_merger_brings_the_record_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The eraser was done before the merger announced anything: only the names of what that read show it."""

    class SameRange(tuple[SegmentName, ...]):
        def __eq__(self, other: object) -> bool:
            return True

        def __ne__(self, other: object) -> bool:
            return False

        __hash__ = tuple.__hash__

    original = MergePublication.__init__

    def lenient(self: MergePublication, *arguments: object, **options: object) -> None:
        original(self, *arguments, **options)  # type: ignore[arg-type]
        self._inputs = SameRange(self._inputs)

    monkeypatch.setattr(MergePublication, "__init__", lenient)
    assert_finds_it((first,), (wide,), start=begun(0, 1, 2, 3))


def test_without_waiting_for_one_another_a_merger_brings_the_record_back(monkeypatch: pytest.MonkeyPatch) -> None:
    from mirrorlake.archive.maintenance import publication

    def at_odds_only(other: object, mine: object, *, is_live: bool) -> bool:
        return publication.are_at_odds(other.offsets, mine.offsets)  # type: ignore[attr-defined]

    monkeypatch.setattr(publication, "_is_in_the_way", at_odds_only)
    monkeypatch.setattr(MergePublication, "confirm", lambda self: None)
    assert_finds_it((first,), (wide,), start=begun(0, 1, 2, 3))


def erase_inside_of_three(store: MemoryStore) -> None:
    """Two erasers of segments that both have read: the narrower one runs when the wider one is about to publish."""
    chain = look_at(archived(store)).chain

    def publish(inputs: tuple[Segment, ...], token: str, crash_point: CrashPoint = no_crash) -> MergePublication:
        content = read_inputs(archived(store), inputs)
        assert content is not None
        publication = MergePublication(
            archived(store), inputs, token=token, erases=True, now_seconds=lambda: 0.0, crash_point=crash_point
        )
        staged = publication.stage()
        staged.file.write(content.replace(VICTIM, b"erased 1\n") if token == "a" else content)
        publication.announce()
        assert publication.publish(staged)
        return publication

    def run_inside(step: str) -> None:
        if step == MergeStepAt.PUBLISH:
            with contextlib.suppress(PositionMovedError):
                publish(chain[1:3], "a").confirm()
                say(store, SAID)

    publish(chain[:3], "t", run_inside)


def test_an_eraser_inside_of_a_wider_range_that_is_announced_does_not_call_its_record_gone() -> None:
    store = MemoryStore(dict(begun(0, 1, 2, 3)))
    erase_inside_of_three(store)
    assert SAID not in store.objects
    assert any(VICTIM in content for content in chain_of(frozenset(store.objects.items())).values())


def test_without_confirming_it_says_so_and_the_wider_one_brings_the_record_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of two erasers one inside the other waits for nobody, and both have looked before either published."""
    monkeypatch.setattr(MergePublication, "confirm", lambda self: None)
    store = MemoryStore(dict(begun(0, 1, 2, 3)))
    erase_inside_of_three(store)
    assert SAID in store.objects
    assert any(VICTIM in content for content in chain_of(frozenset(store.objects.items())).values())
