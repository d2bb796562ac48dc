"""Whether a store lets a run do what it is about to: tried out, folder by folder, before the first lasting change.

Rights may differ from folder to folder (a bucket's policy names prefixes, files have owners), and nothing but trying
proves one. So an empty object of a name of its own is created, read, listed and deleted where the run will do that.
"""

import contextlib
import itertools
import uuid
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from mirrorlake.archive.folder import PartitionFolder
from mirrorlake.archive.sidecar import FORMATS_WITH_SIDECAR, sidecar_folder
from mirrorlake.errors import MirrorlakeError, PermissionDeniedError, StoreUnusableError
from mirrorlake.service.archives.reports import READS_AT_ONCE
from mirrorlake.stores.object_store import PROBE_NAME, ObjectInfo, ObjectStore
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import StoreSettings

T = TypeVar("T")

DEAD_SECONDS = 3600.0
"""Age at which an object that a right was tried with is that of a run that died, or may not delete."""

Folders = tuple[StoreSettings, tuple[str, ...]]
"""A store, and the folders of it that a run will change."""


def folders_changed(archived: PartitionFolder) -> tuple[str, ...]:
    """Returns the folders that change with the segments of a partition: theirs, and that of their descriptions."""
    if archived.extension in FORMATS_WITH_SIDECAR:
        return archived.prefix, sidecar_folder(archived.prefix)
    return (archived.prefix,)


def refusals(asked: Sequence[tuple[T, Folders]]) -> list[tuple[T, MirrorlakeError]]:
    """Returns those of which a folder may not be changed, each with the right that is missing, in order."""

    def refusal(each: tuple[T, Folders]) -> MirrorlakeError | None:
        settings, prefixes = each[1]
        try:
            check_rights(settings, prefixes)
        except MirrorlakeError as error:
            return error
        return None

    with ThreadPoolExecutor(READS_AT_ONCE, thread_name_prefix="rights") as pool:
        found = list(pool.map(refusal, asked))
    return [(each, error) for (each, _), error in zip(asked, found, strict=True) if error is not None]


def check_rights(settings: StoreSettings, prefixes: Iterable[str]) -> None:
    """Tries in each folder whether objects may be listed, created, read and deleted; leaves nothing behind.

    Raises:
        PermissionDeniedError, StoreUnusableError: one is refused; the message names it and the folder. Where that is
            deleting, the empty object it was tried with stays.
        MirrorlakeError: the store could not be reached.
    """
    store = open_store(settings)
    for prefix in prefixes:
        _check_folder(store, prefix, where=settings.where(prefix))


def _check_folder(store: ObjectStore, prefix: str, *, where: str) -> None:
    name = f"{PROBE_NAME}{uuid.uuid4()}"
    key = f"{prefix}/{name}"
    with _naming("create", where):
        store.create(key, b"")
    try:
        with _naming("read", where):
            store.read(key)
        with _naming("list", where):
            # From there on, so that it takes one request however much the folder holds.
            names = store.list(prefix, start_after=PROBE_NAME)
            tried = [*itertools.takewhile(lambda info: info.name.startswith(PROBE_NAME), names)]
    except MirrorlakeError:
        with contextlib.suppress(MirrorlakeError):
            store.delete(key)
        raise
    own = next((info for info in tried if info.name == name), None)
    with _naming("delete", where):
        store.delete(key)
    for info in tried:
        if own is not None and _is_of_the_dead(info, own):
            store.delete(info.key)


def _is_of_the_dead(info: ObjectInfo, own: ObjectInfo) -> bool:
    """Tells by the store's clock whether whoever created an object is gone: it lies there for no more than moments."""
    if info.modified_seconds is None or own.modified_seconds is None:
        return False
    return info.modified_seconds < own.modified_seconds - DEAD_SECONDS


@contextlib.contextmanager
def _naming(right: str, where: str) -> Iterator[None]:
    """Says of a refusal which right is missing where."""
    try:
        yield
    except (PermissionDeniedError, StoreUnusableError) as error:
        raise type(error)(
            f"nothing was begun in {where}: the right to {right} objects there is missing ({error.message})",
            hint=error.hint,
            right=right,
        ) from error
