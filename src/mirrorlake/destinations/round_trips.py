"""Whether a partition waits for round trips to its broker rather than for bytes, and what larger batches gain. Pure.

A partition has five batches in flight at most, so that over a long way it moves by five batches a round trip, while its
worker has nothing to do. Batches in a row go on as one then, whatever their size, for as long as a worker takes their
records over faster than what is in flight moves anyway.
"""

from mirrorlake.kafka.records.batches import Codec

ROUND_TRIP_SECONDS_MIN = 0.008
"""Nearer brokers answer as late when they are busy, or we are; batches of 128 KiB go there at 80 MB/s a partition."""

COALESCED_BYTES_MAX = 1 << 20
"""As large as brokers let a batch be by default, and consumers count on it (``max.partition.fetch.bytes``)."""

TAKEN_OVER_BYTES_PER_SECOND = {
    Codec.NONE: 1e9,
    Codec.SNAPPY: 250e6,
    Codec.LZ4: 150e6,
    Codec.ZSTD: 50e6,
    Codec.GZIP: 15e6,
}
"""Bytes, as they are stored, of batches of 128 KiB whose records one core takes over into one of seven times the size;
measured, see docs/decisions/0178-far-destinations-get-larger-batches.md."""


def coalesced_bytes(codec: Codec, *, round_trip_seconds: float, in_flight_bytes: int, batch_bytes_max: int) -> int:
    """Returns up to which size batches of a partition that has all in flight it may are coalesced; 0 for as they are.

    Args:
        codec: theirs.
        round_trip_seconds: to the broker and back, the shortest seen; infinite where none was.
        in_flight_bytes: of all partitions of the worker.
        batch_bytes_max: the largest batch the destination takes.
    """
    is_far = ROUND_TRIP_SECONDS_MIN <= round_trip_seconds < float("inf")
    if not is_far or in_flight_bytes >= TAKEN_OVER_BYTES_PER_SECOND[codec] * round_trip_seconds:
        return 0
    # Records number their offsets and times from the batch's first, in more bytes the more of them there are.
    return min(COALESCED_BYTES_MAX, batch_bytes_max) * 7 // 8
