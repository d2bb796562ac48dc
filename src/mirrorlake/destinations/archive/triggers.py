"""Why a segment was cut. The names are mirror-v3's, so that its users' log queries go on."""

from enum import StrEnum


class Trigger(StrEnum):
    """What ended a segment."""

    RECORDS = "max-offsets"
    BYTES = "max-bytes"
    TIME = "max-time"
    DAILY = "daily"
    """The time of day of `flush.daily`: everything that was there then."""
    RETENTION = "retention"
    """The source is about to delete what waits."""
    EXPLICIT = "explicit"
    """A graceful stop, or a run with ``--once``: everything there is."""
    ADOPTED = "adopted"
    """Another writer had claimed this end."""
    TRUNCATED = "truncated"
    """The source had deleted what comes next, and `on-truncation: skip` goes on behind it."""
    REBUILT = "rebuilt"
    """A snapshot whose view was built anew from the log's start, because a tombstone may have been missed."""
