"""Memory for decompressed records that one batch after another uses, so that it stays in the processor's cache."""

import threading
from collections.abc import Iterable

import numpy as np

from mirrorlake.errors import BatchTooLargeError
from mirrorlake.kafka.records.batch_header import RECORD_BYTES_MIN, Batch, Codec, corrupt
from mirrorlake.kafka.records.compression import Bytes, MalformedDataError, OutputFullError, decompress_into
from mirrorlake.kafka.records.kernels import UInt8s

DECOMPRESSED_BYTES_MAX = 512 * 1024 * 1024
"""What one batch may come to by default. Brokers refuse batches above 1 MiB by default, as they come: compressed."""

_BYTES = 1024 * 1024
_BYTES_KEPT = 16 * 1024 * 1024


class Scratch(threading.local):
    """One buffer per thread. What is in it is good until the thread's next use."""

    def __init__(self) -> None:
        self.payloads: UInt8s = np.empty(_BYTES, np.uint8)

    def reserve(self, size: int) -> None:
        """Takes a buffer of ``size`` bytes; what was in the old one is gone."""
        self.payloads = np.empty(size, np.uint8)

    def trim(self) -> None:
        """Gives a buffer back that one large batch needed."""
        if len(self.payloads) > _BYTES_KEPT:
            self.reserve(_BYTES)


SCRATCH = Scratch()


class _Limit:
    bytes_max = DECOMPRESSED_BYTES_MAX


def allow(bytes_max: int) -> None:
    """Sets what one batch may come to in this process, for every call that does not say."""
    _Limit.bytes_max = bytes_max


def allowed() -> int:
    """Returns what one batch may come to, in bytes."""
    return _Limit.bytes_max


def too_large(base_offset: int, *, compressed_bytes: int, bytes_max: int) -> BatchTooLargeError:
    """Returns the error for a batch whose records, compressed, come to more than ``bytes_max``."""
    return BatchTooLargeError(
        f"the record batch at offset {base_offset} is larger than allowed: its {compressed_bytes} compressed bytes "
        f"come to more than {bytes_max}",
        hint="raise `engine.largest-batch` above its decompressed size (kafka-dump-log.sh shows its records); twice as "
        "much memory is needed while it is read",
        offset=base_offset,
        compressed_bytes=compressed_bytes,
        bytes_max=bytes_max,
    )


def records_of(batch: Batch, *, bytes_max: int | None) -> UInt8s:
    """Returns a v2 batch's records as bytes: the batch's own memory where they are not compressed.

    Args:
        batch: its checksum was verified.
        bytes_max: the most compressed ones may come to, inclusive; None for what the process allows.

    Raises:
        CorruptBatchError: the data is not the codec's, is cut, or is too short for so many records.
        BatchTooLargeError: it comes to more.
    """
    header = batch.header
    if header.codec == Codec.NONE:
        payload = np.frombuffer(batch.payload, np.uint8)
    else:
        payload = decompressed(
            header.codec,
            batch.payload,
            base_offset=header.base_offset,
            bytes_max=allowed() if bytes_max is None else bytes_max,
        )
    if header.record_count * RECORD_BYTES_MIN > len(payload):
        raise corrupt(header.base_offset, f"{header.record_count} records do not fit {len(payload)} bytes")
    return payload


def decompressed(codec: Codec, data: Bytes, *, base_offset: int, bytes_max: int) -> UInt8s:
    """Returns what ``data`` decompresses to, in memory of its own.

    Args:
        codec: any but ``NONE``.
        data: as for ``decompress_into``.
        base_offset: of the batch, for errors.
        bytes_max: the most it may come to, inclusive.

    Raises:
        CorruptBatchError: the data is not the codec's, or is cut.
        BatchTooLargeError: it comes to more.
    """
    return decompressed_row(codec, [(base_offset, data)], bytes_max=bytes_max)[0]


def decompressed_row(codec: Codec, parts: Iterable[tuple[int, Bytes]], *, bytes_max: int) -> tuple[UInt8s, list[int]]:
    """Returns what some payloads decompress to, one right after the other in memory of its own, and where each ends.

    Args:
        codec: any but ``NONE``.
        parts: base offset of the batch, for errors, and its data as for ``decompress_into``.
        bytes_max: the most they may come to together, inclusive.

    Raises:
        CorruptBatchError: data of one is not the codec's, or is cut.
        BatchTooLargeError: they come to more.
    """
    ends: list[int] = []
    end = 0
    try:
        for base_offset, data in parts:
            end = _decompress_at(end, codec, data, base_offset=base_offset, bytes_max=bytes_max)
            ends.append(end)
        return SCRATCH.payloads[:end].copy(), ends
    finally:
        SCRATCH.trim()


def _decompress_at(start: int, codec: Codec, data: Bytes, *, base_offset: int, bytes_max: int) -> int:
    """Decompresses behind what is in the thread's buffer up to ``start``; returns where it ends."""
    while True:
        output = SCRATCH.payloads[:bytes_max]
        try:
            return start + decompress_into(codec, data, output[start:].data)
        except MalformedDataError as error:
            raise corrupt(base_offset, str(error)) from error
        except OutputFullError as error:
            if len(output) == bytes_max:
                raise too_large(base_offset, compressed_bytes=len(data), bytes_max=bytes_max) from error
            SCRATCH.reserve(min(4 * len(output), bytes_max))
            SCRATCH.payloads[:start] = output[:start]
