"""An archive's store on a file system: staged apart from the target, made durable, and linked into place.

Nothing is ever renamed over an existing file: ``link`` fails where the name is taken, which is the one
condition that lets several writers share a folder.
"""

import errno
import os
import stat
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from mirrorlake.clock import Clock, SystemClock
from mirrorlake.errors import MirrorlakeError, StoreUnusableError
from mirrorlake.stores.crash_points import CrashPoint, no_crash
from mirrorlake.stores.object_store import (
    PROBE_NAME,
    ObjectExistsError,
    ObjectInfo,
    ObjectMissingError,
    check_key,
    check_key_part,
    check_prefix,
)
from mirrorlake.stores.os_errors import file_in_the_way, open_file, os_errors_as_ours, store_error
from mirrorlake.stores.staged_file import StagedFile, remove_if_abandoned, sync_folder
from mirrorlake.stores.staging import (
    STAGED_MARK,
    STAGING_FOLDER,
    staged_lead,
    staged_name,
    staging_prefix,
    usable_folder,
)

NFS_MARK = ".nfs"
"""How names begin that an NFS client gives to a deleted file while it is open; they go when it is closed."""

STALE_AFTER_SECONDS = 3600.0
"""Age at which an unlocked staged file is taken for a leftover: hundreds of leases, beyond any clock skew."""


