"""`message.timestamp.type` of the destination is changed while a mirror runs: it stops, and says what it is about."""

import asyncio
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from kafka.admin import ConfigResource, ConfigResourceType

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import WrongTimestampsError
from mirrorlake.mirror.lease_worker import Worker
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.plan.planning import read_plan
from mirrorlake.topics.targets import shard_of, transactional_id_of
from support.admin import admin_client
from support.copies import assert_same_records, create_topic, log_end, wait_until
from support.leases import kafka_work, lease_plan, map_work
from support.lossy import Lossy, leases_aside
from support.mirrors import copying
from support.proxy import PRODUCE
from support.records import consume, simple_records
from support.topics import append

pytestmark = pytest.mark.kafka

STAMPED, KEPT = "LogAppendTime", "CreateTime"


class Copy:
    """A topic on two clusters, and leases from one to the other; ``is_mapped`` with mapped offsets."""

    def __init__(self, source: str, destination: str, topic: str, clock: str) -> None:
        self.source, self.destination, self.topic = source, destination, topic
        self.where = TopicPartition(topic, 0)
        self.worker = Worker()
        self.written = 0
        create_topic(source, topic)
        create_topic(destination, topic, message_timestamp_type=clock)

    def write(self, count: int = 10) -> None:
        now = int(time.time() * 1000) - 60_000
        append(self.source, self.topic, 0, simple_records(count, start=self.written, timestamp=now))
        self.written += count

    def set_clock(self, clock: str) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, self.topic, {"message.timestamp.type": clock})
        with admin_client(self.destination) as admin:
            admin.alter_configs([resource])

    def lease(self, *, keeps: bool, is_mapped: bool = False, end: int | None = None, seconds: float = 30.0) -> LeaseRow:
        """A lease with ``timestamp-mode: source`` where it ``keeps`` the times, else ``destination``."""
        if is_mapped:
            mapped = map_work(self.destination, self.where)
            works = [replace(mapped, settings=replace(mapped.settings, keeps_log_append_time=keeps))]
            (row,) = self.worker.run(lease_plan(self.source, [(self.where, works)], end=end, seconds=seconds))
            return row
        work = kafka_work(self.destination, self.where, keeps_log_append_time=keeps)
        name = transactional_id_of(self.topic, shard_of(self.where))
        work = replace(work, settings=replace(work.settings, transactional_id=name))
        (row,) = self.worker.run(lease_plan(self.source, [(self.where, [work])], end=end, seconds=seconds))
        return row

    def lease_in_which_the_clock_is_set(self, clock: str, *, keeps: bool, is_mapped: bool = False) -> LeaseRow:
        """Ten records are copied, the clock is set, and ten more are written, all in one live lease."""
        rows: list[LeaseRow] = []
        leased = threading.Thread(target=lambda: rows.append(self.lease(keeps=keeps, is_mapped=is_mapped)))
        self.write()
        leased.start()
        wait_until(lambda: log_end(self.destination, self.topic) >= 10, "the first records")
        self.set_clock(clock)
        time.sleep(1.0)  # a broker takes it over a moment after it has answered
        self.write()
        leased.join(60)
        return rows[0]


@pytest.fixture
def servers(source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka) -> tuple[str, str]:
    return source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers


@pytest.fixture
def kept(servers: tuple[str, str], topic_name: str) -> Iterator[Copy]:
    copy = Copy(*servers, topic_name, KEPT)
    yield copy
    copy.worker.close()


@pytest.fixture
def stamped(servers: tuple[str, str], topic_name: str) -> Iterator[Copy]:
    copy = Copy(*servers, topic_name, STAMPED)
    yield copy
    copy.worker.close()


def assert_names_both(row: LeaseRow, clock: str, mode: str) -> WrongTimestampsError:
    assert isinstance(row.error, WrongTimestampsError), row
    assert f"message.timestamp.type of {row.source.topic} is {clock}" in row.error.message
    assert f"`timestamp-mode` is `{mode}`" in row.error.message
    return row.error


@pytest.mark.slow
def test_a_destination_that_begins_to_set_its_own_times_stops_the_copy_at_once_and_is_named_also_when_it_is_set_back(
    kept: Copy,
) -> None:
    row = kept.lease_in_which_the_clock_is_set(STAMPED, keeps=True)
    error = assert_names_both(row, STAMPED, "source")
    assert error.facts["differing_offset"] == 10
    assert log_end(kept.destination, kept.topic) == 20, "the batch that showed it, and none after it"
    kept.set_clock(KEPT)
    kept.write(30)
    error = assert_names_both(kept.lease(keeps=True, end=50), STAMPED, "source")
    assert "set message.timestamp.type=CreateTime" in error.hint
    assert f"delete {kept.topic} to have it copied afresh" in error.hint
    assert log_end(kept.destination, kept.topic) == 20
    (planned,) = asyncio.run(read_plan(copying(kept.source, kept.destination, kept.topic)))
    assert planned.as_json()["reason"] == "wrong-timestamps"


def test_a_destination_that_no_longer_sets_its_own_times_stops_a_copy_that_wants_them(stamped: Copy) -> None:
    row = stamped.lease_in_which_the_clock_is_set(KEPT, keeps=False)
    error = assert_names_both(row, KEPT, "destination")
    assert error.facts["differing_offset"] == 10
    assert log_end(stamped.destination, stamped.topic) == 20
    stamped.set_clock(STAMPED)
    row = stamped.lease(keeps=False, end=20)
    assert (row.error, row.position) == (None, 20), "nobody's times were promised, and set back it goes on"


@pytest.mark.slow
def test_a_mapped_copy_shows_no_record_with_a_wrong_time_and_goes_on_when_the_clock_is_set_back(kept: Copy) -> None:
    row = kept.lease_in_which_the_clock_is_set(STAMPED, keeps=True, is_mapped=True)
    error = assert_names_both(row, STAMPED, "source")
    assert "no consumer has seen them" in error.hint
    kept.set_clock(KEPT)
    time.sleep(1.0)
    row = kept.lease(keeps=True, is_mapped=True, end=20)
    assert (row.error, row.position) == (None, 20)
    copied = consume(kept.destination, kept.topic, 0)
    there = consume(kept.source, kept.topic, 0)
    assert_same_records(there, dict(enumerate(copied[offset] for offset in sorted(copied))))


def test_a_mapped_copy_that_wants_the_brokers_times_stops_where_they_are_set_no_longer(stamped: Copy) -> None:
    row = stamped.lease_in_which_the_clock_is_set(KEPT, keeps=False, is_mapped=True)
    assert_names_both(row, KEPT, "destination")
    assert len(consume(stamped.destination, stamped.topic, 0)) == 10


@pytest.mark.slow
def test_the_time_in_the_answer_to_a_duplicate_is_not_taken_for_the_brokers_own(lossy: Lossy) -> None:
    lossy.write(20)
    lossy.copy()
    lossy.write(10)
    late = lossy.proxy.hold(PRODUCE)
    again = lossy.proxy.hold(PRODUCE, after_requests=2)
    with leases_aside(lossy.plan(20.0), count=5) as rows:
        late.await_arrival()
        again.await_arrival()  # the first one was given up, and the same batch is sent once more
        late.release()
        wait_until(lambda: log_end(lossy.proxy.address, lossy.topic) == 30, "the late batch")
        again.release()  # a duplicate, which is answered with the time of its records
    assert (rows[-1].error, rows[-1].position) == (None, 30)
    lossy.assert_equal()
