"""What an archive in a bucket costs in requests, which is what such a store is paid for, and which go side by side."""

import threading
import time
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
from support.store_proxy import StoreProxy, StoreRequest
from support.topics import make_topic

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
    # A look at a folder costs one listing, and one by another process also a look at whose the newest segment is.
    assert counted == [
        {"list": 1 + 2, "create claim": 2, "create segment": 2, "delete claim": 2},
        {"list": 1 + 6, "read segment": 1, "create claim": 6, "create segment": 6, "delete claim": 6},
    ]


class SlowStore:
    """Answers late, and notes how many requests of a publication wait at one time: in all, and of one partition."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._waiting: Counter[str] = Counter()
        self.together_max = 0
        self.of_one_partition_max = 0

    def __call__(self, request: StoreRequest) -> None:
        if request.kind == "list":
            return
        partition = request.path.rpartition("/")[0]
        with self._lock:
            self._waiting[partition] += 1
            self.together_max = max(self.together_max, self._waiting.total())
            self.of_one_partition_max = max(self.of_one_partition_max, *self._waiting.values())
        time.sleep(self._seconds)
        with self._lock:
            self._waiting[partition] -= 1


def test_partitions_are_published_side_by_side_and_the_segments_of_one_in_order(
    source_kafka: EmbeddedKafka, versitygw: ObjectServer, proxy: StoreProxy, topic_name: str
) -> None:
    servers = source_kafka.bootstrap_servers
    make_topic(servers, topic_name, *([simple_records(20)] * 8))
    slow = proxy.spoil = SlowStore(0.1)
    lake = versitygw.settings(endpoint=proxy.endpoint)
    places = [TopicPartition(topic_name, number) for number in range(8)]
    works = [(where, [archive_work(lake, where, end=20, records_max=10)]) for where in places]
    rows = run_lease(lease_plan(servers, works, end=20, seconds=60.0))
    assert [rows[number, "lake"].error for number in range(8)] == [None] * 8
    assert [archive_position(lake, topic_name, number) for number in range(8)] == [20] * 8
    assert slow.of_one_partition_max == 1
    assert 2 <= slow.together_max <= 4
