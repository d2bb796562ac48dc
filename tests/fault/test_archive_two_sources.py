"""Leases of services whose sources are different clusters, and whose archives share a folder that was empty."""

from pathlib import Path

import pytest

from conftest import RunAsync
from mirrorlake.archive.formats.registry import extension_of, open_segment
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import OtherSourceError
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.sight.park_names import park_name
from mirrorlake.stores.filesystem import FilesystemStore
from support.copies import create_topic
from support.leases import archive_work, lease_plan, run_lease
from support.records import in_batches, produce, simple_records

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("format_name", ["parquet", "ndjson", "log"])
def test_a_folder_two_sources_began_in_while_it_was_empty_holds_one_of_them(
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    tmp_path: Path,
    run_async: RunAsync,
    format_name: str,
) -> None:
    where = TopicPartition(topic_name, 0)
    servers = {"east": source_kafka.bootstrap_servers, "west": destination_kafka.bootstrap_servers}
    for cluster, count in (("east", 100), ("west", 300)):
        create_topic(servers[cluster], topic_name)
        run_async(produce(servers[cluster], topic_name, 0, list(in_batches(simple_records(count), 10, 0))))

    def lease(cluster: str, end: int) -> LeaseRow:
        work = archive_work(
            tmp_path, where, end=end, format_name=format_name, cluster_id=f"{cluster}-id", topic_id=f"{cluster}-topic"
        )
        return run_lease(lease_plan(servers[cluster], [(where, [work])], end=None))[0, "lake"]

    assert lease("east", 50).error is None
    error = lease("west", 300).error
    assert isinstance(error, OtherSourceError)
    assert park_name(error) == "other-source"
    assert "east-id" in str(error)
    assert "west-id" in str(error)
    assert lease("east", 100).error is None
    store = FilesystemStore(tmp_path)
    archived = ArchivedPartition(store, destination_name=topic_name, partition=0, extension=extension_of(format_name))
    found = []
    for segment in archived.segments(archived.read_chain()):
        with open_segment(store, f"{archived.prefix}/{segment.name}") as reader:
            assert reader.footer is not None
            found.append((segment.name.from_offset, segment.name.to_offset, reader.footer.envelope.cluster_id))
    assert found == [(0, 49, "east-id"), (50, 99, "east-id")]
