"""Loads the source cluster: record batches made beforehand, sent as a producer sends them."""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from mirrorlake.demo.compaction import surviving_rows
from mirrorlake.demo.data import Amounts, Shop, Transaction
from mirrorlake.demo.topics import CUSTOMERS, LEDGER, ORDERS, PAYMENTS, TOPICS, TopicShape
from mirrorlake.errors import BrokerNotReadyError, MirrorlakeError
from mirrorlake.kafka.control.cluster import LATEST, ClusterClient
from mirrorlake.kafka.control.descriptions import LogEnd, ProducerIdentity
from mirrorlake.kafka.control.range_reader import read_range
from mirrorlake.kafka.records.codec import RecordColumns, encode_batch
from mirrorlake.kafka.wire.apis import PRODUCE_VERSION, Api
from mirrorlake.kafka.wire.error_codes import error_for
from mirrorlake.kafka.wire.frame import Frame
from mirrorlake.kafka.wire.produce import decode_produce, encode_produce
from mirrorlake.offsets import OffsetRange, TopicPartition

TRANSACTIONAL_ID = "shop-ledger"
TRANSACTION_TIMEOUT_MS = 60_000
PRODUCE_TIMEOUT_MS = 30_000
ANSWER_SECONDS_MAX = 60.0
REQUESTS_IN_FLIGHT = 8

COMPACTED_SECONDS_MAX = 60.0
"""The log cleaner needs a second, once it has looked whether there is something to do."""
LOOK_AGAIN_SECONDS = 0.1

