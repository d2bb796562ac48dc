"""Erasers of snapshots beside writers of the next one, readers and one another: every interleaving, every crash.

A view is text here, a line for each record; the names, claims, announcements and holds are the real code's. Asked of
every world: a whole newest snapshot is there; and where an eraser has told its user that a record is gone, nobody reads
it from a snapshot that counts, and one more run leaves no byte of it.
"""

import contextlib
from functools import partial

import pytest

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.envelope import FileSum, SegmentEnvelope, SegmentFooter, SnapshotState
from mirrorlake.archive.formats.summing_file import sum_of
from mirrorlake.archive.maintenance import snapshot_publication
from mirrorlake.archive.maintenance.snapshot_erase_plan import plan_snapshot_erasure
from mirrorlake.archive.maintenance.snapshot_publication import (
    SnapshotPublication,
    clean_snapshots,
    may_be_followed_by,
)
from mirrorlake.archive.names import SegmentName, parse_segment_name
from mirrorlake.archive.publish import Claimed
from mirrorlake.archive.snapshots.chain import replacing_name
from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.clock import ManualClock
from mirrorlake.errors import PositionMovedError
from mirrorlake.stores.memory import MemoryStore
from mirrorlake.stores.object_store import ObjectMissingError, ObjectStore
from unit.archive.maintenance.erasing_programs import SAID, VICTIM, Store, say
from unit.archive.publish_model import Search, World
from unit.archive.sample_records import ORIGIN
from unit.archive.test_publish_model import run, source_bytes

PREFIX = "orders/0"
OTHER = b"record 2\n"


