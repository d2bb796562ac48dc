"""When it is said that a copy may have missed tombstones, and when it is not. No cluster, no clock."""

from dataclasses import replace

import pytest
import structlog
from structlog.testing import capture_logs

from mirrorlake.clock import ManualClock
from mirrorlake.destinations.interface import NOTHING_HELD
from mirrorlake.mirror.flush_clock import Retention
from mirrorlake.mirror.told_progress import ToldProgress
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.leases.missed_deletions import DeletionWatch
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.sight.events import Events
from mirrorlake.service.sight.metrics import Metrics
from mirrorlake.service.state_table import StateTable
from mirrorlake.sources.client import Bounds
from support.partition_states import kafka_state, table_of

KEPT = 100.0
"""``delete.retention.ms``, in seconds: half of it may pass."""
BEGAN = 1000.0
"""The clock when the first lease has told something."""
WALL = 1_800_000_000.0


def row(start: int, position: int, *, absent: int = 0, held_until_ms: int | None = None) -> LeaseRow:
    return LeaseRow(
        mirror="m",
        source=TopicPartition("orders", 0),
        destination="west",
        start_offset=start,
        position=position,
        source_start=0,
        source_end=position,
        gap_offsets={"absent": absent} if absent else {"filtered": 7},
        held_until_ms=held_until_ms,
    )


def told(position: int, absent: int) -> ToldProgress:
    gaps = {"absent": absent}
    return ToldProgress("m", TopicPartition("orders", 0), "west", position, 0, 0, gap_offsets=gaps)


def took(watch: DeletionWatch, done: LeaseRow | ToldProgress, *, at: float, kept: float | None = KEPT) -> bool:
    return watch.got_on(done, kept_seconds=kept, now_seconds=at, wall_seconds=WALL)


def begun(*, position: int = 10, held_seconds_ago: float = 0.0) -> DeletionWatch:
    """A copy whose first lease has read nothing yet."""
    watch = DeletionWatch()
    held = int((WALL - held_seconds_ago) * 1000)
    assert not took(watch, row(position, position, held_until_ms=held), at=BEGAN)
    watch.lease_ended()
    return watch


@pytest.mark.parametrize(
    ("held_until_ms", "absent", "kept", "is_said"),
    [
        (NOTHING_HELD, 3, KEPT, False),
        (int((WALL - 49) * 1000), 3, KEPT, False),
        (int((WALL - 51) * 1000), 3, KEPT, True),
        (int((WALL - 51) * 1000), 0, KEPT, False),
        (int((WALL - 51) * 1000), 3, None, False),
        (None, 3, KEPT, True),
        (None, 0, KEPT, False),
        (int((WALL + 60) * 1000), 3, KEPT, True),
        (NOTHING_HELD, 3, 0.0, True),
    ],
    ids=[
        "a fresh copy has nothing to delete",
        "its newest record is young enough",
        "its newest record is too old",
        "every offset had its record",
        "the source removes nothing by key",
        "nobody knows how new the copy was, and records are gone",
        "nobody knows how new the copy was, and none is gone",
        "a record from the future says nothing",
        "tombstones that are not kept at all may always be missed",
    ],
)
def test_the_first_lease_of_a_process_goes_by_the_newest_record_of_the_copy(
    held_until_ms: int | None, absent: int, kept: float | None, is_said: bool
) -> None:
    watch = DeletionWatch()
    assert took(watch, row(10, 20, absent=absent, held_until_ms=held_until_ms), at=BEGAN, kept=kept) is is_said


def test_a_copy_that_could_not_be_opened_is_not_taken_for_a_fresh_one() -> None:
    watch = DeletionWatch()
    failed = LeaseRow(
        mirror="m",
        source=TopicPartition("orders", 0),
        destination="west",
        start_offset=0,
        position=None,
        source_start=None,
        source_end=None,
    )
    assert not took(watch, failed, at=BEGAN)
    assert took(watch, row(10, 20, absent=1, held_until_ms=int((WALL - 51) * 1000)), at=BEGAN)


@pytest.mark.parametrize(("away_seconds", "is_said"), [(49.0, False), (50.0, True), (500.0, True)])
def test_later_leases_go_by_when_the_copy_last_had_all_there_was(away_seconds: float, is_said: bool) -> None:
    watch = begun(held_seconds_ago=1_000_000.0)
    watch.saw_end(10, reached=10, now_seconds=BEGAN + 5)
    watch.saw_end(30, reached=10, now_seconds=BEGAN + 6)
    assert took(watch, row(10, 30, absent=2), at=BEGAN + 5 + away_seconds) is is_said


def test_a_copy_that_is_behind_a_little_all_the_time_has_what_was_there_a_while_ago() -> None:
    watch = begun()
    for seconds in range(1, 1000):  # ten offsets come in each, and the copy is twenty behind at every look
        position = 10 * seconds
        watch.saw_end(position + 20, reached=position, now_seconds=BEGAN + seconds)
        assert not took(watch, row(position, position + 10, absent=5), at=BEGAN + seconds)
        watch.lease_ended()


