import dataclasses
import struct

import numpy as np
import pyarrow as pa
import pytest
import xxhash

from mirrorlake.archive.checksum import ContentChecksum
from unit.archive.sample_records import AWKWARD, Record, columns_of


def checksum(*pieces: list[Record]) -> str:
    content = ContentChecksum()
    for piece in pieces:
        content.update(columns_of(piece))
    return content.hexdigest()


def by_hand(records: list[Record]) -> str:
    """The definition of docs/archive-format.md, one record at a time."""

    def number(value: int) -> bytes:
        return struct.pack("<q", value)

    def length(value: bytes | None) -> bytes:
        return number(-1 if value is None else len(value))

    headers = [header for record in records for header in record.headers]
    streams = [
        b"".join(number(record.offset) for record in records),
        b"".join(number(record.timestamp_ms) for record in records),
        b"".join(struct.pack("<b", record.timestamp_type) for record in records),
        b"".join(length(record.key) for record in records),
        b"".join(record.key or b"" for record in records),
        b"".join(length(record.value) for record in records),
        b"".join(record.value or b"" for record in records),
        b"".join(number(len(record.headers)) for record in records),
        b"".join(length(key) for key, _ in headers),
        b"".join(key for key, _ in headers),
        b"".join(length(value) for _, value in headers),
        b"".join(value or b"" for _, value in headers),
    ]
    return xxhash.xxh3_128_hexdigest(b"".join(xxhash.xxh3_128_digest(stream) for stream in streams))


def test_the_checksum_is_the_documented_one() -> None:
    assert checksum(list(AWKWARD)) == by_hand(list(AWKWARD))
    assert checksum() == by_hand([])


def test_the_checksum_does_not_depend_on_how_records_are_cut() -> None:
    records = list(AWKWARD)
    for cut in range(len(records) + 1):
        assert checksum(records[:cut], records[cut:]) == by_hand(records)


def test_the_checksum_of_a_slice_is_that_of_its_records() -> None:
    content = ContentChecksum()
    content.update(columns_of(AWKWARD).slice(2, 6))
    assert content.hexdigest() == by_hand(list(AWKWARD[2:6]))


@pytest.mark.parametrize(
    "other",
    [
        Record(1, b"k", b"v"),
        Record(0, b"", b"kv"),
        Record(0, None, b"kv"),
        Record(0, b"k", None),
        Record(0, b"k", b"v", timestamp_ms=1),
        Record(0, b"k", b"v", timestamp_type=1),
        Record(0, b"k", b"v", headers=((b"", b""),)),
        Record(0, b"k", b"v", headers=((b"", None),)),
    ],
)
def test_any_difference_in_a_record_changes_the_checksum(other: Record) -> None:
    assert checksum([other]) != checksum([Record(0, b"k", b"v")])


def test_the_order_of_records_changes_the_checksum() -> None:
    one, two = Record(0, b"a", b"1"), Record(0, b"b", b"2")
    assert checksum([one, two]) != checksum([two, one])


def test_bytes_below_a_null_are_no_part_of_the_records() -> None:
    plain = columns_of([Record(0, b"ab", None)])
    bounds = np.array([0, 2], np.int64)
    dirty_null = pa.Array.from_buffers(
        pa.large_binary(), 1, [pa.py_buffer(b"\x00"), pa.py_buffer(bounds), pa.py_buffer(b"??")]
    )
    dirty = ContentChecksum()
    dirty.update(dataclasses.replace(plain, values=dirty_null))
    clean = ContentChecksum()
    clean.update(plain)
    assert dirty.hexdigest() == clean.hexdigest()
