"""Two source partitions in one destination partition, whose shard is given up while one of them is still opening."""

import asyncio
from typing import cast

import pytest

from mirrorlake.clock import SystemClock
from mirrorlake.destinations.map.progress import MapProgress, ProgressKey
from mirrorlake.destinations.map.sink import MapSink
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import OutcomeUnknownError
from mirrorlake.mirror.lease import LeaseWork
from mirrorlake.mirror.work import LeasePlan
from mirrorlake.offsets import OffsetRange, TopicPartition
from support.copies import create_topic
from support.leases import lease_plan, map_work, run_lease
from support.records import Record, consume
from support.sinks import connections_of_a_lease, delivery_of, dense_batch
from support.topics import append

pytestmark = [pytest.mark.kafka]

FIRST, ALL = 10, 20


def records_of(partition: int, start: int, end: int) -> list[Record]:
    return [Record(1000 + n, None, b"%d at %d" % (partition, n)) for n in range(start, end)]


def test_records_of_a_source_that_joins_late_are_committed_with_its_progress_and_none_comes_twice(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str
) -> None:
    east, west, copied = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, f"copy.{topic_name}"
    create_topic(east, topic_name, 2)
    create_topic(west, copied)
    for kind in ("progress", "offset-map"):
        create_topic(west, f"mirrorlake.{kind}.{topic_name}", cleanup_policy="compact")
    wheres = [TopicPartition(topic_name, partition) for partition in (0, 1)]
    works = {at: map_work(west, at, topic=copied, partition=0, mirror=topic_name) for at in wheres}

    def plan(end: int | None) -> LeasePlan:
        return lease_plan(east, [(at, [works[at]]) for at in wheres], end=end)

    for at in wheres:
        append(east, topic_name, at.partition, records_of(at.partition, 0, FIRST))
    run_lease(plan(FIRST))
    for at in wheres:
        append(east, topic_name, at.partition, records_of(at.partition, FIRST, ALL))

    async def given_up_while_one_opens() -> None:
        async with connections_of_a_lease() as connections:
            live = plan(None)
            lease = LeaseWork(live, connections, SystemClock())
            late, early = (cast(MapSink, lease.make_sink(p, works[p.source], lambda: None)) for p in live.partitions)
            check_tail = late._check_tail

            async def check_while_it_is_given_up(key: ProgressKey, progress: MapProgress) -> None:
                late._check_tail = check_tail
                give_up(early, "the second")
                await early.open()
                await check_tail(key, progress)

            for sink in (late, early):
                await sink.open()
            give_up(early, "the first")
            await early.open()
            late._check_tail = check_while_it_is_given_up
            await late.open()
            for sink, at in ((early, 1), (late, 0)):
                if sink.failure is not None:
                    await sink.open()
                batch = dense_batch(records_of(at, FIRST, ALL), FIRST)
                covered = OffsetRange(start_offset=FIRST, end_offset=ALL)
                await sink.deliver(delivery_of([batch], covered, end_offset=ALL))
            await asyncio.gather(early.finish(), late.finish())
            assert (early.progress.position, late.progress.position) == (ALL, ALL)
            for sink in (early, late):
                sink.abandon()

    asyncio.run(given_up_while_one_opens())
    rows = run_lease(plan(ALL))

    assert [row.position for row in rows.values()] == [ALL, ALL]
    values = [record.value for record in consume(west, copied, 0).values()]
    for at in wheres:
        copies = [value for value in values if value is not None and value.startswith(b"%d at " % at.partition)]
        assert copies == [record.value for record in records_of(at.partition, 0, ALL)]


def give_up(sink: MapSink, why: str) -> None:
    """As a lost answer to a batch of a third source of the shard does."""
    owned = sink._shard._owned
    assert owned is not None
    owned.fail(OutcomeUnknownError(why))
