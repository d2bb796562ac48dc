"""kafka-replicator's levels as one chain: every offset that a file holds is served once, by a file that holds it."""

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.archive.layouts.kafka_replicator import KafkaReplicatorStore
from mirrorlake.archive.names import floor_name, parse_segment_name
from mirrorlake.errors import ChainBrokenError, UnsupportedError
from mirrorlake.foreign_layout import BeginsAt, KafkaReplicatorLayout
from mirrorlake.offsets import OffsetRange
from mirrorlake.sources.archive.chain import SegmentChain, chain_of
from mirrorlake.stores.memory import MemoryStore
from mirrorlake.stores.object_store import ObjectMissingError
from support.replicator_archive import REGION, file_name, key_of

LAYOUT = KafkaReplicatorLayout(region=REGION)
FROM_FIRST = KafkaReplicatorLayout(region=REGION, begins_at=BeginsAt.FIRST_SEGMENT)
PREFIX = "orders/0"

File = tuple[int, int, int]
"""Level, first offset, last offset."""


def view(*files: File, layout: KafkaReplicatorLayout = LAYOUT) -> KafkaReplicatorStore:
    """A region with files whose content is their key."""
    keys = [key_of(first, last, level=level) for level, first, last in files]
    return KafkaReplicatorStore(MemoryStore({key: key.encode() for key in keys}), layout)


def segments(store: KafkaReplicatorStore) -> list[tuple[int, int]]:
    """First and last offsets of what is listed."""
    names = [parse_segment_name(each.name) for each in store.list(PREFIX)]
    return [(name.from_offset, name.to_offset) for name in names if name is not None]


def chain(store: KafkaReplicatorStore) -> SegmentChain:
    return chain_of(store.list(PREFIX), where=PREFIX)


def served_by(store: KafkaReplicatorStore, first: int, last: int) -> str:
    """The key of the file that is opened for a segment."""
    with store.open(f"{PREFIX}/{file_name(first, last)}.parquet") as file:
        return file.read().decode()


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([(0, 0, 9), (0, 10, 19)], [(0, 9), (10, 19)]),
        ([(0, 0, 9), (0, 10, 19), (1, 0, 19), (0, 20, 29)], [(0, 19), (20, 29)]),  # compacted, inputs still there
        ([(0, 0, 9), (0, 0, 19), (0, 20, 29)], [(0, 19), (20, 29)]),  # written again from the last commit on
        ([(0, 0, 9), (0, 5, 19), (0, 20, 29)], [(0, 9), (10, 19), (20, 29)]),  # overlap in part
        ([(0, 0, 9), (1, 3, 12), (0, 8, 20)], [(0, 9), (10, 12), (13, 20)]),
        ([(1, 0, 20), (0, 5, 20), (0, 20, 20)], [(0, 20)]),
        ([(2, 0, 9), (11, 10, 19)], [(0, 9), (10, 19)]),  # levels sort as numbers
        ([(0, 5, 9), (0, 20, 29)], [(5, 9), (20, 29)]),
        ([], []),
    ],
)
def test_files_of_all_levels_are_one_run_of_segments(files: Sequence[File], expected: list[tuple[int, int]]) -> None:
    assert segments(view(*files)) == expected


files_of_a_partition = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 40), st.integers(0, 12)).map(lambda f: (f[0], f[1], f[1] + f[2])),
    max_size=12,
)


@given(files_of_a_partition)
def test_every_offset_of_a_file_is_served_once_by_a_file_that_holds_it(files: list[File]) -> None:
    store = view(*files)

    found = segments(store)

    offsets = [offset for first, last in found for offset in range(first, last + 1)]
    assert offsets == sorted({offset for _, first, last in files for offset in range(first, last + 1)})
    for first, last in found:
        name = served_by(store, first, last).rpartition("/")[2]
        assert int(name[:20]) <= first
        assert last <= int(name[21:])


@given(files_of_a_partition, st.integers(0, 60))
def test_a_listing_from_a_name_on_is_the_end_of_the_whole_one(files: list[File], start: int) -> None:
    store = view(*files, layout=FROM_FIRST)
    whole = [each.name for each in store.list(PREFIX)]
    assert whole == sorted(whole)
    after = [each.name for each in store.list(PREFIX, start_after=f"{start:020}")]
    assert after == [name for name in whole if name > f"{start:020}"]


