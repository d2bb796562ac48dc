"""Where one source partition stands at one destination, as it was read. Values."""

from dataclasses import dataclass

from mirrorlake.destinations.map.progress import MapProgress
from mirrorlake.errors import MirrorlakeError, RouteChangedError
from mirrorlake.topics.targets import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedPosition:
    """Where a partition's records are at a destination that gives them offsets of its own.

    It was copied from ``start_offset`` on, into ``destination_partition``. Without progress that is where it would
    begin now. ``progress`` is what was read, None where there is none. ``route_error`` says that it does not go on by
    the route of now; None where it does.
    """

    start_offset: int
    destination_partition: int
    progress: MapProgress | None = None
    route_error: RouteChangedError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The next source offset a destination needs; ``mapped`` where its offsets are others than the source's."""

    offset: int
    mapped: MappedPosition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One source partition at one destination. Offsets are None where they could not be read.

    ``mapped`` says more of a destination whose offsets are mapped; None for any other.
    """

    target: Target
    source_start: int | None = None
    source_end: int | None = None
    position: int | None = None
    mapped: MappedPosition | None = None
    error: MirrorlakeError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What two batches of a source partition say of all of it.

    ``oldest_ms`` is a timestamp of the first batch, its first record's if it says that, None where there is none;
    ``newest_ms`` likewise of the last batch. ``stored_bytes`` is how large the files are that hold what is to be there,
    None where the source has none, or does not say.
    ``is_transactional`` is True where one of the two was written in a transaction, or is a marker: the partition's
    offsets have gaps then.
    ``error`` is why they could not be read, and nothing is known; None also where nothing was to be read.
    """

    oldest_ms: int | None = None
    newest_ms: int | None = None
    stored_bytes: int | None = None
    is_transactional: bool = False
    error: MirrorlakeError | None = None
