"""The end of a long folder is found in few pages, and is the one a whole listing shows."""

import itertools
import random
from collections.abc import Iterator, Sequence

import pytest

from mirrorlake.archive.names import LAST_OFFSET_MAX, ClaimName
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.errors import ChainBrokenError
from mirrorlake.stores.memory import MemoryStore
from mirrorlake.stores.object_store import ObjectInfo

PREFIX = "orders/0"


class PagedStore(MemoryStore):
    """A store in memory whose listings come page by page, counted as requests."""

    def __init__(self, names: Sequence[str], *, page: int) -> None:
        super().__init__({f"{PREFIX}/{name}": b"x" for name in names})
        self.requests = 0
        self._page = page

    @property
    def listing_page_objects(self) -> int:
        return self._page

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        for number, info in enumerate(super().list(prefix, start_after=start_after)):
            if number % self._page == 0:
                self.requests += 1
            yield info

    def archive(self) -> ArchivedPartition:
        return ArchivedPartition(self, destination_name="orders", partition=0, extension="parquet")


def names_of(ends: Sequence[int]) -> list[str]:
    starts = [0, *(end + 1 for end in ends)][: len(ends)]
    return [f"{start:020}-{end:020}.parquet" for start, end in zip(starts, ends, strict=True)]


def lengths(count: int, shape: str) -> Iterator[int]:
    chance = random.Random(shape)
    for number in range(count):
        match shape:
            case "even":
                yield 1000
            case "growing":
                yield 1 + number * number
            case "shrinking":
                yield 1 + (count - number) ** 2
            case "tiny after huge":
                yield 10**14 if number < count // 2 else 1
            case "huge after tiny":
                yield 1 if number < count // 2 else 10**14
            case _:
                yield 2 ** chance.randrange(40)


def ends_of(count: int, shape: str) -> list[int]:
    return [total - 1 for total in itertools.accumulate(lengths(count, shape))]


SHAPES = ["even", "growing", "shrinking", "tiny after huge", "huge after tiny", "any"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 20, 21, 99, 100, 101, 1000])
def test_the_end_found_is_the_chains(shape: str, count: int) -> None:
    ends = ends_of(count, shape)
    claims = [str(ClaimName(from_offset=offset)) for offset in (0, 3, (ends or [-1])[-1] + 1)]
    store = PagedStore([*names_of(ends), *claims], page=10)
    whole, found = store.archive().read_chain(), store.archive().find_end()
    assert (found.position, found.tail, found.claims) == (whole.position, whole.tail, whole.claims)
    assert found.position == (ends or [-1])[-1] + 1


@pytest.mark.parametrize("shape", SHAPES)
def test_a_long_chain_costs_few_requests(shape: str) -> None:
    store = PagedStore(names_of(ends_of(20_000, shape)), page=1000)
    found = store.archive().find_end()
    assert found.tail is not None
    assert store.objects.keys() >= {f"{PREFIX}/{found.tail.name}"}
    # Twenty would list it all; but those that are even, as the rule is, are found in far fewer.
    assert store.requests <= (12 if shape == "even" else 60)


@pytest.mark.soak
def test_a_hundred_thousand_segments_cost_some_twenty_requests() -> None:
    store = PagedStore(names_of(ends_of(100_000, "even")), page=1000)
    assert store.archive().find_end().position == 100_000_000
    assert store.requests <= 20


def test_one_page_costs_one_request_and_is_checked_whole() -> None:
    names = names_of(ends_of(999, "even"))
    store = PagedStore(names, page=1000)
    store.archive().find_end()
    assert store.requests == 1
    del store.objects[f"{PREFIX}/{names[500]}"]
    with pytest.raises(ChainBrokenError, match="leaves a hole"):
        store.archive().find_end()


def test_a_chain_up_to_the_last_offset_there_is_has_an_end() -> None:
    names = names_of([*range(30), LAST_OFFSET_MAX - 1, LAST_OFFSET_MAX])
    assert PagedStore(names, page=10).archive().find_end().position == LAST_OFFSET_MAX + 1


@pytest.mark.parametrize("missing", [0, 10, 400, 900, 985])
def test_holes_before_the_last_page_do_not_mislead_the_search(missing: int) -> None:
    """They are for `archive check` to find; the position is the newest segment's end, as with a whole listing."""
    names = names_of(ends_of(1000, "any"))
    store = PagedStore(names, page=10)
    del store.objects[f"{PREFIX}/{names[missing]}"]
    found = store.archive().find_end()
    assert str(found.tail and found.tail.name) == names[-1]
    with pytest.raises(ChainBrokenError):
        store.archive().read_chain()


def test_of_two_segments_from_the_newest_offset_the_larger_one_is_the_end() -> None:
    names = names_of(ends_of(1000, "even"))
    store = PagedStore([*names, f"{999_000:020}-{999_998:020}.parquet"], page=10)
    found = store.archive().find_end()
    assert (str(found.tail and found.tail.name), found.position) == (names[-1], 1_000_000)


def test_a_segment_that_overlaps_the_newest_is_refused() -> None:
    names = names_of(ends_of(1000, "even"))
    store = PagedStore([*names, f"{999_500:020}-{1_000_500:020}.parquet"], page=10)
    with pytest.raises(ChainBrokenError, match="overlaps"):
        store.archive().find_end()


def test_a_foreign_name_at_the_end_is_refused() -> None:
    store = PagedStore([*names_of(ends_of(1000, "even")), "README"], page=10)
    with pytest.raises(ChainBrokenError, match="README"):
        store.archive().find_end()


def test_an_end_that_grows_while_it_is_looked_for_is_followed() -> None:
    ends = ends_of(200, "even")
    names = names_of(ends)

    class Growing(PagedStore):
        def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
            if waiting:
                self.objects |= {f"{PREFIX}/{waiting.pop(0)}": b"x" for _ in range(min(15, len(waiting)))}
            return super().list(prefix, start_after=start_after)

    waiting = names[50:]
    store = Growing(names[:50], page=10)
    found = store.archive().find_end()
    held = sum("parquet" in key for key in store.objects)
    assert found.position == ends[held - 1] + 1


def test_files_being_copied_here_do_not_end_the_search() -> None:
    names = names_of(ends_of(1000, "even"))
    staged = [f"{name}.tmp.1" for name in names[400:700:3]]
    assert PagedStore([*names, *staged], page=10).archive().find_end().position == 1_000_000