def test_of_two_files_of_one_range_the_higher_level_is_opened() -> None:
    # Compaction deletes the lower one.
    assert served_by(view((0, 0, 9), (1, 0, 9)), 0, 9) == key_of(0, 9, level=1)


class Compacted(MemoryStore):
    """Has its files compacted into a level that is new, once its levels were listed."""

    def folders(self, prefix: str) -> Iterator[str]:
        """Yields what was there before."""
        before = list(super().folders(prefix))
        for first, last in ((5, 9), (10, 19)):
            self.objects.pop(key_of(first, last), None)
        self.objects[key_of(5, 19, level=1)] = b""
        return iter(before)


def test_a_partition_does_not_begin_later_because_its_first_files_are_compacted_in_that_moment() -> None:
    files = [(5, 9), (10, 19), (20, 29)]
    store = Compacted({key_of(first, last): b"" for first, last in files})

    found = chain(KafkaReplicatorStore(store, FROM_FIRST))

    assert (found.start, found.end) == (5, 30)


def test_what_is_missing_below_the_first_file_is_waited_for_unless_it_is_where_the_log_begins() -> None:
    files = [(0, 5, 9), (0, 10, 19)]
    waiting = chain(view(*files))
    assert (waiting.start, waiting.end, waiting.hole) == (0, 0, OffsetRange(start_offset=0, end_offset=5))

    begun = view(*files, layout=FROM_FIRST)
    assert (chain(begun).start, chain(begun).end, chain(begun).hole) == (5, 20, None)
    assert [each.name for each in begun.list(PREFIX)][-1] == floor_name(5)


def test_offsets_between_two_files_are_a_hole() -> None:
    found = chain(view((0, 0, 9), (0, 12, 19)))
    assert (found.end, found.hole) == (10, OffsetRange(start_offset=10, end_offset=12))


@pytest.mark.parametrize(
    "name",
    [
        "0/00000000000000000000-00000000000000000009.parquet",
        "0/0-9",
        "0/00000000000000000009-00000000000000000000",
        "0/00000000000000000000-18446744073709551615",
        "zero/00000000000000000000-00000000000000000009",
        "00000000000000000000-00000000000000000009",
        "0/_SUCCESS",
    ],
)
def test_a_name_of_another_kind_is_named(name: str) -> None:
    key = f"{REGION}/orders/0/{name}"
    store = KafkaReplicatorStore(MemoryStore({key: b"", key_of(0, 9): b""}), LAYOUT)
    with pytest.raises(ChainBrokenError, match=name.partition("/")[0] if name.startswith("zero") else name):
        list(store.list(PREFIX))


def test_topics_are_the_folders_of_the_region_and_levels_are_none() -> None:
    keys = [key_of(0, 9), key_of(0, 9, partition=11), key_of(0, 9, topic="123"), key_of(0, 9, region="eu")]
    store = KafkaReplicatorStore(MemoryStore(dict.fromkeys([*keys, "temp/0b7c"], b"")), LAYOUT)
    assert list(store.folders("")) == ["123", "orders"]
    assert list(store.folders("orders")) == ["0", "11"]
    assert list(store.folders("orders/0")) == []
    assert list(store.list("")) == list(store.list("orders")) == []


def test_a_segment_whose_file_is_gone_is_missing() -> None:
    store = view((0, 0, 9))
    for key in (f"{PREFIX}/{file_name(0, 8)}.parquet", "_mirrorlake.json", f"{PREFIX}/_floor-{5:020}"):
        with pytest.raises(ObjectMissingError):
            store.open(key)
    with pytest.raises(ObjectMissingError):
        store.read("_mirrorlake.json")


def test_nothing_is_ever_written() -> None:
    store = view((0, 0, 9))
    for change in (
        lambda: store.create("a", b""),
        lambda: store.delete("a"),
        lambda: store.stage("a", "b"),
        lambda: store.sweep_staged("a"),
        store.probe,
    ):
        with pytest.raises(UnsupportedError, match="only read"):
            change()
