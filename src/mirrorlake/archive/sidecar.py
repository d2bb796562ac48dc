"""What is known of a segment whose format has no footer: a small object beside it, created before it.

``{name}/{partition}/{segment}`` is described by ``{name}/_meta/{partition}/{segment}.json``. The folder is not the
segments' own, so that listing those costs no more for it. A segment is never without its description, as that is
created first; and every writer of a range describes it under the same name, as the claim settles where it ends.

Two writers may hold different bytes of one range (the topic was compacted between their reads), and which of them
becomes the segment is open when both describe it. So a description names the checksum of the bytes it is about, and
where another one has the name, the next revision is taken, ``….1.json`` to ``….9.json``. Objects never change and
none of these is ever deleted before its segment, so all that there are stand in a row. A reader that finds one takes
it; one that finds several takes the one that names the checksum of the file.
"""

from dataclasses import replace
from enum import StrEnum
from typing import BinaryIO

from mirrorlake.archive.envelope import SegmentFooter, decode_footer, encode_footer
from mirrorlake.archive.formats.summing_file import sum_of
from mirrorlake.archive.names import RESERVED_MARK
from mirrorlake.archive.seal import OPEN_SEAL, flaw_of, sealed
from mirrorlake.errors import ChainBrokenError
from mirrorlake.stores.crash_points import CrashPoint, no_crash
from mirrorlake.stores.object_store import ObjectExistsError, ObjectMissingError, ObjectStore

SIDECAR_FOLDER = f"{RESERVED_MARK}meta"

FORMATS_WITH_SIDECAR = ("ndjson", "log")
"""By extension: formats whose files cannot say anything about themselves."""

REVISION_MAX = 9


FORMATS_OF_MIRROR_V3 = ("parquet", "ndjson")
"""By extension: formats in which a file that says nothing of itself may be mirror-v3's. Of others its description is
lost."""


class SidecarStep(StrEnum):
    """The steps that touch the store; the crash point is called with the next one before it happens."""

    CREATE = "create sidecar"
    READ = "read sidecar"


def sidecar_folder(partition_folder: str) -> str:
    """Returns the folder of the descriptions of a folder of segments.

    Raises:
        ValueError: not the folder of a partition.
    """
    topic, _, partition = partition_folder.rpartition("/")
    if not topic:
        raise ValueError(f"not the folder of a partition: {partition_folder!r}")
    return f"{topic}/{SIDECAR_FOLDER}/{partition}"


def sidecar_key(segment_key: str, revision: int = 0) -> str:
    """Returns the key of a revision of the description of a segment.

    Raises:
        ValueError: not the key of a segment.
    """
    folder, _, name = segment_key.rpartition("/")
    suffix = f".{revision}" if revision else ""
    return f"{sidecar_folder(folder)}/{name}{suffix}.json"


def create_sidecar(
    store: ObjectStore, segment_key: str, footer: SegmentFooter, *, crash_point: CrashPoint = no_crash
) -> None:
    """Describes a segment that is about to be published, unless somebody has described the same bytes already.

    Idempotent. To be called once the claim is settled, and before the segment is created.

    Raises:
        ChainBrokenError: all revisions are taken by other descriptions.
        StoreUnavailableError: unknown whether it is there; begin again from the position.
    """
    data = sealed(encode_footer(replace(footer, seal=OPEN_SEAL)) + b"\n")
    for revision in range(REVISION_MAX + 1):
        key = sidecar_key(segment_key, revision)
        crash_point(SidecarStep.CREATE)
        try:
            store.create(key, data)
        except ObjectExistsError:
            crash_point(SidecarStep.READ)
            if _describes_same(_read(store, key), footer):
                return
        else:
            return
    raise ChainBrokenError(
        f"{segment_key}: {REVISION_MAX + 1} descriptions of other contents are there, and no segment",
        hint=f"stop every writer of this archive, then delete {sidecar_key(segment_key)} and its revisions",
        key=segment_key,
    )


def find_sidecar(store: ObjectStore, segment_key: str, file: BinaryIO) -> SegmentFooter | None:
    """Returns the description of a segment, or None where it has none.

    Args:
        store: the archive's.
        segment_key: the segment.
        file: the same, seekable; read only where several descriptions are there.

    Raises:
        ChainBrokenError: there are some, and none is about these bytes, or the only one cannot be read.
        UnsupportedError: a later version wrote it.
    """
    found: list[SegmentFooter | None] = []
    for revision in range(REVISION_MAX + 1):
        try:
            found.append(_decode(store, sidecar_key(segment_key, revision)))
        except ObjectMissingError:
            break
    if not found:
        return None
    if len(found) == 1:
        if found[0] is None:
            raise _unfit(segment_key, "its description cannot be read")
        return found[0]
    actual = sum_of(file)
    for footer in found:
        if footer is not None and footer.file == actual:
            return footer
    raise _unfit(segment_key, f"none of its {len(found)} descriptions is about its bytes")


def _describes_same(there: SegmentFooter | None, ours: SegmentFooter) -> bool:
    if there is None:
        return False
    ranges_equal = there.offsets == ours.offsets and there.records == ours.records
    return ranges_equal and there.file == ours.file and _source(there) == _source(ours)


def _source(footer: SegmentFooter) -> tuple[object, ...]:
    envelope = footer.envelope
    return envelope.cluster_id, envelope.topic_id, envelope.topic, envelope.partition


def _read(store: ObjectStore, key: str) -> SegmentFooter | None:
    try:
        return _decode(store, key)
    except ObjectMissingError:
        return None  # "exists", then gone: somebody cleans up by hand; the next revision is as good


def _decode(store: ObjectStore, key: str) -> SegmentFooter | None:
    """Returns a description, None where it is none: void for everybody, as objects never change."""
    data = store.read(key)
    try:
        footer = decode_footer(data, where=key)
    except ChainBrokenError:
        return None
    if footer.file is None or (footer.seal is not None and flaw_of(data, footer.seal)):
        return None
    return footer


def _unfit(segment_key: str, what: str) -> ChainBrokenError:
    return ChainBrokenError(
        f"{segment_key}: {what} ({sidecar_key(segment_key)})",
        hint="the file was changed, cut or swapped, or its description was: put both back from a copy, or archive the "
        "range again",
        key=segment_key,
    )


def undescribed(first_key: str, last_key: str) -> ChainBrokenError:
    """Returns the error for segments that have lost their descriptions; of the last one it is certain."""
    others = f", perhaps like others from {first_key} on" if first_key != last_key else ""
    return ChainBrokenError(
        f"{last_key} has no description ({sidecar_key(last_key)}){others}, and mirrorlake wrote the files beside it",
        hint="put it back from a copy, or archive the range again; if mirror-v3 wrote to this archive since, "
        "let mirrorlake continue it: its next segment says so",
        key=last_key,
    )


def check_described(key: str) -> None:
    """Checks that a segment which says nothing of itself may be one of mirror-v3.

    Raises:
        ChainBrokenError: mirror-v3 writes no such format: its description has been lost.
    """
    if key.rpartition(".")[2] not in FORMATS_OF_MIRROR_V3:
        raise ChainBrokenError(
            f"{key} has no description ({sidecar_key(key)}): its records can be read, and whose they are is not known",
            hint="put it back from a copy, or archive the range again",
            key=key,
        )
