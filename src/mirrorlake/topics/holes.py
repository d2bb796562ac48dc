"""Which holes of an archive a mirror has waited for long enough. Reads only.

A hole is passed over where two looks of one process, at least `skip-after` apart, have shown it, none between them has
shown it closed, and segments lie behind it. A look that fails says nothing. What is decided goes with the plan: a
worker looks once more, and only offsets that are missing then become a gap.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from mirrorlake.clock import Clock, SystemClock
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.sources.archive.folder import Hole
from mirrorlake.sources.archive.work import ArchiveSourceWork

_log = structlog.get_logger("mirrorlake")


@dataclass
class PassedHoles:
    """What a process said of holes; kept for nothing but that it says each thing once."""

    by_partition: dict[TopicPartition, tuple[OffsetRange, ...]] = field(default_factory=dict)


async def with_passed_holes(
    work: ArchiveSourceWork,
    partitions: Sequence[TopicPartition],
    clients: WorkerCache,
    *,
    clock: Clock | None = None,
) -> ArchiveSourceWork:
    """Returns the source with the holes that are passed over from now on, by partition.

    A partition that could not be looked at has none.

    Raises:
        MirrorlakeError: the archive could not be asked.
    """
    assert work.skip_after_seconds is not None, "a mirror that waits for ever has nothing to decide"
    now = (clock or SystemClock()).elapsed_seconds()
    found = await work.client(clients).passable(partitions)
    passed = {each: _waited_for(holes, now, work.skip_after_seconds) for each, holes in found.items()}
    said = clients.kept(("passed holes", work.store, work.mirror), PassedHoles)
    _tell(work, said, found, passed)
    ranges = dict(work.ranges)
    for partition in partitions:
        ranges[partition] = replace(work.range_of(partition), passed=passed.get(partition, ()))
    return replace(work, ranges=ranges)


def _waited_for(holes: Sequence[Hole], now: float, skip_after_seconds: float) -> tuple[OffsetRange, ...]:
    return tuple(hole.offsets for hole in holes if now - hole.first_seen >= skip_after_seconds)


def _tell(
    work: ArchiveSourceWork,
    said: PassedHoles,
    found: Mapping[TopicPartition, Sequence[Hole]],
    passed: Mapping[TopicPartition, tuple[OffsetRange, ...]],
) -> None:
    for partition, now in passed.items():
        before = said.by_partition.get(partition, ())
        missing = {hole.offsets for hole in found[partition]}
        for offsets in now:
            if not any(_is_within(offsets, known) for known in before):
                _log.warning(
                    "missing segment is passed over",
                    mirror=work.mirror,
                    source=str(partition),
                    offsets=str(offsets),
                    hint="destinations record a gap; what comes later is not copied by those that stand behind it",
                )
        for offsets in before:
            if offsets not in missing:
                _log.warning(
                    "segment came after it was passed over",
                    mirror=work.mirror,
                    source=str(partition),
                    offsets=str(offsets),
                    hint="destinations that stand behind it have a gap there and do not copy it; `verify` names them",
                )
        said.by_partition[partition] = now


def _is_within(offsets: OffsetRange, other: OffsetRange) -> bool:
    return other.start_offset <= offsets.start_offset and offsets.end_offset <= other.end_offset
