"""What an eraser does, and mergers that read what they merge, as programs for the model: the real publication.

The victim is one record; erased it leaves a mark of its own, so that a world shows which segments still hold it. What
an eraser says to its user is part of the world too: an object beside the archive, made once it says that it is done.
"""

import contextlib

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.maintenance.cleaning import delete_covered, delete_retired
from mirrorlake.archive.maintenance.erase_plan import plan_erasure
from mirrorlake.archive.maintenance.look import look_at
from mirrorlake.archive.maintenance.merge_plan import plan_merge
from mirrorlake.archive.maintenance.publication import MergePublication
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.errors import PositionMovedError
from mirrorlake.stores.memory import MemoryStore
from mirrorlake.stores.object_store import ObjectExistsError, ObjectMissingError
from unit.archive.maintenance.keeping_programs import rules
from unit.archive.publish_model import ReplayStore
from unit.archive.test_publish_model import archived

Store = ReplayStore | MemoryStore

VICTIM = b"record 1\n"
ERASED = b"erased 1\n"
SAID = "said/erased"
"""The key of what an eraser tells its user."""


def merge_reading(store: Store, *, token: str, files_max: int, skips: int = 0) -> None:
    """Merges as a merger does: what it read is what it publishes, however late."""
    archive = archived(store)
    look = look_at(archive)
    barriers = [each.name.from_offset for each in look.chain[skips : skips + 1]]
    groups = plan_merge(look, rules(files_max), now_seconds=0, barriers=barriers).groups
    wanted = [group for group in groups if group.is_unfinished or [group.offsets.start_offset] >= barriers]
    if not wanted:
        return
    inputs = wanted[0].inputs
    if (content := read_inputs(archive, inputs)) is None:
        return
    publication = MergePublication(archive, inputs, token=token, now_seconds=lambda: 0.0)
    staged = publication.stage()
    staged.file.write(content)
    with contextlib.suppress(PositionMovedError):
        publication.announce()
        publication.publish(staged)
        publication.release()
        clean(store)


def erase_once(store: Store, *, token: str, victim: bytes = VICTIM, erased: bytes = ERASED, said: str = SAID) -> None:
    """One run of an eraser: whatever of the victim's segments can be rewritten now is; then it says how it went."""
    archive = archived(store)
    clean(store)
    look = look_at(archive)
    holding = set()
    for segment in look.chain:
        try:
            content = store.read(f"{archive.prefix}/{segment.name}")
        except ObjectMissingError:
            return  # merged or retired meanwhile: run again
        if victim in content:
            holding.add(segment.name)
    if not holding and not look.covered and not look.retired:
        say(store, said)
        return
    for group in plan_erasure(look, holding, now_seconds=0.0).groups:
        if (before := read_inputs(archive, group.inputs)) is None:
            return
        publication = MergePublication(archive, group.inputs, token=token, erases=True, now_seconds=lambda: 0.0)
        staged = publication.stage()
        staged.file.write(before.replace(victim, erased))
        try:
            publication.announce()
            is_ours = publication.publish(staged)
            publication.confirm()
        except PositionMovedError:
            return
        publication.release()
        clean(store)
        if is_ours:
            say(store, said)


def read_inputs(archive: ArchivedPartition, inputs: tuple[Segment, ...]) -> bytes | None:
    """Returns what the inputs hold; None where one is gone."""
    try:
        return b"".join(archive.store.read(f"{archive.prefix}/{each.name}") for each in inputs)
    except ObjectMissingError:
        return None


def clean(store: Store) -> None:
    """Deletes what is covered or retired, as every eraser does, and whoever cleans a folder."""
    archive = archived(store)
    look = look_at(archive)
    delete_covered(archive, look, keep_seconds=0, now_seconds=0, prove=lambda cover, covered: None)
    delete_retired(archive, look)


def say(store: Store, said: str) -> None:
    """Tells the user that the record is gone."""
    with contextlib.suppress(ObjectExistsError):
        store.create(said, b"")
