"""Records as plain Python values, on their way into and out of columns and batches."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from mirrorlake.kafka.records.batches import Batch, walk
from mirrorlake.kafka.records.columns import HEADERS_TYPE, RecordColumns


@dataclass(frozen=True)
class Sample:
    offset: int
    timestamp: int = 1_700_000_000_000
    key: bytes | None = b"key"
    value: bytes | None = b"value"
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    timestamp_type: int = 0

    @property
    def size(self) -> int:
        header_bytes = sum(len(key) + len(value or b"") for key, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + header_bytes


def columns_of(samples: list[Sample]) -> RecordColumns:
    headers = [[{"key": key, "value": value} for key, value in each.headers] for each in samples]
    return RecordColumns(
        offsets=np.array([each.offset for each in samples], np.int64),
        timestamps=np.array([each.timestamp for each in samples], np.int64),
        timestamp_types=np.array([each.timestamp_type for each in samples], np.int8),
        keys=pa.array([each.key for each in samples], pa.large_binary()),
        values=pa.array([each.value for each in samples], pa.large_binary()),
        headers=pa.array(headers, HEADERS_TYPE),
        sizes=np.array([each.size for each in samples], np.int64),
    )


def samples_of(columns: RecordColumns) -> list[Sample]:
    columns.keys.validate(full=True)
    columns.values.validate(full=True)
    columns.headers.validate(full=True)
    samples = [
        Sample(offset, timestamp, key, value, tuple((each["key"], each["value"]) for each in headers), kind)
        for offset, timestamp, key, value, headers, kind in zip(
            columns.offsets.tolist(),
            columns.timestamps.tolist(),
            columns.keys.to_pylist(),
            columns.values.to_pylist(),
            columns.headers.to_pylist(),
            columns.timestamp_types.tolist(),
            strict=True,
        )
    ]
    assert columns.sizes.tolist() == [each.size for each in samples]
    return samples


def batches_in(data: bytes | bytearray) -> list[Batch]:
    return list(walk(memoryview(data)))


def only_batch(data: bytes | bytearray) -> Batch:
    (batch,) = batches_in(data)
    assert len(batch.view) == len(data)
    return batch


def aborted_transaction(producer_id: int, first_offset: int) -> SimpleNamespace:
    return SimpleNamespace(producer_id=producer_id, first_offset=first_offset)


# Sizes around one-byte and two-byte lengths, beside small ones.
_payloads = st.one_of(st.none(), st.binary(max_size=20), st.sampled_from([b"x" * 63, b"x" * 64, b"y" * 9000]))
_timestamps = st.one_of(
    st.integers(1_600_000_000_000, 1_800_000_000_000), st.sampled_from([-1, 0, 253_402_300_799_999, 2**62])
)


def header_strategy(keys: st.SearchStrategy[bytes]) -> st.SearchStrategy[tuple[tuple[bytes, bytes | None], ...]]:
    return st.lists(st.tuples(keys, _payloads), max_size=4).map(tuple)


@st.composite
def sample_lists(
    draw: st.DrawFn, *, header_keys: st.SearchStrategy[bytes], dense: bool = False, max_size: int = 30
) -> list[Sample]:
    """Records at growing offsets from 0 on; gaps up to many thousand unless dense."""
    gaps = st.just(0) if dense else st.one_of(st.just(0), st.integers(0, 100_000))
    count = draw(st.integers(1, max_size))
    offset = -1
    samples = []
    for _ in range(count):
        offset += 1 + draw(gaps)
        headers = draw(header_strategy(header_keys))
        samples.append(Sample(offset, draw(_timestamps), draw(_payloads), draw(_payloads), headers))
    return samples


utf8_keys = st.text(max_size=8).map(str.encode)
any_keys = st.one_of(utf8_keys, st.binary(max_size=8))