@pytest.fixture(autouse=True)
def views_are_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Parquet files say of themselves: a view that lacks a record was erased from."""

    def footer(store: ObjectStore, prefix: str, snapshot: Segment) -> SegmentFooter:
        content = store.read(f"{prefix}/{snapshot.name}")
        erased = snapshot.name.end_offset - content.count(b"\n")
        return footer_saying(SnapshotState(complete_since_ms=0, erased=erased))

    monkeypatch.setattr(snapshot_publication, "read_snapshot_footer", footer)
    monkeypatch.setattr(snapshot_publication, "check_replacing", lambda folder, snapshot: None)


def footer_saying(state: SnapshotState) -> SegmentFooter:
    envelope = SegmentEnvelope(
        cluster_id="", topic_id=None, topic="orders", partition=0, start_offset=0, writer="", created_at=""
    )
    return SegmentFooter(
        envelope=envelope,
        end_offset=1,
        records=0,
        raw_bytes=0,
        first_offset=None,
        last_offset=None,
        timestamp_ms_min=None,
        timestamp_ms_max=None,
        gap_offsets={},
        gaps=(),
        gaps_complete=True,
        checksum="",
        snapshot=state,
    )


def folder_in(store: Store) -> SnapshotPartition:
    return SnapshotPartition(store, destination_name="orders", partition=0, extension="parquet")


# --- what runs -----------------------------------------------------------------------------------------------------


def write_next(store: Store, *, length: int = 1, source_end: int = 4, looks_behind: bool = True) -> None:
    """One lease of a mirror: the newest view and what came since are the next one."""
    folder = folder_in(store)
    chain = folder.read_chain()
    folder.sweep(chain)
    if chain.position >= source_end or chain.tail is None:
        return
    pending = folder.pending_claim(chain, origin=ORIGIN)
    last = pending.to_offset if pending else min(chain.position + length, source_end) - 1
    publication = folder.publication(chain.position, origin=ORIGIN, writer="writer")
    staged = publication.stage()
    with contextlib.suppress(PositionMovedError):
        staged.file.write(store.read(f"{PREFIX}/{chain.tail.name}") + source_bytes(chain.position, last))
        outcome = publication.claim(last, raw_bytes=1, behind=chain.tail if looks_behind else None)
        if isinstance(outcome, Claimed):
            publication.publish(staged, confirm_equal=lambda key: None)
            publication.release()


def erase_all(store: Store, *, token: str, victim: bytes = VICTIM, said: str = SAID) -> None:
    """One run of an eraser: all snapshots that hold the record, and what it tells its user."""
    folder = folder_in(store)
    clean(store, token)
    replaced = [each for each, _ in folder.replaced()]
    snapshots = folder.snapshots()
    held = {}
    for snapshot in [*replaced, *snapshots]:
        try:
            content = store.read(f"{PREFIX}/{snapshot.name}")
        except ObjectMissingError:
            return  # run again
        if victim in content:
            held[snapshot.name] = content
    plan = plan_snapshot_erasure(snapshots, replaced, held)
    try:
        for group in plan.groups:
            replace_one(store, folder, group.inputs[0], held[group.inputs[0].name].replace(victim, b""), token)
        if plan.waiting:
            return
        held_keys = snapshots[-1].name in held
        if may_be_followed_by(folder, snapshots[-1], held_keys=held_keys, now_seconds=0.0) is None:
            say(store, said)
    except PositionMovedError:
        return


def replace_one(store: Store, folder: SnapshotPartition, snapshot: Segment, content: bytes, token: str) -> None:
    name = replacing_name(snapshot.name)
    publication = SnapshotPublication(folder, snapshot, name, token=token, clock=ManualClock())
    if name is None:
        publication.replace(None, None, record=lambda: None)
        return
    staged = store.stage(PREFIX, "erase")
    staged.file.write(content)
    publication.replace(staged, sum_of_bytes(content), record=lambda: None)


def sum_of_bytes(content: bytes) -> FileSum:
    store = MemoryStore({"a/b": content})
    with store.open("a/b") as file:
        return sum_of(file)


def clean(store: Store, token: str = "clean") -> None:
    clean_snapshots(folder_in(store), token=token, now_seconds=0.0)


def read_newest(store: Store) -> None:
    """A restore of the newest snapshot: it meets a whole one, or begins anew."""
    chain = folder_in(store).read_chain()
    assert chain.tail is not None
    try:
        content = store.read(f"{PREFIX}/{chain.tail.name}")
    except ObjectMissingError:
        return
    assert lines_of(content) >= set(range(chain.position)) - {1, 2}


first = partial(erase_all, token="a")
second = partial(erase_all, token="b")
other_key = partial(erase_all, token="c", victim=OTHER, said="said/other")


# --- what is asked -------------------------------------------------------------------------------------------------


def begun(*ends: int) -> World:
    """Snapshots that end at these offsets, exclusive."""
    starts = (0, *ends)
    names = [
        SegmentName(from_offset=a, to_offset=b - 1, extension="parquet") for a, b in zip(starts, ends, strict=False)
    ]
    return frozenset((f"{PREFIX}/{name}", source_bytes(0, name.to_offset)) for name in names)


def lines_of(content: bytes) -> set[int]:
    return {int(line.split()[1]) for line in content.splitlines()}


def held_by(world: World) -> dict[SegmentName, bytes]:
    found = [(parse_segment_name(key.rpartition("/")[2]), content) for key, content in sorted(world)]
    return {name: content for name, content in found if name is not None}


def counting(world: World) -> dict[int, bytes]:
    """The snapshots that count by their ends, told without the code under test."""
    return {name.end_offset: content for name, content in sorted(held_by(world).items())}


def assert_whole(world: World) -> None:
    for name, content in held_by(world).items():
        missing = set(range(name.end_offset)) - lines_of(content)
        assert missing <= {1, 2}, sorted(world)
        assert content == b"".join(line for line in source_bytes(0, name.to_offset).splitlines(True) if line in content)
    folder = folder_in(MemoryStore(dict(world)))
    position = max(counting(world))
    chain = folder.read_chain()
    assert chain.tail is not None
    assert (chain.position, chain.tail.name.end_offset) == (position, position)
    assert dict(world)[f"{PREFIX}/{chain.tail.name}"] == counting(world)[position]


def assert_gone(world: World, victim: bytes, said: str) -> None:
    if not any(key == said for key, _ in world):
        return
    assert not any(victim in content for content in counting(world).values()), sorted(world)
    store = MemoryStore(dict(world))
    clean(store)
    assert not any(victim in content for content in store.objects.values()), sorted(world)


def assert_an_eraser_finishes_from(world: World) -> None:
    """Left alone, once the claims of dead writers are passed, unless the newest snapshot is of one offset."""
    store = MemoryStore({key: content for key, content in world if "/_claim" not in key and not key.startswith("said")})
    for number in range(4):
        erase_all(store, token=f"last{number}")
    left = {name for name, content in held_by(frozenset(store.objects.items())).items() if VICTIM in content}
    newest = folder_in(store).snapshots()[-1].name
    assert not left or (left == {newest} and newest.from_offset == newest.to_offset), sorted(store.objects)
    assert left or SAID in store.objects


def assert_sound(search: Search) -> None:
    for world in search.worlds:
        assert_whole(world)
        assert_gone(world, VICTIM, SAID)
        assert_gone(world, OTHER, "said/other")
        assert_an_eraser_finishes_from(world)
    assert any(SAID in dict(world) for world in search.worlds)


def test_an_eraser_alone_killed_anywhere() -> None:
    assert_sound(run((first,), start=begun(3)))


def test_older_snapshots_are_rewritten_and_one_of_a_single_offset_goes() -> None:
    found = run((first,), start=begun(2, 3, 5))
    assert_sound(found)
    names = [sorted(map(str, held_by(world))) for world in found.worlds if SAID in dict(world)]
    assert [f"{1:020}-{1:020}.parquet", f"{4:020}-{4:020}.parquet"] in names


def test_an_eraser_beside_the_writer_of_the_next_snapshot() -> None:
    found = run((first,), (write_next,), start=begun(3))
    assert len(found.states) > 500
    assert_sound(found)


@pytest.mark.soak
def test_an_eraser_beside_writers_with_different_cuts() -> None:
    cuts = (partial(write_next, source_end=5), partial(write_next, length=2, source_end=5))
    assert_sound(run((first,), cuts, start=begun(3)))


def test_two_erasers_of_one_key() -> None:
    assert_sound(run((first,), (second,), start=begun(3)))


@pytest.mark.soak
def test_two_erasers_of_two_keys_bring_nothing_back() -> None:
    found = run((first,), (other_key,), start=begun(3))
    assert any({SAID, "said/other"} <= dict(world).keys() for world in found.worlds)
    assert_sound(found)


def test_a_reader_beside_an_eraser_meets_a_whole_view() -> None:
    run((read_newest,), (first,), start=begun(3))


# --- each rule, taken away: the same search finds what it is for ---------------------------------------------------


def assert_finds_it(*programs: tuple[object, ...], start: World) -> None:
    found = run(*programs, start=start)  # type: ignore[arg-type]
    with pytest.raises(AssertionError):
        assert_sound(found)


def test_without_asking_for_claims_a_slow_writer_brings_the_record_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_publication, "live_claims", lambda *_, **__: [])
    assert_finds_it((first,), (write_next,), start=begun(3))


def test_without_looking_for_what_was_written_meanwhile_the_record_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    original = SnapshotPartition.snapshots

    def up_to_the_start(self: SnapshotPartition) -> list[Segment]:
        return [each for each in original(self) if each.name.end_offset <= 3]

    monkeypatch.setattr(SnapshotPartition, "snapshots", up_to_the_start)
    assert_finds_it((first,), (write_next,), start=begun(3))


def test_without_looking_behind_itself_a_writer_brings_the_record_back() -> None:
    assert_finds_it((first,), (partial(write_next, looks_behind=False),), start=begun(3))


def test_listing_snapshots_before_claims_misses_what_goes_from_one_to_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = snapshot_publication.live_claims

    class Late(list[float | None]):
        """Asks for the claims only when it is looked whether there are any."""

        def __init__(self, folder: SnapshotPartition, position: int, *, now_seconds: float) -> None:
            self._ask = partial(original, folder, position, now_seconds=now_seconds)

        def __bool__(self) -> bool:
            self.extend(self._ask())
            return len(self) > 0

    monkeypatch.setattr(snapshot_publication, "live_claims", Late)
    assert_finds_it((first,), (write_next,), start=begun(3))
