"""Where compiled kernels are kept, so that only the first process ever compiles them."""

import contextlib
import hashlib
import os
import stat
import sys
import tempfile
from importlib import resources
from pathlib import Path

from mirrorlake.cache_folder import user_cache_folder

_VARIABLE = "NUMBA_CACHE_DIR"

KERNEL_FOLDERS = ("kafka/records", "kafka/schema_ids", "archive/formats", "archive/formats/pages")
"""Where modules of kernels lie, in the package; their names end in ``kernels.py``."""


def prepare_kernel_cache() -> Path:
    """Points numba at a folder this user can write, and returns it; to be called before numba is imported.

    ``NUMBA_CACHE_DIR`` where it is set; else ``numba/<digest of the kernels>`` in the user's cache folder;
    else, where that cannot be written, the like in a folder for temporary files. numba tells stale kernels by
    the time stamp of their file alone, and wheels may all carry the same one: hence the digest. Without a
    folder numba refuses to import a kernel that is to be cached.

    Raises:
        ConfigurationError: as `user_cache_folder`.
    """
    if chosen := os.environ.get(_VARIABLE):
        return Path(chosen)
    folder = _writable_folder(_digest())
    os.environ[_VARIABLE] = str(folder)
    if "numba" in sys.modules:
        # Somebody was faster: numba has read the environment already.
        sys.modules["numba"].config.CACHE_DIR = str(folder)
    return folder


def _digest() -> str:
    digest = hashlib.sha256()
    # Through importlib, for executors that import the package from an archive.
    package = resources.files(__package__.partition(".")[0])
    for folder in KERNEL_FOLDERS:
        for source in sorted(package.joinpath(folder).iterdir(), key=lambda each: each.name):
            if source.name.endswith("kernels.py"):
                digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _writable_folder(digest: str) -> Path:
    try:
        folder = user_cache_folder() / "numba" / digest
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, RuntimeError):
        return _temporary_folder(digest)


def _temporary_folder(digest: str) -> Path:
    """Returns a folder that this user's processes share, or a new one where somebody else took its name."""
    user_id = os.getuid()
    shared = Path(tempfile.gettempdir()) / f"mirrorlake-numba-{user_id}"
    with contextlib.suppress(FileExistsError):
        shared.mkdir(mode=0o700)
    status = shared.lstat()
    # Compiled code will be run from here: nobody else may have put it there.
    if stat.S_ISDIR(status.st_mode) and status.st_uid == user_id and not status.st_mode & 0o022:
        folder = shared / digest
        folder.mkdir(exist_ok=True)
        return folder
    return Path(tempfile.mkdtemp(prefix="mirrorlake-numba-"))
