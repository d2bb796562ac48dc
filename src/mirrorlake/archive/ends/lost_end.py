"""What still says that an archive had come further than it does: what is missing at its end shows nowhere in a chain.

The topic's record says how far it had come when that was last written; a claim is made at the position alone; and where
segments cannot say anything about themselves, each was described beside them before it was there (``sidecar``).
"""

from collections.abc import Callable, Sequence

from mirrorlake.archive.chain import Chain
from mirrorlake.archive.names import ClaimName, padded, parse_claim_name, parse_segment_name
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.sidecar import FORMATS_WITH_SIDECAR, sidecar_folder
from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.archive.topic_record import check_reached, recorded_end
from mirrorlake.errors import ChainBrokenError

Folder = ArchivedPartition | SnapshotPartition


def check_end_stands(archived: Folder, read_end: Callable[[], Chain], *, seen: int = 0) -> None:
    """Checks that an archive ends where it once did, or further, by all that is known of it.

    To be asked before anybody goes on without the offsets behind its end: of what it has lost, nothing would be left.

    Args:
        archived: the partition's folder.
        read_end: returns its checked end as it is now.
        seen: where this process has seen it end; 0 where it has not.

    Raises:
        ChainBrokenError: it ends before; or another thing is wrong with the end of its chain.
        MirrorlakeError: the store could not be read, or the topic's record cannot.
    """
    name = archived.prefix.rpartition("/")[0]
    reached = recorded_end(archived.store, name, archived.partition)
    claims = claims_in(archived)
    # Listed after those, as others may have published, and recorded it, since they were read.
    position = read_end().position
    check_reached(archived.store, name, archived.partition, reached=reached, position=position)
    if position < seen:
        remedy = f"stop this process and delete {name}/_topic*.json"
        raise _lost_newest(archived, position, f"this process has seen it end at {seen}", remedy=remedy)
    if (lost := lost_newest(archived, claims, position)) is not None:
        raise lost


def lost_newest(archived: Folder, claims: Sequence[ClaimName], position: int) -> ChainBrokenError | None:
    """Returns what says that a segment behind the last one was there, where no later name shows it; None where nothing.

    Nothing a live writer does meanwhile looks so: what is asked first can only be behind what is asked later.

    Args:
        archived: where to look.
        claims: as they were before ``position`` was read.
        position: the end of the last segment.

    Raises:
        ChainBrokenError: something else is wrong with the chain.
        MirrorlakeError: the store could not be read.
    """
    highest = max((claim.from_offset for claim in claims), default=0)
    if highest > position:
        # A claim is made at the position alone, so somebody has read it there.
        claim = ClaimName(from_offset=highest)
        remedy = f"delete the claims behind that offset in {archived.prefix}"
        return _lost_newest(archived, position, f"{claim} was claimed behind it", remedy=remedy)
    if described := _first_described(archived, position):
        key, from_offset = described
        # A claim goes once its segment is there: what is described and claimed is on its way, in this order.
        is_claimed = any(claim.from_offset == from_offset for claim in claims_in(archived))
        if not is_claimed and (now := archived.read_chain().position) <= from_offset:
            remedy = f"delete what {sidecar_folder(archived.prefix)} holds from {padded(from_offset)} on"
            return _lost_newest(archived, now, f"{key} describes one behind it", remedy=remedy)
    return None


def claims_in(archived: Folder) -> list[ClaimName]:
    """Returns the claims of a partition; they lie behind all segments, so this is short."""
    names = (info.name for info in archived.store.list(archived.prefix, start_after="_"))
    return [claim for name in names if (claim := parse_claim_name(name))]


def _first_described(archived: Folder, position: int) -> tuple[str, int] | None:
    """Returns key and start of the first description at or behind a position."""
    if archived.extension not in FORMATS_WITH_SIDECAR:
        return None
    for info in archived.store.list(sidecar_folder(archived.prefix), start_after=padded(position)):
        if name := parse_segment_name(".".join(info.name.split(".")[:2])):
            return info.key, name.from_offset
    return None


def _lost_newest(archived: Folder, position: int, what: str, *, remedy: str) -> ChainBrokenError:
    return ChainBrokenError(
        f"{archived.prefix} ends at offset {position}, and {what}: the newest segment is gone",
        hint="put it back from a copy; or let the mirror archive the range again, as long as the source has it; or "
        f"{remedy} to continue without it",
        position=position,
    )
