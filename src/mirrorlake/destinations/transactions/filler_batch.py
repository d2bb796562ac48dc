"""Filler batches: empty records of a transaction that is aborted, so that offsets move and nobody reads anything.

Told from everybody else's batches by ``log_start.FillerTest``. Data of this mirror is never written in a transaction.
"""

import numpy as np
import pyarrow as pa

from mirrorlake.kafka.control.descriptions import ProducerIdentity
from mirrorlake.kafka.records.batches import Codec
from mirrorlake.kafka.records.codec import HEADERS_TYPE, RecordColumns, encode_batch

FILLER_KEY = b"\x00"
"""A compacted topic refuses records without a key (INVALID_RECORD)."""


def build_filler(
    records: int, *, timestamp_ms: int, has_key: bool, identity: ProducerIdentity, base_sequence: int
) -> bytearray:
    """Returns a transactional batch of ``records`` empty records, all at ``timestamp_ms``, compressed by zstd.

    The timestamp should be a neighbour's: fillers count in a topic's time index, and in its retention.
    """
    return encode_batch(
        _columns(records, timestamp_ms, has_key),
        codec=Codec.ZSTD,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        base_sequence=base_sequence,
        is_transactional=True,
    )


def _columns(records: int, timestamp_ms: int, has_key: bool) -> RecordColumns:
    nothing = pa.nulls(records, pa.large_binary())
    keys = pa.repeat(pa.scalar(FILLER_KEY, pa.large_binary()), records) if has_key else nothing
    no_headers = pa.ListArray.from_arrays(
        pa.array(np.zeros(records + 1, np.int32)), pa.array([], HEADERS_TYPE.value_type), type=HEADERS_TYPE
    )
    return RecordColumns.of(
        offsets=np.arange(records, dtype=np.int64),
        timestamps=np.full(records, timestamp_ms, np.int64),
        timestamp_types=np.zeros(records, np.int8),
        keys=keys,
        values=nothing,
        headers=no_headers,
    )
