"""The marker in the root of an archive: that one is there, and which.

An archive without it is one of mirror-v3 or of a version before; the next run adds it.
"""

import uuid
from dataclasses import asdict, dataclass

from mirrorlake.archive.marker_content import damaged, decode_marker, encode_marker, text_of, time_of
from mirrorlake.errors import StoreUnusableError
from mirrorlake.stores.object_store import ObjectExistsError, ObjectMissingError, ObjectStore

ROOT_MARKER = "_mirrorlake.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RootMarker:
    """What stands in the root of an archive. ``created_at`` and ``writer`` are for people."""

    archive_id: str
    created_at: str
    writer: str


def read_root_marker(store: ObjectStore) -> RootMarker | None:
    """Returns the marker of an archive's root, or None where there is none.

    Raises:
        ChainBrokenError: it cannot be read.
        UnsupportedError: a later version wrote it.
        MirrorlakeError: the store could not be read.
    """
    try:
        fields = decode_marker(store.read(ROOT_MARKER), where=ROOT_MARKER)
    except ObjectMissingError:
        return None
    try:
        return RootMarker(
            archive_id=text_of(fields["archive_id"]),
            created_at=text_of(fields["created_at"]),
            writer=text_of(fields["writer"]),
        )
    except (KeyError, TypeError) as error:
        raise damaged(ROOT_MARKER) from error


def ensure_root_marker(store: ObjectStore, *, writer: str, now_seconds: float) -> RootMarker:
    """Returns the marker of an archive's root, made now where there was none. Idempotent.

    Raises:
        ChainBrokenError, UnsupportedError: see `read_root_marker`.
        MirrorlakeError: the store could not be read or written.
    """
    if there := read_root_marker(store):
        return there
    marker = RootMarker(archive_id=str(uuid.uuid4()), created_at=time_of(now_seconds), writer=writer)
    try:
        store.create(ROOT_MARKER, encode_marker(asdict(marker)))
    except ObjectExistsError:
        if there := read_root_marker(store):
            return there
        raise
    return marker


def check_root(store: ObjectStore, archive_id: str, *, where: str) -> None:
    """Checks that a root still is that of the archive that was there before.

    Args:
        store: the root.
        archive_id: of the archive that was seen there.
        where: the marker's place, for the message.

    Raises:
        StoreUnusableError: its marker is gone, or another archive's.
        MirrorlakeError: see `read_root_marker`.
    """
    found = read_root_marker(store)
    if found is not None and found.archive_id == archive_id:
        return
    now = f"is of archive {found.archive_id}" if found else "is gone"
    raise StoreUnusableError(
        f"{where} {now}, and archive {archive_id} was there before: another file system may be mounted there, or none",
        hint="mount the one that was there, then restart",
        expected=archive_id,
        found=found.archive_id if found else "",
    )
