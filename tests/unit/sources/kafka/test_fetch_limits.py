"""The limits of a fetch: the reader's own, or those of the cluster's settings."""

import struct
from dataclasses import dataclass, replace

import pytest

from mirrorlake.destinations.interface import PinnedFrame
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.wire.fetch import FETCH_BYTES_MAX, FetchedPartition
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.kafka.fetch_limits import (
    ANSWER_BYTES_MIN,
    FIRST_WAIT_MS,
    FLOWING_WAIT_MS,
    PARTITION_BYTES_MAX,
    QUIET_WAIT_MS,
    FetchLimits,
    QuietWait,
)

EAST = ClusterSettings(name="east", bootstrap_servers=("east:9092",))
TUNED = ClusterSettings(
    name="east",
    bootstrap_servers=("east:9092",),
    fetch_bytes_max=4096,
    fetch_partition_bytes_max=2048,
    fetch_bytes_min=10,
    fetch_wait_seconds_max=0.029,
)


@dataclass
class Wanted:
    """A partition that wants to be read from an offset on."""

    source: TopicPartition
    fetch_offset: int
    wants_fetch: bool = True
    leader_epoch: int = -1
    topic_id: str = ""
    is_over: bool = False
    is_at_end: bool = False
    is_steady: bool = True

    def fetched(self, answer: FetchedPartition, frame: PinnedFrame, *, is_quiet: bool) -> None:
        raise AssertionError("nothing is fetched here")

    def fetch_failed(self, error: MirrorlakeError) -> None:
        raise AssertionError("nothing is fetched here")


def test_a_cluster_without_settings_of_its_own_is_read_with_the_readers() -> None:
    assert FetchLimits.of(EAST) == FetchLimits(
        answer_bytes_max=FETCH_BYTES_MAX,
        partition_bytes_max=None,
        answer_bytes_min=ANSWER_BYTES_MIN,
        wait_ms=None,
    )


@pytest.mark.parametrize(
    ("settings", "partitions", "share"),
    [
        (EAST, 1, FETCH_BYTES_MAX),  # alone, it may fill the answer
        (EAST, 2, FETCH_BYTES_MAX // 2),
        (EAST, 1000, PARTITION_BYTES_MAX),
        (TUNED, 1, 2048),
        (TUNED, 1000, 2048),
    ],
)
def test_a_partitions_share_of_an_answer(settings: ClusterSettings, partitions: int, share: int) -> None:
    wanted = [Wanted(TopicPartition("t", number), 0) for number in range(partitions)]

    body = FetchLimits.of(settings).body(wanted, wait_ms=5)

    assert struct.unpack_from(">i", body, len(body) - 6 - 4) == (share,)


def test_a_clusters_settings_go_before_the_readers() -> None:
    assert FetchLimits.of(TUNED) == FetchLimits(
        answer_bytes_max=4096, partition_bytes_max=2048, answer_bytes_min=10, wait_ms=29
    )


def test_no_wait_at_all_is_a_wait_of_zero() -> None:
    settings = ClusterSettings(name="east", bootstrap_servers=("east:9092",), fetch_wait_seconds_max=0.0)

    assert FetchLimits.of(settings).wait_ms == 0


@pytest.mark.parametrize(
    ("bytes_min", "left_seconds", "wait_ms"),
    [
        (None, 10.0, 2000),
        (None, 1.5, 1500),  # the answer comes as soon as there is a byte
        (100, 10.0, 2000),
        (100, 1.5, 750),  # what there is by then can still be copied
        (100, 0.001, 0),
        (None, -0.5, 0),
    ],
)
def test_the_broker_may_hold_no_records_back_until_reading_ends(
    bytes_min: int | None, left_seconds: float, wait_ms: int
) -> None:
    settings = replace(EAST, fetch_bytes_min=bytes_min, fetch_wait_seconds_max=2.0)

    assert FetchLimits.of(settings).wait_ms_within(left_seconds, 400) == wait_ms


def test_the_broker_holds_empty_answers_back_ever_longer_while_nothing_comes() -> None:
    wait = QuietWait()
    waits = []
    for _ in range(9):
        waits.append(wait.milliseconds)
        wait.answered(is_empty=True)
    assert waits == [8, 16, 32, 64, 128, 256, 512, QUIET_WAIT_MS, QUIET_WAIT_MS]
    wait.answered(is_empty=False)
    assert wait.milliseconds == FLOWING_WAIT_MS
    wait.added(to_partitions=15)
    assert wait.milliseconds == FIRST_WAIT_MS
    wait.added(to_partitions=800)
    assert wait.milliseconds == FIRST_WAIT_MS + 50


def test_the_request_asks_for_what_the_limits_say() -> None:
    body = FetchLimits.of(TUNED).body([Wanted(TopicPartition("t", 3), 77)], wait_ms=5)

    # FetchRequest.json, version 11: replica, wait, least and most bytes; at the end partition, epoch, offset,
    # log start and bytes, before no forgotten topics and no rack.
    assert struct.unpack_from(">iiii", body) == (-1, 5, 10, 4096)
    assert struct.unpack_from(">iiqqi", body, len(body) - 6 - 28) == (3, -1, 77, -1, 2048)
