"""What is left when a run ends, in words."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from mirrorlake.clock import ManualClock
from mirrorlake.config.loading import parse_configuration
from mirrorlake.errors import (
    BrokerUnreachableError,
    MirrorlakeError,
    SchemaUnknownError,
    SchemaUnreadableError,
    TopicMissingError,
    TopicRecreatedError,
)
from mirrorlake.mirror.policy import Decision
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.lifecycle.endings import (
    EXIT_DONE,
    EXIT_FAILED,
    EXIT_PARKED,
    _left,
    _offsets_left,
    exit_code,
)
from mirrorlake.service.partition_state import ONCE_FAILURES_MAX, PartitionState
from mirrorlake.service.sight.events import Events
from mirrorlake.service.sight.metrics import Metrics
from mirrorlake.topics.sources import source_of
from mirrorlake.topics.targets import UNKNOWN_PARTITION, Target
from support.leases import archive_work
from support.partition_states import kafka_state, table_of

WAITS = SchemaUnknownError("schema ids 4711 from offset 5 on are not known yet")
UNREADABLE = SchemaUnreadableError("the key of the record at offset 5 names no schema that is known: absent")
AWAY = BrokerUnreachableError("no connection to 127.0.0.1:1")


def run_state(partition: int, errors: Iterable[MirrorlakeError]) -> PartitionState:
    """A partition of a bounded run after failures, one a lease."""
    state = kafka_state(partition)
    state.position, state.once_end = 5, 10
    for error in errors:
        state.failed(error, 0.0)
    return state


def ending(
    *states: PartitionState,
    once: bool = True,
    ended: bool = True,
    stopped: bool = False,
    waiting: Sequence[Target] = (),
) -> tuple[int, list[tuple[str, str]]]:
    """The exit code, and of each line what it says and which partitions it names."""
    clock = ManualClock()
    table = table_of(*states, clock=clock, events=Events(Metrics(clock=clock), clock, {}), once=once)
    with capture_logs() as lines:
        code = exit_code(table, once=once, ended=ended, superseded=None, waiting=waiting, stopped=stopped)
    return code, [(line["event"], line["left"]) for line in lines]


GAVE_UP, PARKED = "gave up before everything was copied", "ended while partitions are parked"
STOPPED = "stopped before the ends found at the start were reached"


@pytest.mark.parametrize("before", [[], [WAITS] * 9, [AWAY] * ONCE_FAILURES_MAX, [AWAY, *[WAITS] * 7, AWAY]])
def test_a_partition_that_is_parked_has_not_been_given_up_however_often_it_failed_before(
    before: list[MirrorlakeError],
) -> None:
    states = [run_state(number, [*before, UNREADABLE]) for number in range(2)]
    assert not any(state.gave_up for state in states)
    assert all(state.is_finished for state in states)
    assert ending(*states) == (EXIT_PARKED, [(PARKED, "; ".join(map(_left, states)))])


def test_a_lease_that_got_on_and_met_what_parks_gives_nothing_up() -> None:
    state = run_state(0, [WAITS] * ONCE_FAILURES_MAX)
    row = LeaseRow(
        mirror=state.mirror,
        source=state.source,
        destination=state.destination,
        start_offset=5,
        position=8,
        source_start=0,
        source_end=10,
        error=UNREADABLE,
    )
    assert state.took(row, 0.0) is Decision.PARK
    assert ending(state) == (EXIT_PARKED, [(PARKED, _left(state))])
    assert _left(state).endswith("offsets 8 to 9")


def test_an_archive_that_was_given_up_is_named_with_the_copies_that_were() -> None:
    copy = run_state(0, [AWAY] * ONCE_FAILURES_MAX)
    work = archive_work(Path("lake"), TopicPartition("orders", 1), end=10)
    archived = replace(run_state(1, [AWAY] * ONCE_FAILURES_MAX), work=work)
    assert ending(copy, archived) == (EXIT_FAILED, [(GAVE_UP, f"{_left(copy)}; {_left(archived)}")])


def test_an_end_names_what_was_given_up_and_what_is_parked_and_fails() -> None:
    given_up, parked = run_state(0, [AWAY] * ONCE_FAILURES_MAX), run_state(1, [*[WAITS] * 6, UNREADABLE])
    assert ending(given_up, parked) == (EXIT_FAILED, [(PARKED, _left(parked)), (GAVE_UP, _left(given_up))])


def test_an_end_that_took_too_long_names_what_is_parked_and_fails() -> None:
    parked = run_state(0, [UNREADABLE])
    assert ending(parked, once=False, ended=False) == (EXIT_FAILED, [(PARKED, _left(parked))])


def test_a_bounded_run_that_was_asked_to_stop_names_what_is_parked_and_what_it_had_still_to_copy() -> None:
    parked, given_up, left, done = (
        run_state(0, [UNREADABLE]),
        run_state(1, [AWAY] * 6),
        run_state(2, []),
        run_state(3, []),
    )
    done.position = 10
    work = archive_work(Path("lake"), TopicPartition("orders", 4), end=10)
    archived = replace(run_state(4, []), work=work)
    assert ending(parked, given_up, left, done, archived, stopped=True) == (
        EXIT_FAILED,
        [(PARKED, _left(parked)), (STOPPED, f"{_left(left)}; {_left(archived)}"), (GAVE_UP, _left(given_up))],
    )
    assert ending(parked, done, stopped=True) == (EXIT_PARKED, [(PARKED, _left(parked))])


def test_what_could_not_even_be_asked_for_is_named_as_all_else_each_once() -> None:
    config = b"""
