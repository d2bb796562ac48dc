"""The records path alone: batches that the source's cleaner left holes in, made into batches without."""

import random
import time
from dataclasses import dataclass, replace

import numpy as np

from mirrorlake.demo.columns import record_columns
from mirrorlake.destinations.coalescing import coalesce
from mirrorlake.destinations.interface import ClassifiedBatch
from mirrorlake.destinations.output_batches import outputs_of
from mirrorlake.kafka.records.batches import AbortedTransactions, Codec, classify, verify_crc, walk
from mirrorlake.kafka.records.codec import encode_batch

RECORD_BYTES = 1024
RECORDS_PER_BATCH = 126
"""128 KiB, as of k1, before every second record was cleaned away."""
_BATCHES = 64
_BATCH_BYTES_MAX = 1_048_588
_ROUNDS = 7
_NOW_MS = 1_790_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsPath:
    """Of ``records`` that were left, from a fetched answer to batches that can be sent; the best of seven rounds."""

    codec: str
    records: int
    cpu_seconds: float

    @property
    def records_per_cpu_second(self) -> float:
        """Records left in the source, per CPU-second of one thread."""
        return self.records / self.cpu_seconds


def measure_records_path() -> list[RecordsPath]:
    """Measures each codec that costs little beside our own work, packed as for ``offsets: map``."""
    return [_measure(codec) for codec in (Codec.NONE, Codec.LZ4)]


def _measure(codec: Codec) -> RecordsPath:
    answer, records = _compacted_answer(codec)
    _rewrite(answer)  # compiles kernels
    best = float("inf")
    for _round in range(_ROUNDS):
        began = time.thread_time()
        _rewrite(answer)
        best = min(best, time.thread_time() - began)
    return RecordsPath(codec=codec.name.lower(), records=records, cpu_seconds=best)


def _compacted_answer(codec: Codec) -> tuple[bytearray, int]:
    """Returns batches as a cleaner leaves them, and how many records are in them."""
    source = random.Random(1)
    answer, left = bytearray(), 0
    for number in range(_BATCHES):
        columns = record_columns(
            timestamps_ms=[_NOW_MS + n for n in range(RECORDS_PER_BATCH)],
            keys=[b"key-%08d" % n for n in range(RECORDS_PER_BATCH)],
            values=[source.randbytes(RECORD_BYTES) for _ in range(RECORDS_PER_BATCH)],
            headers=[()] * RECORDS_PER_BATCH,
        )
        base = number * RECORDS_PER_BATCH
        columns = replace(columns, offsets=columns.offsets + base)
        kept = columns.relocated(np.arange(0, RECORDS_PER_BATCH, 2), columns.offsets[::2])
        left += len(kept)
        answer += encode_batch(kept, codec=codec, base_offset=base)
    return answer, left


def _rewrite(answer: bytearray) -> None:
    position, aborted, items = 0, AbortedTransactions([]), []
    for batch in walk(memoryview(answer)):
        verify_crc(batch)
        found = classify(batch, position=0, aborted=aborted)
        items.append(ClassifiedBatch(batch=batch, path=found.path, reason=found.reason))
    for item in coalesce(items, batch_bytes_max=_BATCH_BYTES_MAX, packs=True):
        for output in outputs_of(
            item, position=position, end_offset=1 << 62, batch_bytes_max=_BATCH_BYTES_MAX, packs=True
        ):
            position = output.offsets.end_offset
