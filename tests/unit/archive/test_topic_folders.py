"""Which folders of a topic are its partitions: what else holds files of an archive is named, and read by nobody."""

import pytest

from mirrorlake.archive.inspection import archived_folders
from mirrorlake.archive.topic_record import partitions_in, strays_in
from mirrorlake.errors import ChainBrokenError, MirrorlakeError
from mirrorlake.sources.archive.identity import topic_folder
from mirrorlake.spark_source.archive_plan import find_partitions
from mirrorlake.stores.memory import MemoryStore

FILE = f"{0:020}-{9:020}"


def store_of(*keys: str) -> MemoryStore:
    return MemoryStore(dict.fromkeys(keys, b""))


def beside(store: MemoryStore) -> list[str]:
    """What a survey of the store names."""
    found: list[str] = []

    def pass_over(_: str, error: MirrorlakeError) -> None:
        raise error

    def stray(_: str, error: ChainBrokenError) -> None:
        found.append(str(error.facts["name"]))

    list(archived_folders(store, pass_over=pass_over, strays=stray))
    return found


@pytest.mark.parametrize("extension", ["parquet", "ndjson", "log"])
@pytest.mark.parametrize("folder", ["00", "007", "0000000000", "2147483648", "99999999999999999999"])
@pytest.mark.parametrize(
    "others", [(), (f"orders/0/{FILE}.parquet", f"orders/7/{FILE}.parquet")], ids=["alone", "beside"]
)
def test_a_number_that_is_written_otherwise_is_refused_by_whoever_reads(
    folder: str, others: tuple[str, ...], extension: str
) -> None:
    store = store_of(f"orders/{folder}/{FILE}.{extension}", *others)
    for read in (
        lambda: partitions_in(store, "orders"),
        lambda: topic_folder(store, "orders", folder="", given={}, generation=None),
        lambda: find_partitions(store, ["orders"], []),
    ):
        with pytest.raises(ChainBrokenError, match=f"orders/{folder} holds files of an archive"):
            read()
    if others:
        with pytest.raises(ChainBrokenError, match=f"orders/{folder} holds files of an archive"):
            find_partitions(store, [], ["ord.*"])
    assert beside(store) == [folder]


@pytest.mark.parametrize("folder", ["0.bak", "backup", "0 copy", "-1", "٣"])
def test_another_folder_of_files_is_named_by_a_survey_and_leaves_readers_alone(folder: str) -> None:
    store = store_of(f"orders/0/{FILE}.parquet", f"orders/{folder}/{FILE}.parquet")
    assert partitions_in(store, "orders") == {0}
    assert beside(store) == [folder]


@pytest.mark.parametrize(
    "key",
    [
        "orders/00/readme.txt",
        f"orders/00/_{FILE}.parquet",
        f"orders/00/.{FILE}.parquet",
        f"orders/00/1/{FILE}.parquet",
        f"orders/eu/0/{FILE}.parquet",
        f"orders/_meta/0/{FILE}.parquet",
        f"orders/_old/{FILE}.parquet",
    ],
)
def test_what_no_reader_takes_for_the_topics_is_no_harm(key: str) -> None:
    store = store_of(f"orders/0/{FILE}.parquet", key)
    assert partitions_in(store, "orders") == {0}
    assert beside(store) == []


def test_the_error_says_where_the_partition_lies_and_what_to_do() -> None:
    store = store_of(f"orders/007/{FILE}.parquet")
    (error,) = strays_in(store, "orders", ["007"])
    assert "partition 7 lies in orders/7" in error.message
    assert "move it out of orders; or, where orders/7 is gone, give it that name" in error.hint
    (large,) = strays_in(store_of(f"orders/2147483648/{FILE}.log"), "orders", ["2147483648"])
    assert large.hint == "move it out of orders"
