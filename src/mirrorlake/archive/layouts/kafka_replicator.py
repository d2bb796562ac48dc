"""kafka-replicator's layout: levels of files whose ranges may overlap, as one chain of segments.

Below the region's folder lie ``{topic}/{partition}/{level}/{first}-{last}``, offsets of 20 digits, both inclusive. A
higher level is what its compaction made of a lower one, whose files may be there still; a writer that died between a
file and its commit leaves files that overlap. All files of one partition hold the same record at the same offset, so
any of them serves it.

What is listed is made of one listing of all levels: files that others cover are left out, and of two that overlap the
later one serves what lies behind the earlier one.
"""

import heapq
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO

from mirrorlake.archive.formats.interface import SegmentReader
from mirrorlake.archive.layouts.foreign_store import ForeignStore
from mirrorlake.archive.looks import LOOKS_MAX, moved
from mirrorlake.archive.names import (
    LAST_OFFSET_MAX,
    SegmentName,
    floor_name,
    padded,
    parse_partition_folder,
    parse_segment_name,
)
from mirrorlake.errors import ChainBrokenError
from mirrorlake.foreign_layout import BeginsAt, KafkaReplicatorLayout
from mirrorlake.offsets import OffsetRange
from mirrorlake.stores.object_store import ObjectInfo, ObjectMissingError, ObjectStore

PLACES_MAX = 1000
"""Names of opened segments whose files are remembered: as many as are open between two calls, and far more."""

_FILE = re.compile(r"([0-9]{20})-([0-9]{20})", re.ASCII)
_LEVEL = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ReplicatorFile:
    """One file of a partition, by its name. Ordered by first offset, last offset and level.

    ``last_offset`` is inclusive, as in the name.
    """

    first_offset: int
    last_offset: int
    level: int
    partition_folder: str

    @property
    def key(self) -> str:
        """The file's key in its store."""
        return f"{self.partition_folder}/{self.level}/{padded(self.first_offset)}-{padded(self.last_offset)}"


