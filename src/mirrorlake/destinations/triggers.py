"""Why a segment was cut. The names are mirror-v3's, so that its users' log queries go on."""

from enum import StrEnum


class Trigger(StrEnum):
    """What ended a segment."""

    RECORDS = "max-offsets"
    BYTES = "max-bytes"
    TIME = "max-time"
    EXPLICIT = "explicit"
    """A graceful stop, or a run with ``--once``: everything there is."""
    ADOPTED = "adopted"
    """Another writer had claimed this end."""
    TRUNCATED = "truncated"
    """The source had deleted what comes next, and `on-truncation: skip` goes on behind it."""
