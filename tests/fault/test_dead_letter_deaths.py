"""Map mode with dead letters: a worker killed before any step of the transaction that writes them.

Each letter is there once for a consumer of committed records, and so is every other record, whoever finishes.
"""

import asyncio
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from conftest import RunAsync
from mirrorlake.destinations.map.progress_store import ProgressTopics, read_progress
from mirrorlake.destinations.map.settings import MapStart, Step, map_transactional_id
from mirrorlake.destinations.map.transaction_outcome import was_progress_committed, were_letters_committed
from mirrorlake.destinations.map.work import MapWork
from mirrorlake.destinations.transactions.session import TransactionSession
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.schema_ids.id_map import SchemaIdMap
from mirrorlake.offsets import StartKind, TopicPartition
from support.copies import create_topic, log_end, wait_until
from support.kept_letters import ABSENT_ID, HERE, SHORT, THERE, letters_topic
from support.lease_processes import Death, LeaseProcesses, wake
from support.leases import lease_plan, map_work, run_lease
from support.lettered_source import RECORDS, assert_letters_once, produce_lettered, value_of
from support.map_copies import assert_nothing_open, held_through_map
from support.records import Record, consume, settings_of
from support.registry_model import RegistryModel
from support.schema_site import FIRST_ID_THERE, SchemaSite, framed, letter_headers, letters_in, numbered
from support.service_process import ServiceProcess
from support.stub_registry import StubRegistry
from support.topics import append, make_topic, topics_of

pytestmark = pytest.mark.kafka

IS_LETTER = frozenset(n for n in range(RECORDS) if n % 10 in (3, 4, 9) or 50 <= n < 60)
"""In every batch in the middle and at its end, and all of one."""

DEATHS = [
    (Step.ADD_PARTITIONS, 2),  # of the data
    (Step.ADD_PARTITIONS, 3),  # of the letters, the data being there
    (Step.SEND_BATCH, 4),
    (Step.SEND_LETTERS, 1),  # the letters' partition is part of the transaction, and has nothing
    (Step.SEND_LETTERS, 2),  # some are there
    (Step.SEND_PROGRESS, 2),  # data and letters are there, and no progress
    (Step.COMMIT, 2),
    (Step.TAKE_COMMIT, 2),  # all is committed, and nobody heard of it
    (Step.LOOK_CLOSED, 2),
]


