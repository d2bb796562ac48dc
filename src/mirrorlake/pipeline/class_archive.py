"""The class-data archive: Spark's classes as the JVM has them in memory, mapped at a start instead of parsed.

One file per combination of Java, Spark and flags in the user's cache folder, 150 MB, made once: a start takes
2 s instead of 4 to 8. The JVM checks for itself that an archive fits, and goes on without one that does not.
"""

import contextlib
import fcntl
import hashlib
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mirrorlake.cache_folder import user_cache_folder

# An archive that no longer fits is a warning, on stdout, and of no use to anybody: the JVM goes on without.
QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")

_RETRY_SECONDS = 86_400.0  # A JVM that could not write an archive will hardly do so today.


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Returns where this user's archives lie: ``class-archive`` in the user's cache folder.

    For a user without a home that is ``mirrorlake`` in the system's temporary folder.

    Raises:
        ConfigurationError: as `user_cache_folder`.
    """
    try:
        folder = user_cache_folder(environ)
    except RuntimeError:
        folder = Path(tempfile.gettempdir()) / "mirrorlake"
    return folder / "class-archive"


def archive_path(folder: Path, *, java: Path, jars: Path, flags: Sequence[str]) -> Path:
    """Returns the archive's path for one Java, one set of Spark's jars and one set of flags.

    The name changes with everything that the JVM compares (JDK's ``filemap.cpp``: the base image, the class
    path's files by size and time), so an upgrade leads to a new file, not to one that is refused for ever.
    """
    identity = hashlib.sha256()
    home = java.resolve().parent.parent
    for path in (home / "lib" / "modules", home / "release", *sorted(jars.glob("*.jar"))):
        with contextlib.suppress(OSError):
            found = path.stat()
            identity.update(f"{path}\0{found.st_size}\0{found.st_mtime_ns}\n".encode())
    identity.update("\0".join(flags).encode())
    return folder / f"spark-{identity.hexdigest()[:16]}.jsa"


def use_options(archive: Path) -> tuple[str, ...]:
    """Returns JVM options to start with ``archive``; none where there is none that this user may read."""
    if not os.access(archive, os.R_OK):
        return ()
    return (f"-XX:SharedArchiveFile={archive}", "-Xshare:auto")


def make_options(being_written: Path) -> tuple[str, ...]:
    """Returns JVM options to write an archive when the JVM ends in order; that takes some 12 s."""
    return (f"-XX:ArchiveClassesAtExit={being_written}",)


@contextlib.contextmanager
def being_made(archive: Path) -> Iterator[Path | None]:
    """Gives a path to write an archive to, and afterwards puts what was written in place, atomically.

    Gives None where there is nothing to do: another process is at it, a try failed within the last day, the
    archive exists, or the folder cannot be written. What killed makers left behind is removed, and so are
    archives that were made for other versions and not opened for a month.
    """
    marker = archive.with_suffix(".tried")
    with contextlib.ExitStack() as held:
        try:
            archive.parent.mkdir(parents=True, exist_ok=True)
            lock = held.enter_context(marker.open("a"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield None
            return
        if archive.exists() or _was_tried(marker):
            yield None
            return
        _remove_leftovers(archive)
        made = archive.with_suffix(".making")
        lock.write(f"{time.time():.0f}\n")
        lock.flush()
        try:
            yield made
            if made.exists() and made.stat().st_size > 0:
                made.replace(archive)
                marker.unlink(missing_ok=True)
        finally:
            made.unlink(missing_ok=True)


def _was_tried(marker: Path) -> bool:
    found = marker.stat()
    return found.st_size > 0 and time.time() - found.st_mtime < _RETRY_SECONDS


def _remove_leftovers(archive: Path) -> None:
    archive.with_suffix(".making").unlink(missing_ok=True)
    month_ago = time.time() - 30 * 86_400.0
    for other in archive.parent.glob("spark-*.jsa"):
        with contextlib.suppress(OSError):
            if max(other.stat().st_atime, other.stat().st_mtime) < month_ago:
                other.unlink()
