"""The reader at a real broker: the fetch limits of a cluster's settings hold, and nothing is lost for them."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from conftest import RunAsync
from mirrorlake.clock import SystemClock
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.connection import Connection
from mirrorlake.kafka.records.batches import walk
from mirrorlake.kafka.wire.buffers import BufferPool
from mirrorlake.kafka.wire.fetch import FetchedPartition
from mirrorlake.kafka.wire.settings import ClusterSettings, parse_server
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.kafka.broker_reader import BrokerReader
from mirrorlake.sources.kafka.read_partition import PinnedAnswer
from support.leases import archive_work, kafka_work, lease_plan, run_lease
from support.records import consume, in_batches, produce, settings_of, simple_records
from support.sources import read_from, source_cluster

pytestmark = pytest.mark.kafka

BATCHES, RECORDS_PER_BATCH = 40, 5
END = BATCHES * RECORDS_PER_BATCH
RECORDS = simple_records(END, size=200)  # a batch of five takes 1116 to 1126 bytes


@dataclass
class Reading:
    """Reads a partition to the end of what the test wrote; ``answers`` are the batches in each non-empty answer."""

    source: TopicPartition
    fetch_offset: int = 0
    wants_fetch: bool = True
    leader_epoch: int = -1
    topic_id: str = ""
    is_at_end: bool = False
    is_steady: bool = True
    answers: list[int] = field(default_factory=list)
    errors: list[MirrorlakeError] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return self.fetch_offset == END or bool(self.errors)

    def fetched(self, answer: FetchedPartition, frame: PinnedAnswer, *, is_quiet: bool) -> None:
        batches = list(walk(answer.records))
        if batches:
            self.answers.append(len(batches))
            self.fetch_offset = batches[-1].header.next_offset

    def fetch_failed(self, error: MirrorlakeError) -> None:
        self.errors.append(error)


@pytest.fixture
def source(source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync) -> TopicPartition:
    servers = source_kafka.bootstrap_servers

    async def fill() -> None:
        async with ClusterClient(settings_of(servers)) as client:
            await client.topics.create(topic_name, partitions=1, replication_factor=1)
        await produce(servers, topic_name, 0, in_batches(RECORDS, RECORDS_PER_BATCH))

    run_async(fill())
    return TopicPartition(topic_name, 0)


async def read_all(settings: ClusterSettings, source: TopicPartition) -> Reading:
    host, port = parse_server(settings.bootstrap_servers[0])
    buffers = BufferPool(16 << 20, 1 << 20)
    clock = SystemClock()
    reader = BrokerReader(
        lambda: Connection.open(host, port, settings=settings, buffers=buffers),
        clock=clock,
        read_until_seconds=clock.elapsed_seconds() + 60,
        settings=settings,
    )
    reading = Reading(source)
    reader.add(reading)
    await reader.run()
    assert reading.errors == []
    assert reading.fetch_offset == END
    return reading


def test_all_there_is_comes_in_one_answer_by_default(
    source_kafka: EmbeddedKafka, source: TopicPartition, run_async: RunAsync
) -> None:
    reading = run_async(read_all(settings_of(source_kafka.bootstrap_servers), source))

    assert reading.answers == [BATCHES]


@pytest.mark.parametrize(
    ("limits", "batches_in_an_answer"),
    [
        ({"fetch_bytes_max": 1024}, 1),  # less than a batch, which comes whole all the same (KIP-74)
        ({"fetch_partition_bytes_max": 1024}, 1),
        ({"fetch_bytes_max": 10_000, "fetch_partition_bytes_max": 6000}, 5),
        ({"fetch_bytes_max": 6000, "fetch_partition_bytes_max": 10_000}, 5),
    ],
)
def test_an_answer_holds_no_more_than_the_cluster_is_asked_for(
    source_kafka: EmbeddedKafka,
    source: TopicPartition,
    run_async: RunAsync,
    limits: dict[str, int],
    batches_in_an_answer: int,
) -> None:
    settings = replace(settings_of(source_kafka.bootstrap_servers), **limits)  # type: ignore[arg-type]

    reading = run_async(read_all(settings, source))

    assert max(reading.answers) == batches_in_an_answer
    assert sum(reading.answers) == BATCHES


def test_waiting_for_bytes_that_never_come_delays_a_lease_but_loses_nothing(
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    source: TopicPartition,
    tmp_path: Path,
    run_async: RunAsync,
) -> None:
    async def create() -> None:
        async with ClusterClient(settings_of(destination_kafka.bootstrap_servers)) as client:
            await client.topics.create(source.topic, partitions=1, replication_factor=1)

    run_async(create())
    # More bytes than there are, and a longer wait than the lease: the broker answers when the lease stops reading.
    plan = lease_plan(
        source_kafka.bootstrap_servers,
        [(source, [kafka_work(destination_kafka.bootstrap_servers, source), archive_work(tmp_path, source, end=END)])],
        end=None,
        seconds=6.0,  # half of it is waited; the other half is for a busy machine to copy in
    )
    patient = tuple(
        read_from(work, replace(source_cluster(work), fetch_bytes_min=1 << 30, fetch_wait_seconds_max=60.0))
        for work in plan.partitions
    )

    rows = run_lease(replace(plan, partitions=patient))

    assert {name: (row.error, row.position) for (_, name), row in rows.items()} == {
        "west": (None, END),
        "lake": (None, END),
    }
    assert list(consume(destination_kafka.bootstrap_servers, source.topic, 0).values()) == RECORDS
