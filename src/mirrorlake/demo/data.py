"""A small shop's topics: orders, payments, customers and a ledger; the same records for the same seed.

Values are built from fragments that are made once: a third of a million documents must not take longer than
copying them.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass

from mirrorlake.demo.columns import Headers, record_columns
from mirrorlake.demo.topics import CUSTOMERS, HOUR_MS, LEDGER, ORDERS, PAYMENTS, TRANSACTION_RECORDS
from mirrorlake.kafka.records.codec import RecordColumns

SEED = 20_24

PEOPLE = 4_000
_GOODS = ("espresso cups", "linen towel", "oak shelf", "desk lamp", "wool blanket", "tea tin", "garden chair", "atlas")
_SORTS = ("small", "large", "blue", "natural", "set of four", "second choice")
_CITIES = ("Utrecht", "Gdańsk", "Porto", "Tampere", "Graz", "Lyon", "Žilina", "Malmö", "Cork", "Bari")
_STREETS = ("Canal Street", "Rua Nova", "Lange Gasse", "Mill Lane", "Puistokatu", "Via Roma", "Quai Sud")
_NAMES = ("Ana", "Boris", "Chiara", "Dilek", "Emil", "Freya", "Goran", "Hanna", "Ivo", "Jana", "Kofi", "Lea")
_FAMILIES = ("Novak", "Silva", "Virtanen", "Bauer", "Moreau", "Kowalska", "Byrne", "Conti", "Larsen", "Okafor")
_CHANNELS = (b"web", b"app", b"shop", b"phone")
_METHODS = (b"card", b"transfer", b"voucher", b"cash")

_ABORTED_EVERY = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """How many records of each kind; ``transactions`` of 250 records, committed or aborted."""

    orders: int
    payments: int
    customers: int
    transactions: int


FULL = Amounts(orders=300_000, payments=80_000, customers=40_000, transactions=60)
MORE = Amounts(orders=12_000, payments=3_000, customers=800, transactions=5)


def scaled(amounts: Amounts, scale: float) -> Amounts:
    """Returns amounts times ``scale``, never below what every kind of record needs to appear."""
    return Amounts(
        orders=max(400, round(amounts.orders * scale)),
        payments=max(400, round(amounts.payments * scale)),
        customers=max(200, round(amounts.customers * scale)),
        transactions=max(_ABORTED_EVERY, round(amounts.transactions * scale)),
    )


class Shop:
    """Makes records; the same ones for the same seed, clock and order of calls.

    Args:
        now_ms: milliseconds since the epoch; every timestamp lies before it.
        seed: of all that looks random.
    """

    def __init__(self, *, now_ms: int, seed: int = SEED) -> None:
        self._now_ms = now_ms
        self._random = random.Random(seed)
        self._orders = 0
        self._payments = 0
        self._entries = 0
        self._items = [self._item(n) for n in range(600)]
        self._addresses = [self._address(n) for n in range(PEOPLE)]
        self._order_headers = [self._order_header(n) for n in range(997)]

    def orders(self, count: int) -> list[RecordColumns]:
        """Returns the next orders of the last two hours, by partition."""
        draw, items, addresses = self._random, self._items, self._addresses
        rows: list[_Rows] = [_Rows() for _ in range(ORDERS.partitions)]
        for n, time_ms in enumerate(self._times(count, hours=2.0), start=self._orders):
            customer = draw.randrange(PEOPLE)
            first, second = draw.randrange(600), draw.randrange(600)
            value = b'{"order":"O-%08d","placed_at":%d,"customer":"C-%05d","items":[%s,%s],"ship_to":%s,' % (
                *(n, time_ms, customer, items[first], items[second], addresses[customer]),
            ) + b'"total_cents":%d,"currency":"EUR","payment":"%s","session":"%s"}' % (
                *(first * 31 + second * 17 + 1990, _METHODS[n % 4], draw.randbytes(24).hex().encode()),
            )
            rows[customer % ORDERS.partitions].add(
                time_ms, b"C-%05d" % customer, value, self._order_headers[draw.randrange(997)]
            )
        self._orders += count
        return [of_partition.columns() for of_partition in rows]

    def payments(self, count: int) -> list[RecordColumns]:
        """Returns the next payments of two hours, by partition; one in 25 withdraws an earlier one: a tombstone."""
        draw = self._random
        rows: list[_Rows] = [_Rows() for _ in range(PAYMENTS.partitions)]
        for n, time_ms in enumerate(self._times(count, hours=2.0), start=self._payments):
            if n % 25 == 24:
                withdrawn = n - draw.randrange(1, 24)
                rows[withdrawn % 2].add(time_ms, b"P-%08d" % withdrawn, None, ((b"reason", b"withdrawn"),))
                continue
            value = b'{"payment":"P-%08d","order":"O-%08d","method":"%s","amount_cents":%d,"authorised":"%s"}' % (
                *(n, n * 3, _METHODS[draw.randrange(4)], draw.randrange(500, 90_000)),
                draw.randbytes(12).hex().encode(),
            )
            headers: Headers = ((b"signature", draw.randbytes(32)),) if n % 3 else ()
            rows[n % 2].add(time_ms, b"P-%08d" % n, value, headers)
        self._payments += count
        return [of_partition.columns() for of_partition in rows]

    def old_customers(self, count: int) -> list[RecordColumns]:
        """Returns changes of customers between 50 and 30 hours ago, by partition: old enough to be compacted."""
        return self._customers(self._times(count, hours=20.0, until_ms=self._now_ms - 30 * HOUR_MS))

    def recent_customers(self, count: int) -> list[RecordColumns]:
        """Returns changes of the last half hour, by partition: too young to be compacted."""
        return self._customers(self._times(count, hours=0.5))

    def _customers(self, times_ms: Sequence[int]) -> list[RecordColumns]:
        draw = self._random
        rows: list[_Rows] = [_Rows() for _ in range(CUSTOMERS.partitions)]
        for n, time_ms in enumerate(times_ms):
            # The first ones in turn, so that every partition gets some however few there are.
            customer = n if n < 20 else draw.randrange(PEOPLE)
            value = None
            if n % 20 != 19:
                value = b'{"customer":"C-%05d","address":%s,"points":%d,"newsletter":%s,"changed_at":%d}' % (
                    *(customer, self._addresses[customer], draw.randrange(9_000)),
                    *((b"true", b"false")[n % 2], time_ms),
                )
            rows[customer % 2].add(time_ms, b"C-%05d" % customer, value, ((b"by", b"crm"),))
        return [of_partition.columns() for of_partition in rows]

    def transactions(self, count: int) -> list["Transaction"]:
        """Returns the next transactions of the last hour; every fifth is to be aborted."""
        times_ms = self._times(count * TRANSACTION_RECORDS, hours=1.0)
        draw = self._random
        made = []
        for number in range(count):
            rows: list[_Rows] = [_Rows() for _ in range(LEDGER.partitions)]
            for time_ms in times_ms[number * TRANSACTION_RECORDS : (number + 1) * TRANSACTION_RECORDS]:
                entry = self._entries = self._entries + 1
                value = b'{"entry":%d,"debit":"%d","credit":"%d","amount_cents":%d,"text":"%s"}' % (
                    *(entry, draw.randrange(1000, 1999), draw.randrange(4000, 4999), draw.randrange(1, 400_000)),
                    draw.randbytes(10).hex().encode(),
                )
                rows[entry % 2].add(time_ms, b"E-%08d" % entry, value, ())
            made.append(
                Transaction(
                    columns=tuple(of_partition.columns() for of_partition in rows),
                    is_committed=number % _ABORTED_EVERY != _ABORTED_EVERY - 1,
                )
            )
        return made

    def _times(self, count: int, *, hours: float, until_ms: int | None = None) -> list[int]:
        """Returns times that grow, the last one a second before ``until_ms``."""
        end_ms = (self._now_ms if until_ms is None else until_ms) - 1000
        start_ms = end_ms - int(hours * HOUR_MS)
        return [start_ms + (end_ms - start_ms) * (n + 1) // count for n in range(count)]

    def _item(self, number: int) -> bytes:
        name = f"{self._random.choice(_GOODS)}, {self._random.choice(_SORTS)}"
        price = self._random.randrange(290, 24_900, 10)
        return _document({"sku": f"SKU-{number:04d}", "name": name, "quantity": 1 + number % 3, "price_cents": price})

    def _address(self, number: int) -> bytes:
        draw = self._random
        street = f"{draw.choice(_STREETS)} {draw.randrange(1, 180)}"
        name = f"{draw.choice(_NAMES)} {draw.choice(_FAMILIES)}"
        return _document({"name": name, "street": street, "city": draw.choice(_CITIES), "code": f"{number:05d}"})

    def _order_header(self, number: int) -> Headers:
        trace = (b"trace", self._random.randbytes(16))
        channel = (b"channel", _CHANNELS[number % 4])
        match number % 10:
            case 0:
                return ()
            case 1:
                return (trace, (b"tried", b"1"), (b"tried", b"2"), channel)
            case 2:
                return (trace, (b"campaign", None), channel)
            case 3:
                return (trace, (b"coupon", b""), channel)
        return (trace, channel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """Records of one transaction, by partition, and how it is to end."""

    columns: tuple[RecordColumns, ...]
    is_committed: bool


class _Rows:
    """The rows of one partition as they are made."""

    def __init__(self) -> None:
        self._times: list[int] = []
        self._keys: list[bytes] = []
        self._values: list[bytes | None] = []
        self._headers: list[Headers] = []

    def add(self, time_ms: int, key: bytes, value: bytes | None, headers: Headers) -> None:
        self._times.append(time_ms)
        self._keys.append(key)
        self._values.append(value)
        self._headers.append(headers)

    def columns(self) -> RecordColumns:
        return record_columns(timestamps_ms=self._times, keys=self._keys, values=self._values, headers=self._headers)


def _document(fields: dict[str, object]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
