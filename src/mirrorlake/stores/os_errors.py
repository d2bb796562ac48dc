"""What an ``OSError`` of a store means to us: try again later, or ask somebody to act."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from mirrorlake.errors import ConfigurationError, MirrorlakeError, StoreUnavailableError, StoreUnusableError

_UNUSABLE = {
    errno.EACCES: "give this user the right to read and write there",
    errno.EPERM: "the file system or its mount options forbid it: it needs hard links and write permission",
    errno.EROFS: "mount it writable",
    errno.ENOTDIR: "move the file away: a folder is needed there",
    errno.EEXIST: "move the file away: a folder is needed there",
    errno.EISDIR: "move the folder away: a file is needed there",
    errno.ELOOP: "symbolic links there form a circle",
    errno.EOPNOTSUPP: "the file system has no hard links: use another one",
    errno.ENOSYS: "the file system has no hard links: use another one",
    errno.EMLINK: "the file system has no hard links: use another one",
    errno.EXDEV: "root and its folders must lie on one file system",
}
_FILE_IN_THE_WAY = {errno.ENOTDIR, errno.EEXIST}
_OF_SOCKETS = {errno.ENXIO, errno.ENODEV, errno.EOPNOTSUPP}
"""What opening a socket, or a device that is not there, ends with, here or there."""

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def store_error(error: OSError, path: Path) -> MirrorlakeError:
    """Returns the error of ours that ``error`` means, naming ``path``; raise it ``from`` the original.

    What is not known is taken as passing: the supervisor tries again, visibly, and nothing is lost.
    """
    if error.errno in _FILE_IN_THE_WAY and (in_the_way := file_in_the_way(path)) is not None:
        return in_the_way
    code = error.errno or 0
    name = errno.errorcode.get(code, type(error).__name__)
    message = f"{path}: {os.strerror(code) if code else error} ({name})"
    if code == errno.ENAMETOOLONG:
        return ConfigurationError(message, hint="choose a shorter name for the destination", path=str(path))
    if code in _UNUSABLE:
        return StoreUnusableError(message, hint=_UNUSABLE[code], path=str(path), errno=code)
    hint = "free some space" if code in _FULL else ""
    return StoreUnavailableError(message, hint=hint, path=str(path), errno=code)


def file_in_the_way(folder: Path) -> StoreUnusableError | None:
    """Returns the error of a folder that is, or would lie below, something else than a folder; None where it is not."""
    for path in (*reversed(folder.parents), folder):
        try:
            kind = path.stat().st_mode
        except OSError:
            return None  # whatever is wrong there, it is no file
        if not stat.S_ISDIR(kind):
            what = "a file" if stat.S_ISREG(kind) else "a pipe, a socket or a device"
            return StoreUnusableError(
                f"{path} is {what}, and a folder is needed there",
                hint="name another folder, or move it away",
                path=str(path),
                errno=errno.ENOTDIR,
            )
    return None


def why_not_writable(folder: Path) -> MirrorlakeError | None:
    """Returns why nothing can be made in a folder, or in the one above it that is there; None where nothing says so.

    Asks the system and writes nothing, so it knows what mounts and rights say, and not what a quota or a disk will do.
    """
    there = next((path for path in (folder, *folder.parents) if path.exists()), None)
    if there is None or os.access(there, os.W_OK | os.X_OK):
        return None
    is_read_only = os.statvfs(there).f_flag & os.ST_RDONLY
    return store_error(OSError(errno.EROFS if is_read_only else errno.EACCES, ""), there)


@contextmanager
def os_errors_as_ours(path: Path) -> Iterator[None]:
    """Turns every ``OSError`` raised inside into an error of ours that names ``path``."""
    try:
        yield
    except OSError as error:
        raise store_error(error, path) from error


def open_file(path: Path) -> BinaryIO:
    """Returns a file opened for reading; who opens a pipe would wait for a writer for ever.

    Raises:
        OSError: as of `open`, for a folder too.
        StoreUnusableError: it is a pipe, a socket or a device.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in _OF_SOCKETS:
            raise _no_file(path) from error
        raise
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    raise _no_file(path)


def _no_file(path: Path) -> StoreUnusableError:
    return StoreUnusableError(
        f"{path} is no file, but a pipe, a socket or a device",
        hint="move it away: a file is needed there",
        path=str(path),
    )
