"""The publication protocol under every interleaving of two writers and their crashes."""

from collections.abc import Callable
from functools import partial

import pytest

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.names import parse_claim_name, parse_segment_name
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.publish import Adopted, SegmentPublication, StandDown
from mirrorlake.errors import ChainBrokenError, PositionMovedError
from mirrorlake.stores.memory import MemoryStore
from unit.archive.publish_model import ReplayStore, Search, World
from unit.archive.sample_records import ORIGIN

SOURCE_END = 3
Program = Callable[[ReplayStore], None]


def source_bytes(from_offset: int, to_offset: int) -> bytes:
    return b"".join(b"record %d\n" % offset for offset in range(from_offset, to_offset + 1))


def archived(store: ReplayStore | MemoryStore) -> ArchivedPartition:
    return ArchivedPartition(store, destination_name="orders", partition=0, extension="parquet")


def one_lease(
    store: ReplayStore, *, length: int, adopts_early: bool, sweeps: bool, source_end: int, looks_behind: bool
) -> None:
    """What a lease does: position, stage, claim, cut where told, publish, release."""
    archive = archived(store)
    chain = archive.read_chain()
    if sweeps:
        archive.sweep(chain)
    if chain.position >= source_end:
        return
    planned = min(chain.position + length, source_end) - 1
    if adopts_early and (pending := archive.pending_claim(chain, origin=ORIGIN)):
        planned = pending.to_offset
    publication = archive.publication(chain.position, origin=ORIGIN, writer=f"writer {length}")
    publish_planned(publication, planned, behind=chain.tail if looks_behind else None)


def publish_planned(publication: SegmentPublication, planned: int, *, behind: Segment | None = None) -> None:
    staged = publication.stage()
    staged.file.write(source_bytes(publication.from_offset, planned))
    try:
        outcome = publication.claim(planned, raw_bytes=1, behind=behind)
    except PositionMovedError:
        return
    if isinstance(outcome, StandDown):
        assert outcome.position > publication.from_offset
        return
    if isinstance(outcome, Adopted):
        staged.discard()
        staged = publication.stage()
        staged.file.write(source_bytes(publication.from_offset, outcome.to_offset))
    publication.publish(staged, confirm_equal=lambda key: None)
    publication.release()


def leases(
    *lengths: int,
    adopts_early: bool = False,
    sweeps: bool = True,
    source_end: int = SOURCE_END,
    looks_behind: bool = True,
) -> tuple[Program, ...]:
    return tuple(
        partial(
            one_lease,
            length=length,
            adopts_early=adopts_early,
            sweeps=sweeps,
            source_end=source_end,
            looks_behind=looks_behind,
        )
        for length in lengths
    )


def run(*programs: tuple[Program, ...], start: World = frozenset()) -> Search:
    search = Search(programs, start)
    search.run()
    return search


def assert_chain_is_whole(world: World) -> None:
    """Computed without the code under test: sorted ranges, each beginning where the one before ended."""
    position = 0
    for key, content in sorted(world):
        name = key.rpartition("/")[2]
        if parse_claim_name(name):
            continue
        segment = parse_segment_name(name)
        assert segment is not None, name
        assert segment.from_offset == position, sorted(world)
        assert content == source_bytes(segment.from_offset, segment.to_offset)
        position = segment.to_offset + 1
    assert position <= SOURCE_END


def assert_one_writer_finishes_from(world: World) -> None:
    """No state blocks: a writer left alone copies the rest, and leaves no claim behind."""
    store = MemoryStore(dict(world))
    archive = archived(store)
    for _ in range(SOURCE_END):
        chain = archive.read_chain()
        if chain.position < SOURCE_END:
            publish_planned(archive.publication(chain.position, origin=ORIGIN, writer="last"), chain.position)
    chain = archive.read_chain()
    archive.sweep(chain)
    assert chain.position == SOURCE_END
    assert not [key for key in store.objects if parse_claim_name(key.rpartition("/")[2])]


def test_two_writers_with_different_cuts_always_leave_one_chain() -> None:
    search = run(leases(1, 2), leases(3) + leases(1, adopts_early=True))
    assert len(search.states) > 10_000  # the search did search
    for world in search.worlds:
        assert_chain_is_whole(world)
        assert_one_writer_finishes_from(world)


@pytest.mark.soak
def test_three_writers_with_different_cuts_always_leave_one_chain() -> None:
    for world in run(leases(1, source_end=2), leases(2, source_end=2), leases(2, source_end=2)).worlds:
        assert_chain_is_whole(world)


@pytest.mark.soak
def test_claims_nobody_sweeps_never_break_the_chain() -> None:
    for world in run(leases(1, 2, sweeps=False), leases(2, 3, sweeps=False)).worlds:
        assert_chain_is_whole(world)


def test_a_sweep_beside_a_live_writer_never_breaks_the_chain() -> None:
    for world in run(leases(1, sweeps=False), leases(2)).worlds:
        assert_chain_is_whole(world)
        assert_one_writer_finishes_from(world)


@pytest.mark.parametrize("garbage", [b"", b'{"to_offset": -1}'])
def test_unreadable_claims_neither_block_nor_break_the_chain(garbage: bytes) -> None:
    start = frozenset((f"orders/0/_claim-{offset:020d}", garbage) for offset in (0, 1))
    for world in run(leases(1), leases(2), start=start).worlds:
        assert_chain_is_whole(world)
        assert_one_writer_finishes_from(world)


def test_without_claims_the_same_search_finds_overlaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search can fail: with step 1 taken out, two cuts from one offset both land, and one goes on from either."""
    monkeypatch.setattr(SegmentPublication, "_settle_claim", lambda self, own: own)
    with pytest.raises(ChainBrokenError, match="overlaps"):
        run(leases(2, 2, source_end=5), leases(3, source_end=5))


def test_without_the_listing_the_same_search_finds_overlaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search can fail: with step 2 taken out, a late claim of a passed offset lands."""
    monkeypatch.setattr(SegmentPublication, "_position_above", lambda *_: None)
    with pytest.raises(ChainBrokenError, match="overlaps"):
        run(leases(2, 2, source_end=5), leases(3, source_end=5))
