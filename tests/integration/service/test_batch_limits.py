"""Batches that a destination topic refuses for their size, by other settings than ``max.message.bytes``."""

import asyncio
import time

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import RecordTooLargeError
from mirrorlake.kafka.records.batches import Codec
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.service.plan.planning import read_plan
from mirrorlake.service.states import state_of
from support.copies import assert_equal_in_kafka, create_topic
from support.leases import lease_plan, run_lease
from support.mirrors import copying
from support.records import build_batch, produce, simple_records

pytestmark = pytest.mark.kafka

SIX_MEGABYTES = str(6 << 20)
SEGMENT_BYTES = 1 << 20
"""The smallest there is."""


def copied(source: str, destination: str, topic: str, *, end: int) -> LeaseRow:
    """One lease, of the work that a service would make of what it finds."""
    (planned,) = asyncio.run(read_plan(copying(source, destination, topic)))
    state = state_of(planned.status.target, writer="test")
    (row,) = run_lease(lease_plan(source, [(state.source, [state.work])], end=end)).values()
    return row


def test_a_batch_larger_than_a_log_segment_of_the_destination_is_split(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(source, topic_name, max_message_bytes=SIX_MEGABYTES)
    create_topic(destination, topic_name, max_message_bytes=SIX_MEGABYTES, segment_bytes=str(SEGMENT_BYTES))
    records = simple_records(3000, size=1000, timestamp=int(time.time() * 1000))
    batch = build_batch(records)
    assert len(batch) > 2 * SEGMENT_BYTES
    asyncio.run(produce(source, topic_name, 0, [batch]))
    row = copied(source, destination, topic_name, end=3000)
    assert (row.error, row.position) == (None, 3000)
    assert assert_equal_in_kafka(source, destination, topic_name) == 3000


def test_a_batch_that_grows_at_the_destination_is_refused_with_its_size_and_the_setting_that_makes_it_grow(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(source, topic_name)
    create_topic(destination, topic_name, max_message_bytes="100000", compression_type="uncompressed")
    batch = build_batch(simple_records(900, size=1000, timestamp=int(time.time() * 1000)), codec=Codec.GZIP)
    assert len(batch) < 100_000
    asyncio.run(produce(source, topic_name, 0, [batch]))
    row = copied(source, destination, topic_name, end=900)
    assert isinstance(row.error, RecordTooLargeError), row.error
    assert f"append of {len(batch)} bytes (900 records) to destination" in row.error.message
    assert "compression.type=producer" in row.error.hint
