"""Which batches belong to aborted transactions."""

from collections.abc import Iterable
from enum import IntEnum
from struct import Struct
from typing import Protocol

from mirrorlake.kafka.records.batch_header import HEADER_BYTES, NO_PRODUCER_ID, Batch, Codec, corrupt, read_varint

_CONTROL_KEY = Struct(">hh")  # version, type


class ControlType(IntEnum):
    """What a control batch says; the numbers are those of `ControlRecordType.java`, which has others too."""

    ABORT = 0
    COMMIT = 1


def control_type(batch: Batch) -> int:
    """Returns the type in the key of a control batch: a ``ControlType``, or a number we do not know.

    Raises:
        CorruptBatchError: the batch holds no such key.
        ValueError: it is not a control batch.
    """
    header, view = batch
    if not header.is_control:
        raise ValueError(f"the batch at offset {header.base_offset} is not a control batch")
    key = _first_key(view) if header.codec == Codec.NONE and header.record_count > 0 else b""
    if len(key) < _CONTROL_KEY.size:
        raise corrupt(header.base_offset, "it is a control batch without a control key")
    version, kind = _CONTROL_KEY.unpack_from(key)
    if version < 0:
        raise corrupt(header.base_offset, f"its control key has version {version}")
    return int(kind)


def _first_key(view: memoryview) -> memoryview:
    """Returns the key of an uncompressed batch's first record; empty where it is null or not whole."""
    position = HEADER_BYTES
    try:
        _, position = read_varint(view, position)  # length of the record
        position += 1  # attributes
        _, position = read_varint(view, position)  # timestamp delta
        _, position = read_varint(view, position)  # offset delta
        key_bytes, position = read_varint(view, position)
    except IndexError:
        return view[:0]
    return view[position : position + key_bytes] if 0 <= key_bytes <= len(view) - position else view[:0]


class AbortedTransaction(Protocol):
    """One entry of a fetch answer's list: ``producer_id`` wrote aborted data from ``first_offset`` on."""

    @property
    def producer_id(self) -> int:
        """Returns whose transaction it was."""
        ...

    @property
    def first_offset(self) -> int:
        """Returns the first offset of the transaction in this partition."""
        ...


class AbortedTransactions:
    """Tells the aborted batches of one partition's fetch answer from the others.

    Batches are to be shown in log order, every one of them. A fetch answer names, for each aborted
    transaction that touches it, the producer and the first offset. Data of that producer is aborted from
    there to the producer's next abort marker. Whole batches only: a transaction's end never falls inside one.
    Source: `CompletedFetch.java`, whose order of steps this keeps.

    Args:
        transactions: the list of the fetch answer the batches came in, in any order.
    """

    def __init__(self, transactions: Iterable[AbortedTransaction] = ()) -> None:
        # Sorted backwards, so that the earliest is taken from the end.
        self._pending = sorted(((each.first_offset, each.producer_id) for each in transactions), reverse=True)
        self._producer_ids: set[int] = set()

    def is_aborted(self, batch: Batch) -> bool:
        """Returns whether a consumer of committed data skips the batch. Idempotent for the latest batch.

        Order of effects: transactions that begin at or before the batch's last offset become active, then an
        abort marker ends its producer's. A marker itself is not aborted.

        Raises:
            CorruptBatchError: a control batch without a control key.
        """
        header = batch.header
        if header.producer_id == NO_PRODUCER_ID:
            return False
        while self._pending and self._pending[-1][0] <= header.last_offset:
            self._producer_ids.add(self._pending.pop()[1])
        if header.is_control:
            # The cleaner leaves an empty batch of a marker whose data is gone; there is no abort in it any more.
            if header.record_count and control_type(batch) == ControlType.ABORT:
                self._producer_ids.discard(header.producer_id)
            return False
        return header.is_transactional and header.producer_id in self._producer_ids
