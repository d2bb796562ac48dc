"""What a service says in its log: once for one trouble, and what it did at its end."""

from dataclasses import replace

import pytest
import structlog
from structlog.testing import capture_logs

from mirrorlake.clock import ManualClock
from mirrorlake.errors import (
    BrokerUnreachableError,
    LostTailError,
    MirrorlakeError,
    OutcomeUnknownError,
    PartitionUnbegunError,
    SchemaUnknownError,
    TopicMissingError,
)
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.partition_state import ONCE_FAILURES_MAX, PartitionState
from mirrorlake.service.sight.events import Events
from mirrorlake.service.sight.logs import _without_empty_hint
from mirrorlake.service.sight.metrics import Metrics
from support.leases import kafka_work


def state(partition: int) -> PartitionState:
    source = TopicPartition("orders", partition)
    return PartitionState(
        mirror="m", source=source, shard="m.0", work=kafka_work("127.0.0.1:1", source), topic_id="", rule=None
    )


def events(clock: ManualClock) -> Events:
    structlog.reset_defaults()
    return Events(Metrics(clock=clock), clock, {"m": "west"})


def test_a_broker_that_is_away_is_one_line_for_all_its_partitions() -> None:
    clock = ManualClock()
    told = events(clock)
    states = [state(number) for number in range(18)]
    with capture_logs() as lines:
        for each in states:
            told.began(each)
        with told.together():
            for each in states:
                decision = each.failed(BrokerUnreachableError("no connection to 127.0.0.1:1"), 0.0)
                told.lease_ended(0, each, None, decision)
    failed = [line for line in lines if line["event"] == "partition failed, trying again"]
    assert [(line["partitions"], line["log_level"]) for line in failed] == [(18, "warning")]
    assert "partition" not in failed[0]


def test_what_parks_for_one_reason_is_one_line_and_a_partition_of_its_own_is_named() -> None:
    clock = ManualClock()
    told = events(clock)
    states = [state(number) for number in range(3)]
    with capture_logs() as lines:
        with told.together():
            for each in states[:2]:
                told.lease_ended(0, each, None, each.failed(LostTailError("cut"), 0.0))
        told.lease_ended(0, states[2], None, states[2].failed(LostTailError("cut"), 0.0))
    assert [line.get("partitions") for line in lines] == [2, None]
    assert [line["reason"] for line in lines] == ["lost-tail"] * 2
    assert lines[1]["partition"] == 2


def test_a_wait_for_schema_ids_is_no_failure_of_its_partition_and_what_fails_beside_it_is_told() -> None:
    told = events(ManualClock())
    waits = SchemaUnknownError("schema ids 5 from offset 3 on are not known yet", ids="5")
    outcomes: list[MirrorlakeError] = [waits, BrokerUnreachableError("no connection to 127.0.0.1:1"), waits]
    one = state(0)
    with capture_logs() as lines:
        for outcome in outcomes:
            told.lease_ended(0, one, None, one.failed(outcome, 0.0))
    assert [(line["event"], line["kind"], line["failures"]) for line in lines] == [
        ("partition failed, trying again", "BrokerUnreachableError", 2)
    ]


def test_a_start_whose_position_is_not_known_says_no_offset() -> None:
    clock = ManualClock()
    told = events(clock)
    known = state(1)
    known.position = 7
    with capture_logs() as lines:
        told.began(state(0))
        told.began(known)
    assert [line.get("start_offset", "not said") for line in lines] == ["not said", 7]


def test_the_end_says_of_each_mirror_what_was_done() -> None:
    clock = ManualClock()
    told = events(clock)
    done = state(0)
    done.position = done.source_end = 12
    done.source_seen_seconds = clock.elapsed_seconds()
    done.records, done.raw_bytes = 12, 600
    with capture_logs() as lines:
        told.ended([done])
    assert [line["event"] for line in lines] == ["caught up", "mirror totals", "mirror task terminated gracefully"]
    facts = {"partitions": 1, "records": 12, "bytes": 600, "seconds": 0.0, "behind": 0, "parked": 0}
    assert {name: lines[1][name] for name in facts} == facts


@pytest.mark.parametrize(
    ("errors", "last_words"),
    [
        ([OutcomeUnknownError("the lease ended")], "mirror task terminated gracefully"),
        ([PartitionUnbegunError("the lease was over")], "mirror task terminated gracefully"),
        ([OutcomeUnknownError("the lease ended")] * ONCE_FAILURES_MAX, "mirror exited with error"),
        ([BrokerUnreachableError("nobody answers")], "mirror exited with error"),
        ([TopicMissingError("parks")], "mirror exited with error"),
    ],
)
def test_a_copy_that_the_end_cut_short_has_ended_well_and_one_that_fails_has_not(
    errors: list[MirrorlakeError], last_words: str
) -> None:
    told = events(ManualClock())
    copied = state(0)
    for error in errors:
        copied.failed(error, 0.0)
    with capture_logs() as lines:
        told.ended([copied])
    assert lines[-1]["event"] == last_words


def test_where_the_run_itself_failed_no_mirror_is_said_to_have_ended_well() -> None:
    told = events(ManualClock())
    parked = state(0)
    parked.failed(TopicMissingError("x has no topic"), 0.0)
    other = replace(state(1), mirror="other")
    with capture_logs() as lines:
        told.ended([parked, other], failure="another process has taken over")
    assert [(line["mirror"], line["error"]) for line in lines if line["event"] == "mirror exited with error"] == [
        ("m", "x has no topic"),
        ("other", "another process has taken over"),
    ]
    assert "mirror task terminated gracefully" not in [line["event"] for line in lines]


def test_the_lag_of_a_parked_partition_is_unknown_where_nobody_knows_it() -> None:
    clock = ManualClock()
    told = events(clock)
    known, parked = state(0), state(1)
    known.position = known.source_end = 12
    known.source_seen_seconds = clock.elapsed_seconds()
    parked.failed(TopicMissingError("x"), 0.0)
    with capture_logs() as lines:
        told.heartbeat([known, parked])
        told.ended([known, parked])
        parked.position, parked.source_end, parked.source_seen_seconds = 5, 12, clock.elapsed_seconds()
        told.heartbeat([known, parked])
        told.ended([known, parked])
    beats = [line for line in lines if line["event"] == "heartbeat"]
    assert [(line["lag"], line.get("lag_unknown"), line["parked"]) for line in beats] == [(0, 1, 1), (7, None, 1)]
    totals = [line for line in lines if line["event"] == "mirror totals"]
    assert [(line["behind"], line["parked"]) for line in totals] == [("unknown", 1), (7, 1)]


def test_a_heartbeat_counts_what_is_paused_where_something_is() -> None:
    clock = ManualClock()
    told = events(clock)
    one, two = state(0), state(1)
    with capture_logs() as lines:
        told.heartbeat([one, two])
        one.is_paused = True
        told.heartbeat([one, two])
    assert [(line["partitions"], line["parked"], line.get("paused")) for line in lines] == [(2, 0, None), (2, 0, 1)]


def test_a_hint_that_says_nothing_is_left_out() -> None:
    assert _without_empty_hint(None, "", {"event": "x", "hint": ""}) == {"event": "x"}
    assert _without_empty_hint(None, "", {"event": "x", "hint": "y"}) == {"event": "x", "hint": "y"}
    assert _without_empty_hint(None, "", {"event": "x"}) == {"event": "x"}
