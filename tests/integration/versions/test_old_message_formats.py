"""Topics that Kafka 2.8 keeps in message formats v0 and v1, as source: into an archive and into the newest Kafka."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from mirrorlake.destinations.work import DestinationWork
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.sources.kafka.work import KafkaSourceWork
from mirrorlake.verify.digest import Block
from mirrorlake.verify.worker import DigestTask, SourceSide, digest_source
from support.copies import archived_records, assert_same_records, create_topic, log_end
from support.leases import archive_work, kafka_work, lease_plan, run_lease
from support.old_formats import CODECS, FORMATS, magics
from support.records import Record, build_batch, consume, every_kind, produce, settings_of

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("time", ["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize("magic", FORMATS)
def test_every_record_of_an_old_format_is_archived_and_copied_at_its_offset(
    kafka_2_8: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    tmp_path: Path,
    magic: int,
    time: str,
) -> None:
    east, west = kafka_2_8.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(east, topic_name, message_format_version=FORMATS[magic], message_timestamp_type=time)
    create_topic(west, topic_name)
    records = [replace(each, headers=()) for each in every_kind(3)]  # headers came with v2
    asyncio.run(produce(east, topic_name, 0, [build_batch(records, codec) for codec in CODECS]))
    assert magics(east, topic_name) == {magic}

    where, end = TopicPartition(topic_name, 0), len(CODECS) * len(records)
    for stop in (end // 2 + 7, end):  # the second lease begins inside a message set, and compares the tail first
        works: list[tuple[TopicPartition, list[DestinationWork]]] = [
            (where, [archive_work(tmp_path, where, end=stop), kafka_work(west, where)])
        ]
        rows = run_lease(lease_plan(east, works, end=stop))
        assert {label: row.error for label, row in rows.items()} == dict.fromkeys(rows)

    written = dict(enumerate(records * len(CODECS)))
    if magic == 0:  # which has no times; and its LZ4 is more than the consumer reads
        expected = {offset: replace(record, timestamp=-1) for offset, record in written.items()}
    else:
        expected = consume(east, topic_name, 0)
        times = {each.timestamp for each in expected.values()}
        assert (times == {each.timestamp for each in records}) == (time == "CreateTime")
    assert log_end(west, topic_name) == end
    assert_same_records(expected, consume(west, topic_name, 0))
    assert_same_records(expected, archived_records(tmp_path, topic_name))
    assert_same_records(without_times(written), without_times(expected))
    assert digests(east, topic_name, end) == digests(west, topic_name, end), "what `verify` compares"


def digests(servers: str, topic: str, end: int) -> dict[int, Block] | None:
    side = SourceSide(source_work=KafkaSourceWork(cluster=settings_of(servers)), partition=TopicPartition(topic, 0))
    found = asyncio.run(digest_source(DigestTask(side=side, offsets=OffsetRange(start_offset=0, end_offset=end))))
    assert (found.error, found.records) == (None, end)
    return found.blocks


def without_times(records: dict[int, Record]) -> dict[int, Record]:
    return {offset: replace(record, timestamp=0) for offset, record in records.items()}
