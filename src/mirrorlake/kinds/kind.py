"""What the driver may ask of a kind of destination.

A kind has two sides. The lease's is a folder of ``destinations/``: a work, and the sink it makes. The driver's is a
module beside this one. The row of its type names it (`config.destinations.registry`); nobody else asks of what kind a
destination is.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from mirrorlake.config.destinations.destination import Destination
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.work import DestinationWork
from mirrorlake.errors import MirrorlakeError, UnsupportedError
from mirrorlake.kinds.copies import CopySide
from mirrorlake.kinds.standing import Position, Sample, Standing
from mirrorlake.mirror.due import FlushRule
from mirrorlake.mirror.flush_clock import FlushClock
from mirrorlake.topics.targets import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a look at a destination partition has found.

    ``is_new`` is True where it holds nothing of a copy yet: it is empty, or being filled up to the source's log start.
    ``error`` is why a lease would append nothing, None where it would. ``held_until_ms`` is the source's time of the
    newest record it was seen to hold, None where that is not known.
    """

    is_new: bool = False
    held_until_ms: int | None = None
    error: MirrorlakeError | None = None


class Kind(ABC):
    """One kind of destination, without state; every method is told the target or where it stands."""

    work_type: ClassVar[type[DestinationWork]]
    """What `work` returns; unpickling a plan imports its module, and the sink's."""

    holds_view: ClassVar[bool] = False
    """Whether it keeps the newest record of each key, and no offsets in between."""

    holds_segments: ClassVar[bool] = False
    """Whether it is a folder of segments: their chain says where it stands, and markers beside it what was there."""

    # --- run ----------------------------------------------------------------------------------------------

    def takes(self, destination: Destination) -> bool:
        """Returns whether a configured destination of its type is of this kind, unless one before it in the row is."""
        del destination
        return True

    @abstractmethod
    def work(self, target: Target, *, writer: str) -> DestinationWork:
        """Returns what a lease is told, as far as the configuration and the clusters' metadata say it.

        Args:
            target: where it goes.
            writer: what this process calls itself in claims and files.
        """

    def flush_rule(self, target: Target) -> FlushRule | None:
        """Returns when a segment is cut; None where every lease copies what there is."""
        del target
        return None

    def flush_clock(self, target: Target) -> FlushClock:
        """Returns what keeps the times of `flush_rule`, and what the source keeps."""
        return FlushClock(retention=target.source_retention)

    def segment_bytes_max(self, destination: Destination) -> int | None:
        """Returns the most bytes of a segment that shares its reads with other destinations; None where none does."""
        del destination
        return None

    def preload(self, destination: Destination) -> tuple[str, ...]:
        """Returns the modules that workers load before their first lease, beyond what every worker loads."""
        del destination
        return (self.work_type.__module__,)

    # --- status -------------------------------------------------------------------------------------------

    @abstractmethod
    async def positions(
        self, targets: Mapping[int, Target], clients: WorkerCache
    ) -> Mapping[int, Position | MirrorlakeError]:
        """Returns where targets stand, by their numbers; one that cannot be asked is left out. Reads only."""

    @abstractmethod
    def place(self, target: Target) -> str:
        """Returns where the copy goes, as a reader of `plan` may look it up."""

    def immovable(self, target: Target) -> MirrorlakeError | None:
        """Returns why the position cannot be moved by hand, and what to do instead; None where it can.

        Where what is copied tells the position, it moves with the copy alone.
        """
        return UnsupportedError(
            f"the position of {target.source} at {target.destination.label} is what the copy holds, and is not moved",
            hint="it moves with the copy alone",
        )

    # --- plan ---------------------------------------------------------------------------------------------

    async def looks(self, rows: Mapping[int, Standing], clients: WorkerCache, *, at_once: int) -> Mapping[int, Look]:
        """Returns what a lease would find before its first effect, by number; rows not looked at are left out.

        Reads only, by the functions a lease looks by.

        Args:
            rows: those of this kind, without an error.
            clients: of all clusters.
            at_once: how many partitions may be read side by side.
        """
        del rows, clients, at_once
        return {}

    def why_not_writable(self, target: Target) -> MirrorlakeError | None:
        """Returns why this user cannot write there, as far as that shows without writing; may wait for a disk."""
        del target
        return None

    def needed_rights(self, row: Standing) -> Mapping[str, tuple[str, ...]]:
        """Returns the operations needed on topics of the destination cluster, by topic; none where it is no cluster."""
        del row
        return {}

    def wants_sample(self) -> bool:
        """Returns whether `warnings` make use of what the source partition's first and last batch say."""
        return False

    @abstractmethod
    def refusal(self, row: Standing) -> MirrorlakeError | None:
        """Returns why a lease would copy nothing where the source has deleted what comes next, and that may be skipped.

        Args:
            row: whose source begins past its position.
        """

    @abstractmethod
    def notes(self, row: Standing, *, is_new: bool) -> Sequence[str]:
        """Returns what is to be said of a partition that would be copied: what becomes of offsets that are gone."""

    @abstractmethod
    def warnings(self, target: Target, sample: Sample, *, now_ms: int) -> Sequence[str]:
        """Returns what its owner should know before it is copied; empty where nothing stands in its way."""

    # --- verify -------------------------------------------------------------------------------------------

    @abstractmethod
    def copy_side(self, row: Standing) -> CopySide:
        """Returns where the copied records are read, to be compared with the source's; asks nobody.

        Raises:
            MirrorlakeError: it holds nothing that can be compared; `verify` says so.
        """

    def keeps_times(self, target: Target) -> bool:
        """Returns whether copied records have the times they have at the source."""
        del target
        return True

    def floor(self, target: Target) -> int:
        """Returns the offset below which the copy may lack what the source has, as retention of ours took it.

        Raises:
            MirrorlakeError: it cannot be read.
        """
        del target
        return 0

    def check_names(self, target: Target) -> None:
        """Checks what names alone tell of the whole copy; nothing where they tell nothing.

        Raises:
            MirrorlakeError: something is wrong with it.
        """
        del target

    def check_content(self, target: Target) -> None:
        """Checks what the copy says of itself against its bytes; nothing where it says nothing.

        Raises:
            MirrorlakeError: something is wrong with it.
        """
        del target

    # --- what run would delete ----------------------------------------------------------------------------

    def removals(self, target: Target, *, now_ms: int) -> Sequence[str]:
        """Returns what `run` would delete of what is there; reads the store, and may wait for it."""
        del target, now_ms
        return ()
