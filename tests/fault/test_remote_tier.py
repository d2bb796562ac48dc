"""A source with a remote tier (KIP-405) that is slow: its empty answers hide records, and say so by nothing."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirrorlake.archive.snapshots.tombstones import SnapshotRule
from mirrorlake.destinations.map.tail_look import TailLook
from mirrorlake.destinations.work import DestinationWork
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import MirrorlakeError, RemoteTierError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from mirrorlake.verify.verdict import Result
from support.command import without_spark as mirrorlake
from support.copies import archive_position, archived_records, assert_same_records, create_topic, log_end
from support.leases import archive_work, as_snapshots, kafka_work, lease_plan, map_work, run_lease
from support.records import consume, settings_of, simple_records
from support.snapshots import names, view
from support.tiered_kafka import TieredKafka
from support.topics import append
from support.verdicts import verdict_of

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RECORDS, LOCAL_FROM = 6000, 4000
SLOW_SECONDS = 2.0
"""Four times what the broker waits for its tier (remote.fetch.max.wait.ms)."""


@pytest.fixture(scope="module")
def source(tiered_kafka: TieredKafka) -> TopicPartition:
    """6 000 records of a kilobyte, of which the first 4 000 at least are in the remote tier only."""
    records = simple_records(RECORDS, size=1000)
    tiered_kafka.make_topic("tiered", records, local_from=LOCAL_FROM, batch_records=100)
    return TopicPartition("tiered", 0)


@pytest.fixture(autouse=True)
def fast_again(tiered_kafka: TieredKafka) -> Iterator[None]:
    """Whatever a test left behind, the tier is fast when it begins and when it ends."""
    tiered_kafka.answers_after(0.0)
    yield
    tiered_kafka.answers_after(0.0)


def lease(tiered: TieredKafka, source: TopicPartition, work: DestinationWork, *, seconds: float) -> LeaseRow:
    """One lease up to the end of the source."""
    rows = run_lease(
        lease_plan(
            tiered.bootstrap_servers, [(source, [work])], end=RECORDS, seconds=seconds, hard_seconds=seconds + 10
        )
    )
    return rows[0, work.destination]


def assert_waits(row: LeaseRow) -> None:
    """Nothing was taken for a gap, and the row says what it waits for, where."""
    assert (row.position, row.records, dict(row.gap_offsets)) == (0, 0, {})
    says_where(row.error, offset=0)


def says_where(error: MirrorlakeError | None, *, offset: int) -> None:
    assert isinstance(error, RemoteTierError), error
    assert error.message.startswith("waiting for the source's remote tier: tiered-0 in cluster 'east' gives nothing at")
    assert f"at offset {offset}, " in error.message
    assert "its last stable offset is 6000" in error.message
    local_start = error.facts["local_start"]
    assert isinstance(local_start, int)
    assert local_start >= LOCAL_FROM


@pytest.mark.parametrize("offsets", ["preserve", "map"])
def test_a_copy_waits_for_a_slow_remote_tier_and_is_whole_when_it_is_fast_again(
    tiered_kafka: TieredKafka, destination_kafka: EmbeddedKafka, source: TopicPartition, topic_name: str, offsets: str
) -> None:
    servers = destination_kafka.bootstrap_servers
    create_topic(servers, topic_name)
    work: DestinationWork = kafka_work(servers, source, topic=topic_name)
    if offsets == "map":
        work = map_work(servers, source, topic=topic_name, mirror=topic_name)
    tiered_kafka.answers_after(SLOW_SECONDS)
    assert_waits(lease(tiered_kafka, source, work, seconds=4.0))
    tiered_kafka.answers_after(0.0)
    row = lease(tiered_kafka, source, work, seconds=60.0)
    assert (row.error, row.position, row.records) == (None, RECORDS, RECORDS)
    assert_same_records(dict(enumerate(simple_records(RECORDS, size=1000))), consume(servers, topic_name, 0))


@pytest.mark.parametrize("format_name", ["parquet", "log"])
def test_an_archive_waits_for_a_slow_remote_tier_and_is_whole_when_it_is_fast_again(
    tiered_kafka: TieredKafka, source: TopicPartition, tmp_path: Path, format_name: str
) -> None:
    work = archive_work(tmp_path, source, end=RECORDS, format_name=format_name)
    tiered_kafka.answers_after(SLOW_SECONDS)
    assert_waits(lease(tiered_kafka, source, work, seconds=4.0))
    assert not list(tmp_path.glob(f"{source.topic}/*/0*"))
    tiered_kafka.answers_after(0.0)
    row = lease(tiered_kafka, source, work, seconds=60.0)
    assert (row.error, row.position, row.records) == (None, RECORDS, RECORDS)
    if format_name == "parquet":
        assert archive_position(tmp_path, source.topic) == RECORDS
        assert_same_records(
            dict(enumerate(simple_records(RECORDS, size=1000))), archived_records(tmp_path, source.topic)
        )


def test_a_snapshot_waits_for_a_slow_remote_tier_and_holds_every_key_when_it_is_fast_again(
    tiered_kafka: TieredKafka, source: TopicPartition, tmp_path: Path
) -> None:
    work = as_snapshots(archive_work(tmp_path, source, end=RECORDS), SnapshotRule())
    tiered_kafka.answers_after(SLOW_SECONDS)
    assert_waits(lease(tiered_kafka, source, work, seconds=4.0))
    assert names(tmp_path, source.topic) == []
    tiered_kafka.answers_after(0.0)
    assert lease(tiered_kafka, source, work, seconds=60.0).error is None
    assert len(view(tmp_path, source.topic)) == RECORDS  # no two records have the same key


def test_what_a_tail_check_cannot_read_in_the_remote_tier_is_waited_for(
    tiered_kafka: TieredKafka, destination_kafka: EmbeddedKafka, source: TopicPartition, topic_name: str
) -> None:
    servers = destination_kafka.bootstrap_servers
    create_topic(servers, topic_name)
    append(servers, topic_name, 0, simple_records(2000, size=1000), batch_records=100)
    work = kafka_work(servers, source, topic=topic_name)
    tiered_kafka.answers_after(SLOW_SECONDS)
    row = lease(tiered_kafka, source, work, seconds=4.0)
    says_where(row.error, offset=1936)
    assert log_end(servers, topic_name) == 2000
    tiered_kafka.answers_after(0.0)
    row = lease(tiered_kafka, source, work, seconds=60.0)
    assert (row.error, row.position, row.records) == (None, RECORDS, RECORDS - 2000)


def test_what_a_mapped_destination_keeps_in_its_remote_tier_is_waited_for_before_it_is_called_nobodys(
    tiered_kafka: TieredKafka, source: TopicPartition
) -> None:
    progress = TopicPartition("mirrorlake.progress.test", 0)
    nobody = frozenset({4711})

    async def look() -> None:
        async with ClusterClient(settings_of(tiered_kafka.bootstrap_servers, "west")) as client:
            await TailLook(client, source, nobody, end_offset=RECORDS).check_behind({}, progress)

    tiered_kafka.answers_after(SLOW_SECONDS)
    with pytest.raises(RemoteTierError, match="waiting for the destination's remote tier: tiered-0 in cluster 'west'"):
        asyncio.run(look())
    tiered_kafka.answers_after(0.0)
    asyncio.run(look())  # it is somebody else's, by its producer


def test_verify_says_of_a_range_it_cannot_read_that_it_failed(
    tiered_kafka: TieredKafka, destination_kafka: EmbeddedKafka, source: TopicPartition
) -> None:
    servers = destination_kafka.bootstrap_servers
    create_topic(servers, source.topic)
    append(servers, source.topic, 0, simple_records(RECORDS, size=1000), batch_records=100)
    tiered_kafka.answers_after(SLOW_SECONDS)
    verdict = verdict_of(tiered_kafka.bootstrap_servers, servers, source.topic)
    assert verdict.result is Result.FAILED
    says_where(verdict.error, offset=0)
    tiered_kafka.answers_after(0.0)
    verdict = verdict_of(tiered_kafka.bootstrap_servers, servers, source.topic)
    assert (verdict.result, verdict.records, verdict.error) == (Result.EQUAL, RECORDS, None)


def test_a_bounded_run_that_cannot_read_the_remote_tier_fails_and_names_what_it_waits_for(
    tiered_kafka: TieredKafka, destination_kafka: EmbeddedKafka, source: TopicPartition, topic_name: str, tmp_path: Path
) -> None:
    config = tmp_path / "mirror.yaml"
    config.write_text(
        f"""
