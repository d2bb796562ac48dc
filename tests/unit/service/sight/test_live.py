"""What a running service says of its partitions."""

import json
from collections.abc import Mapping

import pytest

from mirrorlake.errors import (
    BrokerUnreachableError,
    MirrorlakeError,
    RemoteTierError,
    SchemaUnknownError,
    StoreUnavailableError,
    TopicMissingError,
)
from mirrorlake.mirror.told_progress import ToldProgress
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.archives.scheduled import KeepingOutcome
from mirrorlake.service.partition_state import PartitionState, StateName
from mirrorlake.service.sight.keeping_board import DOUBTS_TOLD_MAX, KeepingBoard
from mirrorlake.service.sight.live import (
    FailedKeeping,
    LivePartition,
    partitions_json,
    read_doubted_keeping,
    read_failed_keeping,
    read_partitions,
)
from mirrorlake.service.status import StatusRow
from mirrorlake.sources.client import Bounds
from mirrorlake.sources.kafka.work import KafkaSourceWork
from mirrorlake.topics.targets import Target
from support.mirrors import copying
from support.partition_states import WEST, kafka_state


def told(state: PartitionState) -> LivePartition:
    """What it tells of a partition that is six offsets behind, and is read back."""
    state.position = 4
    state.saw_source(Bounds(0, 10), 0.0, 0.0)
    (found,) = read_partitions(partitions_json([state], now_seconds=1.0)).values()
    return found


def test_what_waits_for_a_remote_tier_runs_and_says_what_it_waits_for() -> None:
    state = kafka_state(0)
    state.failed(RemoteTierError("waiting for the source's remote tier: orders-0"), 0.0)
    assert told(state) == LivePartition(
        state=StateName.RUNNING,
        lag_seconds=1.0,
        reason="remote-tier",
        error="waiting for the source's remote tier: orders-0",
    )


def test_what_waits_for_schema_ids_runs_and_says_which() -> None:
    state = kafka_state(0)
    state.failed(SchemaUnknownError("schema ids 5 from offset 3 on are not known yet", ids="5"), 0.0)
    row = shown(told(state))
    assert (row["state"], row["reason"]) == ("running", "schema-ids")
    assert row["waiting"] == "schema ids 5 from offset 3 on are not known yet"
    assert "failing" not in row


def test_a_passing_failure_has_no_reason_and_a_parked_partition_has_its_own() -> None:
    failing, parked = kafka_state(0), kafka_state(1)
    failing.failed(BrokerUnreachableError("gone"), 0.0)
    parked.failed(TopicMissingError("gone", topic="orders"), 0.0)
    assert (told(failing).state, told(failing).reason) == (StateName.RUNNING, "")
    assert (told(parked).state, told(parked).reason) == (StateName.PARKED, "missing")


@pytest.mark.parametrize(("reached", "error"), [(4, "gone"), (5, "")])
def test_a_failure_is_shown_until_the_next_lease_has_got_on_from_where_it_came(reached: int, error: str) -> None:
    state = kafka_state(0)
    state.failed(BrokerUnreachableError("gone"), 0.0)
    state.saw_progress(ToldProgress(state.mirror, state.source, state.destination, reached, reached, 100))
    assert told(state).error == error
    parked = kafka_state(1)
    parked.failed(TopicMissingError("gone", topic="orders"), 0.0)
    parked.saw_progress(ToldProgress(parked.mirror, parked.source, parked.destination, reached, reached, 100))
    assert told(parked).error == "gone"


def test_what_a_service_fails_at_and_tries_again_is_shown_and_fails_no_row() -> None:
    failing = kafka_state(0)
    failing.failed(StoreUnavailableError("No space left on device (ENOSPC)", hint="free some space"), 0.0)
    row = shown(told(failing))
    assert (row["state"], row["failing"]) == ("running", "No space left on device (ENOSPC) (free some space)")
    assert "error" not in row
    assert "waiting" not in row
    assert "failing" not in shown(LivePartition(state=StateName.RUNNING))
    waits = LivePartition(state=StateName.RUNNING, reason="remote-tier", error="waiting for …")
    assert "failing" not in shown(waits)


def shown(
    live: LivePartition, error: MirrorlakeError | None = None, *, failed: tuple[FailedKeeping, ...] = ()
) -> Mapping[str, object]:
    """The row of ``status`` for a partition that is six offsets behind."""
    (mirror,) = copying("east:9092", "west:9092", "orders").mirrors
    target = Target(
        mirror=mirror,
        destination=mirror.destinations[0],
        source_work=KafkaSourceWork(cluster=WEST),
        source=TopicPartition("orders", 0),
    )
    return StatusRow(
        target=target, source_start=0, source_end=10, position=4, live=live, error=error, failed_keeping=failed
    ).as_json()


