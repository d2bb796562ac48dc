"""What says that an archive had come further than it does."""

from collections.abc import Mapping

import pytest

from mirrorlake.archive.ends.lost_end import check_end_stands
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.topic_record import TopicRecord, record_topic
from mirrorlake.errors import ChainBrokenError
from mirrorlake.stores.memory import MemoryStore

SEGMENT = "orders/0/00000000000000000000-00000000000000000009.ndjson"
DESCRIPTION = "orders/_meta/0/{first:020}-{last:020}.ndjson.json"


def partition(more: Mapping[str, bytes] | None = None) -> ArchivedPartition:
    """An archive that ends at offset 10."""
    store = MemoryStore({SEGMENT: b"", DESCRIPTION.format(first=0, last=9): b"", **(more or {})})
    return ArchivedPartition(store, destination_name="orders", partition=0, extension="ndjson")


def check(archived: ArchivedPartition, *, seen: int = 0) -> None:
    check_end_stands(archived, archived.read_chain, seen=seen)


def test_an_archive_that_nothing_says_more_of_stands() -> None:
    check(partition())
    check(partition(), seen=10)
    check(partition({"orders/0/_claim-00000000000000000010": b"", DESCRIPTION.format(first=10, last=19): b""}))


def test_what_this_process_has_seen_is_missed() -> None:
    with pytest.raises(ChainBrokenError, match=r"orders/0 ends at offset 10, and this process has seen it end at 11"):
        check(partition(), seen=11)


def test_what_is_recorded_is_missed() -> None:
    archived = partition()
    record = TopicRecord(
        cluster_id="cluster",
        topic="orders",
        topic_id="id",
        partitions=1,
        format="ndjson",
        holds_snapshots=False,
        reached={0: 11},
    )
    record_topic(archived.store, "orders", record, now_seconds=0.0)
    with pytest.raises(ChainBrokenError, match="had reached offset 11"):
        check(archived)


def test_what_is_described_is_missed() -> None:
    key = DESCRIPTION.format(first=10, last=19)
    with pytest.raises(ChainBrokenError, match=f"{key} describes one behind it") as lost:
        check(partition({key: b""}))
    assert "delete what orders/_meta/0 holds from 00000000000000000010 on to continue without it" in lost.value.hint


def test_what_was_claimed_behind_the_end_is_missed() -> None:
    with pytest.raises(ChainBrokenError, match="_claim-00000000000000000020 was claimed behind it"):
        check(partition({"orders/0/_claim-00000000000000000020": b""}))


def test_what_is_published_meanwhile_is_not_missed() -> None:
    """Its writer has described and claimed it when it is asked after, and published it when the end is listed again."""
    archived = partition({DESCRIPTION.format(first=10, last=19): b""})
    store = archived.store
    assert isinstance(store, MemoryStore)
    chain = archived.read_chain()
    store.objects["orders/0/00000000000000000010-00000000000000000019.ndjson"] = b""
    check_end_stands(archived, lambda: chain)
