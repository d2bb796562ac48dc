"""A destination whose answers take their time: batches are coalesced whatever their size, and the copy is equal."""

import random
import time
from collections import Counter
from dataclasses import replace

import pytest

from conftest import RunAsync
from mirrorlake.destinations import round_trips
from mirrorlake.destinations.round_trips import ROUND_TRIP_SECONDS_MIN
from mirrorlake.destinations.work import DestinationWork
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import TransientError
from mirrorlake.offsets import TopicPartition
from support.cleanliness import assert_clean
from support.copies import assert_equal_in_kafka, create_topic, wait_until
from support.leases import kafka_work, lease_plan, map_work, run_lease
from support.map_copies import assert_equal_through_map, assert_nothing_open
from support.proxy import Proxy
from support.records import CODECS, in_batches, produce, simple_records

pytestmark = [pytest.mark.kafka]

BATCHES = 320
BATCH_BYTES = 64 << 10
RECORDS = 2 * BATCHES
"""21 MB: three answers to fetches, and a partition takes the third one when what came before has been answered."""
NOW_MS = int(time.time() * 1000)


def copied(source: EmbeddedKafka, destination: str, topic: str, *, mode: str, keeps_compression: bool) -> Counter[str]:
    """How many batches went which way, by ``path:reason``, once all is copied."""
    where, work = TopicPartition(topic, 0), kafka_work(destination, TopicPartition(topic, 0))
    works: dict[str, DestinationWork] = {
        "preserve": replace(work, settings=replace(work.settings, keeps_compression=keeps_compression)),
        "map": map_work(destination, where, keeps_compression=keeps_compression),
    }
    plan = lease_plan(source.bootstrap_servers, [(where, [works[mode]])], end=RECORDS, seconds=60.0)
    batches: Counter[str] = Counter()

    def whole() -> bool:
        """One lease is enough, but for a broker that a busy machine keeps from its controller for a while."""
        row = run_lease(plan)[0, "west"]
        batches.update(row.batches)
        assert row.error is None or isinstance(row.error, TransientError), row.error
        return row.position == RECORDS

    wait_until(whole, "a whole copy")
    return batches


def fill(source: EmbeddedKafka, destination: str, topic: str, run_async: RunAsync, codec: str, time_ms: int) -> None:
    for servers in (source.bootstrap_servers, destination):
        create_topic(servers, topic)
    chance = random.Random(1)
    records = [
        replace(each, value=chance.randbytes(BATCH_BYTES // 2)) for each in simple_records(RECORDS, timestamp=time_ms)
    ]
    run_async(produce(source.bootstrap_servers, topic, 0, in_batches(records, 2, CODECS[codec])))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["preserve", "map"])
@pytest.mark.parametrize(
    ("codec", "first_time_ms"),
    [("none", NOW_MS - 3_600_000), ("zstd", NOW_MS - 3_600_000), ("none", 1_700_000_000_000)],
    ids=["as it is", "compressed", "one by one, as it is years old"],
)
def test_batches_to_a_far_destination_are_coalesced_and_the_copy_is_equal(
    source_kafka: EmbeddedKafka,
    proxy: Proxy,
    topic_name: str,
    run_async: RunAsync,
    mode: str,
    codec: str,
    first_time_ms: int,
) -> None:
    fill(source_kafka, proxy.address, topic_name, run_async, codec, first_time_ms)
    proxy.answer_delay_seconds = 0.06  # far longer than a busy machine takes for an append
    batches = copied(source_kafka, proxy.address, topic_name, mode=mode, keeps_compression=True)
    proxy.answer_delay_seconds = 0.0
    assert batches["records:coalesced"] > 0
    assert batches.total() < BATCHES
    if mode == "preserve":
        assert assert_equal_in_kafka(source_kafka.bootstrap_servers, proxy.address, topic_name) == RECORDS
        assert_clean(proxy.address, [topic_name])
    else:
        where = TopicPartition(topic_name, 0)
        assert assert_equal_through_map(source_kafka.bootstrap_servers, proxy.address, where) == RECORDS
        assert_nothing_open(proxy.address, topic_name, where)


@pytest.mark.parametrize("mode", ["preserve", "map"])
@pytest.mark.parametrize("is_near", [True, False], ids=["near", "compresses anew"])
def test_large_batches_go_as_they_are_to_a_near_destination_and_to_one_that_compresses_anew(
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    proxy: Proxy,
    topic_name: str,
    run_async: RunAsync,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    is_near: bool,
) -> None:
    # A broker of this machine is near however late it answers where the machine is busy.
    monkeypatch.setattr(round_trips, "ROUND_TRIP_SECONDS_MIN", 5.0 if is_near else ROUND_TRIP_SECONDS_MIN)
    destination = destination_kafka.bootstrap_servers if is_near else proxy.address
    fill(source_kafka, destination, topic_name, run_async, "none", NOW_MS - 3_600_000)
    proxy.answer_delay_seconds = 0.06
    batches = copied(source_kafka, destination, topic_name, mode=mode, keeps_compression=is_near)
    assert batches == {"raw:dense": BATCHES}
