"""A lease that its driver lets go on copies on as before, and ends in time where its copies are not as it left them."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import RunAsync
from mirrorlake.clock import SystemClock
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.mirror.renewal import write_renewal
from mirrorlake.mirror.work import LeasePlan, LeaseRow
from mirrorlake.moments import Moment
from mirrorlake.offsets import GapFill, TopicPartition
from support.copies import assert_equal_in_kafka, create_topic, log_end, wait_until
from support.leases import kafka_work, lease_plan, run_lease
from support.records import settings_of, simple_records
from support.topics import append
from support.transactions import append_in_transaction

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

COUNT = 100
LIVE_SECONDS = 6.0
MORE_SECONDS = 12.0
"""From when it is allowed, two seconds after the begin."""


class Copy:
    """A lease of four partitions of a topic, of which only the first ever has records."""

    def __init__(
        self, source: EmbeddedKafka, destination: EmbeddedKafka, topic: str, folder: Path, run_async: RunAsync
    ) -> None:
        self.source, self.destination, self.topic = source.bootstrap_servers, destination.bootstrap_servers, topic
        self._file = folder / "renewal-1"
        for servers in (self.source, self.destination):
            create_topic(servers, topic, partitions=4)
        self.plan = self._plan(run_async(self._topic_id()))
        self.write(0)
        self.began = 0.0

    async def _topic_id(self) -> str:
        async with ClusterClient(settings_of(self.source)) as client:
            return (await client.metadata([self.topic], refresh=True)).topics[self.topic].topic_id

    def _plan(self, topic_id: str) -> LeasePlan:
        partitions = [TopicPartition(self.topic, number) for number in range(4)]
        works = [(each, [kafka_work(self.destination, each, gap_fill=GapFill.MARKERS)]) for each in partitions]
        plan = lease_plan(self.source, works, end=None, seconds=LIVE_SECONDS, topic_id=topic_id)
        return replace(plan, renewal_file=str(self._file))

    def write(self, start: int) -> None:
        append(self.source, self.topic, 0, simple_records(COUNT, start=start, timestamp=int(time.time() * 1000)))

    def allow(self, seconds: float = MORE_SECONDS) -> None:
        write_renewal(str(self._file), Moment.of(SystemClock(), in_seconds=seconds))

    def await_copied(self, end: int) -> None:
        wait_until(lambda: log_end(self.destination, self.topic) >= end, "the copy")

    def run(self, meanwhile: Callable[[], None]) -> tuple[dict[tuple[int, str], LeaseRow], float]:
        """Runs the lease beside what a test does; returns its rows, and how long it took."""
        with ThreadPoolExecutor(1) as pool:
            self.began = time.monotonic()
            running = pool.submit(run_lease, self.plan)
            meanwhile()
            rows = running.result()
        return rows, time.monotonic() - self.began

    def sleep_past_the_first_end(self) -> None:
        time.sleep(max(0.0, self.began + LIVE_SECONDS + 1.0 - time.monotonic()))


@pytest.fixture
def copy(
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    tmp_path: Path,
    run_async: RunAsync,
) -> Copy:
    return Copy(source_kafka, destination_kafka, topic_name, tmp_path, run_async)


def errors(rows: dict[tuple[int, str], LeaseRow]) -> list[str]:
    return [str(row.error) for row in rows.values() if row.error is not None]


def test_a_lease_that_goes_on_copies_and_fills_gaps_past_its_first_end(copy: Copy) -> None:
    def meanwhile() -> None:
        copy.await_copied(COUNT)
        time.sleep(max(0.0, copy.began + 2.0 - time.monotonic()))
        copy.allow()
        copy.sleep_past_the_first_end()
        records = simple_records(COUNT, start=COUNT, timestamp=int(time.time() * 1000))
        append_in_transaction(copy.source, copy.topic, records, committed=True)
        copy.write(2 * COUNT)
        copy.await_copied(3 * COUNT + 1)

    rows, seconds = copy.run(meanwhile)

    assert errors(rows) == []
    assert seconds > LIVE_SECONDS + 2.0
    assert rows[0, "west"].position == 3 * COUNT + 1
    assert sum(rows[0, "west"].gap_offsets.values()) == 1
    assert assert_equal_in_kafka(copy.source, copy.destination, copy.topic) == 3 * COUNT


def test_a_lease_under_load_goes_on_and_what_is_on_its_way_meanwhile_is_copied_once(copy: Copy) -> None:
    over = threading.Event()

    def write_on() -> None:
        start = COUNT
        while not over.is_set():
            copy.write(start)
            start += COUNT

    def meanwhile() -> None:
        copy.await_copied(COUNT)
        writer = threading.Thread(target=write_on)
        writer.start()
        copy.allow()
        copy.sleep_past_the_first_end()
        over.set()
        writer.join()

    rows, seconds = copy.run(meanwhile)

    assert errors(rows) == []
    assert seconds > LIVE_SECONDS + 2.0
    end = rows[0, "west"].position
    assert end is not None
    assert end > 2 * COUNT
    assert assert_equal_in_kafka(copy.source, copy.destination, copy.topic) == end


@pytest.mark.quick
def test_a_lease_whose_quiet_copy_somebody_else_has_written_to_ends_when_it_would_have(copy: Copy) -> None:
    def meanwhile() -> None:
        copy.await_copied(COUNT)
        append(copy.destination, copy.topic, 3, simple_records(1))
        copy.allow(60.0)

    rows, seconds = copy.run(meanwhile)

    assert errors(rows) == []
    assert LIVE_SECONDS <= seconds < 30.0
    assert rows[3, "west"].position == 0, "the next lease finds the log to end elsewhere, and compares the tails"


def test_a_lease_whose_copy_is_gone_ends_when_it_would_have(copy: Copy, run_async: RunAsync) -> None:
    async def delete() -> None:
        async with ClusterClient(settings_of(copy.destination)) as client:
            await client.topics.delete(copy.topic)

    def meanwhile() -> None:
        copy.await_copied(COUNT)
        run_async(delete())
        copy.allow(60.0)

    _, seconds = copy.run(meanwhile)
    assert LIVE_SECONDS <= seconds < 30.0


def test_a_lease_that_reads_topics_by_name_ends_when_it_would_have(copy: Copy) -> None:
    copy.plan = replace(copy.plan, partitions=tuple(replace(each, topic_id="") for each in copy.plan.partitions))
    rows, seconds = copy.run(lambda: copy.allow(60.0))
    assert errors(rows) == []
    assert LIVE_SECONDS <= seconds < 30.0


def test_what_was_allowed_once_and_is_over_changes_nothing(copy: Copy) -> None:
    copy.allow(0.1)
    rows, seconds = copy.run(lambda: None)
    assert errors(rows) == []
    assert LIVE_SECONDS <= seconds < 30.0
