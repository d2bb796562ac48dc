"""Equal offsets with dead letters: a marker that never comes to the letters, to what says that they are there, or both.

Made as in ``test_map_markers``: on a broker that does not verify transactions a partition is written to and not added.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager

import pytest

from conftest import NewKafka
from mirrorlake.clock import SystemClock
from mirrorlake.destinations.interface import ClassifiedBatch
from mirrorlake.destinations.letters.dead_letters import parted
from mirrorlake.destinations.preserve.letter_book import LetterBook
from mirrorlake.destinations.transactions.gap_filler import GapFiller
from mirrorlake.destinations.transactions.session import TransactionSession
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.records.batches import walk
from mirrorlake.offsets import TopicPartition
from support.copies import create_topic
from support.kept_letters import (
    HERE,
    IDS,
    SHORT,
    assert_copy_or_letter,
    create_letter_topics,
    letter_settings,
    lettering,
    letters_topic,
)
from support.leases import lease_plan, run_lease
from support.records import Record, build_batch, produce, settings_of
from support.schema_site import framed

pytestmark = pytest.mark.kafka

LETTERED = {1, 3, 7}


class Forgetting(TransactionSession):
    """Its transactions leave partitions out, and it does not mind that they stay open."""

    left_out: Collection[TopicPartition] = ()
    commits = True

    async def add_all(self, partitions: Collection[TopicPartition]) -> None:
        (any_other,) = {TopicPartition(each.topic, 1) for each in partitions if each.topic.endswith(".dead-letters")}
        await super().add_all([each for each in partitions if each not in self.left_out] or [any_other])

    async def end(self, *, committed: bool) -> None:
        await super().end(committed=committed and self.commits)

    async def until_closed(
        self, partitions: Collection[TopicPartition], *, committed: bool = True
    ) -> Mapping[TopicPartition, int]:
        await super().until_closed([each for each in partitions if each not in self.left_out], committed=committed)
        return {}


class Lender(GapFiller):
    """Lends a session that forgets."""

    def __init__(self, client: ClusterClient, session: Forgetting) -> None:
        super().__init__(
            client, session.transactional_id, hand_off=None, clock=SystemClock(), fill_until_seconds=float("inf")
        )
        self._forgetting = session

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[TransactionSession]:
        if not self._forgetting.is_owned:
            await self._forgetting.own()
        yield self._forgetting


def records() -> list[Record]:
    now_ms = int(time.time() * 1000)
    return [Record(now_ms, b"%d" % n, SHORT if n in LETTERED else framed(HERE, b"%d" % n)) for n in range(10)]


async def write_letters(destination: str, topic: TopicPartition, left_out: list[str], *, commits: bool) -> None:
    """Writes the letters of all records, and passes none of their offsets."""
    work = lettering(destination, topic)
    settings = letter_settings(topic)
    places = {"letters": TopicPartition(letters_topic(topic.topic), 0), "progress": settings.progress_partition}
    (batch,) = walk(memoryview(bytearray(build_batch(records()))))
    found = parted(ClassifiedBatch(batch=batch, path="raw", reason="dense"), IDS, settings.origin)
    assert found is not None
    async with ClusterClient(settings_of(destination)) as client:
        session = Forgetting(client, work.settings.transactional_id, timeout_ms=10_000)
        session.left_out = [places[each] for each in left_out]
        session.commits = commits
        book = LetterBook(client, Lender(client, session), settings.progress_partition, clock=SystemClock())
        copy = (await client.metadata([topic.topic])).topics[topic.topic]
        await book.write(settings.key(copy.topic_id), settings.topic, [found.letters], position=0)
        standings = await session.look(session.left_out)
        assert all(each.open_from is not None for each in standings.values()), "nothing is open"


@pytest.mark.parametrize("commits", [True, False])
def test_what_stands_open_is_closed_as_its_transaction_ended(
    commits: bool, new_kafka: NewKafka, source_kafka: EmbeddedKafka, topic_name: str
) -> None:
    source = source_kafka.bootstrap_servers
    destination = new_kafka(transaction_partition_verification_enable="false").bootstrap_servers
    # Where both are left out nobody has seen any of it committed.
    for case in (["letters"], ["progress"], ["letters", "progress"]):
        topic = TopicPartition(f"{topic_name}-{'-'.join(case)}", 0)
        create_topic(source, topic.topic)
        create_topic(destination, topic.topic)
        create_letter_topics(destination, topic.topic)
        asyncio.run(produce(source, topic.topic, 0, [build_batch(records())]))
        asyncio.run(write_letters(destination, topic, case, commits=commits))
        was_committed = commits and len(case) == 1

        row = run_lease(lease_plan(source, [(topic, [lettering(destination, topic)])], end=10))[0, "west"]

        assert (row.error, row.position) == (None, 10)
        assert sum(row.dead_letters.values()) == (0 if was_committed else 3), (
            "those that are there are not written anew"
        )
        assert_copy_or_letter(source, destination, topic, LETTERED)
