from collections.abc import Sequence

import pytest

from mirrorlake.demo.columns import record_columns
from mirrorlake.demo.compaction import surviving_rows
from mirrorlake.demo.data import Amounts, Shop
from mirrorlake.demo.loading import Content, Prepared, prepare
from mirrorlake.demo.topics import ORDERS, PAYMENTS
from mirrorlake.kafka.records.batches import Codec, walk
from mirrorlake.kafka.records.codec import RecordColumns, decode_batches

AMOUNTS = Amounts(orders=3000, payments=500, customers=600, transactions=5)


@pytest.fixture(scope="module")
def prepared() -> Prepared:
    return prepare(Shop(now_ms=1_800_000_000_000, seed=7), AMOUNTS, old_customers=500, recent_customers=100)


def decoded(batches: Sequence[bytearray]) -> list[RecordColumns]:
    return [decode_batches(list(walk(memoryview(batch)))) for batch in batches]


def test_batches_hold_every_record_in_order(prepared: Prepared) -> None:
    fresh = Shop(now_ms=1_800_000_000_000, seed=7).orders(3000)

    for partition, batches in enumerate(prepared.batches["orders"]):
        found = RecordColumns.concat(decoded(batches)).renumbered(0)
        assert found.equals(fresh[partition])


@pytest.mark.parametrize("shape", [ORDERS, PAYMENTS])
def test_a_topics_codecs_take_turns(prepared: Prepared, shape: object) -> None:
    assert shape in (ORDERS, PAYMENTS)
    topic, expected = (
        ("orders", [Codec.LZ4, Codec.ZSTD, Codec.LZ4]) if shape is ORDERS else ("payments", [Codec.SNAPPY])
    )

    headers = [next(walk(memoryview(batch))).header for batch in prepared.batches[topic][0]]

    assert [header.codec for header in headers][: len(expected)] == expected


def test_contents_count_what_readers_find(prepared: Prepared) -> None:
    kept = sum(len(offsets) for offsets in prepared.kept_customers)

    assert {topic: content.records for topic, content in prepared.contents.items()} == {
        "orders": 3000,
        "payments": 500,
        "customers": kept + 100,
        "ledger": 1000,  # of five transactions of 250 one is aborted
    }
    assert sum(prepared.looked_at) == 500
    orders = prepared.contents["orders"]
    assert orders.record_bytes > orders.wire_bytes > 0
    assert orders.wire_bytes == sum(len(batch) for batches in prepared.batches["orders"] for batch in batches)


def test_recent_customers_begin_with_a_batch_of_their_own(prepared: Prepared) -> None:
    for batches, looked_at in zip(prepared.batches["customers"], prepared.looked_at, strict=True):
        counts = [len(columns) for columns in decoded(batches)]
        ends = [sum(counts[: n + 1]) for n in range(len(counts))]
        assert looked_at in ends


def test_compaction_keeps_the_last_record_of_each_key_tombstones_too() -> None:
    columns = record_columns(
        timestamps_ms=[1, 2, 3, 4, 5],
        keys=[b"a", b"b", b"a", b"c", b"b"],
        values=[b"1", b"2", b"3", None, b""],
        headers=[()] * 5,
    )

    assert surviving_rows(columns) == [2, 3, 4]


def test_contents_add_up() -> None:
    one, other = Content(records=1, record_bytes=10, wire_bytes=5), Content(records=2, record_bytes=30, wire_bytes=7)

    assert one + other == Content(records=3, record_bytes=40, wire_bytes=12)


def test_columns_keep_nulls_empties_and_repeated_headers() -> None:
    columns = record_columns(
        timestamps_ms=[5, 6, 7],
        keys=[b"", b"k", b"k"],
        values=[None, b"", b"v"],
        headers=[(), ((b"h", None), (b"h", b"")), ((b"x", b"1"),)],
    )

    assert columns.values.to_pylist() == [None, b"", b"v"]
    assert columns.headers.to_pylist() == [
        [],
        [{"key": b"h", "value": None}, {"key": b"h", "value": b""}],
        [{"key": b"x", "value": b"1"}],
    ]
    assert columns.sizes.tolist() == [0, 3, 4]
