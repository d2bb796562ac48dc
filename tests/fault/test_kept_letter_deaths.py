"""Equal offsets with dead letters: a worker killed before any step, or overtaken by another.

Every record is either in the copy, at its own offset, or a dead letter, once; the offsets of letters hold none.
"""

from typing import Any

import pytest

from conftest import RunAsync
from mirrorlake.destinations.letters.settings import LetterStep, letter_progress_topic
from mirrorlake.destinations.preserve.settings import Step
from mirrorlake.destinations.transactions.gap_filler import FillStep
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.mirror.work import LeasePlan
from mirrorlake.offsets import GapFill, TopicPartition
from support.copies import create_topic, log_end
from support.gaps import open_transactions
from support.kept_letters import (
    LATER_IDS,
    THERE,
    create_letter_topics,
    lettered_offsets,
    lettering,
    letters_topic,
)
from support.lease_processes import Death, LeaseProcesses, wake
from support.leases import lease_plan, run_lease, run_leases_after_a_death
from support.lettered_source import RECORDS, assert_letters_once, produce_lettered, value_of
from support.records import consume
from support.schema_site import framed

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

IS_LETTER = frozenset(n for n in range(RECORDS) if n % 10 in (3, 4, 9) or n % 60 == 0 or 50 <= n < 60)
"""In every batch in the middle and at its end, in some the first, and all of one."""

MARKERS, FILLER = GapFill.MARKERS, GapFill.FILLER

DEATHS = [
    *((fill, step, 1) for step in LetterStep for fill in (MARKERS, FILLER)),
    (MARKERS, LetterStep.SEND_LETTERS, 2),  # some are there
    (MARKERS, Step.WRITE_LETTERS, 1),
    (MARKERS, Step.FILL_GAP, 1),  # the letters are there, and no offset of theirs is passed
    (MARKERS, Step.FILL_GAP, 5),
    (FILLER, Step.FILL_GAP, 2),
    *((MARKERS, step, 1) for step in FillStep if step is not FillStep.SEND_FILLER),
    *((FILLER, step, 2) for step in FillStep if step is not FillStep.INIT_PRODUCER),
    (MARKERS, FillStep.AWAIT_MARKERS, 3),
    (MARKERS, Step.SEND_BATCH, 2),
    (FILLER, Step.TAKE_ANSWER, 3),
]


