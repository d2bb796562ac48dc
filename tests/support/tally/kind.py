"""What the driver asks of a folder of counts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.work import DestinationWork
from mirrorlake.errors import MirrorlakeError, UnsupportedError
from mirrorlake.kinds.copies import CopySide
from mirrorlake.kinds.kind import Kind
from mirrorlake.kinds.standing import Position, Sample, Standing
from mirrorlake.topics.targets import Target
from support.tally.section import TallyDestination
from support.tally.sink import read_tally
from support.tally.work import TallyWork


class TallyKind(Kind):
    """Counts in a folder."""

    work_type: ClassVar[type[DestinationWork]] = TallyWork

    def work(self, target: Target, *, writer: str) -> TallyWork:
        """Returns the file that a lease counts into; nobody's name is in it."""
        del writer
        return TallyWork(destination=target.destination.label, file=file_of(target))

    def copy_side(self, row: Standing) -> CopySide:
        """Refuses, as a count holds no record to compare."""
        raise UnsupportedError(f"{row.target.destination.label} holds a count, and no record to compare")

    async def positions(
        self, targets: Mapping[int, Target], clients: WorkerCache
    ) -> Mapping[int, Position | MirrorlakeError]:
        """Returns where each partition stands, as its file says."""
        del clients
        return {number: position_of(target) for number, target in targets.items()}

    def place(self, target: Target) -> str:
        """Returns the path of the file."""
        return str(file_of(target))

    def refusal(self, row: Standing) -> None:
        """Refuses nothing."""
        del row

    def notes(self, row: Standing, *, is_new: bool) -> Sequence[str]:
        """Returns which offsets the source has deleted before they were counted."""
        del is_new
        start, source_start = row.position, row.source_start
        if start is None or source_start is None or source_start <= start:
            return ()
        return [f"offsets {start}…{source_start - 1} are gone at the source and not counted"]

    def warnings(self, target: Target, sample: Sample, *, now_ms: int) -> Sequence[str]:
        """Warns of nothing."""
        del target, sample, now_ms
        return ()


def position_of(target: Target) -> Position | MirrorlakeError:
    """Returns where a partition stands, or why that is not known: one that is damaged stops no other."""
    try:
        return Position(offset=read_tally(file_of(target))[0])
    except MirrorlakeError as error:
        return error


def file_of(target: Target) -> Path:
    """Returns the file of a partition."""
    assert isinstance(target.destination, TallyDestination)
    return target.destination.folder / f"{target.destination_topic}-{target.source.partition}.json"
