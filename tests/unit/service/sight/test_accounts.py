"""What a service says it did, and when a destination has caught up."""

from dataclasses import replace

from mirrorlake.offsets import TopicPartition
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.sight.accounts import BEHIND_SECONDS_MIN, CatchUps, CaughtUp, account_of
from support.leases import kafka_work

WHERE = "127.0.0.1:1"


def state(partition: int, *, position: int | None, end: int | None, records: int = 0) -> PartitionState:
    source = TopicPartition("orders", partition)
    made = PartitionState(
        mirror="m",
        source=source,
        shard="m.0",
        work=kafka_work(WHERE, source),
        topic_id="",
        rule=None,
        position=position,
        source_end=end,
        records=records,
        raw_bytes=10 * records,
    )
    made.source_seen_seconds = None if end is None else 0.0
    return made


def test_an_account_counts_what_was_done_and_what_is_left() -> None:
    parked = state(2, position=4, end=10, records=4)
    parked.is_parked = True
    states = [state(0, position=10, end=10, records=10), state(1, position=7, end=10, records=7), parked]
    account = account_of("m", states, now_seconds=1.0)
    assert account.facts(12.34) == {
        "partitions": 3,
        "records": 21,
        "bytes": 210,
        "seconds": 12.3,
        "behind": 9,
        "parked": 1,
    }


def test_a_lag_that_is_not_known_is_not_called_zero() -> None:
    states = [state(0, position=10, end=10), state(1, position=None, end=10)]
    assert account_of("m", states, now_seconds=1.0).facts(1.0)["behind"] == "unknown"


def test_a_destination_has_caught_up_when_its_last_partition_has() -> None:
    watch = CatchUps(100.0)
    first, second = state(0, position=10, end=10, records=10), state(1, position=4, end=10, records=4)
    assert watch.looked([first, second], 102.0) == []
    second = replace(second, position=10, records=10, raw_bytes=100)
    (caught_up,) = watch.looked([first, second], 104.0)
    assert caught_up == CaughtUp(mirror="m", destination="west", partitions=2, records=20, bytes=200, seconds=4.0)
    assert caught_up.facts()["records_per_second"] == 5
    assert caught_up.facts()["bytes_per_second"] == 50
    assert watch.looked([first, second], 106.0) == [], "once"


def test_keeping_up_is_not_told_again_and_again() -> None:
    watch = CatchUps(0.0)
    assert len(watch.looked([state(0, position=10, end=10, records=10)], 1.0)) == 1
    assert watch.looked([state(0, position=10, end=15, records=10)], 2.0) == []
    assert watch.looked([state(0, position=15, end=15, records=15)], 3.0) == []
    assert watch.looked([state(0, position=15, end=99, records=15)], 4.0) == []
    (again,) = watch.looked([state(0, position=99, end=99, records=99)], 4.0 + BEHIND_SECONDS_MIN)
    assert (again.records, again.seconds) == (84, BEHIND_SECONDS_MIN)


def test_nothing_is_told_where_nothing_was_copied_or_a_lag_is_not_known() -> None:
    watch = CatchUps(0.0)
    assert watch.looked([state(0, position=10, end=None)], 1.0) == []
    assert watch.looked([state(0, position=10, end=10)], 2.0) == []
