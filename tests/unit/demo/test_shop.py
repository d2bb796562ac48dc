import json
from typing import Any

import pytest

from mirrorlake.demo.data import FULL, MORE, Amounts, Shop, scaled
from mirrorlake.kafka.records.codec import RecordColumns

NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000


def shop(seed: int = 7) -> Shop:
    return Shop(now_ms=NOW_MS, seed=seed)


def test_the_same_seed_makes_the_same_records() -> None:
    one, other = shop(), shop()

    for make in ("orders", "payments", "old_customers", "recent_customers"):
        pairs = zip(getattr(one, make)(500), getattr(other, make)(500), strict=True)
        assert all(a.equals(b) for a, b in pairs), make
    assert all(
        mine.equals(theirs)
        for a, b in zip(one.transactions(5), other.transactions(5), strict=True)
        for mine, theirs in zip(a.columns, b.columns, strict=True)
    )


def test_another_seed_makes_other_records() -> None:
    assert not shop(1).orders(100)[0].equals(shop(2).orders(100)[0])


def test_the_next_orders_go_on_with_the_numbers() -> None:
    source = shop()

    first, second = source.orders(50), source.orders(50)

    assert sorted(json.loads(v)["order"] for v in values(first)) == [f"O-{n:08d}" for n in range(50)]
    assert sorted(json.loads(v)["order"] for v in values(second)) == [f"O-{n:08d}" for n in range(50, 100)]


def test_an_order_is_a_document_of_half_a_kilobyte_under_its_customers_key() -> None:
    columns = shop().orders(2000)

    assert sum(map(len, columns)) == 2000
    assert 400 < sum(map(len, values(columns))) / 2000 < 600
    for number, of_partition in enumerate(columns):
        for key, value in zip(of_partition.keys.to_pylist(), of_partition.values.to_pylist(), strict=True):
            order = json.loads(value)
            assert order["customer"].encode() == key
            assert int(key[2:]) % 4 == number
            assert len(order["items"]) == 2


def test_orders_have_no_headers_repeated_ones_null_ones_and_empty_ones() -> None:
    headers = [headers for columns in shop().orders(2000) for headers in columns.headers.to_pylist()]

    assert [] in headers
    assert any([h["key"] for h in of_record].count(b"tried") == 2 for of_record in headers)
    assert any({"key": b"campaign", "value": None} in of_record for of_record in headers)
    assert any({"key": b"coupon", "value": b""} in of_record for of_record in headers)


def test_one_payment_in_25_is_a_tombstone_for_an_earlier_one() -> None:
    seen: set[bytes] = set()
    tombstones = 0

    for columns in shop().payments(1000):
        for key, value in zip(columns.keys.to_pylist(), columns.values.to_pylist(), strict=True):
            if value is None:
                tombstones += 1
                assert key in seen
            seen.add(key)

    assert tombstones == 40


def test_old_customers_are_past_compactions_lag_and_recent_ones_are_not() -> None:
    source = shop()

    old, recent = source.old_customers(300), source.recent_customers(300)

    assert all(NOW_MS - 51 * HOUR_MS < t < NOW_MS - 30 * HOUR_MS for c in old for t in c.timestamps.tolist())
    assert all(NOW_MS - HOUR_MS < t < NOW_MS for c in recent for t in c.timestamps.tolist())
    # From the first old one to the first recent one more than segment.ms: the broker begins a new segment there.
    assert all(int(r.timestamps[0]) - int(o.timestamps[0]) > 24 * HOUR_MS for o, r in zip(old, recent, strict=True))
    # And less between the old ones: they stay together until then.
    assert all(int(o.timestamps[-1]) - int(o.timestamps[0]) < 24 * HOUR_MS for o in old)


def test_customers_change_again_and_again_and_some_are_deleted() -> None:
    columns = shop().old_customers(20_000)

    keys = [key for of_partition in columns for key in of_partition.keys.to_pylist()]
    assert len(set(keys)) < len(keys) / 4
    assert values(columns).count(None) == 1000


def test_every_fifth_transaction_is_to_be_aborted() -> None:
    made = shop().transactions(10)

    assert [transaction.is_committed for transaction in made] == [True, True, True, True, False] * 2
    assert [sum(map(len, transaction.columns)) for transaction in made] == [250] * 10


def test_timestamps_grow_within_a_partition_and_lie_before_now() -> None:
    for columns in shop().orders(1000):
        times = columns.timestamps.tolist()
        assert times == sorted(times)
        assert NOW_MS - 3 * HOUR_MS < times[0] <= times[-1] < NOW_MS


@pytest.mark.parametrize("scale", [1e-9, 0.02])
def test_a_small_scale_keeps_every_kind_of_record(scale: float) -> None:
    small = scaled(FULL, scale)

    assert small.orders >= 400
    assert small.payments >= 25
    assert small.customers >= 200
    assert small.transactions >= 5


def test_the_full_amounts_are_what_the_documentation_says() -> None:
    assert scaled(FULL, 1.0) == FULL == Amounts(orders=300_000, payments=80_000, customers=40_000, transactions=60)
    assert scaled(MORE, 1.0) == MORE


def values(columns: list[RecordColumns]) -> list[Any]:
    """All values: bytes, and None for tombstones."""
    return [value for of_partition in columns for value in of_partition.values.to_pylist()]