@pytest.fixture
def topic(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> TopicPartition:
    """A source topic of which some records name no schema, and empty topics for its copy and its dead letters."""
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(source, topic_name)
    create_topic(destination, topic_name)
    create_letter_topics(destination, topic_name)
    run_async(produce_lettered(source, topic_name, IS_LETTER))
    return TopicPartition(topic_name, 0)


def plan_of(source: str, destination: str, topic: TopicPartition, **more: Any) -> LeasePlan:
    return lease_plan(source, [(topic, [lettering(destination, topic, **more)])], end=RECORDS)


def assert_each_once(destination: str, topic: TopicPartition) -> None:
    assert_letters_once(destination, topic, IS_LETTER)
    kept = [n for n in range(RECORDS) if n not in IS_LETTER]
    copied = consume(destination, topic.topic, 0)
    assert sorted(copied) == kept, "at their own offsets"
    assert [copied[offset].value for offset in kept] == [framed(THERE, value_of(n, IS_LETTER)[5:]) for n in kept]
    assert log_end(destination, topic.topic) == RECORDS
    names = [topic.topic, letters_topic(topic.topic), letter_progress_topic(topic.topic)]
    assert open_transactions(destination, names) == []


@pytest.mark.quick
@pytest.mark.parametrize(("gap_fill", "step", "occurrence"), DEATHS)
def test_a_copy_of_equal_offsets_killed_at_any_step_is_completed_and_each_letter_is_there_once(
    gap_fill: GapFill,
    step: str,
    occurrence: int,
    topic: TopicPartition,
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    lease_processes: LeaseProcesses,
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    plan = plan_of(source, destination, topic, gap_fill=gap_fill)
    lease_processes.die_in_lease(plan, Death(step=step, occurrence=occurrence))

    row = run_leases_after_a_death(plan)[0, "west"]

    assert (row.error, row.position) == (None, RECORDS)
    assert_each_once(destination, topic)


@pytest.mark.parametrize("step", [LetterStep.SEND_PROGRESS, LetterStep.COMMIT, LetterStep.TAKE_COMMIT, Step.FILL_GAP])
def test_letters_of_leases_before_stay_known_when_one_is_killed_while_it_writes_more(
    step: str,
    topic: TopicPartition,
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    lease_processes: LeaseProcesses,
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    for end in (25, 47):
        row = run_lease(lease_plan(source, [(topic, [lettering(destination, topic)])], end=end))[0, "west"]
        assert row.error is None
        assert sum(row.dead_letters.values()) > 0
    plan = plan_of(source, destination, topic)
    lease_processes.die_in_lease(plan, Death(step=step))

    row = run_lease(plan)[0, "west"]

    assert (row.error, row.position) == (None, RECORDS)
    assert_each_once(destination, topic)


@pytest.mark.parametrize("gap_fill", [MARKERS, FILLER])
def test_a_record_whose_id_becomes_known_after_its_letter_was_written_is_not_copied_too(
    gap_fill: GapFill,
    topic: TopicPartition,
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    lease_processes: LeaseProcesses,
) -> None:
    """Killed between the letters and the filling: the next lease could read what has a letter, and must not copy it."""
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    plan = plan_of(source, destination, topic, gap_fill=gap_fill)
    lease_processes.die_in_lease(plan, Death(step=Step.FILL_GAP))
    assert lettered_offsets(destination, topic) == sorted(IS_LETTER)
    assert log_end(destination, topic.topic) == 0, "offset 0 has a letter, and is not filled"

    row = run_lease(plan_of(source, destination, topic, gap_fill=gap_fill, ids=LATER_IDS))[0, "west"]

    assert (row.error, row.position, sum(row.dead_letters.values())) == (None, RECORDS, 0)
    assert_each_once(destination, topic)


def test_a_record_whose_letter_was_not_committed_is_copied_where_its_id_is_known_by_then(
    topic: TopicPartition,
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    lease_processes: LeaseProcesses,
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    lease_processes.die_in_lease(plan_of(source, destination, topic), Death(step=LetterStep.COMMIT))

    row = run_lease(plan_of(source, destination, topic, ids=LATER_IDS))[0, "west"]

    assert (row.error, row.position) == (None, RECORDS)
    short = [n for n in sorted(IS_LETTER) if n % 2]
    assert lettered_offsets(destination, topic) == short
    assert sorted(consume(destination, topic.topic, 0)) == [n for n in range(RECORDS) if n not in short]


@pytest.mark.parametrize(
    "step",
    [LetterStep.SEND_LETTERS, LetterStep.SEND_PROGRESS, LetterStep.COMMIT, Step.FILL_GAP, FillStep.END_TRANSACTION],
)
def test_a_frozen_writer_that_wakes_after_another_has_taken_over_adds_no_letter_and_no_copy(
    step: str,
    topic: TopicPartition,
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    lease_processes: LeaseProcesses,
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    plan = plan_of(source, destination, topic)
    zombie = lease_processes.freeze_in_lease(plan, step)

    assert run_lease(plan)[0, "west"].position == RECORDS
    wake(zombie)

    assert zombie.exitcode == 0, "it ends by itself"
    assert_each_once(destination, topic)


@pytest.mark.parametrize(
    "step", [LetterStep.ADD_PARTITIONS, LetterStep.SEND_LETTERS, LetterStep.SEND_PROGRESS, LetterStep.COMMIT]
)
def test_letters_of_a_frozen_writer_do_not_stand_beside_copies_of_who_could_read_their_records(
    step: str,
    topic: TopicPartition,
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    lease_processes: LeaseProcesses,
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    zombie = lease_processes.freeze_in_lease(plan_of(source, destination, topic), step)

    assert run_lease(plan_of(source, destination, topic, ids=LATER_IDS))[0, "west"].position == RECORDS
    wake(zombie)

    short = [n for n in sorted(IS_LETTER) if n % 2]
    assert lettered_offsets(destination, topic) == short
    assert sorted(consume(destination, topic.topic, 0)) == [n for n in range(RECORDS) if n not in short]


@pytest.mark.parametrize("step", [LetterStep.ADD_PARTITIONS, LetterStep.COMMIT, LetterStep.TAKE_COMMIT, Step.FILL_GAP])
def test_two_writers_at_once_write_each_letter_once(
    step: str,
    topic: TopicPartition,
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    lease_processes: LeaseProcesses,
) -> None:
    """The rival copies everything while the first one stands before the step, which then goes on until it dies."""
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    plan = plan_of(source, destination, topic)
    rival = plan_of(source, destination, topic, gap_fill=FILLER)
    lease_processes.die_in_lease(plan, Death(step=step, rival=rival, rival_at=step))

    row = run_lease(plan)[0, "west"]

    assert (row.error, row.position) == (None, RECORDS)
    assert_each_once(destination, topic)
