"""Groups that fail over and back, of several mirrors, and under a kill: no record is missed, none is read twice."""

import asyncio
import json
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import CommittedOffset
from mirrorlake.offsets import TopicPartition
from support.command import Ended, write_yaml
from support.command import without_spark as mirrorlake
from support.copies import source_end, wait_until
from support.groups import commit, committed_offsets, member, new_group
from support.records import settings_of, simple_records
from support.service_process import ServiceProcess
from support.topics import append, make_topic

PARTITIONS = 2
BATCH = 20
READ_AT_SOURCE = 137
READ_AT_COPY = 61
READ_SECONDS_MAX = 180.0

pytestmark = pytest.mark.kafka

Seen = list[tuple[int, int]]
"""Partition and offset of each record that was read, in order."""


def read(servers: str, group: str, topic: str, records: int) -> Seen:
    """Reads as a member of the group and commits all of it; where the group has no offset, it fails."""

    async def reading() -> Seen:
        seen: Seen = []
        async with member(servers, group, [topic]) as consumer, asyncio.timeout(READ_SECONDS_MAX):
            while len(seen) < records:
                found = await consumer.getmany(timeout_ms=500, max_records=records - len(seen))
                seen += [(each.partition, each.offset) for theirs in found.values() for each in theirs]
            await consumer.commit()
        return seen

    return asyncio.run(reading())


@contextmanager
def load(servers: str, topic: str) -> Iterator[None]:
    """Appends to all partitions for as long as the block lasts."""
    is_over = threading.Event()

    def appending() -> None:
        start = 10_000
        while not is_over.wait(0.05):
            for partition in range(PARTITIONS):
                append(servers, topic, partition, simple_records(BATCH, start=start), batch_records=7)
            start += BATCH

    thread = threading.Thread(target=appending)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def mirror(folder: Path, name: str, servers: str, to: str, topic: str, groups: str = "") -> Path:
    return write_yaml(
        folder / f"{name}.yaml",
        f"""clusters:
  here: {{bootstrap-servers: "{servers}"}}
  there: {{bootstrap-servers: "{to}"}}
mirrors:
  - name: {name}-{topic}
    source: {{cluster: here, topics: [{topic}]}}
    destinations: [{{type: kafka, cluster: there, offsets: preserve{groups}}}]
""",
    )


def await_another_place(
    servers: str, group: str, before: Mapping[TopicPartition, int], service: ServiceProcess
) -> None:
    wait_until(lambda: committed_offsets(servers, group) != before, "a look at the group", log=service.said)


def sync(config: Path, group: str, *options: str) -> Ended:
    return mirrorlake("groups", "sync", "-c", config, "--group", group, "--yes", "--format", "json", *options)


