"""The short-lived folder of one session: sockets of the Python workers, Spark's temporary files.

Spark removes its own temporary files only when its JVM ends in peace. A session's folder is held by a file
lock, so what a killed process left is found, by any later session, and removed.
"""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from types import TracebackType

FOLDER_BYTES_MAX = 60
"""A socket's path may have 107 bytes (``sun_path``, unix(7), less a NUL; macOS 103), Spark's names 43."""

_LOCK_NAME = "owner.lock"


class RunFolder:
    """A folder of this process alone, short enough to hold Unix-domain sockets, removed by :meth:`close`.

    Args:
        parents: where to put it, the first that is writable and short enough wins.
    """

    def __init__(self, parents: tuple[Path, ...] | None = None) -> None:
        parents = parents or (Path(tempfile.gettempdir()), Path("/tmp"))
        prefix = f"mirrorlake-{os.getuid()}-"
        for parent in dict.fromkeys(parents):
            _sweep(parent, prefix)
        self.path = _make_short_folder(parents, prefix)
        self._lock = (self.path / _LOCK_NAME).open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def close(self) -> None:
        """Removes the folder with everything in it. Idempotent."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()

    def __enter__(self) -> "RunFolder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _make_short_folder(parents: tuple[Path, ...], prefix: str) -> Path:
    refused = []
    for parent in dict.fromkeys(parents):
        # mkdtemp adds eight characters.
        if len(os.fsencode(parent)) + 1 + len(prefix) + 8 > FOLDER_BYTES_MAX:
            refused.append(f"{parent}: path too long for sockets")
            continue
        try:
            return Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        except OSError as error:
            refused.append(f"{parent}: {error.strerror}")
    raise OSError("no folder for the sockets of Spark's Python workers: " + "; ".join(refused))


def _sweep(parent: Path, prefix: str) -> None:
    """Removes folders whose owner is gone: nobody holds their lock."""
    for folder in parent.glob(prefix + "*"):
        try:
            with (folder / _LOCK_NAME).open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            # In use, somebody else's, or so young that its lock is not there yet: leave it.
            continue