@pytest.fixture
def topic(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> TopicPartition:
    """A source topic of which some records name no schema, and empty topics for its copy and its dead letters."""
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(source, topic_name)
    create_topic(destination, topic_name)
    create_topic(destination, letters_topic(topic_name), 2)
    run_async(produce_lettered(source, topic_name, IS_LETTER))
    return TopicPartition(topic_name, 0)


def lettering(destination: str, topic: TopicPartition) -> MapWork:
    ids = SchemaIdMap.of({HERE: THERE}, absent=[ABSENT_ID], letters_of_values=True)
    work = map_work(destination, topic)
    settings = replace(
        work.settings, schema_ids=SchemaIdMap.of({}, letters_of_values=True), letters_template="{topic}.dead-letters"
    )
    return replace(work, settings=settings, orders=replace(work.orders, schema_ids=ids))


def has_grown(servers: str, topic: str, before: int) -> bool:
    return topic in topics_of(servers) and log_end(servers, topic) > before


def assert_each_once(destination: str, topic: TopicPartition) -> None:
    assert_letters_once(destination, topic, IS_LETTER)
    kept = [n for n in range(RECORDS) if n not in IS_LETTER]
    held = held_through_map(destination, topic)
    assert sorted(held) == kept, "the offset map has no letter and all others"
    copied = consume(destination, topic.topic, 0)
    assert [copied[offset].value for offset in sorted(copied)] == [
        framed(THERE, value_of(n, IS_LETTER)[5:]) for n in kept
    ]
    assert_nothing_open(destination, topic.topic, topic)


@pytest.mark.parametrize(("step", "occurrence"), DEATHS)
def test_a_copy_with_dead_letters_killed_at_any_step_is_completed_and_each_letter_is_there_once(
    step: str,
    occurrence: int,
    topic: TopicPartition,
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    lease_processes: LeaseProcesses,
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    plan = lease_plan(source, [(topic, [lettering(destination, topic)])], end=RECORDS)
    lease_processes.die_in_lease(plan, Death(step=step, occurrence=occurrence))

    row = run_lease(plan)[0, "west"]

    assert row.error is None
    assert row.position == RECORDS
    assert_each_once(destination, topic)


@pytest.mark.slow
@pytest.mark.parametrize("step", [Step.SEND_LETTERS, Step.SEND_PROGRESS])
def test_a_frozen_worker_that_wakes_after_another_has_taken_over_adds_no_letter(
    step: str,
    topic: TopicPartition,
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    lease_processes: LeaseProcesses,
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    plan = lease_plan(source, [(topic, [lettering(destination, topic)])], end=RECORDS)
    zombie = lease_processes.freeze_in_lease(plan, step, 1 if step == Step.SEND_LETTERS else 2)

    assert run_lease(plan)[0, "west"].position == RECORDS
    wake(zombie)

    assert zombie.exitcode == 0, "it ends by itself"
    assert_each_once(destination, topic)


@pytest.mark.slow
def test_a_lease_that_ends_in_the_middle_of_a_batch_writes_the_letters_before_it_alone(
    topic: TopicPartition, source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka
) -> None:
    """One batch a record, and a position anywhere: what is before it is there, and nothing else is."""
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    work = lettering(destination, topic)
    small = replace(work, settings=replace(work.settings, batch_bytes_max=2500))
    counts = {}
    for end in (4, 25, 57, RECORDS, RECORDS):
        row = run_lease(lease_plan(source, [(topic, [small])], end=end))[0, "west"]
        assert row.error is None
        assert row.position is not None
        assert row.position >= end
        counts[end] = sum(row.dead_letters.values())
        letters = letters_in(destination, letters_topic(topic.topic), 0)
        assert [int(letter_headers(each)["offset"]) for each in letters] == [
            n for n in sorted(IS_LETTER) if n < row.position
        ]
    assert counts[RECORDS] == 0, "the last lease found nothing to do"
    assert_each_once(destination, topic)


@pytest.mark.parametrize("is_committed", [True, False])
def test_how_a_transaction_of_letters_alone_ended_is_told_by_letters_and_progress_of_one_another(
    is_committed: bool,
    topic: TopicPartition,
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    lease_processes: LeaseProcesses,
) -> None:
    """Asked as if its marker had been left out of one of them; no data says it."""
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    work = lettering(destination, topic)
    work = replace(work, settings=replace(work.settings, start=MapStart(kind=StartKind.OFFSETS, offset=50)))
    plan = lease_plan(source, [(topic, [work])], end=60)
    if is_committed:
        assert run_lease(plan)[0, "west"].position == 60
    else:
        lease_processes.die_in_lease(plan, Death(step=Step.COMMIT, occurrence=2))
    progress_at = ProgressTopics(mirror=topic.topic, shards=1).progress_of(0)
    letters_at = TopicPartition(letters_topic(topic.topic), 0)

    async def ask() -> tuple[bool, bool, bool]:
        async with ClusterClient(settings_of(destination)) as client:
            session = TransactionSession(client, map_transactional_id(topic.topic, 0), timeout_ms=30_000)
            await session.own()
            known = await read_progress(client, progress_at)
            assert [each.position for each in known.values()] == [60 if is_committed else 50]
            return (
                await were_letters_committed(client, session, known, letters_at, 0),
                await was_progress_committed(client, session, progress_at, 0, letters_template="{topic}.dead-letters"),
                await was_progress_committed(client, session, progress_at, 0),
            )

    assert asyncio.run(ask()) == (is_committed, is_committed, False)
    assert log_end(destination, letters_at.topic, 0) > 0, "they are there, seen or not"


# In preserve mode each letter leaves a gap behind that is filled by a transaction of its own: fewer take as long.
@pytest.mark.slow
@pytest.mark.parametrize(("mode", "every"), [("map", 4), ("preserve", 16)], ids=["map", "preserve"])
def test_a_service_that_is_killed_again_and_again_writes_each_letter_once(
    mode: str,
    every: int,
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    tmp_path: Path,
) -> None:
    """Killed whenever it has come some way, whatever it is at then; a bounded run finishes."""
    here, there = RegistryModel(level="NONE"), RegistryModel(level="NONE", next_id=FIRST_ID_THERE)
    with StubRegistry(here) as first, StubRegistry(there) as second:
        east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
        site = SchemaSite(east, west, first, second, topic_name, tmp_path)
        one = site.register("a")
        kinds = (one, None, one)
        records = [
            Record(int(time.time() * 1000), b"%d" % n, SHORT if n % every == 3 else each.value)
            for n, each in enumerate(numbered([kinds[n % 3] for n in range(4000)]))
        ]
        make_topic(east, topic_name, records[:40], [])
        policy = ', on-unreadable: {value: dead-letter}, dead-letters: {topic: "{topic}.dead-letters"}'
        file = str(site.file(mode, policy))
        for start, stop in ((40, 1500), (1500, 2500), (2500, 4000)):
            there_before = log_end(west, site.topic) if topic_name in topics_of(west) else 0
            with ServiceProcess("run", "-c", file, folder=tmp_path, without_spark=True) as service:
                append(east, topic_name, 0, records[start:stop])
                wait_until(
                    partial(has_grown, west, topic_name, there_before), "something to be copied", log=service.said
                )
                service.kill()
        with ServiceProcess("run", "-c", file, "--once", folder=tmp_path, without_spark=True) as once:
            assert once.exit_code() == 0, once.said()
        letters = letters_in(west, site.letters, 0)
        assert [letter_headers(each)["offset"] for each in letters] == [str(n) for n in range(3, 4000, every)]
        assert [each.key for each in site.copied()] == [b"%d" % n for n in range(4000) if n % every != 3]