Batches = Sequence[Sequence[bytearray]]
"""By partition, in the order of their offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What readers find in a topic: committed records, and their keys, values and headers in bytes.

    ``wire_bytes`` are those of the batches as they were sent, compressed.
    """

    records: int = 0
    record_bytes: int = 0
    wire_bytes: int = 0

    def __add__(self, other: "Content") -> "Content":
        return Content(
            records=self.records + other.records,
            record_bytes=self.record_bytes + other.record_bytes,
            wire_bytes=self.wire_bytes + other.wire_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Everything one load sends.

    ``kept_customers`` are the offsets which compaction will leave, by partition, of those that it looks at;
    ``looked_at`` how many these are.
    """

    batches: Mapping[str, Batches]
    contents: Mapping[str, Content]
    transactions: Sequence[Transaction]
    kept_customers: Sequence[Sequence[int]] = field(default=())
    looked_at: Sequence[int] = field(default=())


def prepare(shop: Shop, amounts: Amounts, *, recent_customers: int, old_customers: int = 0) -> Prepared:
    """Returns the next records of the shop as batches; takes seconds for hundreds of thousands."""
    orders, payments = shop.orders(amounts.orders), shop.payments(amounts.payments)
    old = shop.old_customers(old_customers) if old_customers else []
    recent = shop.recent_customers(recent_customers)
    transactions = shop.transactions(amounts.transactions)
    kept = [surviving_rows(columns) for columns in old]
    batches = {
        ORDERS.name: [_encoded(ORDERS, columns) for columns in orders],
        PAYMENTS.name: [_encoded(PAYMENTS, columns) for columns in payments],
        # A batch of its own for what is recent: it is what begins the new segment.
        CUSTOMERS.name: [
            [*(_encoded(CUSTOMERS, old[partition]) if old else ()), *_encoded(CUSTOMERS, columns)]
            for partition, columns in enumerate(recent)
        ],
    }
    committed = [columns for made in transactions if made.is_committed for columns in made.columns]
    customers = _content(recent) + Content(
        records=sum(map(len, kept)),
        record_bytes=sum(int(c.sizes[rows].sum()) for c, rows in zip(old, kept, strict=True)),
    )
    contents = {
        ORDERS.name: _content(orders),
        PAYMENTS.name: _content(payments),
        CUSTOMERS.name: customers,
        LEDGER.name: _content(committed),
    }
    return Prepared(
        batches=batches,
        contents={
            name: found + Content(wire_bytes=_wire_bytes(batches.get(name, ()))) for name, found in contents.items()
        },
        transactions=transactions,
        kept_customers=kept,
        looked_at=[len(columns) for columns in old],
    )


async def create_topics(client: ClusterClient) -> None:
    """Creates the four topics on a cluster of one broker."""
    for shape in TOPICS:
        await client.topics.create(shape.name, partitions=shape.partitions, replication_factor=1, configs=shape.configs)


async def load(client: ClusterClient, prepared: Prepared) -> None:
    """Sends everything, then waits until no transaction is open and compaction has done what it will do.

    Raises:
        BrokerNotReadyError: it has not within a minute.
        MirrorlakeError: the broker refused something.
    """
    for topic, batches in prepared.batches.items():
        await _append(client, topic, batches)
    await _append_transactions(client, prepared.transactions)
    await _until_committed(client)
    for partition, kept in enumerate(prepared.kept_customers):
        await _until_compacted(client, partition, kept=kept, looked_at=prepared.looked_at[partition])


async def end_offsets(client: ClusterClient) -> dict[TopicPartition, int]:
    """Returns the last stable offset of every partition of the four topics: how far a mirror copies."""
    partitions = [TopicPartition(shape.name, number) for shape in TOPICS for number in range(shape.partitions)]
    found = await client.list_offsets(partitions, timestamp=LATEST)
    return {partition: _or_raise(end) for partition, end in found.items()}


def _encoded(shape: TopicShape, columns: RecordColumns) -> list[bytearray]:
    starts = range(0, len(columns), shape.batch_records)
    return [
        encode_batch(
            columns.slice(start, min(start + shape.batch_records, len(columns))),
            codec=shape.codecs[number % len(shape.codecs)],
        )
        for number, start in enumerate(starts)
    ]


def _content(parts: Sequence[RecordColumns]) -> Content:
    return Content(records=sum(map(len, parts)), record_bytes=sum(int(part.sizes.sum()) for part in parts))


def _wire_bytes(batches: Batches) -> int:
    return sum(len(batch) for of_partition in batches for batch in of_partition)


async def _append(client: ClusterClient, topic: str, batches: Batches, *, transactional_id: str | None = None) -> None:
    """Appends the batches of all partitions side by side, those of each in their order."""
    metadata = await client.metadata([topic])
    connection = await client.connection(metadata.topics[topic].partitions[0].leader)
    waiting: deque[asyncio.Future[Frame]] = deque()
    for of_all_partitions in zip_longest(*batches):
        request = [(topic, number, batch) for number, batch in enumerate(of_all_partitions) if batch is not None]
        body = encode_produce(request, timeout_ms=PRODUCE_TIMEOUT_MS, transactional_id=transactional_id)
        waiting.append(connection.send(Api.PRODUCE, PRODUCE_VERSION, body, timeout_seconds=ANSWER_SECONDS_MAX))
        if len(waiting) == REQUESTS_IN_FLIGHT:
            await _check(waiting.popleft())
    for answer in waiting:
        await _check(answer)


async def _check(answer: "asyncio.Future[Frame]") -> None:
    with await answer as frame:
        for produced in decode_produce(frame.view):
            if produced.error_code:
                what = f"Produce to {produced.topic}-{produced.partition}"
                raise error_for(produced.error_code, what=what, message=produced.error_message)


async def _append_transactions(client: ClusterClient, transactions: Sequence[Transaction]) -> None:
    identity = await client.init_producer_id(TRANSACTIONAL_ID, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS)
    partitions = [TopicPartition(LEDGER.name, number) for number in range(LEDGER.partitions)]
    sequences = [0] * LEDGER.partitions
    for transaction in transactions:
        added = await client.add_partitions_to_transaction(TRANSACTIONAL_ID, identity, partitions)
        for error in added.values():
            if error is not None:
                raise error
        batches = [[_in_transaction(c, identity, sequences[n])] for n, c in enumerate(transaction.columns)]
        await _append(client, LEDGER.name, batches, transactional_id=TRANSACTIONAL_ID)
        await client.end_transaction(TRANSACTIONAL_ID, identity, committed=transaction.is_committed)
        sequences = [first + len(c) for first, c in zip(sequences, transaction.columns, strict=True)]


def _in_transaction(columns: RecordColumns, identity: ProducerIdentity, base_sequence: int) -> bytearray:
    return encode_batch(
        columns,
        codec=LEDGER.codecs[0],
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        base_sequence=base_sequence,
        is_transactional=True,
    )


async def _until_committed(client: ClusterClient) -> None:
    """Waits for the last markers: a transaction that ended may hold the last stable offset a little longer."""
    for _ in range(round(COMPACTED_SECONDS_MAX / LOOK_AGAIN_SECONDS)):
        ends = await end_offsets(client)
        logs = await client.log_ends(ends)
        if all(isinstance(log, LogEnd) and log.end_offset == ends[partition] for partition, log in logs.items()):
            return
        await asyncio.sleep(LOOK_AGAIN_SECONDS)
    raise BrokerNotReadyError("the transactions of the demo's ledger do not end")


async def _until_compacted(client: ClusterClient, number: int, *, kept: Sequence[int], looked_at: int) -> None:
    partition = TopicPartition(CUSTOMERS.name, number)
    for _ in range(round(COMPACTED_SECONDS_MAX / LOOK_AGAIN_SECONDS)):
        found: list[int] = []
        async for columns in read_range(client, partition, OffsetRange(start_offset=0, end_offset=looked_at)):
            found += columns.offsets.tolist()
        if found == list(kept):
            return
        await asyncio.sleep(LOOK_AGAIN_SECONDS)
    raise BrokerNotReadyError(f"Kafka did not compact {partition} of the demo within {COMPACTED_SECONDS_MAX:.0f} s")


def _or_raise(found: int | MirrorlakeError) -> int:
    if isinstance(found, MirrorlakeError):
        raise found
    return found
