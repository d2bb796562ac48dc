"""Comparing whole copies with their source, and making the topics they need."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.reading import check_archived_content, read_archived_range
from mirrorlake.errors import MirrorlakeError, TransientError
from mirrorlake.kafka.control.cluster import LATEST, ClusterClient
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.stores.object_store import ObjectStore
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import FilesystemSettings, StoreSettings
from support.records import Record, consume, settings_of
from support.segments import records_of

PATIENCE_SECONDS = 120.0

Lake = Path | StoreSettings
"""Where an archive is: a folder, or any store."""


def wait_until(
    condition: Callable[[], object],
    what: str,
    *,
    patience_seconds: float = PATIENCE_SECONDS,
    log: Callable[[], str] = str,
) -> None:
    """Polls until the condition holds; fails after a time far beyond any real one, with what ``log`` says then."""
    give_up_at = time.monotonic() + patience_seconds
    while not condition():
        assert time.monotonic() < give_up_at, f"waited in vain for {what}: {log()}"
        time.sleep(0.2)


def create_topic(bootstrap_servers: str, topic: str, partitions: int = 1, **configs: str) -> None:
    async def create() -> None:
        async with ClusterClient(settings_of(bootstrap_servers)) as client:
            settings = {name.replace("_", "."): value for name, value in configs.items()}
            await client.topics.create(topic, partitions=partitions, replication_factor=1, configs=settings)

    asyncio.run(create())


def source_end(bootstrap_servers: str, topic: str, partition: int = 0) -> int:
    """The last stable offset; a broker that is not ready yet is asked again."""
    where = TopicPartition(topic, partition)

    async def ask(client: ClusterClient) -> int | MirrorlakeError:
        return (await client.list_offsets([where], timestamp=LATEST))[where]

    return _ask_patiently(bootstrap_servers, ask)


def log_end(bootstrap_servers: str, topic: str, partition: int = 0) -> int:
    """The leader's log end; 0 where there is no such topic (yet). A broker that is not ready yet is asked again."""
    where = TopicPartition(topic, partition)

    async def ask(client: ClusterClient) -> int | MirrorlakeError:
        if topic not in (await client.metadata([topic])).topics:
            return 0
        end = (await client.log_ends([where]))[where]
        return end if isinstance(end, MirrorlakeError) else end.end_offset

    return _ask_patiently(bootstrap_servers, ask)


def _ask_patiently(
    bootstrap_servers: str, ask: Callable[[ClusterClient], Coroutine[Any, Any, int | MirrorlakeError]]
) -> int:
    async def attempt() -> int | MirrorlakeError:
        async with ClusterClient(settings_of(bootstrap_servers)) as client:
            return await ask(client)

    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            found = asyncio.run(attempt())
        except TransientError as error:
            found = error
        if isinstance(found, int):
            return found
        if not isinstance(found, TransientError) or time.monotonic() > give_up_at:
            raise found
        time.sleep(0.2)


def store_of(lake: Lake) -> ObjectStore:
    """The store of an archive."""
    return open_store(FilesystemSettings(root=lake) if isinstance(lake, Path) else lake)


def archived(lake: Lake, topic: str, partition: int = 0) -> ArchivedPartition:
    return ArchivedPartition(store_of(lake), destination_name=topic, partition=partition, extension="parquet")


def archive_position(lake: Lake, topic: str, partition: int = 0) -> int:
    """The next offset the archive needs; the chain is checked on the way."""
    return archived(lake, topic, partition).read_chain().position


def archived_records(lake: Lake, topic: str, partition: int = 0) -> dict[int, Record]:
    """Every archived record by offset, each file compared with its own footer; fails if one is there twice."""
    archive = archived(lake, topic, partition)
    check_archived_content(archive)
    found: dict[int, Record] = {}
    rows = 0
    for columns in read_archived_range(archive, OffsetRange(start_offset=0, end_offset=archive.read_chain().position)):
        found |= records_of(columns)
        rows += len(columns)
    assert len(found) == rows, "an offset is archived twice"
    return found


def assert_equal_in_kafka(source: str, destination: str, topic: str, partitions: int = 1) -> int:
    """Every record at its own offset and nothing else; returns how many there are."""
    count = 0
    for partition in range(partitions):
        end = source_end(source, topic, partition)
        assert (found := log_end(destination, topic, partition)) == end, f"log end {found}, the source's is {end}"
        expected = consume(source, topic, partition)
        assert_same_records(expected, consume(destination, topic, partition))
        count += len(expected)
    return count


def assert_equal_in_archive(source: str, lake: Lake, topic: str, partitions: int = 1) -> int:
    """One chain that ends where the source does and holds every record once; returns how many there are."""
    count = 0
    for partition in range(partitions):
        end = source_end(source, topic, partition)
        assert (found := archive_position(lake, topic, partition)) == end, f"position {found}, the source's is {end}"
        expected = consume(source, topic, partition)
        assert_same_records(expected, archived_records(lake, topic, partition))
        count += len(expected)
    return count


def assert_same_records(expected: dict[int, Record], found: dict[int, Record]) -> None:
    """Says the first offset that differs; a difference of thousands of records is of no use to anybody."""
    differing = [o for o in sorted(expected.keys() | found.keys()) if expected.get(o) != found.get(o)]
    first = differing[0] if differing else -1
    assert not differing, (
        f"{len(differing)} offsets differ, the first at {first}: "
        f"expected {expected.get(first)}, found {found.get(first)}"
    )
