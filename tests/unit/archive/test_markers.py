"""The markers of an archive: which it is, and what its topics' folders have held."""

import json
from collections.abc import Mapping

import pytest

from mirrorlake.archive.origin import Origin
from mirrorlake.archive.root_marker import ROOT_MARKER, ensure_root_marker, read_root_marker
from mirrorlake.archive.topic_record import (
    ATTEMPTS_MAX,
    TopicRecord,
    check_is_new,
    read_topic_record,
    record_topic,
    recorded_origins,
    recorded_topics,
    renew_positions,
)
from mirrorlake.errors import ChainBrokenError, PositionMovedError, TopicRecreatedError, UnsupportedError
from mirrorlake.stores.memory import MemoryStore
from mirrorlake.stores.object_store import ObjectExistsError

NOW = 1_700_000_000.0


def seen(reached: Mapping[int, int], **fields: object) -> TopicRecord:
    known: dict[str, object] = {
        "cluster_id": "cluster",
        "topic": "orders",
        "topic_id": "id",
        "partitions": 3,
        "format": "parquet",
        "holds_snapshots": False,
        "configs": {"cleanup.policy": "delete", "odd": None},
        "reached": reached,
        "writer": "host-1",
    }
    return TopicRecord(**{**known, **fields})  # type: ignore[arg-type]


def origin(partition: int, *, topic_id: str | None = "id", cluster_id: str = "cluster") -> Origin:
    return Origin(cluster_id=cluster_id, topic="orders", topic_id=topic_id, partition=partition)


def test_an_archive_is_marked_once_and_keeps_its_id() -> None:
    store = MemoryStore()
    assert read_root_marker(store) is None
    first = ensure_root_marker(store, writer="host-1", now_seconds=NOW)
    again = ensure_root_marker(store, writer="host-2", now_seconds=NOW + 9)
    assert again == first == read_root_marker(store)
    assert json.loads(store.objects[ROOT_MARKER]) == {
        "format_version": 1,
        "archive_id": first.archive_id,
        "created_at": "2023-11-14T22:13:20+00:00",
        "writer": "host-1",
    }


def test_of_two_that_mark_an_archive_at_once_both_read_the_one_that_won() -> None:
    class Racing(MemoryStore):
        def create(self, key: str, data: bytes) -> None:
            if key not in self.objects:
                super().create(key, data.replace(b"host-1", b"host-2"))
            super().create(key, data)

    assert ensure_root_marker(Racing(), writer="host-1", now_seconds=NOW).writer == "host-2"


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"format_version": 1}', b'{"format_version": true}', b"\xff"])
def test_a_marker_that_cannot_be_read_is_said_with_the_remedy(content: bytes) -> None:
    with pytest.raises(ChainBrokenError, match=r"_mirrorlake\.json cannot be read") as broken:
        read_root_marker(MemoryStore({ROOT_MARKER: content}))
    assert "delete it" in broken.value.hint
    with pytest.raises(ChainBrokenError, match=r"orders/_topic\.json cannot be read"):
        read_topic_record(MemoryStore({"orders/_topic.json": content}), "orders")


def test_markers_of_a_later_version_are_refused() -> None:
    content = b'{"format_version": 2}'
    with pytest.raises(UnsupportedError, match="archive format 2"):
        read_root_marker(MemoryStore({ROOT_MARKER: content}))
    with pytest.raises(UnsupportedError, match="archive format 2"):
        read_topic_record(MemoryStore({"orders/_topic.json": content}), "orders")


def test_a_topic_is_recorded_by_a_new_object_for_each_change_and_none_without() -> None:
    store = MemoryStore()
    record_topic(store, "orders", seen({}), now_seconds=NOW)
    first = dict(store.objects)
    assert list(first) == ["orders/_topic.json", "_mirrorlake/topics/orders"]
    record_topic(store, "orders", seen({}, writer="host-2"), now_seconds=NOW + 9)
    assert store.objects == first
    record_topic(store, "orders", seen({0: 10, 2: 30}), now_seconds=NOW)
    record_topic(store, "orders", seen({0: 20, 2: 30}), now_seconds=NOW)  # a position alone is no change
    record_topic(store, "orders", seen({1: 7}, partitions=4), now_seconds=NOW)
    assert sorted(set(store.objects) - set(first)) == ["orders/_topic.1.json", "orders/_topic.2.json"]
    assert {key: store.objects[key] for key in first} == first
    found = read_topic_record(store, "orders")
    assert found is not None
    assert (found.partitions, found.reached) == (4, {0: 10, 1: 7, 2: 30})
    assert found.configs == {"cleanup.policy": "delete", "odd": None}
    assert recorded_topics(store) == {"orders"}


