"""The one place that decides what an error means: try again at once, try again later, park, or end.

Everybody else reports errors; nobody else retries.
"""

from enum import StrEnum

from mirrorlake.errors import (
    MirrorlakeError,
    OutcomeUnknownError,
    PermanentError,
    PositionMovedError,
    SizeRefusedError,
    SupersededError,
)

CLAIMS_PER_LEASE_MAX = 8
"""Lost races in one lease before the partition waits for the next: two writers then share, rather than spin."""

BACK_OFF_SECONDS_FIRST = 0.25
BACK_OFF_SECONDS_MAX = 30.0


class Decision(StrEnum):
    """What happens to a partition after an error."""

    CLAIM_AGAIN = "claim-again"
    """Within the lease: read the destination, and go on from there."""
    BACK_OFF = "back-off"
    """Leave it out of the next leases for a while, growing and bounded."""
    PARK = "park"
    """Leave it out until somebody acts."""
    END = "end"
    """The process must end: somebody else owns the mirror now."""


def within_lease(error: MirrorlakeError, *, claims: int) -> Decision:
    """Returns what a task does about ``error`` after ``claims`` claims in this lease.

    A lost race and a lost answer are settled by reading the destination again (law 7), and so is a batch that was
    refused for its size; everything else ends the partition's part of the lease.
    """
    if isinstance(error, PositionMovedError | OutcomeUnknownError | SizeRefusedError) and claims < CLAIMS_PER_LEASE_MAX:
        return Decision.CLAIM_AGAIN
    return between_leases(error)


def between_leases(error: MirrorlakeError) -> Decision:
    """Returns what the driver does about an error that ended a partition's part of a lease."""
    if isinstance(error, SupersededError):
        return Decision.END
    if isinstance(error, PermanentError):
        return Decision.PARK
    # Transient ones, and anything that has no class of its own: waiting loses nothing.
    return Decision.BACK_OFF


def back_off_seconds(failures: int) -> float:
    """Returns how long to wait after ``failures`` failures in a row (at least 1): doubling, bounded."""
    return min(BACK_OFF_SECONDS_MAX, BACK_OFF_SECONDS_FIRST * 2.0 ** min(failures - 1, 16))
