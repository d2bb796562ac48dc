"""The inputs of the comparison, and how a broker is filled with one in seconds.

A handful of record batches is made once and sent over and over: making a gigabyte of records in Python would
take longer than everything that is measured.
"""

import random
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from aiokafka.record.default_records import DefaultRecordBatchBuilder

_PRODUCE = 0
_ACKS_LEADER = 1
_IN_FLIGHT = 8
_CODECS = {"none": 0, "lz4": 3}
# Enough that a compressor at the destination does not find one batch again in the next ones' window.
_DISTINCT_BATCHES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """Records to copy.

    Attributes:
        name: the topic's name too.
        records: how many at least; each partition is filled up to a whole batch.
        record_bytes: size of a value; it is random, keys and headers are null.
        batch_bytes: uncompressed, at most.
        codec: ``none`` or ``lz4``.
    """

    name: str
    records: int
    record_bytes: int
    codec: str
    batch_bytes: int = 128 * 1024
    partitions: int = 4

    def repeated(self, times: int) -> "Input":
        """Returns the same input with so many times the records."""
        return replace(self, records=self.records * times)


INPUTS = {
    "k1": Input(name="k1", records=1_000_000, record_bytes=1024, codec="none"),
    "b100": Input(name="b100", records=5_000_000, record_bytes=100, codec="lz4"),
    # Ten records a batch, as of producers that do not wait for more.
    "s100": Input(name="s100", records=1_000_000, record_bytes=100, codec="none", batch_bytes=1160),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """What was put into a topic: end offsets by partition, records and bytes on the wire over all of them."""

    end_offsets: dict[int, int]
    records: int
    wire_bytes: int


def fill(port: int, wanted: Input, *, batches: Sequence[tuple[int, bytes]] | None = None) -> Filled:
    """Appends ``wanted`` to its topic, which exists and is empty, on the one broker at 127.0.0.1:``port``.

    Args:
        port: the broker's.
        wanted: what.
        batches: what is sent over and over, of equally many records each, as (records, bytes); None for random values.

    Raises:
        RuntimeError: the broker refused a batch.
    """
    batches = batches or _distinct_batches(wanted)
    records_per_batch, batch_bytes = batches[0][0], sum(len(batch) for _, batch in batches) / len(batches)
    batches_per_partition = -(-wanted.records // (records_per_batch * wanted.partitions))
    frames = (
        _produce_frame(wanted.name, partition, batches[number % len(batches)][1], correlation_id=number)
        for number in range(batches_per_partition)
        for partition in range(wanted.partitions)
    )
    with socket.create_connection(("127.0.0.1", port), timeout=60.0) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _send_all(connection, frames)
    records = records_per_batch * batches_per_partition
    return Filled(
        end_offsets=dict.fromkeys(range(wanted.partitions), records),
        records=records * wanted.partitions,
        wire_bytes=round(batch_bytes * batches_per_partition * wanted.partitions),
    )


def _distinct_batches(wanted: Input) -> list[tuple[int, bytes]]:
    """Returns batches of equally many records each, as (records, bytes)."""
    source = random.Random(1)
    # Of today: brokers forget producers, and mirrors take care, where records are old.
    now_ms = int(time.time() * 1000)
    made: list[tuple[int, bytes]] = []
    for _number in range(_DISTINCT_BATCHES):
        builder = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=_CODECS[wanted.codec],
            is_transactional=0,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=wanted.batch_bytes,
        )
        records = 0
        while builder.append(records, now_ms + records, None, source.randbytes(wanted.record_bytes), []):
            records += 1
        made.append((records, bytes(builder.build())))
    assert len({records for records, _ in made}) == 1
    return made


def _produce_frame(topic: str, partition: int, batch: bytes, *, correlation_id: int) -> bytes:
    """Returns a Produce v8 request with one batch, the length before it included."""
    client = b"bench"
    head = struct.pack(">hhih", _PRODUCE, 8, correlation_id & 0x7FFFFFFF, len(client)) + client
    body = struct.pack(">hhiih", -1, _ACKS_LEADER, 60_000, 1, len(topic)) + topic.encode()
    body += struct.pack(">iii", 1, partition, len(batch))
    return struct.pack(">i", len(head) + len(body) + len(batch)) + head + body + batch


def _send_all(connection: socket.socket, frames: Iterator[bytes]) -> None:
    waiting = 0
    answers = connection.makefile("rb")
    with answers:
        for frame in frames:
            connection.sendall(frame)
            waiting += 1
            if waiting == _IN_FLIGHT:
                _check_answer(answers.read(struct.unpack(">i", answers.read(4))[0]))
                waiting -= 1
        for _answer in range(waiting):
            _check_answer(answers.read(struct.unpack(">i", answers.read(4))[0]))


def _check_answer(answer: bytes) -> None:
    # Correlation id, one topic, its name, one partition, its number, error code.
    (name_bytes,) = struct.unpack_from(">h", answer, 8)
    (error_code,) = struct.unpack_from(">h", answer, 8 + 2 + name_bytes + 4 + 4)
    if error_code != 0:
        raise RuntimeError(f"the broker refused a batch of the input: error code {error_code}")
