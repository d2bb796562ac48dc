"""Connections that the network has forgotten, as a firewall does: silent for ever, and never closed. New ones work."""

import pytest

from conftest import RunAsync
from mirrorlake.destinations.work import DestinationWork
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import TransientError
from mirrorlake.mirror.lease_worker import SILENT_SECONDS, Worker
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from support.copies import create_topic
from support.leases import kafka_work, lease_plan, map_work
from support.proxy import Proxy
from support.records import in_batches, produce, simple_records

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

LEASE_SECONDS = SILENT_SECONDS + 1.0


# Not mapped copies to the broker behind the proxy: it sends the markers of transactions to itself, also through the
# proxy, and waits for the answer on its own forgotten connection.
@pytest.mark.parametrize(("mode", "far"), [("preserve", "source"), ("preserve", "destination"), ("map", "source")])
def test_one_lease_is_lost_on_forgotten_connections_and_the_next_one_of_the_worker_dials_anew(
    proxy: Proxy,
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    run_async: RunAsync,
    mode: str,
    far: str,
) -> None:
    near = destination_kafka.bootstrap_servers if far == "source" else source_kafka.bootstrap_servers
    source, destination = (proxy.address, near) if far == "source" else (near, proxy.address)
    where = TopicPartition(topic_name, 0)
    work: DestinationWork = (kafka_work if mode == "preserve" else map_work)(destination, where)
    for servers in (source, destination):
        create_topic(servers, topic_name)
    worker = Worker()

    def write(start: int) -> None:
        run_async(produce(source, topic_name, 0, list(in_batches(simple_records(10, start=start), 10))))

    def lease(end: int) -> LeaseRow:
        (row,) = worker.run(lease_plan(source, [(where, [work])], end=end, seconds=LEASE_SECONDS))
        return row

    try:
        write(0)
        assert (lease(10).error, lease(10).position) == (None, 10)
        proxy.wake(lose_connections=True)
        write(10)
        lost = lease(20)
        assert isinstance(lost.error, TransientError), "the connections of before were used"
        again = lease(20)
        if again.error is not None:  # what was sent on a connection that is silent now may still be taken
            again = lease(20)
        assert (again.error, again.position) == (None, 20)
    finally:
        worker.close()
