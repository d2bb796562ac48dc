"""Counts the records of a partition, and keeps the count in a file.

Position and count are one file, replaced at once, so that a crash between two lines loses and doubles nothing (laws 1
and 2). Two writers would overwrite one another: it is a toy (law 3).
"""

import json
from pathlib import Path

from mirrorlake.destinations.interface import ENDLESS, Delivery, Progress
from mirrorlake.errors import MirrorlakeError, StoreUnavailableError, StoreUnusableError
from mirrorlake.kafka.records.codec import decode_batches
from mirrorlake.offsets import Gap, GapKind, OffsetRange


def read_tally(file: Path) -> tuple[int, int]:
    """Returns position and records; both 0 where nothing was counted.

    Raises:
        StoreUnusableError: the file holds something else.
    """
    if not file.exists():
        return 0, 0
    try:
        held = json.loads(file.read_text())
        return held["position"], held["records"]
    except (ValueError, LookupError, TypeError) as error:
        raise StoreUnusableError(f"{file} holds no tally", hint="delete it to count again") from error


class TallySink:
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
        """Returns the source offset that is to be delivered next."""
        return self.progress.position

    async def open(self) -> None:
        """Reads the position from the file."""
        self.progress.position, self._records = read_tally(self._file)
        self.failure = None
        if not self.progress.claims:
            self.progress.start_offset = self.progress.position
        self.progress.claims += 1

    async def deliver(self, delivery: Delivery) -> None:
        """Counts the records, and writes count and position at once."""
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
        """Moves the position to where the source's log starts now, and counts what is gone as a gap."""
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
        """Raises what a delivery failed for; nothing is on its way."""
        if self.failure is not None:
            raise self.failure

    async def finish(self) -> None:
        """Ends as `settle` does."""
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
