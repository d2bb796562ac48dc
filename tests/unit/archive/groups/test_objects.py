"""The objects that hold what groups had committed: never replaced, trimmed, and read whatever became of the newest."""

from collections.abc import Callable

import pytest

from mirrorlake.archive.groups.content import ArchivedOffset, PartitionLook
from mirrorlake.archive.groups.objects import ATTEMPTS_MAX, KEPT, read_groups, record_groups
from mirrorlake.archive.origin import Origin
from mirrorlake.errors import PositionMovedError
from mirrorlake.stores.memory import MemoryStore

NOW = 1_700_000_000_000


def looks(offset: int, *, now: int = NOW, partition: int = 0, group: str = "a") -> dict[int, PartitionLook]:
    return {
        partition: PartitionLook(
            origin=Origin(cluster_id="cluster", topic="orders", topic_id="id", partition=partition),
            read_at_ms=now,
            committed={group: ArchivedOffset(offset=offset, seen_at_ms=now)},
        )
    }


def names(store: MemoryStore) -> list[int]:
    return [int(info.name.removesuffix(".json")) for info in store.list("orders/_groups")]


def offsets(store: MemoryStore) -> dict[int, dict[str, int]]:
    return {
        number: {group: each.offset for group, each in partition.groups.items()}
        for number, partition in read_groups(store, "orders").partitions.items()
    }


class Hooked(MemoryStore):
    """Calls something before each create."""

    def __init__(self, before_create: Callable[["Hooked"], None]) -> None:
        super().__init__()
        self._before_create = before_create

    def create(self, key: str, data: bytes) -> None:
        self._before_create(self)
        super().create(key, data)


def test_nothing_is_archived_where_nobody_archived_any() -> None:
    found = read_groups(MemoryStore(), "orders")
    assert (found.partitions, found.key, found.damaged) == ({}, "", ())


def test_what_changes_is_a_new_object_and_what_does_not_is_none() -> None:
    store = MemoryStore()
    record_groups(store, "orders", looks(5), writer="w")
    record_groups(store, "orders", looks(5, now=NOW + 1), writer="w")
    assert names(store) == [0]
    record_groups(store, "orders", looks(6, now=NOW + 2), writer="w")
    assert names(store) == [0, 1]
    assert offsets(store) == {0: {"a": 6}}


def test_partitions_that_were_not_looked_at_stay_as_they_are() -> None:
    store = MemoryStore()
    record_groups(store, "orders", looks(5), writer="w")
    record_groups(store, "orders", looks(7, partition=3), writer="w")
    assert offsets(store) == {0: {"a": 5}, 3: {"a": 7}}


def test_the_last_few_objects_stay_and_older_ones_go() -> None:
    store = MemoryStore()
    for number in range(KEPT + 4):
        record_groups(store, "orders", looks(number, now=NOW + number), writer="w")
    assert names(store) == list(range(4, KEPT + 4))


def test_two_that_write_at_once_lose_nothing_of_each_other() -> None:
    def other_is_first(store: Hooked) -> None:
        if not raced:
            raced.append(True)
            record_groups(store, "orders", looks(9, partition=1, group="b"), writer="other")

    raced: list[bool] = []
    store = Hooked(other_is_first)
    record_groups(store, "orders", looks(5), writer="w")
    assert offsets(store) == {0: {"a": 5}, 1: {"b": 9}}


def test_a_look_from_before_does_not_take_a_group_back() -> None:
    store = MemoryStore()
    record_groups(store, "orders", looks(9, now=NOW + 5), writer="other")
    record_groups(store, "orders", looks(5), writer="w")
    assert offsets(store) == {0: {"a": 9}}


def test_a_writer_that_is_never_first_gives_up() -> None:
    def other_is_first(store: Hooked) -> None:
        MemoryStore.create(store, f"orders/_groups/{len(names(store)):020}.json", b"")

    store = Hooked(other_is_first)
    with pytest.raises(PositionMovedError):
        record_groups(store, "orders", looks(5), writer="w")
    assert len(names(store)) == ATTEMPTS_MAX


def test_a_newest_object_that_lost_its_content_has_one_before_it_and_is_named() -> None:
    store = MemoryStore()
    record_groups(store, "orders", looks(5), writer="w")
    store.create("orders/_groups/00000000000000000001.json", b"")
    found = read_groups(store, "orders")
    assert found.damaged == ("orders/_groups/00000000000000000001.json",)
    assert not found.is_unknown
    assert offsets(store) == {0: {"a": 5}}
    record_groups(store, "orders", looks(6, now=NOW + 1), writer="w")
    assert offsets(store) == {0: {"a": 6}}
    assert read_groups(store, "orders").damaged == ()


@pytest.mark.parametrize("count", [1, 2])
def test_objects_none_of_which_can_be_read_say_nothing_and_not_that_there_are_no_groups(count: int) -> None:
    store = MemoryStore()
    for number in range(count):
        store.create(f"orders/_groups/{number:020}.json", b"torn")
    assert read_groups(store, "orders").is_unknown
    assert not read_groups(store, "payments").is_unknown
    record_groups(store, "orders", looks(6), writer="w")
    assert not read_groups(store, "orders").is_unknown
    assert offsets(store) == {0: {"a": 6}}


def test_objects_that_can_be_read_stay_until_there_are_enough_behind_them() -> None:
    store = MemoryStore()
    record_groups(store, "orders", looks(5), writer="w")
    for number in (1, 2, 3, 4):
        store.create(f"orders/_groups/{number:020}.json", b"torn")
    record_groups(store, "orders", looks(6, now=NOW + 1), writer="w")
    assert names(store) == [0, 1, 2, 3, 4, 5]


def test_nothing_is_written_where_it_must_not_be() -> None:
    store = MemoryStore()
    record_groups(store, "orders", looks(5), writer="w", may_write=lambda: False)
    assert names(store) == []


def test_other_names_in_the_folder_are_passed_over() -> None:
    store = MemoryStore()
    store.create("orders/_groups/notes.txt", b"")
    store.create("orders/_groups/1.json", b"")
    record_groups(store, "orders", looks(5), writer="w")
    assert offsets(store) == {0: {"a": 5}}
