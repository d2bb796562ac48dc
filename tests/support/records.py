"""Records of every kind, and how to write them to a broker and read them back without the code under test.

Writing uses aiokafka's record builder, reading its consumer: neither shares code with mirrorlake.
"""

import asyncio
import random
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as ClientPartition
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from mirrorlake.kafka.control.connection import Connection
from mirrorlake.kafka.wire.apis import PRODUCE_VERSION, Api
from mirrorlake.kafka.wire.buffers import BufferPool
from mirrorlake.kafka.wire.produce import decode_produce, encode_produce
from mirrorlake.kafka.wire.settings import ClusterSettings

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}

EMPTY_POLLS_MAX = 10
MARKER_POLLS_MAX, MARKER_POLL_SECONDS = 30, 0.05

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class Record:
    """One record as a consumer sees it; ``offset`` is left out where only the content counts."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def settings_of(bootstrap_servers: str, name: str = "test") -> ClusterSettings:
    """``bootstrap_servers`` with commas between them."""
    return ClusterSettings(
        name=name, bootstrap_servers=tuple(bootstrap_servers.split(",")), request_timeout_seconds=10.0
    )


def build_batch(records: Sequence[Record], codec: int = NONE) -> bytes:
    """A v2 batch of ``records`` at base offset 0, without a producer id."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 30,
    )
    for delta, record in enumerate(records):
        assert builder.append(delta, record.timestamp, record.key, record.value, list(record.headers)) is not None
    return bytes(builder.build())


def every_kind(seed: int, *, timestamp: int = 1_700_000_000_000) -> list[Record]:
    """Null, empty and present keys, values and headers, in all combinations, with a few repeated headers."""
    rng = random.Random(seed)
    keys = (None, b"", b"key-%d" % seed)
    values = (None, b"", rng.randbytes(40))
    headers: tuple[Headers, ...] = (
        (),
        (("one", b"1"),),
        (("null", None), ("empty", b"")),
        (("same", b"a"), ("same", b"b"), ("same", None), ("", b"nameless")),
    )
    records = [Record(timestamp + rng.randrange(1000), k, v, h) for k in keys for v in values for h in headers]
    rng.shuffle(records)
    return records


async def produce(bootstrap_servers: str, topic: str, partition: int, batches: Iterable[bytes]) -> list[int]:
    """Appends batches one after the other, no producer id; returns their base offsets."""
    host, _, port = bootstrap_servers.partition(":")
    connection = await Connection.open(
        host, int(port), settings=settings_of(bootstrap_servers), buffers=BufferPool(8 << 20, 1 << 20)
    )
    offsets = []
    try:
        for batch in batches:
            body = encode_produce([(topic, partition, memoryview(batch))], timeout_ms=10_000)
            with await connection.request(Api.PRODUCE, PRODUCE_VERSION, body, timeout_seconds=20) as frame:
                (answer,) = decode_produce(frame.view)
            assert answer.error_code == 0, answer
            offsets.append(answer.base_offset)
    finally:
        connection.close("done")
    return offsets


def consume(
    bootstrap_servers: str,
    topic: str,
    partition: int,
    *,
    end: int | None = None,
    isolation_level: str = "read_committed",
) -> dict[int, Record]:
    """Everything a consumer sees, by offset, up to ``end`` (exclusive; the log's end by default)."""
    return asyncio.run(_consume(bootstrap_servers, topic, partition, end, isolation_level))


async def _consume(
    bootstrap_servers: str, topic: str, partition: int, end: int | None, isolation_level: str
) -> dict[int, Record]:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap_servers,
        isolation_level=isolation_level,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        check_crcs=True,
    )
    await consumer.start()
    try:
        where = ClientPartition(topic, partition)
        consumer.assign([where])
        stop = end
        if stop is None and isolation_level == "read_committed":
            stop = await _committed_end(consumer, where, bootstrap_servers)
        elif stop is None:
            stop = (await consumer.end_offsets([where]))[where]
        await consumer.seek_to_beginning(where)
        found: dict[int, Record] = {}
        empty_polls = 0
        # The cleaner may have taken the last records: no consumer's position ever comes to such an end.
        while await consumer.position(where) < stop and empty_polls < EMPTY_POLLS_MAX:
            polled = await consumer.getmany(timeout_ms=500)
            empty_polls = 0 if polled else empty_polls + 1
            for messages in polled.values():
                for m in messages:
                    found[m.offset] = Record(m.timestamp, m.key, m.value, tuple(m.headers))
        return {offset: record for offset, record in found.items() if offset < stop}
    finally:
        await consumer.stop()


async def _committed_end(consumer: AIOKafkaConsumer, where: ClientPartition, bootstrap_servers: str) -> int:
    """Where the log ends for a consumer of committed records.

    A broker answers the end of a transaction before its marker is there, so the end gets a little time to
    come to that of the log: it never does while a transaction is open.
    """
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap_servers, isolation_level="read_uncommitted") as other:
        written = (await other.end_offsets([where]))[where]
    for _ in range(MARKER_POLLS_MAX):
        shown = (await consumer.end_offsets([where]))[where]
        if shown >= written:
            break
        await asyncio.sleep(MARKER_POLL_SECONDS)
    return int(shown)


def simple_records(count: int, *, start: int = 0, size: int = 20, timestamp: int = 1_700_000_000_000) -> list[Record]:
    """Records that say their own number, so that a misplaced one is seen."""
    return [
        Record(timestamp + n, b"k%d" % n, (b"value-%d-" % n).ljust(size, b"x")) for n in range(start, start + count)
    ]


def in_batches(records: Sequence[Record], size: int, codec: int = NONE) -> Iterator[bytes]:
    """``records`` in batches of ``size``."""
    for start in range(0, len(records), size):
        yield build_batch(records[start : start + size], codec)


def with_log_append_time(batch: bytes) -> bool:
    """Whether a batch's attributes say LogAppendTime."""
    return bool(struct.unpack_from(">h", batch, 21)[0] & 0x08)