class FilesystemStore:
    """Objects are files below ``root``; see `ObjectStore` for what each method promises.

    Folders are made by writing only; looking never changes anything. The root itself is never made: a missing
    mount must not turn into a second, empty archive.

    Args:
        root: an existing folder.
        missing_is_empty: a root that does not exist holds nothing yet, for who looks; writing needs it all the same.
        stale_after_seconds: how old a staged file must be, at least, before it may be swept.
        clock: tells how old staged files are.
        crash_point: called before every effect of publishing; for tests.
    """

    def __init__(
        self,
        root: Path,
        *,
        missing_is_empty: bool = False,
        stale_after_seconds: float = STALE_AFTER_SECONDS,
        clock: Clock | None = None,
        crash_point: CrashPoint = no_crash,
    ) -> None:
        self.root = root
        self._missing_is_empty = missing_is_empty
        self._stale_after_seconds = stale_after_seconds
        self._clock = clock or SystemClock()
        self._crash_point = crash_point
        self._durable_folders: set[Path] = set()

    @property
    def listing_page_objects(self) -> None:
        """None: a folder is read at once, wherever a listing starts."""
        return None

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yields the files directly in the folder, in the order of their names' bytes.

        Everything that is not a folder counts, symbolic links and sockets too, so that nothing foreign hides; but for
        what an NFS client leaves of a file that was deleted while somebody had it open.

        Names are read at once, and files are asked about one by one as the listing is read, which may take as long as
        its reader likes. So where some went meanwhile, what is behind the last one given out is read anew: the listing
        would else show neither them nor what was put in their place before they went, and end too early.
        """
        after, gone = os.fsencode(start_after), set[str]()
        while True:
            is_news = False
            for entry in self._scan(prefix, after=after):
                if STAGED_MARK in entry.name or entry.name.startswith(NFS_MARK) or _is_folder(entry):
                    continue
                info = self._info(prefix, entry)
                if info is None:
                    # A client of NFS may show such a name for a while: once read anew, it is passed over.
                    is_news |= entry.name not in gone
                    gone.add(entry.name)
                    continue
                if is_news:
                    break
                yield info
                after = os.fsencode(entry.name)
            else:
                if not is_news:
                    return

    def _info(self, prefix: str, entry: os.DirEntry[str]) -> ObjectInfo | None:
        """Returns what a listing says of a file; None where it was deleted since the folder was read."""
        path = self._path(prefix) / entry.name
        try:
            found = entry.stat(follow_symlinks=True)
        except FileNotFoundError:
            # The entry says what it was when the folder was read: a link may have gone since.
            try:
                found = os.lstat(path)
            except FileNotFoundError:
                return None
            except OSError as error:
                raise store_error(error, path) from error
        except OSError as error:
            raise store_error(error, path) from error
        is_dangling = stat.S_ISLNK(found.st_mode)  # shown, so that it is refused
        return ObjectInfo(
            key=f"{prefix}/{entry.name}" if prefix else entry.name,
            size_bytes=0 if is_dangling else found.st_size,
            is_dangling=is_dangling,
            is_special=not is_dangling and not stat.S_ISREG(found.st_mode),
            modified_seconds=None if is_dangling else found.st_mtime,
        )

    def folders(self, prefix: str) -> Iterator[str]:
        """Yields the names of the folders directly in the folder, but for the one where files are staged.

        A link to the folder itself, or to one above it, is none: whoever went into it would never come to an end.
        """
        for entry in self._scan(prefix):
            if not _is_folder(entry) or (prefix and entry.name == STAGING_FOLDER):
                continue
            if not (entry.is_symlink() and _leads_up(self._path(prefix), entry.name)):
                yield entry.name

    def read(self, key: str) -> bytes:
        """Returns the whole file."""
        with self.open(key) as file, os_errors_as_ours(self._path(key)):
            return file.read()

    def open(self, key: str) -> BinaryIO:
        """Returns the file, opened for reading.

        Raises:
            StoreUnusableError: it is a folder, a pipe, a socket or a device.
        """
        path = self._path(check_key(key))
        try:
            return open_file(path)
        except FileNotFoundError:
            self._require_root(looks_only=True)
            raise ObjectMissingError(f"no file {path}", key=key) from None
        except OSError as error:
            raise store_error(error, path) from error

    def create(self, key: str, data: bytes) -> None:
        """Writes a small file: staged, made durable, linked."""
        prefix, _, name = check_key(key).rpartition("/")
        staged = self.stage(prefix, name)
        try:
            staged.file.write(data)
            staged.publish(key)
        except MirrorlakeError:
            staged.discard()
            raise

    def delete(self, key: str) -> None:
        """Removes the file. Not made durable: a name that returns after a power loss is deleted again."""
        path = self._path(check_key(key))
        with os_errors_as_ours(path):
            path.unlink(missing_ok=True)

    def stage(self, prefix: str, name: str) -> StagedFile:
        """Opens a file to be linked into the folder, which is made (and made durable) where it is missing.

        It lies where ``staging`` says, under ``_{folder}.{name}.tmp.{uuid}``.
        """
        check_key_part(name, what="staged object")
        folder = self._path(check_prefix(prefix))
        self._require_root()
        self._make_folder(folder)
        place = usable_folder(self._path(staging_prefix(prefix)), folder)
        return StagedFile.open(place, staged_name(prefix, name), target=folder, crash_point=self._crash_point)

    def sweep_staged(self, prefix: str) -> int:
        """Removes files staged for the folder that are old and that no live process holds; see `remove_if_abandoned`.

        They may lie in the folder itself too: those of earlier versions and of mirror-v3 do.
        """
        staging, lead = staging_prefix(prefix), staged_lead(prefix)
        apart = [entry for entry in self._scan(staging) if entry.name.startswith(lead)] if staging != prefix else []
        oldest_allowed = self._clock.now_seconds() - self._stale_after_seconds
        return sum(
            remove_if_abandoned(Path(entry.path), written_before_seconds=oldest_allowed)
            for entry in (*apart, *self._scan(prefix))
            if STAGED_MARK in entry.name and not _is_folder(entry)
        )

    def probe(self) -> None:
        """Writes two files of one name into the root and removes them: the second must lose.

        Files of probes that died before they removed theirs go first, once they are old enough to be nobody's.

        Raises:
            StoreUnusableError: the root is missing, not writable, or cannot hold hard links.
        """
        key = f"{PROBE_NAME}{uuid.uuid4()}"
        self._require_root()
        self._sweep_probes()
        try:
            self.create(key, b"first")
            try:
                self.create(key, b"second")
            except ObjectExistsError:
                pass
            else:
                raise self._unusable("lets a second create of one name win")
            if self.read(key) != b"first":
                raise self._unusable("changed a file that was there already")
        finally:
            self.delete(key)

    def _sweep_probes(self) -> None:
        """Removes what dead probes left, staged or published; never what a live one is writing."""
        oldest_allowed = self._clock.now_seconds() - self._stale_after_seconds
        for entry in self._scan("", after=os.fsencode(PROBE_NAME)):
            if not entry.name.startswith(PROBE_NAME):
                return
            remove_if_abandoned(self._path(entry.name), written_before_seconds=oldest_allowed)

    def _unusable(self, what: str) -> StoreUnusableError:
        return StoreUnusableError(
            f"the file system of {self.root} {what}",
            hint="two writers could overwrite each other there; use a file system with hard links",
            path=str(self.root),
        )

    def _path(self, key: str) -> Path:
        return self.root / key if key else self.root

    def _scan(self, prefix: str, *, after: bytes = b"") -> Sequence[os.DirEntry[str]]:
        """Returns the entries whose names are greater, in the order of their bytes; a missing folder has none."""
        folder = self._path(check_prefix(prefix))
        try:
            with os.scandir(folder) as entries:
                wanted = (entry for entry in entries if os.fsencode(entry.name) > after)
                return sorted(wanted, key=lambda entry: os.fsencode(entry.name))
        except FileNotFoundError:
            self._require_root(looks_only=True)
            return []
        except OSError as error:
            raise store_error(error, folder) from error

    def _require_root(self, *, looks_only: bool = False) -> None:
        try:
            is_folder = self.root.is_dir()
        except OSError as error:
            raise store_error(error, self.root) from error
        if is_folder:
            return
        if (in_the_way := file_in_the_way(self.root)) is not None:
            raise in_the_way
        if not (looks_only and self._missing_is_empty):
            raise StoreUnusableError(
                f"the archive's root {self.root} does not exist",
                hint="create it, or mount the file system that should be there; it is never made by itself",
                path=str(self.root),
                errno=errno.ENOENT,
            )

    def _make_folder(self, folder: Path) -> None:
        """Makes the missing folders between root and ``folder``, each durable before the next is used.

        Folders found are synced too, once per process: who made them may have died before it did so.
        """
        if folder in self._durable_folders and folder.is_dir():
            return
        upwards = [folder, *folder.parents]
        for path in reversed(upwards[: upwards.index(self.root)]):
            with os_errors_as_ours(path):
                path.mkdir(exist_ok=True)
                sync_folder(path.parent)
        self._durable_folders.add(folder)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=True)
    except OSError:
        return False  # a broken link: not a folder, so it shows up in the listing and is refused there


def _leads_up(folder: Path, name: str) -> bool:
    return folder.resolve().is_relative_to((folder / name).resolve())
