"""A destination that holds what somebody else has written: none of it is deleted, and `plan` says what a lease does."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.config.loading import parse_configuration
from mirrorlake.destinations.transactions.gap_filler import FillStep
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import DestinationForeignError, SourceTruncatedError, TopicMissingError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.mirror.lease_worker import Worker
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import GapFill, TopicPartition
from mirrorlake.service.partition_state import StateName
from mirrorlake.service.plan.planning import Action, PlanRow, read_plan
from mirrorlake.service.status import StatusRow, read_status
from mirrorlake.stores.crash_points import CrashPoint, no_crash
from mirrorlake.topics.targets import shard_of, transactional_id_of
from support.copies import assert_same_records, create_topic, log_end, source_end, wait_until
from support.gaps import open_transactions
from support.leases import kafka_work, lease_plan
from support.mirrors import copying
from support.records import consume, settings_of, simple_records
from support.topics import append, delete_before
from support.transactions import append_in_transaction

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

BOTH = pytest.mark.parametrize("gap_fill", [GapFill.MARKERS, GapFill.FILLER])


@pytest.fixture(scope="module")
def forgetful(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """A broker that knows of no producer any more a second after its last record."""
    properties = {"producer.id.expiration.ms": "1000", "producer.id.expiration.check.interval.ms": "200"}
    folder = tmp_path_factory.mktemp("forgetful-kafka")
    with EmbeddedKafka(folder, libs=kafka_libs, properties=properties) as broker:
        yield broker


class Copy:
    """A topic on both clusters; somebody else writes to the destination."""

    def __init__(self, source: EmbeddedKafka, destination: EmbeddedKafka, topic: str) -> None:
        self.source, self.destination, self.topic = source.bootstrap_servers, destination.bootstrap_servers, topic
        self.where = TopicPartition(topic, 0)
        for servers in (self.source, self.destination):
            create_topic(servers, topic)

    def write_source(self, count: int, *, start: int = 0) -> None:
        records = simple_records(count, start=start, timestamp=int(time.time() * 1000))
        append(self.source, self.topic, 0, records, batch_records=100)

    def write_foreign_transaction(self, count: int, *, committed: bool = True) -> None:
        records = simple_records(count, start=5000, timestamp=int(time.time() * 1000))
        append_in_transaction(self.destination, self.topic, records, committed=committed)

    def await_forgotten(self) -> None:
        """Returns when the destination's broker knows no producer of the partition any more."""

        async def known() -> object:
            async with ClusterClient(settings_of(self.destination)) as client:
                return (await client.describe_producers([self.where]))[self.where]

        wait_until(lambda: asyncio.run(known()) == (), "the producers to be forgotten")

    def lease(self, *, crash_point: CrashPoint = no_crash, **settings: Any) -> LeaseRow:
        """A lease of the mirror that is planned."""
        work = kafka_work(self.destination, self.where, **settings)
        name = transactional_id_of(self.topic, shard_of(self.where))
        work = replace(work, settings=replace(work.settings, transactional_id=name))
        end = source_end(self.source, self.topic)
        worker = Worker(crash_point=crash_point)
        try:
            (row,) = worker.run(lease_plan(self.source, [(self.where, [work])], end=end, seconds=15.0))
        finally:
            worker.close()
        return row

    def plan(self, mirror: str = "") -> PlanRow:
        text = f"""
clusters: {{east: {{bootstrap-servers: "{self.source}"}}, west: {{bootstrap-servers: "{self.destination}"}}}}
mirrors:
  - name: {self.topic}
    source: {{cluster: east, topics: [{self.topic}]}}
    destinations: [{{type: kafka, cluster: west}}]
    {mirror}
"""
        (row,) = asyncio.run(read_plan(parse_configuration(text.encode(), file="mirror.yaml", environ={})))
        return row

    def recreate_source(self) -> None:
        async def recreate() -> None:
            async with ClusterClient(settings_of(self.source)) as client:
                await client.topics.delete(self.topic)
                while self.topic in (await client.metadata([self.topic], refresh=True)).topics:
                    await asyncio.sleep(0.1)

        asyncio.run(recreate())
        create_topic(self.source, self.topic)

    def status(self) -> StatusRow:
        (row,) = asyncio.run(read_status(copying(self.source, self.destination, self.topic)))
        return row

    def held(self) -> set[int]:
        """Offsets of everything at the destination, aborted or not."""
        return set(consume(self.destination, self.topic, 0, isolation_level="read_uncommitted"))


@pytest.fixture
def copy(source_kafka: EmbeddedKafka, forgetful: EmbeddedKafka, topic_name: str) -> Copy:
    return Copy(source_kafka, forgetful, topic_name)


