from collections.abc import Iterator

import pytest

from mirrorlake.archive.ends.known_tails import KnownTails
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.errors import ChainBrokenError
from mirrorlake.stores.memory import MemoryStore
from mirrorlake.stores.object_store import ObjectInfo


class ListedStore(MemoryStore):
    """A store that notes where listings begin."""

    def __init__(self) -> None:
        super().__init__()
        self.listed_after: list[str] = []

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        self.listed_after.append(start_after)
        return super().list(prefix, start_after=start_after)


@pytest.fixture
def store() -> ListedStore:
    return ListedStore()


@pytest.fixture
def archive(store: ListedStore) -> ArchivedPartition:
    return ArchivedPartition(store, destination_name="orders", partition=0, extension="parquet")


def key_of(first: int, last: int) -> str:
    return f"orders/0/{first:020}-{last:020}.parquet"


def test_the_second_look_begins_at_the_last_segment_of_the_first(
    store: ListedStore, archive: ArchivedPartition
) -> None:
    store.objects |= {key_of(0, 9): b"x", key_of(10, 14): b"x"}
    tails = KnownTails()
    assert tails.read(archive, key="a").position == 15
    store.objects[key_of(15, 15)] = b"x"
    assert tails.read(archive, key="a").position == 16
    store.objects[key_of(16, 29)] = b"x"
    assert tails.read(archive, key="a").position == 30
    assert store.listed_after == ["", f"{10:020}", f"{15:020}"]


def test_an_empty_archive_is_listed_whole_until_it_has_a_segment(
    store: ListedStore, archive: ArchivedPartition
) -> None:
    tails = KnownTails()
    assert tails.read(archive, key="a").position == 0
    store.objects[key_of(0, 9)] = b"x"
    assert tails.read(archive, key="a").position == 10
    assert store.listed_after == ["", ""]  # whether everything was retired says a floor in the same listing


def test_partitions_are_told_apart(store: ListedStore, archive: ArchivedPartition) -> None:
    store.objects |= {key_of(0, 9): b"x", "orders/1/00000000000000000000-00000000000000000004.parquet": b"x"}
    other = ArchivedPartition(store, destination_name="orders", partition=1, extension="parquet")
    tails = KnownTails()
    for _ in range(2):
        assert tails.read(archive, key=0).position == 10
        assert tails.read(other, key=1).position == 5


@pytest.mark.parametrize(
    "now",
    [
        {key_of(0, 9): b"x"},  # the last one is gone
        {key_of(0, 9): b"x", key_of(10, 14): b"longer"},
        {key_of(0, 9): b"x", key_of(10, 19): b"x"},
        {key_of(0, 14): b"merged", key_of(15, 19): b"x"},
        {},
    ],
)
def test_where_the_last_segment_changed_the_whole_chain_is_checked(
    store: ListedStore, archive: ArchivedPartition, now: dict[str, bytes]
) -> None:
    store.objects |= {key_of(0, 9): b"x", key_of(10, 14): b"x"}
    tails = KnownTails()
    tails.read(archive, key="a")
    store.objects = now
    assert tails.read(archive, key="a") == archive.read_chain()
    assert tails.read(archive, key="a").position == archive.read_chain().position


def test_what_is_wrong_after_the_last_segment_is_an_error_every_time(
    store: ListedStore, archive: ArchivedPartition
) -> None:
    store.objects |= {key_of(0, 9): b"x", key_of(10, 14): b"x"}
    tails = KnownTails()
    tails.read(archive, key="a")
    store.objects[key_of(20, 24)] = b"x"
    for _ in range(3):
        with pytest.raises(ChainBrokenError, match="leaves a hole after"):
            tails.read(archive, key="a")
    store.objects[key_of(15, 19)] = b"x"
    assert tails.read(archive, key="a").position == 25
