"""Map mode: a batch whose answer was lost arrives after its transaction was given up, at a broker that takes it.

Brokers before Kafka 3.6 do not ask the coordinator whether a transactional batch belongs to an open transaction; newer
ones can be told not to. Only the epoch of a marker in the partition stops such a batch there.
"""

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import RunAsync
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.mirror.lease_worker import Worker
from mirrorlake.mirror.work import LeasePlan, LeaseRow
from mirrorlake.offsets import TopicPartition
from support.copies import create_topic, log_end
from support.leases import lease_plan, map_work
from support.map_copies import assert_equal_through_map, assert_nothing_open
from support.proxy import PRODUCE, Proxy
from support.records import in_batches, produce, simple_records

pytestmark = pytest.mark.kafka

REQUEST_SECONDS = 3.0


@pytest.fixture
def unverified(kafka_libs: Path, tmp_path: Path) -> Iterator[Proxy]:
    with Proxy() as proxy:
        properties = {
            "advertised.listeners": f"PLAINTEXT://{proxy.address}",
            "transaction.partition.verification.enable": "false",
        }
        with EmbeddedKafka(tmp_path, libs=kafka_libs, properties=properties) as broker:
            proxy.target_port = broker.port
            yield proxy


def test_a_batch_that_arrives_after_its_transaction_was_given_up_is_refused_and_nothing_is_doubled(
    unverified: Proxy, source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    source, proxy, where = source_kafka.bootstrap_servers, unverified, TopicPartition(topic_name, 0)
    create_topic(source, topic_name)
    create_topic(proxy.address, topic_name)

    def write(start: int) -> None:
        records = simple_records(10, start=start, size=2000, timestamp=int(time.time() * 1000))
        run_async(produce(source, topic_name, 0, list(in_batches(records, 10))))

    def plan(end: int) -> LeasePlan:
        work = map_work(proxy.address, where)
        work = replace(work, cluster=replace(work.cluster, request_timeout_seconds=REQUEST_SECONDS))
        return lease_plan(source, [(where, [work])], end=end, seconds=20.0)

    worker = Worker()
    rows: list[LeaseRow] = []

    def copy_the_rest() -> None:
        while len(rows) < 10 and not (rows and rows[-1].error is None):
            rows.extend(worker.run(plan(20)))

    leases = threading.Thread(target=copy_the_rest)
    try:
        write(0)
        assert worker.run(plan(10))[0].error is None
        end = log_end(proxy.address, topic_name)
        write(10)
        late = proxy.hold(PRODUCE)
        following = proxy.hold(PRODUCE, after_requests=2)
        leases.start()
        late.await_arrival()
        following.await_arrival(30.0)  # the first one was given up, and the shard taken over anew
        late.release()
        time.sleep(1.0)
        assert log_end(proxy.address, topic_name) <= end + 1, "more than the marker of what was given up"
        following.release()
        leases.join(100)
    finally:
        proxy.forgive()
        if leases.ident is not None:
            leases.join()
        worker.close()
    assert [(row.error, row.position) for row in rows[-1:]] == [(None, 20)]
    assert assert_equal_through_map(source, proxy.address, where) == 20
    assert_nothing_open(proxy.address, topic_name, where)
