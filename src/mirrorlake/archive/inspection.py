"""Looking at an archived partition without a source: its names, what its files say, and whether they are what they say.

Reads only, and finds everything that is wrong, not the first thing only.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.names import parse_claim_name, parse_level_folder, parse_partition_folder, parse_segment_name
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.archive.snapshots.view import check_snapshot_content
from mirrorlake.errors import ChainBrokenError, MirrorlakeError
from mirrorlake.stores.object_store import ObjectStore

Folder = ArchivedPartition | SnapshotPartition

LOOKS = 2
"""What merging or retention is changing may look broken once; what is broken stays so."""


@dataclass(slots=True)
class NamesReport:
    """What the names of a partition say. ``position`` is the last segment's end; offsets are 0 where there is none."""

    segments: int = 0
    start_offset: int = 0
    position: int = 0
    size_bytes: int = 0
    claims: int = 0
    problems: list[MirrorlakeError] = field(default_factory=list)

    def take(self, segment: Segment) -> None:
        """Counts the next segment of the chain."""
        if not self.segments:
            self.start_offset = segment.name.from_offset
        self.segments += 1
        self.position = max(self.position, segment.name.end_offset)
        self.size_bytes += segment.size_bytes


def archived_folders(store: ObjectStore) -> Iterator[tuple[str, int]]:
    """Yields the name and number of every partition folder of a store, in the order of names and then numbers.

    Raises:
        MirrorlakeError: the store could not be read.
    """
    for name in store.folders(""):
        numbers = (parse_partition_folder(folder) for folder in store.folders(name))
        for number in sorted(number for number in numbers if number is not None):
            yield name, number


def extension_found(store: ObjectStore, prefix: str) -> str | None:
    """Returns the extension of the first segment of a partition's folder, merged ones included; None without any."""
    if first := first_segment(store, prefix):
        return first.name.extension
    for folder in filter(parse_level_folder, store.folders(prefix)):
        if extension := extension_found(store, f"{prefix}/{folder}"):
            return extension
    return None


def first_segment(store: ObjectStore, prefix: str) -> Segment | None:
    """Returns the first segment of a partition's folder, of whatever format."""
    for info in store.list(prefix):
        if name := parse_segment_name(info.name):
            return Segment(name=name, size_bytes=info.size_bytes)
    return None


def are_snapshots(store: ObjectStore, prefix: str) -> bool:
    """Tells whether the first file of a folder says that it is a snapshot; mirror-v3's do not say.

    Raises:
        MirrorlakeError: the store could not be read; a damaged file says nothing.
    """
    first = first_segment(store, prefix)
    if first is None:
        return False
    try:
        with open_segment(store, f"{prefix}/{first.name}") as reader:
            return reader.footer is not None and reader.footer.snapshot is not None
    except ChainBrokenError:
        return False


def inspect_names(archived: Folder) -> NamesReport:
    """Walks all names of a partition.

    Raises:
        MirrorlakeError: the store could not be read.
    """
    for _ in range(LOOKS):
        report = NamesReport()
        for segment in archived.survey(refuse=report.problems.append):
            report.take(segment)
        if not report.problems:
            break
    if not report.problems:
        try:
            archived.read_chain()
        except ChainBrokenError as error:
            report.problems.append(error)  # what is missing at the end, where no later name shows it
    # Behind all segments, so this is short.
    report.claims = sum(
        parse_claim_name(info.name) is not None for info in archived.store.list(archived.prefix, start_after="_")
    )
    return report


def all_segments(archived: Folder) -> Iterator[Segment]:
    """Yields the segments of a chain as far as it is one; what is wrong with it is for `inspect_names`."""
    return archived.survey(refuse=_pass_over)


def footer_of(archived: Folder, segment: Segment) -> SegmentFooter | None:
    """Returns what a segment says about itself; None where mirror-v3 wrote it.

    Raises:
        ChainBrokenError: damaged.
        MirrorlakeError: it could not be read.
    """
    with open_segment(archived.store, key_of(archived, segment)) as reader:
        return reader.footer


def check_segment(archived: Folder, segment: Segment) -> SegmentFooter | None:
    """Reads a segment whole and compares it with what it says and with its name.

    Args:
        archived: where it lies.
        segment: which.

    Returns:
        What it says of itself; None where mirror-v3 wrote it, or so it looks: `Succession` tells.

    Raises:
        ChainBrokenError: it was changed, cut, renamed or swapped; the text names it.
        MirrorlakeError: it could not be read.
    """
    if isinstance(archived, SnapshotPartition):
        footer = check_snapshot_content(archived, segment)
        if footer is not None:
            _check_place(archived, segment, footer)
        return footer
    key = key_of(archived, segment)
    with open_segment(archived.store, key) as reader:
        footer = reader.footer
        if footer is None:
            for columns in reader.records(within=None):
                low, high = int(columns.offsets[0]), int(columns.offsets[-1])
                if low < segment.name.from_offset or high > segment.name.to_offset:
                    raise _misplaced(key, f"holds offsets {low} to {high}", f"it covers {segment.name.offsets}")
            return None
        if footer.offsets != segment.name.offsets:
            covers = f"says of itself that it covers {footer.offsets}"
            raise _misplaced(key, covers, f"it covers {segment.name.offsets}")
        _check_place(archived, segment, footer)
        counted = footer.records + sum(footer.gap_offsets.values())
        if counted != len(footer.offsets):
            raise ChainBrokenError(
                f"{key} says of itself that {counted} offsets are records or gaps, of {len(footer.offsets)} it covers",
                hint="the file is damaged: put it back from a copy, or archive the range again",
                key=key,
            )
        reader.check_content()
    return footer


def _check_place(archived: Folder, segment: Segment, footer: SegmentFooter) -> None:
    if footer.envelope.partition != archived.partition:
        holds = f"holds partition {footer.envelope.partition}"
        raise _misplaced(key_of(archived, segment), holds, f"it holds partition {archived.partition}")


def key_of(archived: Folder, segment: Segment) -> str:
    """Returns the key of a segment in its store."""
    return f"{archived.prefix}/{segment.path}"


def _misplaced(key: str, what: str, by_name: str) -> ChainBrokenError:
    return ChainBrokenError(
        f"{key} {what}, its place says that {by_name}",
        hint="the file was renamed or swapped: put the right one back",
        key=key,
    )


def _pass_over(error: ChainBrokenError) -> None:
    pass
