"""A chain is called broken only if the same is wrong in two looks: a folder is not listed in one instant."""

from collections.abc import Iterator, Sequence

import pytest

from mirrorlake.archive.looks import LOOKS_MAX, why_moved
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.errors import ChainBrokenError, PositionMovedError
from mirrorlake.stores.memory import MemoryStore
from mirrorlake.stores.object_store import ObjectInfo, ObjectMissingError

PREFIX = "orders/0"


def name_of(start: int, end: int) -> str:
    return f"{start:020d}-{end:020d}.parquet"


class Looks(MemoryStore):
    """A store whose folder shows one list of names after another, and then the last one for ever."""

    def __init__(self, *looks: Sequence[str]) -> None:
        super().__init__()
        self.looks = list(looks)
        self.listed = 0

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        shown = self.looks[min(self.listed, len(self.looks) - 1)]
        if not start_after.startswith("_"):
            self.listed += 1
        for name in sorted(shown):
            if name > start_after:
                yield ObjectInfo(key=f"{prefix}/{name}", size_bytes=100)


def archived(*looks: Sequence[str]) -> tuple[ArchivedPartition, Looks]:
    store = Looks(*looks)
    return ArchivedPartition(store, destination_name="orders", partition=0, extension="parquet"), store


A, B, C, D = name_of(0, 9), name_of(10, 19), name_of(20, 29), name_of(30, 39)


@pytest.mark.parametrize(
    "torn",
    [
        [A, C],  # the last but one was published while the folder was read
        [B, C],
        [C],  # a merge deleted its inputs after the place of the merged one was passed
    ],
)
def test_what_is_missing_once_is_looked_for_again(torn: list[str]) -> None:
    found, store = archived(torn, [A, B, C])
    assert found.read_chain().position == 30
    assert store.listed == 2


def test_what_is_missing_twice_is_missing() -> None:
    found, store = archived([A, C])
    with pytest.raises(ChainBrokenError, match=f"{C} leaves a hole after {A}"):
        found.read_chain()
    assert store.listed == 2


def test_what_is_wrong_in_another_way_each_time_is_looked_at_once_more() -> None:
    found, store = archived([A, C], [A, B, D], [A, B, C, D])
    assert found.read_chain().position == 40
    assert store.listed == 3


def test_a_folder_that_never_looks_the_same_is_tried_again_later() -> None:
    found, store = archived(*([A, name_of(20 + look, 50)] for look in range(2 * LOOKS_MAX)))
    with pytest.raises(PositionMovedError, match=f"changed {LOOKS_MAX} times"):
        found.read_chain()
    assert store.listed == LOOKS_MAX


def test_the_end_behind_a_known_tail_is_looked_at_again_too() -> None:
    known = archived([A])[0].read_chain().tail
    assert known is not None
    found, _ = archived([A, C], [A, B, C])
    assert found.read_end(known).position == 30


def test_segments_of_a_chain_that_changes_while_it_is_walked_are_to_be_read_anew() -> None:
    merged = name_of(0, 29)
    found, _ = archived([A, B, C], [A, C], [merged, C])
    chain = found.read_chain()
    with pytest.raises(PositionMovedError, match="merged or retired"):
        list(found.segments(chain))


def test_a_walk_whose_listing_missed_a_segment_goes_on_behind_what_it_gave_out() -> None:
    found, _ = archived([A, B, C], [A, C], [A, B, C])
    chain = found.read_chain()
    assert [str(segment.name) for segment in found.segments(chain)] == [A, B, C]


def test_an_object_that_others_took_meanwhile_is_told_with_what_to_do() -> None:
    gone = why_moved(ObjectMissingError("no object orders/0/a.parquet"))
    assert gone == "no object orders/0/a.parquet: it was merged, rewritten or retired meanwhile: run again"
    assert why_moved(PositionMovedError("it was merged meanwhile")) == "it was merged meanwhile"
