"""A source topic of which some records name no schema: its copy has the others, and each of them is a dead letter."""

import time
from collections.abc import Set

from mirrorlake.offsets import TopicPartition
from support.kept_letters import ABSENT_ID, HERE, SHORT, letters_topic
from support.records import Record, in_batches, produce
from support.schema_site import framed, letter_headers, letters_in

RECORDS = 120
PER_BATCH = 10

ABSENT = framed(ABSENT_ID, b"x" * 50_000)
"""Large, and so alone in its batch."""


def value_of(number: int, lettered: Set[int]) -> bytes:
    if number in lettered:
        return SHORT if number % 2 else ABSENT
    return framed(HERE, b"body %d " % number + bytes(2000))


async def produce_lettered(servers: str, topic: str, lettered: Set[int]) -> None:
    """Appends the records to partition 0, in batches of ``PER_BATCH``."""
    now_ms = int(time.time() * 1000)
    records = [Record(now_ms + n, b"%d" % n, value_of(n, lettered)) for n in range(RECORDS)]
    await produce(servers, topic, 0, list(in_batches(records, PER_BATCH)))


def assert_letters_once(destination: str, topic: TopicPartition, lettered: Set[int]) -> None:
    """Each of those is a letter, once and in order, with its bytes and the reason, and nothing else is one."""
    letters = letters_in(destination, letters_topic(topic.topic), 0)
    assert [letter_headers(each)["offset"] for each in letters] == [str(n) for n in sorted(lettered)]
    assert [each.value for each in letters] == [value_of(n, lettered) for n in sorted(lettered)]
    assert [letter_headers(each)["reason"] for each in letters] == [
        "short" if n % 2 else "absent" for n in sorted(lettered)
    ]
    assert letters_in(destination, letters_topic(topic.topic), 1) == []
