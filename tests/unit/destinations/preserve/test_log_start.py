"""What counts as one of our fillers: ours, aborted, and without a value."""

import numpy as np
import pyarrow as pa
import pytest

from mirrorlake.destinations.preserve.log_start import FillerTest
from mirrorlake.destinations.transactions.filler_batch import build_filler
from mirrorlake.kafka.control.descriptions import ProducerIdentity
from mirrorlake.kafka.records.batches import Batch, Codec, walk
from mirrorlake.kafka.records.codec import HEADERS_TYPE, RecordColumns, encode_batch

OURS, THEIRS = ProducerIdentity(producer_id=5, producer_epoch=3), ProducerIdentity(producer_id=6, producer_epoch=3)


def only_batch(data: bytearray) -> Batch:
    (batch,) = walk(memoryview(data))
    return batch


def filler(records: int = 3, *, identity: ProducerIdentity = OURS, has_key: bool = False) -> Batch:
    return only_batch(build_filler(records, timestamp_ms=7, has_key=has_key, identity=identity, base_sequence=0))


def written(*values: bytes | None, is_transactional: bool = True) -> Batch:
    """A batch of our own producer id with these values."""
    count = len(values)
    columns = RecordColumns.of(
        offsets=np.arange(count, dtype=np.int64),
        timestamps=np.full(count, 7, np.int64),
        timestamp_types=np.zeros(count, np.int8),
        keys=pa.nulls(count, pa.large_binary()),
        values=pa.array(values, pa.large_binary()),
        headers=pa.array([[]] * count, HEADERS_TYPE),
    )
    return only_batch(
        encode_batch(
            columns,
            codec=Codec.ZSTD,
            producer_id=OURS.producer_id,
            producer_epoch=OURS.producer_epoch,
            base_sequence=0,
            is_transactional=is_transactional,
        )
    )


@pytest.mark.parametrize(
    ("batch", "is_aborted", "expected"),
    [
        (filler(), True, True),
        (filler(has_key=True), True, True),
        (filler(), False, False),
        (filler(identity=THEIRS), True, False),
        (written(None, None), True, True),
        (written(None, b""), True, False),
        (written(b"value"), True, False),
        (written(None, is_transactional=False), False, False),
    ],
    ids=["filler", "of-a-compacted-topic", "committed", "theirs", "null", "an-empty-value", "a-value", "plain"],
)
def test_a_filler_is_ours_and_aborted_and_has_no_value(batch: Batch, is_aborted: bool, expected: bool) -> None:
    assert FillerTest(frozenset({OURS.producer_id})).is_filler(batch, is_aborted=is_aborted) is expected


def test_what_is_remembered_of_one_filler_says_nothing_of_another_batch() -> None:
    fillers = FillerTest(frozenset({OURS.producer_id}))
    found = [
        fillers.is_filler(batch, is_aborted=is_aborted)
        for batch, is_aborted in [
            (filler(3), True),
            (filler(3), True),
            (filler(3), False),
            (filler(3, identity=THEIRS), True),
            (written(None, None, b"v"), True),
            (filler(4), True),
            (filler(3), True),
        ]
    ]
    assert found == [True, True, False, False, False, True, True]
