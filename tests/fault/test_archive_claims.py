"""Claims in an archive that no record of the source reaches, on a real broker."""

from dataclasses import replace
from pathlib import Path

import pytest

from conftest import RunAsync
from mirrorlake.archive.origin import Origin
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.destinations.archive.adoption import CLAIM_LOOKS_MAX
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import ChainBrokenError, ClaimAheadError
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from mirrorlake.stores.filesystem import FilesystemStore
from support.copies import create_topic
from support.leases import archive_work, lease_plan, run_lease
from support.records import in_batches, produce, simple_records

pytestmark = pytest.mark.kafka

PARTITIONS = 6


def test_a_claim_past_the_sources_end_holds_nobody_up_and_stops_its_partition_once_it_was_looked_at_again(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, run_async: RunAsync
) -> None:
    servers = source_kafka.bootstrap_servers
    create_topic(servers, topic_name, partitions=PARTITIONS)
    for number in range(PARTITIONS):
        run_async(produce(servers, topic_name, number, list(in_batches(simple_records(30), 10, 0))))
    places = [TopicPartition(topic_name, number) for number in range(PARTITIONS)]
    origin = Origin(cluster_id="cluster", topic=topic_name, topic_id="topic", partition=0)
    archived = ArchivedPartition(
        FilesystemStore(tmp_path), destination_name=topic_name, partition=0, extension="parquet"
    )
    archived.publication(0, origin=origin, writer="dead").claim(999_999, raw_bytes=1)

    def lease(looks: int) -> dict[int, LeaseRow]:
        works = []
        for where in places:
            work = archive_work(tmp_path, where, end=30)
            works.append((where, [replace(work, orders=replace(work.orders, claim_looks=looks))]))
        # The one whose claim it is comes first, and would hold the encoder.
        rows = run_lease(lease_plan(servers, works, end=30))
        return {number: rows[number, "lake"] for number in range(PARTITIONS)}

    rows = lease(looks=0)
    assert {number: row.position for number, row in rows.items() if number} == dict.fromkeys(range(1, PARTITIONS), 30)
    assert isinstance(rows[0].error, ClaimAheadError)
    error = lease(looks=CLAIM_LOOKS_MAX)[0].error
    assert isinstance(error, ChainBrokenError)
    assert f"{topic_name}/0/_claim-{0:020}" in str(error)
    assert "reaches offset 1000000" in str(error)
    assert "ends at 30" in str(error)
    # The records came after all: the claim is adopted, whatever was found before.
    archived.store.delete(f"{topic_name}/0/_claim-{0:020}")
    archived.publication(0, origin=origin, writer="dead").claim(34, raw_bytes=1)
    assert isinstance(lease(looks=1)[0].error, ClaimAheadError)
    run_async(produce(servers, topic_name, 0, list(in_batches(simple_records(5, start=30), 5, 0))))
    row = lease(looks=2)[0]
    assert (row.error, row.position) == (None, 35)