@pytest.mark.slow
def test_consumers_fail_over_and_back_under_load_and_read_every_record_once(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west, group = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, new_group("failover")
    make_topic(east, topic_name, *(simple_records(50, start=50 * each) for each in range(PARTITIONS)))
    commit(east, group, {TopicPartition(topic_name, each): 0 for each in range(PARTITIONS)})
    there = mirror(tmp_path, "there", east, west, topic_name)
    with ServiceProcess("run", "-c", str(there), folder=tmp_path, without_spark=True) as service:
        service.await_words("caught up")
        with load(east, topic_name):
            seen = read(east, group, topic_name, READ_AT_SOURCE)
            first = sync(there, group)
            assert first.code in (0, 3), first.err
            seen += read(east, group, topic_name, READ_AT_SOURCE)
        for partition in range(PARTITIONS):  # where the load was short, some are to be left
            append(east, topic_name, partition, simple_records(READ_AT_COPY, start=100_000))
        ends = [source_end(east, topic_name, each) for each in range(PARTITIONS)]
        wait_until(
            lambda: [source_end(west, topic_name, each) for each in range(PARTITIONS)] == ends,
            "the copy has all",
            log=service.said,
        )
        last = sync(there, group)
        assert last.code == 0, last.err + last.out
        service.stop()
        assert service.exit_code() == 0, service.said()
    assert committed_offsets(west, group) == committed_offsets(east, group)
    seen += read(west, group, topic_name, READ_AT_COPY)

    with load(west, topic_name):
        seen += read(west, group, topic_name, READ_AT_COPY)
    back = mirror(tmp_path, "back", west, east, topic_name)
    copied = mirrorlake("run", "-c", back, "--once")
    assert copied.code == 0, copied.err
    returned = sync(back, group)
    assert returned.code == 0, returned.err + returned.out
    total = sum(source_end(east, topic_name, each) for each in range(PARTITIONS))
    seen += read(east, group, topic_name, total - len(seen))

    ends = [source_end(west, topic_name, each) for each in range(PARTITIONS)]
    for partition in range(PARTITIONS):
        offsets = [offset for place, offset in seen if place == partition]
        assert offsets == list(range(ends[partition])), "in order, none missed, none twice"


@pytest.mark.slow
def test_consumers_fail_over_and_back_while_services_take_their_groups_along_and_one_is_killed(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west, group = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, new_group("failover")
    make_topic(east, topic_name, *(simple_records(50, start=50 * each) for each in range(PARTITIONS)))
    commit(east, group, {TopicPartition(topic_name, each): 0 for each in range(PARTITIONS)})
    groups = f", groups: {{include: [{group}], interval: 1s}}"
    there = mirror(tmp_path, "there", east, west, topic_name, groups)
    seen: Seen = []
    with load(east, topic_name):
        for ending in (signal.SIGKILL, signal.SIGTERM):
            with ServiceProcess("run", "-c", str(there), folder=tmp_path, without_spark=True) as service:
                before = committed_offsets(west, group)
                seen += read(east, group, topic_name, READ_AT_SOURCE)
                await_another_place(west, group, before, service)
                if ending == signal.SIGKILL:
                    service.kill()
                    continue
                service.signal(ending)
                assert service.exit_code() == 0, service.said()
    # The consumers have stopped; a run to the end is the last that the source is needed for.
    assert mirrorlake("run", "-c", there, "--once").code == 0
    assert committed_offsets(west, group) == committed_offsets(east, group)
    seen += read(west, group, topic_name, READ_AT_COPY)

    back = mirror(tmp_path, "back", west, east, topic_name, groups)
    with load(west, topic_name):
        seen += read(west, group, topic_name, READ_AT_COPY)
    copied = mirrorlake("run", "-c", back, "--once")
    assert copied.code == 0, copied.err
    assert committed_offsets(east, group) == committed_offsets(west, group)
    total = sum(source_end(east, topic_name, each) for each in range(PARTITIONS))
    seen += read(east, group, topic_name, total - len(seen))

    for partition in range(PARTITIONS):
        offsets = [offset for place, offset in seen if place == partition]
        assert offsets == list(range(source_end(west, topic_name, partition))), "in order, none missed, none twice"


@pytest.mark.parametrize("named", [(), ("--mirror", "first")])
def test_a_group_gets_no_place_where_another_mirror_copies_to_the_same_partition(
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    tmp_path: Path,
    named: tuple[str, ...],
) -> None:
    east, west, group = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, new_group()
    for suffix in ("a", "b"):
        make_topic(east, f"{topic_name}-{suffix}", simple_records(40))
    config = write_yaml(
        tmp_path / "mirror.yaml",
        f"""clusters:
  east: {{bootstrap-servers: "{east}"}}
  west: {{bootstrap-servers: "{west}"}}
mirrors:
  - name: first
    source: {{cluster: east, topics: [{topic_name}-a]}}
    destinations: [{{type: kafka, cluster: west, topic: {topic_name}-both, offsets: map}}]
  - name: second
    source: {{cluster: east, topics: [{topic_name}-b]}}
    destinations: [{{type: kafka, cluster: west, topic: {topic_name}-both, offsets: map}}]
""",
    )
    copied = mirrorlake("run", "-c", config, "--once")
    assert copied.code == 0, copied.err
    commit(east, group, {TopicPartition(f"{topic_name}-a", 0): 40})

    ended = mirrorlake("groups", "sync", "-c", config, "--format", "json", "--group", group, "--yes", "--force", *named)

    assert ended.code == 3, ended.err
    (row,) = json.loads(ended.out)["groups"]
    assert (row["action"], row["offset"]) == ("unknown", None)
    assert "mirror second copies to the same partition" in str(row["note"])
    assert committed_offsets(west, group) == {}, "it has not read what the second mirror copied"


@pytest.mark.slow
def test_a_sync_that_is_killed_leaves_groups_as_they_were_or_placed_and_the_next_one_places_the_rest(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    make_topic(east, topic_name, *(simple_records(20) for _ in range(PARTITIONS)))
    config = mirror(tmp_path, "there", east, west, topic_name)
    copied = mirrorlake("run", "-c", config, "--once")
    assert copied.code == 0, copied.err
    groups = [f"{topic_name}-{number}" for number in range(300)]

    async def committing() -> None:
        async with ClusterClient(settings_of(east)) as client:
            for group in groups:
                await client.groups.commit(
                    group, {TopicPartition(topic_name, each): CommittedOffset(offset=9) for each in range(PARTITIONS)}
                )

    async def placed() -> int:
        async with ClusterClient(settings_of(west)) as client:
            found = await client.groups.offsets(dict.fromkeys(groups))
            assert all(
                not there or [each.offset for each in there.values() if isinstance(each, CommittedOffset)] == [9, 9]
                for there in found.values()
                if isinstance(there, Mapping)
            ), "whole groups, or nothing of them"
            return sum(bool(there) for there in found.values())

    asyncio.run(committing())
    these = f"/{topic_name}-.*/"
    with ServiceProcess(
        "groups", "sync", "-c", str(config), "--yes", "--group", these, folder=tmp_path, without_spark=True
    ) as process:
        wait_until(lambda: asyncio.run(placed()) > 0, "the first group is placed", log=process.said)
        process.kill()

    ended = sync(config, these)
    assert ended.code == 0, ended.err
    assert {row["action"] for row in json.loads(ended.out)["groups"]} <= {"committed", "stands there"}
    assert asyncio.run(placed()) == len(groups)
    again = sync(config, these)
    assert [row["action"] for row in json.loads(again.out)["groups"]] == ["stands there"] * 2 * len(groups)
