"""What the driver and a lease that runs tell one another, where workers see the files of this machine."""

import contextlib
from pathlib import Path

from mirrorlake.mirror.lease_message import hidden_file_of


class LeaseFiles:
    """Three files for each lease: one recalls it, one lets it go on, and in one it tells how far it is.

    Nothing else passes meanwhile. A recall is a wish and no more: a lease that does not see it runs for its time, as
    one on another machine does.

    Args:
        folder: where the files lie, of this process alone; None where workers run elsewhere.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    @property
    def reach_workers(self) -> bool:
        """Whether a lease can be recalled at all, and tell anything before it ends."""
        return self._folder is not None

    def recall_file_of(self, lease: int) -> str:
        """Returns the path whose existence recalls the lease of that number; empty where none would be seen."""
        return "" if self._folder is None else str(self._folder / f"recall-{lease}")

    def progress_file_of(self, lease: int) -> str:
        """Returns the path where the lease of that number tells its progress; empty where nobody could read it."""
        return "" if self._folder is None else str(self._folder / f"progress-{lease}")

    def renewal_file_of(self, lease: int) -> str:
        """Returns the path where the lease of that number finds until when it may go on; empty where it cannot."""
        return "" if self._folder is None else str(self._folder / f"renewal-{lease}")

    def recall(self, lease: int) -> None:
        """Asks the lease to end now. Idempotent."""
        if file := self.recall_file_of(lease):
            # A folder that is full or gone costs the lease's rest, nothing else.
            with contextlib.suppress(OSError):
                Path(file).touch()

    def forget(self, lease: int) -> None:
        """Removes the files of a lease that has ended, and what was left of writing them. Idempotent."""
        for file in (self.recall_file_of(lease), self.progress_file_of(lease), self.renewal_file_of(lease)):
            if file:
                for each in (file, hidden_file_of(file)):
                    with contextlib.suppress(OSError):
                        Path(each).unlink(missing_ok=True)
