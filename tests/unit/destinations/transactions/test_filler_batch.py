"""Fillers are what a broker takes, and what mirrorlake knows as its own."""

import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from mirrorlake.destinations.transactions.filler_batch import build_filler
from mirrorlake.destinations.transactions.gap_cost import FILLER_BYTES_PER_OFFSET
from mirrorlake.kafka.control.descriptions import ProducerIdentity

IDENTITY = ProducerIdentity(producer_id=4711, producer_epoch=3)


@pytest.mark.parametrize("has_key", [False, True])
def test_a_filler_holds_empty_records_at_one_time_in_a_transaction(has_key: bool) -> None:
    built = build_filler(5, timestamp_ms=1_700_000_000_123, has_key=has_key, identity=IDENTITY, base_sequence=9)
    batch = DefaultRecordBatch(built)
    assert batch.validate_crc()
    assert batch.is_transactional
    assert not batch.is_control_batch
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (4711, 3, 9)
    records = [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in batch]
    key = b"\x00" if has_key else None
    assert records == [(offset, 1_700_000_000_123, key, None, []) for offset in range(5)]


@pytest.mark.parametrize("has_key", [False, True])
def test_a_full_filler_is_as_small_as_the_plan_says(has_key: bool) -> None:
    built = build_filler(499_999, timestamp_ms=1, has_key=has_key, identity=IDENTITY, base_sequence=0)
    assert len(built) < 499_999 * FILLER_BYTES_PER_OFFSET
