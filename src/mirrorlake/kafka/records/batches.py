"""Record batches as the broker stores them: walking, checking, classifying and re-addressing them as bytes.

Nothing here reads the records of a batch, but for the type of a control batch.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from struct import Struct

from crc32c import crc32c

from mirrorlake.kafka.records.aborted import AbortedTransactions, ControlType, control_type
from mirrorlake.kafka.records.batch_header import (
    CHECKED_FROM,
    CONTROL_BIT,
    CRC,
    CRC_AT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LENGTH_MIN,
    LOG_APPEND_TIME_BIT,
    MAGIC_AT,
    NO_LEADER_EPOCH,
    PREFIX,
    PREFIX_BYTES,
    RECORD_BYTES_MIN,
    TRANSACTIONAL_BIT,
    Batch,
    BatchHeader,
    Codec,
    corrupt,
    read_header,
)
from mirrorlake.offsets import OffsetRange

__all__ = [
    "HEADER_BYTES",
    "RECORD_BYTES_MIN",
    "AbortedTransactions",
    "Batch",
    "BatchHeader",
    "Classification",
    "Codec",
    "ControlType",
    "Path",
    "classify",
    "cleaned_ranges",
    "control_type",
    "next_sequence",
    "prepare_for_append",
    "verify_crc",
    "walk",
]

_NOT_FOR_APPEND = LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT | DELETE_HORIZON_BIT
_SEQUENCES = 2**31  # a sequence counts 0 … 2^31 - 1 and starts again

CHECKSUM_SHIFT_BYTES_MIN = 16 << 10
"""Batches from this size on get their new checksum from the old one and the header's change; below, reading all of the
batch once more takes less time."""

_UNCHECKED = Struct(">qiibI")  # base offset, length, leader epoch, magic, checksum: what the checksum leaves out
_ATTRIBUTES = Struct(">h")
_ATTRIBUTES_AT = 21
_PRODUCER = Struct(">qhi")  # id, epoch, base sequence
_PRODUCER_AT = 43


def walk(records: memoryview) -> Iterator[Batch]:
    """Yields the batches of one fetch answer in order, as views of ``records``; checksums are not looked at.

    Ends without an error before a last batch that is cut, as a fetch answer's may be: what does not make a
    whole batch is left over. An answer that yields nothing though it has bytes holds a batch larger than was
    asked for.

    Args:
        records: bytes ("B" format); kept as long as the batches live.

    Raises:
        CorruptBatchError: a length, magic, codec, count or offset that no batch can have; the batches before
            it have been yielded. ``offset`` is the base offset as read.
    """
    position, size = 0, len(records)
    while size - position >= PREFIX_BYTES:
        base_offset, length = PREFIX.unpack_from(records, position)
        if length < LENGTH_MIN[0]:
            raise corrupt(base_offset, f"its length says {length}, less than any batch has")
        end = position + PREFIX_BYTES + length
        if end > size:
            return
        header = read_header(records, position, length)
        yield Batch(header, records[position:end])
        position = end


def cleaned_ranges(batches: Iterable[Batch], *, start_offset: int) -> Iterator[OffsetRange]:
    """Yields where a cleaner was at work: no batch is there, or one of fewer records than offsets. Pure.

    A log is written without holes, so that it shows this whatever the topic's policy is now. Message formats before 2
    do not say how many records a batch has: of them only a missing batch shows.

    Args:
        batches: that follow one another in a log, markers and aborted ones too.
        start_offset: from where on; what lies below is passed over.
    """
    for header in (batch.header for batch in batches if batch.header.last_offset >= start_offset):
        if header.base_offset > start_offset:
            yield OffsetRange(start_offset=start_offset, end_offset=header.base_offset)
        if 0 <= header.record_count < header.next_offset - header.base_offset:
            yield OffsetRange(start_offset=max(header.base_offset, start_offset), end_offset=header.next_offset)
        start_offset = header.next_offset


def verify_crc(batch: Batch) -> None:
    """Checks the bytes of a batch against its checksum: CRC-32C of v2, CRC-32 of the formats before.

    To be called before a batch is trusted, and above all before ``prepare_for_append`` gives it a new
    checksum.

    Raises:
        CorruptBatchError: they differ.
    """
    header, view = batch
    actual = crc32c(view[CHECKED_FROM:]) if header.magic >= 2 else zlib.crc32(view[MAGIC_AT:])
    if actual != header.crc:
        raise corrupt(header.base_offset, f"its checksum says {header.crc:#010x}, its bytes {actual:#010x}")


def prepare_for_append(
    batch: Batch, *, producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool = False
) -> None:
    """Rewrites the header in place so that a broker appends the batch as ours; its records stay as they are.

    Base offset 0 and no leader epoch, as a producer sends them; the bits for log append time, transaction,
    control and delete horizon cleared; then a new CRC. ``batch.header`` keeps what the source said.
    Idempotent.

    The CRC of a large batch is the one it had, changed by what the header's change does to it: a record that was
    damaged in our memory after the batch was verified is then refused by the broker, not given a right checksum.

    Args:
        batch: a dense v2 data batch in writable memory, whose checksum was verified.
        producer_id: the writer's id, not negative.
        producer_epoch: the writer's epoch, not negative.
        base_sequence: sequence of the first record, not negative.
        is_transactional: whether the batch is written inside the producer's open transaction.

    Raises:
        ValueError: the batch is of another kind, or the producer's fields are negative. A broker stores an
            uncompressed batch with a forged last offset delta without complaint, so it is kept from doing so
            here.
    """
    header, view = batch
    records, attributes = header.record_count, header.attributes
    if header.magic != 2 or attributes & CONTROL_BIT or records != header.last_offset_delta + 1 or records == 0:
        raise ValueError(f"the batch at offset {header.base_offset} cannot be appended as it is")
    if producer_id < 0 or producer_epoch < 0 or base_sequence < 0:
        raise ValueError(f"not a producer: {producer_id=} {producer_epoch=} {base_sequence=}")
    size = len(view)
    is_large = size >= CHECKSUM_SHIFT_BYTES_MIN
    before = crc32c(view[CHECKED_FROM:HEADER_BYTES]) if is_large else 0
    attributes &= ~_NOT_FOR_APPEND
    _ATTRIBUTES.pack_into(view, _ATTRIBUTES_AT, attributes | TRANSACTIONAL_BIT if is_transactional else attributes)
    _PRODUCER.pack_into(view, _PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    if is_large:
        (crc,) = CRC.unpack_from(view, CRC_AT)
        crc ^= _shifted()(before ^ crc32c(view[CHECKED_FROM:HEADER_BYTES]), size - HEADER_BYTES)
    else:
        crc = crc32c(view[CHECKED_FROM:])
    _UNCHECKED.pack_into(view, 0, 0, header.batch_bytes - PREFIX_BYTES, NO_LEADER_EPOCH, header.magic, crc)


@cache
def _shifted() -> Callable[[int, int], int]:
    # Only who appends batches waits for numba to be imported.
    from mirrorlake.kafka.records.checksum_kernels import shifted

    return shifted


def next_sequence(base_sequence: int, record_count: int) -> int:
    """Returns the sequence after ``record_count`` records; after 2147483647 comes 0, also inside a batch.

    Source: `incrementSequence` in DefaultRecordBatch.java.
    """
    return (base_sequence + record_count) % _SEQUENCES


class Path(StrEnum):
    """What becomes of a batch on its way to another cluster."""

    RAW = "raw"
    """Its bytes go on, with a patched header."""
    RECORDS = "records"
    """It is decoded, and what is left of it encoded anew."""
    SKIP = "skip"
    """Nothing of it goes on; only the position moves."""


@dataclass(frozen=True, slots=True)
class Classification:
    """The path of a batch, and the reason operators see in the counters."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.reason}"


