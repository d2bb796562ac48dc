"""Map mode: answers lost after the request passed, for every request of a transaction; none doubled, none lost."""

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from conftest import RunAsync
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.kafka.wire.apis import Api
from mirrorlake.mirror.lease_worker import Worker
from mirrorlake.offsets import TopicPartition
from support.copies import create_topic
from support.leases import lease_plan, map_work
from support.map_copies import assert_equal_through_map, assert_nothing_open
from support.proxy import Proxy
from support.records import in_batches, produce, simple_records

pytestmark = pytest.mark.kafka

REQUEST_SECONDS = 3.0


class Lossy:
    """A source topic of one partition, its mapped copy behind a proxy, and a worker that keeps its connections."""

    def __init__(self, source: EmbeddedKafka, proxy: Proxy, topic: str, run_async: RunAsync) -> None:
        self.source, self.proxy, self.topic, self._run_async = source.bootstrap_servers, proxy, topic, run_async
        create_topic(self.source, topic)
        create_topic(proxy.address, topic)
        self.where = TopicPartition(topic, 0)
        self.written = 0
        self.worker = Worker()

    def write(self, count: int) -> None:
        # So large that no batch is coalesced with others.
        records = simple_records(count, start=self.written, size=2000, timestamp=int(time.time() * 1000))
        self._run_async(produce(self.source, self.topic, 0, list(in_batches(records, 10))))
        self.written += count

    def copy(self) -> None:
        """Leases on one worker until one brings the position to the end."""
        work = map_work(self.proxy.address, self.where)
        work = replace(work, cluster=replace(work.cluster, request_timeout_seconds=REQUEST_SECONDS))
        plan = lease_plan(self.source, [(self.where, [work])], end=self.written, seconds=8.0)
        give_up_at = time.monotonic() + 120
        while True:
            (row,) = self.worker.run(plan)
            if row.position == self.written and row.error is None:
                return
            assert time.monotonic() < give_up_at, row


@pytest.fixture
def lossy(proxy: Proxy, source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync) -> Iterator[Lossy]:
    """Whatever was lost: no transaction is open in the end."""
    made = Lossy(source_kafka, proxy, topic_name, run_async)
    yield made
    made.worker.close()
    proxy.forgive()
    assert_nothing_open(proxy.address, topic_name, made.where)


@pytest.mark.parametrize(
    ("api", "requests"),
    [
        (Api.INIT_PRODUCER_ID, (1,)),
        (Api.ADD_PARTITIONS_TO_TXN, (1, 1)),  # where to begin; data
        (Api.PRODUCE, (1, 2, 4)),  # the progress of the start; data; and further on
        (Api.END_TXN, (1, 1)),  # where to begin; data
        (Api.DESCRIBE_PRODUCERS, (1, 3)),
    ],
    ids=lambda value: value.name.lower() if isinstance(value, Api) else "",
)
def test_an_answer_lost_with_its_connection_doubles_nothing_and_loses_nothing(
    api: Api, requests: tuple[int, ...], lossy: Lossy
) -> None:
    for number in requests:
        cuts = lossy.proxy.cuts
        lossy.write(100)
        lossy.proxy.cut_before_answer(api, after_requests=number)
        lossy.copy()
        assert lossy.proxy.cuts == cuts + 1, "the answer was not lost"
        assert assert_equal_through_map(lossy.source, lossy.proxy.address, lossy.where) == lossy.written