def test_the_highest_number_counts_whatever_names_sort_as() -> None:
    store = MemoryStore()
    for partition in range(12):
        record_topic(store, "orders", seen({partition: 5}), now_seconds=NOW)
    assert "orders/_topic.11.json" in store.objects
    found = read_topic_record(store, "orders")
    assert found is not None
    assert set(found.reached) == set(range(12))


def test_what_was_not_read_this_time_stays_as_it_was_recorded() -> None:
    store = MemoryStore()
    record_topic(store, "orders", seen({0: 10}), now_seconds=NOW)
    found = record_topic(store, "orders", seen({0: 5}, topic_id=None, partitions=0, configs={}), now_seconds=NOW)
    assert list(store.objects) == ["orders/_topic.json", "_mirrorlake/topics/orders"]
    assert (found.topic_id, found.partitions, found.reached) == ("id", 3, {0: 10})


def test_two_that_record_at_once_lose_nothing() -> None:
    class Racing(MemoryStore):
        raced = False

        def create(self, key: str, data: bytes) -> None:
            if not self.raced:
                self.raced = True
                record_topic(self, "orders", seen({1: 7}), now_seconds=NOW)
            super().create(key, data)

    store = Racing()
    found = record_topic(store, "orders", seen({0: 10}), now_seconds=NOW)
    assert found.reached == {0: 10, 1: 7} == (read_topic_record(store, "orders") or found).reached


def test_who_is_never_first_tries_again_later() -> None:
    class Full(MemoryStore):
        tries = 0

        def create(self, key: str, data: bytes) -> None:
            self.tries += 1
            raise ObjectExistsError("exists")

    store = Full()
    with pytest.raises(PositionMovedError):
        record_topic(store, "orders", seen({}), now_seconds=NOW)
    assert store.tries == ATTEMPTS_MAX


def renewed(store: MemoryStore, reached: Mapping[int, int], **fields: object) -> list[str]:
    """Records positions, and returns the names of what is there then."""
    renew_positions(store, "orders", seen(reached, **fields), now_seconds=NOW)
    return [info.name for info in store.list("orders")]


def test_positions_are_renewed_by_objects_of_which_the_last_two_stay() -> None:
    store = MemoryStore()
    record_topic(store, "orders", seen({0: 10, 1: 7}), now_seconds=NOW)
    assert renewed(store, {0: 10}) == ["_topic.json"], "nothing is new"
    assert renewed(store, {0: 20}, partitions=99) == ["_topic.1.json", "_topic.json"]
    assert renewed(store, {0: 30, 1: 3}) == ["_topic.1.json", "_topic.2.json"]
    assert renewed(store, {0: 40}, writer="host-2") == ["_topic.2.json", "_topic.3.json"]
    found = read_topic_record(store, "orders")
    assert found is not None
    assert (found.reached, found.partitions, found.writer) == ({0: 40, 1: 7}, 3, "host-2")


def test_a_record_that_says_something_else_stays_however_often_positions_are_renewed() -> None:
    store = MemoryStore()
    record_topic(store, "orders", seen({0: 10}, topic_id="before"), now_seconds=NOW)
    record_topic(store, "orders", seen({0: 20}), now_seconds=NOW)
    for position in (30, 40, 50):
        names = renewed(store, {0: position})
    assert names == ["_topic.3.json", "_topic.4.json", "_topic.json"]
    assert recorded_origins(store, "orders", 0) == [origin(0, topic_id="before"), origin(0)]


def test_positions_are_not_renewed_where_somebody_has_deleted_the_record() -> None:
    store = MemoryStore()
    assert renewed(store, {0: 10}) == []


def test_a_record_that_goes_while_it_is_read_is_read_as_the_one_after_it() -> None:
    class Renewing(MemoryStore):
        newest = ""

        def read(self, key: str) -> bytes:
            if self.newest:
                self.objects[self.newest], self.newest = self.objects.pop(key), ""
            return super().read(key)

    store = Renewing()
    record_topic(store, "orders", seen({0: 10}), now_seconds=NOW)
    store.newest = "orders/_topic.2.json"
    found = read_topic_record(store, "orders")
    assert found is not None
    assert found.reached == {0: 10}
    store.newest = "orders/_topic.4.json"
    assert recorded_origins(store, "orders", 0) == [origin(0)]
    store.newest = "orders/_topic.6.json"
    assert record_topic(store, "orders", seen({0: 10}), now_seconds=NOW).reached == {0: 10}
    store.newest = "orders/_topic.8.json"
    assert renewed(store, {0: 20}) == ["_topic.8.json", "_topic.9.json"]


