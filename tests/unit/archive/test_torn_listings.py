"""Folders that are read while others publish in them, name by name as file systems do: what was missed is no hole.

The listing of a reader is a row of looks at single names, in the order of names, with the writers' effects between. So
it may hold a segment and not the one published before it.
"""

import contextlib
from collections.abc import Callable, Iterator

import pytest

from mirrorlake.archive import inspection, looks
from mirrorlake.archive.chain import Segment
from mirrorlake.archive.names import SegmentName
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.errors import ChainBrokenError, PositionMovedError, TransientError
from mirrorlake.stores.memory import MemoryStore
from mirrorlake.stores.object_store import ObjectInfo, ObjectMissingError, ObjectStore
from unit.archive.publish_model import ReplayStore, Search
from unit.archive.test_publish_model import leases

SOURCE_END = 3
NAMES = [str(SegmentName(from_offset=n, to_offset=n, extension="parquet")) for n in range(SOURCE_END)]


class TornStore:
    """Lists by one look at each name there can be; all else is the store's."""

    def __init__(self, store: ReplayStore) -> None:
        self._store = store

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        found = []
        for name in NAMES:
            with contextlib.suppress(ObjectMissingError):
                if name > start_after:
                    data = self._store.read(f"{prefix}/{name}")
                    found.append(ObjectInfo(key=f"{prefix}/{name}", size_bytes=len(data)))
        return iter(found)

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


def folder(store: ReplayStore) -> ArchivedPartition:
    torn: ObjectStore = TornStore(store)  # type: ignore[assignment]
    return ArchivedPartition(torn, destination_name="orders", partition=0, extension="parquet")


def read_all(store: ReplayStore) -> None:
    archive = folder(store)
    with contextlib.suppress(TransientError):
        chain = archive.read_chain()
        found = [segment.name.from_offset for segment in archive.segments(chain)]
        assert found == [*range(len(found))]
        assert len(found) >= chain.position


def read_at_once(store: ReplayStore) -> None:
    with contextlib.suppress(TransientError):
        chain, segments = folder(store).read_segments()
        assert [segment.name.from_offset for segment in segments] == [*range(chain.position)]
        assert (chain.segment_count, chain.tail) == (len(segments), segments[-1] if segments else None)


def follow_tail(store: ReplayStore) -> None:
    archive = folder(store)
    with contextlib.suppress(TransientError):
        known: Segment | None = archive.read_chain().tail
        if known is not None:
            assert archive.read_end(known).position >= known.name.end_offset


def check(store: ReplayStore) -> None:
    assert inspection.inspect_names(folder(store)).problems == []


def search(reader: Callable[[ReplayStore], None]) -> Search:
    found = Search((leases(1, sweeps=False, source_end=SOURCE_END), (reader,)), frozenset())
    found.run()
    return found


@pytest.mark.parametrize("reader", [read_all, read_at_once, follow_tail, check])
def test_no_reader_refuses_a_chain_for_what_its_listing_missed(reader: Callable[[ReplayStore], None]) -> None:
    assert len(search(reader).states) > 500  # the search did search


@pytest.mark.parametrize(
    ("reader", "refusal"),
    [(read_all, ChainBrokenError), (follow_tail, ChainBrokenError), (check, AssertionError)],
)
def test_with_one_look_the_same_search_finds_a_hole_that_never_was(
    reader: Callable[[ReplayStore], None], refusal: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search can fail: whoever believes the first complaint refuses a whole chain."""
    for module in ("archive.partition", "archive.inspection", "archive.looks"):
        monkeypatch.setattr(f"mirrorlake.{module}.same_complaint", lambda before, now: True)
    with pytest.raises(refusal, match=r"leaves a hole after|instead of at offset 0"):
        search(reader)


class Listings(MemoryStore):
    """Lists what it is told to, look after look; at last the truth."""

    def __init__(self, *listings: list[int]) -> None:
        super().__init__({f"orders/0/{name}": b"" for name in NAMES})
        self.listings = list(listings)
        self.looks = 0

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        self.looks += 1
        shown = list(super().list(prefix, start_after=start_after))
        if self.listings and not start_after.startswith("_") and prefix == "orders/0":
            held = self.listings.pop(0)
            shown = [info for info in shown if int(info.name[:20]) in held]
        return iter(shown)


def test_a_hole_that_two_looks_find_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Listings([0, 2], [0, 2])
    archive = ArchivedPartition(store, destination_name="orders", partition=0, extension="parquet")
    with pytest.raises(ChainBrokenError, match="leaves a hole after"):
        archive.read_chain()


def test_holes_that_are_others_each_time_are_not_believed_and_the_next_look_decides() -> None:
    store = Listings([0, 2], [1, 2], [2])
    archive = ArchivedPartition(store, destination_name="orders", partition=0, extension="parquet")
    assert archive.read_chain().position == SOURCE_END


def test_a_tail_that_a_look_missed_is_looked_for_again() -> None:
    known = Segment(name=SegmentName(from_offset=0, to_offset=0, extension="parquet"), size_bytes=0)
    for kind in (ArchivedPartition, SnapshotPartition):
        store = Listings([])
        archive = kind(store, destination_name="orders", partition=0, extension="parquet")
        assert archive.read_end(known).position == SOURCE_END


def test_a_walk_goes_on_behind_what_it_gave_out() -> None:
    store = Listings([0, 1, 2], [0, 2], [0, 1, 2])
    archive = ArchivedPartition(store, destination_name="orders", partition=0, extension="parquet")
    chain = archive.read_chain()
    assert [segment.name.from_offset for segment in archive.segments(chain)] == [0, 1, 2]


def test_a_walk_that_ends_before_the_chain_that_was_read_goes_on() -> None:
    """What stood there last may be merged and deleted while a long listing is read; what came behind it is no part."""
    store = Listings([0, 1, 2], [0], [0, 1, 2])
    archive = ArchivedPartition(store, destination_name="orders", partition=0, extension="parquet")
    chain = archive.read_chain()
    assert [segment.name.from_offset for segment in archive.segments(chain)] == [0, 1, 2]


@pytest.mark.parametrize("shown", [[], [0]])
def test_a_walk_that_ends_there_twice_does_not_end_in_silence(shown: list[int]) -> None:
    store = Listings([0, 1, 2], shown, shown)
    archive = ArchivedPartition(store, destination_name="orders", partition=0, extension="parquet")
    chain = archive.read_chain()
    with pytest.raises(PositionMovedError, match="merged or retired while the archive was looked at"):
        list(archive.segments(chain))


def test_an_archive_that_looks_broken_in_another_way_each_time_is_left_for_later() -> None:
    complaints = iter(range(100))

    def look() -> None:
        raise ChainBrokenError(f"complaint {next(complaints)}")

    with pytest.raises(TransientError, match="orders/0: the archive changed 12 times while it was looked at"):
        looks.settled(look, where="orders/0")
    assert next(complaints) == looks.LOOKS_MAX
