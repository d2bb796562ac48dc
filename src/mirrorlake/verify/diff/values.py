"""What is compared, and what is found: values that mean the same on both sides, called A and B."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from mirrorlake.errors import MirrorlakeError
from mirrorlake.offsets import OffsetRange

LAST_END = 2**63 - 1
"""Above every offset."""


class Result(StrEnum):
    """What a comparison says of one partition."""

    EQUAL = "equal"
    EXPLAINED = "explained"
    """Retention, erasure or the log cleaner has taken on one side what the other has; all else is equal."""
    DIFFERS = "differs"
    EMPTY = "empty"
    """Nothing could be compared: no offset is held by both, or none of those asked for."""
    UNKNOWN = "unknown"
    """A side could not be read, in part or as a whole, and no difference was found in the rest."""


class How(StrEnum):
    """In which way the sides differ at an offset."""

    ONLY_A = "only-a"
    ONLY_B = "only-b"
    DIFFERENT = "different"
    """Both have a record there, not the same one."""
    GAP = "gap"
    """Neither has a record there, and they say different reasons."""


class Why(StrEnum):
    """What is known of why one side has no record. A gap's kind, or one of these."""

    RETIRED = "retired"
    """Retention has taken it."""
    CLEANED = "cleaned"
    """The log cleaner has taken it: it is a tombstone, or a later record of its key is there."""
    ERASED = "erased"
    """`archive erase` has taken it."""
    BEYOND = "beyond"
    """It lies behind the side's end."""


EXPLAINING = frozenset({Why.RETIRED.value, Why.CLEANED.value, Why.ERASED.value})
"""Reasons for which a record that one side has may be missing on the other."""


class Difference(NamedTuple):
    """A run of offsets at which the sides differ in one way for one reason.

    ``records`` counts the records in it; of gaps, and of what was not read, it is 0. ``why`` is empty where a side does
    not say. Between the first and the last record of a run lies none that both sides have.
    """

    offsets: OffsetRange
    records: int
    how: How
    why: str = ""

    @property
    def is_explained(self) -> bool:
        """True where no record is missing that should be there."""
        return self.how is How.GAP or self.why in EXPLAINING


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """Offsets of one side of which nothing is known, and why; up to `LAST_END` where no end is known."""

    offsets: OffsetRange
    error: MirrorlakeError
