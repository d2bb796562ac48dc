"""Whether a claim that another writer left can be adopted: whether the source has what it claims, and not too much.

A claim is made when its writer has read the records, so its end lies below an end of the source that was seen. It may
lie past the end that is seen now: for a moment after an election, or where this process asks a broker that does not
know yet that it leads no more. So it is looked at again before the partition stops. Where it stays past the end, its
writer had another log, and reading on for it would never end.
"""

from mirrorlake.archive.claims import RECORD_BYTES_MAX, SEGMENT_RAW_BYTES_MAX, RangeClaim
from mirrorlake.errors import ChainBrokenError, ClaimAheadError, Fact, MirrorlakeError
from mirrorlake.offsets import TopicPartition

CLAIM_LOOKS_MAX = 5
"""Leases that find a claim past the source's end before it stays there: some eight seconds, with their pauses."""


def claim_ahead(claim: RangeClaim, *, source: TopicPartition, source_end: int, looks: int) -> MirrorlakeError:
    """Returns the error for a claim past the source's end. Pure.

    Args:
        claim: what it says.
        source: the source partition.
        source_end: its last stable offset, asked for after the claim was read.
        looks: how many leases in a row have found the same.
    """
    message = (
        f"{claim.key}, the claim of {claim.writer}, reaches offset {claim.end_offset}, and source {source} ends at "
        f"{source_end}"
    )
    facts: dict[str, Fact] = {"claim": claim.key, "claimed_end": claim.end_offset, "source_end": source_end}
    if looks < CLAIM_LOOKS_MAX:
        return ClaimAheadError(message, hint="it may be there in a moment: it is looked at again", **facts)
    return ChainBrokenError(
        message,
        hint="the source lost its newest records, or another writer wrote the claim. If the records do not come back: "
        f"stop every writer of this archive, delete {claim.key}, then restart",
        **facts,
    )


def check_claim_size(claim: RangeClaim) -> None:
    """Checks that a claim says no more bytes than a writer of segments may find.

    Raises:
        ChainBrokenError: it says more.
    """
    if claim.raw_bytes > SEGMENT_RAW_BYTES_MAX + RECORD_BYTES_MAX:
        raise claim_too_large(claim, f"it says {claim.raw_bytes}")


def claim_too_large(claim: RangeClaim, found: str) -> ChainBrokenError:
    """Returns the error for a claim that reaches farther than a segment may. Pure."""
    return ChainBrokenError(
        f"{claim.key}, the claim of {claim.writer}, reaches offset {claim.end_offset} and farther than a segment may, "
        f"which ends with the record that brings it to {SEGMENT_RAW_BYTES_MAX} bytes: {found}",
        hint=f"no version of mirrorlake made it: stop every writer of this archive, then delete {claim.key}",
        claim=claim.key,
    )