@pytest.mark.quick
@BOTH
def test_committed_transactional_records_of_somebody_else_are_refused_and_not_deleted(
    copy: Copy, gap_fill: GapFill
) -> None:
    copy.write_foreign_transaction(1000)
    append(copy.destination, copy.topic, 0, simple_records(100, start=9000), batch_records=100)
    copy.write_source(1500)
    copy.await_forgotten()

    planned = copy.plan()
    row = copy.lease(gap_fill=gap_fill)

    assert isinstance(row.error, DestinationForeignError), row
    assert (row.records, log_end(copy.destination, copy.topic)) == (0, 1101)
    assert copy.held() == {*range(1000), *range(1001, 1101)}, "none of theirs is gone"
    assert (planned.action, planned.as_json().get("reason")) == (Action.REFUSE, "foreign")
    assert planned.error is not None
    assert planned.error.facts["differing_offset"] == row.error.facts["differing_offset"]


@pytest.mark.parametrize("skips", [False, True], ids=["fail", "skip"])
def test_they_are_refused_and_not_deleted_where_the_source_begins_above_them(copy: Copy, skips: bool) -> None:
    copy.write_foreign_transaction(1000)
    copy.write_source(2000)
    delete_before(copy.source, copy.topic, 1500)
    copy.await_forgotten()

    planned = copy.plan("on-truncation: skip" if skips else "")
    row = copy.lease(gap_fill=GapFill.MARKERS, skips_truncated=skips)

    assert isinstance(row.error, DestinationForeignError), row
    assert (row.records, log_end(copy.destination, copy.topic)) == (0, 1001)
    assert copy.held() == set(range(1000)), "none of theirs is gone"
    assert (planned.action, planned.as_json().get("reason")) == (Action.REFUSE, "foreign")


@pytest.mark.parametrize("skips", [False, True], ids=["fail", "skip"])
def test_so_are_records_without_a_producer_that_hide_them(copy: Copy, skips: bool) -> None:
    """The tail is plain records, and the source has nothing to compare them with."""
    copy.write_foreign_transaction(1000)
    append(copy.destination, copy.topic, 0, simple_records(100, start=9000), batch_records=100)
    copy.write_source(2000)
    delete_before(copy.source, copy.topic, 1500)
    copy.await_forgotten()

    planned = copy.plan("on-truncation: skip" if skips else "")
    row = copy.lease(gap_fill=GapFill.MARKERS, skips_truncated=skips)

    assert isinstance(row.error, DestinationForeignError), row
    assert (row.records, log_end(copy.destination, copy.topic)) == (0, 1101)
    assert copy.held() == {*range(1000), *range(1001, 1101)}
    assert (planned.action, planned.as_json().get("reason")) == (Action.REFUSE, "foreign")


def test_a_copy_of_our_own_goes_on_where_the_source_has_deleted_all_it_could_be_compared_with(copy: Copy) -> None:
    copy.write_source(100)
    assert copy.lease(gap_fill=GapFill.MARKERS).error is None
    copy.write_source(100, start=100)
    delete_before(copy.source, copy.topic, 150)
    row = copy.lease(gap_fill=GapFill.MARKERS, skips_truncated=True)
    assert (row.error, row.position, row.records) == (None, 200, 50)
    assert copy.held() >= {*range(100), *range(150, 200)}


@pytest.mark.parametrize("count", [1, 5])
def test_an_unknown_producers_committed_record_where_the_source_has_none_is_refused(copy: Copy, count: int) -> None:
    copy.write_source(10)
    assert copy.lease(gap_fill=GapFill.MARKERS).error is None
    append_in_transaction(copy.source, copy.topic, simple_records(count, start=10), committed=False)
    copy.write_foreign_transaction(count)
    copy.write_source(5, start=20)
    copy.await_forgotten()
    planned = copy.plan()
    row = copy.lease(gap_fill=GapFill.MARKERS)
    assert isinstance(row.error, DestinationForeignError), row
    assert (row.records, row.error.facts["differing_offset"]) == (0, 10)
    assert planned.as_json().get("reason") == "foreign"


def test_somebodys_aborted_records_are_refused_where_the_source_has_records(copy: Copy) -> None:
    copy.write_source(10)
    assert copy.lease(gap_fill=GapFill.MARKERS).error is None
    copy.write_foreign_transaction(3, committed=False)
    copy.write_source(10, start=10)
    copy.await_forgotten()
    row = copy.lease(gap_fill=GapFill.MARKERS)
    assert isinstance(row.error, DestinationForeignError), row
    assert row.error.facts["differing_offset"] == 10
    assert copy.plan().as_json().get("reason") == "foreign"


def test_somebodys_aborted_records_where_the_source_has_none_change_nothing_that_is_seen_and_are_not_deleted(
    copy: Copy,
) -> None:
    copy.write_foreign_transaction(3, committed=False)
    append_in_transaction(copy.source, copy.topic, simple_records(3), committed=False)
    copy.write_source(10, start=4)
    copy.await_forgotten()
    assert copy.plan().action is Action.COPY
    row = copy.lease(gap_fill=GapFill.MARKERS)
    assert (row.error, row.position, row.records) == (None, 14, 10)
    assert copy.held() == {0, 1, 2, *range(4, 14)}, "they are not ours to delete"
    assert_same_records(consume(copy.source, copy.topic, 0), consume(copy.destination, copy.topic, 0))


