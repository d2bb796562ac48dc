"""What an archive in a bucket costs in requests, which is what such a store is paid for."""

from collections import Counter
from collections.abc import Iterator

import pytest

from conftest import RunAsync
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.offsets import TopicPartition
from support.copies import archive_position, create_topic
from support.leases import archive_work, lease_plan, run_lease
from support.object_servers import ObjectServer
from support.records import in_batches, produce, simple_records
from support.store_proxy import StoreProxy

pytestmark = pytest.mark.kafka


@pytest.fixture
def proxy(versitygw: ObjectServer) -> Iterator[StoreProxy]:
    with StoreProxy(versitygw.port) as proxy:
        yield proxy


def test_a_segment_costs_two_creates_a_delete_and_a_listing(
    source_kafka: EmbeddedKafka, versitygw: ObjectServer, proxy: StoreProxy, topic_name: str, run_async: RunAsync
) -> None:
    servers = source_kafka.bootstrap_servers
    create_topic(servers, topic_name)
    records = in_batches(simple_records(80, timestamp=1_700_000_000_000), 10)
    run_async(produce(servers, topic_name, 0, list(records)))
    lake = versitygw.settings(endpoint=proxy.endpoint)
    where = TopicPartition(topic_name, 0)
    counted: list[dict[str, int]] = []
    for end in (20, 80):  # two segments in the first lease, six in the second
        proxy.requests.clear()
        work = archive_work(lake, where, end=end, records_max=10)
        row = run_lease(lease_plan(servers, [(where, [work])], end=end))[0, "lake"]
        assert row.error is None
        counted.append(dict(Counter(proxy.kinds())))
    assert archive_position(lake, topic_name) == 80
    # The first look at a folder that may have a history costs three listings, a later one by another process one.
    assert counted == [
        {"list": 3 + 2, "create claim": 2, "create segment": 2, "delete claim": 2},
        {"list": 1 + 6, "create claim": 6, "create segment": 6, "delete claim": 6},
    ]
