"""Decoded records become batches: every field, every offset, and none too large."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorlake.destinations.coalescing import NOT_COALESCED_BYTES_MIN
from mirrorlake.kafka.records.batches import verify_crc
from mirrorlake.kafka.records.codec import Codec, decode_batches
from mirrorlake.kafka.records.columns import HEADERS_TYPE, RecordColumns
from mirrorlake.sources.batching import SAMPLED_BYTES, TRIED_AGAIN_BYTES, Gain, batches_of

Row = tuple[int, int, int, bytes | None, bytes | None, list[dict[str, bytes | None]]]


def columns_of(rows: list[Row]) -> RecordColumns:
    """Offset, time, type, key, value, headers."""
    return RecordColumns.of(
        offsets=np.array([row[0] for row in rows], np.int64),
        timestamps=np.array([row[1] for row in rows], np.int64),
        timestamp_types=np.array([row[2] for row in rows], np.int8),
        keys=pa.array([row[3] for row in rows], pa.large_binary()),
        values=pa.array([row[4] for row in rows], pa.large_binary()),
        headers=pa.array([row[5] for row in rows], HEADERS_TYPE),
    )


def dense(count: int, size: int, *, start: int = 0) -> list[Row]:
    return [(start + n, 1000 + n, 0, b"k", b"v" * size, []) for n in range(count)]


BYTES = st.none() | st.binary(max_size=8)
ROWS = st.lists(
    st.tuples(
        st.integers(1, 5),
        st.integers(0, 3),
        st.integers(0, 1),
        BYTES,
        BYTES,
        st.lists(st.fixed_dictionaries({"key": st.binary(max_size=4), "value": BYTES}), max_size=3),
    ),
    min_size=1,
    max_size=30,
)


@settings(deadline=None)
@given(steps=ROWS, codec=st.sampled_from(list(Codec)), bytes_max=st.sampled_from([1, 60, 1 << 20]))
def test_the_batches_hold_every_field_of_every_record_at_its_own_offset(
    steps: list[Row], codec: Codec, bytes_max: int
) -> None:
    offsets = np.cumsum([row[0] for row in steps]) + 6
    columns = columns_of([(int(offset), *row[1:]) for offset, row in zip(offsets, steps, strict=True)])

    batches = list(batches_of(columns, codec=codec, bytes_max=bytes_max))

    assert decode_batches(batches).equals(columns)
    for batch in batches:
        verify_crc(batch)
        assert batch.header.codec is codec
        assert not batch.view.readonly


def test_no_batch_is_larger_than_asked_for_and_a_larger_record_has_one_of_its_own() -> None:
    columns = columns_of([*dense(50, 100), (50, 1, 0, None, b"x" * 5000, []), *dense(3, 100, start=51)])

    batches = list(batches_of(columns, codec=Codec.NONE, bytes_max=1000))

    counts = [batch.header.record_count for batch in batches]
    assert sum(counts) == 54
    assert max(len(batch.view) for batch in batches if batch.header.record_count > 1) <= 1100
    assert [batch.header.record_count for batch in batches if batch.header.base_offset == 50] == [1]


def test_a_batch_has_one_time_where_the_broker_set_it() -> None:
    rows: list[Row] = [(n, time, 1, None, b"v", []) for n, time in enumerate([5, 5, 6, 6, 6])]

    batches = list(batches_of(columns_of(rows), codec=Codec.NONE, bytes_max=1 << 20))

    assert [(each.header.record_count, each.header.is_log_append_time) for each in batches] == [(2, True), (3, True)]


def test_a_record_without_any_time_has_none_in_the_batch() -> None:
    (batch,) = batches_of(columns_of([(3, -1, -1, None, b"v", [])]), codec=Codec.NONE, bytes_max=100)

    assert (batch.header.max_timestamp, batch.header.is_log_append_time) == (-1, False)


@pytest.mark.parametrize(("size", "dense_batches"), [(10, 1), (NOT_COALESCED_BYTES_MIN, 3)])
def test_a_batch_is_cut_at_a_hole_where_it_is_large_enough_to_go_on_as_its_bytes(size: int, dense_batches: int) -> None:
    rows = [*dense(2, size), *dense(2, size, start=10), *dense(2, size, start=20)]

    batches = list(batches_of(columns_of(rows), codec=Codec.NONE, bytes_max=1 << 20))

    assert len(batches) == dense_batches
    assert all(each.header.is_dense for each in batches) is (dense_batches == 3)


def test_offsets_that_lie_far_apart_share_no_batch() -> None:
    rows: list[Row] = [(0, 0, 0, None, b"", []), (2**31 - 1, 0, 0, None, b"", []), (2**31, 0, 0, None, b"", [])]

    batches = list(batches_of(columns_of(rows), codec=Codec.NONE, bytes_max=1 << 20))

    assert [each.header.base_offset for each in batches] == [0, 2**31]


def random_rows(count: int, size: int, *, start: int = 0) -> list[Row]:
    made = np.random.default_rng(start + 1)
    return [(start + n, 1000 + n, 0, None, made.bytes(size), []) for n in range(count)]


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_records_that_do_not_compress_go_without_compression(codec: Codec) -> None:
    columns = columns_of(random_rows(400, 1024))

    batches = list(batches_of(columns, codec=codec, bytes_max=64 << 10, gain=Gain()))

    assert {batch.header.codec for batch in batches} == {Codec.NONE}
    assert len(batches) > 3
    for batch in batches:
        verify_crc(batch)
    assert decode_batches(batches).equals(columns)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_records_that_compress_behind_others_that_do_not_are_compressed_with_the_next_sample(codec: Codec) -> None:
    batch_bytes = 64 << 10
    columns = columns_of([*random_rows(200, 1024), *dense(2400, 1024, start=200)])

    batches = list(batches_of(columns, codec=codec, bytes_max=batch_bytes, gain=Gain()))

    assert batches[0].header.codec == Codec.NONE
    sampled = (SAMPLED_BYTES + 2 * batch_bytes) // 1024
    within = [batch for batch in batches if batch.header.base_offset >= 200 + sampled]
    assert len(within) > 3
    assert {batch.header.codec for batch in within} == {codec}
    assert decode_batches(batches).equals(columns)


def test_what_was_learnt_of_a_run_of_records_holds_for_the_next_one() -> None:
    gain = Gain()
    runs = [columns_of(random_rows(300, 1024, start=300 * number)) for number in range(3)]

    batches = [list(batches_of(run, codec=Codec.ZSTD, bytes_max=64 << 10, gain=gain)) for run in runs]

    assert {batch.header.codec for run in batches for batch in run} == {Codec.NONE}
    # Nothing was made both ways since the first one.
    assert gain.plain_bytes == sum(len(batch.view) for run in batches for batch in run) - len(batches[0][0].view)


def test_a_batch_that_gains_nothing_goes_without_and_behind_it_samples_tell_for_a_while() -> None:
    gain = Gain()
    expected = [gain.is_none_expected]  # nothing is known before the first batch
    assert gain.found(1000, 900)
    expected.append(gain.is_none_expected)  # what gains is compressed, each batch anew
    assert expected == [False, False]
    assert not gain.found(1000, 990)
    seen = []
    while gain.is_none_expected:
        seen.append(gain.is_sampled)
        gain.passed(512 << 10)
    assert seen[:8] == [True, False, False, False] * 2, "one of four batches of 512 KiB"
    assert len(seen) * (512 << 10) == TRIED_AGAIN_BYTES


def test_a_record_that_is_larger_than_a_batch_is_always_compressed() -> None:
    # Its topic may take it compressed alone, by however little.
    rows = random_rows(3, 4096)
    batches = list(batches_of(columns_of(rows), codec=Codec.ZSTD, bytes_max=1024, gain=Gain()))

    assert [batch.header.codec for batch in batches] == [Codec.ZSTD] * 3


@pytest.mark.parametrize(("count", "is_loaded"), [(100, False), (3000, True)])
def test_many_records_are_written_by_the_compiled_loops_however_few_a_batch_has(count: int, is_loaded: bool) -> None:
    """In a process that has not loaded them: one that restores an archive without compression."""
    program = f"""
import numpy as np, pyarrow as pa
from mirrorlake.kafka.records import kernels
from mirrorlake.kafka.records.batch_header import Codec
from mirrorlake.kafka.records.columns import HEADERS_TYPE, RecordColumns
from mirrorlake.sources.batching import batches_of
columns = RecordColumns.of(
    offsets=np.arange({count}), timestamps=np.zeros({count}, np.int64), timestamp_types=np.zeros({count}, np.int8),
    keys=pa.nulls({count}, pa.large_binary()), values=pa.array([b"v" * 1024] * {count}, pa.large_binary()),
    headers=pa.array([[]] * {count}, HEADERS_TYPE),
)
print(sum(each.header.record_count for each in batches_of(columns, codec=Codec.NONE, bytes_max=1 << 20)))
print(kernels.are_loaded())
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300)
    assert ended.stdout.split() == [str(count), str(is_loaded)]
