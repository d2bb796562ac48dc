"""A file on its way to its name: written apart from it, see ``staging``, then linked.

Who owns a staged file is told by a lock on it, not by a process id: the kernel lets go of the lock the moment
the writer dies, however it dies, and a process id may come to mean somebody else.
"""

import contextlib
import errno
import fcntl
import os
import shutil
from pathlib import Path
from typing import BinaryIO, cast

from mirrorlake.stores.crash_points import CrashPoint
from mirrorlake.stores.descriptor_file import DescriptorFile
from mirrorlake.stores.object_store import ObjectExistsError, check_key
from mirrorlake.stores.os_errors import open_file, os_errors_as_ours, store_error

_COPY_BYTES = 4 << 20


class StagedFile:
    """One staged file, locked by this process until it is published, discarded, or the process ends."""

    def __init__(self, path: Path, descriptor: int, *, target: Path, crash_point: CrashPoint) -> None:
        self._path = path
        self._target = target
        self._crash_point = crash_point
        self._file: DescriptorFile | None = DescriptorFile(descriptor, path)

    @classmethod
    def open(cls, folder: Path, name: str, *, target: Path, crash_point: CrashPoint) -> "StagedFile":
        """Makes the file in ``folder`` and locks it; it is to be published in the folder ``target``."""
        crash_point("make the staged file")
        path = folder / name
        return cls(path, _create_locked(path), target=target, crash_point=crash_point)

    @property
    def file(self) -> BinaryIO:
        """Takes the content; unbuffered, so write in large pieces."""
        assert self._file is not None, "staged object used after publish or discard"
        return cast("BinaryIO", self._file)

    def reread(self) -> BinaryIO:
        """Returns what was written; see `StagedObject.reread`."""
        assert self._file is not None, "staged object used after publish or discard"
        return open_file(self._path)

    def publish(self, key: str) -> None:
        """Makes the content durable and links it to its name; see `StagedObject.publish`.

        Order of effects: 1. fsync the file; 2. link its name; 3. unlink the staged name; 4. fsync the folder.
        A crash before 2 leaves a staged file, after it a published one and perhaps a leftover.

        Where no link leads from the staged file to its name (a mount of the same file system, a project of its own
        for quotas), it is copied beside its name before 2: no look tells that before the link is tried.
        """
        assert self._file is not None, "staged object published twice"
        folder, _, name = check_key(key).rpartition("/")
        assert self._target.as_posix().endswith(folder), "published into another folder than staged for"
        final = self._target / name
        try:
            self._crash_point("sync the staged file")
            self._file.sync()
            self._crash_point("link the name")
            self._link(final)
            self._crash_point("unlink the staged name")
        finally:
            self.discard()
        self._crash_point("sync the folder")
        with os_errors_as_ours(final.parent):
            sync_folder(final.parent)

    def _link(self, final: Path) -> None:
        try:
            try:
                os.link(self._path, final)
            except OSError as error:
                if error.errno != errno.EXDEV or self._path.parent == self._target:
                    raise
                self._copy_to_target()
                os.link(self._path, final)
        except FileExistsError as error:
            # A network file system may do the link, lose the answer, and say "exists" to the retry.
            if not self._is_linked_to(final):
                raise ObjectExistsError(f"{final} exists already", key=str(final)) from error
        except OSError as error:
            if not self._is_linked_to(final):
                raise store_error(error, final) from error

    def _copy_to_target(self) -> None:
        """Goes on with a durable copy in the target's folder instead, and drops the file that was written."""
        self._crash_point("copy the staged file")
        copy = self._target / self._path.name
        copied = StagedFile(copy, _create_locked(copy), target=self._target, crash_point=self._crash_point)
        try:
            with self._path.open("rb") as written:
                shutil.copyfileobj(written, copied.file, _COPY_BYTES)
            assert copied._file is not None, "a copy is not published by itself"
            copied._file.sync()
        except BaseException:
            copied.discard()
            raise
        self.discard()
        self._path, self._file = copied._path, copied._file

    def _is_linked_to(self, final: Path) -> bool:
        try:
            return final.samefile(self._path)
        except OSError:
            return False

    def discard(self) -> None:
        """Removes the staged name, then lets go of the lock; best effort, as a sweep finds what stays."""
        if self._file is None:
            return
        file, self._file = self._file, None
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
        file.close()


def _create_locked(path: Path) -> int:
    with os_errors_as_ours(path):
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
        # Not every network file system can lock; age alone protects the file there.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def remove_if_abandoned(path: Path, *, written_before_seconds: float) -> bool:
    """Removes a staged file if no live writer can own it; returns whether it did.

    Both must hold: it was last written before ``written_before_seconds`` (Unix time), and its lock is free.
    Were a live writer's file removed all the same (a share without locks, a clock far off), that writer's
    publish fails and is tried again: work is lost, never data.
    """
    try:
        if path.stat().st_mtime >= written_before_seconds:
            return False
        # For writing, as network file systems want it for a lock; no waiting at something that is not a file.
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False  # published, discarded or not ours to read: nothing to sweep
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    except OSError:
        return False  # locked: its writer lives
    finally:
        os.close(descriptor)
    return True


def sync_folder(folder: Path) -> None:
    """Makes the names in ``folder`` durable.

    Raises:
        OSError: the folder cannot be opened or synced.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
