"""What every object store promises, run against each of them."""

import io
import threading
import time

import pytest

from mirrorlake.errors import ConfigurationError
from mirrorlake.stores.memory import MemoryStore
from mirrorlake.stores.object_store import ObjectExistsError, ObjectInfo, ObjectMissingError, ObjectStore


def names(store: ObjectStore, prefix: str, start_after: str = "") -> list[str]:
    return [info.name for info in store.list(prefix, start_after=start_after)]


def publish(store: ObjectStore, key: str, data: bytes) -> None:
    staged = store.stage(key.rpartition("/")[0], "staged")
    staged.file.write(data)
    staged.publish(key)


def test_an_object_is_read_as_it_was_created(store: ObjectStore) -> None:
    store.create("orders/0/a", b"content")
    store.create("orders/0/empty", b"")
    store.create("at-the-root", b"x")
    assert store.read("orders/0/a") == b"content"
    assert store.read("orders/0/empty") == b""
    assert store.read("at-the-root") == b"x"


@pytest.mark.parametrize("letters", [100, 173, 174, 250])
def test_names_may_be_as_long_as_file_systems_take(store: ObjectStore, letters: int) -> None:
    folders = [f"{mark}{'x' * (letters - 1)}" for mark in "abcd"]  # alike but for one character
    for folder in folders:
        store.create(f"_mirrorlake/_schemas/here/{folder}/0000000001-0000000014.json", folder.encode())
        publish(store, f"_mirrorlake/_schemas/here/{folder}/{folder}", b"its name is as long")
    for folder in folders:
        prefix = f"_mirrorlake/_schemas/here/{folder}"
        assert names(store, prefix) == ["0000000001-0000000014.json", folder]
        assert store.read(f"{prefix}/0000000001-0000000014.json") == folder.encode()


def test_a_second_create_loses_and_changes_nothing(store: ObjectStore) -> None:
    store.create("orders/0/a", b"first")
    with pytest.raises(ObjectExistsError):
        store.create("orders/0/a", b"second")
    assert store.read("orders/0/a") == b"first"
    assert names(store, "orders/0") == ["a"]


def test_a_staged_object_is_seen_only_once_published(store: ObjectStore) -> None:
    staged = store.stage("orders/0", "00000000000000000000")
    staged.file.write(b"one ")
    staged.file.write(b"two")
    assert names(store, "orders/0") == []
    staged.publish("orders/0/final")
    assert names(store, "orders/0") == ["final"]
    assert store.read("orders/0/final") == b"one two"


def test_what_is_staged_can_be_read_before_it_is_published(store: ObjectStore) -> None:
    staged = store.stage("orders/0", "part")
    staged.file.write(b"first ")
    staged.file.write(b"second")
    with staged.reread() as file:
        assert file.read() == b"first second"
        file.seek(6)
        assert file.read() == b"second"
    staged.publish("orders/0/a")
    assert store.read("orders/0/a") == b"first second"


def test_a_listing_says_when_an_object_was_written_where_the_store_knows_it(store: ObjectStore) -> None:
    store.create("orders/0/a", b"a")
    (info,) = store.list("orders/0")
    if not isinstance(store, MemoryStore):
        assert info.modified_seconds == pytest.approx(time.time(), abs=60)


def test_publishing_over_an_object_loses_and_changes_nothing(store: ObjectStore) -> None:
    store.create("orders/0/a", b"first")
    with pytest.raises(ObjectExistsError):
        publish(store, "orders/0/a", b"second")
    assert store.read("orders/0/a") == b"first"


def test_a_discarded_object_leaves_nothing(store: ObjectStore) -> None:
    staged = store.stage("orders/0", "staged")
    staged.file.write(b"x")
    staged.discard()
    staged.discard()
    assert names(store, "orders/0") == []


def test_discarding_after_publishing_keeps_the_object(store: ObjectStore) -> None:
    staged = store.stage("orders/0", "staged")
    staged.publish("orders/0/a")
    staged.discard()
    assert names(store, "orders/0") == ["a"]


