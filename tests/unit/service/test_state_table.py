"""Pauses and restarts in the table of states; what leases change is in ``test_supervisor``."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mirrorlake.errors import BrokerUnreachableError, ChainBrokenError, CommandRefusedError, SourceTruncatedError
from mirrorlake.offsets import TopicPartition
from mirrorlake.pipeline.lease_files import LeaseFiles
from mirrorlake.service.commands import check_exists, done
from mirrorlake.service.partition_state import ONCE_FAILURES_MAX, PartitionState, StateName
from mirrorlake.service.selection import Selection
from mirrorlake.sources.kafka.work import KafkaSourceWork
from support.partition_states import EAST
from unit.service.test_supervisor import Bench, archive_state, found, kafka_state, row

ALL = Selection(mirror="m")
FIRST = Selection(mirror="m", topic="orders", partition=0)


def test_a_paused_partition_is_in_no_lease_and_the_others_go_on() -> None:
    bench = Bench(kafka_state(0), kafka_state(1), lanes=1)
    assert bench.table.set_paused(FIRST, is_paused=True) == [bench.states[0]]
    assert bench.table.set_paused(FIRST, is_paused=True) == []
    lease, plan = found(bench, 0)
    assert [work.source.partition for work in plan.partitions] == [1]
    bench.end(0, lease, row(bench.states[1], 5))
    assert bench.table.set_paused(FIRST, is_paused=False) == [bench.states[0]]
    assert len(found(bench, 0)[1].partitions) == 2


def test_an_archive_that_is_due_waits_while_it_is_paused() -> None:
    state = archive_state(0)
    bench = Bench(state)
    bench.table.set_paused(ALL, is_paused=True)
    bench.observe(p0=1000)
    bench.clock.advance(3600.0)
    assert bench.next(0) is None
    assert (state.position, state.lag) == (0, 1000)
    bench.table.set_paused(ALL, is_paused=False)
    assert bench.next(0) is not None


def test_a_pause_recalls_the_lease_that_is_under_way_and_takes_what_it_did(tmp_path: Path) -> None:
    state = kafka_state(0)
    bench = Bench(state, lease_files=LeaseFiles(tmp_path))
    lease, plan = found(bench, 0)
    bench.table.set_paused(ALL, is_paused=True)
    bench.supervisor.recall([state])
    assert Path(plan.recall_file).exists()
    bench.end(0, lease, row(state, 7, end=9))
    assert (state.position, state.state) == (7, StateName.PAUSED)
    assert bench.next(0) is None


def test_what_is_resumed_is_compared_with_its_source_as_after_a_start() -> None:
    state = kafka_state(0)
    bench = Bench(state)
    bench.end(0, found(bench, 0)[0], row(state, 7, end=7))
    assert not state.needs_tail_check
    bench.table.set_paused(ALL, is_paused=True)
    assert not state.needs_tail_check
    bench.table.set_paused(ALL, is_paused=False)
    assert (state.needs_tail_check, state.hand_off) == (True, None)


def test_a_partition_that_is_found_later_is_paused_with_its_mirror() -> None:
    bench = Bench(kafka_state(0))
    bench.table.set_paused(ALL, is_paused=True)
    later, other = kafka_state(1), kafka_state(2)
    bench.table.set_paused(Selection(mirror="m", topic="orders", partition=2), is_paused=False)
    bench.table.add([later, other], {"m": KafkaSourceWork(cluster=EAST)})
    assert (later.is_paused, other.is_paused) == (True, False)


def test_a_stop_leaves_what_is_paused_as_it_is() -> None:
    state = archive_state(0)
    bench = Bench(state)
    bench.observe(p0=10)
    bench.table.set_paused(ALL, is_paused=True)
    bench.supervisor.stop()
    assert bench.supervisor.is_finished
    assert not bench.table.unflushed


def test_a_bounded_run_waits_for_what_is_paused() -> None:
    state = kafka_state(0)
    bench = Bench(state, once=True)
    bench.observe(p0=10)
    bench.table.set_paused(ALL, is_paused=True)
    assert not bench.supervisor.is_finished
    assert bench.next(0) is None


@pytest.mark.parametrize("make", [kafka_state, archive_state])
@pytest.mark.parametrize("is_paused", [False, True])
def test_a_bounded_run_gives_up_what_no_look_at_the_source_can_tell_the_end_of(
    make: Callable[[int], PartitionState], is_paused: bool
) -> None:
    bench = Bench(make(0), make(1), once=True)
    bench.observe(p1=0)
    if is_paused:
        bench.table.set_paused(FIRST, is_paused=True)
    looks = 0
    while not bench.states[0].is_finished and looks < 100:
        looks += 1
        bench.table.unseen("east", {TopicPartition("orders", 0): BrokerUnreachableError("it is away")})
        bench.clock.advance(10)
    assert (bench.states[0].is_finished, looks) == ((False, 100) if is_paused else (True, ONCE_FAILURES_MAX))


def test_a_bounded_run_parks_what_a_look_finds_broken_and_a_service_waits_for_it() -> None:
    for once in (True, False):
        bench = Bench(archive_state(0), once=once)
        bench.table.unseen("east", {TopicPartition("orders", 0): ChainBrokenError("no segment is there")})
        assert bench.states[0].is_parked is once


def test_a_look_that_fails_once_the_end_is_known_is_no_try_of_a_bounded_run() -> None:
    bench = Bench(kafka_state(0), once=True)
    bench.observe(p0=10)
    bench.table.unseen("east", {TopicPartition("orders", 0): BrokerUnreachableError("it is away")})
    assert bench.states[0].failures == 0


def test_trouble_is_shown_before_a_pause() -> None:
    bench = Bench(archive_state(0, position=10))
    (state,) = bench.states
    bench.table.set_paused(ALL, is_paused=True)
    bench.table.observed("east", {TopicPartition("orders", 0): (12, 20)})
    assert isinstance(state.error, SourceTruncatedError)
    assert state.state_now(bench.clock.elapsed_seconds()) is StateName.PARKED


def test_only_what_is_parked_or_fails_is_to_begin_anew() -> None:
    well, parked, failing = (kafka_state(number) for number in range(3))
    bench = Bench(well, parked, failing)
    parked.failed(ChainBrokenError("gone"), 0.0)
    failing.failed(BrokerUnreachableError("gone"), 0.0)
    for _ in range(2):
        asked = bench.table.ask_restart(ALL)
        assert [state.source.partition for state in asked] == [1, 2]
    assert [state.is_restart_asked for state in bench.states] == [False, True, True]
    bench.table.restart_refused(asked)
    assert not any(state.is_restart_asked for state in bench.states)


def test_what_a_command_did_names_partitions() -> None:
    one, two = kafka_state(0), kafka_state(1)
    assert done([one], [one, two], ending=[one]).as_json() == {
        "changed": [{"name": "m", "topic": "orders", "partition": 0, "destination": "west"}],
        "unchanged": [{"name": "m", "topic": "orders", "partition": 1, "destination": "west"}],
        "ending": [{"name": "m", "topic": "orders", "partition": 0, "destination": "west"}],
    }


@pytest.mark.parametrize(
    ("selection", "said", "there_are"),
    [
        (Selection(mirror="n"), "there is no mirror n", "there is: m"),
        (Selection(mirror="m", topic="bills"), "there is no topic of mirror m bills", "there is: orders"),
        (
            Selection(mirror="m", topic="orders", partition=3),
            "there is no partition of topic orders of mirror m 3",
            "there is: 0, 1",
        ),
    ],
)
def test_an_unknown_name_is_refused_with_those_there_are(selection: Selection, said: str, there_are: str) -> None:
    states = [kafka_state(0), kafka_state(1)]
    with pytest.raises(CommandRefusedError) as caught:
        check_exists(selection, mirrors=["m"], states=states)
    assert (caught.value.message, caught.value.hint) == (said, there_are)
    for known in (ALL, FIRST, Selection(mirror="m", topic="orders")):
        check_exists(known, mirrors=["m"], states=states)