def test_status_shows_what_the_service_waits_for_and_calls_it_no_failure() -> None:
    live = LivePartition(state=StateName.RUNNING, lag_seconds=1.0, reason="remote-tier", error="waiting for …")
    row = shown(live)
    assert (row["state"], row["reason"], row["waiting"]) == ("running", "remote-tier", "waiting for …")
    assert "error" not in row


@pytest.mark.parametrize("error", [None, TopicMissingError("gone", topic="orders"), BrokerUnreachableError("gone")])
def test_status_shows_why_the_service_parked_it_before_what_it_concludes_itself(error: MirrorlakeError | None) -> None:
    row = shown(LivePartition(state=StateName.PARKED, reason="foreign", error="another writer"), error)
    assert (row["state"], row["reason"], row["error"]) == ("parked", "foreign", "another writer")


def test_a_paused_partition_says_so_with_its_lag_and_status_shows_it() -> None:
    state = kafka_state(0)
    state.is_paused = True
    found = told(state)
    assert (found.state, found.lag_seconds, found.reason) == (StateName.PAUSED, 1.0, "")
    row = shown(found)
    assert (row["state"], row["service"], row["lag"], row["lag_seconds"]) == ("paused", "paused", 6, 1.0)


def test_a_stale_copy_is_told_of_and_status_shows_it_and_fails_no_row() -> None:
    stale, whole = kafka_state(0), kafka_state(1)
    answer = partitions_json([stale, whole], now_seconds=1.0, stale=lambda state: "late" if state is stale else "")
    first, second = read_partitions(answer).values()
    assert (first.stale, second.stale) == ("late", "")
    row = shown(LivePartition(state=StateName.RUNNING, stale="late"))
    assert (row["state"], row["stale"]) == ("running", "late")
    assert "error" not in row
    assert "stale" not in shown(LivePartition(state=StateName.RUNNING))


def test_a_failed_schedule_of_an_archive_is_shown_beside_its_partitions_and_fails_no_row() -> None:
    told = {
        "name": "trade",
        "destination": "lake",
        "work": "merge",
        "ended": "2026-11-23T05:00:00Z",
        "result": "failed",
    }
    rows = [{**told, "error": "orders/0 is broken"}, {**told, "work": "retain", "result": "done"}]
    (failed,) = read_failed_keeping(partitions_json([], now_seconds=1.0, keeping=rows))
    assert failed.message == "merge of trade → lake failed at 2026-11-23T05:00:00Z: orders/0 is broken"
    row = shown(LivePartition(state=StateName.RUNNING), failed=(failed,))
    assert (row["state"], row["keeping"]) == ("running", failed.message)
    assert "error" not in row
    assert "keeping" not in shown(LivePartition(state=StateName.RUNNING))


def test_a_service_of_a_version_before_has_no_schedules() -> None:
    assert read_failed_keeping({"service": "mirrorlake", "partitions": []}) == ()
    assert read_doubted_keeping({"service": "mirrorlake", "partitions": []}) == ()


def test_folders_that_scheduled_retention_leaves_alone_are_told_with_the_reason() -> None:
    board, key = KeepingBoard(), ("trade", "lake", "retain")
    board.ended(key, KeepingOutcome(), now_seconds=1.0, seconds=1.0)
    assert read_doubted_keeping(partitions_json([], now_seconds=1.0, keeping=board.rows())) == ()
    doubts = tuple((f"orders.{number}/0", "nobody knows whose it is") for number in range(DOUBTS_TOLD_MAX + 2))
    board.ended(key, KeepingOutcome(doubts=(*doubts[:1], ("events/0", "it is of b"))), now_seconds=2.0, seconds=1.0)
    answer = json.loads(json.dumps(partitions_json([], now_seconds=1.0, keeping=board.rows())))
    (few,) = read_doubted_keeping(answer)
    assert few.messages == [
        "retain of trade → lake leaves orders.0/0 alone: nobody knows whose it is",
        "retain of trade → lake leaves events/0 alone: it is of b",
    ]
    board.ended(key, KeepingOutcome(doubts=doubts), now_seconds=3.0, seconds=1.0)
    (many,) = read_doubted_keeping(partitions_json([], now_seconds=1.0, keeping=board.rows()))
    assert (len(many.reasons), many.folders) == (DOUBTS_TOLD_MAX, DOUBTS_TOLD_MAX + 2)
    assert many.messages[-1] == "retain of trade → lake leaves 2 more folders alone"
