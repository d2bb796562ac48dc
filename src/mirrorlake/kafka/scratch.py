"""Memory for decompressed records that one batch after another uses, so that it stays in the processor's cache."""

import threading

import numpy as np

from mirrorlake.kafka.batch_header import Codec, corrupt
from mirrorlake.kafka.compression import Bytes, MalformedDataError, OutputFullError, decompress_into
from mirrorlake.kafka.kernels import UInt8s

DECOMPRESSED_BYTES_MAX = 512 * 1024 * 1024
"""What one batch may come to by default. Brokers refuse batches above 1 MiB by default, compressed or not."""

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


def decompressed(codec: Codec, data: Bytes, *, base_offset: int, bytes_max: int) -> UInt8s:
    """Returns what ``data`` decompresses to, in memory of its own.

    Args:
        codec: any but ``NONE``.
        data: as for ``decompress_into``.
        base_offset: of the batch, for errors.
        bytes_max: the most it may come to, inclusive.

    Raises:
        CorruptBatchError: the data is not the codec's, is cut, or comes to more.
    """
    try:
        while True:
            output = SCRATCH.payloads[:bytes_max]
            try:
                length = decompress_into(codec, data, output.data)
            except MalformedDataError as error:
                raise corrupt(base_offset, str(error)) from error
            except OutputFullError as error:
                if len(output) == bytes_max:
                    what = f"it decompresses to more than the {bytes_max} bytes allowed"
                    raise corrupt(base_offset, what) from error
                SCRATCH.reserve(min(4 * len(output), bytes_max))
            else:
                return output[:length].copy()
    finally:
        SCRATCH.trim()
