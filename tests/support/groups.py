"""Consumer groups of real clusters, as clients make and use them."""

import asyncio
import os
import struct
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import OffsetAndMetadata
from aiokafka.structs import TopicPartition as ClientPartition

from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import CommittedOffset
from mirrorlake.offsets import TopicPartition
from support.records import settings_of

MEMBER_SECONDS_MAX = 30.0


def new_group(purpose: str = "group") -> str:
    """A name that no other test has."""
    return f"{purpose}-{os.urandom(4).hex()}"


@asynccontextmanager
async def member(
    servers: str, group: str, topics: Iterable[str], *, reset: str = "none"
) -> AsyncIterator[AIOKafkaConsumer]:
    """A consumer that has joined its group and has its partitions, and commits only when told."""
    consumer = AIOKafkaConsumer(
        *topics,
        bootstrap_servers=servers,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset=reset,
        isolation_level="read_committed",
    )
    await consumer.start()
    try:
        async with asyncio.timeout(MEMBER_SECONDS_MAX):
            while not consumer.assignment():
                await asyncio.sleep(0.05)
        yield consumer
    finally:
        await consumer.stop()


async def join_as_kip_848(servers: str, group: str, topic: str) -> int:
    """Makes a member of a group of KIP-848's protocol, which stays for a session; returns the broker's error code.

    No client here speaks it yet: the first ConsumerGroupHeartbeat (version 0) is written by hand.
    """

    def text(value: str) -> bytes:
        return bytes([len(value) + 1]) + value.encode()

    head = struct.pack(">hhi", 68, 0, 1) + struct.pack(">h", -1) + b"\0"
    names = b"\x02" + text(topic)
    body = text(group) + text("") + struct.pack(">i", 0) + b"\0\0" + struct.pack(">i", 60_000) + names + b"\0\x01\0"
    host, _, port = servers.partition(",")[0].rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(struct.pack(">i", len(head + body)) + head + body)
        size = struct.unpack(">i", await reader.readexactly(4))[0]
        answer = await reader.readexactly(size)
        return int(struct.unpack_from(">h", answer, 4 + 1 + 4)[0])
    finally:
        writer.close()
        await writer.wait_closed()


def commit(servers: str, group: str, offsets: Mapping[TopicPartition, int], *, metadata: str = "") -> None:
    """Commits as a client does that assigns partitions to itself: the group has no members afterwards."""

    async def committing() -> None:
        consumer = AIOKafkaConsumer(bootstrap_servers=servers, group_id=group, enable_auto_commit=False)
        await consumer.start()
        try:
            places = {ClientPartition(each.topic, each.partition): offset for each, offset in offsets.items()}
            consumer.assign([*places])
            await consumer.commit({each: OffsetAndMetadata(offset, metadata) for each, offset in places.items()})
        finally:
            await consumer.stop()

    asyncio.run(committing())


@asynccontextmanager
async def offsets_in_a_transaction(
    servers: str, group: str, offsets: Mapping[TopicPartition, int]
) -> AsyncIterator[AIOKafkaProducer]:
    """A transaction that would commit offsets of a group, open within the block; who does not end it has it aborted."""
    producer = AIOKafkaProducer(
        bootstrap_servers=servers, transactional_id=f"of-{group}", transaction_timeout_ms=600_000
    )
    await producer.start()
    try:
        await producer.begin_transaction()
        places = {ClientPartition(each.topic, each.partition): offset for each, offset in offsets.items()}
        await producer.send_offsets_to_transaction(places, group)
        yield producer
    finally:
        await producer.stop()


def committed(servers: str, group: str) -> dict[TopicPartition, CommittedOffset]:
    """What a group has committed, of all topics."""

    async def asking() -> dict[TopicPartition, CommittedOffset]:
        async with ClusterClient(settings_of(servers)) as client:
            found = (await client.groups.offsets({group: None}))[group]
            assert isinstance(found, Mapping), found
            return {each: offset for each, offset in found.items() if isinstance(offset, CommittedOffset)}

    return asyncio.run(asking())


def committed_offsets(servers: str, group: str) -> dict[TopicPartition, int]:
    """The offsets that a group has committed, of all topics."""
    return {each: found.offset for each, found in committed(servers, group).items()}


def read_on(
    servers: str,
    group: str,
    partitions: Iterable[TopicPartition],
    *,
    records: int,
    isolation_level: str = "read_committed",
) -> list[tuple[int, bytes | None]]:
    """Reads from where the group stands; returns partition and value of so many records. Fails without an offset."""

    async def reading() -> list[tuple[int, bytes | None]]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=servers,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level=isolation_level,
        )
        await consumer.start()
        found: list[tuple[int, bytes | None]] = []
        try:
            consumer.assign([ClientPartition(each.topic, each.partition) for each in partitions])
            async with asyncio.timeout(MEMBER_SECONDS_MAX):
                while len(found) < records:
                    record = await consumer.getone()
                    found.append((record.partition, record.value))
        finally:
            await consumer.stop()
        return found

    return asyncio.run(reading())
