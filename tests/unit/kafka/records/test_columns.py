import pickle
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from mirrorlake.kafka.records.columns import HEADERS_TYPE, RecordColumns
from unit.kafka.records.record_samples import Sample, columns_of, samples_of

SAMPLES = [
    Sample(3, 10, b"k", None, ((b"a", b"1"), (b"a", None))),
    Sample(4, 11, None, b"", ()),
    Sample(9, 12, b"", b"value", ((b"\xff", b""),)),
    Sample(10, 13, b"key", b"v", ()),
]


def test_sizes_are_computed_where_they_are_not_known() -> None:
    known = columns_of(SAMPLES)
    for part in (known, known.slice(1, 4), known.slice(2, 3), known.slice(1, 2), known.slice(4, 4)):
        computed = RecordColumns.of(
            offsets=part.offsets,
            timestamps=part.timestamps,
            timestamp_types=part.timestamp_types,
            keys=part.keys,
            values=part.values,
            headers=part.headers,
        )
        assert computed.equals(part)
    assert known.sizes.tolist() == [4, 0, 6, 4]


def test_slice_is_half_open_and_shares_memory() -> None:
    columns = columns_of(SAMPLES)
    part = columns.slice(1, 3)
    assert samples_of(part) == SAMPLES[1:3]
    assert np.shares_memory(part.offsets, columns.offsets)


def test_concat_restores_what_was_sliced() -> None:
    columns = columns_of(SAMPLES)
    parts = [columns.slice(0, 1), columns.slice(1, 1), columns.slice(1, 4)]
    assert RecordColumns.concat(parts).equals(columns)
    assert RecordColumns.concat([columns]) is columns
    assert RecordColumns.concat([]).equals(RecordColumns.empty())


def test_renumbered_changes_offsets_only() -> None:
    renumbered = columns_of(SAMPLES).renumbered(100)
    assert renumbered.offsets.tolist() == [100, 101, 102, 103]
    assert renumbered.timestamps.tolist() == [10, 11, 12, 13]


@pytest.mark.parametrize(
    "change",
    [
        Sample(4, 10, b"k", None, SAMPLES[0].headers),
        Sample(3, 11, b"k", None, SAMPLES[0].headers),
        Sample(3, 10, None, None, SAMPLES[0].headers),
        Sample(3, 10, b"k", b"", SAMPLES[0].headers),
        Sample(3, 10, b"k", None, SAMPLES[0].headers[::-1]),
        Sample(3, 10, b"k", None, SAMPLES[0].headers, timestamp_type=1),
    ],
)
def test_equals_sees_every_field(change: Sample) -> None:
    assert not columns_of([SAMPLES[0]]).equals(columns_of([change]))


def test_columns_survive_pickling() -> None:
    columns = columns_of(SAMPLES)
    assert pickle.loads(pickle.dumps(columns)).equals(columns)


def test_columns_of_different_length_are_refused() -> None:
    columns = columns_of(SAMPLES)
    with pytest.raises(ValueError, match="length"):
        replace(columns, keys=columns.keys[1:])


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("offsets", np.zeros(4, np.int32)),
        ("timestamp_types", np.zeros(4, np.int64)),
        ("keys", pa.array([b"k"] * 4, pa.binary())),
        ("values", pa.array(["v"] * 4)),
        ("headers", pa.array([[]] * 4, pa.list_(pa.string()))),
    ],
)
def test_columns_of_another_type_are_refused(name: str, array: npt.NDArray[np.signedinteger] | pa.Array) -> None:
    with pytest.raises(ValueError, match="types"):
        replace(columns_of(SAMPLES), **{name: array})


def test_type_of_headers_takes_nulls_for_values_alone() -> None:
    field = HEADERS_TYPE.value_field
    assert not field.nullable
    assert [(each.name, each.nullable) for each in field.type] == [("key", False), ("value", True)]
