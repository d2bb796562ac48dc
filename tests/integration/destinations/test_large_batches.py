"""A batch that decompresses to more than a process allows itself: named, parked, and copied where it is allowed."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from mirrorlake.destinations.work import DestinationWork
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import BatchTooLargeError
from mirrorlake.mirror.policy import Decision, between_leases
from mirrorlake.mirror.work import LeasePlan
from mirrorlake.offsets import TopicPartition
from support.copies import create_topic
from support.leases import archive_work, kafka_work, lease_plan, run_lease
from support.records import ZSTD, Record, build_batch, produce, simple_records

pytestmark = pytest.mark.kafka

MIB = 1 << 20
HEADER_BYTES = 61
"""Of a batch; what comes behind them is compressed."""
LARGE = Record(1_700_000_000_000, b"k", bytes(3 * MIB))


@pytest.mark.parametrize("kind", ["archive", "kafka, split"])
def test_a_batch_that_decompresses_to_more_than_is_allowed_is_named_so_and_copied_when_it_is_allowed(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, kind: str
) -> None:
    source, where = source_kafka.bootstrap_servers, TopicPartition(topic_name, 0)
    create_topic(source, topic_name)
    large = build_batch([LARGE, LARGE], ZSTD)
    asyncio.run(produce(source, topic_name, 0, [build_batch(simple_records(5)), large]))
    work: DestinationWork = archive_work(tmp_path, where, end=7)
    if kind.startswith("kafka"):
        create_topic(destination_kafka.bootstrap_servers, topic_name, max_message_bytes=str(len(large) - 1))
        work = kafka_work(destination_kafka.bootstrap_servers, where, batch_bytes_max=len(large) - 1)
    plan = lease_plan(source, [(where, [work])], end=7)

    (row,) = run_lease(replace(plan, largest_batch_bytes=2 * MIB)).values()
    assert isinstance(row.error, BatchTooLargeError), row.error
    assert between_leases(row.error) is Decision.PARK
    assert f"source {where}: the record batch at offset 5 is larger than allowed" in row.error.message
    assert f"its {len(large) - HEADER_BYTES} compressed bytes come to more than {2 * MIB}" in row.error.message
    assert "engine.largest-batch" in row.error.hint

    (row,) = run_lease(replace(plan, largest_batch_bytes=7 * MIB)).values()
    # The five records before it were right, and are at the Kafka destination by then; a segment is begun anew.
    assert (row.error, row.position, row.records) == (None, 7, 2 if kind.startswith("kafka") else 7)


def test_what_a_plan_allows_by_default_is_half_a_gibibyte() -> None:
    assert LeasePlan.__dataclass_fields__["largest_batch_bytes"].default == 512 * MIB
