"""What no copy may leave behind on a cluster: a transaction that is open."""

import asyncio
import time
from collections.abc import Iterable

from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.offsets import TopicPartition
from support.admin import admin_client
from support.records import settings_of

PATIENCE_SECONDS = 15.0
"""A marker is written after EndTxn is answered; and a killed filler's transaction times out after ten seconds."""

_OVER = {"Empty", "CompleteCommit", "CompleteAbort", "Dead"}


def assert_clean(bootstrap_servers: str, topics: Iterable[str]) -> None:
    """No coordinator lists a transaction that goes on, and no partition of the topics holds one open."""
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while open_ones := [*ongoing_transactions(bootstrap_servers), *open_partitions(bootstrap_servers, topics)]:
        assert time.monotonic() < give_up_at, f"left open: {open_ones}"
        time.sleep(0.2)


def ongoing_transactions(bootstrap_servers: str) -> list[str]:
    """What the coordinators of all brokers say is not over (ListTransactions)."""
    with admin_client(bootstrap_servers) as admin:
        listed = [each for found in admin.list_transactions().values() for each in found]
        return [str(each) for each in listed if each.state not in _OVER]


def open_partitions(bootstrap_servers: str, topics: Iterable[str]) -> list[str]:
    """Partitions whose leader remembers an open transaction (DescribeProducers)."""
    return asyncio.run(_open_partitions(bootstrap_servers, list(topics)))


async def _open_partitions(bootstrap_servers: str, topics: list[str]) -> list[str]:
    async with ClusterClient(settings_of(bootstrap_servers)) as client:
        found = (await client.metadata(topics)).topics
        partitions = [TopicPartition(name, number) for name in topics for number in found[name].partitions]
        opened = []
        for partition, producers in (await client.describe_producers(partitions)).items():
            if isinstance(producers, MirrorlakeError):
                raise producers
            opened += [f"{partition}: {each}" for each in producers if each.transaction_start_offset is not None]
        return opened
