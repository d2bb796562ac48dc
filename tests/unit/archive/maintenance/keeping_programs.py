"""What a merger, a retention run and a reader do, as programs for the model: the real code over a store that records.

What inputs hold is not read here: a segment's content follows from its range, and every world is checked for it.
"""

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.maintenance.cleaning import delete_covered
from mirrorlake.archive.maintenance.look import look_at
from mirrorlake.archive.maintenance.merge_plan import MergeGroup, MergeRules, MergeStep, plan_merge
from mirrorlake.archive.maintenance.publication import MergePublication
from mirrorlake.archive.maintenance.retiring import retire
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.errors import PositionMovedError
from mirrorlake.stores.memory import MemoryStore
from mirrorlake.stores.object_store import ObjectMissingError
from unit.archive.publish_model import ReplayStore
from unit.archive.test_publish_model import archived, source_bytes

Store = ReplayStore | MemoryStore


def _as_named(_: ArchivedPartition, __: Segment) -> None:
    """Reads nothing: what segments hold follows from their names here."""


def rules(files_max: int) -> MergeRules:
    step = MergeStep(min_age_seconds=0, bytes_max=1_000_000)
    return MergeRules(steps=(step,), files_min=2, files_max=files_max, bytes_min=0)


def clean_up(store: Store) -> None:
    """What every merger begins and ends with: what is covered goes, and announcements that are done."""
    archive = archived(store)
    delete_covered(archive, look_at(archive), keep_seconds=0, now_seconds=0, prove=lambda cover, covered: None)


def merge_once(store: Store, *, token: str, files_max: int, skips: int = 0) -> None:
    """Plans and merges one group: an unfinished one, else the first behind ``skips`` segments at the old end.

    So of two mergers with other ``skips`` and ``files_max`` each wants what the other's output would overlap in part,
    as it happens where they look at times of their own.
    """
    archive = archived(store)
    look = look_at(archive)
    barriers = [each.name.from_offset for each in look.chain[skips : skips + 1]]
    groups = plan_merge(look, rules(files_max), now_seconds=0, barriers=barriers).groups
    wanted = [group for group in groups if group.is_unfinished or [group.offsets.start_offset] >= barriers]
    if wanted:
        merge_group(archive, wanted[0], token=token)


def merge_group(archive: ArchivedPartition, group: MergeGroup, *, token: str) -> None:
    """Publishes one segment in place of several, where nothing stands against it."""
    publication = MergePublication(archive, group.inputs, token=token, now_seconds=lambda: 0.0)
    staged = publication.stage()
    staged.file.write(source_bytes(group.offsets.start_offset, group.offsets.end_offset - 1))
    try:
        publication.announce()
    except PositionMovedError:
        return
    publication.publish(staged)
    publication.release()


def retain_one(store: Store, *, token: str = "r") -> None:
    """One run of retention that wants the oldest segment to go."""
    archive = archived(store)
    look = look_at(archive)
    floor = look.chain[0].name.end_offset if look.chain else 0
    # Long after any announcement was made: a merge that looks dead is passed over, and may be alive.
    retire(archive, floor, now_seconds=0, token=token, believe=_as_named)


def retain_to(store: Store, *, floor: int, token: str = "r") -> None:
    """One run of retention that wants everything below ``floor`` to go; run again, it wants nothing more."""
    retire(archived(store), floor, now_seconds=0, token=token, believe=_as_named)


def read_all(store: Store) -> None:
    """A restore: reads from the beginning to the position it found, through whatever happens meanwhile."""
    archive = archived(store)
    position: int | None = None
    while True:
        try:
            chain = archive.read_chain()
            for segment in archive.segments(chain):
                if position is not None and segment.name.end_offset <= position:
                    continue
                content = store.read(f"{archive.prefix}/{segment.name}")
                assert content == source_bytes(segment.name.from_offset, segment.name.to_offset)
                if position is not None:
                    # What retention took meanwhile is no longer there to be read, and the chain says so.
                    assert segment.name.from_offset <= max(position, chain.start_offset), "offsets were passed over"
                position = segment.name.end_offset
        except (PositionMovedError, ObjectMissingError):
            continue
        assert position == chain.position
        return
