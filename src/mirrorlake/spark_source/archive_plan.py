"""Which files and offsets of an archive a read takes: asked of the store, once, before any task begins."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.inspection import archived_folders, first_segment
from mirrorlake.archive.looks import LOOKS_MAX, moved
from mirrorlake.archive.names import partition_prefix
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.archive.topic_record import (
    check_reached,
    lost_topic,
    partitions_in,
    read_topic_record,
    recorded_topics,
)
from mirrorlake.errors import (
    ConfigurationError,
    MirrorlakeError,
    PositionMovedError,
    SourceTruncatedError,
    TopicMissingError,
)
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.spark_source.bounds import check_named, wanted_range
from mirrorlake.spark_source.request import Bound
from mirrorlake.spark_source.selection import ALL, Selection
from mirrorlake.spark_source.side_by_side import at_once, side_by_side
from mirrorlake.spark_source.tasks import Piece
from mirrorlake.stores.object_store import ObjectStore

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedTopicPartition:
    """One partition folder of an archive, with at least one file.

    Attributes:
        folder: of the topic.
        topic: whose records these are; named as the folder where no file says it.
        partition: its number.
        extension: of its files.
        is_snapshot: whether the files are views.
        reached: where it ended at least when it was found, as the topic's record says; 0 where that says nothing.
    """

    folder: str
    topic: str
    partition: int
    extension: str
    is_snapshot: bool
    reached: int = 0

    @property
    def prefix(self) -> str:
        """The folder of the partition."""
        return partition_prefix(self.folder, self.partition)

    @property
    def key(self) -> TopicPartition:
        """What options and stream offsets call it: by its folder, of which there is one, unlike topics."""
        return TopicPartition(self.folder, self.partition)


def find_partitions(
    store: ObjectStore,
    names: Sequence[str],
    patterns: Sequence[str],
    *,
    are_snapshots: bool | None = None,
    selection: Selection = ALL,
    known: Mapping[TopicPartition, ArchivedTopicPartition] | None = None,
) -> list[ArchivedTopicPartition]:
    """Returns the partitions of some topics' folders, in order; those without a file, or not wanted, are left out.

    Args:
        store: of the archive.
        names: of folders, each of which must be there.
        patterns: of folders, of which at least one must be there for each.
        are_snapshots: what the files are; None where they say it themselves.
        selection: what may be wanted.
        known: partitions found before, whose files are not looked at again.

    Raises:
        TopicMissingError: there is no such folder.
        ChainBrokenError: partitions that are on record are gone; or see `partitions_in`.
        MirrorlakeError: the store could not be read.
    """
    folders = {name: partitions_in(store, name) for name in names}
    for name, partitions in folders.items():
        if not partitions:
            raise _missing(store, name)
    if patterns:
        folders |= _matching(store, patterns)
    reached = {name: _reached(store, name) for name in sorted(folders)}
    wanted = [
        TopicPartition(name, partition)
        for name in reached
        for partition in sorted({*folders[name], *reached[name]})
        if selection.partitions.meets(partition, partition)
    ]

    def look_at(key: TopicPartition) -> ArchivedTopicPartition | None:
        return (known or {}).get(key) or _look(store, key.topic, key.partition, are_snapshots)

    found: list[ArchivedTopicPartition] = []
    for key, there in zip(wanted, side_by_side(look_at, wanted, at_once=at_once(store)), strict=True):
        once = reached[key.topic].get(key.partition, 0)
        if there is None:
            check_reached(store, key.topic, key.partition, reached=once, position=0)
        elif selection.may_hold_partition(there.topic, key.partition):
            found.append(replace(there, reached=once))
    return found


def _matching(store: ObjectStore, patterns: Sequence[str]) -> dict[str, frozenset[int]]:
    def pass_over(name: str, error: MirrorlakeError) -> None:
        if any(re.fullmatch(pattern, name) for pattern in patterns):
            raise error

    found = dict.fromkeys(name for name, _ in archived_folders(store, pass_over=pass_over))
    for name in recorded_topics(store) - found.keys():
        if any(re.fullmatch(pattern, name) for pattern in patterns):
            raise lost_topic(name)
    for pattern in patterns:
        if not any(re.fullmatch(pattern, name) for name in found):
            raise TopicMissingError(f"the archive has no topic that matches /{pattern}/", hint=_known(found))
    matching = (name for name in found if any(re.fullmatch(pattern, name) for pattern in patterns))
    return {name: partitions_in(store, name) for name in matching}


def _missing(store: ObjectStore, name: str) -> MirrorlakeError:
    if name in recorded_topics(store):
        return lost_topic(name)
    from mirrorlake.config.reading import suggestion  # loads the configuration's models

    known = {folder for folder, _ in archived_folders(store, pass_over=lambda _name, _error: None)}
    return TopicMissingError(f"the archive has no topic {name!r}", hint=suggestion(name, sorted(known)), topic=name)


def _known(found: Mapping[str, object]) -> str:
    names = sorted(found)
    return f"it has {', '.join(names[:8])}{' …' if len(names) > 8 else ''}" if names else "it has none at all"


def _reached(store: ObjectStore, name: str) -> Mapping[int, int]:
    record = read_topic_record(store, name)
    return record.reached if record is not None else {}


def _look(store: ObjectStore, name: str, partition: int, are_snapshots: bool | None) -> ArchivedTopicPartition | None:
    """Returns what the first file of a folder says of it all; None without one."""
    prefix = partition_prefix(name, partition)

    def look() -> ArchivedTopicPartition | None:
        first = first_segment(store, prefix)
        if first is None:
            return None
        with open_segment(store, f"{prefix}/{first.name}") as reader:
            footer = reader.footer
            topics = {footer.envelope.topic} if footer else {topic for topic, _ in reader.sources()}
            is_view = footer is not None and footer.snapshot is not None
        return ArchivedTopicPartition(
            folder=name,
            topic=topics.pop() if len(topics) == 1 else name,
            partition=partition,
            extension=first.name.extension,
            is_snapshot=is_view if are_snapshots is None else are_snapshots,
        )

    return _steadily(look, prefix)


def _steadily(look: Callable[[], T], where: str) -> T:
    """Returns what a look finds, taken again while files are merged or retired under it."""
    for _ in range(LOOKS_MAX):
        try:
            return look()
        except PositionMovedError:  # an object that is gone is one of these
            continue
    raise moved(where)


def held_segments(store: ObjectStore, of: ArchivedTopicPartition) -> tuple[OffsetRange, list[Segment]]:
    """Returns which offsets a partition covers, and the files that make it up, covered ones left out.

    Of snapshots that is the newest one, and all offsets below its end.

    Raises:
        ChainBrokenError: a hole, an overlap, or a name that is none of ours; or the last files are gone.
        PositionMovedError: it changes faster than it can be looked at.
        MirrorlakeError: the store could not be read.
    """
    if of.is_snapshot:
        chain = SnapshotPartition(
            store, destination_name=of.folder, partition=of.partition, extension=of.extension
        ).read_chain()
        check_reached(store, of.folder, of.partition, reached=of.reached, position=chain.position)
        return OffsetRange(start_offset=0, end_offset=chain.position), [chain.tail] if chain.tail else []
    archived = ArchivedPartition(store, destination_name=of.folder, partition=of.partition, extension=of.extension)

    def look() -> tuple[OffsetRange, list[Segment]]:
        chain, segments = archived.read_segments()
        return OffsetRange(start_offset=chain.start_offset, end_offset=chain.position), segments

    held, segments = _steadily(look, archived.prefix)
    check_reached(store, of.folder, of.partition, reached=of.reached, position=held.end_offset)
    return held, segments


def position_of(store: ObjectStore, of: ArchivedTopicPartition) -> int:
    """Returns where a partition ends now; in a bucket only its end is looked for.

    Raises:
        MirrorlakeError: see `held_segments`.
    """
    archived = ArchivedPartition(store, destination_name=of.folder, partition=of.partition, extension=of.extension)
    return _steadily(archived.find_end, of.prefix).position


def plan_batch(
    store: ObjectStore,
    partitions: Sequence[ArchivedTopicPartition],
    *,
    starting: Bound,
    ending: Bound,
    selection: Selection,
) -> Iterator[Piece]:
    """Yields the pieces that hold what is wanted, by topic, partition and offset; each offset is in one at most.

    Raises:
        SourceTruncatedError: an offset that is given is not there.
        ConfigurationError: an offset is given for a partition that is not read, or for a part of a snapshot.
        MirrorlakeError: see `held_segments`.
    """
    if selection == ALL:
        check_named((starting, ending), [each.key for each in partitions])
    looks = side_by_side(lambda each: held_segments(store, each), partitions, at_once=at_once(store))
    for each, (held, segments) in zip(partitions, looks, strict=True):
        wanted = wanted_range(each.key, held, starting=starting, ending=ending)
        if each.is_snapshot:
            if wanted != held:
                raise ConfigurationError(
                    f"{each.prefix} holds snapshots, and startingOffsets and endingOffsets ask for a part of one",
                    hint="a snapshot is the latest of every key up to its end, and of no offset before: read it whole, "
                    "and filter by the column offset",
                )
            yield from (_piece(each, held, segment) for segment in segments if selection.within(held))
        elif (within := selection.within(wanted)) is not None:
            yield from pieces_within(each, segments, within, selection)


def pieces_within(
    of: ArchivedTopicPartition, segments: Sequence[Segment], wanted: OffsetRange, selection: Selection = ALL
) -> Iterator[Piece]:
    """Yields one piece for each segment that holds offsets of a range which may be wanted."""
    for segment in segments:
        start = max(wanted.start_offset, segment.name.from_offset)
        end = min(wanted.end_offset, segment.name.end_offset)
        if start < end:
            offsets = OffsetRange(start_offset=start, end_offset=end)
            if (within := selection.within(offsets)) is not None:
                yield _piece(of, within, segment)


def plan_between(store: ObjectStore, of: ArchivedTopicPartition, wanted: OffsetRange) -> Iterator[Piece]:
    """Yields the pieces of exactly one range.

    Raises:
        SourceTruncatedError: the archive does not hold all of it.
        MirrorlakeError: see `held_segments`.
    """
    held, segments = held_segments(store, of)
    if wanted and not held.start_offset <= wanted.start_offset <= wanted.end_offset <= held.end_offset:
        raise SourceTruncatedError(
            f"{of.prefix} holds offsets {held}, and {wanted} is to be read: "
            + ("retention deleted the rest" if wanted.start_offset < held.start_offset else "its end is gone"),
            hint="begin the query anew with another checkpoint, or put the segments back",
            position=wanted.start_offset,
        )
    yield from pieces_within(of, segments, wanted)


def _piece(of: ArchivedTopicPartition, offsets: OffsetRange, segment: Segment) -> Piece:
    return Piece(
        topic=of.topic,
        partition=of.partition,
        offsets=offsets,
        folder=of.folder,
        file=str(segment.name),
        is_snapshot=of.is_snapshot,
        cost=max(1, segment.size_bytes * len(offsets) // max(1, len(segment.name.offsets))),
    )
