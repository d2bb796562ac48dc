from dataclasses import replace

import pytest

from mirrorlake.demo.columns import Headers, record_columns
from mirrorlake.demo.proof import Fingerprint, RecordDigest, compared
from mirrorlake.kafka.records.codec import RecordColumns
from mirrorlake.offsets import TopicPartition


def columns(
    *,
    keys: tuple[bytes, ...] = (b"a", b"", b"c"),
    values: tuple[bytes | None, ...] = (b"1", None, b"22"),
    headers: tuple[Headers, ...] = ((), ((b"h", None), (b"h", b"")), ((b"x", b"1"),)),
    times: tuple[int, ...] = (5, 6, 7),
) -> RecordColumns:
    return record_columns(timestamps_ms=times, keys=keys, values=values, headers=headers)


def digest(*parts: RecordColumns) -> str:
    made = RecordDigest()
    for part in parts:
        made.update(part)
    assert made.records == sum(map(len, parts))
    return made.hex()


@pytest.mark.parametrize("cut", [0, 1, 2, 3])
def test_a_digest_does_not_tell_where_records_were_parted(cut: int) -> None:
    whole = columns()
    assert digest(whole.slice(0, cut), whole.slice(cut, 3)) == digest(whole)


@pytest.mark.parametrize(
    "other",
    [
        columns(values=(b"1", b"", b"22")),
        columns(values=(b"12", None, b"2")),
        columns(values=(None, b"1", b"22")),
        columns(keys=(b"", b"a", b"c")),
        columns(headers=((), ((b"h", b""), (b"h", None)), ((b"x", b"1"),))),
        columns(headers=((), ((b"h", None),), ((b"h", b""), (b"x", b"1")))),
        columns(headers=((), ((b"h", None), (b"h", b"")), ((b"x1", b""),))),
        columns(times=(5, 6, 8)),
        columns().renumbered(1),
        columns().slice(0, 2),
        columns().without_timestamps(),
    ],
    ids=[
        *("null or empty", "bytes moved", "null moved", "keys", "header order", "header moved", "header key or value"),
        *("time", "offset", "one less", "kind of time"),
    ],
)
def test_a_digest_tells_every_field(other: RecordColumns) -> None:
    assert digest(other) != digest(columns())


ORDERS = TopicPartition("orders", 0)
LOST = Fingerprint(start_offset=2, end_offset=9, records=5, digest="d")


def test_what_is_there_again_is_equal() -> None:
    assert compared({ORDERS: LOST}, {ORDERS: LOST}, {"orders": 5}) == [
        {"topic": "orders", "partitions": 1, "offsets": 7, "records": 5, "compared": "equal"}
    ]


@pytest.mark.parametrize(
    "found",
    [
        replace(LOST, digest="other"),
        replace(LOST, records=4),
        replace(LOST, start_offset=0),
        replace(LOST, end_offset=10),
        None,
    ],
)
def test_what_differs_is_named(found: Fingerprint | None) -> None:
    (row,) = compared({ORDERS: LOST}, {} if found is None else {ORDERS: found}, {"orders": 5})
    assert row["compared"] == "differs: orders-0"


def test_nothing_read_on_both_sides_proves_nothing() -> None:
    nothing = replace(LOST, records=0)
    (row,) = compared({ORDERS: nothing}, {ORDERS: nothing}, {"orders": 5})
    assert row["compared"] == "0 of 5 were read before"
