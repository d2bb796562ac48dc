"""Records read and written without compiled loops: the same bytes and columns, or left to the loops."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.kafka.records import decode, encode
from mirrorlake.kafka.records.batch_header import HEADER_BYTES
from mirrorlake.kafka.records.batches import Codec
from mirrorlake.kafka.records.codec import decode_batches, encode_batch
from mirrorlake.kafka.records.few_records import (
    FEW_BYTES_MAX,
    FEW_RECORDS_MAX,
    LARGE_BYTES_MAX,
    decode_few,
    encode_few,
)
from unit.kafka.records.record_samples import Sample, any_keys, batches_in, columns_of, sample_lists
from unit.kafka.records.written_by_kafka import WRITTEN_BY_KAFKA

ALL = 2**63 - 1


@pytest.fixture(autouse=True, scope="module")
def loops() -> object:
    """What is compared with: the loops, for however few records."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decode, "are_loaded", lambda: True)
        patch.setattr(encode, "are_loaded", lambda: True)
        yield


@given(sample_lists(header_keys=any_keys), st.integers(0, 50), st.integers(0, 50))
def test_the_same_bytes_and_the_same_columns(samples: list[Sample], passed: int, left: int) -> None:
    columns = columns_of(samples)
    few = encode_few(columns)
    batch = encode_batch(columns, codec=Codec.NONE, base_offset=samples[0].offset)
    if int(columns.sizes.sum()) > FEW_BYTES_MAX - 20 * len(samples) - HEADER_BYTES:
        return  # drawn too large for this
    assert few is not None
    assert bytes(few) == bytes(batch[HEADER_BYTES:])
    start, end = samples[0].offset + passed, samples[-1].offset + 1 - left
    found = decode_few(batches_in(batch), start_offset=start, end_offset=end)
    assert found is not None
    assert found.equals(decode_batches(batches_in(batch), start_offset=start, end_offset=end))


@pytest.mark.parametrize("name", ["none", "log-append-time", "gaps", "empty"])
def test_what_kafka_wrote_is_read_without_the_loops(name: str) -> None:
    found = decode_few(batches_in(WRITTEN_BY_KAFKA[name]), start_offset=0, end_offset=ALL)
    assert found is not None
    assert found.equals(decode_batches(batches_in(WRITTEN_BY_KAFKA[name])))


def test_what_is_larger_or_compressed_is_left_to_the_loops() -> None:
    large = columns_of([Sample(0, 0, b"k", bytes(LARGE_BYTES_MAX + 1))])
    many = columns_of([Sample(at, 0, b"k", bytes(40)) for at in range(FEW_RECORDS_MAX + 1)])
    for columns in (large, many):
        assert encode_few(columns) is None
        batch = encode_batch(columns, codec=Codec.NONE)
        assert decode_few(batches_in(batch), start_offset=0, end_offset=ALL) is None
    assert decode_few(batches_in(WRITTEN_BY_KAFKA["zstd"]), start_offset=0, end_offset=ALL) is None


def test_a_large_state_record_is_read_and_written_without_the_loops() -> None:
    columns = columns_of([Sample(at, at, b"k", bytes([at]) * (3 * FEW_BYTES_MAX)) for at in range(3)])
    batch = encode_batch(columns, codec=Codec.NONE)
    few = encode_few(columns)
    assert few is not None
    assert bytes(few) == bytes(batch[HEADER_BYTES:])
    found = decode_few(batches_in(batch), start_offset=0, end_offset=ALL)
    assert found is not None
    assert found.equals(columns)


def test_times_that_are_further_apart_than_a_number_holds_are_left_to_the_loops() -> None:
    assert encode_few(columns_of([Sample(0, 2**63 - 1, None, None), Sample(1, -(2**63), None, None)])) is None


def test_a_driver_reads_and_writes_state_records_without_numba_and_pandas() -> None:
    program = """
import sys
import mirrorlake.service.service
from mirrorlake.destinations.transactions.owner_states import OwnerState, encode_state_batch
from mirrorlake.kafka.control.descriptions import ProducerIdentity
from mirrorlake.kafka.records.batches import walk
from mirrorlake.kafka.records.codec import decode_batches
state = OwnerState(mirror="m", owner="o", taken_at_ms=7)
batch = encode_state_batch(state, ProducerIdentity(producer_id=1, producer_epoch=0), sequence=0)
columns = decode_batches(list(walk(memoryview(batch))))
assert columns.keys.to_pylist() == [b"m"] and columns.timestamps.tolist() == [7]
print(sorted({"numba", "llvmlite", "pandas"} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")
