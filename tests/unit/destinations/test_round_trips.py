"""When batches of a partition that waits for answers are coalesced, whatever their size."""

import pytest

from mirrorlake.destinations.round_trips import coalesced_bytes
from mirrorlake.kafka.records.batches import Codec

BROKER_DEFAULT = 1_048_588
NEVER_SEEN = float("inf")


@pytest.mark.parametrize(
    ("codec", "round_trip_seconds", "in_flight_bytes", "batch_bytes_max", "expected"),
    [
        # Four partitions of 128 KiB batches, five each in flight, 80 ms away: 32 MB/s are less than any of these takes.
        (Codec.NONE, 0.08, 20 << 17, BROKER_DEFAULT, 917_504),
        (Codec.LZ4, 0.08, 20 << 17, BROKER_DEFAULT, 917_504),
        (Codec.ZSTD, 0.08, 20 << 17, BROKER_DEFAULT, 917_504),
        # A core takes over gzip more slowly than that.
        (Codec.GZIP, 0.08, 20 << 17, BROKER_DEFAULT, 0),
        (Codec.GZIP, 0.2, 20 << 17, BROKER_DEFAULT, 917_504),
        # Two hundred partitions: there is enough under way for every core.
        (Codec.ZSTD, 0.08, 1000 << 17, BROKER_DEFAULT, 0),
        (Codec.NONE, 0.08, 1000 << 17, BROKER_DEFAULT, 0),
        # Near, and not known yet.
        (Codec.NONE, 0.0319, 1, BROKER_DEFAULT, 0),
        (Codec.NONE, 0.032, 1, BROKER_DEFAULT, 917_504),
        (Codec.NONE, NEVER_SEEN, 1, BROKER_DEFAULT, 0),
        # A destination that takes less, and one that takes more than its consumers count on.
        (Codec.NONE, 0.08, 1, 80_000, 70_000),
        (Codec.NONE, 0.08, 1, 100 << 20, 917_504),
    ],
)
def test_batches_grow_where_round_trips_bound_a_copy_and_a_core_takes_more(
    codec: Codec, round_trip_seconds: float, in_flight_bytes: int, batch_bytes_max: int, expected: int
) -> None:
    found = coalesced_bytes(
        codec,
        round_trip_seconds=round_trip_seconds,
        in_flight_bytes=in_flight_bytes,
        batch_bytes_max=batch_bytes_max,
    )
    assert found == expected
