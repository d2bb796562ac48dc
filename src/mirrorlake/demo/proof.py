"""What a reader finds in a topic, as fingerprints: so that a cluster that is gone can still be compared with another.

The reader is the demo's own: it consumes the topic as any client does, and shares neither the copying nor the
comparing with the commands under demonstration.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mirrorlake.demo.report import EQUAL
from mirrorlake.demo.screen import Row
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.cluster import EARLIEST, LATEST, ClusterClient
from mirrorlake.kafka.control.range_reader import read_range
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.offsets import OffsetRange, TopicPartition

COLUMNS = ("topic", "partitions", "offsets", "records", "compared")

_NULL = -1
"""Stands for the length of a null, which is not empty."""

_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """What one partition holds for readers.

    ``digest`` is of every record's offset, timestamp, timestamp type, key, value and headers, in their order; the log
    begins at ``start_offset``, and the next record gets ``end_offset``.
    """

    start_offset: int
    end_offset: int
    records: int
    digest: str


class RecordDigest:
    """Makes a digest of records that come in parts, wherever they are parted."""

    def __init__(self) -> None:
        self.records = 0
        self._fields = [hashlib.blake2b(digest_size=_DIGEST_BYTES) for _ in _streams(RecordColumns.empty())]

    def update(self, columns: RecordColumns) -> None:
        """Takes the next records."""
        self.records += len(columns)
        for field, found in zip(self._fields, _streams(columns), strict=True):
            field.update(found)

    def hex(self) -> str:
        """Returns the digest of all that was taken."""
        return hashlib.blake2b(
            b"".join(field.digest() for field in self._fields), digest_size=_DIGEST_BYTES
        ).hexdigest()


async def fingerprints(
    client: ClusterClient, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, Fingerprint]:
    """Reads partitions whole, each up to its last stable offset.

    Raises:
        MirrorlakeError: one of them could not be read.
    """
    wanted = list(partitions)
    starts = await client.list_offsets(wanted, timestamp=EARLIEST)
    ends = await client.list_offsets(wanted, timestamp=LATEST)
    return {each: await _fingerprint(client, each, starts[each], ends[each]) for each in wanted}


async def _fingerprint(
    client: ClusterClient, partition: TopicPartition, start: int | MirrorlakeError, end: int | MirrorlakeError
) -> Fingerprint:
    if isinstance(start, MirrorlakeError):
        raise start
    if isinstance(end, MirrorlakeError):
        raise end
    digest = RecordDigest()
    async for columns in read_range(client, partition, OffsetRange(start_offset=start, end_offset=end)):
        digest.update(columns)
    return Fingerprint(start_offset=start, end_offset=end, records=digest.records, digest=digest.hex())


def compared(
    lost: Mapping[TopicPartition, Fingerprint],
    restored: Mapping[TopicPartition, Fingerprint],
    expected: Mapping[str, int],
) -> list[Row]:
    """Returns a row per topic: what was found again of what was lost, ``compared`` being `EQUAL` where it is all.

    Args:
        lost: what readers found before.
        restored: what they find now.
        expected: records that were written to each topic, and that readers must have found before.
    """
    return [_row(topic, lost, restored, records) for topic, records in expected.items()]


def _row(
    topic: str,
    lost: Mapping[TopicPartition, Fingerprint],
    restored: Mapping[TopicPartition, Fingerprint],
    expected: int,
) -> Row:
    partitions = [partition for partition in lost if partition.topic == topic]
    found = sum(lost[each].records for each in partitions)
    differing = [str(each) for each in partitions if lost[each] != restored.get(each)]
    verdict = f"differs: {', '.join(differing)}" if differing else EQUAL
    return {
        "topic": topic,
        "partitions": len(partitions),
        "offsets": sum(lost[each].end_offset - lost[each].start_offset for each in partitions),
        "records": sum(restored[each].records for each in partitions if each in restored),
        "compared": verdict if found == expected else f"{found} of {expected} were read before",
    }


def _streams(columns: RecordColumns) -> Iterator[bytes | memoryview]:
    """Yields bytes per field which, one part's behind the other's, do not tell where records were parted."""
    yield columns.offsets.tobytes()
    yield columns.timestamps.tobytes()
    yield columns.timestamp_types.tobytes()
    yield from _binary(columns.keys)
    yield from _binary(columns.values)
    yield np.diff(columns.headers.offsets.to_numpy()).tobytes()
    for of_headers in columns.headers.flatten().flatten():
        yield from _binary(of_headers)


def _binary(array: pa.LargeBinaryArray) -> tuple[bytes, memoryview]:
    """Returns the lengths of values, a null's being below zero, and the bytes of all of them."""
    lengths: npt.NDArray[np.int64] = pc.fill_null(pc.binary_length(array), _NULL).to_numpy()
    filled = pc.fill_null(array, b"")
    _, bounds, data = filled.buffers()
    ends = np.frombuffer(bounds, np.int64)[filled.offset : filled.offset + len(filled) + 1]
    return lengths.tobytes(), memoryview(data or b"")[ends[0] : ends[-1]]