def test_of_many_creates_at_once_one_wins(store: ObjectStore) -> None:
    won: list[int] = []
    together = threading.Barrier(8)

    def create(writer: int) -> None:
        together.wait()
        try:
            store.create("orders/0/a", b"%d" % writer)
        except ObjectExistsError:
            return
        won.append(writer)

    threads = [threading.Thread(target=create, args=(writer,)) for writer in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert store.read("orders/0/a") == b"%d" % won[0]


def test_a_listing_holds_keys_and_sizes_in_the_order_of_the_names_bytes(store: ObjectStore) -> None:
    for name in ("b", "_x", "a", "ü", "Z", "10", "9", "\U0001f600", "\uffee"):
        store.create(f"orders/0/{name}", name.encode())
    listed = list(store.list("orders/0"))
    assert listed == [
        ObjectInfo(key=f"orders/0/{name}", size_bytes=size)
        for name, size in [
            *(("10", 2), ("9", 1), ("Z", 1), ("_x", 2), ("a", 1), ("b", 1)),
            *(("ü", 2), ("\uffee", 3), ("\U0001f600", 4)),
        ]
    ]


def test_a_listing_starts_after_a_name_that_need_not_exist(store: ObjectStore) -> None:
    for name in ("a", "b", "c"):
        store.create(f"orders/0/{name}", b"")
    assert names(store, "orders/0", start_after="a") == ["b", "c"]
    assert names(store, "orders/0", start_after="aa") == ["b", "c"]
    assert names(store, "orders/0", start_after="c") == []


def test_a_listing_holds_its_own_folder_only(store: ObjectStore) -> None:
    store.create("orders/0/a", b"")
    store.create("orders/0/level=1/b", b"")
    store.create("orders/00/c", b"")
    store.create("orders/d", b"")
    assert names(store, "orders/0") == ["a"]
    assert names(store, "orders") == ["d"]
    assert list(store.folders("orders")) == ["0", "00"]
    assert list(store.folders("")) == ["orders"]
    assert list(store.folders("orders/0")) == ["level=1"]


def test_a_folder_that_does_not_exist_is_empty(store: ObjectStore) -> None:
    assert names(store, "orders/7") == []
    assert list(store.folders("orders/7")) == []
    assert store.sweep_staged("orders/7") == 0


def test_what_is_not_there_is_missing(store: ObjectStore) -> None:
    with pytest.raises(ObjectMissingError):
        store.read("orders/0/a")
    with pytest.raises(ObjectMissingError):
        store.open("orders/0/a")


def test_an_opened_object_can_be_read_anywhere(store: ObjectStore) -> None:
    store.create("orders/0/a", b"0123456789")
    with store.open("orders/0/a") as file:
        assert file.seek(-3, io.SEEK_END) == 7
        assert file.read() == b"789"
        file.seek(2)
        assert file.read(3) == b"234"


def test_deleting_is_idempotent(store: ObjectStore) -> None:
    store.create("orders/0/a", b"")
    store.delete("orders/0/a")
    store.delete("orders/0/a")
    store.delete("nowhere/0/a")
    assert names(store, "orders/0") == []
    store.create("orders/0/a", b"again")


def test_a_live_writers_staged_object_survives_a_sweep(store: ObjectStore) -> None:
    staged = store.stage("orders/0", "staged")
    staged.file.write(b"x")
    assert store.sweep_staged("orders/0") == 0
    staged.publish("orders/0/a")
    assert store.read("orders/0/a") == b"x"


def test_a_probe_passes_and_leaves_nothing(store: ObjectStore) -> None:
    store.probe()
    assert names(store, "") == []
    assert list(store.folders("")) == []


@pytest.mark.parametrize(
    "key", ["", "/etc/passwd", "a//b", "a/", "../up", "a/../../up", "a/./b", "a\0b", "a\\b", "x" * 256]
)
def test_a_key_no_store_can_hold_is_refused(store: ObjectStore, key: str) -> None:
    with pytest.raises(ConfigurationError):
        store.create(key, b"")
    with pytest.raises(ConfigurationError):
        store.read(key)
    with pytest.raises(ConfigurationError):
        store.delete(key)


@pytest.mark.parametrize("prefix", ["..", "/", "a/..", "a/"])
def test_a_folder_no_store_can_hold_is_refused(store: ObjectStore, prefix: str) -> None:
    with pytest.raises(ConfigurationError):
        list(store.list(prefix))
    with pytest.raises(ConfigurationError):
        list(store.folders(prefix))
    with pytest.raises(ConfigurationError):
        store.stage(prefix, "x")
