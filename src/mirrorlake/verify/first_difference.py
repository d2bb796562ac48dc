"""The first offset at which a copy differs from its source, in blocks whose digests do.

What the log cleaner took on one side only, and what was erased from an archive, is no difference (``verify.cleaned``).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mirrorlake.offsets import OffsetRange
from mirrorlake.service.status import StatusRow
from mirrorlake.verify.cleaned import Compacted, Suspect, compare, first_unexplained, without_erased
from mirrorlake.verify.digest_tasks import DigestTasks, copy_side, source_side
from mirrorlake.verify.slices import parts_of, slices


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """What differs, and what explains the rest.

    Attributes:
        difference: the first offset that differs and how; None where log cleaner and erasure explain all there is.
        was_cleaned: whether the source has none there and is compacted, or its log shows that it was.
        erased: how many of the source's records were erased from the copy; of those up to the difference.
        taken: how many of the source's records a cleaner took from the copy, likewise.
        first_taken: the first of these; None where there is none.
    """

    difference: tuple[int, str] | None
    was_cleaned: bool = False
    erased: int = 0
    taken: int = 0
    first_taken: int | None = None


def first_difference(tasks: DigestTasks, row: StatusRow, offsets: OffsetRange, blocks: Sequence[int]) -> Explained:
    """Returns the first difference that nothing explains, and what something does.

    Args:
        tasks: read sides in detail.
        row: whose.
        offsets: what is compared.
        blocks: those of it whose digests differ, ascending.

    Raises:
        MirrorlakeError: a side could not be read again.
    """
    suspects: list[Suspect] = []
    taken: list[int] = []
    found, erased = None, 0
    for part in parts_of(blocks, offsets):
        source, copy = (tasks.asked(row, side, part) for side in (source_side(row), copy_side(row)))
        left = without_erased(source.traces, copy.erased)
        erased += len(source.traces) - len(left)
        compacted = Compacted(
            source=row.target.source_is_compacted,
            copy=row.target.destination_is_compacted,
            source_shows=source.cleaned,
            copy_shows=copy.cleaned,
            copied=copy.copied,
        )
        found, more, tombstones = compare(left, copy.traces, compacted)
        suspects += more
        taken += tombstones
        if found is not None:
            break
    unexplained = _unexplained(tasks, row, offsets, suspects)
    if unexplained is not None:
        # A suspect's offset is one where the side that lacks it was cleaned.
        return Explained(
            difference=(unexplained.offset, unexplained.how),
            was_cleaned=unexplained.how == "extra",
            erased=erased,
        )
    taken += [suspect.offset for suspect in suspects if suspect.how == "missing"]
    return Explained(difference=found, erased=erased, taken=len(taken), first_taken=min(taken, default=None))


def _unexplained(
    tasks: DigestTasks, row: StatusRow, offsets: OffsetRange, suspects: Sequence[Suspect]
) -> Suspect | None:
    if not suspects:
        return None
    keys = frozenset(suspect.key_hash for suspect in suspects)
    start, end = suspects[0].offset, offsets.end_offset
    # What the cleaner took at the source may be for a later record that a copy which is behind has not got yet.
    source_end = max(end, row.source_end or end)
    latest: dict[int, int] = {}
    for side, until in ((source_side(row), source_end), (copy_side(row), end)):
        for part in slices(OffsetRange(start_offset=start, end_offset=until)):
            for key, offset in tasks.asked(row, side, part, latest_of=keys).latest.items():
                latest[key] = max(offset, latest.get(key, -1))
    return first_unexplained(suspects, latest)
