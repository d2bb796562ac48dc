"""Copies of equal offsets with dead letters, in leases without a service: what they are told, and what is there."""

import asyncio
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from mirrorlake.destinations.letters.progress import LetterKey
from mirrorlake.destinations.letters.progress_store import read_letter_progress
from mirrorlake.destinations.letters.settings import LetterSettings, letter_progress_topic
from mirrorlake.destinations.preserve.work import PreserveWork
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.schema_ids.id_map import SchemaIdMap
from mirrorlake.offsets import GapFill, TopicPartition
from support.copies import create_topic, log_end
from support.gaps import open_transactions
from support.leases import kafka_work
from support.records import consume, settings_of
from support.schema_site import framed, letter_headers, letters_in

HERE, THERE, ABSENT_ID = 1, 501, 4711
SHORT = b"\0"

IDS = SchemaIdMap.of({HERE: THERE}, absent=[ABSENT_ID], letters_of_values=True)
LATER_IDS = SchemaIdMap.of({HERE: THERE, ABSENT_ID: 999}, letters_of_values=True)
"""As they are once the id is registered that was absent."""


def letters_topic(topic: str) -> str:
    return f"{topic}.dead-letters"


def create_letter_topics(servers: str, topic: str, *, letter_partitions: int = 2) -> None:
    create_topic(servers, letters_topic(topic), letter_partitions)
    create_topic(servers, letter_progress_topic(topic), cleanup_policy="compact")


def letter_settings(topic: TopicPartition) -> LetterSettings:
    return LetterSettings(
        mirror=topic.topic,
        template="{topic}.dead-letters",
        shard=0,
        shards=1,
        source=topic,
        destination_topic=topic.topic,
    )


def lettering(
    destination: str,
    topic: TopicPartition,
    *,
    gap_fill: GapFill = GapFill.MARKERS,
    ids: SchemaIdMap = IDS,
    **more: Any,
) -> PreserveWork:
    """A copy of equal offsets of one shard a topic; ``more`` as of ``kafka_work``."""
    work = kafka_work(destination, topic, mirror=topic.topic, gap_fill=gap_fill, **more)
    settings = replace(
        work.settings,
        transactional_id=f"mirrorlake.{topic.topic}.0",
        schema_ids=SchemaIdMap.of({}, letters_of_values=True),
        letters=letter_settings(topic),
    )
    return replace(work, settings=settings, orders=replace(work.orders, schema_ids=ids))


def lettered_offsets(destination: str, topic: TopicPartition) -> list[int]:
    """Source offsets of the letters that are there, in their order."""
    letters = letters_in(destination, letters_topic(topic.topic), topic.partition)
    return [int(letter_headers(each)["offset"]) for each in letters]


def known_letters(destination: str, topic: str) -> dict[LetterKey, list[int]]:
    """What the letter progress names."""

    async def read() -> dict[LetterKey, list[int]]:
        async with ClusterClient(settings_of(destination)) as client:
            found = await read_letter_progress(client, TopicPartition(letter_progress_topic(topic), 0))
            return {key: each.offsets.tolist() for key, each in found.items()}

    return asyncio.run(read())


def assert_copy_or_letter(source: str, destination: str, topic: TopicPartition, lettered: Collection[int]) -> None:
    """Each record is a letter, once, or in the copy with the destination's id, at its own offset; nothing is open."""
    expected = consume(source, topic.topic, topic.partition)
    assert lettered_offsets(destination, topic) == sorted(lettered)
    copied = consume(destination, topic.topic, topic.partition)
    assert sorted(copied) == [offset for offset in sorted(expected) if offset not in lettered]
    for offset, record in copied.items():
        value = expected[offset].value or b""
        assert (record.key, record.value) == (expected[offset].key, framed(THERE, value[5:]))
    names = [topic.topic, letters_topic(topic.topic), letter_progress_topic(topic.topic)]
    assert open_transactions(destination, names) == []
    assert log_end(destination, topic.topic, topic.partition) == log_end(source, topic.topic, topic.partition)