clusters:
  east: {{bootstrap-servers: "{tiered_kafka.bootstrap_servers}"}}
  west: {{bootstrap-servers: "{destination_kafka.bootstrap_servers}"}}
mirrors:
  - name: {topic_name}
    source: {{cluster: east, topics: [{source.topic}]}}
    destinations: [{{type: kafka, cluster: west, topic: {topic_name}, offsets: map}}]
engine: {{lanes: 1, lease: 1s, memory: 512MiB}}
"""
    )
    tiered_kafka.answers_after(SLOW_SECONDS)
    ended = mirrorlake("run", "--once", "-c", config)
    assert ended.code == 1, ended.err
    (said,) = ended.troubles(topic_name)  # once, however many leases waited
    assert "waiting for the source's remote tier" in said
    assert "tiered-0 in cluster 'east' gives nothing at offset 0" in said
    assert log_end(destination_kafka.bootstrap_servers, topic_name) == 0
    plan = mirrorlake("plan", "-c", config)
    assert "waiting for the source's remote tier" in plan.out, plan
    tiered_kafka.answers_after(0.0)
    assert mirrorlake("run", "--once", "-c", config).code == 0
    verify = mirrorlake("verify", "-c", config, "--format", "json").row(topic_name)
    assert (verify["result"], verify["records"]) == ("equal", RECORDS)
