"""What filling costs is known before it is begun."""

import math

import pytest

from mirrorlake.destinations.transactions.filler_batch import build_filler
from mirrorlake.destinations.transactions.gap_cost import fill_seconds, filler_records
from mirrorlake.kafka.control.descriptions import ProducerIdentity
from mirrorlake.offsets import GapFill


def test_markers_cost_a_transaction_an_offset() -> None:
    assert fill_seconds(1000, GapFill.MARKERS) == 4.0


def test_fillers_cost_next_to_nothing() -> None:
    assert 0.1 < fill_seconds(1_000_000, GapFill.FILLER) < 0.2
    assert fill_seconds(100_000_000, GapFill.FILLER) < 20


def test_what_is_refused_never_ends_unless_there_is_nothing() -> None:
    assert math.isinf(fill_seconds(1, GapFill.REFUSE))
    assert fill_seconds(0, GapFill.REFUSE) == 0.0


def test_a_gap_of_one_offset_needs_no_filler_record() -> None:
    assert filler_records(1, batch_bytes_max=1_048_588) == 0


def test_the_marker_takes_the_last_offset_of_a_gap() -> None:
    assert filler_records(40, batch_bytes_max=1_048_588) == 39


def test_a_long_gap_is_filled_in_parts_that_fit_a_batch() -> None:
    assert filler_records(10**9, batch_bytes_max=1_048_588) == 499_999
    assert filler_records(10**9, batch_bytes_max=91_024) == 99_999
    assert filler_records(10**9, batch_bytes_max=100) == 0, "markers alone, where no batch fits"


@pytest.mark.parametrize("has_key", [False, True])
@pytest.mark.parametrize("limit", [142, 200, 333, 1000, 1265, 2000, 9000])
def test_a_filler_fits_where_a_destination_takes_small_batches_only(limit: int, has_key: bool) -> None:
    records = filler_records(10**9, batch_bytes_max=limit)
    assert records >= (limit - 142) * 0.5
    identity = ProducerIdentity(producer_id=10**12, producer_epoch=30_000)
    batch = build_filler(records + 1, timestamp_ms=10**12, has_key=has_key, identity=identity, base_sequence=2**30)
    assert len(batch) <= limit
