import struct

import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings

from mirrorlake.kafka.records.codec import record_hashes
from unit.kafka.records.record_samples import Sample, any_keys, columns_of, sample_lists


def expected_hash(sample: Sample) -> int:
    """The algorithm as its docstring has it, over another implementation of XXH64."""
    numbers = (sample.offset, sample.timestamp, length(sample.key), length(sample.value), len(sample.headers))
    result = xxhash.xxh64_intdigest(struct.pack("<qqqqq", *numbers), seed=0)
    result = xxhash.xxh64_intdigest(sample.key or b"", seed=result)
    result = xxhash.xxh64_intdigest(sample.value or b"", seed=result)
    for key, value in sample.headers:
        result = xxhash.xxh64_intdigest(struct.pack("<qq", len(key), length(value)), seed=result)
        result = xxhash.xxh64_intdigest(key, seed=result)
        result = xxhash.xxh64_intdigest(value or b"", seed=result)
    return result


def length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def hash_of(sample: Sample) -> int:
    (result,) = record_hashes(columns_of([sample])).tolist()
    return int(result)


@settings(deadline=None, max_examples=100)
@given(samples=sample_lists(header_keys=any_keys))
def test_hash_is_the_documented_one(samples: list[Sample]) -> None:
    assert record_hashes(columns_of(samples)).tolist() == [expected_hash(each) for each in samples]


@pytest.mark.parametrize("size", range(70))
def test_every_length_is_hashed_to_its_last_byte(size: int) -> None:
    value = bytes(range(size))
    assert hash_of(Sample(0, value=value)) == expected_hash(Sample(0, value=value))
    if size:
        assert hash_of(Sample(0, value=value)) != hash_of(Sample(0, value=value[:-1] + b"\xff"))


def test_hash_stays_what_it_was() -> None:
    # Written down in version 0.1: verification compares hashes that different versions computed.
    assert hash_of(Sample(0, 0, None, None)) == 0x7084E23554A7A1C5
    assert hash_of(Sample(7, 1_700_000_000_000, b"key", b"value", ((b"h", None),))) == 0x4DB111897C0E477E


def test_slices_hash_as_the_whole() -> None:
    samples = [Sample(i, i, None if i % 2 else b"k", b"v" * i, ((b"h%d" % i, None),) * (i % 3)) for i in range(20)]
    columns = columns_of(samples)
    assert record_hashes(columns.slice(5, 15)).tolist() == record_hashes(columns).tolist()[5:15]


def test_hash_of_columns_from_elsewhere_does_not_depend_on_their_layout() -> None:
    # A null list of headers, as other writers may store it, is an absent one.
    columns = columns_of([Sample(0), Sample(1)])
    assert columns.headers.type.equals(pa.array([[], None], columns.headers.type).type)
    other = type(columns).of(
        offsets=columns.offsets,
        timestamps=columns.timestamps,
        timestamp_types=columns.timestamp_types,
        keys=columns.keys,
        values=columns.values,
        headers=pa.array([[], None], columns.headers.type),
    )
    assert record_hashes(other).tolist() == record_hashes(columns).tolist()


def test_records_that_differ_in_anything_differ_in_their_hash() -> None:
    base = Sample(5, 6, b"ab", b"cd", ((b"e", b"f"), (b"g", None)))
    others = [
        Sample(6, 6, b"ab", b"cd", base.headers),
        Sample(5, 7, b"ab", b"cd", base.headers),
        Sample(5, 6, b"abc", b"d", base.headers),
        Sample(5, 6, b"a", b"bcd", base.headers),
        Sample(5, 6, None, b"cd", base.headers),
        Sample(5, 6, b"", b"cd", base.headers),
        Sample(5, 6, b"ab", None, base.headers),
        Sample(5, 6, b"ab", b"", base.headers),
        Sample(5, 6, b"ab", b"cd", base.headers[::-1]),
        Sample(5, 6, b"ab", b"cd", base.headers[:1]),
        Sample(5, 6, b"ab", b"cd", ((b"e", b"f"), (b"g", b""))),
        Sample(5, 6, b"ab", b"cd", ((b"ef", b""), (b"g", None))),
        Sample(5, 6, b"ab", b"cd", ()),
    ]
    assert len({hash_of(each) for each in (base, *others)}) == 1 + len(others)
