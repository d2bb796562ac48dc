"""The short-lived folder of one session: sockets of the Python workers, Spark's temporary files.

Spark removes its own temporary files only when its JVM ends in peace. A session's folder is locked while it lives, the
folder itself and not a file in it, which somebody might remove. So what a killed process left is found, by any later
session, and removed.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

FOLDER_BYTES_MAX = 60
"""A socket's path may have 107 bytes (``sun_path``, unix(7), less a NUL; macOS 103), Spark's names 43."""

SWEPT_AFTER_SECONDS = 60.0
"""A folder that nobody holds may be about to be locked by who has just made it."""

_TRIES_MAX = 10
_OLD_LOCK_NAME = "owner.lock"
"""What sessions of versions before this one held."""
_OLD_START_PREFIX = "mirrorlake-start-"
_OLD_START_SECONDS = 3600.0
"""Such versions had another folder while a JVM started, and left it behind when they were killed meanwhile."""


class RunFolder:
    """A folder of this process alone, short enough to hold Unix-domain sockets, removed by :meth:`close`.

    Args:
        parents: where to put it, the first that is writable and short enough wins.
        name: how the names of all folders of its sort begin; those that killed processes left are removed.
        bytes_max: of its path; by default what leaves room for sockets.
    """

    def __init__(
        self,
        parents: tuple[Path, ...] | None = None,
        *,
        name: str = "mirrorlake",
        bytes_max: int = FOLDER_BYTES_MAX,
    ) -> None:
        parents = parents or (Path(tempfile.gettempdir()), Path("/tmp"))
        prefix = f"{name}-{os.getuid()}-"
        for parent in dict.fromkeys(parents):
            _sweep(parent, prefix)
        self.path, self._lock = _make_locked_folder(parents, prefix, bytes_max)

    def close(self) -> None:
        """Removes the folder with everything in it. Idempotent."""
        if self._lock is None:
            return
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)
        self._lock = None

    def __enter__(self) -> "RunFolder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _make_locked_folder(parents: tuple[Path, ...], prefix: str, bytes_max: int) -> tuple[Path, int | None]:
    """Returns a new folder and the descriptor that holds its lock.

    Between being made and being locked it may have been swept, where this process was stopped for a minute there:
    hence the look whether what is locked still is what the path names.
    """
    for _ in range(_TRIES_MAX):
        path = _make_short_folder(parents, prefix, bytes_max)
        with contextlib.ExitStack() as on_failure, contextlib.suppress(FileNotFoundError):
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            on_failure.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(lock), path.stat()):
                on_failure.pop_all()
                return path, lock
    raise OSError(f"folders named {prefix}… vanish as soon as they are made, in: {', '.join(map(str, parents))}")


def _make_short_folder(parents: tuple[Path, ...], prefix: str, bytes_max: int) -> Path:
    refused = []
    for parent in dict.fromkeys(parents):
        # mkdtemp adds eight characters.
        if len(os.fsencode(parent)) + 1 + len(prefix) + 8 > bytes_max:
            refused.append(f"{parent}: path too long for sockets")
            continue
        try:
            return Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        except OSError as error:
            refused.append(f"{parent}: {error.strerror}")
    raise OSError("no folder for the sockets of Spark's Python workers: " + "; ".join(refused))


def _sweep(parent: Path, prefix: str) -> None:
    """Removes folders whose owner is gone: nobody holds their lock, and they are no newer than a minute."""
    for folder in parent.glob(prefix + "*"):
        # In use, somebody else's, or removed meanwhile: leave it.
        with contextlib.suppress(OSError), _held_if_free(folder):
            if _seconds_since_change(folder) > SWEPT_AFTER_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)
    for folder in parent.glob(_OLD_START_PREFIX + "*"):
        with contextlib.suppress(OSError):
            is_ours = folder.lstat().st_uid == os.getuid()
            if is_ours and _seconds_since_change(folder) > _OLD_START_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _held_if_free(folder: Path) -> Iterator[None]:
    """Holds a folder's lock, and the file that older versions locked where it is there.

    Raises:
        OSError: somebody else holds one of them, or may not be asked.
    """
    with contextlib.ExitStack() as held:
        for path, flags in ((folder, os.O_DIRECTORY), (folder / _OLD_LOCK_NAME, 0)):
            try:
                lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | flags)
            except FileNotFoundError:
                continue
            held.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _seconds_since_change(folder: Path) -> float:
    return time.time() - folder.lstat().st_mtime