clusters: {east: {bootstrap-servers: "east:9092"}, west: {bootstrap-servers: "west:9092"}}
mirrors: [{name: m, source: {cluster: east, topics: [orders]}, destinations: [{type: kafka, cluster: west}]}]
"""
    mirror = parse_configuration(config, file="mirror.yaml", environ={}).mirrors[0]
    waiting = [
        Target(
            mirror=mirror,
            destination=mirror.destinations[0],
            source_work=source_of(mirror),
            source=TopicPartition(topic, partition),
            error=AWAY,
        )
        for topic, partition in (
            ("orders", 0),
            ("orders", 1),
            ("bills", UNKNOWN_PARTITION),
            ("bills", UNKNOWN_PARTITION),
        )
    ]
    assert ending(waiting=waiting) == (
        EXIT_FAILED,
        [
            (
                GAVE_UP,
                "m: orders-0 to west, offsets unknown; m: orders-1 to west, offsets unknown; "
                "m: bills to west, offsets unknown",
            )
        ],
    )


def test_an_end_at_which_nothing_is_left_says_nothing() -> None:
    assert ending(run_state(0, [])) == (EXIT_DONE, [])


def test_leases_that_wait_for_a_schema_are_given_up_after_two_minutes_not_before() -> None:
    state = run_state(0, [WAITS] * 2 * ONCE_FAILURES_MAX)
    assert has_given_up(state) is False
    state.failed(WAITS, 120.0)
    assert has_given_up(state) is True
    assert ending(state) == (EXIT_FAILED, [(GAVE_UP, _left(state))])


def has_given_up(state: PartitionState) -> bool:
    """Asked anew each time; a type checker would remember a property's first answer."""
    return state.gave_up


@pytest.mark.parametrize(
    ("position", "end", "said"),
    [
        (5, 10, "offsets 5 to 9"),
        (10, 10, "nothing left"),
        (10, 7, "nothing left, as the source ends at 7 and the position is 10"),
        (None, 10, "offsets up to 9, position unknown"),
        (5, None, "offsets from 5 on, source's end unknown"),
        (None, None, "offsets unknown"),
    ],
)
def test_offsets_that_are_left_are_said_in_words(position: int | None, end: int | None, said: str) -> None:
    state = kafka_state(0)
    state.position, state.once_end = position, end
    assert _left(state) == f"{state.mirror}: {state.source} to {state.destination}, {said}"


def test_of_a_topic_that_was_made_again_all_is_left_wherever_the_one_before_ended() -> None:
    state = kafka_state(0)
    state.position, state.source_end, state.error = 10, 10, TopicRecreatedError("another topic now")
    assert _left(state).endswith(", all of the source topic that is there now")
    state.once_end = 10
    assert _offsets_left([state]) == "unknown"


def test_of_a_topic_that_was_away_and_ends_before_the_position_it_is_not_said_that_nothing_is_left() -> None:
    state = kafka_state(0)
    state.position, state.source_end, state.error = 10, 7, TopicMissingError("away")
    assert _left(state).endswith(", position 10, not known whether the source topic is the same")
    assert _offsets_left([state]) == "unknown"
    state.source_end = 12
    assert _left(state).endswith(", offsets 10 to 11")
