"""A client that has used up its quota of bytes is answered with nothing: that says nothing about the topic."""

import warnings
from dataclasses import replace

import pytest

from conftest import RunAsync
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import MirrorlakeError, TransientError
from mirrorlake.kafka.control import range_reader
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.offsets import OffsetRange, TopicPartition
from support.admin import admin_client
from support.records import settings_of, simple_records
from support.topics import make_topic

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from kafka.protocol.admin import AlterClientQuotasRequest

pytestmark = pytest.mark.kafka

FETCHES = 20


def limit(servers: str, client_id: str, bytes_per_second: float) -> None:
    """Sets what one client may fetch."""
    entry = AlterClientQuotasRequest.EntryData
    asked = entry(
        entity=[entry.EntityData(entity_type="client-id", entity_name=client_id)],
        ops=[entry.OpData(key="consumer_byte_rate", value=bytes_per_second, remove=False)],
    )
    with admin_client(servers) as admin:
        answer = admin._manager.run(admin._manager.send, AlterClientQuotasRequest(entries=[asked], validate_only=False))
    assert [each.error_code for each in answer.entries] == [0]


def test_a_throttled_fetch_does_not_call_the_topic_missing(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    servers, where = source_kafka.bootstrap_servers, TopicPartition(topic_name, 0)
    make_topic(servers, topic_name, simple_records(200, size=1000))
    limit(servers, topic_name, 2000.0)

    async def first_refusal() -> MirrorlakeError | None:
        async with ClusterClient(replace(settings_of(servers), client_id=topic_name)) as client:
            for _ in range(FETCHES):
                try:
                    frame, _ = await client.fetch_once(where, 0, max_bytes=15_000)
                except MirrorlakeError as error:
                    return error
                frame.release()
        return None

    error = run_async(first_refusal())
    assert isinstance(error, TransientError), error
    assert "quota" in error.message


@pytest.mark.slow
def test_a_range_is_read_whole_however_often_its_reader_is_throttled(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_reader, "FETCH_BYTES", 10_000)
    servers, where = source_kafka.bootstrap_servers, TopicPartition(topic_name, 0)
    make_topic(servers, topic_name, simple_records(35, size=1000), batch_records=5)
    limit(servers, topic_name, 3000.0)  # ten seconds of it may go at once

    async def read() -> list[int]:
        async with ClusterClient(replace(settings_of(servers), client_id=topic_name)) as client:
            offsets = OffsetRange(start_offset=0, end_offset=35)
            return [n async for part in range_reader.read_range(client, where, offsets) for n in part.offsets.tolist()]

    assert run_async(read()) == list(range(35))