class KafkaReplicatorStore(ForeignStore):
    """Shows one region of kafka-replicator's bucket.

    Args:
        store: its bucket, or a copy, from its key prefix (``data`` by default) on.
        layout: which region, and what is made of what the files do not say.
    """

    def __init__(self, store: ObjectStore, layout: KafkaReplicatorLayout) -> None:
        super().__init__(store)
        self._layout = layout
        self._places: dict[str, ReplicatorFile] = {}

    def folders(self, prefix: str) -> Iterator[str]:
        """Yields topics in the root, partitions in a topic; see `ForeignStore.folders`."""
        if prefix.count("/"):
            return iter(())
        return self._store.folders(f"{self._layout.region}/{prefix}" if prefix else self._layout.region)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yields the segments of a partition, which never overlap; see `ForeignStore.list`.

        Lists all levels whatever ``start_after`` says: a file may come that begins before those that are known.
        """
        if (folder := self._partition_folder(prefix)) is None:
            return
        first_offset, position = None, 0
        for file, info in _longest(self._files(folder)):
            if file.last_offset < position:
                continue
            start = max(file.first_offset, position)
            first_offset = start if first_offset is None else first_offset
            position = file.last_offset + 1
            name = str(SegmentName(from_offset=start, to_offset=file.last_offset, extension="parquet"))
            if name > start_after:
                yield replace(info, key=f"{prefix}/{name}")
        if first_offset and self._layout.begins_at is BeginsAt.FIRST_SEGMENT:
            yield ObjectInfo(key=f"{prefix}/{floor_name(first_offset)}", size_bytes=0)

    def open(self, key: str) -> BinaryIO:
        """Returns the file that serves a segment; see `ForeignStore.open`."""
        _, opened = self._found(key)
        return opened

    def reader(self, key: str, opened: BinaryIO | None) -> SegmentReader:
        """Returns the reader of a segment; see `ForeignStore.reader`."""
        # Who only looks at names need not load what reads them.
        from mirrorlake.archive.formats.kafka_replicator import KafkaReplicatorReader

        file = self._places.get(key) if opened is not None else None
        if file is None or opened is None:
            file, again = self._found(key)
            if opened is None:
                opened = again
            else:
                again.close()
        topic, partition, name = key.split("/")
        segment = parse_segment_name(name)
        assert segment is not None, "a key that was opened"
        return KafkaReplicatorReader(
            opened,
            where=file.key,
            topic=topic,
            partition=int(partition),
            region=self._layout.region,
            held=OffsetRange(start_offset=file.first_offset, end_offset=file.last_offset + 1),
            served=segment.offsets,
            null_for_empty=self._layout.null_for_empty,
        )

    def _found(self, key: str) -> tuple[ReplicatorFile, BinaryIO]:
        """Returns the file that serves a segment, opened.

        Raises:
            ObjectMissingError: it is gone; a larger one may cover it now.
        """
        prefix, _, name = key.rpartition("/")
        folder, segment = self._partition_folder(prefix), parse_segment_name(name)
        if folder is None or segment is None:
            raise ObjectMissingError(f"no object {key}", key=key)
        for file in self._candidates(folder, segment):
            try:
                opened = self._store.open(file.key)
            except ObjectMissingError:
                continue
            if len(self._places) >= PLACES_MAX:
                self._places.clear()
            self._places[key] = file
            return file, opened
        raise ObjectMissingError(f"no file of {folder} serves the offsets {segment.offsets}", key=key)

    def _candidates(self, folder: str, segment: SegmentName) -> Iterator[ReplicatorFile]:
        """Yields files that may serve a segment: those of its very name first, which need no listing."""
        for level in reversed(self._levels(folder)):
            yield ReplicatorFile(
                first_offset=segment.from_offset,
                last_offset=segment.to_offset,
                level=level,
                partition_folder=folder,
            )
        for file, _ in self._files(folder):
            if file.first_offset < segment.from_offset and file.last_offset == segment.to_offset:
                yield file

    def _partition_folder(self, prefix: str) -> str | None:
        """Returns where the files of a partition lie; None for any other folder."""
        topic, _, number = prefix.rpartition("/")
        if not topic or "/" in topic or parse_partition_folder(number) is None:
            return None
        return f"{self._layout.region}/{prefix}"

    def _files(self, folder: str) -> Iterator[tuple[ReplicatorFile, ObjectInfo]]:
        """Yields the files of all levels, in their order.

        Compaction publishes in a higher level before it deletes in a lower one. So the lowest level is listed first,
        and the levels once more when each was begun: where a partition begins may be concluded from what is shown.

        Raises:
            ChainBrokenError: a name that the layout does not have.
            PositionMovedError: levels were made faster than they could be listed.
        """
        for info in self._store.list(folder):
            raise _foreign(info.key)
        levels = self._levels(folder)
        for _ in range(LOOKS_MAX):
            merged = heapq.merge(*(self._level(folder, level) for level in levels), key=lambda each: each[0])
            first = next(merged, None)
            before, levels = levels, self._levels(folder)
            if before == levels:
                yield from itertools.chain([] if first is None else [first], merged)
                return
        raise moved(folder)

    def _levels(self, folder: str) -> Sequence[int]:
        """Returns the levels there are, the lowest first."""
        names = [*self._store.folders(folder)]
        for name in names:
            if not _LEVEL.fullmatch(name):
                raise _foreign(f"{folder}/{name}")
        return sorted(map(int, names))

    def _level(self, folder: str, level: int) -> Iterator[tuple[ReplicatorFile, ObjectInfo]]:
        for info in self._store.list(f"{folder}/{level}"):
            match = _FILE.fullmatch(info.name)
            if match is None or not int(match[1]) <= int(match[2]) <= LAST_OFFSET_MAX:
                raise _foreign(info.key)
            file = ReplicatorFile(
                first_offset=int(match[1]), last_offset=int(match[2]), level=level, partition_folder=folder
            )
            yield file, info


def _longest(files: Iterator[tuple[ReplicatorFile, ObjectInfo]]) -> Iterator[tuple[ReplicatorFile, ObjectInfo]]:
    """Yields of the files with one first offset the longest, of two as long the one of the higher level."""
    for _, alike in itertools.groupby(files, key=lambda each: each[0].first_offset):
        *_, longest = alike
        yield longest


def _foreign(key: str) -> ChainBrokenError:
    return ChainBrokenError(
        f"{key!r} is not a name kafka-replicator writes: its files are named like "
        f"{{level}}/{padded(0)}-{padded(99)} below a partition's folder",
        hint="move it out of the folder",
        name=key,
    )
