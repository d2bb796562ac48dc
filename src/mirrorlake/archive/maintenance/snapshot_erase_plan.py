"""Which snapshots an erasure rewrites: a pure function of a look at a folder, of which hold the keys, and of holds.

Each snapshot is whole, so each that holds a key is rewritten by itself, older ones too: `keep-snapshots` keeps them for
who wants yesterday's view, of which one key is to go and not all others.
"""

from collections.abc import Collection, Sequence

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.maintenance.erase_plan import EraseGroup, ErasePlan, Waiting
from mirrorlake.archive.names import SegmentName
from mirrorlake.archive.snapshots.chain import replacing_name

NEWEST_OF_ONE_OFFSET = (
    "it is the newest snapshot, and its range of one offset leaves no other name for it: once the next one is written, "
    "run again"
)
REPLACED = "an eraser that was ended has put another snapshot in its place: run again, which deletes it"
DELETED = "its range of one offset leaves no other name for it: it goes, as newer snapshots are whole"


def plan_snapshot_erasure(
    snapshots: Sequence[Segment],
    replaced: Sequence[Segment],
    holding: Collection[SegmentName],
    *,
    labels: Sequence[str] = (),
) -> ErasePlan:
    """Returns which snapshots are rewritten, each by itself, and which have to wait.

    Args:
        snapshots: those that count, the oldest first.
        replaced: those in whose place others count, which a killed eraser has left.
        holding: the names of those that hold a key.
        labels: what the holds are called that hold anything of the partition: then all stay.
    """
    groups: list[EraseGroup] = []
    waiting: list[Waiting] = []
    for snapshot in sorted([*snapshots, *replaced], key=lambda each: each.name):
        if snapshot.name not in holding:
            continue
        has_name = replacing_name(snapshot.name) is not None
        if labels:
            held = f"held by {', '.join(labels)}: once that is lifted, run again"
            waiting.append(Waiting(segment=snapshot, reason=held))
        elif snapshot in replaced:
            waiting.append(Waiting(segment=snapshot, reason=REPLACED))
        elif not has_name and snapshot == snapshots[-1]:
            waiting.append(Waiting(segment=snapshot, reason=NEWEST_OF_ONE_OFFSET))
        else:
            note = "" if has_name else DELETED
            groups.append(EraseGroup(inputs=(snapshot,), holding=(snapshot.name,), note=note))
    return ErasePlan(groups=tuple(groups), waiting=tuple(waiting))
