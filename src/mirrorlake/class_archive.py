"""Class-data archives: a program's classes as the JVM has them in memory, mapped at a start instead of parsed.

One file per combination of Java, jars and flags in the user's cache folder, made once. Spark's takes 150 MB: a start
takes 2 s instead of 4 to 8. The JVM checks for itself that an archive fits, and goes on without one that does not. It
does not check who wrote it, and runs the code in it.
"""

import contextlib
import fcntl
import hashlib
import os
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from mirrorlake.cache_folder import user_cache_folder
from mirrorlake.errors import MirrorlakeError

# An archive that no longer fits is a warning, on stdout, and of no use to anybody: the JVM goes on without.
QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")

# A diagnostic option of HotSpot's; a JVM that does not have it is told to start all the same.
_IN_PLACE = ("-XX:+IgnoreUnrecognizedVMOptions", "-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")
_LOWEST_PRIORITY = 19
_RETRY_SECONDS = 86_400.0  # A JVM that could not write an archive will hardly do so today.
_UNUSED_SECONDS_MAX = 30 * 86_400.0
_UNUSED_SECONDS_MAX_OF_UNKNOWN = 7 * 86_400.0
_ORIGIN = ".for"  # Suffix of a small file beside an archive: what it was made for.


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Returns where this user's archives lie: ``class-archive`` in the user's cache folder.

    For a user without a home that is ``mirrorlake-cache-<uid>`` in the system's temporary folder.

    Raises:
        ConfigurationError: as `user_cache_folder`.
    """
    try:
        folder = user_cache_folder(environ)
    except RuntimeError:
        folder = Path(tempfile.gettempdir()) / f"mirrorlake-cache-{os.getuid()}"
    return folder / "class-archive"


def archive_path(folder: Path, *, java: Path, jars: Path, flags: Sequence[str], program: str = "spark") -> Path:
    """Returns the archive's path for one Java, one set of a program's jars and one set of flags.

    The name changes with everything that the JVM compares (JDK's ``filemap.cpp``: the base image, the class
    path's files by size and time), so an upgrade leads to a new file, not to one that is refused for ever.
    """
    return folder / f"{program}-{_digest(java, jars, flags)}.jsa"


def _digest(java: Path, jars: Path, flags: Sequence[str]) -> str:
    identity = hashlib.sha256()
    home = java.resolve().parent.parent
    for path in (home / "lib" / "modules", home / "release", *sorted(jars.glob("*.jar"))):
        with contextlib.suppress(OSError):
            found = path.stat()
            identity.update(f"{path}\0{found.st_size}\0{found.st_mtime_ns}\n".encode())
    identity.update("\0".join(flags).encode())
    return identity.hexdigest()[:16]


def use_options(archive: Path) -> tuple[str, ...]:
    """Returns JVM options to start with ``archive``; none where there is none that this user may read and trust.

    It is mapped where it was made for. By default newer JVMs map it elsewhere and rewrite every address in it: 54 MB of
    pages that are then this process's alone, and cannot be dropped, instead of the file's.
    """
    if not os.access(archive, os.R_OK) or not is_trusted(archive):
        return ()
    return (f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", *_IN_PLACE)


def make_options(being_written: Path) -> tuple[str, ...]:
    """Returns JVM options to write an archive when the JVM ends in order; that takes some 12 s."""
    return (f"-XX:ArchiveClassesAtExit={being_written}",)


def is_trusted(path: Path) -> bool:
    """Tells whether nobody but this user and root can have put there what is at ``path``, or can exchange it.

    The path and every folder above it, and what symbolic links among them lead to, must belong to one of the two, and
    be writable by nobody else: but for this user's own group, and for folders with the sticky bit, as ``/tmp`` has.
    """
    try:
        return all(_is_ours(part) for whole in (path.absolute(), path.resolve()) for part in (whole, *whole.parents))
    except OSError:
        return False


def _is_ours(path: Path) -> bool:
    found = path.lstat()
    if found.st_uid not in (os.getuid(), 0):
        return False
    if stat.S_ISLNK(found.st_mode) or (stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX):
        return True
    is_own_group = found.st_gid in (os.getgid(), 0)
    return not found.st_mode & (stat.S_IWOTH if is_own_group else stat.S_IWOTH | stat.S_IWGRP)


@contextlib.contextmanager
def being_made(archive: Path, *, java: Path, jars: Path, flags: Sequence[str]) -> Iterator[Path | None]:
    """Gives a path to write an archive to, and afterwards puts what was written in place, atomically.

    Gives None where there is nothing to do: another process is at it, a try failed within the last day, the
    archive exists, or the folder cannot be written, or others can write there too. What killed makers left behind is
    removed, and so are archives of a Java or a virtual environment that is gone or has changed.

    Args:
        archive: as `archive_path` names it.
        java: the ``java`` program it is made for.
        jars: the folder of the program's jars it is made for.
        flags: the JVM's.
    """
    marker = archive.with_suffix(".tried")
    with contextlib.ExitStack() as held:
        try:
            _make_folder(archive.parent)
            lock = held.enter_context(marker.open("a"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield None
            return
        _remove_stale(archive)
        if archive.exists() or _was_tried(marker):
            yield None
            return
        made = archive.with_suffix(".making")
        made.unlink(missing_ok=True)
        lock.write(f"{time.time():.0f}\n")
        lock.flush()
        try:
            yield made
            if made.exists() and made.stat().st_size > 0:
                archive.with_suffix(_ORIGIN).write_text("\n".join([str(java), str(jars), *flags]))
                made.replace(archive)
                marker.unlink(missing_ok=True)
        finally:
            made.unlink(missing_ok=True)


def run_maker(make: Callable[[], Path | None]) -> int:
    """Runs the body of a maker's process at the lowest priority, and prints the path of what it made.

    Args:
        make: makes the archive, where there is none; None where it could not.

    Returns:
        The process' exit code: 1 where there is no archive.
    """
    os.nice(_LOWEST_PRIORITY)
    try:
        made = make()
    except MirrorlakeError as error:
        print(error, file=sys.stderr)
        return 1
    if made is None:
        print("no class-data archive was made: all works without one, and starts more slowly", file=sys.stderr)
        return 1
    print(made)
    return 0


def _was_tried(marker: Path) -> bool:
    found = marker.stat()
    return found.st_size > 0 and time.time() - found.st_mtime < _RETRY_SECONDS


def _make_folder(folder: Path) -> None:
    """Makes the folder and those above it that are missing, for this user alone.

    Raises:
        OSError: it cannot be made, or others can write there.
    """
    for missing in [each for each in (folder, *folder.parents) if not each.exists()][::-1]:
        with contextlib.suppress(FileExistsError):
            missing.mkdir(mode=0o700)
    if not is_trusted(folder):
        raise PermissionError(f"others can write to {folder}")


def _remove_stale(archive: Path) -> None:
    """Removes other archives of its program that nobody will take any more, as far as can be told."""
    for other in archive.parent.glob(f"{_program(archive)}-*.jsa"):
        with contextlib.suppress(OSError):
            if other != archive and _is_stale(other):
                other.unlink()
                other.with_suffix(_ORIGIN).unlink(missing_ok=True)


def _is_stale(archive: Path) -> bool:
    """True where what it was made for is gone or has changed, or where nobody has opened it for a month.

    Of one that does not say what it was made for, as older versions left them, for a week.
    """
    found = archive.stat()
    unused_seconds = time.time() - max(found.st_atime, found.st_mtime)
    try:
        java, jars, *flags = archive.with_suffix(_ORIGIN).read_text().split("\n")
    except FileNotFoundError:
        return unused_seconds > _UNUSED_SECONDS_MAX_OF_UNKNOWN
    if unused_seconds > _UNUSED_SECONDS_MAX:
        return True
    program = _program(archive)
    return archive_path(archive.parent, java=Path(java), jars=Path(jars), flags=flags, program=program) != archive


def _program(archive: Path) -> str:
    return archive.name.partition("-")[0]
