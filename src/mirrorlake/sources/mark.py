"""What a lease leaves to the next one, so that it can tell whether the source still is the one that was read."""

from dataclasses import dataclass

from mirrorlake.travelling import travelling

UNKNOWN_EPOCH = -1
"""What brokers and old message formats say that know no leader epochs, and sources that have none."""


@travelling
@dataclass(frozen=True, slots=True, kw_only=True)
class SourceMark:
    """How far a source was read in which leader epoch: all below ``offset`` has ``epoch`` or an earlier one.

    ``leader_epoch`` is the one the source's leader was last asked in about this mark, −1 where it never was. While it
    leads in that epoch its log can only have grown. A source without epochs leaves no marks.
    """

    epoch: int
    offset: int
    leader_epoch: int = UNKNOWN_EPOCH
