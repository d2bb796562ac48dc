"""What it takes to fill a gap, before it is filled. Pure."""

from mirrorlake.offsets import GapFill

MARKER_SECONDS = 0.004
"""One transaction that writes nothing: two requests to the coordinator, and the wait for its marker."""

FILLER_SECONDS_PER_OFFSET = 0.15e-6
"""One offset of a filler batch: encoded here, checked by the broker."""

FILLER_BYTES_PER_OFFSET = 0.9
"""What an empty record takes in a filler batch, compressed."""

_SHORT_FILLER_RECORDS = 1000
_SHORT_FILLER_BYTES, _SHORT_FILLER_BYTES_PER_OFFSET = 140, 1.125
"""What a filler batch of so many records at most takes, whole and for each record: more than one of a long one."""

FILLER_OFFSETS_MAX = 500_000
"""Offsets of one filling transaction: below a broker's default ``max.message.bytes``, and built in less than
a tenth of a second."""


def fill_seconds(offsets: int, gap_fill: GapFill) -> float:
    """Returns about how long it takes to fill ``offsets`` offsets of one partition; infinite where gaps are refused.

    Gaps of many partitions of a shard that lie open at the same time are filled together, in the time of the longest.
    """
    if gap_fill is GapFill.REFUSE:
        return float("inf") if offsets else 0.0
    if gap_fill is GapFill.MARKERS:
        return offsets * MARKER_SECONDS
    transactions = -(-offsets // FILLER_OFFSETS_MAX)
    return transactions * MARKER_SECONDS + offsets * FILLER_SECONDS_PER_OFFSET


def filler_records(offsets: int, *, batch_bytes_max: int) -> int:
    """Returns how many records the next filling transaction writes, to cover as much of ``offsets`` as one may.

    Its marker covers one offset more. 0 where the marker alone is enough.
    """
    fits = int((batch_bytes_max - 1024) / FILLER_BYTES_PER_OFFSET)
    short = int((batch_bytes_max - _SHORT_FILLER_BYTES) / _SHORT_FILLER_BYTES_PER_OFFSET)
    fits = max(fits, min(short, _SHORT_FILLER_RECORDS))
    return max(0, min(offsets, FILLER_OFFSETS_MAX, fits) - 1)