DENSE = Classification(Path.RAW, "dense")
OLD_FORMAT = Classification(Path.RECORDS, "old-format")
OVERLAP = Classification(Path.RECORDS, "overlap")
COMPACTED = Classification(Path.RECORDS, "compacted")
LOG_APPEND_TIME = Classification(Path.RECORDS, "log-append-time")
TOO_LARGE = Classification(Path.RECORDS, "too-large")
"""Said where a batch meets the limit of a destination; a reader does not know it."""
BEHIND = Classification(Path.SKIP, "behind")
CONTROL = Classification(Path.SKIP, "control")
ABORTED = Classification(Path.SKIP, "aborted")
EMPTY = Classification(Path.SKIP, "empty")


def classify(batch: Batch, *, position: int, aborted: AbortedTransactions) -> Classification:
    """Returns how a batch gets to the destination, the first of these that holds.

    | classification | when |
    |---|---|
    | skip:behind | all its offsets are below ``position`` |
    | records:old-format | v0 or v1 |
    | skip:control, skip:aborted | as named |
    | skip:empty | the cleaner removed every record and kept the header for the producer's sake |
    | records:overlap | ``position`` is inside the batch |
    | records:compacted | some offsets have no record |
    | records:log-append-time | the destination would take the first timestamps for true ones |
    | raw:dense | none of these |

    To be called once for each batch of an answer, in order, the skipped ones too: ``aborted`` learns from
    each.

    Args:
        batch: a batch whose checksum was verified.
        position: the next offset the destination needs.
        aborted: of the same fetch answer; changed by the call.

    Raises:
        CorruptBatchError: a control batch without a control key.
    """
    header = batch.header
    is_aborted = aborted.is_aborted(batch)
    # The header's own words for these cost a call each, for every batch.
    if header.base_offset + header.last_offset_delta < position:
        return BEHIND
    if header.magic < 2:
        return OLD_FORMAT
    if header.attributes & CONTROL_BIT:
        return CONTROL
    if is_aborted:
        return ABORTED
    if header.record_count == 0:
        return EMPTY
    if header.base_offset < position:
        return OVERLAP
    if header.record_count != header.last_offset_delta + 1:
        return COMPACTED
    return LOG_APPEND_TIME if header.attributes & LOG_APPEND_TIME_BIT else DENSE
