"""Asks a lease that runs to end before its time, where its worker sees the files of this machine."""

import contextlib
from pathlib import Path


class Recalls:
    """One file for each lease that was recalled: nothing else of the driver reaches a task that runs.

    A wish and no more: a lease that does not see it runs for its time, as one on another machine does.

    Args:
        folder: where the files lie, of this process alone; None where workers run elsewhere.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    @property
    def reach_workers(self) -> bool:
        """Whether a lease can be recalled at all."""
        return self._folder is not None

    def file_of(self, lease: int) -> str:
        """Returns the path whose existence recalls the lease of that number; empty where none would be seen."""
        return "" if self._folder is None else str(self._folder / f"recall-{lease}")

    def recall(self, lease: int) -> None:
        """Asks the lease to end now. Idempotent."""
        if file := self.file_of(lease):
            # A folder that is full or gone costs the lease's rest, nothing else.
            with contextlib.suppress(OSError):
                Path(file).touch()

    def forget(self, lease: int) -> None:
        """Removes the file of a lease that has ended. Idempotent."""
        if file := self.file_of(lease):
            with contextlib.suppress(OSError):
                Path(file).unlink(missing_ok=True)