@pytest.mark.parametrize("renews", [False, True])
def test_who_takes_a_number_that_others_have_let_go_sees_that_it_does_not_count(renews: bool) -> None:
    """Its listing was of long ago: the number after the one it saw is free again."""

    class Late(MemoryStore):
        is_late = True

        def create(self, key: str, data: bytes) -> None:
            if self.is_late:
                self.is_late = False
                for position in (20, 30, 40):
                    renew_positions(self, "orders", seen({0: position}), now_seconds=NOW)
            super().create(key, data)

    store = Late()
    store.is_late = False
    record_topic(store, "orders", seen({0: 10}), now_seconds=NOW)
    store.is_late = True
    if renews:
        renew_positions(store, "orders", seen({0: 15, 1: 7}), now_seconds=NOW)
    else:
        record_topic(store, "orders", seen({1: 7}), now_seconds=NOW)
    found = read_topic_record(store, "orders")
    assert found is not None
    assert found.reached == {0: 40, 1: 7}


def test_a_death_between_a_record_and_its_register_is_made_up_for() -> None:
    store = MemoryStore()
    record_topic(store, "orders", seen({0: 1}), now_seconds=NOW)
    del store.objects["_mirrorlake/topics/orders"]
    record_topic(store, "orders", seen({0: 1}), now_seconds=NOW)
    assert recorded_topics(store) == {"orders"}


def test_an_empty_partition_is_new_only_if_nobody_recorded_a_segment_of_it() -> None:
    store = MemoryStore()
    check_is_new(store, "orders", origin(0))
    record_topic(store, "orders", seen({0: 10}), now_seconds=NOW)
    check_is_new(store, "orders", origin(1))
    with pytest.raises(ChainBrokenError, match=r"orders/0: no segment is there, and orders/_topic\.json .* offset 10"):
        check_is_new(store, "orders", origin(0))


def test_a_topic_whose_folder_is_gone_is_not_archived_anew_until_somebody_says_it_is_meant() -> None:
    store = MemoryStore()
    record_topic(store, "orders", seen({0: 10}), now_seconds=NOW)
    for key in [key for key in store.objects if key.startswith("orders/")]:
        del store.objects[key]
    with pytest.raises(ChainBrokenError, match="orders is gone: _mirrorlake/topics says") as gone:
        check_is_new(store, "orders", origin(0))
    assert "delete _mirrorlake/topics/orders" in gone.value.hint
    store.delete("_mirrorlake/topics/orders")
    check_is_new(store, "orders", origin(0))


def test_a_record_that_somebody_deleted_beside_its_partitions_stops_no_new_one() -> None:
    store = MemoryStore({"orders/0/00000000000000000000-00000000000000000009.parquet": b""})
    record_topic(store, "orders", seen({0: 10, 1: 5}), now_seconds=NOW)
    store.delete("orders/_topic.json")
    check_is_new(store, "orders", origin(1))


def test_a_partition_does_not_begin_beside_those_of_the_topic_before() -> None:
    store = MemoryStore()
    record_topic(store, "orders", seen({1: 10}), now_seconds=NOW)
    with pytest.raises(TopicRecreatedError, match="other partitions in orders were written from the one before"):
        check_is_new(store, "orders", origin(0, topic_id="recreated"))
    check_is_new(store, "orders", origin(0, topic_id=None))
    check_is_new(store, "orders", origin(0, topic_id="another", cluster_id="elsewhere"))


def test_a_recreated_topic_that_never_had_a_record_begins_in_its_folder() -> None:
    store = MemoryStore()
    record_topic(store, "orders", seen({}), now_seconds=NOW)
    check_is_new(store, "orders", origin(0, topic_id="recreated"))


def test_a_name_of_several_folders_is_among_those_recorded() -> None:
    store = MemoryStore()
    for name in ("team/orders", "team/a/b", "orders"):
        record_topic(store, name, seen({0: 1}), now_seconds=NOW)
    assert recorded_topics(store) == {"team/orders", "team/a/b", "orders"}
