"""A worker killed (SIGKILL) before any step of either destination: the next one completes the copy exactly."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import RunAsync
from mirrorlake.archive import publish
from mirrorlake.destinations.preserve import settings as preserve_settings
from mirrorlake.destinations.work import DestinationWork
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.kafka.records.batches import Codec
from mirrorlake.offsets import TopicPartition
from support.archived_source import settings_at, source_at
from support.copies import assert_equal_in_archive, assert_equal_in_kafka, create_topic
from support.lease_processes import Death, LeaseProcesses
from support.leases import archive_work, kafka_work, lease_plan, run_lease, run_leases_after_a_death
from support.records import in_batches, produce, simple_records

pytestmark = pytest.mark.kafka

RECORDS = 400
RECORDS_PER_BATCH = 10
RECORDS_PER_SEGMENT = 90

Kafka = preserve_settings.Step
Archive = publish.Step

KAFKA_DEATHS = [
    (Kafka.READ_CLAIM, 1),
    (Kafka.CHECK_TAIL, 1),
    (Kafka.SEND_BATCH, 1),  # the first batch, which goes alone
    (Kafka.SEND_BATCH, 2),  # nothing in flight, the claim is proven
    (Kafka.SEND_BATCH, 6),  # four in flight, the fifth on its way
    (Kafka.SEND_BATCH, 21),  # more than five in flight
    (Kafka.SEND_BATCH, 23),
    (Kafka.TAKE_ANSWER, 1),  # appended, and nobody heard of it
    (Kafka.TAKE_ANSWER, 2),  # five in flight
    (Kafka.TAKE_ANSWER, 20),
    (Kafka.TAKE_ANSWER, RECORDS // RECORDS_PER_BATCH),
]

# What a rival must have done, and before which step, for a writer to come to this one.
ARCHIVE_DEATHS = [
    *((step, occurrence, "") for occurrence in (1, 3) for step in (Archive.CREATE_CLAIM, Archive.LIST_TAIL)),
    *((step, occurrence, "") for occurrence in (1, 3) for step in (Archive.PUBLISH_SEGMENT, Archive.DELETE_CLAIM)),
    (Archive.READ_CLAIM, 1, Archive.PUBLISH_SEGMENT),
    (Archive.WITHDRAW_CLAIM, 1, Archive.CREATE_CLAIM),
    (Archive.CONFIRM_SEGMENT, 1, Archive.PUBLISH_SEGMENT),
]


@pytest.fixture
def topic(source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync) -> TopicPartition:
    """A source topic with records of today."""
    create_topic(source_kafka.bootstrap_servers, topic_name)
    # So large that no batch is coalesced with others.
    records = simple_records(RECORDS, size=2000, timestamp=int(time.time() * 1000))
    batches = list(in_batches(records, RECORDS_PER_BATCH))
    run_async(produce(source_kafka.bootstrap_servers, topic_name, 0, batches))
    return TopicPartition(topic_name, 0)


def test_every_step_of_both_destinations_has_its_death() -> None:
    # Those of gaps die in test_gap_deaths.py, those of dead letters in test_kept_letter_deaths.py.
    elsewhere = {Kafka.FILL_GAP, Kafka.DELETE_FILLERS, Kafka.WRITE_LETTERS}
    assert {step for step, _ in KAFKA_DEATHS} == set(Kafka) - elsewhere
    assert {step for step, _, _ in ARCHIVE_DEATHS} == set(Archive)


@pytest.mark.parametrize("read_from", ["kafka", "log", "parquet"])
@pytest.mark.parametrize(("step", "occurrence"), KAFKA_DEATHS)
def test_a_kafka_copy_killed_at_any_step_is_completed_by_the_next_worker(
    step: str,
    occurrence: int,
    read_from: str,
    topic: TopicPartition,
    tmp_path: Path,
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    lease_processes: LeaseProcesses,
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(destination, topic.topic)
    plan = lease_plan(source, [(topic, [kafka_work(destination, topic)])], end=RECORDS)
    if read_from != "kafka":
        work = archive_work(tmp_path, topic, end=RECORDS, records_max=RECORDS_PER_SEGMENT, format_name=read_from)
        assert run_lease(lease_plan(source, [(topic, [work])], end=RECORDS))[0, "lake"].error is None
        # Batches of as many records as the topic has, and as large.
        archive = source_at(settings_at(tmp_path), batch_bytes_max=RECORDS_PER_BATCH * 2050, codec=Codec.NONE)
        plan = replace(plan, partitions=(replace(plan.partitions[0], source_work=archive),))
    lease_processes.die_in_lease(plan, Death(step=step, occurrence=occurrence))

    row = run_leases_after_a_death(plan)[0, "west"]

    assert row.error is None
    assert row.position == RECORDS
    assert assert_equal_in_kafka(source, destination, topic.topic) == RECORDS


@pytest.mark.parametrize(("step", "occurrence", "rival_at"), ARCHIVE_DEATHS)
def test_an_archive_killed_at_any_step_is_completed_by_the_next_worker(
    step: str,
    occurrence: int,
    rival_at: str,
    topic: TopicPartition,
    source_kafka: EmbeddedKafka,
    tmp_path: Path,
    lease_processes: LeaseProcesses,
) -> None:
    source = source_kafka.bootstrap_servers
    work = archive_work(tmp_path, topic, end=RECORDS, records_max=RECORDS_PER_SEGMENT)
    plan = lease_plan(source, [(topic, [work])], end=RECORDS)
    death = Death(step=step, occurrence=occurrence)
    if step == Archive.READ_CLAIM:
        lease_processes.die_in_lease(plan, Death(step=rival_at))
    elif rival_at:
        other = archive_work(tmp_path, topic, end=RECORDS, records_max=RECORDS_PER_SEGMENT - 7, writer="rival")
        death = Death(step=step, rival=lease_plan(source, [(topic, [other])], end=RECORDS), rival_at=rival_at)
    lease_processes.die_in_lease(plan, death)

    # With a cut of its own: what the dead had claimed keeps its end all the same.
    next_work = archive_work(tmp_path, topic, end=RECORDS, records_max=RECORDS_PER_SEGMENT + 13, writer="next")
    row = run_lease(lease_plan(source, [(topic, [next_work])], end=RECORDS))[0, "lake"]

    assert row.error is None
    assert row.position == RECORDS
    assert assert_equal_in_archive(source, tmp_path, topic.topic) == RECORDS


@pytest.mark.parametrize("step", [Kafka.TAKE_ANSWER, Archive.PUBLISH_SEGMENT])
def test_a_worker_that_serves_both_destinations_leaves_both_right_when_killed_for_one(
    step: str,
    topic: TopicPartition,
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    tmp_path: Path,
    lease_processes: LeaseProcesses,
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(destination, topic.topic)
    both: list[DestinationWork] = [
        kafka_work(destination, topic),
        archive_work(tmp_path, topic, end=RECORDS),
    ]
    plan = lease_plan(source, [(topic, both)], end=RECORDS)
    lease_processes.die_in_lease(plan, Death(step=step))

    rows = run_leases_after_a_death(plan)

    assert [row.error for row in rows.values()] == [None, None]
    assert assert_equal_in_kafka(source, destination, topic.topic) == RECORDS
    assert assert_equal_in_archive(source, tmp_path, topic.topic) == RECORDS
