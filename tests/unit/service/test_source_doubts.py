"""When the next lease compares what was copied with the source again, and that an archive gets one for that alone."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Self, cast

import pytest

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.names import SegmentName
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import BrokerUnreachableError, MirrorlakeError
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.choosing import Phase, choose
from mirrorlake.service.observer import Asked, SourceLooks, _observe_source
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.sources.client import Bounds
from mirrorlake.sources.source import SourceWork
from unit.service.test_supervisor import Bench, archive_state, kafka_state, row

ONE = TopicPartition("orders", 0)


def compared(state: PartitionState) -> PartitionState:
    """A state whose lease has compared it, and has seen its source at 10."""
    state.saw_source(Bounds(0, 10), 0.0, 0.0)
    state.took(row(state, position=10), 0.0)
    assert not state.needs_tail_check
    return state


class East:
    """A source and its client."""

    name = "east"

    def __init__(self, connections_made: int, answer: Bounds | MirrorlakeError) -> None:
        self.connections_made, self.answer = connections_made, answer

    def client(self, _: object) -> Self:
        return self

    async def bounds(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Bounds | MirrorlakeError]:
        return dict.fromkeys(partitions, self.answer)


def look(states: list[PartitionState], *answers: tuple[int, Bounds | MirrorlakeError]) -> None:
    """Looks once for each answer: how often the source was connected to by then, and what it said."""
    bench = Bench(*states)
    looks, nobody = SourceLooks(0.0), cast("WorkerCache", None)
    for made, answer in answers:
        asked = Asked(source=cast("SourceWork", East(made, answer)), everything={ONE}, awake={ONE})
        asyncio.run(_observe_source(bench.table, nobody, asked, [ONE], set(), lambda: None, looks))


SEEN, AWAY = Bounds(0, 10), BrokerUnreachableError("away")


@pytest.mark.parametrize(
    ("answers", "is_doubted"),
    [
        ([(3, SEEN), (3, SEEN)], False),
        ([(3, SEEN), (3, Bounds(0, 25))], False),
        ([(3, SEEN), (3, AWAY)], True),
        ([(3, SEEN), (4, SEEN)], True),
        ([(3, Bounds(0, 30)), (3, Bounds(0, 25))], True),
        ([(3, SEEN), (3, Bounds(4, 10))], False),
    ],
    ids=["as-before", "it-has-grown", "it-was-away", "connected-anew", "its-end-went-back", "retention"],
)
@pytest.mark.parametrize("make", [kafka_state, archive_state])
def test_a_source_that_may_be_another_one_is_compared_again(
    make: Callable[[int], PartitionState], answers: list[tuple[int, Bounds | MirrorlakeError]], is_doubted: bool
) -> None:
    state = compared(make(0))
    look([state], *answers)
    assert state.needs_tail_check is is_doubted


@pytest.mark.parametrize("is_doubted_meanwhile", [True, False])
def test_a_lease_that_began_before_the_doubt_says_nothing_of_it_by_ending_well(is_doubted_meanwhile: bool) -> None:
    state = compared(archive_state(0))
    state.is_leased = True
    if is_doubted_meanwhile:
        state.doubt_source()
    state.is_leased = False
    state.took(row(state, position=12), 1.0)
    assert state.needs_tail_check is is_doubted_meanwhile

    state.took(row(state, position=12), 2.0)

    assert not state.needs_tail_check


@pytest.mark.parametrize(
    ("phase", "expected"), [(Phase(once=False), 1), (Phase(once=True), 1), (Phase(once=False, is_stopping=True), 0)]
)
def test_an_archive_with_nothing_due_is_compared_once_and_a_bounded_run_waits_for_that(
    phase: Phase, expected: int
) -> None:
    name = SegmentName(from_offset=0, to_offset=9, extension="parquet")
    state = archive_state(0, position=10)
    state.tail = Segment(name=name, size_bytes=1000)
    state.saw_source(Bounds(0, 10), 0.0, 0.0)
    state.once_end = state.position if phase.once else None
    assert state.is_to_be_compared

    def chosen() -> int:
        return len(choose([state], lane=0, lane_of={state.shard: 0}, lanes=1, phase=phase, now_seconds=1.0))

    assert chosen() == expected
    assert not state.is_finished
    state.took(row(state, position=state.position), 2.0)
    assert chosen() == 0
    assert state.is_finished is phase.once


def test_an_archive_with_nothing_due_is_compared_once_its_source_is_back() -> None:
    state = archive_state(0, position=10)
    state.tail = Segment(name=SegmentName(from_offset=0, to_offset=9, extension="parquet"), size_bytes=1000)
    compared(state)
    look([state], (3, SEEN), (3, AWAY))
    assert not state.is_to_be_compared, "a lease could do nothing but fail"
    look([state], (3, SEEN))
    assert state.is_to_be_compared
