"""What a running service says of its partitions."""

from collections.abc import Mapping

from mirrorlake.errors import BrokerUnreachableError, RemoteTierError, TopicMissingError
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.partition_state import PartitionState, StateName
from mirrorlake.service.sight.live import LivePartition, partitions_json, read_partitions
from mirrorlake.service.status import StatusRow
from mirrorlake.sources.kafka.work import KafkaSourceWork
from mirrorlake.topics.targets import Target
from support.mirrors import copying
from support.partition_states import WEST, kafka_state


def told(state: PartitionState) -> LivePartition:
    """What it tells of a partition that is six offsets behind, and is read back."""
    state.position = 4
    state.saw_source(0, 10, 0.0, 0.0)
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


def test_a_passing_failure_has_no_reason_and_a_parked_partition_has_its_own() -> None:
    failing, parked = kafka_state(0), kafka_state(1)
    failing.failed(BrokerUnreachableError("gone"), 0.0)
    parked.failed(TopicMissingError("gone", topic="orders"), 0.0)
    assert (told(failing).state, told(failing).reason) == (StateName.RUNNING, "")
    assert (told(parked).state, told(parked).reason) == (StateName.PARKED, "missing")


def shown(live: LivePartition) -> Mapping[str, object]:
    """The row of ``status`` for a partition that is six offsets behind."""
    (mirror,) = copying("east:9092", "west:9092", "orders").mirrors
    target = Target(
        mirror=mirror,
        destination=mirror.destinations[0],
        source_work=KafkaSourceWork(cluster=WEST),
        source=TopicPartition("orders", 0),
    )
    return StatusRow(target=target, source_start=0, source_end=10, position=4, live=live).as_json()


def test_status_shows_what_the_service_waits_for_and_calls_it_no_failure() -> None:
    live = LivePartition(state=StateName.RUNNING, lag_seconds=1.0, reason="remote-tier", error="waiting for …")
    row = shown(live)
    assert (row["state"], row["reason"], row["waiting"]) == ("running", "remote-tier", "waiting for …")
    assert "error" not in row


def test_a_paused_partition_says_so_with_its_lag_and_status_shows_it() -> None:
    state = kafka_state(0)
    state.is_paused = True
    found = told(state)
    assert (found.state, found.lag_seconds, found.reason) == (StateName.PAUSED, 1.0, "")
    row = shown(found)
    assert (row["state"], row["service"], row["lag"], row["lag_seconds"]) == ("paused", "paused", 6, 1.0)