def test_somebodys_aborted_records_below_the_sources_log_start_are_no_new_copy(copy: Copy) -> None:
    copy.write_foreign_transaction(3, committed=False)
    copy.write_source(50)
    delete_before(copy.source, copy.topic, 20)
    copy.await_forgotten()
    planned = copy.plan()
    row = copy.lease(gap_fill=GapFill.MARKERS)
    assert isinstance(row.error, SourceTruncatedError), row
    assert (copy.held(), log_end(copy.destination, copy.topic)) == ({0, 1, 2}, 4)
    assert planned.as_json().get("reason") == "truncated"


def test_a_plan_refuses_a_writer_that_the_broker_remembers_as_a_lease_does(copy: Copy) -> None:
    copy.write_source(10)
    assert copy.lease(gap_fill=GapFill.MARKERS).error is None
    assert copy.plan().action is Action.NOTHING
    copy.write_foreign_transaction(1, committed=False)
    copy.write_source(10, start=10)
    planned, row = copy.plan(), copy.lease(gap_fill=GapFill.MARKERS)
    assert isinstance(row.error, DestinationForeignError), row
    assert planned.as_json().get("reason") == "foreign"


def test_a_copy_that_died_below_the_sources_log_start_is_new_to_plan_as_to_a_lease(
    copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirrorlake.destinations.transactions.gap_cost.FILLER_OFFSETS_MAX", 20)
    copy.write_source(100)
    delete_before(copy.source, copy.topic, 50)
    rounds: list[str] = []

    def dies_in_the_second_round(step: str) -> None:
        rounds.append(step)
        if rounds.count(FillStep.SEND_FILLER) == 2:
            raise TopicMissingError("as if the process had died")

    row = copy.lease(gap_fill=GapFill.MARKERS, crash_point=dies_in_the_second_round)
    assert (row.error is not None, row.position) == (True, 20)
    wait_until(lambda: open_transactions(copy.destination, [copy.topic]) == [], "the second round to time out")
    planned = copy.plan()
    assert (planned.action, planned.error) == (Action.COPY, None)
    assert "offsets 20…49 are gone at the source: filled" in planned.note
    assert planned.note.endswith("and deleted, so that the copy begins where the source does")
    row = copy.lease(gap_fill=GapFill.MARKERS)
    assert (row.error, row.position, row.records) == (None, 100, 50)
    assert copy.held() == set(range(50, 100)), "the fillers are deleted"


def test_a_record_that_somebody_writes_among_the_fillers_below_the_sources_log_start_is_not_deleted(
    copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirrorlake.destinations.transactions.gap_cost.FILLER_OFFSETS_MAX", 20)
    copy.write_source(100)
    delete_before(copy.source, copy.topic, 50)
    rounds: list[str] = []

    def writes_before_the_first_marker(step: str) -> None:
        rounds.append(step)
        if step == FillStep.END_TRANSACTION and rounds.count(step) == 1:
            with ThreadPoolExecutor(1) as aside:  # the calling thread has an event loop running
                aside.submit(append, copy.destination, copy.topic, 0, simple_records(1, start=9000)).result()

    row = copy.lease(gap_fill=GapFill.MARKERS, crash_point=writes_before_the_first_marker)
    assert isinstance(row.error, DestinationForeignError), row
    assert row.error.facts["differing_offset"] == 19
    assert 19 in copy.held()
    assert 19 in consume(copy.destination, copy.topic, 0)


@pytest.mark.parametrize("is_forgotten", [False, True], ids=["known producer", "forgotten producer"])
def test_status_and_plan_name_who_wrote_past_the_sources_end_as_a_lease_does(copy: Copy, is_forgotten: bool) -> None:
    copy.write_source(20)
    assert copy.lease().position == 20
    append(copy.destination, copy.topic, 0, simple_records(5, start=9000))
    if is_forgotten:
        copy.await_forgotten()

    row, status, planned = copy.lease(), copy.status(), copy.plan()

    assert isinstance(row.error, DestinationForeignError), row
    assert (status.state, status.as_json()["reason"]) == (StateName.PARKED, "foreign"), status
    assert planned.as_json().get("reason") == "foreign"
    assert log_end(copy.destination, copy.topic) == 25


def test_a_source_that_was_made_afresh_is_no_other_writer_and_all_causes_are_named(copy: Copy) -> None:
    copy.write_source(20)
    assert copy.lease().position == 20
    copy.recreate_source()
    copy.write_source(5)

    status = copy.status()

    assert (status.state, status.as_json()["reason"]) == (StateName.PARKED, "ahead"), status
    assert "re-created, something else wrote to the destination, or" in str(status.error)
