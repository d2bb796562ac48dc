"""The record plane in one place: records as columns, to and from batches, and their hashes.

Importing it loads no compiled loops; what is more than a few records does (`few_records.py`).
"""

import numpy as np
import pyarrow as pa

from mirrorlake.kafka.records.batches import Batch, Codec, walk
from mirrorlake.kafka.records.columns import HEADER_TYPE, HEADERS_TYPE, RecordColumns, no_headers
from mirrorlake.kafka.records.decode import decode_batches, decode_parts
from mirrorlake.kafka.records.encode import encode_batch
from mirrorlake.kafka.records.hashes import record_hashes
from mirrorlake.kafka.records.kernels import load_kernels
from mirrorlake.kafka.records.scratch import DECOMPRESSED_BYTES_MAX

__all__ = [
    "DECOMPRESSED_BYTES_MAX",
    "HEADERS_TYPE",
    "HEADER_TYPE",
    "Batch",
    "Codec",
    "RecordColumns",
    "decode_batches",
    "decode_parts",
    "encode_batch",
    "record_hashes",
    "warm",
]


def warm() -> None:
    """Loads the kernels and runs everything once, so that the first lease does not pay for it.

    Kernels are compiled the first time a machine sees this version (about 5 s), afterwards they come from the cache;
    what is left is what libraries load on their first use. Idempotent.
    """
    load_kernels()
    # Not by pa.array: the first Python value that goes into Arrow imports pandas, a quarter of a second.
    payloads = pa.Array.from_buffers(
        pa.large_binary(), 2, [None, pa.py_buffer(np.arange(3, dtype=np.int64)), pa.py_buffer(b"kv")]
    )
    columns = RecordColumns(
        offsets=np.arange(2, dtype=np.int64),
        timestamps=np.zeros(2, np.int64),
        timestamp_types=np.zeros(2, np.int8),
        keys=payloads,
        values=payloads,
        headers=no_headers(2),
        sizes=np.full(2, 2, np.int64),
    )
    for codec in Codec:
        batches = list(walk(memoryview(encode_batch(columns, codec=codec))))
        record_hashes(decode_batches(batches))