def test_it_is_said_once_until_the_copy_has_caught_up_and_again_after_the_next_time() -> None:
    watch = begun(held_seconds_ago=60.0)
    said = []
    for lease in range(3):
        start = 10 + 10 * lease
        said.append(took(watch, row(start, start + 10, absent=4), at=BEGAN + lease))
        watch.lease_ended()
    assert (said, watch.is_doubted) == ([True, False, False], True)
    watch.saw_end(40, reached=40, now_seconds=BEGAN + 10)
    assert not took(watch, row(40, 50, absent=1), at=BEGAN + 11)
    assert not watch.is_doubted
    watch.lease_ended()
    assert took(watch, row(50, 60, absent=1), at=BEGAN + 100)


def test_a_look_while_a_lease_reads_on_does_not_hide_what_it_had_read_before() -> None:
    watch = begun(held_seconds_ago=60.0)
    assert took(watch, told(25, 4), at=BEGAN + 1), "told while it runs"
    watch.saw_end(40, reached=40, now_seconds=BEGAN + 2)
    assert not took(watch, told(50, 6), at=BEGAN + 3), "two more are gone, but the copy had all a second ago"
    assert not took(watch, told(50, 6), at=BEGAN + 200), "of an idle lease none is gone that was not told of before"


def in_a_table(clock: ManualClock, metrics: Metrics) -> tuple[StateTable, PartitionState]:
    structlog.reset_defaults()
    state = kafka_state(0)
    state.flush_clock.retention = Retention(tombstones_seconds=86_400.0)
    return table_of(state, clock=clock, events=Events(metrics, clock, {"m": "west"})), state


def end_lease(table: StateTable, state: PartitionState, done: LeaseRow) -> None:
    table.leased([state])
    key = ("m", state.source, "west")
    table.lease_ended(
        0,
        [state],
        {key: done},
        unknown=AssertionError,  # type: ignore[arg-type]  # never used: the row came back
        archived_until_seconds=0.0,
        sent_until_seconds=0.0,
    )


def test_a_service_warns_once_and_counts_what_may_be_missing() -> None:
    clock = ManualClock()
    metrics = Metrics(clock=clock)
    table, state = in_a_table(clock, metrics)
    end_lease(table, state, row(10, 10, held_until_ms=int(clock.now_seconds() * 1000)))
    table.observed("east", {state.source: Bounds(0, 10)})
    clock.advance(3 * 86_400.0)
    with capture_logs() as lines:
        end_lease(table, state, row(10, 20, absent=2))
        end_lease(table, state, row(20, 30, absent=2))
    (line,) = [each for each in lines if each["event"].startswith("deletions may be missing")]
    assert (line["log_level"], line["mirror"], line["topic"], line["partition"]) == ("warning", "m", "orders", 0)
    assert (line["destination"], line["position"], line["delete_retention"]) == ("west", 20, "1d")
    labels = {"mirror": "m", "topic": "orders", "partition": "0", "destination": "west"}
    assert metrics.registry.get_sample_value("mirrorlake_deletions_doubted_total", labels) == 1.0


def test_a_service_that_was_never_away_says_nothing() -> None:
    clock = ManualClock()
    metrics = Metrics(clock=clock)
    table, state = in_a_table(clock, metrics)
    end_lease(table, state, row(10, 10, held_until_ms=int(clock.now_seconds() * 1000)))
    with capture_logs() as lines:
        for position in range(10, 100, 10):
            table.observed("east", {state.source: Bounds(0, position)})
            clock.advance(36_000.0)
            end_lease(table, state, row(position, position + 10, absent=5))
    assert [each["event"] for each in lines if each["log_level"] == "warning"] == []
    assert metrics.registry.get_sample_value("mirrorlake_deletions_doubted_total") is None


@pytest.mark.parametrize(
    ("held_until_ms", "kept", "is_said"),
    [
        (int((WALL - 1) * 1000), KEPT, True),
        (int((WALL - 1) * 1000), None, False),
        (NOTHING_HELD, KEPT, False),
        (None, KEPT, False),
    ],
    ids=["it had read below", "the source removes nothing by key", "a fresh copy", "nobody knows what it holds"],
)
def test_offsets_that_the_source_deleted_before_they_were_read_may_have_been_tombstones(
    held_until_ms: int | None, kept: float | None, is_said: bool
) -> None:
    watch = DeletionWatch()
    passed = replace(row(10, 20, held_until_ms=held_until_ms), gap_offsets={"truncated": 7})
    assert took(watch, passed, at=BEGAN, kept=kept) is is_said
    assert not took(watch, passed, at=BEGAN + 1, kept=kept), "once"
    watch.lease_ended()
    assert took(watch, passed, at=BEGAN + 2, kept=kept) is (kept is not None), "fresh no more"
