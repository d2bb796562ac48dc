"""The toy kind of `docs/contributing.md`: counts the records of a partition, and keeps the count in a file.

Position and count are one file, replaced at once, so that a crash between two lines loses and doubles nothing (laws 1
and 2). Two writers would overwrite one another: it is a toy (law 3).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from mirrorlake.config.resolved import Destination
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.interface import ENDLESS, Delivery, Progress
from mirrorlake.destinations.work import DestinationWork, SinkContext
from mirrorlake.errors import MirrorlakeError, StoreUnavailableError, UnsupportedError
from mirrorlake.kafka.records.codec import decode_batches
from mirrorlake.kinds.copies import CopySide
from mirrorlake.kinds.kind import Kind
from mirrorlake.kinds.standing import Position, Sample, Standing
from mirrorlake.offsets import Gap, GapKind, OffsetRange
from mirrorlake.topics.targets import Target


def read_count(file: Path) -> tuple[int, int]:
    """Returns position and records; both 0 where nothing was counted."""
    if not file.exists():
        return 0, 0
    held = json.loads(file.read_text())
    return held["position"], held["records"]


class CountingSink:
    """Counts what is delivered; a delivery is safe when `deliver` returns."""

    is_endless = True
    needs_encoder = False
    reads_alone = False
    has_room = True
    wanted_end = ENDLESS
    is_done = False
    is_settled = True

    def __init__(self, file: Path) -> None:
        self.progress = Progress()
        self.failure: MirrorlakeError | None = None
        self._file = file
        self._records = 0

    @property
    def next_offset(self) -> int:
        return self.progress.position

    async def open(self) -> None:
        self.progress.position, self._records = read_count(self._file)
        self.failure = None
        if not self.progress.claims:
            self.progress.start_offset = self.progress.position
        self.progress.claims += 1

    async def deliver(self, delivery: Delivery) -> None:
        end = delivery.covered.end_offset
        data = [item.batch for item in delivery.batches if item.path != "skip"]
        found = len(decode_batches(data, start_offset=self.next_offset, end_offset=end).offsets)
        self._write(end, self._records + found)
        gaps = end - self.progress.position - found
        if gaps:
            self.progress.gap_offsets[GapKind.ABSENT.value] += gaps
        self._records += found
        self.progress.records += found
        self.progress.position = end

    async def starts_at(self, log_start: int) -> bool:
        gone = OffsetRange(start_offset=self.next_offset, end_offset=log_start)
        self._write(log_start, self._records)
        self.progress.add_gap(Gap(offsets=gone, kind=GapKind.TRUNCATED))
        self.progress.position = log_start
        return True

    async def stands(self) -> bool:
        """Never asked."""
        return False

    def drop_unsent(self) -> None:
        """Nothing waits."""

    async def end_encoding(self) -> None:
        """Nothing is encoded."""

    async def settle(self) -> None:
        if self.failure is not None:
            raise self.failure

    async def finish(self) -> None:
        await self.settle()

    def abandon(self) -> None:
        """Nothing is held."""

    def _write(self, position: int, records: int) -> None:
        staged = self._file.with_name(f"_{self._file.name}")
        try:
            staged.write_text(json.dumps({"position": position, "records": records}))
            staged.replace(self._file)
        except OSError as error:
            self.failure = StoreUnavailableError(f"{self._file} could not be written: {error}")
            raise self.failure from error


@dataclass(frozen=True, slots=True, kw_only=True)
class CountingWork(DestinationWork):
    """A file that counts one source partition."""

    is_live: ClassVar[bool] = True

    file: Path

    @property
    def skips_truncated(self) -> bool:
        return True

    def make_sink(self, context: SinkContext) -> CountingSink:
        del context
        return CountingSink(self.file)


class CountingKind(Kind):
    """Counts in a folder."""

    work_type: ClassVar[type[DestinationWork]] = CountingWork

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def takes(self, destination: Destination) -> bool:
        return destination.label == "counts"

    def work(self, target: Target, *, writer: str) -> CountingWork:
        del writer
        return CountingWork(destination=target.destination.label, file=self._file(target))

    def copy_side(self, row: Standing) -> CopySide:
        raise UnsupportedError(f"{row.target.destination.label} holds a count, and no record to compare")

    async def positions(self, targets: Mapping[int, Target], clients: WorkerCache) -> Mapping[int, Position]:
        del clients
        return {number: Position(offset=read_count(self._file(target))[0]) for number, target in targets.items()}

    def place(self, target: Target) -> str:
        return str(self._file(target))

    def refusal(self, row: Standing) -> None:
        del row

    def notes(self, row: Standing, *, is_new: bool) -> Sequence[str]:
        del row, is_new
        return ()

    def warnings(self, target: Target, sample: Sample, *, now_ms: int) -> Sequence[str]:
        del target, sample, now_ms
        return ()

    def _file(self, target: Target) -> Path:
        return self._folder / f"{target.source}.json"
