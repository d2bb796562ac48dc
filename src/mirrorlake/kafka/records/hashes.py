"""A hash of each record, which two clusters can compare without sending the record."""

import numpy as np

from mirrorlake.kafka.records.addresses import column_table, kernel_input
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.kafka.records.hash_kernels import hash_records
from mirrorlake.kafka.records.kernels import UInt64s


def record_hashes(columns: RecordColumns) -> UInt64s:
    """Returns a hash of offset, timestamp, key, value and headers of each record.

    The same on every machine and in every version that names it ``xxh64-chain-1``. It is XXH64 over one piece
    after another, each seeded with the hash of those before it, the first with 0:

    1. offset, timestamp, key length, value length, number of headers: 40 bytes, five little-endian int64;
    2. the bytes of the key; 3. the bytes of the value;
    4. for each header in order: key length and value length as two little-endian int64, the bytes of the key,
    the
       bytes of the value.

    The length of a null is -1 and its bytes are none, so null is not empty; and as lengths come before bytes,
    no two different records are fed in alike. The type of the timestamp is no part of it. Not for
    adversaries: XXH64 keeps chance out, not malice.
    """
    hashes = np.empty(len(columns), np.uint64)
    offsets, timestamps = kernel_input(columns.offsets), kernel_input(columns.timestamps)
    hash_records(offsets, timestamps, column_table(columns), hashes)
    return hashes
